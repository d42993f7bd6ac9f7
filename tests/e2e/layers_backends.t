#!/usr/bin/env python3
"""Layers and classes of every engine path that the simulated server plays.

For each file of sim/sequences: which windows' steps the agent counted is found
in the truth log by time; then each layer's times, every class's calls and times,
the number of anchors, and the sum of all records must fit.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import layers as L  # noqa: E402
import ring as R  # noqa: E402
from tap import check, end  # noqa: E402

TIME_WITHIN = 0.02
WINDOWS = 2

# backend, model, users, MoE layers, draft layers, other options
CASES = [
    ("vllm-triton", "qwen3-30b", 12, 48, 0, []),
    ("sglang-triton", "qwen3-30b", 12, 48, 0, ["--engine", "sglang"]),
    ("cutlass-fp8", "qwen3-235b", 6, 94, 0, []),
    ("deepgemm", "deepseek-v3", 4, 58, 0, []),
    ("deepgemm-masked", "deepseek-v3", 4, 58, 0, ["--engine", "sglang"]),
    ("flashinfer", "qwen3-30b", 20, 48, 0, []),
    ("trtllm-gen", "qwen3-30b", 5, 48, 0, ["--gpu", "B200"]),
    ("trtllm-gen", "qwen3-30b", 5, 48, 0, ["--gpu", "B200", "--eager"]),
    ("marlin", "qwen3-30b", 9, 48, 0, []),
    ("marlin-mxfp4", "gpt-oss-120b", 16, 36, 0, []),
    ("gpt-oss", "gpt-oss-120b", 24, 36, 0, []),
    ("deepep-ll", "deepseek-v3", 8, 58, 0, ["--engine", "sglang"]),
    ("deepep-normal", "deepseek-v3", 4, 58, 0, ["--engine", "sglang"]),
    ("mtp", "deepseek-v3", 4, 58, 1, ["--engine", "sglang"]),
    ("mtp", "deepseek-v3", 4, 59, 0, ["--eager"]),
    ("mtp-same", "deepseek-v3", 4, 59, 0, ["--engine", "sglang"]),
    ("piecewise", "qwen3-30b", 8, 48, 0, []),
    ("shared-stream", "qwen3-next-80b", 8, 48, 0, []),
]


def drop_prompts(records, truth):
    """Without rows, eager steps with few prompt tokens pass for decode steps:
    leave windows with any out."""
    mixed = {w.window for w in L.windows_of(records)
             if any(s.phase == R.PREFILL and s.end > w.start_ns - L.EDGE_NS
                    and s.start < w.end_ns + L.EDGE_NS for s in truth.steps)}
    return [r for r in records if getattr(r, "window", 0) not in mixed]


def whole_runs(records, truth, eager):
    """Windows with the runs of true steps that may be theirs."""
    found, lost = [], []
    for w in L.windows_of(records):
        runs = L.runs_inside(w, truth, eager)
        if runs:
            found.append((w, runs))
        else:
            lost.append((w.decode_steps, w.prefill_steps, w.bad_steps))
    return found, lost


def check_layers(name, records, found):
    worst, where = 0.0, None
    for w, runs in found:
        got = L.layer_means(records, w)
        error = min(max(L.worst_errors(got, run)) for run in runs)
        if error >= worst:
            worst, where = error, w.window
    check(f"{name}: layer times within 2 % (worst {100 * worst:.2f} %)",
          found and worst < TIME_WITHIN, where)


def class_errors(got, want):
    """Classes with other calls, and the largest relative error of a time."""
    wrong = [(n, got.get(n, (0,))[0], want.get(n, (0,))[0])
             for n in sorted(set(got) | set(want))
             if got.get(n, (0,))[0] != want.get(n, (0,))[0]]
    worst = max((abs(got[n][i] / want[n][i] - 1) for n in got if n in want
                 for i in (1, 2) if want[n][i]), default=0.0)
    return wrong, worst


def check_classes(name, records, found):
    wrong, worst = [], 0.0
    for w, runs in found:
        got = L.class_sums(records, w)
        errors = [class_errors(got, L.true_classes(run)) for run in runs]
        best = min(errors, key=lambda e: (len(e[0]), e[1]))
        wrong += best[0]
        worst = max(worst, best[1])
    check(f"{name}: calls of every class are exact", found and not wrong,
          wrong[:6])
    check(f"{name}: times of every class within 2 % "
          f"(worst {100 * worst:.2f} %)", found and worst < TIME_WITHIN)


def check_anchors(name, records, layers, draft):
    seen = {(w.layers_seen, w.draft_layers) for w in L.windows_of(records)}
    bad = [w.bad_steps for w in L.windows_of(records)]
    check(f"{name}: {layers} layers a step, {draft} of a draft model",
          seen == {(layers, draft)} and sum(bad) == 0, (seen, bad))


def check_conservation(name, records):
    """Every kernel record is in a LAYER record, or was said to be outside."""
    wrong = []
    for w in L.windows_of(records):
        inside = sum(r.calls for r in records
                     if r.type == R.LAYER and r.window == w.window)
        steps = sum(r.kernels for r in records
                    if r.type == R.STEPS and r.window == w.window)
        total = inside + w.bad_kernels + w.edge_kernels
        if total != w.kernels or inside != steps or w.edge_steps > 2:
            wrong.append((w.kernels, inside, steps, w.bad_kernels,
                          w.edge_kernels, w.edge_steps))
    check(f"{name}: no kernel record is lost uncounted", not wrong, wrong)


def main():
    chosen = sys.argv[1:]
    for backend, model, users, layers, draft, options in CASES:
        if chosen and backend not in chosen:
            continue
        eager = "--eager" in options
        name = backend + (", eager" if eager else "")
        # A prompt of few tokens would pass for decoding where no graph tells.
        options = ["--backend", backend, "--prompt-tokens", "600", *options]
        records, truth = L.run(model, users, options,
                               WINDOWS + eager)
        if eager:
            records = drop_prompts(records, truth)
        found, lost = whole_runs(records, truth,
                                 eager or backend == "piecewise")
        check(f"{name}: the steps of each window are found",
              len(found) >= WINDOWS and not lost, lost)
        check_anchors(name, records, layers, draft)
        check_layers(name, records, found)
        check_classes(name, records, found)
        check_conservation(name, records)
    end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
