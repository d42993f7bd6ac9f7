#!/usr/bin/python3
"""requests_servers.t - the tracker against the own logs of six HTTP servers

All at once, each with its clients, who stream, probe on the same connections,
send large prompts and leave by FIN and RST; every data source of this kernel
looks at the same traffic.  Counts must be equal.  Needs root.  `make
soak-requests` does it one by one, and measures how far gauge and times are off.
"""
# time limit: 600 s
import tempfile

import servers
from tap import check
import tap

RUNGS = ("K", "F", "P", "C", "S")
# what is left would go on for minutes
LOAD = (8, "seconds=100", "requests=80", "interval_us=10000", "events=40",
        "more=100000", "abort=30", "think_us=20000")


def check_rest(rung, tracker):
    check(f"{rung}: nothing is left or lost", not any(tracker.rest()),
          tracker.last)


def check_server(rung, tracker, r):
    name = f"{rung}: {r.name}"
    got = tracker.counted(r.port)
    off = r.off_by_log(got)
    check(f"{name}: requests, ends, probes and events by its own log",
          not off, off)
    mine, theirs = r.events_left(tracker)
    check(f"{name}: of streams that were left no event more",
          mine <= theirs + got["aborted"], (mine, theirs))
    got = tracker.counted(r.front or r.port)
    off = r.off_by_clients(got)
    check(f"{name}: requests by the clients", not off, off)
    if r.front:
        off = r.off_by_nginx(got)
        check(f"{name}: requests by the log of nginx", not off, off)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        results, trackers = servers.run(list(servers.SERVERS), tmp, LOAD,
                                        RUNGS)
    for r in results:
        print(f"# {r.name}: {r.clients}")
        check(f"{r.name}: served all", not r.clients["errors"] and
              r.clients["fins"] + r.clients["resets"] > 1, r.clients)
    for rung, tracker in zip(RUNGS, trackers):
        if tracker.refused:
            check(f"{rung}: not on this kernel", True)
            continue
        check_rest(rung, tracker)
        for r in results:
            check_server(rung, tracker, r)
    tap.end()


if __name__ == "__main__":
    main()
