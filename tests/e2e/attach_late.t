#!/usr/bin/env python3
"""attach_late.t - `moetop -p` on a server that nobody prepared.

The simulated server runs, with its graphs captured and a load on it, before
moetop comes.  Layer times against the truth log, what is missing and why, what
is left behind, the second attach without a stop, two collectors, a collector
that is killed.  Then an eager server, where rows can be read all the same.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import tap
from ring import WINDOW, held
from tap import Watch, check, wait
from truth import Truth
from watching import watch

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
SIM = os.path.join(O, "sim", "moetop-sim")
LOAD = os.path.join(O, "sim", "moetop-load")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
T = tempfile.mkdtemp()
ENV = dict(os.environ,
           MOETOP_NVML=os.path.join(O, "sim", "lib", "libnvidia-ml.so.1"))
ENV.pop("CUDA_INJECTION64_PATH", None)
FIRST_LAYER_S = 5
TOLERANCE = 0.02


class Server:
    def __init__(self, *options):
        self.truth = os.path.join(T, f"truth{len(tap.results)}")
        self.p = subprocess.Popen(
            [SIM, "--model", MODEL, "--port", "0", "--truth", self.truth,
             *options], env=ENV, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)$", self.p.stdout.readline()).group(1))
        self.pid = self.p.pid

    def serving(self):
        return self.p.poll() is None

    def end(self):
        self.p.terminate()
        self.p.wait(60)

    def left(self):
        """Descriptors and threads, by name, and files that are mapped."""
        fds, maps = [], set()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                fds.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except OSError:
                pass
        with open(f"/proc/{self.pid}/maps", encoding="ascii") as f:
            for line in f:
                word = line.split()
                if len(word) > 5 and word[5].startswith("/"):
                    maps.add(word[5])
        names = []
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/comm",
                      encoding="ascii") as f:
                names.append(f.read().strip())
        # connections come and go with the load
        fds = [x for x in fds if not x.startswith("socket:")]
        return sorted(fds), sorted(names), sorted(maps)


    def settled(self):
        """The same, once nothing has changed for half a second."""
        same, last = 0, None
        while same < 5:
            now = self.left()
            same = same + 1 if now == last else 0
            last = now
            time.sleep(0.1)
        return last


class Load:
    def __init__(self, server, users):
        self.p = subprocess.Popen(
            [LOAD, "--url", f"http://127.0.0.1:{server.port}", "--users",
             str(users), "--output-tokens", "400", "--duration", "600",
             "--drain", "20"], stdout=subprocess.PIPE, text=True)

    def end(self):
        self.p.send_signal(signal.SIGINT)
        out, _ = self.p.communicate(timeout=60)
        return json.loads(out.splitlines()[-1])


def command(server, *options):
    return [MOETOP, "-p", str(server.pid), "--json", *options]


def moetop(server, *options, **kw):
    return subprocess.Popen(command(server, *options), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=ENV, **kw)


def lines(server, enough, *options, most=60):
    """(lines of moetop until they are enough, what it said)"""
    _, err, out = watch(command(server, *options), enough, most, env=ENV)
    return out, err


def works(name):
    return lambda got: tier(got[-1], name)["state"] == "ok"


def value(snapshot, metric):
    return snapshot["metrics"][metric]["value"]


def tier(snapshot, name):
    return snapshot["health"]["tiers"][name]


def windows(pid):
    return [(w.start_ns, w.end_ns) for w in held(pid, WINDOW)]


def logged(server, end_ns):
    """Wait until the truth log has all until this time."""
    wait(lambda: (s := Truth(server.truth).steps) and s[-1].start > end_ns)


def compare_layers(server, snapshot, spans):
    """The layers of a snapshot against the truth of one window."""
    truth, best = Truth(server.truth), None
    for start, end in spans:
        steps = [s for s in truth.inside(start, end, 0)
                 if len(s.layers) == len(snapshot["layers"])]
        if not steps:
            continue
        worst = 0
        for layer in snapshot["layers"]:
            want = sum(s.layers[layer["layer"]].block_ns for s in steps)
            got = layer["seconds_per_step"] * 1e9 * len(steps)
            worst = max(worst, abs(got / want - 1))
        best = worst if best is None else min(best, worst)
    return best


def first_attach(server):
    before = server.settled()
    took, spans = Watch(), []

    def layers(got):
        if got[-1]["layers"]:
            took.stop()
            spans.extend(windows(server.pid))
        return got[-1]["layers"]

    status, err, got = watch(command(server, "--interval", "0.5"), layers, 200,
                             env=ENV)
    last = got[-1]
    shown = last["layers"]
    check(f"layers after {took.seconds():.1f} s, within {FIRST_LAYER_S} s"
          if shown else "layers are shown",
          shown and took.within(FIRST_LAYER_S), last["health"])
    check("it ends by SIGINT: status 0, not a word", status == 0 and not err,
          (status, err))
    check("T2 works", tier(last, "T2")["state"] == "ok", tier(last, "T2"))
    t3 = tier(last, "T3")
    check("T3 is missing, with its reason and its remedy",
          t3["state"] == "missing" and
          t3["what"] == "the agent came after the graphs were captured" and
          "moetop run" in (t3["remedy"] or ""), t3)
    rank = last["target"]["ranks"][0]
    lost_us = took.pauses.lost(took.start, took.end or time.time()) * 1e6
    check("the attach is reported: thread, call, stops, pause, load",
          rank["attach"] and 0 < rank["attach"]["stops"] <= 12 and
          0 < rank["attach"]["pause_us"] < 250e3 * took.slow + lost_us and
          rank["attach"]["load_ms"] > 0 and rank["attach"]["thread"] > 0, rank)
    check("48 layers, no rows", len(last["layers"]) == 48 and
          all(x["seconds_per_step"] and x["rows"] is None
              for x in last["layers"]), last["layers"][:1])
    logged(server, max((end for _, end in spans), default=0))
    worst = compare_layers(server, last, spans)
    check(f"every layer's time is that of the truth log within "
          f"{TOLERANCE:.0%}", worst is not None and worst <= TOLERANCE, worst)
    return before


def what_is_left(server, before):
    """The stub: one descriptor, one thread, the agent's file."""
    fds, names, maps = before

    def clean():
        f, n, m = server.left()
        return (sorted(fds + ["/memfd:moetop-ring (deleted)"]) == f and
                sorted(names + ["moetop"]) == n and
                {os.path.basename(x) for x in set(m) - set(maps)} <=
                {"memfd:moetop-ring", "memfd:moetop-agent"})

    check("what is left: one descriptor, one sleeping thread, the agent",
          wait(clean), (before, server.left()))


