#!/usr/bin/env python3
"""fleet_size.py - what a server costs a fleet's Prometheus

Series and bytes per scrape of a model of 58 MoE layers x 256 experts on 8 ranks,
in each format; then a Prometheus that scrapes it 50 times a second apart, as 50
servers, and sends all to a sink: memory per series, bytes per sample on disk
and on the wire.  Root, a quiet machine, a minute and a half:

  O=build tests/bench/fleet_size.py
"""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "e2e"))
from tap import free_port  # noqa: E402

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
T = tempfile.mkdtemp()
SERVERS, SECONDS = 50, 60
PROTOBUF = ("application/vnd.google.protobuf;"
            "proto=io.prometheus.client.MetricFamily;encoding=delimited")
FORMATS = {"text": "text/plain;version=0.0.4",
           "OpenMetrics": "application/openmetrics-text;version=1.0.0",
           "protobuf": PROTOBUF}


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes what is sent, and forgets it."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def get(port, path="/metrics", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers=headers)
    with urllib.request.urlopen(request, timeout=10) as r:
        return r.read()


def scrape_sizes(port):
    body = get(port).decode()
    series = [x for x in body.split("\n") if x and not x.startswith("#")]
    print(f"series of one server: {len(series)}")
    wide = [x for x in series if x.startswith(("moetop_layer_",
                                               "moetop_kernel_"))]
    print(f"  of them layers and kernels: {len(wide)}")
    for name, accept in FORMATS.items():
        plain = len(get(port, Accept=accept))
        packed = len(get(port, Accept=accept, **{"Accept-Encoding": "gzip"}))
        print(f"bytes per scrape, {name}: {plain}, gzip {packed}")
    return len(series)


def configuration(port, sink):
    groups = [{"targets": [f"127.0.0.1:{port}"],
               "labels": {"__param_n": str(i), "instance": f"gpu-{i}"}}
              for i in range(SERVERS)]
    path = os.path.join(T, "prometheus.yml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "moetop", "honor_labels": True,
                                "static_configs": groups}],
            "remote_write": [{"url": f"http://127.0.0.1:{sink}/"}]}, f)
    return path


def metric(body, name):
    """The sum of a family's samples."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in body.split("\n")
               if line.split("{")[0].split(" ")[0] == name)


def fleet(port):
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    web = free_port()
    with open(os.path.join(T, "log"), "w", encoding="utf-8") as log:
        p = subprocess.Popen(
            ["prometheus", "--config.file=" + configuration(
                port, sink.server_port), f"--storage.tsdb.path={T}/data",
             f"--web.listen-address=127.0.0.1:{web}",
             f"--web.console.templates={T}", f"--web.console.libraries={T}"],
            stdout=log, stderr=log)
    try:
        time.sleep(SECONDS)
        body = get(web).decode()
        series = metric(body, "prometheus_tsdb_head_series")
        samples = metric(body, "prometheus_tsdb_head_samples_appended_total")
        sent = metric(body, "prometheus_remote_storage_samples_total")
        resident = metric(body, "process_resident_memory_bytes")
        print(f"Prometheus: {series:.0f} series, {samples:.0f} samples")
        print(f"  resident bytes per series: {resident / series:.0f}")
        wire = metric(body, "prometheus_remote_storage_bytes_total")
        print(f"  remote write, bytes per sample: {wire / sent:.1f}")
        cpu = metric(body, "process_cpu_seconds_total")
        print(f"  processor time per million samples: "
              f"{cpu / samples * 1e6:.1f} s")
    finally:
        p.terminate()
        p.wait()
        sink.shutdown()


def main():
    server = subprocess.Popen(
        [f"{O}/sim/moetop-sim", "--port", "0", "--model",
         f"{ROOT}/sim/models/deepseek-v3.json", "--gpu", "H200", "--ep", "8",
         "--users", "64"], stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, CUDA_INJECTION64_PATH=f"{O}/libmoetop-agent.so"))
    top = None
    try:
        server.stdout.readline()
        port = free_port()
        top = subprocess.Popen(
            [f"{O}/moetop", "-p", str(server.pid), "--headless", "--listen",
             str(port), "--gpu-price", "3"], env=dict(
                 os.environ, MOETOP_NVML=f"{O}/sim/lib/libnvidia-ml.so.1"))
        time.sleep(25)
        scrape_sizes(port)
        fleet(port)
    finally:
        for p in (top, server):
            if p:
                p.terminate()
                p.wait()
        shutil.rmtree(T, ignore_errors=True)


if __name__ == "__main__":
    main()
