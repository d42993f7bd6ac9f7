#!/usr/bin/python3
"""requests_tls.t - servers that end TLS themselves

uvicorn with uvloop and httptools, whose plain text is read at libssl: totals
equal to its own log under 50 users who stream, probe and abort, while another
server of the machine uses the same library; a tracker that comes in the middle
of streams; and a server whose OpenSSL is linked in, of which only the timing of
records is known, and said to be.  Needs root.
"""
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import tap
from servers import certificate
from tap import check, free_port, wait_for

O = os.path.abspath(os.environ.get("O", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
GENERATION, IGNORED = 1, 3
INFERRED = "inferred from timing (TLS)"
ASK = b"GET /v1/completions HTTP/1.1\r\nHost: " + b"x" * 40 + b"\r\n\r\n"


class Children:
    """Processes, none of which is left."""

    def __init__(self):
        self.all = []

    def start(self, *args, **how):
        self.all.append(subprocess.Popen([str(a) for a in args], **how))
        return self.all[-1]

    def stop(self):
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.wait()


class Server:
    """uvicorn; its log when it has ended."""

    def __init__(self, children, tmp, name):
        self.port = free_port()
        self.log = f"{tmp}/{name}.json"
        self.p = children.start(PYTHON, f"{HERE}/uvicorn_app.py", self.port,
                                self.log, f"{tmp}/key", f"{tmp}/cert")

    def listens(self):
        with socket.socket() as s:
            there = s.connect_ex(("127.0.0.1", self.port)) == 0
        self.quiet = len(os.listdir(f"/proc/{self.p.pid}/fd"))
        return there

    def connections(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd")) - self.quiet

    def end(self):
        self.p.send_signal(signal.SIGTERM)
        self.p.wait(timeout=15)
        with open(self.log, encoding="ascii") as f:
            return [r for r in json.load(f)["requests"]]


class Tracker:
    def __init__(self, children, tmp, name, server):
        env = dict(os.environ)
        env.pop("MOETOP_TRACKER", None)
        self.path = f"{tmp}/{name}.tracker"
        with open(self.path, "w", encoding="ascii") as out:
            self.p = children.start(
                f"{O}/tests/e2e/trackdump", server.port, f"pid={server.p.pid}",
                stdin=subprocess.PIPE, stdout=out, env=env)
        wait_for("the tracker is ready", self.states)

    def states(self):
        with open(self.path, encoding="ascii") as f:
            lines = [json.loads(x) for x in f if x.endswith("\n")]
        return [x for x in lines if "before_ns" in x]

    def last(self, agrees):
        """The newest state, once it agrees or after a while."""
        end = time.monotonic() + 5
        while not agrees(state := self.states()[-1]):
            if time.monotonic() > end:
                break
            time.sleep(.05)
        return state

    def end(self):
        self.p.stdin.close()
        self.p.wait(timeout=60)


def rest(state):
    return not any(state["waiting"]) and not any(state["streaming"])


def load(children, server, users, rounds, **how):
    return children.start(PYTHON, f"{HERE}/sse_load.py", server.port, users,
                          rounds, "tls", stdout=subprocess.PIPE, **how)


def two_servers(children, tmp, ours, other):
    """Both run; the tracker follows the first, from its first connection."""
    tracker = Tracker(children, tmp, "ours", ours)
    loads = [load(children, ours, 50, 2), load(children, other, 5, 2)]
    clients = [json.loads(p.communicate(timeout=60)[0]) for p in loads]
    requests = ours.end()
    other.end()
    last = tracker.last(rest)
    tracker.end()
    ours = [r for r in requests if r["path"] != "/health"]
    whole = [r for r in ours if r["whole"]]
    wanted = {"started": len(ours), "completed": len(whole),
              "client_aborted": len(ours) - len(whole), "server_aborted": 0}
    got = {k: last[k][GENERATION] for k in wanted}
    check("requests are those of the application", got == wanted,
          f"tracker {got}\napplication {wanted}\n{last}")
    check("and those of its clients, of which some left by FIN, some by RST",
          got["completed"] == clients[0]["streams"] +
          clients[0]["completions"] and
          got["client_aborted"] == clients[0]["aborted"] and
          0 < clients[0]["resets"] < clients[0]["aborted"], clients)
    check("probes are told apart", last["started"][IGNORED] ==
          last["completed"][IGNORED] == clients[0]["probes"], last)
    check("nothing is left, lost, inferred or out of step", rest(last) and
          not any(last[k] for k in ("desyncs", "records_lost", "overflows",
                                    "tls_inferred")) and
          last["tls"] == last["tls_read"] > 0, last)
    with open(tracker.path, encoding="ascii") as f:
        ends = [x for x in map(json.loads, f) if "how" in x]
    check("every token is an event",
          sum(r["events"] or 1 for r in ends if r["endpoint"] == GENERATION and
              not r["how"]) == sum(r["chunks"] for r in whole))


def in_the_middle(children, tmp, server):
    clients = load(children, server, 20, 1000)
    wait_for("there are clients", lambda: server.connections() > 10)
    tracker = Tracker(children, tmp, "middle", server)
    attached_ns = tracker.states()[0]["after_ns"]
    wait_for("older streams are seen", lambda: tracker.states()[-1][
        "resyncs"] > 0 and tracker.states()[-1]["started"][GENERATION] > 40)
    clients.terminate()
    clients.communicate(timeout=60)
    last = tracker.last(rest)
    requests = server.end()
    tracker.end()
    check("streams from before the tracker are followed to their end",
          rest(last) and last["server_aborted"][GENERATION] == 0 and
          last["resyncs"] > 0 and last["desyncs"] == 0, last)
    later = [r for r in requests if r["path"] != "/health" and
             r["start_ns"] > attached_ns]
    check("and requests after it are counted",
          last["started"][GENERATION] >= len(later) * .9 and
          last["started"][GENERATION] <= len(requests),
          f"{len(later)} of {len(requests)}: {last}")


class View:
    """moetop --json, the newest object."""

    def __init__(self, children, tmp, pid):
        self.path = f"{tmp}/view"
        with open(self.path, "w", encoding="utf-8") as out:
            children.start(f"{O}/moetop", "-p", pid, "--json", "--interval",
                           ".2", "--no-inject", stdout=out)

    def when(self, what, agrees):
        def newest():
            with open(self.path, encoding="utf-8") as f:
                lines = [x for x in f if x.endswith("\n")]
            s = json.loads(lines[-1]) if lines else None
            return s if s and s["requests"] and agrees(s) else None
        return wait_for(what, newest)


def linked_in(children, tmp):
    server = children.start(f"{O}/tests/e2e/tls_static", f"{tmp}/key",
                            f"{tmp}/cert", stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    view = View(children, tmp, server.pid)
    view.when("moetop looks", lambda s: True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    clients = [context.wrap_socket(socket.create_connection(
        ("127.0.0.1", port))) for _ in range(3)]
    for c in clients:
        c.sendall(ASK)
    s = view.when("three wait or stream", lambda s: s["metrics"][
        "requests_in_flight"]["value"] == 3)
    flight, tls = s["metrics"]["requests_in_flight"], s["requests"]["tls"]
    check("a TLS that nobody reads is inferred, and said to be",
          tls["source"] == INFERRED and flight["source"] == "inferred" and
          tls["inferred"] == 3 and
          INFERRED in s["health"]["tiers"]["T1"]["what"] and
          "no libssl" in s["health"]["tiers"]["T1"]["what"],
          f"{tls} {flight} {s['health']['tiers']['T1']}")
    check("what is not known is not 0", s["metrics"]["requests_started_total"][
        "value"] is None and not s["health"]["lost"].get("desyncs"),
          s["health"]["lost"])
    s = view.when("three stream", lambda s: s["requests"]["tls"][
        "streaming"] == 3)
    clients[0].close()
    view.when("one has left", lambda s: s["metrics"]["requests_in_flight"][
        "value"] == 2)
    s = view.when("the others are over", lambda s: s["metrics"][
        "requests_in_flight"]["value"] == 0)
    check("waiting, streaming and the end are seen", s["requests"]["tls"][
        "waiting"] == 0 and s["requests"]["generation"]["started"] == 0, s)
    for c in clients[1:]:
        c.close()


def main():
    children = Children()
    with tempfile.TemporaryDirectory() as tmp:
        certificate(tmp)
        try:
            servers = [Server(children, tmp, n)
                       for n in ("ours", "other", "middle")]
            for s in servers:
                wait_for("a server listens", s.listens)
            two_servers(children, tmp, *servers[:2])
            in_the_middle(children, tmp, servers[2])
            linked_in(children, tmp)
        finally:
            children.stop()
    tap.end()


if __name__ == "__main__":
    main()
