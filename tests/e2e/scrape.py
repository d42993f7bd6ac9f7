"""scrape.py - moetop's HTTP end from a test: the pieces, and the three formats

The protobuf messages are described here by their published field numbers, apart
from wire/metrics.proto, and read by Google's library; the text formats are read
by prometheus_client.  For /usr/bin/python3, which has both.
"""
import atexit
import functools
import gzip
import http.server
import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import tap
from tap import free_port

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
AGENT = f"{O}/libmoetop-agent.so"
TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROTOBUF = ("application/vnd.google.protobuf;"
            "proto=io.prometheus.client.MetricFamily;encoding=delimited")
processes = []


def end_all():
    for p in processes:
        if p.poll() is None:
            p.kill()
            p.wait()


atexit.register(end_all)


def start(*args, **kwargs):
    p = subprocess.Popen(args, **kwargs)
    processes.append(p)
    return p


def start_sim(*options, model="deepseek-v3", agent=True):
    """The process and its port."""
    env = dict(os.environ)
    if agent:
        env["CUDA_INJECTION64_PATH"] = AGENT
    sim = start(f"{O}/sim/moetop-sim", "--model",
                f"{ROOT}/sim/models/{model}.json", "--gpu", "H200", "--port",
                "0", *options, env=env, stdout=subprocess.PIPE, text=True)
    for line in sim.stdout:
        if "listening on" in line:
            return sim, int(line.rsplit(":", 1)[1].split()[0])
    raise SystemExit("Bail out! the simulated server did not start")


def start_moetop(*options, **kwargs):
    """The process and the port that it serves."""
    port = free_port()
    env = dict(os.environ, MOETOP_PERIOD_MS="1500")
    top = start(f"{O}/moetop", "--listen", str(port), *options, env=env,
                **kwargs)
    return top, port


def get(port, path="/metrics", accept=None, encoding=None, method="GET",
        timeout=60):
    """Status, body as bytes, headers; 0 when there is no answer."""
    headers = {}
    if accept:
        headers["Accept"] = accept
    if encoding:
        headers["Accept-Encoding"] = encoding
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as r:
            body = r.read()
            if r.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            return r.status, body, dict(r.headers)
    except urllib.error.HTTPError as e:
        return e.code, e.read(), dict(e.headers)
    except OSError:
        return 0, b"", {}


wait = functools.partial(tap.wait, pause_s=0.1)  # most of it asks over HTTP


def samples(body):
    return [x for x in body.decode().split("\n") if x and x[0] != "#"]


# ---- protobuf ---------------------------------------------------------------

def messages():
    from google.protobuf import (descriptor_pb2, descriptor_pool,
                                 message_factory)
    F = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="client.proto", package="p", syntax="proto2")
    types = {"d": F.TYPE_DOUBLE, "s": F.TYPE_STRING, "u64": F.TYPE_UINT64,
             "i64": F.TYPE_INT64, "i32": F.TYPE_INT32, "u32": F.TYPE_UINT32,
             "s32": F.TYPE_SINT32, "s64": F.TYPE_SINT64}
    layout = {
        "Timestamp": "seconds 1 i64, nanos 2 i32",
        "LabelPair": "name 1 s, value 2 s",
        "Gauge": "value 1 d",
        "Counter": "value 1 d, created_timestamp 3 Timestamp",
        "Bucket": "cumulative_count 1 u64, upper_bound 2 d",
        "BucketSpan": "offset 1 s32, length 2 u32",
        "Histogram": "sample_count 1 u64, sample_sum 2 d, bucket 3 *Bucket, "
                     "schema 5 s32, zero_threshold 6 d, zero_count 7 u64, "
                     "positive_span 12 *BucketSpan, positive_delta 13 *s64, "
                     "created_timestamp 15 Timestamp",
        "Metric": "label 1 *LabelPair, gauge 2 Gauge, counter 3 Counter, "
                  "histogram 7 Histogram",
        "MetricFamily": "name 1 s, help 2 s, type 3 i32, metric 4 *Metric, "
                        "unit 5 s",
    }
    for name, fields in layout.items():
        m = file.message_type.add(name=name)
        for field in fields.split(", "):
            word, number, kind = field.split()
            repeated, kind = kind[0] == "*", kind.lstrip("*")
            f = m.field.add(name=word, number=int(number),
                            label=F.LABEL_REPEATED if repeated
                            else F.LABEL_OPTIONAL)
            if kind in types:
                f.type = types[kind]
            else:
                f.type, f.type_name = F.TYPE_MESSAGE, f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(
        pool.FindMessageTypeByName("p.MetricFamily"))


