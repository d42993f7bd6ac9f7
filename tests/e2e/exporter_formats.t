#!/usr/bin/python3
"""exporter_formats.t - a real Prometheus reads the three formats; they agree

One server, one moetop; Prometheus scrapes it in text, OpenMetrics and protobuf
(the first two by proxies that ask for them).  The requests that the histograms
are about are made and timed here, and noted by the server.
"""
# time limit: 600 s
import os
import socket
import subprocess
import tempfile
import threading
import time

import scrape
import tap
from scrape import OPENMETRICS, PROTOBUF, TEXT, get, wait
from tap import check

SECONDS = int(os.environ.get("SCRAPE_SECONDS", "11"))
INTERVAL_S = 5  # the time-out of a scrape, too
CLIENTS, REQUESTS, TOKENS = 8, 3, 12
BUSY = []  # how slow the machine was under the load


class Client(threading.Thread):
    """Streams some completions, and notes when their bytes came."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ttft, self.duration, self.gaps = port, [], [], []

    def run(self):
        for _ in range(REQUESTS):
            self.stream()

    def stream(self):
        body = ('{"model": "m", "prompt": "a b c", "max_tokens": %d, '
                '"stream": true}' % TOKENS)
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            start = time.monotonic()
            s.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                       f"Content-Type: application/json\r\nConnection: close"
                       f"\r\nContent-Length: {len(body)}\r\n\r\n{body}")
                      .encode())
            head = b""
            while b"\r\n\r\n" not in head:
                head += s.recv(1)
            got, last = s.recv(65536), time.monotonic()
            self.ttft.append(last - start)
            while got:
                end = time.monotonic()
                got = s.recv(65536)
        self.duration.append(end - start)


def load(port):
    clients = [Client(port) for _ in range(CLIENTS)]
    for c in clients:
        c.start()
    BUSY.append(tap.slowness())
    for c in clients:
        c.join(120)
    BUSY.append(tap.slowness())
    return clients


class Served:
    """What the server's log says of all requests together."""

    def __init__(self, path):
        self.path = path

    def ended(self):
        """Its totals, once it has written all: started, completed, events."""
        with open(self.path, encoding="ascii") as f:
            lines = [x.split() for x in f if x.endswith("\n")]
        last = [x for x in lines if x[0] == "T"][-1:]
        if not last or int(last[0][3]) < CLIENTS * REQUESTS:
            return False
        self.events = int(last[0][5])
        self.sums(lines)
        return True

    def sums(self, lines):
        """Seconds to first bytes and to ends."""
        self.ttft = self.duration = 0
        flight = waiting = 0
        for x in lines:
            if x[0] != "F":
                continue
            t, f, w = int(x[1]) / 1e9, int(x[2]), int(x[3])
            self.ttft += (waiting - w) * t
            self.duration += (flight - f) * t
            flight, waiting = f, w


def near(measured, told, late_s):
    """A bucket of the source apart; a client may come late to see its bytes,
    but never early."""
    return (told <= 1.065 * measured + 0.002 and
            told >= 0.935 * measured - late_s)


