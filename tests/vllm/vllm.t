#!/usr/bin/env python3
"""vllm.t - moetop beside a real vLLM that serves a tiny random MoE on a CPU

What the engine is, what it runs, what it has been asked: equal to vLLM's own
metrics and to the clients' log.  Root.  VENV names the environment that
install.sh has made; RECORD=DIR keeps the process tree and the metrics page.
"""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import streams
import tap
from host import O
from tap import free_port, wait

VENV = os.environ.get("VENV", f"{O}/vllm/venv")
MOETOP = f"{O}/moetop"
START_S = 300
SEQUENCES = 24


class Server:
    def __init__(self):
        self.port = free_port()
        self.dir = tempfile.mkdtemp()
        os.mkdir(f"{self.dir}/model")
        shutil.copy(f"{HERE}/config.json", f"{self.dir}/model/config.json")
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE":
               "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
               "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        with open(f"{self.dir}/log", "w") as log:
            self.process = subprocess.Popen(
                [f"{VENV}/bin/vllm", "serve", "model", "--load-format",
                 "dummy", "--skip-tokenizer-init", "--served-model-name",
                 "tiny-moe", "--host", "127.0.0.1", "--port", str(self.port),
                 "--max-model-len", "1024", "--max-num-seqs", str(SEQUENCES),
                 "--enforce-eager", "--enable-mfu-metrics"],
                cwd=self.dir, env=env, stdout=log, stderr=log,
                start_new_session=True)
        self.pid = self.process.pid

    def page(self, path):
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=10) as r:
            return r.read().decode()

    def up(self):
        if self.process.poll() is not None:
            with open(f"{self.dir}/log") as f:
                raise SystemExit("Bail out! vLLM ended: " + f.read()[-2000:])
        try:
            self.page("/health")
            return True
        except OSError:
            return False

    def metric(self, name, **labels):
        total = 0
        for line in self.page("/metrics").split("\n"):
            m = re.match(rf"vllm:{name}{{(.*)}} (\S+)$", line)
            if m and all(f'{k}="{v}"' in m[1] for k, v in labels.items()):
                total += float(m[2])
        return total

    def stop(self):
        try:
            os.killpg(self.pid, signal.SIGTERM)
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.dir)


class Watch:
    """moetop --json; the newest snapshot."""

    def __init__(self, pid):
        self.process = subprocess.Popen(
            [MOETOP, "-p", str(pid), "--json", "--interval", "0.5"],
            stdout=subprocess.PIPE, text=True)

    def next(self):
        return json.loads(self.process.stdout.readline())

    def until(self, condition, deadline_s=20):
        end = time.monotonic() + deadline_s
        shot = self.next()
        while not condition(shot) and time.monotonic() < end:
            shot = self.next()
        return shot

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def value(shot, name):
    return shot["metrics"][name]["value"]


def what_it_is(server, watch):
    shot = watch.until(lambda s: value(s, "engine_requests_running") == 0)
    t = shot["target"]
    tap.check("engine and version", t["engine"] == "vllm" and
              t["engine_version"].split("+")[0] ==
              json.loads(server.page("/version"))["version"], t)
    tap.check("shape of the model",
              (t["experts"], t["top_k"], t["moe_layers"]) == (8, 2, 4), t)
    tap.check("where the shape was found",
              "model path of the server" in (t["config_origin"] or ""), t)
    tap.check("port", t["port"] == server.port, t)
    tap.check("options, the backend of its log among them",
              t["options"].get("eager") == "on" and
              t["options"].get("max_seqs") == str(SEQUENCES) and
              "cpu" in t["options"].get("moe_backend", ""), t["options"])
    tiers = shot["health"]["tiers"]
    tap.check("no process uses CUDA, and that is said",
              "on the CPU" in tiers["T2"]["what"] and
              "CUDA" in tiers["T2"]["what"] and tiers["T2"]["remedy"], tiers)
    tap.check("its metrics are read", "engine metrics" in tiers["T0"]["what"],
              tiers)


