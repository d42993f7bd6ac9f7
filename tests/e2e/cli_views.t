#!/usr/bin/env python3
"""cli_views.t - the demo, and one server in every view.

`moetop demo` starts and ends its own server.  A recording gives back what was
seen; --listen serves the same snapshot that is printed.
"""
# time limit: 600 s
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request

import tap
from tap import check, free_port

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
T = tempfile.mkdtemp()


def moetop(*args, timeout=120):
    return subprocess.run([MOETOP, *args], capture_output=True, text=True,
                          timeout=timeout, check=False,
                          stdin=subprocess.DEVNULL)


def children(pid):
    """Processes whose parent is pid."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as f:
                rest = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(rest[1]) == pid and rest[0] != "Z":
            found.append(int(entry))
    return found


def gone(pids, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(os.path.exists(f"/proc/{p}") for p in pids):
            return True
        time.sleep(0.05)
    return False


def demo_once():
    for _ in range(3):  # it gives what it has after 20 s, with or without
        run = moetop("demo", "--once", "--json")
        if '"windows":0' not in run.stdout:
            break
    lines = run.stdout.splitlines()
    check("demo --once --json: one line, status 0",
          run.returncode == 0 and len(lines) == 1, (run.returncode,
                                                    run.stderr, run.stdout))
    s = json.loads(lines[0]) if lines else {}
    m = s.get("metrics", {})
    check("demo --once --json: kernels and requests are in it",
          s.get("layers") and s["health"]["rows"]["windows"] >= 1 and
          m["requests_in_flight"]["state"] == "ok" and
          m["active_experts"]["source"] == "measured", s.get("health"))
    pid = s.get("target", {}).get("pid", 0)
    check("demo --once --json: its server is gone", pid and gone([pid]), pid)
    run = moetop("demo", "--once")
    check("demo --once: the overview as text",
          run.returncode == 0 and "MoE layers" in run.stdout and
          "MBU" in run.stdout and "\033" not in run.stdout, run)


def demo_dies():
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
        p = subprocess.Popen([MOETOP, "demo", "--json"], text=True,
                             stdout=subprocess.PIPE)
        p.stdout.readline()
        server = children(p.pid)
        p.send_signal(how)
        p.communicate(timeout=120)
        check(f"demo ended by {how.name}: its server ends too",
              len(server) == 1 and gone(server), server)
    p = subprocess.Popen([MOETOP, "demo", "--json", "--interval", "0.1"],
                         stdout=subprocess.PIPE)
    p.stdout.readline()
    server = children(p.pid)
    p.stdout.close()
    check("demo whose output nobody reads any more: status 0, no server left",
          p.wait(120) == 0 and len(server) == 1 and gone(server), server)


def no_engine_metrics():
    """An SGLang by its command line, which serves no metrics by default."""
    with open(os.path.join(T, "serve"), "w", encoding="ascii") as f:
        f.write("read line\n")
    p = subprocess.Popen(["sglang", "serve", "--model", MODEL], cwd=T,
                         executable="/bin/sh", stdin=subprocess.PIPE)
    try:
        run = moetop("-p", str(p.pid), "--json", "--count", "1")
    finally:
        p.communicate()
    t0 = json.loads(run.stdout)["health"]["tiers"]["T0"]
    check("a server without engine metrics: T0 works, and says how to add them",
          t0["state"] == "ok" and "no engine metrics" in t0["what"] and
          "--enable-metrics" in t0["remedy"], t0)


class Demo:
    """The simulated server of a demo, kept to be watched by others."""

    def __init__(self, *options):
        self.p = subprocess.Popen([MOETOP, "demo", *options], text=True,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)

    def __enter__(self):
        return self.p

    def __exit__(self, *_):
        self.p.terminate()
        self.p.communicate(timeout=120)


def fetch(url, seconds=120):
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as r:
                return r.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def listen():
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Demo("--headless", "--listen", str(port)):
        end = time.monotonic() + 120
        text = ""
        while time.monotonic() < end and not re.search(
                r"^moetop_active_experts.*measured", text, re.M):
            time.sleep(0.2)
            text = fetch(url + "/metrics")
        check("--headless --listen: measured experts arrive at /metrics",
              "moetop_active_experts" in text, text[:2000])
        lint = subprocess.run(["promtool", "check", "metrics"], input=text,
                              capture_output=True, text=True, check=False)
        check("promtool finds nothing", lint.returncode == 0 and
              not lint.stdout.strip() and not lint.stderr.strip(),
              lint.stdout + lint.stderr)
        snapshot = json.loads(fetch(url + "/snapshot.json"))
        check("/snapshot.json is the snapshot",
              snapshot["target"]["experts"] == 128, snapshot["target"])
        busy = moetop("demo", "--headless", "--listen", str(port))
        check("a second moetop on the port: status 1 and one line",
              busy.returncode == 1 and len(busy.stderr.splitlines()) == 1 and
              str(port) in busy.stderr, (busy.returncode, busy.stderr))


def held(pipe):
    """Bytes in it."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)),
                          sys.byteorder)


