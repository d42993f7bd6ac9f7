#!/usr/bin/env python3
"""privileges.t - which capabilities moetop has, where, and when they are gone.

Started by root, by root with --user, and by nobody with file capabilities.
Needs root.
"""
# time limit: 600 s
import json
import os
import shutil
import subprocess
import time
import urllib.request

import tap
from doctor import MODEL, MOETOP, NOBODY, NVML, SIM, Sim, copies, doctor
from tap import check, wait

CAPS = {"dac_read_search": 2, "net_admin": 12, "sys_ptrace": 19,
        "sys_admin": 21, "sys_nice": 23, "sys_resource": 24, "perfmon": 38,
        "bpf": 39}
SETCAP = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep"
HOME = copies()
OURS = os.path.join(HOME, "moetop")


def mask(*names):
    return sum(1 << CAPS[n] for n in names)


def threads(pid):
    """Of each thread: name, permitted, effective."""
    out = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        fields = {}
        try:
            with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii") as f:
                for line in f:
                    key, _, value = line.partition(":")
                    fields[key] = value.strip()
        except OSError:
            continue
        out.append((fields["Name"], int(fields["CapPrm"], 16),
                    int(fields["CapEff"], 16)))
    return out


def status(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(key + ":"):
                return line.split(":")[1].split()
    return []


class Moetop:
    """moetop -p PID --json, and its newest snapshot."""
    def __init__(self, pid, *args, prefix=(), moetop=MOETOP, **env):
        self.p = subprocess.Popen(
            [*prefix, moetop, "-p", str(pid), "--json", "-i", "0.2", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
            env=dict(os.environ, HOME="/", MOETOP_NVML=NVML, **env))
        self.pid = self.p.pid
        self.newest = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.communicate()

    def until(self, fine):
        """Read snapshots until one is fine."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            line = self.p.stdout.readline()
            if not line:
                return False
            self.newest = json.loads(line)
            if fine(self.newest):
                return True
        return False

    def works(self):
        return self.until(lambda s: all(
            s["health"]["tiers"][t]["state"] == "ok" for t in ("T1", "T2"))
            and any(r.get("attach") for r in s["target"]["ranks"]))


def settled(pid, want):
    """The broker has just these, and nobody but it and the attacher any."""
    def look():
        all_of = threads(pid)
        return ([p for n, p, _ in all_of if n == "moetop-broker"] == [want] and
                all(p == e for _, p, e in all_of) and
                all(not p & ~want for _, p, _ in all_of) and
                all(not p for n, p, _ in all_of if n == "moetop") and
                len([p for _, p, _ in all_of if p]) <= 2)
    return wait(look, 120)


def root():
    """A supervisor that starts its server again."""
    loop = f'while :; do "{SIM}" --model "{MODEL}" --gpu H200 --port 0; done'
    p = subprocess.Popen(["sh", "-c", loop], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        p.stdout.readline()
        with Moetop(p.pid, "--listen", "0") as m:
            before = int(status("self", "CapPrm")[0], 16)
            check("root: T1 and T2 work", m.works(), m.newest)
            four = mask("bpf", "perfmon", "sys_ptrace", "sys_nice")
            check("before, all capabilities; after the attach four of them, in "
                  "the one or two threads that watch, none in the main thread",
                  before & ~four and settled(m.pid, four & before),
                  (hex(before), threads(m.pid)))
            check("and what it would start can gain none",
                  status(m.pid, "NoNewPrivs") == ["1"])
            child = m.newest["target"]["ranks"][0]["pid"]
            os.kill(child, 9)
            check("a rank that is born after that gets its agent",
                  m.until(lambda s: any(
                      r["pid"] != child and r.get("attach") and
                      r["agent"] in ("idle", "window")
                      for r in s["target"]["ranks"])), m.newest)
            check("and T1 follows it to its port", m.until(
                lambda s: s["health"]["tiers"]["T1"]["state"] == "ok" and
                answers(s["target"]["port"])), m.newest)
            check("without a capability more", settled(m.pid, four & before),
                  threads(m.pid))
    finally:
        os.killpg(p.pid, 9)  # with the server
        p.wait()
        p.stdout.close()


def answers(port):
    if not port:
        return False
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health",
                                    timeout=30) as r:
            return r.status == 200
    except OSError:
        return False


def user():
    with Sim() as sim:
        with Moetop(sim.pid, "--user", "nobody") as m:
            check("--user: T1 and T2 work on a server of root", m.works(),
                  m.newest)
            check("--user: it is that user, for good",
                  status(m.pid, "Uid") == ["65534"] * 4 and
                  "0" not in status(m.pid, "Groups"), status(m.pid, "Uid"))
            check("--user: the same four, and one to see files of others",
                  settled(m.pid, mask("bpf", "perfmon", "sys_ptrace",
                                      "sys_nice", "dac_read_search")),
                  threads(m.pid))
        for name, prefix, code in (("no-such-user", [], 1),
                                   ("nobody", NOBODY, 4)):
            run = subprocess.run([*prefix, OURS, "-p", str(sim.pid), "--json",
                                  "--count", "1", "--user", name], text=True,
                                 capture_output=True, check=False, cwd="/",
                                 env=dict(os.environ, HOME="/"))
            check(f"--user {name} as {'nobody' if prefix else 'root'}: "
                  "refused, with the way out",
                  run.returncode == code and not run.stdout and
                  run.stderr.startswith("moetop: --user: ") and
                  "; " in run.stderr, run)


def capabilities():
    subprocess.run(["setcap", SETCAP, OURS], check=True)
    rootless = {"prefix": NOBODY, "moetop": OURS, "HOME": "/"}
    setuid = shutil.copy(MOETOP, os.path.join(HOME, "setuid"))
    os.chmod(setuid, 0o4755)
    run = subprocess.run([*NOBODY, setuid, "plan"], text=True, cwd="/",
                         capture_output=True, check=False)
    check("a setuid copy is refused", run.returncode == 2 and
          run.stderr.startswith("moetop: setuid: "), run)
    with Sim() as sim:
        run, c, tiers = doctor("-p", str(sim.pid), root="/nonexistent",
                               MOETOP_TRACKER="diag", **rootless)
        check("setcap: doctor says that T1 and T2 work, by root's server",
              run.returncode == 0 and tiers["T1"]["ok"] and tiers["T2"]["ok"],
              tiers)
        check("setcap: MOETOP_* of the environment is not heeded",
              "rung.K" in c and c["kernel"]["ok"] and
              NVML not in c["gpu"]["what"], c)
        secret = os.path.join(HOME, "secret.json")
        shutil.copy(MODEL, secret)
        os.chmod(secret, 0o600)
        watched = ["-p", str(sim.pid)]
        for args, code, words in (
                (["--agent", os.path.join(HOME, "libmoetop-agent.so")], 2,
                 "moetop: --agent: not for a moetop with file capabilities; "),
                (["--model", secret], 4, f"moetop: --model: {secret}: "
                 "Permission denied; "),
                (["--model", secret, "--all"], 4,
                 f"moetop: --model: {secret}: Permission denied; ")):
            who = [] if "--all" in args else watched
            run = subprocess.run([*NOBODY, OURS, *who, "--json",
                                  "--count", "1", *args], text=True, cwd="/",
                                 capture_output=True, check=False,
                                 env=dict(os.environ, HOME="/"))
            check(f"setcap: {' '.join(args)} is refused", run.returncode == code and
                  not run.stdout and run.stderr.startswith(words), run)
        agent = os.path.join(HOME, "libmoetop-agent.so")
        os.chown(agent, 65534, 65534)
        _, c, tiers = doctor("-p", str(sim.pid), "--no-bpf", **rootless)
        check("setcap: an agent that others could change is not loaded",
              c["agent"]["state"] == "broken" and not tiers["T2"]["ok"] and
              f"sudo chown root {agent}" in c["agent"]["remedy"], c["agent"])
        os.chown(agent, 0, 0)
        with Moetop(sim.pid, prefix=NOBODY, moetop=OURS) as m:
            check("setcap: nobody has T1 and T2 of root's server", m.works(),
                  m.newest)
            check("setcap: after the attach the four of the file, in the "
                  "threads that watch", settled(
                      m.pid, mask("bpf", "perfmon", "sys_ptrace",
                                  "dac_read_search")), threads(m.pid))


root()
user()
capabilities()
shutil.rmtree(HOME)
tap.end()
