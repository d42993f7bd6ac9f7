#!/usr/bin/env python3
"""plugin_venv.t - the plugin for vLLM, installed by pip into an environment of
its own, in a host that loads plugins as vLLM does.
"""
# time limit: 600 s
import os
import shutil
import subprocess
import tempfile

import fake_engine
import tap
from tap import check, wait

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
CUDA = os.path.join(O, "sim", "lib", "libcuda.so.1")
AGENT = os.path.join(O, "libmoetop-agent.so")
T = tempfile.mkdtemp()
VENV = os.path.join(T, "venv")
PYTHON = os.path.join(VENV, "bin", "python")
ENV = dict(os.environ, PATH=os.path.join(T, "bin") + ":/usr/bin:/bin")
ENV.pop("CUDA_INJECTION64_PATH", None)
ENV.pop("PYTHONPATH", None)


def call(*command):
    p = subprocess.run(command, capture_output=True, text=True, check=False,
                       env=ENV, cwd=T)
    return p.returncode == 0, p.stdout + p.stderr


def install():
    # pip builds in the folder: not in the tree
    source = os.path.join(T, "source")
    shutil.copytree(os.path.join(ROOT, "deploy", "vllm-plugin"), source)
    ok, said = call("/usr/bin/python3", "-m", "venv", "--system-site-packages",
                    VENV)
    if ok:
        ok, said = call(PYTHON, "-m", "pip", "install", "--no-index",
                        "--no-build-isolation", "--quiet",
                        "--disable-pip-version-check", source)
    check("pip installs it without network", ok, said)
    ok, said = call(PYTHON, "-c", "from importlib.metadata import *\n"
                    "print([p.value for p in "
                    "entry_points(group='vllm.general_plugins')])")
    check("the entry point is registered",
          ok and "moetop_vllm_plugin:register" in said, said)


def host(name, agent, check_ring, **env):
    env = dict(ENV, MOETOP_AGENT=agent, **env)
    p = subprocess.Popen(["vllm", "serve", "m"], text=True, env=env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    err = ""
    try:
        word = p.stdout.readline().split()
        worker = int(word[2]) if word else 0
        check(f"{name}: the server starts, its worker's CUDA too",
              word and word[0] == "ready" and word[3] == "0", word)
        if worker:
            check_ring(name, worker, int(word[4]))
    finally:
        _, err = p.communicate("", timeout=120)
    check(f"{name}: not a word, status 0", not err and p.returncode == 0,
          (p.returncode, err))


def has_ring(name, worker, before):
    ring = fake_engine.Ring(worker)
    good = ring and ring.pid == worker and ring.late == 0
    check(f"{name}: the worker has an agent of its own, and not late", good,
          ring)
    # its thread sees CUDA start, and takes CUPTI
    check(f"{name}: it works once CUDA does",
          good and wait(lambda: ring.state == 2, 120), ring)


def has_ring_early(name, worker, before):
    has_ring(name, worker, before)
    check(f"{name}: it was there before cuInit", before == 1)


def has_none(name, worker, before):
    check(f"{name}: no agent, and no harm",
          before == 0 and not fake_engine.Ring(worker))


install()
fake_engine.write(T, CUDA, PYTHON, fake_engine.PLUGINS)
garbage = os.path.join(T, "garbage.so")
with open(garbage, "w", encoding="ascii") as f:
    f.write("no library\n")
host("spawned worker", AGENT, has_ring_early, IMPORT="1")
host("forked worker", AGENT, has_ring, METHOD="fork", IMPORT="1")
# no GPU, no driver, no CUPTI anywhere: it gives up, until cuInit calls
host("CUDA that comes from nowhere", AGENT, has_ring_early)
host("not among VLLM_PLUGINS", AGENT, has_none, VLLM_PLUGINS="other")
host("a broken agent", garbage, has_none)
host("a library that is no agent", CUDA, has_none)
ok, said = call(PYTHON, "-m", "pip", "uninstall", "-q", "-y",
                "moetop-vllm-plugin")
check("pip uninstalls it", ok, said)
shutil.rmtree(T)
tap.end()
