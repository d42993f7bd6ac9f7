#!/usr/bin/env python3
"""The agent in the simulated server against what the server really did.

Rows of every sampled step must be exact, layer times within 0.1 %: through CUDA
graphs, eagerly, and with SGLang's kernels.
"""
import bisect
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import ring as R  # noqa: E402
from truth import Truth  # noqa: E402

O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
MODELS = os.path.join(ROOT, "sim/models")
NEAR_NS = 20000
LIMIT = 0.001  # of layer times: they are matched step by step
EDGE_NS = 5000000  # recording goes on and off this close to a window's times

# name, model, users, other options
CASES = [
    ("graphs, 16 users", "qwen3-30b", 16, []),
    ("graphs, 1 user", "qwen3-30b", 1, []),
    ("eager, 16 users", "qwen3-30b", 16, ["--eager"]),
    ("sglang graphs, 12 users", "qwen3-30b", 12, ["--engine", "sglang"]),
    ("512 experts, 3 users", "qwen3-next-80b", 3, []),
    ("dense layers first, 6 users", "deepseek-v3", 6, []),
]

number, failed = 0, 0


def check(good, text, detail=""):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {text}")
    if not good and detail:
        print(f"# {detail}")
    sys.stdout.flush()


def run(model, users, options, windows):
    """Records of the first windows that hold decode steps, and the truth."""
    with tempfile.TemporaryDirectory() as folder:
        truth = os.path.join(folder, "truth")
        env = dict(os.environ, MOETOP_PERIOD_MS="1500",
                   CUDA_INJECTION64_PATH=f"{O}/libmoetop-agent.so")
        with open(os.path.join(folder, "out"), "w") as out:
            sim = subprocess.Popen(
                [f"{O}/sim/moetop-sim", "--model", f"{MODELS}/{model}.json",
                 "--users", str(users), "--port", "0", "--truth", truth,
                 "--duration", "60"] + options,
                env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            ring = R.attach(sim.pid)
            ring.control("hint", users)
            records = R.collect(
                ring, lambda r: sum(x.type == R.WINDOW and x.decode_steps > 0
                                    for x in r) >= windows, 30)
        finally:
            sim.terminate()
            sim.wait()
        return records, Truth(truth)


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
    check(len(steps) > 10 and cells > 200,
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


def layer_means(records, w):
    """(layer, part) to mean time covered per decode step of one window."""
    sums = {}
    for r in records:
        if r.type == R.LAYER and r.window == w.window and r.phase == R.DECODE:
            key = (r.layer, r.part)
            sums[key] = sums.get(key, 0) + r.union_ns
    return {(n, part): sums.get((n, part), 0) / w.decode_steps
            for n in range(w.layers_seen) for part in (R.BLOCK, R.BEFORE)}


def worst_errors(got, steps):
    """Largest relative errors of block times and of times between blocks."""
    worst = [0.0, 0.0]
    for (layer, part), mean in got.items():
        field = "before_ns" if part == R.BEFORE else "block_ns"
        want = sum(getattr(s.layers[layer], field) for s in steps)
        error = abs(mean * len(steps) / want - 1) if want else abs(mean)
        worst[part] = max(worst[part], error)
    return worst


def runs_inside(w, truth, eager):
    """The decode steps that lie in a window by the times at which they and
    their next begin: one run of them, two where an edge meets a beginning.
    Eagerly the first may be missing: its own first layer is not recognised.
    """
    starts = truth.starts
    first = bisect.bisect_left(starts, w.start_ns - EDGE_NS)
    first_most = bisect.bisect_left(starts, w.start_ns) + eager
    after = bisect.bisect_left(starts, w.end_ns - EDGE_NS) - 1
    after_most = bisect.bisect_right(starts, w.end_ns + EDGE_NS) - 1
    runs = []
    for a in range(first, first_most + 1):
        for b in range(after, after_most + 1):
            run = [s for s in truth.steps[a:b] if s.phase == R.DECODE]
            if len(run) == w.decode_steps:
                runs.append(run)
    return runs


def check_times(name, records, truth):
    worst = [0.0, 0.0]
    compared, lost = 0, []
    for w in (r for r in records if r.type == R.WINDOW):
        if not w.decode_steps:
            continue
        runs = runs_inside(w, truth, "eager" in name)
        if not runs:
            lost.append((w.window, w.decode_steps, w.prefill_steps))
            continue
        got = layer_means(records, w)
        best = min((worst_errors(got, run) for run in runs), key=max)
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
        records, truth = run(*case, 3)
        texts = [r.text for r in records if r.type == R.TEXT]
        windows = [r for r in records if r.type == R.WINDOW]
        check(len(windows) >= 3, f"{name}: windows open", str(texts))
        check_rows(name, records, truth)
        check_experts(name, records)
        check_times(name, records, truth)
        check_steps(name, records, truth)
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    if not os.path.exists(f"{O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", O)
        sys.exit(0)
    sys.exit(main())
