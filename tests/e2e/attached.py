"""attached.py - connections in known states, and a tracker that comes to them"""
import json
import os
import socket
import subprocess
import time

from tap import wait

O = os.path.abspath(os.environ.get("O", "build"))
GENERATION = 1
ASK = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
HEAD = (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        b"transfer-encoding: chunked\r\n\r\n")
EVENT, END = b"9\r\ndata: a\n\n\r\n", b"0\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
QUICK_S = .03


class Connection:
    def __init__(self, listener):
        self.client = socket.create_connection(listener.getsockname())
        self.server = listener.accept()[0]
        for s in (self.client, self.server):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self):
        self.client.sendall(ASK)
        self.take(self.server, len(ASK))

    def answer(self, what):
        self.server.sendall(what)
        self.take(self.client, len(what))

    @staticmethod
    def take(s, n):
        while n:
            n -= len(s.recv(n))

    def close(self):
        self.server.close()
        self.client.close()


class Tracker:
    def __init__(self, rung, port, tmp):
        self.path = os.path.join(tmp, rung)
        with open(self.path, "w", encoding="ascii") as out:
            self.p = subprocess.Popen(
                [f"{O}/tests/e2e/trackdump", str(port)], stdout=out,
                stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=dict(os.environ, MOETOP_TRACKER=rung))
        self.runs = wait(lambda: os.path.getsize(self.path) or
                         self.p.poll() is not None)
        self.refused = self.p.poll() == 3

    def states(self):
        """All that were read so far."""
        with open(self.path, encoding="ascii") as f:
            for line in f:
                s = json.loads(line) if line.endswith("\n") else None
                if isinstance(s, dict) and "before_ns" in s:
                    yield s

    def state(self, since_s, agrees=lambda s: True):
        """The first state that was read after this moment, and agrees."""
        found = []

        def there():
            for s in self.states():
                if s["before_ns"] >= since_s * 1e9 and agrees(s):
                    found.append(s)
                    return True
            return False

        wait(there)
        return found[0] if found else None

    def stop(self):
        self.p.stdin.close()
        self.p.wait(120)


def answered_at_once(listener, what):
    """A connection whose last answer followed its request quickly; on a busy
    machine not every one is."""
    while True:
        x = Connection(listener)
        begin = time.monotonic()
        x.ask()
        x.answer(what)
        if time.monotonic() - begin < QUICK_S:
            return x
        x.close()


def in_flight(s):
    return s and sum(s[k][GENERATION]
                     for k in ("waiting", "streaming", "guessed"))