def second_attach(server):
    before = server.settled()
    got, err = lines(server, lambda got: works("T2")(got) and got[-1]["layers"],
                     "--no-inject")
    last = got[-1]
    check("the second attach wakes the stub, without a stop",
          tier(last, "T2")["state"] == "ok" and len(last["layers"]) == 48 and
          last["target"]["ranks"][0]["attach"] is None and not err,
          (tier(last, "T2"), err))
    check("and leaves all as the first one did",
          wait(lambda: server.left() == before), (before, server.left()))


def two_collectors(server):
    first, seen = moetop(server), []

    def first_works():
        return seen and tier(json.loads(seen[-1]), "T2")["state"] == "ok"

    # who does not read its lines would stop it
    threading.Thread(target=lambda: seen.extend(iter(first.stdout.readline,
                                                     "")),
                     daemon=True).start()
    wait(first_works)
    second, _ = lines(server, lambda got: any(
        r["agent"] == "refused" for r in got[-1]["target"]["ranks"]) and
        value(got[-1], "requests_in_flight") is not None)
    t2 = tier(second[-1], "T2")
    check("a second moetop is told who reads the agent",
          t2["state"] == "missing" and f"pid {first.pid}" in t2["what"] and
          second[-1]["target"]["ranks"][0]["agent"] == "refused", t2)
    check("requests and the model are seen by both",
          tier(second[-1], "T0")["state"] == "ok" and
          value(second[-1], "requests_in_flight") is not None, second[-1])
    n = len(seen)
    check("the first one goes on", wait(lambda: len(seen) > n) and first_works())
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    got, _ = lines(server, works("T2"))
    check("one that was killed leaves room for the next",
          tier(got[-1], "T2")["state"] == "ok", tier(got[-1], "T2"))


