#!/usr/bin/env python3
"""scope_server.py LOG HOW... - workers that listen in as many ways

HOW is one of
    reuseport   two workers, each with a socket of its own on one port
    prefork     two workers on one socket, bound to [::] for IPv4 as well
    six         a worker on [::1]
    late        a worker that listens when the server gets SIGUSR1, on a port
    late-again  the same, but in a process that was there all the time
    many:N      a worker on N ports of 127.0.0.1
    unix:PATH   a worker on a UNIX socket; an abstract name begins with @
Prints the addresses as one line of JSON, {HOW: address}, those of late ones when
they are there.  Each worker appends to LOG a letter for what it does: s, a
request for tokens begins, c, it is answered, a, its client has gone.
"""
import json
import os
import signal
import socket
import sys
import threading
import time

HEAD = (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        b"transfer-encoding: chunked\r\n\r\n")
EVENT, END = b"9\r\ndata: a\n\n\r\n", b"0\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
EVENTS, PAUSE_S = 5, .001

LOG = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def say(addresses):
    os.write(1, (json.dumps(addresses) + "\n").encode())


class Peer:
    def __init__(self, s):
        self.s, self.rest = s, b""

    def ask(self):
        """The path and body of a request, None at the end."""
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                return None
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        n = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0]
                ) if b"ontent-" in head else 0
        while len(self.rest) < n:
            if not self.more():
                return None
        body, self.rest = self.rest[:n], self.rest[n:]
        return head.split(b" ")[1], body

    def more(self):
        b = self.s.recv(65536)
        self.rest += b
        return b

    def answer(self, body):
        if body == b"short":
            return self.s.sendall(SHORT)
        self.s.sendall(HEAD)
        n = 0
        while n < EVENTS or body == b"endless":
            self.s.sendall(EVENT)
            time.sleep(PAUSE_S)
            n += 1
        return self.s.sendall(END)

    def serve(self):
        try:
            while got := self.ask():
                path, body = got
                if path != b"/v1/completions":
                    self.s.sendall(SHORT)
                    continue
                os.write(LOG, b"s")
                try:
                    self.answer(body)
                    os.write(LOG, b"c")
                except OSError:
                    os.write(LOG, b"a")
                    break
        except OSError:
            pass
        self.s.close()


def accept(listener):
    while True:
        s = listener.accept()[0]
        threading.Thread(target=Peer(s).serve, daemon=True).start()


def worker(*listeners):
    if not os.fork():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        for s in listeners[1:]:
            threading.Thread(target=accept, args=(s,), daemon=True).start()
        accept(listeners[0])


def listen(family, address, reuse=False, both=False):
    s = socket.socket(family, socket.SOCK_STREAM)
    if reuse:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
    s.bind(address)
    s.listen(64)
    return s


def begin(how):
    """The address; of many: their list."""
    if how == "reuseport":
        first = listen(socket.AF_INET, ("127.0.0.1", 0), True)
        address = first.getsockname()
        worker(first)
        first.close()
        second = listen(socket.AF_INET, address, True)
        worker(second)
        second.close()
        return address
    if how.startswith("many:"):
        many = [listen(socket.AF_INET, ("127.0.0.1", 0))
                for _ in range(int(how[5:]))]
        worker(*many)
        return [s.getsockname() for s in many]
    if how == "prefork":
        s = listen(socket.AF_INET6, ("::", 0), both=True)
        worker(s)
        worker(s)
    elif how == "six":
        s = listen(socket.AF_INET6, ("::1", 0))
        worker(s)
    else:
        s = listen(socket.AF_UNIX, how[5:].replace("@", "\0"))
        worker(s)
        s.close()
        return how[5:]
    address = s.getsockname()
    s.close()
    return address


def late(*_):
    if not os.fork():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        time.sleep(.3)
        s = listen(socket.AF_INET, ("127.0.0.1", 0))
        say({"late": s.getsockname()})
        accept(s)


def late_again(pipe):
    os.read(pipe, 1)
    s = listen(socket.AF_INET, ("127.0.0.1", 0))
    say({"late-again": s.getsockname()})
    accept(s)


def main():
    hows = sys.argv[2:]
    ends = os.pipe()

    def on_signal(*_):
        late()
        os.write(ends[1], b"x")

    if "late-again" in hows and not os.fork():
        late_again(ends[0])
    say({how: begin(how) for how in hows if not how.startswith("late")})
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    while True:
        signal.pause()


main()
