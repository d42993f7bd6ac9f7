#!/usr/bin/env python3
"""cli_doctor.t - what moetop doctor says here, of a server, and of none.

Needs root.  The GPU is the simulated one, or one that is named and not there.
"""
# time limit: 600 s
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

import tap
from doctor import MODEL, MOETOP, NVML, SIM, WORDS, Sim, doctor, own_gpus
from tap import check

own_gpus()

TIERS = ["T0", "T1", "T2", "T3", "C"]


def here():
    """The simulated GPU is there as long as a simulated server runs."""
    run, c, tiers = doctor()
    out = json.loads(run.stdout)
    check("no server: status 0, and what needs none works",
          run.returncode == 0 and not run.stderr and
          out["ok"] and out["asked"] == ["T0"] and
          all(tiers[t]["ok"] for t in ("T0", "T1", "C")), tiers)
    check("no server: what depends on one says so",
          all(tiers[t]["state"] == "unknown" and
              tiers[t]["remedy"] == "add -p PID" for t in ("T2", "T3")),
          tiers)
    check("every line has an id, a tier, a state, and a remedy unless ok",
          len(out["checks"]) > 20 and
          all(x["id"] and x["tier"] in TIERS and x["state"] in WORDS and
              x["ok"] == (x["state"] == "ok") and x["what"] and
              (x["remedy"] or x["state"] in ("ok", "unknown"))
              for x in out["checks"]), out["checks"])
    check("the tiers come last, once each",
          [x["id"] for x in out["checks"]][-5:] == TIERS, out["checks"])
    check("the GPU by name, count and peak",
          "1 GPU, NVIDIA " in c["gpu"]["what"] and
          c["gpu"]["what"].endswith(" GB/s"), c["gpu"])
    check("each source of requests has its line",
          all(f"rung.{x}" in c for x in "KFPCS") and c["rung.K"]["ok"], c)
    lines = subprocess.run([MOETOP, "doctor"], text=True, check=False,
                           capture_output=True,
                           env=dict(os.environ, MOETOP_NVML=NVML)
                           ).stdout.splitlines()
    check("in text one line a check",
          len([x for x in lines if x]) == len(out["checks"]) and
          lines[0].startswith("T1  ok       kernel "), lines)


def no_gpu():
    for path, why in (("/nonexistent/nvml.so", "cannot be opened"),
                      ("libm.so.6", "has no nvmlInit_v2")):
        run, c, tiers = doctor("--no-bpf", nvml=path)
        check(f"NVML is {path}: no GPU and no counters, and why",
              run.returncode == 0 and not c["gpu"]["ok"] and
              why in c["gpu"]["what"] and c["gpu"]["remedy"] and
              not tiers["C"]["ok"], c)


def asked():
    run, _, _ = doctor("--tier", "T1")
    check("--tier T1 without a server: it works", run.returncode == 0, run)
    run, _, _ = doctor("--no-bpf", "--tier", "T0,T2")
    check("--tier T0,T2 without a server: T2 does not",
          run.returncode == 1 and
          json.loads(run.stdout)["asked"] == ["T0", "T2"], run)
    run, _, _ = doctor("--tier", "T9")
    check("--tier T9 is refused", run.returncode == 2 and
          run.stderr.startswith("moetop: --tier: 'T9' is no tier; "), run)


def server():
    sim = subprocess.Popen([MOETOP, "run", "--", SIM, "--model", MODEL,
                            "--gpu", "H200", "--port", "0"],
                           stdout=subprocess.PIPE, text=True)
    try:
        sim.stdout.readline()
        here()
        asked()
        run, c, tiers = doctor("-p", str(sim.pid))
        check("a server with the agent: all is well",
              run.returncode == 0 and all(x["ok"] for x in tiers.values()),
              tiers)
        check("its processes are counted and its model is named",
              tiers["T0"]["what"] ==
              "1 process, 1 with CUDA, model qwen3-30b", tiers["T0"])
        check("the model's shape and where it came from",
              "qwen3-30b.json (model path of the server)" in
              c["server.model"]["what"], c["server.model"])
        check("its metrics answer", c["server.metrics"]["ok"] and
              "families" in c["server.metrics"]["what"], c)
        check("its CUPTI by path and version",
              "libcupti.so.13, " in c["cupti"]["what"], c["cupti"])
        check("its agent, by rank", c["rank.0"]["what"].endswith(
            ", since before CUDA started"), c["rank.0"])
        check("moetop run is no foreign client of CUPTI",
              c["cupti.client"]["ok"] and "started by moetop run" in
              c["cupti.client"]["what"], c["cupti.client"])
    finally:
        sim.kill()
        sim.wait()


