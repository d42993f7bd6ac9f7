#!/usr/bin/env python3
"""ranks_follow.t - processes that come, go and change under moetop's eyes.

A tree as an engine has it: a front process that maps libcuda and owns no GPU, a
worker that is born after moetop, one that takes its place, one that becomes
another program.  Each gets an agent within two seconds of its first call of
CUDA, the front process never.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import tap
from tap import Watch, check

O = os.path.abspath(os.environ.get("O", "build"))
MOETOP = os.path.join(O, "moetop")
CUDA = os.path.join(O, "sim", "lib", "libcuda.so.1")
T = tempfile.mkdtemp()
ENV = dict(os.environ,
           MOETOP_NVML=os.path.join(O, "sim", "lib", "libnvidia-ml.so.1"))
ENV.pop("CUDA_INJECTION64_PATH", None)
WITHIN_S = 2.5  # two, and what a busy machine adds

FRONT = f"""
import ctypes, os, subprocess, sys, time
ctypes.CDLL({CUDA!r})
workers = []
print("front", flush=True)
for line in sys.stdin:
    if line == "born\\n":
        workers.append(subprocess.Popen([sys.executable, sys.argv[1]],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True))
        print(workers[-1].stdout.readline().strip(), flush=True)
    elif line == "exec\\n":
        workers[-1].stdin.write("exec\\n")
        workers[-1].stdin.flush()
        print(workers[-1].stdout.readline().strip(), flush=True)
    elif line == "reap\\n":
        workers.pop().wait()
        print("reaped", flush=True)
for w in workers:
    w.kill()
"""

WORKER = f"""
import ctypes, os, select, sys, threading, time
assert ctypes.CDLL({CUDA!r}).cuInit(0) == 0
threading.Thread(target=lambda: select.select([], [], [], 600),
                 daemon=True).start()
print(os.getpid(), flush=True)
if sys.stdin.readline() == "exec\\n":
    os.execv(sys.executable, [sys.executable, sys.argv[0]])
"""


class Tree:
    def __init__(self):
        for name, text in (("front.py", FRONT), ("worker.py", WORKER)):
            with open(os.path.join(T, name), "w", encoding="ascii") as f:
                f.write(text)
        self.p = subprocess.Popen(
            [sys.executable, os.path.join(T, "front.py"),
             os.path.join(T, "worker.py")], text=True, env=ENV,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.p.stdout.readline()
        self.pid = self.p.pid

    def ask(self, word):
        self.p.stdin.write(word + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        self.p.wait(60)


class Moetop:
    """Its newest snapshot, read by a thread."""

    def __init__(self, pid):
        self.p = subprocess.Popen(
            [MOETOP, "-p", str(pid), "--json", "--no-bpf", "--interval",
             "0.1"], stdout=subprocess.PIPE, text=True, env=ENV)
        self.last = None
        self.seen = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            self.last = json.loads(line)
            self.seen.append(self.last["target"]["ranks"])

    def rank(self, pid):
        for r in (self.last or {"target": {"ranks": []}})["target"]["ranks"]:
            if r["pid"] == pid:
                return r
        return None

    def wait(self, condition, deadline_s=60):
        """The stopwatch, when a condition of its ranks has come true."""
        watch = Watch()
        return watch.stop() if tap.wait(condition, deadline_s) else None

    def works(self, pid):
        r = self.rank(pid)
        return r and r["agent"] in ("idle", "window") and r["attach"]

    def end(self):
        self.p.send_signal(signal.SIGINT)
        self.p.wait(60)


def has_ring(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if "moetop-ring" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                return True
        except OSError:
            pass
    return False


def expect(name, moetop, pid):
    took = moetop.wait(lambda: moetop.works(pid))
    check(f"{name}: an agent after {took.seconds():.1f} s" if took else
          f"{name}: an agent", took and took.within(WITHIN_S),
          (moetop.last and moetop.last["target"]["ranks"],
           moetop.last and moetop.last["health"]["tiers"]["T2"]))


def main():
    tree = Tree()
    moetop = Moetop(tree.pid)
    try:
        first = int(tree.ask("born"))
        expect("a worker that is born later", moetop, first)
        second = int(tree.ask("born"))
        expect("another one", moetop, second)
        os.kill(second, signal.SIGKILL)
        tree.ask("reap")
        gone = moetop.wait(lambda: any(
            r["pid"] == second and r["agent"] == "gone"
            for r in moetop.last["target"]["ranks"]))
        check("one that was killed is shown as gone",
              gone and gone.within(2.5), moetop.last["target"]["ranks"])
        third = int(tree.ask("born"))
        expect("one that takes the place of one that was killed", moetop,
               third)
        check("and the one that was killed is forgotten",
              moetop.wait(lambda: moetop.rank(second) is None),
              moetop.last["target"]["ranks"])
        before = moetop.rank(third)["attach"]
        same = int(tree.ask("exec"))
        took = moetop.wait(lambda: (r := moetop.rank(third)) and
                           r["attach"] and r["attach"] != before)
        check("one that has become another program: an agent" +
              (f" after {took.seconds():.1f} s" if took else ""),
              same == third and took and took.within(WITHIN_S + 1),
              moetop.last["target"]["ranks"])
        check("the front process, which only maps libcuda, is left alone",
              not has_ring(tree.pid) and not any(
                  r["pid"] == tree.pid and r["agent"] != "absent"
                  for ranks in moetop.seen for r in ranks))
        check("and all of them live", tree.p.poll() is None and
              all(os.path.exists(f"/proc/{p}/exe") for p in (first, third)))
    finally:
        moetop.end()
        tree.end()


main()
shutil.rmtree(T)
tap.end()