def unread(pid):
    """Lines that nobody reads hold moetop up, but not its end."""
    end, pipe = os.pipe()
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    p = subprocess.Popen([MOETOP, "-p", str(pid), "--json", "--interval",
                          "0.25", "--no-inject"], stdout=pipe,
                         stderr=subprocess.PIPE, text=True)
    os.close(pipe)
    # full: the first line is longer than the pipe
    tap.wait_for("a line that is stuck", lambda: held(end) == 4096)
    p.terminate()
    _, said = p.communicate(timeout=120)
    check("--json into a pipe that nobody reads: ended by SIGTERM, silent",
          p.returncode == 0 and not said, (p.returncode, said))
    os.close(end)


def record_and_replay():
    tape = os.path.join(T, "tape")
    with Demo("--json") as demo:
        pid = json.loads(demo.stdout.readline())["target"]["pid"]
        before = time.time()
        run = moetop("record", "-p", str(pid), "-o", tape, "--count", "3",
                     "--interval", "0.5")
        after = time.time()
        check("record --count 3 --interval 0.5: silent, status 0, 1.5 s",
              run.returncode == 0 and not run.stdout and not run.stderr and
              after - before > 1.4, (run, after - before))
        live = moetop("-p", str(pid), "--json", "--count", "1")
        unread(pid)
    lines = [json.loads(x) for x in
             moetop("replay", tape, "--json").stdout.splitlines()]
    check("replay --json gives three snapshots of that server",
          [x["target"]["pid"] for x in lines] == [pid] * 3, lines)
    # a machine that stood still makes one longer and the next one shorter
    check("of the time in which it was recorded, 1.5 s at least", lines and
          before < lines[0]["time"] < lines[-1]["time"] < after and
          sum(x["interval_seconds"] for x in lines) > 1.4 and
          all(abs(b["time"] - a["time"] - b["interval_seconds"]) < 0.1
              for a, b in zip(lines, lines[1:])),
          [(x["time"], x["interval_seconds"]) for x in lines])
    check("a replayed line has every key of a live one",
          lines and set(lines[0]) == set(json.loads(live.stdout)) and
          set(lines[0]["metrics"]) == set(json.loads(live.stdout)["metrics"]),
          (live.stdout[:500], lines[:1]))
    check("replay --json --count 2 stops there",
          len(moetop("replay", tape, "--json",
                     "--count", "2").stdout.splitlines()) == 2)
    with open(tape, "r+b") as f:
        f.truncate(os.path.getsize(tape) - 7)
    cut = moetop("replay", tape, "--json")
    check("a recording that was cut: what is whole, one line, status 1",
          len(cut.stdout.splitlines()) == 2 and cut.returncode == 1 and
          len(cut.stderr.splitlines()) == 1, (cut.returncode, cut.stderr))


demo_once()
demo_dies()
no_engine_metrics()
listen()
record_and_replay()
shutil.rmtree(T)
tap.end()