def stopped(pid):
    """Each thread."""
    states = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="latin-1") as f:
            states.append(f.read().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


def no_agent():
    with Sim() as sim:
        pid = str(sim.pid)
        run, c, tiers = doctor("-p", pid)
        check("a server without the agent: it can be loaded, rows would lack",
              run.returncode == 0 and tiers["T2"]["ok"] and
              "1 that it can be loaded into" in tiers["T2"]["what"] and
              not tiers["T3"]["ok"] and
              "moetop run" in tiers["T3"]["remedy"], tiers)
        fds = os.listdir(f"/proc/{sim.pid}/fd")
        check("and it was only asked, not loaded",
              not any("moetop" in os.readlink(f"/proc/{sim.pid}/fd/{fd}")
                      for fd in fds), fds)
        run, c, tiers = doctor("-p", pid, "--no-inject", "--no-bpf")
        check("--no-inject: missing, with the remedy",
              run.returncode == 1 and not tiers["T2"]["ok"] and
              "--no-inject" in tiers["T2"]["remedy"], tiers["T2"])
        sim.process.send_signal(signal.SIGSTOP)
        tap.wait_for("the server has stopped", lambda: stopped(sim.pid))
        run, _, tiers = doctor("-p", pid, "--no-bpf")
        sim.process.send_signal(signal.SIGCONT)
        check("a stopped server: why it would be refused, and what to do",
              run.returncode == 1 and not tiers["T2"]["ok"] and
              f"pid {pid}" in tiers["T2"]["what"] and
              "stopped" in tiers["T2"]["what"] and
              "kill -CONT" in tiers["T2"]["remedy"], tiers["T2"])


def watched():
    """A server under load that another moetop reads."""
    with Sim("--scenario", "sweep") as sim:
        pid = str(sim.pid)
        reader = subprocess.Popen([MOETOP, "-p", pid, "--json"],
                                  stdout=subprocess.PIPE, text=True)
        end = time.monotonic() + 120
        for line in reader.stdout:
            if json.loads(line)["metrics"]["step_seconds"]["value"] or \
                    time.monotonic() > end:
                break
        # it goes on, and somebody has to read it
        rest = threading.Thread(target=reader.stdout.read)
        rest.start()
        _, c, tiers = doctor("-p", pid, "--no-bpf")
        check("a server that another moetop watches: its pid",
              not tiers["T2"]["ok"] and
              f"pid {reader.pid}" in tiers["T2"]["what"], tiers["T2"])
        check("how much of the kernel time is of a known class",
              c["kernels"]["ok"] and " % of the kernel time" in
              c["kernels"]["what"], c["kernels"])
        check("and the version of CUPTI, from the agent",
              "API 13" in c["cupti"]["what"], c["cupti"])
        reader.terminate()
        reader.wait(120)
        rest.join()
        reader.stdout.close()


def other_process():
    p = subprocess.Popen(["sleep", "600"])
    try:
        run, _, c = doctor("-p", str(p.pid))
        check("a process that is no server: each tier says what it lacks",
              run.returncode == 1 and
              not any(c[t]["ok"] for t in ("T0", "T1", "T2")) and
              all(c[t]["remedy"] for t in ("T0", "T1", "T2")), c)
        run, _, c = doctor("-p", str(p.pid), "--model", MODEL, "--no-bpf",
                           "--tier", "T0")
        check("--model gives it a shape, but no name of its own",
              run.returncode == 0 and c["T0"]["ok"] and
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
            run, _, c = doctor("-p", str(p.pid), "--no-bpf")
        finally:
            p.communicate()
        check("a model without a config.json is named, with the way out",
              run.returncode == 1 and not c["T0"]["ok"] and
              "no config.json found for /no/such/model" in c["T0"]["what"] and
              "--model" in c["T0"]["remedy"], c["T0"])


no_gpu()
server()
no_agent()
watched()
other_process()
bad_model()
tap.end()
