#!/usr/bin/env python3
"""requests.py - the request tracker against real HTTP servers, measured

	tests/soak/requests.py [--rung LETTER] [--drift] [--streams N]... [SERVER...]

Root, on a quiet machine; ten minutes in all.  Each server (a part of its name)
serves 1, 50 and 400 streams, at the rates given below, with 15 % aborts, 5 %
large prompts and health checks on the same connections; then uvicorn serves
100 000 short requests.  Prints TAP, and in the end the table of docs/REQUESTS.md
as comments.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "e2e"))
import servers as S  # noqa: E402
import tap  # noqa: E402
from tap import check  # noqa: E402

LOADS = {
    1: ("seconds=10", "events=20", "interval_us=10000", "ttft_us=30000",
        "think_us=20000"),
    50: ("seconds=12", "events=120", "interval_us=11000"),
    400: ("seconds=16", "events=120", "interval_us=85000"),
}
SHORT = (60, "seconds=300", "requests=100000", "events=3",
         "interval_us=1000", "ttft_us=4000", "think_us=0", "health=5",
         "more=200")
EQUAL, ERROR, OFF = .97, .0005, .05  # of time, of the mean, of a percentile
HEAD = ("server | streams | events/s | requests | left | events | counts | "
        "in flight equal, error | gauge equal, error | TTFT off | gap off")


def check_counts(name, r, tracker, front):
    """Everything that is counted, by the server's log and by the clients."""
    got = tracker.counted(r.port)
    off = r.off_by_log(got)
    check(f"{name}: equal to the server's own log", not off, off)
    mine, theirs = r.events_left(tracker)
    check(f"{name}: no event more of streams that were left",
          mine <= theirs, (mine, theirs))
    by_clients = (front or tracker).counted(r.front or r.port)
    off = r.off_by_clients(by_clients)
    check(f"{name}: equal to the clients", not off, off)
    if front:
        off = r.off_by_nginx(by_clients)
        check(f"{name}: in front, equal to the log of nginx", not off, off)
    for t in filter(None, (tracker, front)):
        check(f"{name}: nothing in flight, left or lost",
              not any(t.rest()), t.rest())
    return (f"equal, {mine} of {theirs} of those left" if mine != theirs
            else "equal")


def measure(name, streams, rung, tmp):
    """One server under one load.  The row of the table."""
    results, trackers = S.run([name], tmp, (streams,) + LOADS[streams],
                              (rung,), apart=True, gauge=True)
    r, tracker, title = results[0], trackers[0], f"{name}, {streams}"
    front = trackers[1] if r.front else None
    counts = check_counts(title, r, tracker, front)
    equal, error, mean = S.in_flight(r, tracker)
    check(f"{title}: in flight is the server's {equal:.2%} of the time, "
          f"off by {error:.3%} of {mean:.1f}",
          equal >= EQUAL and (error <= ERROR or streams == 1))
    read_equal, read_error, most = S.gauge_off(r, tracker)
    rows = S.percentiles(r, front or tracker)
    check(f"{title}: percentiles are the clients'",
          all(abs(x[3]) <= OFF for x in rows), rows)
    for x in rows:
        print(f"# {title}: {x[0]} {x[1] / 1000:.2f} ms, the clients' "
              f"{x[2] / 1000:.2f} ms, {x[3]:+.1%}")
    worst = [max((x[3] for x in rows if x[0].startswith(k)), key=abs)
             for k in ("ttft", "gap")]
    c, got = r.clients, tracker.counted(r.port)
    return (f"{name} | {streams} | {c['events'] / c['seconds']:.0f} | "
            f"{got['started'] + got['probes']} | {got['aborted']} | "
            f"{got['events']} | {counts} | {equal:.2%}, {error:.3%} | "
            f"{read_equal:.2%}, {read_error:.3%}, {most} at most | "
            f"{worst[0]:+.1%} | {worst[1]:+.1%}")


def drift(rung, tmp):
    name = next(iter(S.SERVERS))
    results, trackers = S.run([name], tmp, SHORT, (rung,), apart=True)
    r, tracker = results[0], trackers[0]
    n = len(r.log)
    check_counts(f"{n} requests", r, tracker, None)
    check("there were 100 000 of them", n >= 100000, n)
    c = r.clients
    print(f"# {n} requests in {c['seconds']:.0f} s, {c['fins']} left by FIN, "
          f"{c['resets']} by RST, {tracker.last['connections']} connections: "
          f"{tracker.counted(r.port)}")


def main():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("--rung")
    p.add_argument("--drift", action="store_true")
    p.add_argument("--streams", type=int, action="append", choices=LOADS)
    p.add_argument("servers", nargs="*", metavar="SERVER")
    args = p.parse_args()
    names = [n for n in S.SERVERS if not args.servers or
             any(a in n for a in args.servers)]
    if not names:
        p.error("no such server; there are: " + "; ".join(S.SERVERS))
    S.go_ahead(os.getpid())
    rows = []
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            for streams in args.streams or ([] if args.drift else LOADS):
                rows.append(measure(name, streams, args.rung, tmp))
        if not args.servers or args.drift:
            drift(args.rung, tmp)
    for row in [HEAD] + rows:
        print(f"# | {row} |")
    tap.end()


main()
