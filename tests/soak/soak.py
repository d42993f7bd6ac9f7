#!/usr/bin/env python3
"""soak.py - what `make test` does 50 times, 1000 times

	tests/soak/soak.py [--cycles N] [--kills N] [SCENARIO...]

Root, on a quiet machine; about half an hour in all.  Prints TAP, and between the
results, as comments, the figures that docs/ATTACH.md states.  Names of scenarios
may be given to run only these.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "e2e"))
import attach_scenarios as S  # noqa: E402
import tap  # noqa: E402

CYCLES = ("idle", "short_lived", "stopped_often", "registers", "stress",
          "stress_no_fork", "sim", "uvicorn", "moetop_cycles")
NEW = ("stress_new", "uvicorn_new")  # a start of the server for each
KILLS = ("kill_idle", "kill_stress", "kill_sim", "moetop_kills")
PER_NEW = 20  # cycles for one new server


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--cycles", type=int, default=1000)
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    args = p.parse_args()
    known = CYCLES + NEW + KILLS
    unknown = [x for x in args.scenarios if x not in known]
    if unknown:
        p.error(f"no scenario {unknown[0]}; there are: {' '.join(known)}")
    for name in known:
        if args.scenarios and name not in args.scenarios:
            continue
        n = args.kills if name in KILLS else args.cycles
        if name in NEW:
            n = max(2, n // PER_NEW)
        start = time.monotonic()
        getattr(S, name)(tap.check, n)
        S.say(f"{name}: {time.monotonic() - start:.0f} s")
    tap.end()


main()
