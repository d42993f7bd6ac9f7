#!/usr/bin/env python3
"""doctor_missing.t - each thing that may be missing gives its line and remedy.

What can be taken away here is taken away; the rest is shown as files of another
machine (MOETOP_SYSROOT).  Needs root.
"""
# time limit: 600 s
import http.server
import os
import shutil
import subprocess
import sys
import threading

import tap
from doctor import NOBODY, Machine, Sim, copies, doctor, own_gpus
from tap import check

own_gpus()

HOME = copies()
OURS = os.path.join(HOME, "moetop")
NO_GPU = "/nonexistent/nvml.so"
ROOTLESS = {"prefix": NOBODY, "moetop": OURS, "HOME": "/"}


def says(name, line, state, what, remedy):
    """The line of one check is in this state, with these words."""
    line = line or {}
    check(name, line.get("state") == state and what in line.get("what", "") and
          remedy in line.get("remedy", "") and bool(remedy) ==
          bool(line.get("remedy")), line)


def look(m, *args, **more):
    return doctor("--no-bpf", *args, root=m.root, nvml=NO_GPU, **more)


def no_capability():
    run, c, tiers = doctor(nvml=NO_GPU, **ROOTLESS)
    setcap = ("sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,"
              f"cap_dac_read_search+ep {OURS}")
    says("no capability: none for requests", c["privileges.requests"],
         "missing", "no cap_perfmon,cap_bpf", setcap)
    says("no capability: BPF is not allowed", c["kernel.bpf"], "missing",
         "not allowed without CAP_BPF and CAP_PERFMON", setcap)
    says("no capability: a rung of the ladder", c["rung.K"], "missing",
         "no CAP_BPF and CAP_PERFMON", setcap)
    says("no capability: none to attach", c["privileges.attach"], "missing",
         "no cap_sys_ptrace", setcap)
    says("no capability: T1", tiers["T1"], "missing",
         "requests can only be estimated", setcap)
    run, _, _ = doctor("--tier", "T1", nvml=NO_GPU, **ROOTLESS)
    check("no capability: --tier T1 is status 1", run.returncode == 1, run)


def kernel():
    with Machine() as m:
        run, c, _ = look(m)
        check("a machine where all is well: nothing is missing but the GPU",
              run.returncode == 0 and
              [i for i, x in c.items() if x["state"] in ("missing", "broken")]
              == ["gpu", "T1", "C"], c)
        m.remove("sys/kernel/btf")
        m.write("proc/sys/kernel/osrelease", "4.18.0-fixture\n")
        m.write("sys/kernel/security/lockdown",
                "none integrity [confidentiality]\n")
        m.write("proc/self/mounts", "none / tmpfs rw 0 0\n")
        _, c, _ = look(m)
        says("no BTF", c["kernel.btf"], "missing",
             "no /sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF=y")
        says("an old kernel", c["kernel"], "missing", "Linux 4.18.0-fixture",
             "boot Linux 5.15 or later")
        says("lockdown", c["kernel.lockdown"], "broken", "confidentiality",
             "boot with lockdown=integrity")
        says("no control groups of version 2", c["container.cgroup2"],
             "missing", "not mounted", "mount -t cgroup2 none /sys/fs/cgroup")
        m.remove("sys")
        _, c, _ = look(m)
        says("no /sys", c["kernel.btf"], "missing", "/sys is not mounted",
             "mount -t sysfs sysfs /sys")


def container():
    with Machine() as m:
        m.write("proc/self/cgroup", "0::/system.slice/docker-0123.scope\n")
        m.link("proc/self/ns/pid", "pid:[4026532222]")
        m.link("proc/self/ns/user", "user:[4026532223]")
        m.write("proc/self/attr/current", "docker-default (enforce)\n")
        _, c, _ = look(m, **{**ROOTLESS, "prefix": [
            *NOBODY, "--bounding-set=-all"]})
        says("moetop in a container of its own", c["container"], "missing",
             "container of Docker with a pid namespace of its own",
             "docker run --pid=host")
        says("and in a user namespace", c["userns"], "broken",
             "in a user namespace", "--userns=host")
        says("capabilities there come from the container",
             c["privileges.requests"], "missing", "no cap_perfmon,cap_bpf",
             "docker run --cap-add BPF --cap-add PERFMON")


def driver_and_counters():
    restricted = "EnableMSI: 1\nRmProfilingAdminOnly: 1\nDmaRemap: 0\n"
    with Machine() as m:
        m.write("proc/driver/nvidia/params", restricted)
        _, c, _ = look(m, **ROOTLESS)
        says("counters for administrators only", c["counters"], "missing",
             "RmProfilingAdminOnly 1",
             "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | "
             "sudo tee /etc/modprobe.d/")
        _, c, _ = look(m)
        check("and root is one", c["counters"]["ok"] and
              "moetop is one" in c["counters"]["what"], c["counters"])
        m.write("etc/modprobe.d/nvidia.conf",
                "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n")
        _, c, _ = look(m, **ROOTLESS)
        says("opened, but not loaded again", c["counters"], "broken",
             "still restricted", "reboot")
        m.remove("proc/driver")
        _, c, tiers = look(m)
        says("no driver", c["driver"], "missing", "no NVIDIA driver",
             "sudo modprobe nvidia")
        says("no NVML", c["gpu"], "missing", "cannot be opened",
             "install the NVIDIA driver")
        says("no counters without a GPU", tiers["C"], "missing", "no GPU",
             "install the NVIDIA driver")


