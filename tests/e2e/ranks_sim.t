#!/usr/bin/env python3
"""ranks_sim.t - a server of several ranks, each a process with a GPU.

Four tensor-parallel ranks: an agent in each, rows and steps that are those of
the server and not four times them, DRAM bytes that are.  A worker that is
killed is followed into its successor, and no figure is wrong meanwhile.  Expert
parallel ranks alike.
"""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import ring as R
import tap
from tap import check
from truth import Flight, Truth

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
SIM = os.path.join(O, "sim", "moetop-sim")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
T = tempfile.mkdtemp()
GPU = 8  # the first of those that no other test uses: their bytes are counted
ENV = dict(os.environ,
           MOETOP_NVML=os.path.join(O, "sim", "lib", "libnvidia-ml.so.1"),
           CUDA_VISIBLE_DEVICES=str(GPU))
ENV.pop("CUDA_INJECTION64_PATH", None)
USERS, TOP_K, LAYERS = 16, 8, 48
WINDOWS = 3  # of the newest: those that the last line may tell of
EDGE_NS = 5e6  # recording goes on and off this close to a window's times
TURN_NS = 5e7  # the server's log is later than the kernel's count
PAUSES = tap.Pauses()
MONOTONIC = time.monotonic() - time.time()


class Server:
    def __init__(self, *options, run=True, **env):
        self.truth = os.path.join(T, f"truth{len(tap.results)}")
        command = [SIM, "--model", MODEL, "--port", "0", "--truth", self.truth,
                   "--users", str(USERS), *options]
        if run:
            command = [MOETOP, "run", "--", *command]
        self.p = subprocess.Popen(command, env=dict(ENV, **env),
                                  stdout=subprocess.PIPE, text=True)
        line = self.p.stdout.readline()
        self.port = int(re.search(r":(\d+)$", line).group(1))
        self.pid = self.p.pid

    def end(self):
        self.p.terminate()
        self.p.wait(60)


def watch(server, ranks, count=6):
    """Lines of moetop until the newest of them tell all, and the newest windows
    of each rank."""
    p = subprocess.Popen([MOETOP, "-p", str(server.pid), "--json"],
                         stdout=subprocess.PIPE, text=True, env=ENV)
    lines = []
    for text in itertools.islice(p.stdout, 60):
        lines.append(json.loads(text))
        if len(lines) > count and all(map(tells, lines[-count:])) and (
                len(lines[-1]["target"]["ranks"]) == ranks):
            break
    windows = [[w for w in R.held(r["pid"], R.WINDOW)
                if w.decode_steps][-WINDOWS:]
               for r in lines[-1]["target"]["ranks"]]
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    return lines[-count:], windows


def tells(line):
    return all(value(line, m) is not None for m in (
        "rows", "steps_per_second", "dram_read_bytes_per_second")) and (
            line["health"]["tiers"]["T3"]["state"] == "ok")


def value(snapshot, metric):
    return snapshot["metrics"][metric]["value"]


def at_ns(snapshot):
    return (snapshot["time"] + MONOTONIC) * 1e9


def per_second(lines, metric):
    """What the rates of these lines, but the first, add up to."""
    return sum(value(b, metric) * (b["time"] - a["time"])
               for a, b in zip(lines, lines[1:]))


def steps_of(server, ranks):
    """Of each rank, once the log of what was watched is complete."""
    return [Truth(f"{server.truth}.rank{r}") for r in range(ranks)]


def expert_bytes(truths):
    """DRAM bytes that the expert GEMMs of one full step read, of each rank."""
    out = []
    for truth in truths:
        steps = [s for s in truth.steps if s.phase == 0 and s.tokens == USERS]
        out.append(sum(x.read_bytes for s in steps for x in s.layers.values())
                   / len(steps))
    return out


def check_figures(name, last, ranks):
    at = [r["rank"] for r in last["target"]["ranks"]]
    check(f"{name}: {ranks} ranks, by number, each with an agent",
          at == list(range(ranks)) and
          all(r["agent"] in ("idle", "window")
              for r in last["target"]["ranks"]), last["target"]["ranks"])
    check(f"{name}: {ranks} GPUs",
          [g["index"] - GPU for g in last["target"]["gpus"]] ==
          list(range(ranks)),
          last["target"]["gpus"])
    tiers = last["health"]["tiers"]
    check(f"{name}: T2 and T3 work", tiers["T2"]["state"] == "ok" and
          f"{ranks} of {ranks}" in tiers["T2"]["what"] and
          tiers["T3"]["state"] == "ok", tiers)
    check(f"{name}: layers and their times", len(last["layers"]) == LAYERS and
          all(x["seconds_per_step"] for x in last["layers"]),
          last["layers"][:1])


