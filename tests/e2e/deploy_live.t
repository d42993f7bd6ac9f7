#!/usr/bin/env python3
"""deploy_live.t - every query of every dashboard and every rule, against a real
Prometheus that scrapes moetop on simulated servers.

Two replicas of one model: one of two expert-parallel ranks with 16 users, in the
valley and dear, one with a single user.  Two Prometheus scrape them, one with
classic and one with native histograms, with the rules as the generator writes
them for a hurried site.  Then an exporter is killed and started again, and users
come until the load is out of the valley: both alerts clear.  A third Prometheus
federates.  Every step waits for the one before it, however long that takes.
"""
# time limit: 600 s
import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import tap
from tap import check, free_port

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MIXIN = os.path.join(ROOT, "deploy", "mixin")
MOETOP = os.path.join(O, "moetop")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
T = tempfile.mkdtemp()
RATE, RANGE = "10s", "20s"
HURRY = ["valley_for=2s", "slow_for=2s", "fast_for=2s", "gone_for=2s",
         "interval=1s", "usd_per_mtok=0.2", "merge_saves=0.05", f"rate={RATE}"]
PROCESSES = []
PATIENCE_S = 100  # for each of a dozen steps, most of which take a few seconds


def start(*command, **more):
    p = subprocess.Popen(command, text=True, **more)
    PROCESSES.append(p)
    return p


def stop(p):
    if p.poll() is None:
        p.terminate()
        try:
            p.wait(60)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def wait(condition):
    return tap.wait(condition, PATIENCE_S, 0.2)


# ---- the scenario -----------------------------------------------------------

def server(*options):
    """The process, and its port."""
    p = start(f"{O}/sim/moetop-sim", "--model", MODEL, "--gpu", "H200",
              "--port", "0", *options,
              env=dict(os.environ,
                       CUDA_INJECTION64_PATH=f"{O}/libmoetop-agent.so"),
              stdout=subprocess.PIPE)
    line = p.stdout.readline()
    if "listening on" not in line:
        raise SystemExit("Bail out! the simulated server did not start")
    return p, int(line.rsplit(":", 1)[1].split()[0])


def users(number, port, *options):
    start(f"{O}/sim/moetop-load", "--url", f"http://127.0.0.1:{port}",
          "--users", str(number), "--output-tokens", "150", *options,
          stdout=subprocess.DEVNULL)


def exporter(target, port):
    nvml = f"{O}/sim/lib/libnvidia-ml.so.1"
    return start(MOETOP, "-p", str(target.pid), "--headless", "--listen",
                 str(port), "--gpu-price", "3", "--expert-metrics",
                 "--max-series", "10000",
                 env=dict(os.environ, MOETOP_NVML=nvml,
                          MOETOP_PERIOD_MS="1500"))


def scraping(exporters):
    """The configuration of a hurried Prometheus; JSON is YAML."""
    targets = [f"127.0.0.1:{p}" for p in exporters]
    return json.dumps({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s",
                   "evaluation_interval": "1s"},
        "rule_files": [f"{T}/deploy/mixin/rules/*.yml"],
        "scrape_configs": [{
            "job_name": "moetop", "honor_labels": True,
            "static_configs": [{"targets": targets,
                                "labels": {"ep_group": "g"}}]}]})


def prometheus(name, configuration, *options):
    """Its port."""
    port = free_port()
    here = os.path.join(T, name)
    os.makedirs(here)
    with open(os.path.join(here, "prometheus.yml"), "w",
              encoding="utf-8") as f:
        f.write(configuration)
    log = open(os.path.join(here, "log"), "w", encoding="utf-8")
    start("prometheus", f"--config.file={here}/prometheus.yml",
          f"--storage.tsdb.path={here}/data",
          f"--web.listen-address=127.0.0.1:{port}",
          f"--web.console.templates={here}", f"--web.console.libraries={here}",
          *options, stdout=log, stderr=log)
    log.close()
    return port


# ---- asking -----------------------------------------------------------------

def api(port, path, **parameters):
    url = f"http://127.0.0.1:{port}/api/v1/{path}"
    if parameters:
        url += "?" + urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(url, timeout=60) as r:
            return json.load(r)["data"]
    except urllib.error.HTTPError as e:
        return {"result": [], "error": e.read().decode()}
    except OSError:
        return {"result": [], "error": "no answer"}


def numbers(sample):
    if "histogram" in sample:
        return [float(sample["histogram"][1]["count"])]
    return [float(sample["value"][1])]


def has_data(port, expr):
    """At least one sample that is a number."""
    answer = api(port, "query", query=expr)
    return any(math.isfinite(v) for s in answer["result"]
               for v in numbers(s))


def filled(expr):
    """As Grafana would send it, everything chosen."""
    for name, value in (("__rate_interval", RATE), ("__range", RANGE)):
        expr = expr.replace("$" + name, value)
    return re.sub(r"\$(namespace|model|server|layer)\b", ".*", expr)


def questions():
    """(where, expression) of every panel and every recording rule."""
    out = []
    for name in ("fleet", "server", "experts", "cost"):
        with open(os.path.join(MIXIN, "dashboards", name + ".json"),
                  encoding="utf-8") as f:
            for panel in json.load(f)["panels"]:
                out += [(f"{name}: {panel['title']}", filled(t["expr"]))
                        for t in panel.get("targets", [])]
    with open(os.path.join(MIXIN, "rules", "recording.yml"),
              encoding="utf-8") as f:
        out += [(r, r) for r in re.findall(r"record: (\S+)", f.read())]
    return out


def unanswered(port, asked):
    return [q for q in asked if not has_data(port, q[1])]


