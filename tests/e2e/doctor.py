"""doctor.py - moetop doctor from a test, and machines that it can be shown"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
MOETOP = os.path.join(O, "moetop")
SIM = os.path.join(O, "sim", "moetop-sim")
NVML = os.path.join(O, "sim", "lib", "libnvidia-ml.so.1")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
          "--inh-caps=-all"]
WORDS = ("ok", "missing", "broken", "unknown")


def own_gpus():
    """This script once more, where it sees no simulated GPU of another one."""
    if os.environ.get("OWN_GPUS") != "1":
        os.execvpe("unshare", [
            "unshare", "--mount", "sh", "-c", "mount -t tmpfs -o mode=1777 "
            'none /dev/shm && exec "$@"', "-", sys.executable, *sys.argv],
            dict(os.environ, OWN_GPUS="1"))


def copies():
    """A folder with moetop and its agent that anybody may enter."""
    home = tempfile.mkdtemp()
    os.chmod(home, 0o755)
    for name in ("moetop", "libmoetop-agent.so"):
        shutil.copy(os.path.join(O, name), home)
    return home


class Sim:
    """A simulated server, ready."""
    def __init__(self, *args, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, SIM, "--model", MODEL, "--gpu", "H200", "--port", "0",
             *args], stdout=subprocess.PIPE, text=True, cwd="/")
        self.pid = self.process.pid
        self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Machine:
    """A root for MOETOP_SYSROOT: one where all is well, to be changed."""
    def __init__(self):
        self.root = tempfile.mkdtemp()
        os.chmod(self.root, 0o755)
        files = {
            "proc/sys/kernel/osrelease": "6.8.0-fixture\n",
            "proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
            "proc/sys/kernel/perf_event_paranoid": "2\n",
            "proc/sys/kernel/yama/ptrace_scope": "0\n",
            "proc/self/cgroup": "0::/user.slice/session-1.scope\n",
            "proc/self/mounts": "none /sys/fs/cgroup cgroup2 rw 0 0\n",
            "proc/self/attr/current": "unconfined\n",
            "proc/driver/nvidia/version":
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10 "
                "Fri Jan 10\n",
            "proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n",
            "sys/kernel/btf/vmlinux": "BTF",
            "sys/kernel/security/lockdown": "[none] integrity "
                                            "confidentiality\n",
        }
        for name, text in files.items():
            self.write(name, text)
        self.link("proc/self/ns/pid", "pid:[4026531836]")
        self.link("proc/self/ns/user", "user:[4026531837]")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root)

    def path(self, name):
        full = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return full

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def link(self, name, to):
        full = self.path(name)
        if os.path.islink(full):
            os.unlink(full)
        os.symlink(to, full)

    def remove(self, name):
        full = self.path(name)
        if os.path.isdir(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)

    def status_of(self, pid, **fields):
        """The status of a process, with other values."""
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            lines = f.read().splitlines()
        for name, value in fields.items():
            lines = [x for x in lines if not x.startswith(name + ":")]
            lines.append(f"{name}:\t{value}")
        self.write(f"proc/{pid}/status", "\n".join(lines) + "\n")


def doctor(*args, prefix=(), root=None, moetop=MOETOP, nvml=NVML, **env):
    """The run, its lines by id (the last of each), and its tiers."""
    full = dict(os.environ, MOETOP_NVML=nvml, **env)
    if root:
        full["MOETOP_SYSROOT"] = root
    run = subprocess.run([*prefix, moetop, "doctor", "--json", *args],
                         text=True, capture_output=True, timeout=120,
                         check=False, env=full, cwd="/")
    out = json.loads(run.stdout) if run.stdout else {}
    lines = {c["id"]: c for c in out.get("checks", [])}
    return run, lines, out.get("tiers", {})
