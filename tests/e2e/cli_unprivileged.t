#!/usr/bin/env python3
"""cli_unprivileged.t - without any privilege: T0 works, the rest says why not.

A server of root is watched by nobody, and a server of nobody by nobody.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import tap
from tap import check

# a copy, for nobody may not be let into the build folder
HOME = tempfile.mkdtemp()
os.environ["HOME"] = "/"  # not that of root
os.chmod(HOME, 0o755)
MOETOP = shutil.copy(os.path.join(os.environ.get("O", "build"), "moetop"), HOME)
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
          "--inh-caps=-all", "--bounding-set=-all"]


def server(prefix):
    """An HTTP server on a free port; returns the process and the port."""
    code = ("import http.server, sys\n"
            "s = http.server.HTTPServer(('127.0.0.1', 0), "
            "http.server.SimpleHTTPRequestHandler)\n"
            "print(s.server_port, flush=True)\n"
            "s.serve_forever()\n")
    p = subprocess.Popen(prefix + [sys.executable, "-c", code], cwd="/",
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True)
    return p, int(p.stdout.readline())


def watch(pid):
    run = subprocess.run(NOBODY + [MOETOP, "-p", str(pid), "--json",
                                   "--count", "1"], cwd="/", text=True,
                         capture_output=True, timeout=120, check=False)
    lines = run.stdout.splitlines()
    snapshot = json.loads(lines[0]) if len(lines) == 1 else {}
    return run, snapshot


def tiers_of(snapshot):
    tiers = snapshot.get("health", {}).get("tiers", {})
    if isinstance(tiers, list):
        tiers = {t["name"]: t for t in tiers}
    return tiers


def look(whose, prefix):
    p, port = server(prefix)
    try:
        run, s = watch(p.pid)
        tiers = tiers_of(s)
        check(f"a server of {whose}: one snapshot, status 0, no error line",
              run.returncode == 0 and s and not run.stderr,
              (run.returncode, run.stdout[:500], run.stderr))
        check(f"a server of {whose}: T0 is there",
              tiers.get("T0", {}).get("state") == "ok", tiers)
        t1 = tiers.get("T1", {})
        check(f"a server of {whose}: T1 is missing, and says what would help",
              t1.get("state") == "missing" and
              ("cap_bpf,cap_perfmon" in t1.get("remedy", "") or
               "root" in t1.get("remedy", "")), tiers)
        t2 = tiers.get("T2", {})
        check(f"a server of {whose}: T2 is missing, and says what would help",
              t2.get("state") == "missing" and t2.get("remedy"), tiers)
        flight = s.get("metrics", {}).get("requests_in_flight", {})
        check(f"a server of {whose}: unknown is null, an estimate is so called",
              flight.get("value", 0) is None or
              flight.get("source") == "inferred", flight)
        check(f"a server of {whose}: what is not counted is null",
              s.get("metrics", {}).get("requests_started_total", {})
              .get("value", 0) is None, s.get("metrics"))
        return s, tiers, port
    finally:
        p.kill()
        p.wait()


def hidden():
    """A server of root, where /proc shows nobody what is not his."""
    p, _ = server([])
    hide = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    run = subprocess.run(["unshare", "--mount", "sh", "-c", hide, "-"] +
                         NOBODY + [MOETOP, "-p", str(p.pid), "--json"],
                         cwd="/", text=True, capture_output=True, timeout=120,
                         check=False)
    p.kill()
    p.wait()
    check("a process that /proc hides: permission, not absence",
          run.returncode == 4 and not run.stdout and
          run.stderr.startswith(f"moetop: pid {p.pid}: Permission denied; "),
          run)


S, TIERS, PORT = look("nobody", NOBODY)
check("its own server: the port is found without privilege",
      S.get("target", {}).get("port") == PORT, S.get("target"))
check("its own server: T1 names the capabilities",
      "setcap cap_bpf,cap_perfmon+ep" in TIERS.get("T1", {}).get("remedy", ""),
      TIERS)
check("its own server: T2 names moetop run",
      "moetop run" in TIERS.get("T2", {}).get("remedy", ""), TIERS)
look("root", [])
hidden()
shutil.rmtree(HOME)
tap.end()
