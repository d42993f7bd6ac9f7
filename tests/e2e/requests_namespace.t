#!/usr/bin/python3
"""requests_namespace.t - a server in a network namespace, moetop outside of it

By each data source of this kernel; the totals are those of the clients.
Needs root.
"""
# time limit: 600 s
import json
import os
import subprocess
import tempfile
import time

import tap
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
PORT = "8000"  # of a namespace that is ours alone


def accepts(pid):
    return subprocess.run(
        ["nsenter", "-t", str(pid), "-n", PYTHON, "-c",
         f"import socket; socket.create_connection(('127.0.0.1', {PORT}))"],
        stderr=subprocess.DEVNULL, check=False).returncode == 0


def snapshots(moetop, seconds):
    """Those that come in this time."""
    end = time.monotonic() + seconds
    for line in moetop.stdout:
        yield json.loads(line)
        if time.monotonic() > end:
            return


def through(rung, app, clients):
    moetop = subprocess.Popen([f"{O}/moetop", "-p", str(app.pid), "--json"],
                              stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, MOETOP_TRACKER=rung))
    try:
        for s in snapshots(moetop, 120):  # what it is, and why if not
            tier = s["health"]["tiers"]["T1"]
            if tier["what"] != "waiting":
                break
        if tier["state"] != "ok":
            check(f"{rung}: not on this kernel: {tier['what']}", True)
            return
        check(f"{rung}: T1 says so", f"by {rung} " in tier["what"], tier)
        load = json.loads(subprocess.run(clients, stdout=subprocess.PIPE,
                                         timeout=240, check=True).stdout)
        wanted = {"started": sum(load[k] for k in ("streams", "completions",
                                                   "aborted")),
                  "client_aborted": load["aborted"], "waiting": 0,
                  "streaming": 0}
        for s in snapshots(moetop, 120):
            got = {k: s["requests"]["generation"][k] for k in wanted}
            if got == wanted:
                break
        check(f"{rung}: every request of the clients, and no other",
              got == wanted, (got, wanted))
    finally:
        moetop.kill()
        moetop.wait()


with tempfile.TemporaryDirectory() as tmp:
    server = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "-",
         PYTHON, f"{HERE}/uvicorn_app.py", PORT, os.path.join(tmp, "log")])
    try:
        tap.wait_for("the server listens", lambda: accepts(server.pid))
        for r in ("K", "F", "P", "C", "S"):
            through(r, server, ["nsenter", "-t", str(server.pid), "-n",
                                PYTHON, f"{HERE}/sse_load.py", PORT, "20",
                                "1"])
    finally:
        server.kill()
        server.wait()
tap.end()