def completed(server):
    """Requests, by its own log."""
    with open(server.truth, encoding="ascii") as f:
        return max((int(line.split("\t")[3]) for line in f
                    if line[:2] == "T\t" and line.endswith("\n")), default=0)


def graphs():
    server = Server("--routing", "uniform")
    load = Load(server, 64)
    try:
        wait(lambda: os.path.exists(server.truth))
        before = first_attach(server)
        what_is_left(server, before)
        second_attach(server)
        two_collectors(server)
        wait(lambda: completed(server) > 20)
        stats = load.end()
        check("no request failed meanwhile, and many were answered",
              stats["completed"] > 20 and not stats["failed"] and
              not stats["dropped"], stats)
        check("the server serves on", server.serving())
    finally:
        load.p.kill()
        server.end()


def eager():
    server = Server("--eager", "--users", "8")
    try:
        got, _ = lines(server, lambda got: None not in layer_rows(got))
        check("eager: T3 works, though the agent came late",
              works("T3")(got), tier(got[-1], "T3"))
        end_ns = (got[-1]["time"] + time.monotonic() - time.time()) * 1e9
        logged(server, end_ns)
        batches = [s.tokens for s in Truth(server.truth).inside(0, end_ns, 0)]
        rows = layer_rows(got)
        check("eager: rows of every layer are k a token", len(rows) == 48 and
              all(r and min(batches) <= r / 8 <= max(batches) for r in rows),
              (rows, min(batches), max(batches)))
    finally:
        server.end()


def layer_rows(got):
    """The newest that the lines tell of each layer: a window samples a part."""
    known = [None] * 48
    for line in got:
        for n, layer in enumerate(line["layers"]):
            known[n] = layer["rows"] or known[n]
    return known


def forbidden():
    server = Server("--users", "2")
    try:
        before = server.settled()
        got, _ = lines(server, lambda got: len(got) > 2 and "--no-inject" in (
            tier(got[-1], "T2")["remedy"] or ""), "--no-inject")
        check("--no-inject: nothing is brought in, and the remedy is named",
              wait(lambda: server.left() == before) and
              tier(got[-1], "T2")["state"] == "missing" and
              "--no-inject" in tier(got[-1], "T2")["remedy"],
              tier(got[-1], "T2"))
        tracer = subprocess.Popen(
            ["strace", "-qq", "-o", "/dev/null", "-p", str(server.pid)])
        wait(lambda: open(f"/proc/{server.pid}/status", encoding="ascii")
             .read().find("TracerPid:\t0\n") < 0)
        got, _ = lines(server, lambda got: any(
            r["agent"] == "refused" for r in got[-1]["target"]["ranks"]))
        tracer.terminate()
        tracer.wait(10)
        rank = got[-1]["target"]["ranks"][0]
        check("a process that a debugger holds: refused, with its pid",
              rank["agent"] == "refused" and str(tracer.pid) in rank["reason"],
              rank)
        got, _ = lines(server, works("T2"))
        check("once it is let go, the attach works",
              tier(got[-1], "T2")["state"] == "ok", tier(got[-1], "T2"))
    finally:
        server.end()


graphs()
eager()
forbidden()
shutil.rmtree(T)
tap.end()
