#!/usr/bin/python3
"""requests_attach.t - a tracker that comes in the middle of 200 connections

Some wait for their first byte, some have had the head of a stream, some stream,
some are idle.  What is in flight must be right at once, but for streams, which
are known by their next event, and idle connections whose last answer was quick,
which a server closes.  By each data source of this kernel.  Needs root.
"""
# time limit: 600 s
import socket
import tempfile
import time

import tap
from attached import (END, EVENT, GENERATION, HEAD, SHORT, Connection,
                      Tracker, answered_at_once, in_flight)
from tap import check

WAITING, EARLY, STREAMING, IDLE, FRESH, QUICK = 60, 30, 60, 40, 10, 20
LATER_S = .12  # more than the time in which a head may follow its request


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
        s = t.state(0)  # its first: a guess is one for 5 s only
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


def with_probes(tmp, again=5):
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
        first = t.state(0)
        if s["before_ns"] - first["before_ns"] > 4e9 and again:
            return with_probes(tmp, again - 1)  # the machine stood still
        check("a request on the connection ends the guess",
              s and s["guessed"][GENERATION] == QUICK - 5 + 10, s)
        for x in quick:
            x.close()
        new = Connection(listener)
        waits.append(new)
        asked = time.monotonic_ns()
        new.ask()
        heard = time.monotonic_ns()
        s = t.state(begin + 4, lambda s: not s["guessed"][GENERATION])
        late = [x for x in t.states() if x["guessed"][GENERATION] and
                x["before_ns"] / 1e9 > begin + 5]
        check("5 s later no guess is left, and the rest is exact",
              s and len(late) <= 3 and s["waiting"][GENERATION] == 11,
              (s, late))
        check("the oldest request whose beginning was seen",
              s and asked <= s["oldest_ns"] <= heard, (asked, heard, s))
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
