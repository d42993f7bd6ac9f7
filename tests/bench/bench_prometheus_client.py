#!/usr/bin/python3
"""bench_prometheus_client.py FILE - the series of a text page, served by Python

The usual way to write an exporter, prometheus_client, on the same machine and
with the same series as tests/bench/bench_exporter: bytes and times of a scrape.
"""
import http.client
import sys
import threading
import time
from wsgiref.simple_server import WSGIRequestHandler, make_server

import prometheus_client
from prometheus_client.parser import text_string_to_metric_families

SCRAPES = 100
ACCEPTS = {"text": "text/plain",
           "openmetrics": "application/openmetrics-text; version=1.0.0"}


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class Series:
    """Keeps the families and gives them at each scrape, as a collector does
    that computes nothing."""

    def __init__(self, path):
        with open(path) as f:
            self.families = list(text_string_to_metric_families(f.read()))

    def collect(self):
        return iter(self.families)


def measure(port, accept, gzip):
    c = http.client.HTTPConnection("127.0.0.1", port)
    times, n = [], 0
    headers = {"Accept": accept}
    if gzip:
        headers["Accept-Encoding"] = "gzip"
    for _ in range(SCRAPES):
        start = time.monotonic()
        c.request("GET", "/metrics", headers=headers)
        n = len(c.getresponse().read())
        times.append((time.monotonic() - start) * 1e3)
    times.sort()
    return n, times[SCRAPES // 2], times[SCRAPES * 99 // 100]


def main():
    registry = prometheus_client.CollectorRegistry()
    registry.register(Series(sys.argv[1]))
    server = make_server("127.0.0.1", 0, prometheus_client.make_wsgi_app(
        registry), handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, accept in ACCEPTS.items():
        plain = measure(server.server_port, accept, False)
        packed = measure(server.server_port, accept, True)
        print(f"prometheus_client, {name}: {plain[0]} bytes, gzip {packed[0]};"
              f" ms: {plain[1]:.2f} p99 {plain[2]:.2f}, gzip {packed[1]:.2f}"
              f" p99 {packed[2]:.2f}")
    server.shutdown()


main()
