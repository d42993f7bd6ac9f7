#!/usr/bin/env python3
"""The agent in the simulated server against what the server really did.

Rows of every sampled step must be exact, layer times within 0.1 %: through CUDA
graphs, eagerly, and with SGLang's kernels.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers as L  # noqa: E402
import ring as R  # noqa: E402
import tap  # noqa: E402

NEAR_NS = 20000
LIMIT = 0.001  # of layer times: they are matched step by step

# name, model, users, other options
CASES = [
    ("graphs, 16 users", "qwen3-30b", 16, []),
    ("graphs, 1 user", "qwen3-30b", 1, []),
    ("eager, 16 users", "qwen3-30b", 16, ["--eager"]),
    ("sglang graphs, 12 users", "qwen3-30b", 12, ["--engine", "sglang"]),
    ("512 experts, 3 users", "qwen3-next-80b", 3, []),
    ("dense layers first, 6 users", "deepseek-v3", 6, []),
]


def check(good, text, detail=""):
    tap.check(text, good, detail)


def cells_of(step):
    return bin(step.mask0 | step.mask1 << 64).count("1")


def sampled(records):
    """A busy machine samples less at a time."""
    steps = [r for r in records if r.type == R.STEP_ROWS]
    return len(steps) > 10 and sum(map(cells_of, steps)) > 200


def check_rows(name, records, truth):
    steps = [r for r in records if r.type == R.STEP_ROWS]
    wrong, unknown, cells, lost = [], [], 0, 0
    for r in steps:
        step = truth.near(r.start_ns, NEAR_NS)
        if step is None:
            lost += 1
            other = truth.near(r.start_ns, 10 ** 9)
            unknown.append((r.phase, r.start_ns - other.start, other.phase,
                            other.end - other.start))
            continue
        mask = r.mask0 | r.mask1 << 64
        layers = [step.layers[i] for i in range(128) if mask >> i & 1]
        want = tuple(sum(getattr(x, f) for x in layers)
                     for f in ("rows", "active", "single"))
        cells += len(layers)
        if want != (r.rows, r.active, r.single) or r.phase != step.phase:
            wrong.append((r.start_ns, want, (r.rows, r.active, r.single)))
    check(sampled(records),
          f"{name}: rows were sampled ({cells} cells of {len(steps)} steps)")
    check(not wrong, f"{name}: rows of every sampled step are exact",
          f"{len(wrong)} wrong, first {wrong[:1]}")
    check(lost == 0, f"{name}: every sampled step is one of the server's",
          f"{lost} of {len(steps)} unknown: {unknown[:4]}")


def check_experts(name, records):
    sums, rows = {}, {}
    for r in records:
        if r.type == R.EXPERTS:
            key = (r.window, r.phase, r.layer)
            sums[key] = sums.get(key, 0) + sum(r.counts)
        elif r.type == R.ROWS:
            rows[(r.window, r.phase, r.layer)] = r.rows
    check(bool(rows) and sums == rows,
          f"{name}: rows of the experts add up to those of the layers")


def check_times(name, records, truth):
    worst = [0.0, 0.0]
    compared, lost = 0, []
    for w in (r for r in records if r.type == R.WINDOW):
        if not w.decode_steps:
            continue
        runs = L.runs_inside(w, truth, "eager" in name)
        if not runs:
            lost.append((w.window, w.decode_steps, w.prefill_steps))
            continue
        got = L.layer_means(records, w)
        best = min((L.worst_errors(got, run) for run in runs), key=max)
        worst = [max(a, b) for a, b in zip(worst, best)]
        compared += 1
    check(compared >= 3 and not lost,
          f"{name}: the steps of each window are those between its times",
          f"{compared} compared, not found {lost}")
    check(worst[R.BLOCK] < LIMIT,
          f"{name}: block times within 0.1 % (worst {100 * worst[0]:.2f} %)")
    check(worst[R.BEFORE] < LIMIT,
          f"{name}: times between blocks within 0.1 % "
          f"(worst {100 * worst[1]:.2f} %)")


def check_steps(name, records, truth):
    good = True
    detail = []
    for w in (r for r in records if r.type == R.WINDOW):
        want = truth.inside(w.start_ns, w.end_ns, R.DECODE)
        # The window's edges cost up to one step each, the end of it another.
        good = good and len(want) - 3 <= w.decode_steps <= len(want) + 1
        good = good and w.bad_steps == 0
        detail.append((w.decode_steps, len(want), w.bad_steps))
    check(good, f"{name}: all whole decode steps are counted", str(detail))


def main():
    for name, *case in CASES:
        records, truth = L.run(*case, 3, sampled)
        texts = [r.text for r in records if r.type == R.TEXT]
        windows = [r for r in records if r.type == R.WINDOW]
        check(len(windows) >= 3, f"{name}: windows open", str(texts))
        check_rows(name, records, truth)
        check_experts(name, records)
        check_times(name, records, truth)
        check_steps(name, records, truth)
    tap.end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
