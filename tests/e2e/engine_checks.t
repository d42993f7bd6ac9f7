#!/usr/bin/env python3
"""engine_checks.t - the engine's own numbers beside ours, and what is said of it

A stand-in for each engine: a process with its command line, a server with its
pages, and whatever numbers the test wants.  And the simulated server, whose
numbers are right.
"""
# time limit: 600 s
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap
from host import O

MOETOP = f"{O}/moetop"
MODEL = f"{O}/sim/models/qwen3-30b.json"

# The engine itself: it only has to look and listen like one.
SOURCE = r'''
import http.server, json, os, sys, threading, mmap
state = json.load(open(os.environ["STATE"]))
if state.get("shm"):
    f = open(state["shm"], "r+b")
    keep = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        with open(os.environ["STATE"] + ".log", "a") as log:
            print(self.command, self.path, file=log)
        state = json.load(open(os.environ["STATE"]))
        status, body = state["pages"].get(self.path, [404, "no"])
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 307:
            self.send_header("Location", "/metrics/")
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_PUT = answer
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(
    (state.get("host", "127.0.0.1"), 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
'''


class Engine:
    """A stand-in; .set() changes what it says."""

    def __init__(self, engine, pages, **more):
        self.dir = tempfile.mkdtemp()
        self.state = {"pages": pages, **more}
        self.path = f"{self.dir}/state"
        self.set()
        if engine == "vllm":
            program = f"{self.dir}/vllm"
            args = [program, "serve", "org/model", "--stream-interval", "4"]
        else:
            program = f"{self.dir}/sglang/launch_server.py"
            os.mkdir(f"{self.dir}/sglang")
            args = ["-m", "sglang.launch_server", "--model-path", "org/model"]
        with open(program, "w") as f:
            f.write(SOURCE)
        self.process = subprocess.Popen(
            [sys.executable, *args, "--port", "0"], cwd=self.dir,
            env={**os.environ, "STATE": self.path, "PYTHONPATH": self.dir},
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def set(self, **pages):
        self.state["pages"].update(pages)
        with open(self.path + ".new", "w") as f:
            json.dump(self.state, f)
        os.rename(self.path + ".new", self.path)

    def asked(self):
        try:
            with open(self.path + ".log") as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.dir)


class Watch:
    """moetop --json on a process; one snapshot after the other."""

    def __init__(self, pid, *options):
        self.process = subprocess.Popen(
            [MOETOP, "-p", str(pid), "--json", "--no-inject", "--interval",
             "0.5", "--model", MODEL, *options], stdout=subprocess.PIPE, text=True)

    def until(self, condition, deadline_s=120):
        end = time.monotonic() + deadline_s
        last = None
        while time.monotonic() < end:
            line = self.process.stdout.readline()
            if not line:
                break
            last = json.loads(line)
            if condition(last):
                return last, True
        return last, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def check_of(shot, name):
    return next((c for c in shot["checks"] if c["name"] == name), {})


def state_is(name, state):
    return lambda shot: check_of(shot, name).get("state") == state


def vllm_page(running, waiting=0):
    return (f'vllm:num_requests_running{{engine="0"}} {running}\n'
            f'vllm:num_requests_waiting{{engine="0"}} {waiting}\n'
            'vllm:generation_tokens_total{engine="0"} 1000\n')


def t0(shot):
    return shot["health"]["tiers"]["T0"]["what"]


def metric(shot, name):
    return shot["metrics"][name]["value"]


MODELS = json.dumps({"object": "list", "data": [
    {"id": "served-name", "owned_by": "vllm", "root": "/m", "max_model_len": 9}]})


def vllm_that_lies():
    pages = {"/metrics": [200, vllm_page(0)],
             "/version": [200, '{"version":"0.31.4"}'],
             "/v1/models": [401, "key"]}
    with Engine("vllm", pages) as engine, Watch(engine.process.pid) as w:
        shot, ok = w.until(state_is("in_flight", "agrees"))
        tap.check("an idle engine and nothing in flight agree", ok, shot)
        tap.check("name and version come from its pages",
                  shot["target"]["engine"] == "vllm" and
                  shot["target"]["engine_version"] == "0.31.4",
                  shot["target"])
        tap.check("options of the command line are shown",
                  shot["target"]["options"].get("stream_interval") == "4",
                  shot["target"])
        tap.check("a page that wants a key is said so",
                  "API key" in t0(shot), t0(shot))
        # three reports of the engine, a second apart, then a finding
        for _ in range(10):
            before = engine.asked().count("GET /metrics")
            engine.set(**{"/metrics": [200, vllm_page(90)]})
            shot, ok = w.until(
                lambda s: metric(s, "engine_requests_running") == 90)
            if engine.asked().count("GET /metrics") < before + 3:
                break
            # that was no moment, for the machine stood still
            engine.set(**{"/metrics": [200, vllm_page(0)]})
            w.until(state_is("in_flight", "agrees"))
        tap.check("a moment's difference is no alarm",
                  ok and check_of(shot, "in_flight")["state"] == "agrees",
                  shot["checks"])
        shot, ok = w.until(state_is("in_flight", "differs"))
        found = [f for f in shot["findings"] if f["rule"] == "engine_differs"]
        tap.check("a difference that lasts is a finding", ok and found and
                  found[0]["evidence"] == {"ours": 0, "theirs": 90},
                  (shot["checks"], shot["findings"]))
        tap.check("with what may explain it",
                  "another way" in check_of(shot, "in_flight")["why"],
                  shot["checks"])
        # an answer without numbers is not an idle engine
        engine.set(**{"/metrics": [200, ""]})
        shot, ok = w.until(lambda s: "empty" in t0(s))
        tap.check("an empty page is unknown, not zero",
                  ok and metric(shot, "engine_requests_running") != 0 and
                  not shot["checks"], (t0(shot), shot["checks"]))
        asked = engine.asked()
        tap.check("only the pages that report, only by GET",
                  {a.split()[0] for a in asked} == {"GET"} and
                  {a.split()[1] for a in asked} <=
                  {"/metrics", "/version", "/v1/models",
                   "/server_info?config_format=json"}, sorted(set(asked)))
        tap.check("what does not change is asked for once",
                  all(asked.count(f"GET {p}") == 1
                      for p in ("/version", "/v1/models")), asked)


