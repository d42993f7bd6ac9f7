#!/usr/bin/python3
"""requests_attach.py [ROUNDS] - how far off a tracker is that comes in the middle

Each round has 200 connections to a server of its own, in a mixture of its own:
requests that wait, with and without the head of their stream sent; streams, with
an event every 5 to 15 ms; large prompts that are being uploaded; idle ones, some
whose last answer was slow, and connections that were never used.  In every
second round ("busy") idle ones have answered quickly, as to a health check, and
health checks go on on them; such a server closes them after five seconds.  A
tracker attaches, and its first figure, 20 ms later, and all others until six
seconds later are compared with what is in flight.  Prints the distribution.
Needs root.
"""
import os
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "e2e"))
import socket  # noqa: E402

from attached import (ASK, EVENT, GENERATION, HEAD, SHORT,  # noqa: E402
                      Connection, Tracker, answered_at_once, in_flight)
import tap  # noqa: E402
from tap import check  # noqa: E402

CONNECTIONS = 200
CLOSE_S = 5  # of uvicorn, to idle connections
PROMPT = 4 << 20
PROBE = b"GET /health HTTP/1.1\r\n\r\n"
UPLOAD = (b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" %
          PROMPT)


class Server(threading.Thread):
    """Writes events and uploads, until it is told to stop."""

    def __init__(self, rng, busy):
        super().__init__(daemon=True)
        self.rng, self.busy, self.going = rng, busy, True
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        kinds = ["waiting", "early", "streams", "uploads", "slow", "fresh"]
        weights = [4, 2, 8, 1, 4, 1]
        if busy:
            kinds, weights = kinds + ["quick"], weights + [5]
        picked = rng.choices(kinds, weights, k=CONNECTIONS)
        self.c = {k: [] for k in ["quick", *kinds]}
        for k in picked:
            self.c[k].append(None)
        self.prepare()
        self.truth = sum(len(self.c[k]) for k in
                         ("waiting", "early", "streams", "uploads"))

    def prepare(self):
        c = self.c
        for k in ("waiting", "streams", "uploads", "slow", "fresh"):
            c[k] = [Connection(self.listener) for _ in c[k]]
        for x in c["streams"] + c["slow"]:
            x.ask()
        time.sleep(.12)
        for x in c["slow"]:
            x.answer(SHORT)
        for x in c["streams"]:
            x.answer(HEAD + EVENT)
        for x in c["waiting"]:
            x.ask()
        for x in c["uploads"]:
            x.client.sendall(UPLOAD)
            x.take(x.server, len(UPLOAD))
        c["early"] = [answered_at_once(self.listener, HEAD)
                      for _ in c["early"]]
        c["quick"] = [answered_at_once(self.listener, SHORT)
                      for _ in c["quick"]]
        self.idle_since = time.monotonic()

    def run(self):
        due = {x: 0 for x in self.c["streams"]}
        probes = self.c["quick"][:len(self.c["quick"]) // 4]
        last_probe = closed = 0
        while self.going:
            now = time.monotonic()
            for x, when in due.items():
                if when <= now:
                    x.answer(EVENT)
                    due[x] = now + self.rng.uniform(.005, .015)
            for x in self.c["uploads"]:
                x.client.sendall(b"x" * 500)
                x.take(x.server, 500)
            if probes and now - last_probe > .2:
                last_probe = now
                for x in probes:
                    x.client.sendall(PROBE)
                    x.take(x.server, len(PROBE))
                    x.answer(SHORT)
            if not closed and now - self.idle_since > CLOSE_S:
                closed = 1
                for x in self.c["quick"][len(probes):]:
                    x.server.close()
            time.sleep(.002)

    def stop(self):
        self.going = False
        self.join()
        for x in sum(self.c.values(), []):
            x.close()
        self.listener.close()


def attach(i, rung, tmp):
    """(error 20 ms after the tracker is there, guesses then, seconds until the
    error is 0 for good, error at the end, guesses at the end, connections)"""
    s = Server(random.Random(i), i % 2)
    s.start()
    t = Tracker(rung, s.listener.getsockname()[1], tmp)
    try:
        if t.refused:
            return None
        begin = time.monotonic()
        first = t.state(0)
        off, guessed, right, last = [], first["guessed"][GENERATION], 0, first
        off.append(in_flight(first) - s.truth)
        seen = first["before_ns"] / 1e9
        while time.monotonic() < begin + CLOSE_S + 1.5:
            last = t.state(seen + .02)
            if in_flight(last) != s.truth:
                right = last["before_ns"] / 1e9 - first["before_ns"] / 1e9
            seen = last["before_ns"] / 1e9
        return (off[0], guessed, right + .02 if off[0] or right else .02,
                in_flight(last) - s.truth, last["guessed"][GENERATION])
    finally:
        t.stop()
        s.stop()


def main(rounds):
    rung = os.environ.get("MOETOP_TRACKER", "K")
    with tempfile.TemporaryDirectory() as tmp:
        found = {False: [], True: []}
        for i in range(rounds):
            got = attach(i, rung, tmp)
            if not got:
                check(f"{rung}: not on this kernel", True)
                break
            found[bool(i % 2)].append(got)
            print(f"# round {i}: error {got[0]:+d} at 20 ms with {got[1]} "
                  f"guesses, right after {got[2]:.2f} s, {got[3]:+d} in the "
                  f"end with {got[4]} guesses", flush=True)
        for busy, all_ in found.items():
            if not all_:
                continue
            name = "with quick answers before" if busy else "no other traffic"
            first = sorted(abs(x[0]) for x in all_)
            took = sorted(x[2] for x in all_)
            print(f"# {name}: {len(all_)} attachments; |error| at 20 ms: "
                  f"median {first[len(first) // 2]}, most {first[-1]}; right "
                  f"after: median {took[len(took) // 2]:.2f} s, most "
                  f"{took[-1]:.2f} s")
            if not busy:
                # the writer of events has the tracker's load to bear, too
                check("no other traffic: right at 20 ms, or with the next "
                      "event of each stream", not first[len(first) // 2] and
                      took[-1] < .5, (first, took))
            else:
                check("quick answers before: the error is marked, and gone "
                      "when the server closes what is idle",
                      all(not x[0] or x[1] for x in all_) and
                      took[-1] < CLOSE_S + 1, (first, took))
            check(f"{name}: 0 in the end", not any(x[3] for x in all_), all_)
    tap.end()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 30)
