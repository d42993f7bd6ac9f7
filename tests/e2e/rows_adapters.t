#!/usr/bin/env python3
"""Rows per expert through every row adapter, against what the server really did.

The sequences rows-*.seq route with another kernel in each MoE layer, the others
are of engines.  In `exact` every cell of a step must be there once the self-test
has passed, and the rows of every step must be those of the truth log; so must
they be for what is sampled.  Where a graph takes no copies, or copies too late,
rows are sampled, and it is said why.

ROWS_LONG=1 (make soak): all engines, both ways, more windows.
"""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers as L  # noqa: E402
import ring as R  # noqa: E402
from tap import check, end  # noqa: E402
from truth import Truth  # noqa: E402

NEAR_NS = 20000
EXPERTS = {"qwen3-30b": (128, 8), "deepseek-v3": (256, 8),
           "gpt-oss-120b": (128, 4)}
EXACT = 0.6  # of the steps of a window: its edges cut some
LONG = bool(os.environ.get("ROWS_LONG"))
B200 = ["--gpu", "B200"]
SGLANG = ["--engine", "sglang"]

# sequence, model, users, options, mode, layers without rows
CASES = [
    ("rows-vllm", "qwen3-30b", 6, [], 2, ()),
    ("rows-sglang", "qwen3-30b", 6, [], 2, (6, 20, 34)),
    ("rows-sglang", "qwen3-30b", 1, [], 2, ()),
    ("rows-other", "qwen3-30b", 6, [], 2, ()),
    ("trtllm-gen", "qwen3-30b", 5, B200, 1, ()),
    ("gpt-oss", "gpt-oss-120b", 16, [], 1, ()),
]
ENGINES = [("vllm-triton", "qwen3-30b", 3, []),
           ("sglang-triton", "qwen3-30b", 12, SGLANG),
           ("cutlass-fp8", "qwen3-30b", 6, []),
           ("deepgemm", "deepseek-v3", 4, []),
           ("deepgemm-masked", "deepseek-v3", 4, SGLANG),
           ("flashinfer", "qwen3-30b", 20, []),
           ("trtllm-gen", "qwen3-30b", 5, B200),
           ("marlin", "qwen3-30b", 9, []),
           ("marlin-mxfp4", "gpt-oss-120b", 16, []),
           ("gpt-oss", "gpt-oss-120b", 24, []),
           ("deepep-ll", "deepseek-v3", 8, SGLANG),
           ("deepep-normal", "deepseek-v3", 4, SGLANG),
           ("mtp-same", "deepseek-v3", 4, SGLANG),
           ("piecewise", "qwen3-30b", 8, []),
           ("shared-stream", "qwen3-30b", 8, [])]


