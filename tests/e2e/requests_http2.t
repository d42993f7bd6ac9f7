#!/usr/bin/python3
"""requests_http2.t - the tracker on HTTP/2, against the own logs of the servers

granian (hyper) and hypercorn with clients by h2, gRPC at both ends, and nghttpd
with h2load: four implementations of frames and header compression, and streams
that end in every way.  Counts must be equal, by every data source of this
kernel.  Needs root.
"""
# time limit: 600 s
import contextlib
import json
import os
import subprocess
import tempfile
import urllib.request

from servers import (BIN, HERE, Tracker, accepts,
                     differing, free_port, hypercorn, settled, start, stop,
                     totals, wait_for, web_totals)
from tap import check
import tap

UPGRADED = 5  # probes of a connection that begins as HTTP/1.1
RUNGS = ("K", "F", "P", "C", "S")
H2LOAD = 300
WEB = {
    "granian": lambda port: [
        f"{BIN}/granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1", "--http", "auto", "--no-ws",
        "--log-level", "error", "servers_app:app"],
    "hypercorn": hypercorn,
}


def piped(command):
    return subprocess.Popen(command, cwd=HERE, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, start_new_session=True)


def nghttpd(port, tmp):
    os.makedirs(f"{tmp}/files/v1")
    with open(f"{tmp}/files/v1/completions", "wb") as f:
        f.write(b"{}" * 20000)
    return ["nghttpd", "--no-tls", "-d", f"{tmp}/files", str(port)]


def web_log(port):
    """Once it knows of the end of each request."""
    def ended():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/log") as f:
            log = json.load(f)
        return all(r[2] for r in log) and log

    return wait_for("the server knows that all has ended", ended)


def grpc_totals(log):
    ours = [r for r in log if r[0] == "generate"]
    return totals(log, ours, [r for r in ours if r[2]], lambda r: r[1])


class Traffic:
    """All servers and their clients, seen by all data sources at once."""

    def __init__(self, tmp, stack):
        self.ports = {name: free_port() for name in
                      (*WEB, "gRPC", "nghttpd")}
        for name, command in WEB.items():
            stack.callback(stop, start(command(self.ports[name])))
        self.grpc = piped([f"{BIN}/python", "grpc_pair.py", "serve",
                           str(self.ports["gRPC"])])
        stack.callback(stop, self.grpc)
        stack.callback(stop, start(nghttpd(self.ports["nghttpd"], tmp)))
        self.trackers = [Tracker(list(self.ports.values()), tmp, rung)
                         for rung in RUNGS]
        for t in self.trackers:
            stack.callback(stop, t.process)
        for t in self.trackers:
            t.wait()
        for port in self.ports.values():
            wait_for(f"a server listens on {port}",
                     lambda port=port: accepts(port))
        self.load(stack)

    def load(self, stack):
        loads = {name: piped([f"{BIN}/python", "http2_load.py",
                              str(self.ports[name]), "6", "40"])
                 for name in WEB}
        loads["gRPC"] = piped([f"{BIN}/python", "grpc_pair.py", "load",
                               str(self.ports["gRPC"]), "3", "12"])
        loads["nghttpd"] = piped([
            "h2load", f"-n{H2LOAD}", "-c4", "-m20", "--header=x-a: b",
            f"http://127.0.0.1:{self.ports['nghttpd']}/v1/completions"])
        loads["upgrade"] = piped([
            "nghttp", "-nuv", "-m%d" % UPGRADED,
            f"http://127.0.0.1:{self.ports['hypercorn']}/health"])
        for p in loads.values():
            stack.callback(stop, p)
        self.clients = {name: p.communicate(timeout=240)[0]
                        for name, p in loads.items()}
        settled(self.trackers)
        for t in self.trackers:
            t.end()
        self.logs = {name: web_log(self.ports[name]) for name in WEB}
        self.logs["gRPC"] = json.loads(self.grpc.communicate(timeout=240)[0])


def check_web(traffic, rung, tracker, name):
    port = traffic.ports[name]
    got = tracker.counted(port)
    off = differing(got, web_totals(traffic.logs[name]))
    check(f"{rung}: {name}: by its own log", not off, off)
    c = json.loads(traffic.clients[name])
    probes = c["probes"] + (UPGRADED if name == "hypercorn" else 0)
    off = differing(got, {"completed": c["completed"], "probes": probes,
                          "aborted": c["resets"] + c["left"]})
    check(f"{rung}: {name}: by its clients", not off and c["resets"] and
          c["left"], (off, c))


def check_grpc(traffic, rung, tracker):
    port = traffic.ports["gRPC"]
    got = tracker.counted(port)
    off = differing(got, grpc_totals(traffic.logs["gRPC"]))
    check(f"{rung}: gRPC: by its own log", not off, off)
    c = json.loads(traffic.clients["gRPC"])
    off = differing(got, {
        "completed": c["completed"] + c["failed"], "probes": c["probes"],
        "aborted": c["cancelled"], "events": c["messages"]})
    check(f"{rung}: gRPC: by its clients", not off and c["cancelled"],
          (off, c))
    check(f"{rung}: gRPC: failed calls are failed", sum(
        r["status"] == 503 for r in tracker.generations(port)) == c["failed"],
          c)


def check_rest(rung, tracker):
    off = tracker.last
    check(f"{rung}: nothing is left or lost", not any(tracker.rest()) and
          not off["resyncs"], off)


def main():
    with tempfile.TemporaryDirectory() as tmp, \
            contextlib.ExitStack() as stack:
        traffic = Traffic(tmp, stack)
    for rung, tracker in zip(RUNGS, traffic.trackers):
        if tracker.refused:
            check(f"{rung}: not on this kernel", True)
            continue
        for name in WEB:
            check_web(traffic, rung, tracker, name)
        check_grpc(traffic, rung, tracker)
        got = tracker.counted(traffic.ports["nghttpd"])
        check(f"{rung}: nghttpd: by h2load", got["started"] == H2LOAD and
              got["completed"] == H2LOAD and
              b"%d succeeded" % H2LOAD in traffic.clients["nghttpd"],
              (got, traffic.clients["nghttpd"]))
        check_rest(rung, tracker)
    said = traffic.clients["upgrade"]
    check("the upgraded connection spoke HTTP/2", b"Upgrade success" in said and
          said.count(b":status: 200") == UPGRADED, said)
    tap.end()


if __name__ == "__main__":
    main()
