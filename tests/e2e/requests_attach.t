#!/usr/bin/python3
"""requests_attach.t - a tracker that comes in the middle of 200 connections

Some wait for their first byte, some have had the head of a stream, some stream,
some are idle.  What is in flight must be right at once, but for streams, which
are known by their next event, and idle connections whose last answer was quick,
which a server closes.  By each data source of this kernel.  Needs root.
"""
import json
import os
import socket
import subprocess
import tempfile
import time

import tap
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
GENERATION = 1
ASK = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
HEAD = (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        b"transfer-encoding: chunked\r\n\r\n")
EVENT, END = b"9\r\ndata: a\n\n\r\n", b"0\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
WAITING, EARLY, STREAMING, IDLE, FRESH, QUICK = 60, 30, 60, 40, 10, 20
QUICK_S = .03
LATER_S = .12  # more than the time in which a head may follow its request


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
        self.runs = self.wait(lambda: os.path.getsize(self.path) or
                              self.p.poll() is not None)
        self.refused = self.p.poll() == 3

    @staticmethod
    def wait(condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(.01)
        return True

    def state(self, since_s, agrees=lambda s: True):
        """The first state that was read after this moment, and agrees."""
        found = []

        def there():
            with open(self.path, encoding="ascii") as f:
                for line in f:
                    s = json.loads(line) if line.endswith("\n") else None
                    if (isinstance(s, dict) and "before_ns" in s and
                            s["before_ns"] >= since_s * 1e9 and agrees(s)):
                        found.append(s)
                        return True
            return False

        self.wait(there)
        return found[0] if found else None

    def stop(self):
        self.p.stdin.close()
        self.p.wait(10)


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


def prepare(listener):
    """The connections, by kind."""
    sizes = {"waiting": WAITING, "streaming": STREAMING, "idle": IDLE,
             "fresh": FRESH}
    c = {k: [Connection(listener) for _ in range(n)]
         for k, n in sizes.items()}
    for k in ("streaming", "idle"):
        for x in c[k]:
            x.ask()
    time.sleep(LATER_S)
    for x in c["streaming"]:
        x.answer(HEAD + EVENT)
    for x in c["idle"]:
        x.answer(SHORT)
    for x in c["waiting"]:
        x.ask()
    c["early"] = [answered_at_once(listener, HEAD) for _ in range(EARLY)]
    return c


def through(rung, tmp):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    c = prepare(listener)
    t = Tracker(rung, listener.getsockname()[1], tmp)
    try:
        if t.refused:
            check(f"{rung}: not on this kernel", True)
            return
        waiting = WAITING + EARLY
        s = t.state(time.monotonic())
        check(f"{rung}: those that wait are known at once, and as guesses",
              in_flight(s) == waiting and s["guessed"][GENERATION] == waiting
              and s["started"][GENERATION] == 0, s)
        for x in c["streaming"]:
            x.answer(EVENT)
        s = t.state(time.monotonic())
        check(f"{rung}: streams are known by their next event",
              in_flight(s) == waiting + STREAMING and
              s["streaming"][GENERATION] == STREAMING, s)
        for x in c["fresh"]:
            x.ask()
        s = t.state(time.monotonic())
        check(f"{rung}: an old connection without a request is a new one",
              in_flight(s) == waiting + STREAMING + FRESH, s)
        for x in c["early"] + c["streaming"]:
            x.answer(EVENT + END)
        for x in c["waiting"] + c["fresh"]:
            x.answer(SHORT)
        s = t.state(time.monotonic())
        check(f"{rung}: each ends once, as completed", in_flight(s) == 0 and
              s["completed"][GENERATION] == waiting + STREAMING + FRESH and
              s["started"] == s["completed"] and s["desyncs"] == 0, s)
        return
    finally:
        for x in sum(c.values(), []):
            x.close()
        t.stop()
        listener.close()


def with_probes(tmp):
    """Idle connections that were quick look like waiting ones, until they are
    closed; those that wait without a head are believed in 5 s.
    Of requests that were seen to begin the oldest is known."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    waits = [Connection(listener) for _ in range(10)]
    for x in waits:
        x.ask()
    quick = [answered_at_once(listener, SHORT) for _ in range(QUICK)]
    t = Tracker("K", listener.getsockname()[1], tmp)
    try:
        if t.refused:
            check("probes: K is not on this kernel", True)
            return
        begin = time.monotonic()
        for x in quick[:5]:  # the next request corrects at once
            x.ask()
            x.answer(SHORT)
        s = t.state(time.monotonic())
        check("a request on the connection ends the guess",
              s and s["guessed"][GENERATION] == QUICK - 5 + 10, s)
        for x in quick:
            x.close()
        new = Connection(listener)
        waits.append(new)
        asked = time.monotonic()
        new.ask()
        s = t.state(begin + 4, lambda s: not s["guessed"][GENERATION])
        check("5 s later no guess is left, and the rest is exact",
              s and s["before_ns"] / 1e9 < begin + 7 and
              s["waiting"][GENERATION] == 11, s)
        check("the oldest request whose beginning was seen",
              s and 0 <= s["oldest_ns"] / 1e9 - asked < 2, (asked, s))
        for x in waits:
            x.answer(SHORT)
        s = t.state(time.monotonic())
        check("and they end", in_flight(s) == 0 and
              s["completed"][GENERATION] == 11 + 5 and
              s["client_aborted"][GENERATION] == 0 and
              s["server_aborted"][GENERATION] == 0, s)
    finally:
        for x in waits:
            x.close()
        t.stop()
        listener.close()


with tempfile.TemporaryDirectory() as TMP:
    for RUNG in ("K", "F", "P", "C", "S"):
        through(RUNG, TMP)
    with_probes(TMP)
tap.end()
