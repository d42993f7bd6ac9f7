#!/usr/bin/env python3
"""counters_pm.t - DRAM bytes of each layer by PM sampling, against the truth.

The simulated sampler's clock is 20 us ahead of the kernel records' and a part
of what is written comes late.  The simulated server counts what each layer's
experts read.  Then the sampler's faults: each has its own sentence, and what
NVML counts stays.
"""
import math
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tap  # noqa: E402
import watching  # noqa: E402
from tap import check  # noqa: E402
from truth import Truth  # noqa: E402

O = os.path.abspath(os.environ.get("O", "build"))
MODEL = os.path.join(HERE, "..", "..", "sim", "models", "qwen3-30b.json")
SAMPLES = 400  # of what ten seconds give
TRUTH = os.path.join(O, "counters_pm.truth")


def start():
    server = subprocess.Popen(
        [f"{O}/moetop", "run", "--", f"{O}/sim/moetop-sim", "--model", MODEL,
         "--gpu", "H200", "--users", "16", "--port", "0", "--duration", "300",
         "--truth", TRUTH], stdout=subprocess.PIPE, text=True,
        # counters are of the whole GPU: one that nobody else uses
        env=dict(os.environ, CUDA_VISIBLE_DEVICES="7"))
    for line in server.stdout:
        if "listening on" in line:
            return server
    raise SystemExit("Bail out! the simulated server did not start")


def watch(pid, enough, *options, fault="", most=60):
    """The first line that says enough, or the last of all."""
    env = dict(os.environ, LD_LIBRARY_PATH=f"{O}/sim/lib")
    if fault:
        env["MOETOP_SIM_FAULT"] = fault
    _, err, lines = watching.watch(
        [f"{O}/moetop", "-p", str(pid), "--json", "--counters=pm", "--no-bpf",
         *options], lambda got: enough(got[-1]), most, env=env)
    sys.stderr.write(err)
    return lines[-1]


def tier(line):
    return line["health"]["tiers"]["C"]


def rms(told, true):
    return math.sqrt(sum((a / b - 1) ** 2 for a, b in zip(told, true)) /
                     len(true))


def compare(line):
    """Of the layers, relative: rms error of expert bytes, error of their sum,
    rms error of the experts touched."""
    steps = [s for s in Truth(TRUTH).steps if s.phase == 0 and s.tokens >= 15]
    told = [x["expert_bytes_per_step"] or 0 for x in line["layers"]]
    true = [sum(s.layers[l].read_bytes for s in steps) / len(steps)
            for l in range(len(told))]
    touched = [sum(s.layers[l].active for s in steps) / len(steps)
               for l in range(len(told))]
    return (rms(told, true), sum(told) / sum(true) - 1,
            rms([x["active_experts"] or 0 for x in line["layers"]], touched))


def layers(pid):
    last = watch(pid, lambda x: x["bytes"]["method"] == "layers" and
                 x["bytes"]["samples"] >= SAMPLES,
                 "--budget", "50", "--rows=off", fault="pm_offset=20000")
    check("the sampler runs and says what it samples",
          tier(last)["state"] == "ok" and
          "GH100 (bytes+tensor)" in tier(last)["what"], tier(last))
    check("bytes are known by layer", last["bytes"]["method"] == "layers",
          last["bytes"])
    offset = last["bytes"]["clock_offset_seconds"] or 0
    check("the offset of the clocks is found to 5 us",
          abs(abs(offset) - 20e-6) < 5e-6, offset)
    layer, total, touched = compare(last)
    check("expert bytes of the layers are within 3 % rms", layer < 0.03, layer)
    check("their sum is within 1 %", abs(total) < 0.01, total)
    check("without rows, experts touched are inferred from bytes, to 5 % "
          "rms",
          all(x["active_experts_source"] == "inferred"
              for x in last["layers"]) and touched < 0.05, touched)
    m = last["metrics"]
    check("so are those of the model",
          m["active_experts"]["source"] == "inferred" and
          m["mbu_ratio"]["source"] == "measured", m["active_experts"])
    read, write = (m[f"dram_{w}_bytes_per_second"]["value"]
                   for w in ("read", "write"))
    check("reads and writes are told apart", read and write and write < read,
          (read, write))
    print(f"# rms {100 * layer:.2f} %, sum {100 * total:.2f} %, offset "
          f"{offset * 1e6:.1f} us, {last['bytes']['samples']:.0f} samples, "
          f"U {100 * touched:.1f} %")


FAULTS = [
    # fault, what the tier says, and its remedy
    ("pm_denied", "administrators", "NVreg_RestrictProfilingToAdminUsers"),
    ("pm_busy", "another profiler", "dcgmi profile --pause"),
    ("pm_clocks", "SM clock fall from 1980 to 1200 MHz", "--counters=gpm"),
]


def faults(pid):
    for fault, says, remedy in FAULTS:
        last = watch(pid, lambda x, s=says: s in tier(x)["what"] and
                     x["metrics"]["mbu_ratio"]["state"] == "ok",
                     "--no-inject", fault=fault)
        check(f"{fault}: it is said, with its remedy",
              says in tier(last)["what"] and
              remedy in (tier(last)["remedy"] or ""), tier(last))
        check(f"{fault}: GPM goes on",
              tier(last)["state"] == "ok" and "GPM" in tier(last)["what"] and
              last["metrics"]["mbu_ratio"]["state"] == "ok",
              last["metrics"]["mbu_ratio"])
    last = watch(pid, lambda x: "overflows" in tier(x)["what"] and
                 " 0 overflows" not in tier(x)["what"], "--no-inject",
                 fault="pm_overflow=20")
    check("overflows are counted and said",
          tier(last)["state"] == "ok" and
          "overflows" in tier(last)["what"] and
          " 0 overflows" not in tier(last)["what"], tier(last))


server = start()
try:
    layers(server.pid)
    faults(server.pid)
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=60)
    if os.path.exists(TRUTH):
        os.unlink(TRUTH)
tap.end()
