#!/usr/bin/python3
"""exporter_http.t - the HTTP end among friends and enemies

Pages, methods, readiness; then scrapers, slow clients and nonsense at once while
JSON lines go on.  HOSTILE_SECONDS=600 makes a soak of it.
"""
# time limit: 600 s
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

import scrape
import tap
from scrape import TEXT, get, samples, wait
from tap import check

SECONDS = int(os.environ.get("HOSTILE_SECONDS", "5"))
SCRAPERS, SLOW = 100, 1000
SCRAPES = 100


def pages(sim, port):
    body = get(port)[1]
    lines = samples(body)
    check("exactly one regime is on", sum(
        x.startswith("moetop_regime{") and x.endswith(" 1")
        for x in lines) == 1)
    check("the target is named", f'pid="{sim.pid}"'.encode() in body and
          b'engine="vllm"' in body)
    # one that is looked for late is older; the next is young again
    def age():
        return [float(x.rsplit(" ", 1)[1]) for x in samples(get(port)[1])
                if x.startswith("moetop_snapshot_age_seconds")]
    check("the snapshot is young", wait(
        lambda: len(age()) == 1 and age()[0] < 2), age())
    status, body, _ = get(port, "/snapshot.json")
    check("the JSON is one object on one line", status == 200 and
          body.count(b"\n") == 1 and
          json.loads(body)["target"]["pid"] == sim.pid, body[:200])
    check("HEAD has a length and no body",
          get(port, method="HEAD")[:2] == (200, b""))
    check("another path is 404", get(port, "/nothing")[0] == 404)
    status, body, headers = get(port, method="POST")
    check("another method is 405", status == 405 and
          headers.get("Allow") == "GET, HEAD", (status, headers))
    check("it is alive and ready", get(port, "/healthz")[:2] == (200, b"ok\n")
          and get(port, "/readyz")[0] == 200)


# As many bytes as it is told by a server that does nothing else.
OTHER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", self.path[1:])
        self.end_headers()
        self.wfile.write(b"x" * int(self.path[1:]))
    def log_message(self, *_):
        pass
s = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(s.server_port, flush=True)
s.serve_forever()
"""


def scrape_times(port):
    """In turns with the other server, for both find the machine as busy."""
    other = scrape.start(sys.executable, "-c", OTHER, stdout=subprocess.PIPE,
                         text=True)
    other_port = int(other.stdout.readline())
    n = len(get(port)[1])

    def timed(*args):
        start = time.monotonic()
        get(*args)
        return (time.monotonic() - start) * 1e3

    times = sorted((timed(port), timed(other_port, f"/{n}"))
                   for _ in range(SCRAPES))
    mine = [a for a, _ in times]
    theirs = sorted(b for _, b in times)
    p50, p99, other_p50 = (mine[SCRAPES // 2], mine[SCRAPES * 99 // 100],
                           theirs[SCRAPES // 2])
    print(f"# scrape p50 {p50:.2f} ms, p99 {p99:.2f} ms, client included; "
          f"as much from a server in Python {other_p50:.2f} ms")
    check("half of the scrapes take 5 ms at most, client included, or twice "
          "as long as as many bytes do", p50 <= max(5, 2 * other_p50),
          (p50, other_p50))
    other.kill()
    other.wait()


def usage(sim, port):
    def run(*options):
        return subprocess.run([f"{scrape.O}/moetop", "-p", str(sim.pid),
                               "--headless", *options], capture_output=True,
                              text=True, timeout=120)

    r = run("--listen", str(port), "--no-inject", "--no-bpf")
    check("a port in use is one line and exit code 1", r.returncode == 1 and
          r.stderr.count("\n") == 1 and r.stderr.startswith("moetop: ") and
          "in use" in r.stderr, (r.returncode, r.stderr))
    for bad in ("nonsense", "70000", "1.2.3:80", "::1:80", ""):
        r = run("--listen", bad)
        if r.returncode != 2 or r.stderr.count("\n") != 1:
            break
    check("an address that is none is one line and exit code 2",
          r.returncode == 2 and r.stderr.count("\n") == 1,
          (bad, r.returncode, r.stderr))


# ---- all at once ------------------------------------------------------------

class Crowd:
    def __init__(self, port):
        self.port, self.stop = port, False
        self.lock = threading.Lock()
        self.good = self.bad = self.nonsense = 0
        self.served, self.said = set(), []

    def scraper(self):
        while not self.stop:
            status, body, _ = get(self.port, accept=TEXT, timeout=120)
            ok = status == 200 and b"moetop_series_left_out" in body
            with self.lock:
                self.good += ok
                self.bad += not ok
                self.served.add(threading.get_ident())
                if not ok:
                    self.said.append((status, body[:100]))
            time.sleep(0.5)

    def slow(self):
        """Clients that drip a byte now and then; those that are closed come
        again."""
        text = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 4000
        clients = [None] * SLOW
        at = 0
        while not self.stop:
            for i in range(SLOW):
                try:
                    if clients[i] is None:
                        clients[i] = socket.create_connection(
                            ("127.0.0.1", self.port), 5)
                        clients[i].setblocking(False)
                    clients[i].send(text[at:at + 1])
                except OSError:
                    if clients[i]:
                        clients[i].close()
                    clients[i] = None
            at = (at + 1) % len(text)
            time.sleep(0.2)
        for c in clients:
            if c:
                c.close()

    def fool(self):
        rng = random.Random(9)
        good = (b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain;"
                b"q=0.5,application/openmetrics-text;version=1.0.0\r\n"
                b"Accept-Encoding: gzip;q=0.1\r\nAuthorization: Basic YTpi\r\n"
                b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n")
        while not self.stop:
            text = bytearray(good)
            for _ in range(rng.randint(1, 12)):
                i = rng.randrange(len(text))
                what = rng.random()
                if what < 0.5:
                    text[i] = rng.randrange(256)
                elif what < 0.75:
                    del text[i:i + rng.randint(1, 20)]
                else:
                    text[i:i] = bytes(rng.randrange(256) for _ in range(
                        rng.randint(1, 200)))
                text = text or bytearray(b"x")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 2) as s:
                    s.settimeout(0.02)
                    s.sendall(bytes(text))
                    s.recv(200)
            except OSError:
                pass
            self.nonsense += 1


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def connected(port):
    return next((float(x.split()[-1])
                 for x in samples(get(port)[1])
                 if x.startswith("moetop_http_connections")), 0)


def hostile(top, port, lines):
    crowd = Crowd(port)
    jobs = [crowd.scraper] * SCRAPERS + [crowd.slow] + [crowd.fool] * 2
    threads = [threading.Thread(target=x, daemon=True) for x in jobs]
    for t in threads:
        t.start()
    time.sleep(SECONDS * 0.4)
    connections = wait(lambda: max(0, connected(port) - 900)) + 900
    # all are there: from now on it is the same again and again
    wait(lambda: len(crowd.served) == SCRAPERS)
    early, before = resident_kb(top.pid), len(lines)
    time.sleep(SECONDS * 0.6)
    go_on = wait(lambda: len(lines) >= before + 3)
    late = resident_kb(top.pid)
    crowd.stop = True
    for t in threads:
        t.join(150)
    print(f"# {crowd.good} scrapes, {crowd.nonsense} malformed requests,"
          f" {connections} connections; resident {early} kB, then {late} kB")
    check("every scraper among many gets its scrape",
          len(crowd.served) == SCRAPERS and crowd.bad == 0,
          (len(crowd.served), crowd.bad, crowd.said[:5]))
    check("slow clients were there", connections > 900, connections)
    check("memory is flat", late <= early + 4096, (early, late))
    check("memory is little", late < 96 * 1024, late)
    check("JSON goes on meanwhile", go_on, (before, len(lines)))
    got = wait(lambda: get(port, "/healthz")[0] == 200)
    check("and afterwards it is as before", got and top.poll() is None)


def main():
    sim, _ = scrape.start_sim("--users", "16")
    top, port = scrape.start_moetop("-p", str(sim.pid), "--json",
                                    stdout=subprocess.PIPE, text=True)
    lines = []
    threading.Thread(target=read_lines, args=(top, lines),
                     daemon=True).start()
    wait(lambda: b"\nmoetop_layer_rows{" in get(port)[1])
    pages(sim, port)
    scrape_times(port)
    usage(sim, port)
    hostile(top, port, lines)
    sim.kill()
    sim.wait()
    wait(lambda: top.poll() is not None)
    check("moetop ends with 3 when its server has", top.poll() == 3,
          top.poll())
    tap.end()


def read_lines(top, lines):
    for line in top.stdout:
        lines.append(len(line))


if __name__ == "__main__":
    main()
