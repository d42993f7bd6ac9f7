"""layers.py - what the agent says of layers and classes, against the truth log"""
import bisect
import os
import subprocess
import tempfile

import ring as R
from truth import Truth

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
MODELS = os.path.join(ROOT, "sim/models")
# What windows cost on a busy machine says nothing; it stops none.
ANY_PRICE = {"MOETOP_BUDGET_PPM": "1000000"}
EDGE_NS = 5000000  # recording goes on and off this close to a window's times


def class_names():
    """Names of the classes, by number: the order of the table."""
    names = ["other"]
    with open(os.path.join(ROOT, "wire/kernel_class.def")) as f:
        for line in f:
            if line.startswith("KERNEL_CLASS("):
                names.append(line.split('"')[1])
    return names


def run(model, users, options, windows, enough=lambda records: True,
        period_ms=1500):
    """Records of the first windows that hold decode steps, of more where these
    are not enough, and the truth."""
    with tempfile.TemporaryDirectory() as folder:
        truth = os.path.join(folder, "truth")
        env = dict(os.environ, **ANY_PRICE, MOETOP_PERIOD_MS=str(period_ms),
                   CUDA_INJECTION64_PATH=f"{O}/libmoetop-agent.so")
        with open(os.path.join(folder, "out"), "w") as out:
            sim = subprocess.Popen(
                [f"{O}/sim/moetop-sim", "--model", f"{MODELS}/{model}.json",
                 "--users", str(users), "--port", "0", "--truth", truth,
                 "--duration", "120"] + options,
                env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            ring = R.attach(sim.pid)
            ring.control("hint", users)
            records = R.collect(
                ring, lambda r: sum(x.type == R.WINDOW and x.decode_steps > 0
                                    for x in r) >= windows and enough(r), 90)
        finally:
            sim.terminate()
            sim.wait()
        return records, Truth(truth)


def windows_of(records):
    return [r for r in records if r.type == R.WINDOW and r.decode_steps]


def layer_means(records, w):
    """(layer, part) to mean time covered per decode step of one window."""
    sums = {}
    for r in records:
        if r.type == R.LAYER and r.window == w.window and r.phase == R.DECODE:
            key = (r.layer, r.part)
            sums[key] = sums.get(key, 0) + r.union_ns
    return {(n, part): sums.get((n, part), 0) / w.decode_steps
            for n in range(w.layers_seen + w.draft_layers)
            for part in (R.BLOCK, R.BEFORE)}


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
    first_most = bisect.bisect_left(starts, w.start_ns) + 2 * eager
    after = bisect.bisect_left(starts, w.end_ns - EDGE_NS) - 1
    after_most = bisect.bisect_right(starts, w.end_ns + EDGE_NS) - 1
    runs = []
    for a in range(first, first_most + 1):
        for b in range(after, after_most + 1):
            run = [s for s in truth.steps[a:b] if s.phase == R.DECODE]
            if len(run) == w.decode_steps:
                runs.append(run)
    return runs


def class_sums(records, w, phase=R.DECODE):
    """class to (calls, sum_ns, union_ns) of one window."""
    names, sums = class_names(), {}
    for r in records:
        if r.type == R.LAYER and r.window == w.window and r.phase == phase:
            old = sums.get(names[r.klass], (0, 0, 0))
            sums[names[r.klass]] = (old[0] + r.calls, old[1] + r.sum_ns,
                                    old[2] + r.union_ns)
    return sums


def true_classes(steps):
    sums = {}
    for s in steps:
        for name, (calls, sum_ns, union_ns) in s.classes.items():
            old = sums.get(name, (0, 0, 0))
            sums[name] = (old[0] + calls, old[1] + sum_ns, old[2] + union_ns)
    return sums