def what_it_runs(server, watch):
    """More streams than there is room for; both sides at rest."""
    users = SEQUENCES + 8
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        load = pool.submit(streams.load, server.port, users, 1, 500, 0)
        shot = watch.until(lambda s: value(s, "engine_requests_waiting") == 8)
        before = (server.metric("num_requests_running"),
                  server.metric("num_requests_waiting"))
        if os.environ.get("RECORD"):
            record(server, os.environ["RECORD"])
        shot = watch.until(lambda s: all(
            c["state"] == "agrees" for c in s["checks"][:3]))
        seen = (value(shot, "engine_requests_running"),
                value(shot, "engine_requests_waiting"))
        tap.check("running and waiting as vLLM says", seen == before ==
                  (SEQUENCES, 8), (seen, before))
        tap.check("in flight as there are",
                  value(shot, "requests_in_flight") == users, shot["metrics"])
        tap.check("and the two agree", len(shot["checks"]) >= 3 and all(
            c["state"] == "agrees" for c in shot["checks"][:3]),
            shot["checks"])
        load.result()


COUNTERS = ("requests_started_total", "requests_completed_total",
            "requests_aborted_total")


def events(shot):
    return sum(v["events"] for k, v in shot["requests"].items()
               if isinstance(v, dict) and "events" in v) \
        if shot["requests"] else None


def counted(server):
    return {"finished": server.metric("request_success_total"),
            "aborted": server.metric("request_success_total",
                                     finished_reason="abort"),
            "prompts": server.metric("prompt_tokens_total") /
            streams.PROMPT_TOKENS,
            "tokens": server.metric("generation_tokens_total")}


def what_was_asked(server, watch, users, rounds):
    shot = watch.until(lambda s: value(s, "requests_in_flight") == 0)
    then, theirs = shot, counted(server)
    log = streams.load(server.port, users, rounds, 40)
    wait(lambda: server.metric("num_requests_running") == 0, 10)
    shot = watch.until(lambda s: value(s, "requests_in_flight") == 0 and
                       value(s, COUNTERS[0]) - value(then, COUNTERS[0]) ==
                       log.started)
    shot = watch.next()
    ours = [value(shot, c) - value(then, c) for c in COUNTERS]
    now = counted(server)
    delta = {k: now[k] - theirs[k] for k in now}
    name = f"{users} streams at a time: "
    tap.check(name + "arrivals, completions, aborts as the clients'",
              ours == [log.started, log.completed, log.aborted],
              (ours, vars(log)))
    # vLLM counts a prompt when it is read, and no end of what clients left
    tap.check(name + "arrivals and completions as vLLM's",
              [delta["prompts"], delta["finished"]] == ours[:2], (ours, delta))
    # one more may have been under way when a client left
    seen = events(shot) - events(then)
    tap.check(name + "events as the clients'",
              0 <= seen - log.events <= log.aborted, (seen, vars(log)))
    print(f"# {name}{ours} started, completed, aborted; events {seen}, "
          f"clients {log.events}; vLLM {delta}")
    tap.check(name + "tokens as vLLM's", log.completed_tokens <=
              delta["tokens"] <= log.completed_tokens + 40 * log.aborted,
              (delta, log.completed_tokens))


def record(server, out):
    subprocess.run([sys.executable, f"{HERE}/record_tree.py",
                    str(server.pid), f"{out}/procs"], check=True)
    with open(f"{out}/metrics.prom", "w") as f:
        f.write(server.page("/metrics"))
    shutil.copy(f"{server.dir}/log", f"{out}/log.txt")


def main():
    server = Server()
    watch = None
    try:
        if not wait(server.up, START_S):
            raise SystemExit("Bail out! vLLM does not come up")
        watch = Watch(server.pid)
        what_it_is(server, watch)
        what_it_runs(server, watch)
        what_was_asked(server, watch, 1, 20)
        what_was_asked(server, watch, 20, 8)
    finally:
        if watch:
            watch.stop()
        server.stop()
    tap.end()


main()