def sampling():
    """Tier C by GPM, by PM sampling, and what keeps either from it; a GPU is
    there as long as the simulated server is."""
    named = {"MOETOP_CUPTI": "/lib/libcupti.so.13"}
    _, c, tiers = doctor("--no-bpf", **named)
    check("GPM and PM sampling: both ways are told", c["counters.pm"]["ok"] and
          named["MOETOP_CUPTI"] in c["counters.pm"]["what"] and
          tiers["C"]["ok"] and "--counters=pm" in tiers["C"]["what"], tiers)
    _, c, tiers = doctor("--no-bpf", MOETOP_SIM_FAULT="no_counters", **named)
    says("a GPU without GPM: PM sampling is the way", tiers["C"], "missing",
         "no GPU has GPM", "add --counters=pm")
    run, c, tiers = doctor("--no-bpf", "--counters=pm", "--tier", "C",
                           MOETOP_SIM_FAULT="no_counters", **named)
    check("and works once it is asked for", run.returncode == 0 and
          tiers["C"]["ok"] and "by PM sampling" in tiers["C"]["what"], tiers)
    with Machine() as m:
        m.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
        # the simulated GPU is root's
        more = {"root": m.root, "prefix": ["setpriv", "--bounding-set=-all"],
                **named}
        _, c, tiers = doctor("--no-bpf", **more)
        says("counters for administrators only: no PM sampling",
             c["counters.pm"], "missing", "for administrators only",
             "run moetop as root")
        check("which GPM does not need", tiers["C"]["ok"] and
              "--counters=pm" not in tiers["C"]["what"], tiers)
        run, _, tiers = doctor("--no-bpf", "--counters=pm", "--tier", "C",
                               **more)
        says("but who asked for it is told", tiers["C"], "missing",
             "DRAM bytes by GPM only; PM sampling: profiling counters are for "
             "administrators only", "run moetop as root")
        check("and has status 1", run.returncode == 1, run)
    other = shutil.copy("/bin/sleep", os.path.join(HOME, "moetop-counters"))
    p = subprocess.Popen([other, "600"])
    try:
        _, c, tiers = doctor("--no-bpf", "--counters=pm", **named)
        says("another moetop samples the GPUs", tiers["C"], "missing",
             "another moetop samples", "end it")
    finally:
        p.kill()
        p.wait()
    _, c, tiers = doctor("--no-bpf", "--counters=off")
    says("counters that were turned off", tiers["C"], "missing", "are off",
         "--counters=off")


def holders():
    """DCGM's daemon, by its name."""
    daemon = shutil.copy("/bin/sleep", os.path.join(HOME, "nv-hostengine"))
    p = subprocess.Popen([daemon, "600"])
    try:
        _, c, _ = doctor("--no-bpf", nvml=NO_GPU)
        says("DCGM holds the counters", c["counters.holder"], "missing",
             f"DCGM (nv-hostengine, pid {p.pid}) holds",
             "dcgmi profile --pause")
        with Sim():
            _, c, _ = doctor("--no-bpf")
        says("but shares them where there is GPM", c["counters.holder"], "ok",
             f"pid {p.pid}) runs", "dcgmi profile --pause")
    finally:
        p.kill()
        p.wait()


class Program:
    """A Python program that is ready when it says so."""
    def __init__(self, code, prefix=(), **env):
        self.p = subprocess.Popen(
            [*prefix, sys.executable, "-c", code + "\nprint(1, flush=True)\n"
             "import time\ntime.sleep(600)"], stdout=subprocess.PIPE,
            text=True, cwd="/", env=dict(os.environ, **env))
        self.p.stdout.readline()
        self.pid = self.p.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()


def ptrace():
    not_dumpable = "import ctypes\nctypes.CDLL(None).prctl(4, 0)"
    with Program(not_dumpable, NOBODY) as p:
        _, c, _ = doctor("-p", str(p.pid), "--no-bpf", nvml=NO_GPU, **ROOTLESS)
        says("its own user may not trace it", c["server.ptrace"], "broken",
             f"process {p.pid} does not let its own user trace it "
             "(PR_SET_DUMPABLE is 0", "sudo setcap cap_bpf,cap_perfmon,"
             "cap_sys_ptrace")
    with Program("") as p, Machine() as m:
        pid = str(p.pid)
        _, c, _ = look(m, "-p", pid, **ROOTLESS)
        says("a process of another user", c["server.ptrace"], "broken",
             f"process {pid} belongs to uid 0 and moetop runs as uid 65534",
             "cap_sys_ptrace")
        m.write("proc/sys/kernel/yama/ptrace_scope", "1\n")
        _, c, _ = look(m, **ROOTLESS)
        says("yama 1 without the capability", c["yama"], "broken",
             "kernel.yama.ptrace_scope is 1",
             "sudo sysctl kernel.yama.ptrace_scope=0")
        _, c, _ = look(m)
        check("yama 1 with it", c["yama"]["ok"], c["yama"])
        m.write("proc/sys/kernel/yama/ptrace_scope", "3\n")
        _, c, _ = look(m)
        says("yama 3, even for root", c["yama"], "broken",
             "nobody may attach", "moetop run -- CMD")
    with Sim() as sim, Machine() as m:
        m.write("proc/sys/kernel/yama/ptrace_scope", "3\n")
        run, _, tiers = look(m, "-p", str(sim.pid), "--tier", "T2")
        says("yama 3 is what T2 lacks", tiers["T2"], "broken",
             "ptrace_scope is 3", "moetop run -- CMD")
        check("and the status says so", run.returncode == 1, run)


