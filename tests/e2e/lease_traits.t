#!/usr/bin/env python3
"""lease_traits.t - a borrowed thread gets back what it does not hold in registers

Priority, policy, timer slack, signal mask, processors: of one that has none of
them as usual.
"""
import ctypes
import json
import os
import signal
import subprocess

import tap
from tap import check, wait

O = os.path.abspath(os.environ.get("O", "build"))
TOOL = os.path.join(O, "tests", "e2e", "inject_tool")
LIBRARY = os.path.join(O, "libmoetop-agent.so")
PR_SET_TIMERSLACK = 29
LIBC = ctypes.CDLL(None)


def unusual():
    os.nice(5)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1, signal.SIGHUP})
    LIBC.prctl(PR_SET_TIMERSLACK, 12345, 0, 0, 0)


def traits(pid):
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.split(":", 1) for line in f)
    with open(f"/proc/{pid}/timerslack_ns") as f:
        slack = int(f.read())
    return {"nice": os.getpriority(os.PRIO_PROCESS, pid), "slack": slack,
            "policy": os.sched_getscheduler(pid),
            "processors": os.sched_getaffinity(pid),
            "mask": status["SigBlk"].strip(), "caught": status["SigCgt"].strip(),
            "name": status["Name"].strip()}


def is_asleep(pid):
    with open(f"/proc/{pid}/wchan") as f:
        return "nanosleep" in f.read()


def inject(pid):
    out = subprocess.run([TOOL, LIBRARY, str(pid)], capture_output=True,
                         text=True, timeout=60)
    return json.loads(out.stdout)


def caught_and_rest(pid):
    """The signals that have a handler, and all other traits."""
    now = traits(pid)
    return int(now.pop("caught"), 16), now


def attempt(policy, last):
    """False: the target got no processor in time, and was refused for it; a
    thread that was stopped in its sleep is not borrowed a second time."""
    target = subprocess.Popen(["sleep", "600"], preexec_fn=unusual)
    try:
        os.sched_setscheduler(target.pid, policy, os.sched_param(0))
        tap.wait_for("the target sleeps", lambda: is_asleep(target.pid))
        caught, before = caught_and_rest(target.pid)
        said = inject(target.pid)
        if said["refusal"] in ("timeout", "busy") and not last:
            return False
        # the thread may still be on its way home
        wait(lambda: caught_and_rest(target.pid)[1] == before, 30)
        caught_after, after = caught_and_rest(target.pid)
        check(f"policy {policy}: the agent is in", said["refusal"] == "ok", said)
        check(f"policy {policy}: its thread is what it was", before == after,
              (before, after))
        # glibc takes one of its own signals when a process has threads
        set_by_us = caught_after & ~caught & ~(3 << 31)
        check(f"policy {policy}: no handler is lost or set but glibc's own",
              set_by_us == 0, hex(set_by_us))
        agents = [int(t) for t in os.listdir(f"/proc/{target.pid}/task")
                  if int(t) != target.pid]
        check(f"policy {policy}: the agent's threads have no priority of ours",
              agents and all(os.sched_getscheduler(t) & 0xffff in
                             (os.SCHED_OTHER, policy) for t in agents), agents)
        return True
    finally:
        target.kill()
        target.wait()


def run(policy, attempts=30):
    for n in range(attempts):
        if attempt(policy, n + 1 == attempts):
            break


run(os.SCHED_OTHER)
run(os.SCHED_BATCH)
run(os.SCHED_IDLE)
tap.end()
