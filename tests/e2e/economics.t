#!/usr/bin/env python3
"""economics.t - what is predicted of more users is what happens with them.

A simulated server has 8 users, then 32, each until enough was measured.  What the
table of what-ifs said of 32 tokens per step, and of four replicas merged into one,
is compared with what is measured then.  The engine counts its cached tokens, so
eta is a number.
"""
# time limit: 600 s
import json
import math
import os
import subprocess
import time

import tap
from tap import check

O = os.environ.get("O", "build")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
ENOUGH = 8  # lines of one load, of which the least disturbed is taken
PATIENCE_S = 150  # for each load


def value(line, key):
    return line["metrics"][key]["value"]


def of_load(line, users):
    """Were its rows measured under so many users?"""
    m = line["metrics"]["active_experts"]
    b = value(line, "tokens_per_step")
    return (b and abs(b / users - 1) < 0.1 and m["state"] == "ok" and
            m["source"] == "measured")


def users(number, port):
    return subprocess.Popen(
        [f"{O}/sim/moetop-load", "--url", f"http://127.0.0.1:{port}",
         "--users", str(number)], stdout=subprocess.DEVNULL)


def measured(view, number):
    """The line under this load whose step was the shortest: what else the
    machine does makes the simulated GPU slower than it is, never faster."""
    lines = []
    end = time.monotonic() + PATIENCE_S
    for text in view.stdout:
        line = json.loads(text)
        if of_load(line, number) and value(line, "step_seconds"):
            lines.append(line)
        if len(lines) == ENOUGH or time.monotonic() > end:
            break
    return min(lines, key=lambda x: value(x, "step_seconds"), default=None)


def run():
    """A line of either load."""
    started = [subprocess.Popen(
        [f"{O}/moetop", "run", "--", f"{O}/sim/moetop-sim", "--model",
         f"{ROOT}/sim/models/qwen3-30b.json", "--gpu", "H200", "--port", "0",
         "--engine", "sglang", "--stream-interval", "4"],
        stdout=subprocess.PIPE, text=True)]
    try:
        for line in started[0].stdout:
            if "listening on" in line:
                port = int(line.rsplit(":", 1)[1].split()[0])
                break
        else:
            raise SystemExit("Bail out! the simulated server did not start")
        view = subprocess.Popen(
            [f"{O}/moetop", "-p", str(started[0].pid), "--json",
             "--gpu-price", "3"], stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, LD_LIBRARY_PATH=f"{O}/sim/lib"))
        started += [view, users(8, port)]
        few = measured(view, 8)
        started.append(users(24, port))
        return few, measured(view, 32)
    finally:
        for p in reversed(started):
            p.kill()
            p.wait()


def row(line, kind, amount):
    for w in line["what_if"]:
        if w["kind"] == kind and w["amount"] == amount:
            return w
    return None


def near(a, b, rel):
    return a is not None and b is not None and math.isclose(a, b, rel_tol=rel)


def main():
    few, many = run()
    check("both loads were measured", few and many, (few, many))
    if not few or not many:
        tap.end()
        return
    told = row(few, "batch", 32)
    now = row(few, "batch", 8)
    merged = row(few, "merge", 4)
    u, t = value(many, "active_experts"), value(many, "step_seconds")
    check("U of 32 users was predicted from 8 to 5 %",
          near(told["active_experts"], u, 0.05), (told, u))
    check("so was their step, to 30 %",
          near(told["step_seconds"]["value"], t, 0.3), (told, t))
    ratio = t / 32 / (value(few, "step_seconds") / 8)
    check("four replicas in one cost what was predicted, to 30 %",
          near(merged["cost_ratio"]["value"], ratio, 0.3), (merged, ratio))
    print(f"# U {told['active_experts']:.1f} is {u:.1f}, step "
          f"{told['step_seconds']['value'] * 1e3:.2f} ms is {t * 1e3:.2f}, "
          f"cost {merged['cost_ratio']['value']:.3f} is {ratio:.3f}")
    check("the interval holds the value",
          told["step_seconds"]["low"] <= told["step_seconds"]["value"]
          <= told["step_seconds"]["high"], told)
    check("nothing changed: the step of now",
          near(now["step_seconds"]["value"], value(few, "step_seconds"), 0.05),
          (now, value(few, "step_seconds")))
    # 16 times is the limit, and the batch is only about 8
    check("a batch 8 times as large is in range, one of 32 times is not",
          not row(few, "batch", 64)["out_of_range"] and
          row(few, "batch", 256)["out_of_range"] and
          row(few, "batch", 256)["limit"] == "batch", few["what_if"])
    eta = value(few, "marginal_gain_ratio")
    parts = [value(few, k) for k in ("expert_share_ratio", "kv_share_ratio",
                                     "compute_share_ratio")]
    check("eta is a number with all its parts",
          None not in parts and near(eta, 1 - sum(parts), 1e-9),
          (eta, parts))
    check("the overlap of requests is what their popularity predicts",
          near(value(few, "expert_overlap_ratio"),
               value(few, "expert_overlap_fitted_ratio"), 0.1) and
          value(few, "expert_overlap_ratio") >
          1.1 * value(few, "expert_overlap_uniform_ratio"), few["metrics"])
    low, at, high = [value(few, f"traffic_exit{x}_tokens")
                     for x in ("_low", "", "_high")]
    check("the valley of this traffic ends later than uniform routing's",
          low <= at <= high and 1.5 * 57 < at < 3.5 * 57, (low, at, high))
    tap.end()


main()