def check_rows(name, truths, windows, last):
    """Between those of the smallest and the largest batch of the windows; most
    often all have the same."""
    batches = [s.tokens for truth, of_rank in zip(truths, windows)
               for w in of_rank for s in truth.crossing(w.start_ns - EDGE_NS,
                                                        w.end_ns + EDGE_NS)]
    rows = value(last, "rows")
    check(f"{name}: rows are those of the step, not of every rank", rows and
          min(batches) * .98 < rows / TOP_K < max(batches) * 1.02,
          (rows, min(batches), max(batches)))


def check_sums(name, truths, lines):
    """What the rates of the lines add up to is what was done meanwhile; of both
    ends, a reading of an agent's counters is as old as the pause between two."""
    steps = truths[0].inside(at_ns(lines[0]), at_ns(lines[-1]), 0)
    told = per_second(lines, "steps_per_second")
    # a rate is of the time before a line: where the machine stood still, that
    # is another one
    since, until = lines[0]["time"], lines[-1]["time"]
    ran = 1 - min(.8, PAUSES.lost(since - 1, until) / (until - since))
    check(f"{name}: steps are counted once", .6 * ran < told / len(steps) <
          1.4 / ran, (told, len(steps), ran))
    count = lines[-1]["histograms"]["step_seconds"]["count"]
    check(f"{name}: a step is in the histogram once",
          count and count <= len([s for s in truths[0].steps if s.phase == 0]),
          (count, len(steps)))
    experts = sum(x.read_bytes for truth in truths
                  for s in truth.inside(at_ns(lines[0]), at_ns(lines[-1]), 0)
                  for x in s.layers.values())
    told = per_second(lines, "dram_read_bytes_per_second")
    # the experts' weights are nearly all that a step reads
    check(f"{name}: DRAM bytes are those of all GPUs together",
          .8 * ran < told / experts < 1.8 / ran, (told, experts, ran))


def block_ns(truth, w):
    """Mean time of each layer's block over the steps of a window."""
    steps = truth.inside(w.start_ns - EDGE_NS, w.end_ns + EDGE_NS, 0)
    return [sum(s.layers[n].block_ns for s in steps) / len(steps)
            for n in range(LAYERS)]


def layer_times(name, truths, windows, last):
    """Those of the mean rank, in the newest of the windows or one before."""
    got = [x["seconds_per_step"] * 1e9 for x in last["layers"]]
    true = [[block_ns(truth, w) for w in of_rank]
            for truth, of_rank in zip(truths, windows)]
    worst = min(max(abs(g * len(one) / sum(t) - 1)
                    for g, t in zip(got, zip(*one)))
                for one in itertools.product(*true))
    check(f"{name}: layer times are those of the mean rank", worst < 0.05,
          worst)


def healthy(name, option, ranks):
    server = Server(option, str(ranks), "--routing", "uniform")
    try:
        lines, windows = watch(server, ranks)
    finally:
        server.end()
    truths = steps_of(server, ranks)
    check_figures(name, lines[-1], ranks)
    check_rows(name, truths, windows, lines[-1])
    check_sums(name, truths, lines)
    layer_times(name, truths, windows, lines[-1])
    return expert_bytes(truths)


def workers(server):
    """Its children, whichever of its threads started them."""
    found = []
    for tid in os.listdir(f"/proc/{server.pid}/task"):
        with open(f"/proc/{server.pid}/task/{tid}/children",
                  encoding="ascii") as f:
            found += [int(x) for x in f.read().split()]
    return found


class Batch:
    """What the batch was about a time, by the server's own log."""

    def __init__(self, server):
        self.flight = Flight(server.truth)
        self.truth = Truth(f"{server.truth}.rank0")

    def range(self, start_ns, end_ns):
        """The least and the most: of requests that have got a part of their
        answer, and of rows of a step."""
        flight = self.flight
        seen = (flight.between(flight.streaming, start_ns, end_ns) +
                [s.tokens for s in self.truth.crossing(start_ns, end_ns)])
        return (min(seen), max(seen + flight.between(flight.all, start_ns,
                                                     end_ns)))


