#!/usr/bin/env python3
"""compare_truth.py TRUTH STEPS [JSON] - what moetop said against the truth log.

TRUTH is `moetop-sim --truth`, STEPS is `moetop --sampled-steps`, JSON is the
output of `moetop --json` in the same run.  Rows, active and single-row experts
of every sampled step must be equal; the times of the layers in the last line
of JSON must be within 2 % of the truth over the same window.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import truth as T  # noqa: E402

START_WITHIN_NS = 20_000  # the agent's clock conversion
TIME_WITHIN = 0.02


def sampled(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def mask(step):
    low, high = (int(x, 16) for x in step["layer_mask"])
    return [n for n in range(128) if (low, high)[n // 64] >> n % 64 & 1]


def compare_rows(truth, steps):
    cells, wrong = 0, []
    for s in steps:
        at = truth.near(s["start_ns"], START_WITHIN_NS)
        layers = [at.layers[n] for n in mask(s)] if at else []
        want = tuple(sum(getattr(x, k) for x in layers)
                     for k in ("rows", "active", "single"))
        cells += len(layers)
        if want != (s["rows"], s["active"], s["single"]):
            wrong.append((s["start_ns"], want))
    print(f"rows: {len(steps)} steps, {cells} cells, {len(wrong)} differ",
          *wrong[:3])
    return not wrong and cells > 0


def compare_times(truth, steps, line):
    window = max(s["window"] for s in steps)
    starts = [s["start_ns"] for s in steps
              if s["window"] == window and s["phase"] == 0]
    inside = truth.inside(min(starts) - START_WITHIN_NS,
                          max(starts) + 10**9, 0)
    inside = [s for s in inside if s.start <= max(starts) + START_WITHIN_NS]
    worst = 0.0
    for layer in line["layers"]:
        want = sum(s.layers[layer["layer"]].block_ns for s in inside)
        got = layer["seconds_per_step"] * 1e9 * len(inside)
        worst = max(worst, abs(got / want - 1))
    print(f"times: {len(line['layers'])} layers over {len(inside)} steps, "
          f"worst {100 * worst:.2f} %")
    return worst <= TIME_WITHIN


def main():
    truth, steps = T.Truth(sys.argv[1]), sampled(sys.argv[2])
    good = compare_rows(truth, steps)
    if len(sys.argv) > 3:
        with open(sys.argv[3]) as f:
            last = [json.loads(x) for x in f if x.strip()][-1]
        good = compare_times(truth, steps, last) and good
    return 0 if good else 1


sys.exit(main())