FILTER = """
import ctypes
class Op(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("t", ctypes.c_ubyte),
                ("f", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("ops", ctypes.POINTER(Op))]
op = Op(6, 0, 0, 0x7fff0000)
c = ctypes.CDLL(None)
assert c.prctl(38, 1, 0, 0, 0) == 0
assert c.prctl(22, 2, ctypes.byref(Program(1, ctypes.pointer(op)))) == 0
"""


def seccomp():
    with Program(FILTER, NOBODY) as p, Machine() as m:
        pid = str(p.pid)
        _, c, _ = doctor("-p", pid, "--no-bpf", nvml=NO_GPU, **ROOTLESS)
        says("a server with seccomp filters, without privilege",
             c["server.seccomp"], "broken", f"process {pid} has 1 seccomp",
             "--security-opt seccomp=unconfined")
        _, c, _ = doctor("-p", pid, "--no-bpf", nvml=NO_GPU)
        check("with it they are asked", c["server.seccomp"]["ok"] and
              "1 seccomp filters, which are asked" in
              c["server.seccomp"]["what"], c["server.seccomp"])
        m.status_of(pid, Seccomp="1")
        m.write(f"proc/{pid}/cgroup",
                "0::/kubepods.slice/kubepods-pod7.slice/cri-0a1b.scope\n")
        m.write("proc/self/attr/current", "docker-default (enforce)\n")
        _, c, _ = look(m, "-p", pid)
        says("strict seccomp", c["server.seccomp"], "broken",
             "under strict seccomp", "without strict seccomp")
        check("a server in a pod", "cri-0a1b.scope" in
              c["server.container"]["what"], c["server.container"])
        says("AppArmor around moetop", c["server.lsm"], "broken",
             "confined by AppArmor (docker-default (enforce)",
             "--security-opt apparmor=unconfined")
        m.write("proc/self/attr/current",
                "system_u:system_r:container_t:s0:c1,c2\n")
        m.write("sys/fs/selinux/enforce", "1")
        _, c, _ = look(m, "-p", pid)
        says("SELinux around moetop", c["server.lsm"], "broken",
             "confined by SELinux", "--security-opt label=disable")


def profilers():
    for env, what in (({"NSYS_PROFILING_SESSION_ID": "1"},
                       "NSYS_PROFILING_SESSION_ID is set"),
                      ({"CUDA_INJECTION64_PATH": "/opt/x/libother.so"},
                       "CUDA_INJECTION64_PATH names libother.so")):
        with Program("", **env) as p:
            _, c, _ = doctor("-p", str(p.pid), "--no-bpf", nvml=NO_GPU)
            says(f"a server with {list(env)[0]}", c["cupti.client"], "broken",
                 what, "start the server without nsys")


class Silent(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def views():
    with http.server.HTTPServer(("127.0.0.1", 0), Silent) as s:
        t = threading.Thread(target=s.serve_forever)
        t.start()
        port = str(s.server_port)
        _, c, _ = doctor("-p", str(os.getpid()), "--no-bpf", "--listen", port,
                         nvml=NO_GPU, TERM="dumb")
        s.shutdown()
        t.join()
    says("an engine without metrics", c["server.metrics"], "missing",
         f"no metrics of the engine at port {port}", "curl")
    says("no process with CUDA", c["rank"], "missing", "no process", "wait")
    says("a port that is taken", c["listen"], "broken",
         f"--listen {port} cannot be opened: Address already in use",
         "name another port")
    says("a terminal that cannot draw", c["terminal"], "missing",
         "TERM is dumb", "export TERM=xterm-256color")
    _, c, _ = doctor("--no-bpf", "--listen", f"127.0.0.1:{tap.free_port()}",
                     nvml=NO_GPU, TERM="xterm-256color", LC_ALL="C")
    check("a port that is free", c["listen"]["ok"], c["listen"])
    says("a terminal without UTF-8", c["terminal"], "missing", "no UTF-8",
         "export LC_ALL=C.UTF-8")


no_capability()
kernel()
container()
driver_and_counters()
with Sim():
    sampling()
holders()
ptrace()
seccomp()
profilers()
views()
shutil.rmtree(HOME)
tap.end()
