#!/usr/bin/env python3
"""regimes.t - one sweep over solo, valley and shared, on the simulated server.

The regime may be wrong for four seconds after the load has changed, and never
for longer.  Every line's ratios must follow from its own rows.
"""
import json
import math
import os
import signal
import subprocess
import tempfile
import time

import tap
from tap import Pauses, check, slowness

O = os.environ.get("O", "build")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GRACE_S = 4.0
PHASES = [(1, 12, "solo"), (16, 14, "valley"), (512, 20, "shared")]
USERS = ",".join(f"{n}:{s}" for n, s, _ in PHASES)


def listening(process, deadline_s=120):
    """Wait for the server's one line; returns its port."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        line = process.stdout.readline()
        if not line:
            break
        if "listening on" in line:
            return int(line.rsplit(":", 1)[1])
    raise SystemExit("Bail out! the simulated server did not start")


def truth_changes(path):
    """[(monotonic seconds, in flight)] of the server's own count."""
    out = []
    for line in open(path, encoding="utf-8"):
        f = line.split("\t")
        if f[0] == "F" and len(f) >= 3:
            out.append((int(f[1]) / 1e9, int(f[2])))
    return out


def wanted(changes, at):
    """The regime that the true load at this time calls for, and since when."""
    state, since = None, 0.0
    for t, n in changes:
        if t > at:
            break
        new = "solo" if n == 1 else "valley" if 12 <= n <= 16 else \
            "shared" if n >= 450 else state if n > 0 else "idle"
        if new != state:
            state, since = new, t
    return state, since


def near(a, b, rel=1e-9):
    return a is not None and b is not None and \
        math.isclose(a, b, rel_tol=rel, abs_tol=1e-12)


def identities(m, target):
    """Broken formulas among the metrics of one line."""
    v = {k: x["value"] for k, x in m.items()}
    if any(v[k] is None for k in ("rows", "active_experts")):
        return []
    r, u, f1 = v["rows"], v["active_experts"], v["single_row_experts"]
    e = target["experts"]
    bad = []
    for key, want in (("fragmentation_ratio", u / r),
                      ("rows_per_active_expert", r / u),
                      ("single_row_ratio", f1 / u),
                      ("coverage_ratio", u / e),
                      ("valley_index", u * u / (e * r))):
        if not near(v[key], want):
            bad.append(f"{key} = {v[key]}, not {want}")
    eta = v["marginal_gain_ratio"]
    parts = [v[k] for k in ("expert_share_ratio", "kv_share_ratio",
                            "compute_share_ratio")]
    if eta is not None and None not in parts and \
            not near(eta, max(0.0, 1 - sum(parts))):
        bad.append(f"eta = {eta}, parts {parts}")
    return bad


def run(tmp):
    truth = os.path.join(tmp, "truth")
    total = sum(s for _, s, _ in PHASES)
    server = subprocess.Popen(
        [f"{O}/moetop", "run", "--", f"{O}/sim/moetop-sim", "--model",
         f"{ROOT}/sim/models/qwen3-30b.json", "--gpu", "H200", "--port", "0",
         "--users", USERS, "--stream-interval", "4", "--truth", truth,
         "--duration", str(total + 20)],
        stdout=subprocess.PIPE, text=True)
    try:
        listening(server)
        view = subprocess.run(
            [f"{O}/moetop", "-p", str(server.pid), "--json", "--count",
             str(total)], stdout=subprocess.PIPE, text=True, timeout=250,
            env=dict(os.environ, LD_LIBRARY_PATH=f"{O}/sim/lib"))
        lines = [json.loads(x) for x in view.stdout.splitlines()]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
    return lines, truth_changes(truth)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        pauses, slow = Pauses(), slowness()
        lines, changes = run(tmp)
    offset = time.time() - time.monotonic()
    grace_s = GRACE_S * max(slow, slowness())
    wrong, seen, story, broken = [], set(), [], []
    for s in lines:
        at = s["time"] - offset
        want, since = wanted(changes, at)
        got = s["regime"]["value"]
        m = s["metrics"]
        story.append(f"{at - changes[0][0]:6.2f} s want {want} got {got} B "
                     f"{m['tokens_per_step']['value']} s1 "
                     f"{m['single_row_ratio']['value']}")
        seen.add(got)
        lost_s = pauses.lost(since + offset, s["time"])
        if got != want and at - since - lost_s > grace_s:
            wrong.append(story[-1])
        broken += identities(m, s["target"])
    check("a snapshot a second", len(lines) == sum(p[1] for p in PHASES),
          len(lines))
    check("solo, valley and shared are all seen",
          {"solo", "valley", "shared"} <= seen, "\n".join(story))
    check(f"no wrong regime {GRACE_S:.0f} s after the load has changed",
          not wrong, "\n".join(wrong + ["--"] + story))
    check("every line's ratios follow from its rows", not broken,
          "\n".join(broken))
    tap.end()


main()
