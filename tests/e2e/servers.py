"""servers.py - real HTTP servers, a load, and what the tracker made of it

Each server runs servers_app.py, which keeps its own log; sse_load is the
clients.  nginx stands in front of uvicorn and is followed as well, apart.
"""
import bisect
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

from tap import free_port, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "e2e")
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
TOOLS = os.path.join(O, "tools")
BIN = os.path.join(TOOLS, "servers", "bin")
GENERATION, IGNORED = 1, 3

NGINX = """daemon off; master_process off; worker_processes 1;
worker_rlimit_nofile 8192;
pid {tmp}/pid; error_log {tmp}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  log_format ends '$uri $request_completion';
  access_log {tmp}/access.log ends;
  client_body_temp_path {tmp}/body; proxy_temp_path {tmp}/proxy;
  fastcgi_temp_path {tmp}/f; uwsgi_temp_path {tmp}/u; scgi_temp_path {tmp}/s;
  client_max_body_size 1g;
  upstream app {{
    server 127.0.0.1:{behind}; keepalive 1000; keepalive_timeout 3s;
  }}
  server {{
    listen 127.0.0.1:{port} {tls} backlog=1024; {files}
    location / {{
      proxy_pass http://app; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


def uvicorn(loop, http):
    return lambda port: [
        f"{BIN}/python", "-m", "uvicorn", "servers_app:app", "--port",
        str(port), "--loop", loop, "--http", http, "--no-access-log",
        "--log-level", "error"]


def hypercorn(port):
    return [f"{BIN}/hypercorn", "-b", f"127.0.0.1:{port}", "--log-level",
            "error", "servers_app:app"]


SERVERS = {
    "uvicorn, uvloop, httptools": uvicorn("uvloop", "httptools"),
    "uvicorn, asyncio, h11": uvicorn("asyncio", "h11"),
    "granian (hyper, tokio)": lambda port: [
        f"{BIN}/granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1", "--http", "1", "--no-ws",
        "--log-level", "error", "servers_app:app"],
    "hypercorn": hypercorn,
    "aiohttp": lambda port: [
        f"{BIN}/python", "servers_app.py", str(port)],
    "nginx, uvicorn behind": uvicorn("uvloop", "httptools"),
}


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def stop(p):
    """The process, and the workers that it started."""
    if p.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def go_ahead(pid):
    """What else the machine does disturbs this session less."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as f:
            f.write("-20")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, -20)


def start(command):
    p = subprocess.Popen(command, cwd=HERE, start_new_session=True)
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        go_ahead(p.pid)
    return p


def nginx(port, behind, tmp, key=None, certificate=None):
    """With a key, over TLS and by HTTP/2 as well."""
    files = f"ssl_certificate_key {key}; ssl_certificate {certificate};"
    with open(f"{tmp}/nginx.conf", "w", encoding="ascii") as f:
        f.write(NGINX.format(tmp=tmp, port=port, behind=behind,
                             tls="ssl http2" if key else "",
                             files=files if key else ""))
    path = os.path.join(TOOLS, "nginx")
    return start([path if os.path.exists(path) else "nginx", "-p", tmp, "-e",
                  f"{tmp}/error.log", "-c", f"{tmp}/nginx.conf"])


class Tracker:
    """What it says of some ports."""

    def __init__(self, ports, tmp, rung=None, gauge=False, pids=()):
        env = dict(os.environ)
        env.pop("MOETOP_TRACKER", None)
        if rung:
            env["MOETOP_TRACKER"] = rung
        self.path = os.path.join(tmp, f"tracker{rung or ''}{ports[0]}")
        self.out = open(self.path, "w", encoding="ascii")
        self.process = subprocess.Popen(
            [f"{O}/tests/e2e/trackdump"] + [str(p) for p in ports] +
            [f"pid={p}" for p in pids] + ["gauge"] * gauge, stdout=self.out, stdin=subprocess.PIPE,
            env=env)

    def wait(self):
        wait_for("the tracker is ready",
                 lambda: os.path.getsize(self.path) or
                 self.process.poll() is not None)
        self.refused = self.process.poll() == 3

    def end(self):
        if self.refused:
            return
        self.process.stdin.close()
        self.process.wait(120)
        self.out.close()
        with open(self.path, encoding="ascii") as f:
            lines = [json.loads(line) for line in f][1:]
        self.samples = [x for x in lines if isinstance(x, list)]
        objects = [x for x in lines if isinstance(x, dict)]
        self.records = [x for x in objects if "how" in x]
        self.histograms = {x["histogram"]: x for x in objects
                           if "histogram" in x}
        self.last = [x for x in objects if "before_ns" in x][-1]

    def generations(self, port):
        return [r for r in self.records if r["port"] == port and
                r["endpoint"] == GENERATION]

    def counted(self, port):
        """What it counted of this port."""
        ours = self.generations(port)
        return {
            "started": len(ours),
            "completed": sum(r["how"] == 0 for r in ours),
            "aborted": sum(r["how"] == 1 for r in ours),
            "probes": sum(r["port"] == port and r["endpoint"] == IGNORED
                          for r in self.records),
            "events": sum(r["events"] for r in ours if not r["how"]),
        }

    def rest(self):
        """What must be nothing in the end: requests in flight, losses, and
        what the counters have and the records have not."""
        last, ends = self.last, ("completed", "client_aborted",
                                 "server_aborted")
        return (sum(last["waiting"]) + sum(last["streaming"]) +
                sum(last["guessed"]),
                last["desyncs"] + last["records_lost"] + last["missed"],
                sum(last["started"]) - len(self.records),
                sum(sum(last[k]) for k in ends) - len(self.records))


