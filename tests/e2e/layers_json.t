#!/usr/bin/env python3
"""Layers and classes as `moetop --json` shows them, against the truth log.

Servers started by `moetop run`, and servers that moetop comes to late: their
graphs were captured before the agent was there, so that nothing but the order of
kernels in a replay tells the layers.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers as L  # noqa: E402
import ring as R  # noqa: E402
from tap import check, end  # noqa: E402
from truth import Truth  # noqa: E402

TIME_WITHIN = 0.02
LINES, LINES_MANY = 8, 12  # the prompts of many users take seconds
WINDOWS = 3
ENV = dict(os.environ, MOETOP_PERIOD_MS="1500",
           MOETOP_NVML=f"{L.O}/sim/lib/libnvidia-ml.so.1")
ENV.pop("CUDA_INJECTION64_PATH", None)

# Many users, so that the number of experts that a step reads, and with it the
# time of a layer, differs little from step to step.
# late, backend, model, users, MoE layers, draft layers, rows, other options
CASES = [
    (False, "trtllm-gen", "qwen3-30b", 64, 48, 0, True, ["--gpu", "B200"]),
    (False, "flashinfer", "qwen3-30b", 64, 48, 0, True, []),
    (False, "deepep-ll", "deepseek-v3", 250, 58, 0, True, []),
    (False, "mtp-same", "deepseek-v3", 250, 58, 1, True, []),
    (True, "trtllm-gen", "qwen3-30b", 64, 48, 0, False, ["--gpu", "B200"]),
    (True, "shared-stream", "qwen3-next-80b", 64, 48, 0, False, []),
    (True, "mtp", "deepseek-v3", 250, 58, 1, False, []),
    (True, "gpt-oss", "gpt-oss-120b", 64, 36, 0, False, []),
]


def told_of(lines):
    """(layer, experts touched) of every cell of the lines that is known."""
    return [(n, x["active_experts"]) for line in lines
            for n, x in enumerate(line["layers"])
            if x["active_experts"] is not None]


def most_layers(lines):
    return lines and 2 * len({n for n, _ in told_of(lines)}) > len(
        lines[-1]["layers"])


def new_windows(view, least, rows, pid):
    """Of its first lines, or of more on a machine that is busy: those that tell
    of new windows, and the windows that the ring holds then."""
    lines, windows = [], 0
    for n, line in enumerate(map(json.loads, view.stdout), 1):
        now = line["health"]["rows"]["windows"]
        if now > windows and line["layers"]:
            line["new"] = now - windows
            line["held"] = [w for w in R.held(pid, R.WINDOW)
                            if w.decode_steps]
            lines.append(line)
        windows = now
        if n >= least and len(lines) >= WINDOWS and (
                not rows or most_layers(lines[1:])):
            break
    return lines


def watch(late, backend, model, users, rows, options, folder):
    """The lines of moetop that have a new window, and the truth."""
    truth = os.path.join(folder, "truth")
    command = [f"{L.O}/sim/moetop-sim", "--model", f"{L.MODELS}/{model}.json",
               "--backend", backend, "--users", str(users), "--port", "0",
               "--output-tokens", "20000", "--routing", "uniform",
               "--truth", truth, "--duration", "200", *options]
    if not late:
        command = [f"{L.O}/moetop", "run", "--", *command]
    with open(os.path.join(folder, "log"), "w") as log:
        sim = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE,
                               stderr=log, text=True)
        while not re.search(r":\d+$", sim.stdout.readline()):
            pass
        view = subprocess.Popen(
            [f"{L.O}/moetop", "-p", str(sim.pid), "--json", "--count", "90"],
            env=ENV, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            lines = new_windows(
                view, LINES if users < 200 else LINES_MANY, rows,
                sim.pid)
        finally:
            for p in (view, sim):
                p.terminate()
                p.wait()
            view.stdout.close()
            sim.stdout.close()
    return lines, Truth(truth)


def steps_of(truth, lines):
    """Of each line, the decode steps of the windows that it tells of: those
    that had ended when it was made."""
    offset = time.clock_gettime(time.CLOCK_MONOTONIC) - time.time()
    steps = []
    for line in lines:
        made_ns = (line["time"] + offset) * 1e9
        told = [w for w in line["held"] if w.end_ns < made_ns][-line["new"]:]
        steps.append([s for w in told for s in truth.inside(
            w.start_ns - L.EDGE_NS, w.end_ns + L.EDGE_NS, R.DECODE)
            if s.graph])
    return steps


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def check_layers(name, lines, per_line, layers, draft):
    worst = 0.0
    for key, first, n in (("layers", 0, layers),
                          ("draft_layers", layers, draft)):
        for i in range(n):
            for field, true in (("seconds_per_step", "block_ns"),
                                ("before_seconds_per_step", "before_ns")):
                got = mean(x[key][i][field] for x in lines) * 1e9
                want = mean(mean(getattr(s.layers[first + i], true)
                                 for s in steps) for steps in per_line)
                worst = max(worst, abs(got / want - 1))
    check(f"{name}: times of {layers} layers and {draft} of a draft model "
          f"within 2 % (worst {100 * worst:.2f} %)", worst < TIME_WITHIN)


def check_classes(name, line, steps):
    want = {n: c[0] for n, c in steps[-1].classes.items()}
    got = {c["class"]: c["calls_per_step"] for c in line["classes"]
           if c["calls_per_step"]}
    check(f"{name}: calls of every class", got == want, (got, want))
    kernels, step = sum(want.values()), line["step"]["decode"]
    check(f"{name}: a step has {kernels} kernels",
          step["kernels"] == kernels, step)
    inside = sum(c["seconds_per_step"] for c in line["classes"]
                 if c["seconds_per_step"])
    parts = (step["busy_seconds"] + step["gap_seconds"]
             + step["between_seconds"])
    check(f"{name}: classes add up to the busy time, and with gaps to the step",
          abs(inside / step["busy_seconds"] - 1) < 1e-6
          and abs(parts / step["seconds"] - 1) < 1e-6, step)


def check_rows(name, lines, steps):
    """Of the cells that were sampled, a part, the experts touched are about
    those of all."""
    told = told_of(lines)
    true = [mean(s.layers[n].active for s in steps) for n, _ in told]
    check(f"{name}: experts touched are the truth's, in most layers",
          most_layers(lines) and
          abs(sum(x for _, x in told) / sum(true) - 1) < 0.05,
          (told, sum(true)))


def check_layer_classes(name, line):
    """Classes of a layer add up to its times."""
    worst = 0.0
    for l in line["layers"] + line["draft_layers"]:
        whole = l["seconds_per_step"] + l["before_seconds_per_step"]
        parts = sum(c["seconds_per_step"] for c in l["classes"])
        shares = sum(c["share_ratio"] for c in l["classes"])
        worst = max(worst, abs(parts / whole - 1), abs(shares - 1))
    check(f"{name}: classes of a layer add up to its time", worst < 1e-4, worst)


def main():
    chosen = sys.argv[1:]
    for late, backend, model, users, layers, draft, rows, options in CASES:
        if chosen and backend not in chosen:
            continue
        name = f"{backend}, {'late' if late else 'from the start'}"
        with tempfile.TemporaryDirectory() as folder:
            lines, truth = watch(late, backend, model, users, rows,
                                 options, folder)
        check(f"{name}: windows come", len(lines) >= WINDOWS, len(lines))
        if len(lines) < WINDOWS:
            continue
        lines = lines[1:]
        per_line = steps_of(truth, lines)
        steps = sum(per_line, [])
        period = lines[-1]["health"]["layers"]
        check(f"{name}: the period holds",
              period == {"seen": layers, "expected": layers, "draft": draft,
                         "holds": True}, period)
        check_layers(name, lines, per_line, layers, draft)
        check_classes(name, lines[-1], steps)
        check_layer_classes(name, lines[-1])
        tier = lines[-1]["health"]["tiers"]["T3"]
        check(f"{name}: {'rows' if rows else 'no rows, and T3 says so'}",
              (tier["state"] == "ok") == rows
              and any(x["rows"] is not None for line in lines
                      for x in line["layers"]) == rows, tier)
        if rows:
            check_rows(name, lines, steps)
    end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
