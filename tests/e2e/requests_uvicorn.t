#!/usr/bin/python3
"""requests_uvicorn.t - the tracker against a real server's own count

uvicorn with uvloop and httptools, under 1, 50 and 500 users who stream, probe
and abort.  Totals must be equal.  The gauge must hold all requests that have
reached the application and that nobody has ended, and none that is not sent or
that all know has ended, whenever it is read; and be 0 in the end.  Needs root.
"""
# time limit: 600 s
import bisect
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

import tap
from tap import check, free_port, wait_for

O = os.path.abspath(os.environ.get("O", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
GENERATION, IGNORED = 1, 3
# data source, None for the best; users, rounds
LOADS = ((None, 1, 6), (None, 50, 3), (None, 500, 1), ("F", 50, 2),
         ("P", 50, 2), ("C", 50, 2), ("S", 50, 2))


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Account:
    """How many requests there were at a time: by the application, and at least
    and at most.  The kernel sees a request after its client has sent it and
    before the application does; its end after the application has begun to send
    the last bytes, or its client to leave, and before the other one knows."""

    def __init__(self, requests, spans):
        whole = [r for r in requests if r["whole"]]
        left = [r for r in requests if not r["whole"]]
        self.sent = sorted(s[0] for s in spans)
        self.starts = sorted(r["start_ns"] for r in requests)
        self.ends = sorted(r["end_ns"] for r in requests)
        self.first_ends = sorted([r["last_ns"] for r in whole] +
                                 [s[1] for s in spans if s[2]])
        self.last_ends = sorted([s[1] for s in spans if not s[2]] +
                                [r["end_ns"] for r in left])

    def at(self, t):
        return (bisect.bisect_right(self.starts, t) -
                bisect.bisect_right(self.ends, t))

    def range(self, before, after):
        return (bisect.bisect_right(self.starts, before) -
                bisect.bisect_right(self.first_ends, after),
                bisect.bisect_right(self.sent, after) -
                bisect.bisect_right(self.last_ends, before))


def run(rung, users, rounds, tmp):
    """Serve, track, load; what the app, the tracker and the clients saw.
    None: the kernel does not have the data source."""
    env = dict(os.environ)
    env.pop("MOETOP_TRACKER", None)
    if rung:
        env["MOETOP_TRACKER"] = rung
    port, log = free_port(), os.path.join(tmp, f"app{users}.json")
    seen = os.path.join(tmp, f"tracker{users}.json")
    app = subprocess.Popen([PYTHON, f"{HERE}/uvicorn_app.py", str(port), log])
    track = None
    try:
        wait_for("the server listens", lambda: accepts(port))
        with open(seen, "w") as out:
            track = subprocess.Popen(
                [f"{O}/tests/e2e/trackdump", str(port)], stdout=out,
                stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        wait_for("the tracker is ready", lambda: os.path.getsize(seen) or
                 track.poll() is not None)
        if track.poll() == 3 and rung:
            print(f"# {track.stderr.read().decode().strip()}")
            return None
        load = subprocess.run(
            [PYTHON, f"{HERE}/sse_load.py", str(port), str(users),
             str(rounds)], stdout=subprocess.PIPE, timeout=240, check=True)
        app.send_signal(signal.SIGTERM)
        app.wait(timeout=120)
        track.stdin.close()
        track.wait(timeout=120)
    finally:
        for p in (app, track):
            if p and p.poll() is None:
                p.kill()
                p.wait()
    with open(seen) as f:
        lines = [json.loads(line) for line in f][1:]
    with open(log) as f:
        return json.loads(load.stdout), json.load(f), lines


def check_totals(name, clients, app, last):
    ours = [r for r in app["requests"] if r["path"] != "/health"]
    whole = sum(r["whole"] for r in ours)
    wanted = {
        "started": len(ours), "completed": whole,
        "client_aborted": len(ours) - whole, "server_aborted": 0,
    }
    got = {k: last[k][GENERATION] for k in wanted}
    check(f"{name}: requests are those of the application", got == wanted,
          f"tracker {got}\napplication {wanted}")
    wanted = {"completed": clients["streams"] + clients["completions"],
              "client_aborted": clients["aborted"]}
    got = {k: last[k][GENERATION] for k in wanted}
    check(f"{name}: requests are those of the clients", got == wanted,
          f"tracker {got}\nclients {clients}")
    check(f"{name}: probes are told apart",
          last["started"][IGNORED] == clients["probes"] and
          last["completed"][IGNORED] == clients["probes"], last)
    check(f"{name}: nothing was lost",
          last["desyncs"] == 0 and last["records_lost"] == 0, last)


def check_events(name, app, records):
    """One event a token; of requests that ended, in the order they began."""
    ours = sorted((r["start_ns"], r["chunks"]) for r in app["requests"]
                  if r["path"] != "/health" and r["whole"])
    theirs = [r for r in records
              if r["endpoint"] == GENERATION and r["how"] == 0]
    wanted = sum(chunks for _, chunks in ours)
    # a JSON body is one message of the application and no chunk
    got = sum(r["events"] or 1 for r in theirs)
    check(f"{name}: every token is an event", got == wanted,
          f"tracker {got} application {wanted}")


def check_gauge(name, clients, app, states):
    account = Account([r for r in app["requests"] if r["path"] != "/health"],
                      clients["spans"])
    wrong, off, open_, most, peak = [], [], [], 0, 0
    for s in states:
        n = s["waiting"][GENERATION] + s["streaming"][GENERATION]
        low, high = account.range(s["before_ns"], s["after_ns"])
        if not low <= n <= high:
            wrong.append((s["before_ns"], n, low, high))
        off.append(abs(n - account.at(s["before_ns"])))
        open_.append(high - low)
        most, peak = max(most, n), max(peak, low)
    check(f"{name}: the gauge follows the application", len(states) > 20 and
          not wrong, f"{len(states)} samples, wrong: {wrong[:20]}")
    # how many are open says how busy the machine was
    check(f"{name}: the gauge is within 1 of it most of the time",
          sorted(off)[len(off) // 2] <= max(1, sorted(open_)[len(off) // 2]),
          sorted(off))
    print(f"# {name}: {len(states)} samples, equal in "
          f"{off.count(0) / len(off):.1%}, mean error "
          f"{sum(off) / len(off):.2f}, mean room "
          f"{sum(open_) / len(open_):.2f}, most in flight {most}")
    return most, peak


def main():
    with tempfile.TemporaryDirectory() as tmp:
        for rung, users, rounds in LOADS:
            name = f"{users} user{'s' if users > 1 else ''}"
            if rung:
                name += f" by {rung}"
            ran = run(rung, users, rounds, tmp)
            if not ran:
                check(f"{name}: not on this kernel", rung is not None)
                continue
            clients, app, lines = ran
            states = [x for x in lines if "before_ns" in x]
            records = [x for x in lines if "how" in x]
            last = states[-1]
            check_totals(name, clients, app, last)
            check_events(name, app, records)
            most, peak = check_gauge(name, clients, app, states)
            check(f"{name}: the load was there, and aborts among it",
                  most >= peak >= users * .1 and
                  (users == 1 or clients["aborted"] >= users / 20),
                  f"{most} {peak} {clients}")
            check(f"{name}: nothing is in flight in the end",
                  not any(last["waiting"]) and not any(last["streaming"]),
                  last)
    tap.end()


if __name__ == "__main__":
    main()