class Result:
    """One server under one load, by its own log and by the clients."""

    def __init__(self, name, port, front):
        self.name, self.port, self.front = name, port, front
        self.access = None

    def fetch(self):
        """Its log, once it knows of the end of each request."""
        url = f"http://127.0.0.1:{self.port}/log"

        def ended():
            with urllib.request.urlopen(url) as f:
                self.log = [
                    dict(zip(("path", "start", "end", "events", "whole"), x))
                    for x in json.load(f)]
            return all(r["end"] for r in self.log)

        wait_for(f"{self.name} knows that all has ended", ended)
        self.ours = [r for r in self.log if r["path"] != "/health"]

    def read_access(self, path, trackers):
        """The log of nginx, when it has noted those who left, too."""
        got = max((t.counted(self.front) for t in trackers if not t.refused),
                  key=lambda x: x["started"], default=None)
        end = time.monotonic() + 60
        while True:
            with open(path, encoding="ascii") as f:
                self.access = [line.split() for line in f]
            if (not got or not self.off_by_nginx(got) or
                    time.monotonic() > end):
                return
            time.sleep(.05)

    def expected(self):
        """What the server says that it had."""
        return totals(self.log, self.ours, [r for r in self.ours if r["whole"]],
                      lambda r: r["events"])

    def off_by_log(self, got):
        """What differs from the server's log.  It may not have heard of some
        who left before their first event."""
        wanted = self.expected()
        off = differing(got, wanted)
        unheard = got["started"] - wanted["started"]
        if (0 < unheard <= self.clients["early"] and
                got["aborted"] - wanted["aborted"] == unheard):
            del off["started"], off["aborted"]
        return off

    def off_by_clients(self, got):
        """What differs from what the clients did.  Of those who left before
        their first event the server may never have read a request."""
        c = self.clients
        wanted = {"completed": c["streams"] + c["completions"],
                  "probes": c["probes"],
                  "aborted": c["fins"] + c["resets"]}
        off = differing(got, wanted)
        if 0 <= wanted["aborted"] - got["aborted"] <= c["early"]:
            off.pop("aborted", None)
        return off

    def off_by_nginx(self, got):
        """What differs from the log of the nginx in front."""
        ours = [x for x in self.access if x[0] != "/health"]
        off = differing(got, {"started": len(ours),
                              "completed": sum(x[-1] == "OK" for x in ours),
                              "probes": len(self.access) - len(ours)})
        if 0 < got["started"] - len(ours) <= self.clients["early"]:
            off.pop("started")
        return off

    def events_left(self, tracker):
        """Events of aborted streams: by the tracker, by the application.  What
        it writes after a reset does not leave the machine."""
        return (sum(r["events"] for r in tracker.generations(self.port)
                    if r["how"]),
                sum(r["events"] for r in self.ours if not r["whole"]))


def totals(log, ours, whole, events):
    """What the tracker should count, by a server's log: `ours` are its requests
    to generate, `whole` those of them that it answered to the end."""
    return {"started": len(ours), "completed": len(whole),
            "aborted": len(ours) - len(whole),
            "probes": len(log) - len(ours),
            "events": sum(map(events, whole))}


def web_totals(log):
    """The same, by the log that servers_app.py gives as JSON."""
    ours = [r for r in log if r[0] != "/health"]
    return totals(log, ours, [r for r in ours if r[4]], lambda r: r[3])


