"""fake_engine.py - programs with the process trees of vLLM and SGLang

They start as the real ones do (a script `vllm` on PATH, a module
`sglang.launch_server`), make a worker by multiprocessing's spawn or fork, and
call cuInit of the simulated driver in the worker alone.  As with torch, the
driver's library may be there long before.
"""
import ctypes
import os
import stat
import sys

SOURCE = '''#!{python}
import ctypes, multiprocessing, os, sys

if "IMPORT" in os.environ:
    ctypes.CDLL({cuda!r})

{extra}

def worker(words, hold):
    plugins()
    words.send(("ring", rings()))
    rc = ctypes.CDLL({cuda!r}).cuInit(0)
    words.send(("worker", os.getpid(), rc))
    hold.recv()

def rings():
    n = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            n += "moetop-ring" in os.readlink("/proc/self/fd/" + fd)
        except OSError:
            pass
    return n

def main():
    method = os.environ.get("METHOD", "spawn")
    plugins()
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    stay, hold = context.Pipe()
    child = context.Process(target=worker, args=(there, hold), daemon=True)
    child.start()
    _, before = here.recv()
    _, pid, rc = here.recv()
    print("ready", os.getpid(), pid, rc, before, flush=True)
    sys.stdin.read()
    child.kill()

if __name__ == "__main__":
    main()
'''

NO_PLUGINS = '''
def plugins():
    pass
'''

# As vllm.plugins.load_general_plugins: once a process, those that VLLM_PLUGINS
# allows, and a plugin that fails is an error of its own.
PLUGINS = '''
from importlib.metadata import entry_points

loaded = False

def plugins():
    global loaded
    if loaded:
        return
    loaded = True
    allowed = os.environ.get("VLLM_PLUGINS")
    for point in entry_points(group="vllm.general_plugins"):
        if allowed is None or point.name in allowed.split(","):
            point.load()()
'''


def write(folder, cuda, python=sys.executable, extra=NO_PLUGINS):
    """bin/vllm and the package sglang in folder."""
    text = SOURCE.format(python=python, cuda=cuda, extra=extra)
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(os.path.join(folder, "sglang"))
    script = os.path.join(folder, "bin", "vllm")
    for path in (script, os.path.join(folder, "sglang", "launch_server.py")):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
    with open(os.path.join(folder, "sglang", "__init__.py"), "w",
              encoding="ascii"):
        pass
    os.chmod(script, os.stat(script).st_mode | stat.S_IXUSR)


class Ring:
    """What the header of a process's ring says."""

    def __init__(self, pid):
        self.path = None
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if "moetop-ring" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                    self.path = f"/proc/{pid}/fd/{fd}"
            except OSError:
                pass

    def __bool__(self):
        return self.path is not None

    def word(self, offset):
        with open(self.path, "rb") as f:
            f.seek(offset)
            return ctypes.c_uint32.from_buffer_copy(f.read(4)).value

    def __repr__(self):
        return f"ring of {self.pid}, state {self.state}, late {self.late}"

    @property
    def pid(self):
        return self.word(24)

    @property
    def state(self):
        return self.word(256)

    @property
    def late(self):
        return self.word(268)
