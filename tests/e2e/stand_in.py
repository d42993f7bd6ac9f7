"""stand_in.py - processes that look like those of a server

A layout is a node: {"args": [...], "listen": [port or 0, ...], "gpus": [n, ...], "maps": FILE, "children": [node,
...], "session": bool, "root": DIR}.  Each node is a process whose arguments are overwritten as setproctitle does
it - with them goes its environment, if it has a "title" in place of "args".  A port 0 is any free one.
"""
import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time

ROOM = 4096  # for arguments
PR_SET_NAME, PR_SET_PDEATHSIG = 15, 1


# ---- the processes ----------------------------------------------------------

def places():
    """The kernel shows what lies between arg_start and arg_end of stat."""
    with open("/proc/self/stat", encoding="latin-1") as f:
        fields = f.read().rpartition(")")[2].split()
    return [int(fields[i - 3]) for i in (48, 49, 50, 51)]


def overwrite(text, at, with_environment):
    start, end, env, env_end = at
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text[:end - start - 1], min(len(text),
                                                      end - start - 1))
    if with_environment:
        ctypes.memset(env, 0, env_end - env)


def first_port(report):
    """Of the process, or of the first below it that listens."""
    if report["ports"]:
        return report["ports"][0]
    return next((p for p in map(first_port, report["children"]) if p), 0)


def be(node, out):
    libc = ctypes.CDLL(None)
    at = places()
    keep = []
    report = {"pid": os.getpid(), "ports": [], "children": []}
    if node.get("session"):
        os.setsid()
    for child in node.get("children", ()):  # they inherit nothing
        report["children"].append(spawn(child))
    if node.get("maps"):
        fd = os.open(node["maps"], os.O_RDONLY)
        keep.append(mmap.mmap(fd, 4096, prot=mmap.PROT_READ))
        os.close(fd)
    for gpu in node.get("gpus", ()):
        keep.append(open(f"/dev/nvidia{gpu}", "rb"))
    for port in node.get("listen", ()):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        s.listen(8)
        keep.append(s)
        report["ports"].append(s.getsockname()[1])
    # the log is what a script gives a server as its standard output
    if node.get("log"):
        os.dup2(os.open(node["log"], os.O_WRONLY | os.O_APPEND), 1)
    if "root" in node:
        os.chroot(node["root"])
        os.chdir("/")
    args = node.get("args") or [node["title"]]
    name = os.path.basename(node.get("title") or args[0])
    args = [a.replace("@PORT", str(first_port(report))) for a in args]
    overwrite("\0".join(args).encode(), at, "title" in node)
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    os.write(out, json.dumps(report).encode() + b"\n")
    os.close(out)
    while True:
        signal.pause()


def read_line(fd):
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(fd, 65536)
        if not more:
            raise SystemExit("a stand-in did not start")
        line += more
    return json.loads(line)


def spawn(node):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            be(node, w)
        finally:
            os._exit(1)
    os.close(w)
    report = read_line(r)
    os.close(r)
    return report


# ---- the test's side --------------------------------------------------------

class Server:
    """The processes of a layout; each pid as this namespace has it."""

    def __init__(self, node, prefix=(), env=None):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, os.path.abspath(__file__),
             json.dumps(node), "x" * ROOM],
            stdout=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.pids = []
        try:
            self.report = read_line(self.process.stdout.fileno())
        except SystemExit:
            self.__exit__()
            raise
        # in the order in which they were born: parents before children
        found = [self.process.pid]
        while found:
            pid = found.pop(0)
            self.pids.append(pid)
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                found += sorted(map(int, f.read().split()))
        # wrappers that `prefix` has started stand above
        self.pids = [p for p in self.pids if not self.is_wrapper(p)]

    @staticmethod
    def is_wrapper(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().startswith((b"unshare\0", b"nsenter\0"))

    @property
    def pid(self):
        return self.pids[0]

    @property
    def port(self):
        return first_port(self.report)

    def kill_first(self):
        """As the out-of-memory killer does it."""
        os.kill(self.pid, signal.SIGKILL)
        if self.pid == self.process.pid:
            self.process.wait()
        self.pids.pop(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def wait_gone(pid, deadline_s=20):
    end = time.monotonic() + deadline_s
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(.01)


if __name__ == "__main__":
    be(json.loads(sys.argv[1]), os.dup(1))