def histograms(port, clients, served):
    fs = {f.name: f for f in scrape.families(get(port, accept=PROTOBUF)[1])}
    n = CLIENTS * REQUESTS
    for name, key in (("moetop_ttft_seconds", "ttft"),
                      ("moetop_request_duration_seconds", "duration")):
        truth = sorted(x for c in clients for x in getattr(c, key))
        h = fs[name].metric[0].histogram
        b = scrape.native(h)
        p50, told = truth[(n - 1) // 2], scrape.quantile(b, 0.5)
        # none of them was later than all of them together
        own, busy_s = getattr(served, key), 0.02 * max(BUSY)
        late_s = max(0, sum(truth) - own) + busy_s
        print(f"# {key}: median {p50 * 1e3:.1f} ms here, {told * 1e3:.1f} ms"
              f" told; sum {sum(truth):.3f} here, {own:.3f} by the server, "
              f"{h.sample_sum:.3f} told")
        check(f"{name}: every request is in it once", h.sample_count == n and
              sum(c for _, _, c in b) == n, (h.sample_count, b))
        check(f"{name}: the median is that of the clients",
              near(p50, told, late_s), (p50, told, late_s, b))
        check(f"{name}: the sum is between the server's and the clients'",
              own - n * busy_s <= h.sample_sum <= sum(truth) + n * 0.002,
              (own, h.sample_sum, sum(truth)))
        check(f"{name}: the ends are the clients', too",
              near(truth[-1], b[-1][1], late_s) and
              near(truth[0], b[0][1], late_s), (truth[0], truth[-1], b))
    gaps = fs["moetop_event_gap_seconds"].metric[0].histogram
    # [DONE] is none of them
    check("the gaps are one less than the events of each stream",
          gaps.sample_count == served.events - 2 * n,
          (gaps.sample_count, served.events))


def same_families(port):
    """Of two scrapes, between which there may have been a new snapshot."""
    text = {x.split()[2].decode() for x in get(port, accept=TEXT)[1].split(
        b"\n") if x.startswith(b"# TYPE")}
    return text == {f.name for f in scrape.families(
        get(port, accept=PROTOBUF)[1])}


def formats(port):
    text = get(port, accept=TEXT)
    om = get(port, accept=OPENMETRICS)
    lint = subprocess.run(["promtool", "check", "metrics"], input=text[1],
                          capture_output=True)
    check("promtool check metrics finds nothing", lint.returncode == 0 and
          not lint.stdout + lint.stderr, lint.stdout + lint.stderr)
    from prometheus_client.openmetrics import parser as openmetrics
    parsed = list(openmetrics.text_string_to_metric_families(om[1].decode()))
    check("prometheus_client's parser takes the OpenMetrics",
          len(parsed) > 60 and om[2]["Content-Type"].startswith(
              "application/openmetrics-text; version=1.0.0"), len(parsed))
    kinds = {m.name: m.type for m in parsed}
    check("its types are those of OpenMetrics",
          kinds["moetop_build"] == "info" and
          kinds["moetop_requests_started"] == "counter" and
          kinds["moetop_ttft_seconds"] == "histogram", kinds)
    names = [x.name + str(sorted(x.labels.items())) for m in parsed
             for x in m.samples]
    check("no series twice", len(names) == len(set(names)))
    check("counters and histograms say since when they count",
          sum(n.startswith("moetop_ttft_seconds_created") for n in names) == 1)
    n = len(scrape.samples(text[1]))
    print(f"# {n} samples in text, {len(names)} in OpenMetrics")
    check("at most 1500 series", n <= 1500, n)
    check("protobuf has the same families", wait(lambda: same_families(port)))
    zipped = get(port, accept=TEXT, encoding="gzip")
    check("gzip is a fifth at most",
          int(zipped[2]["Content-Length"]) * 5 < len(zipped[1]), zipped[2])


def prometheus(port, folder):
    jobs = {"protobuf": (f"127.0.0.1:{port}", [])}
    for name, accept in (("text", TEXT), ("openmetrics", OPENMETRICS)):
        proxy = scrape.AcceptProxy(accept)
        jobs[name] = (f"127.0.0.1:{port}",
                      [f"proxy_url: http://127.0.0.1:{proxy.port}"])
    p = scrape.Prometheus(folder, jobs, INTERVAL_S)
    wait(p.up)
    wait(lambda: len(p.query("up == 1")) == 3)
    return p, time.monotonic()


def over_time(p, metric):
    """{job: [(time, value)]} of all that was scraped."""
    got = p.api("query", query=f"{metric}[{SECONDS + 600}s]")["result"]
    return {x["metric"]["job"]: [(t, float(v)) for t, v in x["values"]]
            for x in got}


def both_shapes(p):
    q = [p.value(f"histogram_quantile(0.5, moetop_ttft_seconds{x})")
         for x in ('{job="protobuf"}', '_bucket{job="openmetrics"}')]
    return q if all(q) else None


def look(p, pauses, since):
    time.sleep(max(0, since + SECONDS - time.monotonic()))
    wait(lambda: all(len(x) >= 3 and x[-1][1]
                     for x in over_time(p, "up").values()))
    up = over_time(p, "up")
    took = over_time(p, "scrape_duration_seconds")
    # a machine that stands still for seconds is no fault of a format
    bad = [(job, t, dict(took[job]).get(t)) for job in up
           for t, v in up[job] if not v and not (
               dict(took[job]).get(t, 0) > 0.9 * INTERVAL_S and
               pauses.lost(t, t + INTERVAL_S) > 0.1 * INTERVAL_S)]
    print("# scrapes: " + ", ".join(
        f"{job} {sum(v for _, v in x):.0f} of {len(x)}, at most "
        f"{max(v for _, v in took[job]):.2f} s" for job, x in up.items()))
    check("no scrape failed, in any format", len(up) == 3 and not bad, bad)
    errors = {name: p.own("prometheus_target_scrapes_" + name) for name in (
        "sample_duplicate_timestamp_total", "sample_out_of_order_total",
        "sample_out_of_bounds_total", "exceeded_sample_limit_total")}
    check("Prometheus refused no sample", not any(errors.values()), errors)
    n = CLIENTS * REQUESTS

    def completed():
        return sorted(p.query("moetop_requests_completed_total").values())
    check("all three formats say the same",
          wait(lambda: completed() == [n] * 3), completed())

    def counts():
        return [p.value('histogram_count(moetop_ttft_seconds'
                        '{job="protobuf"})'),
                p.value('moetop_ttft_seconds_count{job="text"}')]
    check("its native histogram has every request",
          wait(lambda: counts() == [n] * 2), counts())
    q = wait(lambda: both_shapes(p))
    check("quantiles of both shapes are of one distribution",
          q and 0.4 < q[0] / q[1] < 2.5, q)
    # it grows between one scrape and the next
    check("rows per expert and steps are native, too", wait(lambda: p.value(
        'histogram_count(moetop_rows_per_expert{job="protobuf"})') == p.value(
        'moetop_rows_per_expert_count{job="text"}')))
    log = open(p.log.name).read()
    check("Prometheus has nothing to complain of", log == "", log)


def main():
    pauses = tap.Pauses()
    with tempfile.TemporaryDirectory() as folder:
        served = Served(f"{folder}/truth")
        sim, sim_port = scrape.start_sim("--truth", served.path)
        top, port = scrape.start_moetop("-p", str(sim.pid), "--headless")
        wait(lambda: b"moetop_requests_in_flight{" in get(port)[1])
        p, since = prometheus(port, folder)
        clients = load(sim_port)
        wait(lambda: f" {CLIENTS * REQUESTS}\n".encode() in b"".join(
            x + b"\n" for x in get(port)[1].split(b"\n")
            if x.startswith(b"moetop_requests_completed_total")))
        wait(lambda: b"\nmoetop_layer_rows{" in get(port)[1])
        wait(served.ended)
        histograms(port, clients, served)
        formats(port)
        look(p, pauses, since)
        for x in (p.process, top, sim):
            x.kill()
            x.wait()
    tap.end()


if __name__ == "__main__":
    main()
