#!/usr/bin/env python3
"""exporter_promtool.t - /metrics of a live server, as Prometheus will see it.

promtool must find nothing, the series must be few, a scrape must be cheap, and
what is wrong from outside (path, method, port) must get a clear answer.
"""
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import tap
from tap import check

O = os.environ.get("O", "build")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "sim/models/deepseek-v3.json")
SCRAPES = 100


def listening(process, deadline_s=20):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        line = process.stdout.readline()
        if not line:
            break
        if "listening on" in line:
            return
    raise SystemExit("Bail out! the simulated server did not start")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path, method="GET"):
    """Status, body, headers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as r:
            return r.status, r.read().decode(), dict(r.headers)
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), dict(e.headers)
    except OSError:
        return 0, "", {}


def wait_for(port, text, deadline_s=30):
    """The first /metrics that has this text, else the last one."""
    end = time.monotonic() + deadline_s
    body = ""
    while time.monotonic() < end:
        body = get(port, "/metrics")[1]
        if text in body:
            return body
        time.sleep(0.1)
    return body


def samples(body):
    return [x for x in body.split("\n") if x and not x.startswith("#")]


def live(sim, port):
    body = wait_for(port, "\nmoetop_layer_rows{")
    check("layers are exported", "\nmoetop_layer_rows{" in body,
          "\n".join(samples(body)))
    lint = subprocess.run(["promtool", "check", "metrics"], input=body,
                          capture_output=True, text=True)
    check("promtool check metrics finds nothing", lint.returncode == 0 and
          not lint.stdout and not lint.stderr, lint.stdout + lint.stderr)
    n = len(samples(body))
    print(f"# {n} samples")
    check("at most 1500 series", n <= 1500, n)
    names = [x.rsplit(" ", 1)[0] for x in samples(body)]
    check("no series twice", len(names) == len(set(names)),
          sorted(x for x in set(names) if names.count(x) > 1))
    check("exactly one regime is on", sum(
        x.startswith("moetop_regime{") and x.endswith(" 1")
        for x in samples(body)) == 1)
    check("the target is named",
          f'pid="{sim.pid}"' in body and 'engine="vllm"' in body)
    age = [x for x in samples(body) if x.startswith("moetop_snapshot_age")]
    check("the snapshot is young", len(age) == 1 and
          float(age[0].split()[1]) < 5, age)

    status, body, headers = get(port, "/snapshot.json")
    check("the JSON is one object on one line", status == 200 and
          body.count("\n") == 1 and
          json.loads(body)["target"]["pid"] == sim.pid, body[:200])
    check("HEAD has a length and no body",
          get(port, "/metrics", "HEAD")[:2] == (200, ""))
    check("another path is 404", get(port, "/nothing")[0] == 404)
    status, body, headers = get(port, "/metrics", "POST")
    check("another method is 405", status == 405 and
          headers.get("Allow") == "GET, HEAD", (status, headers))

    times = []
    for _ in range(SCRAPES):
        start = time.monotonic()
        get(port, "/metrics")
        times.append((time.monotonic() - start) * 1e3)
    times.sort()
    print(f"# scrape p50 {times[SCRAPES // 2]:.2f} ms,"
          f" p99 {times[SCRAPES * 99 // 100]:.2f} ms, client included")
    check("half of the scrapes take 5 ms at most, client included",
          times[SCRAPES // 2] <= 5, times[SCRAPES // 2])


def port_in_use(sim, port):
    r = subprocess.run([f"{O}/moetop", "-p", str(sim.pid), "--headless",
                        "--listen", str(port), "--no-inject", "--no-bpf"],
                       capture_output=True, text=True, timeout=20)
    check("a port in use is one line and exit code 1",
          r.returncode == 1 and r.stderr.count("\n") == 1 and
          r.stderr.startswith("moetop: ") and "in use" in r.stderr,
          (r.returncode, r.stderr))


def main():
    env = dict(os.environ, CUDA_INJECTION64_PATH=os.path.abspath(
        f"{O}/libmoetop-agent.so"))
    sim = subprocess.Popen(
        [f"{O}/sim/moetop-sim", "--model", MODEL, "--gpu", "H200", "--port",
         "0", "--users", "16"], env=env, stdout=subprocess.PIPE, text=True)
    top = None
    try:
        listening(sim)
        port = free_port()
        top = subprocess.Popen(
            [f"{O}/moetop", "-p", str(sim.pid), "--headless", "--listen",
             str(port)], env=dict(os.environ, MOETOP_PERIOD_MS="1500"))
        live(sim, port)
        port_in_use(sim, port)
        sim.send_signal(signal.SIGKILL)
        sim.wait()
        body = wait_for(port, "\nmoetop_target_up 0", 5)
        gone = top.poll()
        check("a target that has ended is down, or moetop ended with 3",
              "\nmoetop_target_up 0" in body or gone == 3, (gone, body[:500]))
    finally:
        for p in (top, sim):
            if p and p.poll() is None:
                p.kill()
                p.wait()
    tap.end()


if __name__ == "__main__":
    main()