def plausible(server, snapshots, ranks):
    """What is known in any line must be right, whoever lives."""
    wrong, batch = [], Batch(server)
    for before, s in zip([None, *snapshots], snapshots):
        # a line tells of the time since the one before, and of counters that
        # were read at most a second before that
        since = at_ns(before or s) - 1e9
        low, high = batch.range(since, at_ns(s) + TURN_NS)
        rows, gpus = value(s, "rows"), len(s["target"]["gpus"])
        if rows is not None and not low <= rows / TOP_K <= high:
            wrong.append(("rows", rows, low, high))
        if gpus > ranks:
            wrong.append(("gpus", gpus))
        useful = value(s, "useful_mbu_ratio")
        if useful is not None and not 0 <= useful <= 1.02:
            wrong.append(("useful_mbu_ratio", useful))
        if s["layers"] and len(s["layers"]) != LAYERS:
            wrong.append(("layers", len(s["layers"])))
        numbers = [r["rank"] for r in s["target"]["ranks"]]
        if len(set(numbers)) != len(numbers) or max(numbers) >= ranks:
            wrong.append(("ranks", s["target"]["ranks"]))
        full = value(s, "requests_in_flight")
        seen = batch.flight.between(batch.flight.all, since, at_ns(s) + TURN_NS)
        if full is not None and not min(seen) <= full <= max(seen):
            wrong.append(("in flight", full, seen))
    return wrong


class Death:
    """A rank is killed once all have their agents, and the lines of moetop are
    read until its successor has been there for four seconds."""

    def __init__(self, ranks):
        self.ranks, self.seen = ranks, []
        self.victim = self.killed = self.shown = self.back = None

    def look(self, line):
        """True when it is over."""
        self.seen.append(line)
        ranks = line["target"]["ranks"]
        good = [r["pid"] for r in ranks if r["agent"] in ("idle", "window")]
        whole = (len(ranks) == len(good) == self.ranks and
                 f"{self.ranks} of {self.ranks}" in
                 line["health"]["tiers"]["T2"]["what"])
        if not self.killed:
            if whole and len(self.seen) > 8:
                self.victim, self.killed = ranks[-1]["pid"], tap.Watch()
                os.kill(self.victim, signal.SIGKILL)
        elif any(r["agent"] in ("gone", "absent", "starting") for r in ranks):
            self.shown = True
        elif whole and self.victim not in good and not self.back:
            self.back = self.killed.stop().end
        return whole and self.back and time.time() > self.back + 4


def a_worker_dies(ranks):
    server = Server("--tp", str(ranks), run=False)
    p = subprocess.Popen([MOETOP, "-p", str(server.pid), "--json",
                          "--interval", "0.25"], stdout=subprocess.PIPE,
                         text=True, env=ENV)
    death = Death(ranks)
    try:
        for text in itertools.islice(p.stdout, 400):
            if death.look(json.loads(text)):
                break
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        serves = server.p.poll() is None
    finally:
        p.kill()
        server.end()
    last, killed = death.seen[-1], death.killed or tap.Watch()
    # a look a second may find the successor already there
    check("one of four is killed: it is said, unless it is back at once",
          death.shown or death.back and killed.within(2.5),
          last["target"]["ranks"])
    check(f"its successor gets an agent after {killed.seconds():.1f} s (start "
          "included)" if death.back else "its successor gets an agent within "
          "6 s", death.back and killed.within(6), last["target"]["ranks"])
    check("four ranks and four GPUs again, T2 of all",
          death.back and len(last["target"]["ranks"]) == ranks and
          len(last["target"]["gpus"]) == ranks and
          f"{ranks} of {ranks}" in last["health"]["tiers"]["T2"]["what"],
          last["health"]["tiers"])
    wrong = plausible(server, death.seen, ranks)
    check("no figure was wrong meanwhile", not wrong, wrong[:4])
    steps = [s for s in Truth(f"{server.truth}.rank0").steps
             if s.start > ((death.back or 0) + MONOTONIC) * 1e9]
    check("the server serves on", serves and steps, len(steps))


def fault():
    server = Server("--tp", "2", run=False, MOETOP_SIM_FAULT="worker_dies=1")
    try:
        first = workers(server)
        tap.wait_for("another worker", lambda: len(
            set(workers(server)) - set(first)) == 1)
        now = tap.wait_for("two workers", lambda: len(
            now := workers(server)) == 2 and now)
        check("fault worker_dies: another worker takes its place",
              len(set(now) & set(first)) == 1, (first, now))
    finally:
        server.end()


tensor = healthy("tp 4", "--tp", 4)
expert = healthy("ep 2", "--ep", 2)
check("tensor parallel ranks read the same bytes each",
      max(tensor) / min(tensor) < 1.001, tensor)
check("four quarters and two halves are the same experts",
      abs(sum(tensor) / sum(expert) - 1) < 0.05, (tensor, expert))
a_worker_dies(4)
fault()
shutil.rmtree(T)
tap.end()