def firing(port, alert):
    return has_data(port, f'ALERTS{{alertname="{alert}",alertstate="firing"}}')


# ---- tests ------------------------------------------------------------------

def scraped(port, exporters):
    def young():
        targets = api(port, "targets").get("activeTargets", [])
        return len(targets) == exporters and all(
            t["health"] == "up" for t in targets)
    return wait(young)


def evaluated(port):
    """All rules, once each has been."""
    rules = [r for g in api(port, "rules").get("groups", [])
             for r in g["rules"]]
    return rules if all(r["health"] != "unknown" for r in rules) else []


def queries(ports):
    asked = questions()
    for name, port in ports.items():
        left = asked

        def all_answered():
            nonlocal left
            left = unanswered(port, left)
            return not left
        wait(all_answered)
        check(f"all {len(asked)} queries of panels and recording rules return"
              f" data, {name} histograms", not left,
              "\n".join(f"{where}: {expr}" for where, expr in left))
        rules = wait(lambda: evaluated(port))
        bad = [(r["name"], r.get("lastError")) for r in rules
               if r["health"] != "ok"]
        check(f"every rule is evaluated without an error, {name} histograms",
              rules and not bad, bad)


def kinds(ports):
    """The two Prometheus really differ."""
    def has():
        return {name: (has_data(port, "moetop_step_duration_seconds_bucket"),
                       has_data(port, "moetop_step_duration_seconds"))
                for name, port in ports.items()}
    wanted = {"classic": (True, False), "native": (False, True)}
    check("one has classic buckets, the other one native histograms",
          wait(lambda: has() == wanted), has())


def federation(port):
    """deploy/prometheus/federation.yml over this one: sums arrive, and the
    group's ratio is what it was."""
    with open(os.path.join(ROOT, "deploy", "prometheus", "federation.yml"),
              encoding="utf-8") as f:
        text = re.sub(r"(?s)- targets:\n.*",
                      f'- targets: ["127.0.0.1:{port}"]\n', f.read())
    text = text.replace("../mixin/rules", f"{T}/deploy/mixin/rules")
    above = prometheus("above", text.replace("30s", "1s"))
    for name in ("ep_group:moetop_fragmentation:ratio",
                 "fleet:moetop_cost:usd_per_million_tokens",
                 "fleet:moetop_servers:count"):
        def same():
            a, b = (api(p, "query", query=name)["result"]
                    for p in (port, above))
            return a and b and math.isclose(numbers(a[0])[0],
                                            numbers(b[0])[0], rel_tol=0.1)
        check(f"{name} of a federation is that of its source",
              wait(same), (api(port, "query", query=name),
                               api(above, "query", query=name)))


def texts(port):
    """What people are called with has no hole."""
    alerts = [a for a in api(port, "alerts").get("alerts", [])
              if a["state"] == "firing"]
    bad = [a["annotations"] for a in alerts
           if "no value" in json.dumps(a["annotations"])
           or " on  " in a["annotations"]["summary"]
           or a["annotations"]["summary"].startswith(" ")]
    check("alerts say which server they are about", alerts and not bad, bad)
    print("# firing: " + ", ".join(sorted({a["labels"]["alertname"]
                                           for a in alerts})))


def history(port, alerts):
    """Their whole story, for a failure."""
    return api(port, "query", query=f'ALERTS{{alertname=~"{alerts}"}}[60s]')


def main():
    ok = subprocess.run(
        [os.path.join(MIXIN, "generate.py"), "--out", T]
        + [x for item in HURRY for x in ("--set", item)],
        stdout=subprocess.DEVNULL, check=False).returncode == 0
    check("the generator writes rules for a hurried site", ok)
    a, a_port = server("--ep", "2")
    b, b_port = server()
    users(16, a_port, "--abort-ratio", "0.1")
    users(1, b_port)
    moment = time.monotonic()
    exporters = [free_port(), free_port()]
    exporter(a, exporters[0])
    eb = exporter(b, exporters[1])
    ports = {"classic": prometheus("classic", scraping(exporters)),
             "native": prometheus("native", scraping(exporters),
                                  "--enable-feature=native-histograms")}
    port = ports["classic"]
    check("two Prometheus scrape both exporters", all(
        scraped(p, 2) for p in ports.values()))
    check("MoetopInValley fires", wait(
        lambda: firing(port, "MoetopInValley")), history(port, "MoetopInValley"))
    queries(ports)
    kinds(ports)
    federation(port)
    texts(port)
    print(f"# {time.monotonic() - moment:.0f} s until all had data")
    eb.send_signal(signal.SIGKILL)
    eb.wait()
    check("MoetopDown fires when an exporter is killed",
          wait(lambda: firing(port, "MoetopDown")),
          history(port, "MoetopDown"))
    exporter(b, exporters[1])
    check("MoetopDown clears when it is back",
          wait(lambda: not firing(port, "MoetopDown")),
          history(port, "MoetopDown"))
    users(584, a_port)
    valley = f'ALERTS{{alertname="MoetopInValley",instance=~".*:' \
             f'{exporters[0]}",alertstate="firing"}}'
    check("MoetopInValley clears when the load has left the valley",
          wait(lambda: not has_data(port, valley)),
          history(port, "MoetopInValley"))
    other = f'moetop_regime{{instance=~".*:{exporters[0]}",' \
            'regime=~"shared|compute|kv|prefill"} == 1'
    check("the server is in another regime then, not out of sight",
          wait(lambda: has_data(port, other)),
          api(port, "query", query="moetop_regime"))


if __name__ == "__main__":
    try:
        main()
    finally:
        for process in reversed(PROCESSES):
            stop(process)
        shutil.rmtree(T, ignore_errors=True)
    tap.end()
