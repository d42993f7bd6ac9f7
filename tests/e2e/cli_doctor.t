#!/usr/bin/env python3
"""cli_doctor.t - what moetop doctor says here, of a server, and of none.

Needs root.  The GPU is the simulated one, or one that is named and not there.
"""
import json
import os
import signal
import subprocess
import tempfile

import tap
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
SIM = os.path.join(O, "sim", "moetop-sim")
NVML = os.path.join(O, "sim", "lib", "libnvidia-ml.so.1")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")


def doctor(*args, nvml=NVML):
    run = subprocess.run([MOETOP, "doctor", "--json", *args], text=True,
                         capture_output=True, timeout=60, check=False,
                         env=dict(os.environ, MOETOP_NVML=nvml))
    checks = {c["tier"]: c for c in json.loads(run.stdout)["checks"]}
    return run, checks


def here():
    """The simulated GPU is there as long as a simulated server runs."""
    run, c = doctor()
    check("no server: status 0, and all that needs none is there",
          run.returncode == 0 and not run.stderr and
          sorted(c) == ["C", "T1", "agent", "gpu"] and
          all(x["ok"] and not x["remedy"] for x in c.values()), c)
    check("the GPU by name, count and peak",
          "1 GPU, NVIDIA " in c["gpu"]["what"] and
          c["gpu"]["what"].endswith(" GB/s"), c["gpu"])
    lines = subprocess.run([MOETOP, "doctor"], text=True, check=False,
                           capture_output=True).stdout.splitlines()
    check("in text one line a check", len(lines) == 4 and
          lines[0].startswith("T1     ok "), lines)


def no_gpu():
    for path, why in (("/nonexistent/nvml.so", "cannot be opened"),
                      ("libm.so.6", "has no nvmlInit_v2")):
        run, c = doctor(nvml=path)
        check(f"NVML is {path}: no GPU and no counters, and why",
              run.returncode == 0 and not c["gpu"]["ok"] and
              why in c["gpu"]["what"] and c["gpu"]["remedy"] and
              not c["C"]["ok"], c)


def server():
    sim = subprocess.Popen([MOETOP, "run", "--", SIM, "--model", MODEL,
                            "--gpu", "H200", "--port", "0"],
                           stdout=subprocess.PIPE, text=True)
    try:
        sim.stdout.readline()
        here()
        run, c = doctor("-p", str(sim.pid))
        check("a server with the agent: all is well",
              run.returncode == 0 and all(x["ok"] for x in c.values()), c)
        check("its processes are counted and its model is named",
              c["T0"]["what"] ==
              "1 process, 1 with CUDA, model qwen3-30b", c["T0"])
    finally:
        sim.kill()
        sim.wait()


def no_agent():
    sim = subprocess.Popen([SIM, "--model", MODEL, "--port", "0"],
                           stdout=subprocess.PIPE, text=True)
    try:
        sim.stdout.readline()
        _, c = doctor("-p", str(sim.pid))
        check("a server without the agent: it can be loaded, rows would lack",
              c["T2"]["ok"] and "1 that it can be loaded into" in
              c["T2"]["what"] and not c["T3"]["ok"] and
              "moetop run" in c["T3"]["remedy"], c)
        fds = os.listdir(f"/proc/{sim.pid}/fd")
        check("and it was only asked, not loaded",
              not any("moetop" in os.readlink(f"/proc/{sim.pid}/fd/{fd}")
                      for fd in fds), fds)
        _, c = doctor("-p", str(sim.pid), "--no-inject")
        check("--no-inject: missing, with the remedy", not c["T2"]["ok"] and
              "--no-inject" in c["T2"]["remedy"], c["T2"])
        sim.send_signal(signal.SIGSTOP)
        _, c = doctor("-p", str(sim.pid))
        sim.send_signal(signal.SIGCONT)
        check("a stopped server: why it would be refused, and what to do",
              not c["T2"]["ok"] and f"pid {sim.pid}" in c["T2"]["what"] and
              "stopped" in c["T2"]["what"] and c["T2"]["remedy"], c["T2"])
        reader = subprocess.Popen([MOETOP, "-p", str(sim.pid), "--json"],
                                  stdout=subprocess.PIPE, text=True)
        reader.stdout.readline()
        reader.stdout.readline()
        _, c = doctor("-p", str(sim.pid))
        check("a server that another moetop watches: its pid",
              not c["T2"]["ok"] and f"pid {reader.pid}" in c["T2"]["what"],
              c["T2"])
        reader.terminate()
        reader.wait(10)
    finally:
        sim.kill()
        sim.wait()


def other_process():
    p = subprocess.Popen(["sleep", "60"])
    try:
        run, c = doctor("-p", str(p.pid))
        check("a process that is no server: each tier says what it lacks",
              run.returncode == 0 and
              not any(c[t]["ok"] for t in ("T0", "T1", "T2")) and
              all(c[t]["remedy"] for t in ("T0", "T1", "T2")), c)
        run, c = doctor("-p", str(p.pid), "--model", MODEL)
        check("--model gives it a shape, but no name of its own",
              c["T0"]["ok"] and
              c["T0"]["what"].startswith("1 process, 0 with CUDA, model ") and
              not c["T0"]["what"].endswith("model "), c["T0"])
    finally:
        p.kill()
        p.wait()


def bad_model():
    """A vLLM by its command line, whose model has no config.json."""
    with tempfile.TemporaryDirectory() as cwd:
        with open(os.path.join(cwd, "serve"), "w", encoding="ascii") as f:
            f.write("read line\n")
        p = subprocess.Popen(["vllm", "serve", "/no/such/model"], cwd=cwd,
                             executable="/bin/sh", stdin=subprocess.PIPE)
        try:
            run, c = doctor("-p", str(p.pid))
        finally:
            p.communicate()
        check("a model without a config.json is named, with the way out",
              run.returncode == 0 and not c["T0"]["ok"] and
              "no config.json found for /no/such/model" in c["T0"]["what"] and
              "--model" in c["T0"]["remedy"], c["T0"])


no_gpu()
server()
no_agent()
other_process()
bad_model()
tap.end()
