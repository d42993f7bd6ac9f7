#!/usr/bin/env python3
"""run_tree.t - `moetop run` puts the agent where CUDA starts, in whatever tree.

A script `vllm` that is found on PATH, `python -m sglang.launch_server`, shells in
between, workers by spawn and by fork: the ring is in the worker, and nowhere
else.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import fake_engine
import tap
from tap import check, wait

O = os.path.abspath(os.environ.get("O", "build"))
MOETOP = os.path.join(O, "moetop")
CUDA = os.path.join(O, "sim", "lib", "libcuda.so.1")
T = tempfile.mkdtemp()
fake_engine.write(T, CUDA)
ENV = dict(os.environ, PYTHONPATH=T,
           PATH=os.path.join(T, "bin") + ":" + os.environ["PATH"])
ENV.pop("CUDA_INJECTION64_PATH", None)


def run(name, command, moetop=MOETOP, cwd=None, **env):
    p = subprocess.Popen([moetop, "run", "--", *command], text=True, cwd=cwd,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=dict(ENV, **env))
    try:
        word = p.stdout.readline().split()
        if not word or word[0] != "ready":
            check(f"{name}: it starts", False, p.stderr.read())
            return
        parent, worker = int(word[1]), int(word[2])
        check(f"{name}: it starts, and CUDA in its worker",
              word[3] == "0" and parent != worker, word)
        ring = wait(lambda: fake_engine.Ring(worker))
        check(f"{name}: the worker has the agent, before anything was captured",
              ring and ring.pid == worker and ring.late == 0, ring)
        check(f"{name}: its parent has none", not fake_engine.Ring(parent))
        with open(f"/proc/{worker}/environ", "rb") as f:
            path = [v for v in f.read().split(b"\0")
                    if v.startswith(b"CUDA_INJECTION64_PATH=")]
        check(f"{name}: the agent's path is absolute",
              len(path) == 1 and path[0].split(b"=")[1].startswith(b"/"), path)
    finally:
        p.communicate("", timeout=60)


def statuses():
    p = subprocess.run([MOETOP, "run", "--", "sh", "-c", "exit 7"], env=ENV,
                       check=False)
    check("the status is the command's own", p.returncode == 7, p.returncode)
    p = subprocess.run([MOETOP, "run", "--", "no-such-program"], env=ENV,
                       capture_output=True, text=True, check=False)
    check("a command that is not there: one line, status 1",
          p.returncode == 1 and len(p.stderr.splitlines()) == 1, p.stderr)
    p = subprocess.run([MOETOP, "run", "--", "true"], text=True, check=False,
                       env=dict(ENV, CUDA_INJECTION64_PATH="/other.so"),
                       capture_output=True)
    check("another injected library: refused with its name",
          p.returncode == 2 and "/other.so" in p.stderr, p.stderr)


run("vllm serve", ["vllm", "serve", "some/model"], IMPORT="1")
run("vllm serve, fork", ["vllm", "serve", "some/model"], METHOD="fork")
run("python -m sglang.launch_server",
    [sys.executable, "-m", "sglang.launch_server", "--model-path", "m"])
run("two shells in between",
    ["sh", "-c", "sh -c 'vllm serve some/model'; true"])
run("moetop by a relative path", ["vllm", "serve", "m"],
    moetop="./" + os.path.basename(MOETOP), cwd=O)
statuses()
shutil.rmtree(T)
tap.end()
