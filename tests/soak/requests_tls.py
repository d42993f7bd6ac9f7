#!/usr/bin/python3
"""requests_tls.py - TLS of other servers, and HTTP/2 within it

hypercorn and nginx with HTTP/2 by ALPN, and aiohttp: three ways to use OpenSSL
(memory and socket BIO, one write for each piece of a response or several), each
under 20 to 50 streams that end in every way.  Counts must be equal to their own
logs.  Needs root.
"""
import contextlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "e2e"))
from servers import (BIN, HERE, Tracker, accepts, certificate, differing,
                     free_port, hypercorn, nginx, settled, start, stop, uvicorn,
                     wait_for, web_totals)
from tap import check
import tap

USERS, ROUNDS = 25, 2  # of HTTP/1.1
CONNECTIONS, STREAMS = 4, 30  # of HTTP/2, six at once each


def anyone():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def tree(pid):
    """The process and its descendants."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [pid] + [p for child in f.read().split()
                            for p in tree(int(child))]
    return []


class Servers:
    """Their ports, processes and logs."""

    def __init__(self, tmp, stack):
        key, cert = f"{tmp}/key", f"{tmp}/cert"
        tls = ["--keyfile", key, "--certfile", cert]
        self.ports = {name: free_port() for name in
                      ("hypercorn", "aiohttp", "nginx")}
        behind = free_port()
        started = [
            start(hypercorn(self.ports["hypercorn"]) + tls),
            start([f"{BIN}/python", "servers_app.py",
                   str(self.ports["aiohttp"]), key, cert]),
            start(uvicorn("uvloop", "httptools")(behind)),
            nginx(self.ports["nginx"], behind, tmp, key, cert)]
        for p in started:
            stack.callback(stop, p)
        for port in (*self.ports.values(), behind):
            wait_for(f"a server listens on {port}",
                     lambda port=port: accepts(port))
        self.logs = {name: f"https://127.0.0.1:{port}/log"
                     for name, port in self.ports.items()}
        self.logs["nginx"] = f"http://127.0.0.1:{behind}/log"
        self.pids = [p for s in started for p in tree(s.pid)]

    def log(self, name):
        """Once it knows of the end of each request."""
        def ended():
            with urllib.request.urlopen(self.logs[name],
                                        context=anyone()) as f:
                log = json.load(f)
            return all(r[2] for r in log) and log

        return wait_for(f"{name} knows that all has ended", ended)


def load(stack, name, *args):
    p = subprocess.Popen([f"{BIN}/python", name, *map(str, args), "tls"],
                         cwd=HERE, stdout=subprocess.PIPE,
                         start_new_session=True)
    stack.callback(stop, p)
    return p


def clients(servers, stack):
    """What they did, by server; of both kinds where it speaks both."""
    loads = {name: [load(stack, "sse_load.py", port, USERS, ROUNDS)]
             for name, port in servers.ports.items()}
    for name in ("hypercorn", "nginx"):
        loads[name].append(load(stack, "http2_load.py", servers.ports[name],
                                CONNECTIONS, STREAMS))
    said = {name: [json.loads(p.communicate(timeout=120)[0]) for p in all_of]
            for name, all_of in loads.items()}
    return {name: {
        "completed": sum(c.get("streams", 0) + c.get("completions", 0) +
                         c.get("completed", 0) for c in all_of),
        "probes": sum(c["probes"] for c in all_of),
        "aborted": sum(c.get("aborted", 0) + c.get("left", 0) +
                       ("left" in c) * c["resets"] for c in all_of),
    } for name, all_of in said.items()}


def main():
    with tempfile.TemporaryDirectory() as tmp, \
            contextlib.ExitStack() as stack:
        certificate(tmp)
        os.chmod(tmp, 0o755)
        servers = Servers(tmp, stack)
        tracker = Tracker(list(servers.ports.values()), tmp,
                          pids=servers.pids)
        stack.callback(stop, tracker.process)
        tracker.wait()
        did = clients(servers, stack)
        settled([tracker])
        tracker.end()
        logs = {name: servers.log(name) for name in servers.ports}
    for name, port in servers.ports.items():
        got = tracker.counted(port)
        off = differing(got, web_totals(logs[name]))
        check(f"{name}: by its own log", not off, f"{off} {tracker.last}")
        off = differing(got, did[name])
        check(f"{name}: by its clients", not off and did[name]["aborted"],
              f"{off} {did[name]}")
    last = tracker.last
    check("nothing is left, lost or inferred", not any(tracker.rest()) and
          not last["tls_inferred"] and last["tls"] == last["tls_read"], last)
    tap.end()


if __name__ == "__main__":
    main()