def odd_pages():
    """On an address of its own, sent elsewhere, wrapped in JSON, families
    without samples."""
    pages = {"/metrics": [307, ""],
             "/metrics/": [200, json.dumps(vllm_page(3, 2))],
             "/v1/models": [200, MODELS]}
    with Engine("vllm", pages, host="127.0.0.9") as engine, \
            Watch(engine.process.pid) as w:
        shot, ok = w.until(lambda s: metric(s, "engine_requests_running") == 3)
        tap.check("a server on its own address, a page that moved, in JSON",
                  ok and metric(shot, "engine_requests_waiting") == 2, shot)
        engine.set(**{"/metrics/": [
            200, "# TYPE vllm:num_requests_running gauge\n"]})
        shot, ok = w.until(lambda s: "no numbers yet" in t0(s))
        tap.check("families without samples are unknown, not zero",
                  ok and metric(shot, "engine_requests_running") is None,
                  (t0(shot), shot["metrics"]["engine_requests_running"]))
        engine.set(**{"/metrics": [401, "key"]})
        run = subprocess.run([MOETOP, "doctor", "--json", "--no-bpf", "-p",
                              str(engine.process.pid)], text=True,
                             capture_output=True, check=False, timeout=120)
        line = next(c for c in json.loads(run.stdout)["checks"]
                    if c["id"] == "server.metrics")
        tap.check("doctor tells a key that is wanted from another network",
                  line["state"] == "missing" and
                  f"port {engine.port} wants a key" in line["what"] and
                  "without a key" in line["remedy"], line)


def key(text):
    return bytes([0xa0 | len(text)]) + text.encode()


def load_map(**numbers):
    """MessagePack, as SGLang writes it."""
    out = bytes([0x80 | len(numbers)])
    for name, v in numbers.items():
        out += key(name) + (b"\xcb" + struct.pack(">d", v)
                            if isinstance(v, float) else
                            b"\xce" + struct.pack(">I", v))
    return out


def write_load(f, running, waiting):
    packed = load_map(timestamp=time.time(), num_running_reqs=running,
                      num_waiting_reqs=waiting)
    f.seek(12)
    f.write(struct.pack("<I", len(packed)) + packed)
    f.flush()


def sglang_without_metrics():
    path = f"/dev/shm/sglang_loads_test{os.getpid()}_00112233.shm"
    info = json.dumps({"model_path": "org/model", "tp_size": 8, "ep_size": 4,
                       "api_key": "secret", "version": "0.5.9",
                       "cuda_graph_bs": [1, 2, 4, 8]})
    try:
        with open(path, "w+b") as f:
            f.write(struct.pack("<4sHHI", b"SLNS", 2, 1, 16384) +
                    bytes(16384))
            write_load(f, 5, 2)
            pages = {"/server_info": [200, info]}
            with Engine("sglang", pages, shm=path) as engine, \
                    Watch(engine.process.pid) as w:
                shot, ok = w.until(
                    lambda s: metric(s, "engine_requests_running") == 5)
                tap.check("SGLang's load is read from shared memory", ok and
                          metric(shot, "engine_requests_waiting") == 2 and
                          "shared memory" in t0(shot), (t0(shot), shot))
                write_load(f, 1, 0)
                shot, ok = w.until(
                    lambda s: metric(s, "engine_requests_running") == 1)
                tap.check("and followed", ok, shot)
                tap.check("its arguments come from /server_info",
                          shot["target"]["options"] | {
                              "tp": "8", "ep": "4",
                              "capture_sizes": "1..8 (4)"} ==
                          shot["target"]["options"] and
                          shot["target"]["engine_version"] == "0.5.9" and
                          "secret" not in json.dumps(shot), shot["target"])
    finally:
        os.unlink(path)


def simulated():
    sim = subprocess.Popen(
        [f"{O}/sim/moetop-sim", "--model", MODEL,
         "--port", "0", "--users", "12", "--prompt-tokens", "64",
         "--output-tokens", "300"], stdout=subprocess.PIPE, text=True)
    names = ("in_flight", "running", "waiting")
    try:
        sim.stdout.readline()
        with Watch(sim.pid) as w:
            shot, ok = w.until(lambda s: all(
                check_of(s, n).get("state") == "agrees" for n in names))
            tap.check("an honest engine under load agrees", ok and
                      not any(f["rule"] == "engine_differs"
                              for f in shot["findings"]),
                      (shot["checks"], shot["findings"]))
            shot, ok = w.until(lambda s: all(
                check_of(s, n).get("theirs") == check_of(s, n).get("ours")
                for n in names) and check_of(s, "running")["theirs"] == 12)
            tap.check("its numbers are beside ours", ok, shot["checks"])
    finally:
        sim.send_signal(signal.SIGTERM)
        sim.wait()
        sim.stdout.close()


vllm_that_lies()
odd_pages()
sglang_without_metrics()
simulated()
tap.end()