def certificate(folder):
    """key and cert, for two days."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{folder}/key",
         "-out", f"{folder}/cert", "-days", "2", "-subj", "/CN=localhost"],
        check=True, stderr=subprocess.DEVNULL)


def differing(got, wanted):
    return {k: (got[k], wanted[k]) for k in wanted if got[k] != wanted[k]}


def serve(name, tmp, stack):
    port, front = free_port(), None
    stack.callback(stop, start(SERVERS[name](port)))
    if name.startswith("nginx"):
        front = free_port()
        stack.callback(stop, nginx(front, port, tmp))
    return Result(name, port, front)


def run(names, tmp, load, rungs=(None,), apart=False, gauge=False):
    """Serve, track, load, all of these servers at once.  load: the arguments of
    sse_load.  apart: a tracker for each port; else one for each source.  The
    results, and the trackers; refused ones are not on this kernel."""
    tmp = os.path.join(tmp, str(time.monotonic_ns()))
    os.mkdir(tmp)
    with contextlib.ExitStack() as stack:
        results = [serve(name, tmp, stack) for name in names]
        ports = [p for r in results for p in (r.port, r.front) if p]
        trackers = [Tracker(p, tmp, rung, gauge) for rung in rungs
                    for p in ([[x] for x in ports] if apart else [ports])]
        for t in trackers:
            stack.callback(stop, t.process)
        for t in trackers:
            t.wait()
        for port in ports:
            wait_for(f"a server listens on port {port}",
                     lambda port=port: accepts(port))
        loads = [subprocess.Popen(
            [f"{O}/tests/e2e/sse_load", str(r.front or r.port)] +
            [str(x) for x in load], stdout=subprocess.PIPE, text=True)
            for r in results]
        for r, p in zip(results, loads):
            stack.callback(stop, p)
            r.clients = json.loads(p.communicate()[0])
        settled(trackers)
        for t in trackers:
            t.end()
        for r in results:
            r.fetch()
            if r.front:
                r.read_access(f"{tmp}/access.log", trackers)
    return results, trackers


def settled(trackers, seconds=120):
    """The servers have heard of the last clients that left, and the trackers
    have looked since then."""
    begin_ns = time.monotonic_ns()

    def idle(t):
        with open(t.path, "rb") as f:
            f.seek(max(0, os.path.getsize(t.path) - 5000))
            for line in reversed(f.read().splitlines()[:-1]):
                if line.startswith(b'{"before_ns"'):
                    state = json.loads(line)
                    return (state["before_ns"] > begin_ns and
                            not sum(state["streaming"]) and
                            not sum(state["waiting"]))
        return False

    end = time.monotonic() + seconds
    while (not all(idle(t) for t in trackers if not t.refused) and
           time.monotonic() < end):
        time.sleep(.05)


# ---- how far it is off in time ---------------------------------------------

class Steps:
    """A number of things in flight, from their starts and ends."""

    def __init__(self, spans):
        changes = sorted([(s, 1) for s, _ in spans] +
                         [(e, -1) for _, e in spans])
        self.times = [t for t, _ in changes]
        self.counts, n = [], 0
        for _, by in changes:
            n += by
            self.counts.append(n)

    def at(self, t):
        i = bisect.bisect_right(self.times, t) - 1
        return self.counts[i] if i >= 0 else 0


def in_flight(result, tracker):
    """The two accounts over time: share of it in which they are equal, mean
    error by the mean, and the mean."""
    app = Steps([(r["start"], r["end"]) for r in result.ours])
    kernel = Steps([(r["start_ns"], r["end_ns"])
                    for r in tracker.generations(result.port)])
    times = sorted(set(app.times + kernel.times))
    equal = error = total = area = 0
    for a, b in zip(times, times[1:]):
        off = abs(app.at(a) - kernel.at(a))
        total += b - a
        equal += (b - a) * (not off)
        error += (b - a) * off
        area += (b - a) * app.at(a)
    return equal / total, error / area, area / total


def gauge_off(result, tracker):
    """The same of the gauge as it was read, 1000 times a second: share that is
    equal, mean error by the mean, and how far it was off at most."""
    app = Steps([(r["start"], r["end"]) for r in result.ours])
    first, last = app.times[0], app.times[-1]
    off, sums = [], 0
    for before, after, n in tracker.samples:
        if first <= before <= last:
            wanted = app.at((before + after) // 2)
            off.append(abs(n - wanted))
            sums += wanted
    return off.count(0) / len(off), sum(off) / sums, max(off)


def quantile(histogram, q):
    """As model/hist.c does it, in us."""
    want, below = q * histogram["count"], 0
    for low, high, n in histogram["buckets"]:
        if n and below + n >= want:
            return (low + (high - low) * (want - below) / n) / 1000
        below += n
    return 0


ENOUGH = {50: 20, 90: 100, 99: 1000}  # values that make a percentile


def percentiles(result, tracker):
    """Of time to first token and gap: name, the tracker's, the clients' in us,
    and the relative difference."""
    rows = []
    for which in ("ttft", "gap"):
        theirs = result.clients[which]
        for p in (50, 90, 99):
            if theirs["n"] < ENOUGH[p]:
                continue
            mine = quantile(tracker.histograms[which], p / 100)
            wanted = theirs[f"p{p}_us"]
            rows.append((f"{which} p{p}", mine, wanted, mine / wanted - 1))
    return rows