def families(body):
    """The MetricFamily messages of a delimited body."""
    MetricFamily = messages()
    out, at = [], 0
    while at < len(body):
        n = shift = 0
        while True:
            byte = body[at]
            at += 1
            n |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                break
        m = MetricFamily()
        m.ParseFromString(body[at:at + n])
        assert not m.FindInitializationErrors() and m.ByteSize() == n
        at += n
        out.append(m)
    return out


def labels(metric):
    return {x.name: x.value for x in metric.label}


def native(h):
    """[(lower, upper, count)] of a native histogram, the zero bucket first."""
    out = [(0, h.zero_threshold, h.zero_count)] if h.zero_count else []
    deltas, index, count = iter(h.positive_delta), 0, 0
    per = 2 ** h.schema
    for span in h.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            out.append((2 ** ((index - 1) / per), 2 ** (index / per), count))
            index += 1
    assert next(deltas, None) is None
    return out


def quantile(buckets, q):
    """Middle of the bucket that holds it."""
    want, seen = q * sum(c for _, _, c in buckets), 0
    for low, high, count in buckets:
        seen += count
        if seen >= want:
            return (low + high) / 2
    return None


# ---- Prometheus -------------------------------------------------------------

class AcceptProxy(threading.Thread):
    """An HTTP proxy that asks for one format, whatever the client prefers."""

    def __init__(self, accept):
        super().__init__(daemon=True)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                r = urllib.request.Request(self.path,
                                           headers={"Accept": accept})
                try:
                    with urllib.request.urlopen(r, timeout=60) as u:
                        body, kind = u.read(), u.headers["Content-Type"]
                except OSError:
                    self.send_error(502)
                    return
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                      Handler)
        self.port = self.server.server_address[1]
        self.start()

    def run(self):
        self.server.serve_forever()


class Prometheus:
    """The real one, with native histograms on, in a folder of its own."""

    def __init__(self, folder, jobs, interval_s=1):
        """jobs: {name: (target, [more lines])}"""
        self.port = free_port()
        lines = ["global:", f"  scrape_interval: {interval_s}s",
                 f"  scrape_timeout: {interval_s}s", "scrape_configs:"]
        for name, (target, more) in jobs.items():
            lines += [f"- job_name: {name}", "  static_configs:",
                      f"  - targets: ['{target}']"]
            lines += ["  " + x for x in more]
        with open(f"{folder}/prometheus.yml", "w") as f:
            f.write("\n".join(lines) + "\n")
        self.log = open(f"{folder}/prometheus.log", "w")
        self.process = start(
            "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=native-histograms", "--log.level=warn",
            stdout=self.log, stderr=subprocess.STDOUT,
            env=dict(os.environ, NO_PROXY="", no_proxy=""))

    def api(self, path, **query):
        q = urllib.parse.urlencode(query)
        status, body, _ = get(self.port, f"/api/v1/{path}?{q}")
        return json.loads(body)["data"] if status == 200 else None

    def query(self, expr):
        """{labels as a frozenset: value} now."""
        d = self.api("query", query=expr)
        return {frozenset(x["metric"].items()): float(x["value"][1])
                for x in (d["result"] if d else []) if "value" in x}

    def value(self, expr):
        """Of the one series that there is, else None."""
        got = list(self.query(expr).values())
        return got[0] if len(got) == 1 else None

    def own(self, name):
        """Sum of a counter of its own."""
        body = get(self.port, "/metrics", TEXT)[1]
        return sum(float(x.rsplit(" ", 1)[1]) for x in samples(body)
                   if x.split("{")[0].split(" ")[0] == name)

    def up(self):
        return get(self.port, "/-/ready")[0] == 200