def run(backend, model, users, options, mode, fault="", windows=4,
        window_ms=400, enough=lambda records: True):
    """Records until so many windows have decode steps and enough of them were
    sampled, and the truth."""
    experts, top_k = EXPERTS[model]
    env = dict(os.environ, MOETOP_PERIOD_MS="1500", **L.ANY_PRICE,
               MOETOP_WINDOW_MS=str(window_ms), MOETOP_ROWS=str(mode),
               MOETOP_EXPERTS=str(experts), MOETOP_TOP_K=str(top_k),
               CUDA_INJECTION64_PATH=f"{L.O}/libmoetop-agent.so")
    if fault:
        env["MOETOP_SIM_FAULT"] = fault
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "truth")
        sim = subprocess.Popen(
            [f"{L.O}/sim/moetop-sim", "--model", f"{L.MODELS}/{model}.json",
             "--backend", backend, "--users", str(users), "--port", "0",
             "--truth", log, "--duration", "120"] + options,
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ring = R.attach(sim.pid)
            ring.control("hint", users)
            records = R.collect(ring, lambda r: done(r, windows) and enough(r), 60)
        finally:
            sim.terminate()
            sim.wait()
        return records, Truth(log)


def cells_of(step):
    return bin(step.mask0 | step.mask1 << 64).count("1")


def done(records, windows):
    """A busy machine samples less at a time."""
    steps = [r for r in records if r.type == R.STEP_ROWS]
    return (len(L.windows_of(records)) >= windows and len(steps) > 10 and
            sum(map(cells_of, steps)) > 40)


def best_exact(records, without):
    """(share, window) of the window in which most of the steps of each layer
    are known."""
    best = (0, 0)
    for w in L.windows_of(records):
        exact = {r.layer: r.exact_cells for r in records if r.type == R.ROWS
                 and r.window == w.window and r.phase == R.DECODE}
        least = min(exact.get(n, 0) for n in range(48) if n not in without)
        best = max(best, (least / w.decode_steps, w.window))
    return best


def texts(records):
    return [r.text for r in records if r.type == R.TEXT]


def compare(records, truth):
    """(steps, cells, those that differ, steps that the server had not)"""
    wrong, lost, cells, steps = [], 0, 0, 0
    for r in records:
        if r.type != R.STEP_ROWS:
            continue
        step = truth.near(r.start_ns, NEAR_NS)
        if step is None:
            # The first step of a prompt may begin where it is not seen.
            lost += r.phase == R.DECODE
            continue
        mask = r.mask0 | r.mask1 << 64
        at = [step.layers[i] for i in range(128) if mask >> i & 1]
        want = tuple(sum(getattr(x, f) for x in at)
                     for f in ("rows", "active", "single"))
        steps += 1
        cells += len(at)
        if want != (r.rows, r.active, r.single):
            wrong.append((want, (r.rows, r.active, r.single), hex(mask)))
    return steps, cells, wrong, lost


def enough(mode, without, replicas):
    """Until all that is checked has come."""
    return lambda records: (
        (mode != 2 or best_exact(records, without)[0] > EXACT) and
        (not replicas or placed(records)))


def check_exact(name, records, without):
    share, window = best_exact(records, without)
    check(f"{name}: the self-test has passed",
          any("rows: exact" in t for t in texts(records)), texts(records))
    check(f"{name}: every layer of most steps of a window is known",
          share > EXACT, (share, window))


def placed(records):
    """(rows, active, experts) of layers whose experts have replicas: what these
    got is counted apart."""
    return [(r.placed_rows, r.placed_active, r.placed_experts)
            for r in records if r.type == R.ROWS and r.phase == R.DECODE
            and r.placed_experts > r.experts]


def check_placed(name, records):
    found = placed(records)
    check(f"{name}: physical experts are counted apart ({len(found)} layers)",
          found and all(rows % 8 == 0 and 0 < active <= rows and n == 160
                        for rows, active, n in found), found[:4])


def check_rows(name, records, truth):
    steps, cells, wrong, lost = compare(records, truth)
    check(f"{name}: rows of {steps} steps, {cells} cells, are exact",
          steps > 10 and cells > 40 and not wrong, (wrong[:2], steps, cells))
    check(f"{name}: all of them are the server's", lost == 0, lost)
    unsaid = []
    for w in (r for r in records if r.type == R.WINDOW):
        cells = sum(r.cells for r in records
                    if r.type == R.ROWS and r.window == w.window)
        all_of_it = (w.decode_steps + w.prefill_steps) * w.layers_seen
        if cells + w.cells_lost != all_of_it:
            unsaid.append((cells, w.cells_lost, all_of_it))
    check(f"{name}: cells that are missing are counted", not unsaid, unsaid)


def check_direct(name, records):
    rows = [r for r in records if r.type == R.ROWS and r.phase == R.DECODE]
    check(f"{name}: without alignment a block is a row, of fewer experts",
          rows and all(r.direct_cells == r.cells and r.blocks == r.rows
                       for r in rows)
          and sum(r.active for r in rows) < sum(r.rows for r in rows),
          [(r.cells, r.direct_cells, r.blocks, r.rows) for r in rows[:3]])


def check_fallbacks():
    for fault, why in (("no_graph_copies", "took no copy"),
                       ("late_graph_copies", "differs")):
        def said(records, why=why):
            return any("sampled, not exact" in t and why in t
                       for t in texts(records))
        records, truth = run("vllm-triton", "qwen3-30b", 3, [], 2, fault, 2,
                             enough=said)
        check(f"{fault}: rows are sampled, and it is said why", said(records),
              texts(records))
        check_rows(fault, records, truth)
        check_direct(fault, records)


def main():
    for backend, model, users, options, mode, without in CASES:
        name = f"{backend}, {users} users"
        records, truth = run(backend, model, users, options, mode,
                             windows=5 if backend == "rows-vllm"
                             else 3 if mode == 2 else 2, enough=enough(
                                 mode, without, backend == "rows-vllm"))
        check_rows(name, records, truth)
        if mode == 2:
            check_exact(name, records, without)
        if backend == "rows-vllm":
            check_placed(name, records)
    check_fallbacks()
    for backend, model, users, options in ENGINES if LONG else ():
        for mode in (1, 2):
            name = f"{backend}, {'sampled' if mode == 1 else 'exact'}"
            records, truth = run(backend, model, users, options, mode, "", 6,
                                 800)
            check_rows(name, records, truth)
    end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
