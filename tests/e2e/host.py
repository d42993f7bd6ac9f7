"""host.py - tests/e2e/agent_host.c from a test, and what /proc says of it"""
import os
import subprocess

from layers import ANY_PRICE
from tap import Watch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
AGENT = f"{O}/libmoetop-agent.so"
LIBS = [f"{O}/sim/lib/libcuda.so.1", f"{O}/sim/lib/libcupti.so.13"]
LAYERS, ROWS, ACTIVE, SINGLE = 6, 8, 4, 0  # as agent_host.c routes


class Host:
    def __init__(self, *prefix, libraries=LIBS, **env):
        full = {**os.environ, "MOETOP_PERIOD_MS": "1500",
                "MOETOP_WINDOW_MS": "200", **ANY_PRICE, **env}
        full = {k: v for k, v in full.items() if v is not None}
        self.process = subprocess.Popen(
            [*prefix, f"{O}/tests/e2e/agent_host", *libraries], env=full,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def do(self, *lines):
        """Each must be answered with ok."""
        for line in lines:
            answer = self.ask(line)
            assert answer == "ok", f"{line}: {answer}"

    def quit(self):
        """Exit status and the time until it came."""
        watch = Watch()
        self.process.stdin.write("quit\n")
        self.process.stdin.flush()
        return self.process.wait(60), watch.stop()


def status_kb(pid, key):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return 0


def counts(pid):
    """Descriptors, mappings, threads."""
    with open(f"/proc/{pid}/maps") as f:
        maps = len(f.readlines())
    return (len(os.listdir(f"/proc/{pid}/fd")), maps,
            len(os.listdir(f"/proc/{pid}/task")))


def rings(pid):
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += "moetop-ring" in os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    return n
