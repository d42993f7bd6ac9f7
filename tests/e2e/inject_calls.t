#!/usr/bin/env python3
"""inject_calls.t - a system call that an injection has stopped

One process for each call, with one thread that is in it for 1.5 s.  A third of
the way in it is injected.  What the call returns must be what it returns without
us, and it must not have begun again.  The calls that Linux never restarts after a
stop (signal(7)) may return EINTR instead, but then only when no other thread could
be borrowed.  Where the machine stood still meanwhile, all is done again.
"""
import contextlib
import errno
import json
import subprocess
import threading
import time

import attach_cycles as A
import tap
from tap import check

MS = 1500
FIRST_MS = 500
# accept and recv count their timeout in ticks of the kernel, and one more
RETURNS = {"poll_forever": (1, 0), "epoll_forever": (1, 0), "read": (1, 0),
           "futex": (-1, errno.ETIMEDOUT), "accept": (-1, errno.EAGAIN),
           "recv": (-1, errno.EAGAIN), "sigtimedwait": (-1, errno.EAGAIN)}
NEVER_RESTARTED = ("epoll", "accept", "recv", "sigtimedwait")
PAUSES = tap.Pauses()
NEVER_BORROWED = ("read", "futex")


class Call(A.Target):
    def __init__(self, name):
        super().__init__([A.program("stress_calls"), name, str(MS)])
        self.name, self.started = name, time.monotonic()
        self.reports = []

    def inject(self, delay_s):
        time.sleep(max(0, self.started + delay_s - time.monotonic()))
        self.reports.append(A.inject(self.pid))

    def in_time(self, got):
        """Not early, and not begun again when it was stopped."""
        return MS - 20 <= got.get("ms", 0) < FIRST_MS + MS - 50

    def result(self):
        line = A.line_of(self.p.stdout, 60)
        return json.loads(line or "{}")


def undisturbed(work, attempts=15):
    """What it gives, of a time in which the machine did not stand still."""
    for _ in range(attempts):
        since = time.time()
        result = work()
        if PAUSES.lost(since, time.time()) < .1:
            break
    return result


def run(names):
    """Each in the middle of its call at the same time: [(call, result)]."""
    with contextlib.ExitStack() as all_of_them:
        calls = [all_of_them.enter_context(Call(n)) for n in names]
        threads = [threading.Thread(target=c.inject,
                                    args=(FIRST_MS / 1e3 + i * .03,))
                   for i, c in enumerate(calls)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return [(c, c.result()) for c in calls]


def judge(call, got):
    report, name = call.reports[0], call.name
    if name in NEVER_BORROWED:
        check(f"{name}: may hold a lock; never borrowed", not report["thread"]
              and report["refusal"] in ("busy", "no-process"), report)
    else:  # the program ends with the call, be it by EINTR
        check(f"{name}: borrowed", report["thread"] and report["refusal"] in
              (("ok", "no-process") if name in NEVER_RESTARTED else ("ok",)),
              report)
    want = RETURNS.get(name, (0, 0))
    value = (got.get("ret"), got.get("errno"))
    if name in NEVER_RESTARTED and value == (-1, errno.EINTR):
        print(f"# {name}: -1 EINTR after {got['ms']} ms")
        check(f"{name}: EINTR, as after any stop", got["ms"] < MS)
    else:
        check(f"{name}: returns {want} at its time", value == want and
              call.in_time(got), got)


def single():
    names = subprocess.run([A.program("stress_calls"), "list"], text=True,
                           capture_output=True, check=True).stdout.split()
    for call, got in undisturbed(lambda: run(names)):
        judge(call, got)


def second_time():
    """restart_syscall hides the call: what can be told by the place in the kernel
    is borrowed again, all goes on as before."""
    for name in ("poll", "nanosleep", "select"):
        first, second, got, in_time = undisturbed(lambda n=name: twice(n))
        again = second["refusal"] == "ok" or (name == "nanosleep" and
                                              not second["thread"])
        check(f"{name}: two stops leave it as it was",
              first["refusal"] == "ok" and again and in_time and
              (got["ret"], got["errno"]) == (0, 0), (first, second, got))


def twice(name):
    with Call(name) as call:
        first = time.sleep(FIRST_MS / 1e3) or A.probe(call.pid)
        second = time.sleep(.2) or A.probe(call.pid)
        got = call.result()
        return first, second, got, call.in_time(got)


def one_of_each():
    with Call("all") as call:
        call.inject(FIRST_MS / 1e3)
        results = [call.result() for _ in range(14)]
        return call.reports[0], [
            got for got in results
            if (got.get("ret"), got.get("errno")) != RETURNS.get(
                got.get("call"), (0, 0)) or not call.in_time(got)]


def all_at_once():
    """Where there is a choice, no call is taken that does not restart."""
    report, wrong = undisturbed(one_of_each)
    check("a process with one thread in each call", report["refusal"] == "ok",
          report)
    check("all 14 calls return what they do without us, at their time",
          not wrong, (wrong, report))


single()
second_time()
all_at_once()
tap.end()
