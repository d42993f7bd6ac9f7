#!/usr/bin/env python3
"""attach_sim.t - the whole chain on the simulated server.

Started by `moetop run`, watched by `moetop -p`: every field is there, the rows
of each sampled step equal the truth log, the requests in flight equal the
server's own count.  Then both deaths: of the server under moetop, and of moetop
under load.
"""
import bisect
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import tap
import watching
from tap import Pauses, Watch, check, slowness

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
SIM = os.path.join(O, "sim", "moetop-sim")
LOAD = os.path.join(O, "sim", "moetop-load")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
T = tempfile.mkdtemp()
ENV = dict(os.environ,
           MOETOP_NVML=os.path.join(O, "sim", "lib", "libnvidia-ml.so.1"))
# The kernel counts first: a request when the server reads its last byte, an end
# when the server's write(2) returns, a client's reset when it arrives.  The
# server's log has each of them later: the first two by a turn of its event loop,
# the resets of many clients one after the other.
TURN_NS = 20e6
PAUSES = Pauses()


class Server:
    """A simulated server under `moetop run`; its pid is that of the sim."""

    def __init__(self, *options):
        self.truth = os.path.join(T, f"truth{len(tap.results)}.log")
        self.p = subprocess.Popen(
            [MOETOP, "run", "--", SIM, "--model", MODEL, "--gpu", "H200",
             "--port", "0", "--truth", self.truth, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.p.stdout.readline()
        found = re.search(r"listening on .*:(\d+)", line)
        if not found:
            self.p.kill()
            raise SystemExit("Bail out! the simulated server does not start: "
                             + line + self.p.stderr.read())
        self.pid, self.port = self.p.pid, int(found.group(1))

    def end(self):
        if self.p.poll() is None:
            self.p.terminate()
            try:
                self.p.wait(60)
            except subprocess.TimeoutExpired:
                self.p.kill()
        self.p.wait()

    def lines(self, kind):
        with open(self.truth, encoding="ascii") as f:
            for line in f:
                word = line.rstrip("\n").split("\t")
                if word[0] == kind:
                    yield word


def watch(server, enough, *options, most=400):
    """Lines of moetop until they are enough: (exit status, what it said, lines)"""
    slow = slowness()
    said = watching.watch([MOETOP, "-p", str(server.pid), "--json", *options],
                          enough, most, env=ENV)
    server.slowness = max(slow, slowness())
    return said


def value(snapshot, metric):
    return snapshot["metrics"][metric]["value"]


class Account:
    """The server's own count of requests in flight, from its truth log."""

    def __init__(self, server):
        self.turn_ns = TURN_NS * server.slowness
        self.times, self.counts = [0], [0]
        self.starts, self.ends = [0], [0]
        for w in server.lines("F"):
            change = int(w[2]) - self.counts[-1]
            self.times.append(int(w[1]))
            self.counts.append(int(w[2]))
            self.starts.append(self.starts[-1] + max(change, 0))
            self.ends.append(self.ends[-1] + max(-change, 0))

    def at(self, at_ns):
        return bisect.bisect_right(self.times, at_ns) - 1

    def range(self, at_ns, turn_ns):
        """The least and most that the kernel can have counted at a time: the
        log's count of then, less the ends and plus the starts of a turn later.
        Ends go on for as long as the log has nothing else, each within a turn
        of the one before.  Where nothing changes, both are the count itself."""
        i, j = self.at(at_ns), self.at(at_ns + turn_ns)
        starts = self.starts[j] - self.starts[i]
        while (j + 1 < len(self.times) and self.starts[j + 1] == self.starts[j]
               and self.times[j + 1] - self.times[j] < turn_ns):
            j += 1
        return (self.counts[i] - (self.ends[j] - self.ends[i]),
                self.counts[i] + starts)


def sampled_steps(path):
    with open(path, encoding="ascii") as f:
        return [json.loads(x) for x in f]


def compare_steps(server, path):
    """Every sampled step against the truth: (compared, [differences])."""
    starts, layers, wrong, n = {}, {}, [], 0
    for word in server.lines("S"):
        starts[int(word[2])] = word[1]
    for word in server.lines("L"):
        layers.setdefault(word[1], {})[int(word[2])] = [
            int(x) for x in word[3:6]]
    keys = sorted(starts)
    for s in sampled_steps(path):
        near = min(keys, key=lambda k: abs(k - s["start_ns"]))
        if abs(near - s["start_ns"]) > 100000:
            wrong.append(("no such step", s))
            continue
        mask = int(s["layer_mask"][0], 16) | int(s["layer_mask"][1], 16) << 64
        want = [0, 0, 0]
        for layer, counts in layers[starts[near]].items():
            if mask >> layer & 1:
                want = [a + b for a, b in zip(want, counts)]
        n += 1
        if want != [s["rows"], s["active"], s["single"]]:
            wrong.append((want, s))
    return n, wrong


def unknown(line):
    return [m for m in (
        "requests_in_flight", "requests_started_total", "events_per_second",
        "tokens_per_second", "steps_per_second", "step_seconds",
        "tokens_per_step", "rows", "active_experts", "single_row_experts",
        "coverage_ratio", "fragmentation_ratio", "rows_per_active_expert",
        "single_row_ratio", "valley_index", "marginal_gain_ratio",
        "expert_share_ratio", "mbu_ratio", "useful_mbu_ratio", "mfu_ratio",
        "effective_experts", "cost_usd_per_million_tokens",
        "agent_overhead_ratio") if value(line, m) is None]


def all_layers(lines):
    """Each has its time, and in some line its rows: a window samples a part."""
    rows = {x["layer"] for s in lines for x in s["layers"] if x["rows"]}
    last = lines[-1]["layers"]
    return (len(last) == 48 and len(rows) == 48 and
            all(x["seconds_per_step"] for x in last))


def check_fields(lines):
    last = lines[-1]
    tiers = last["health"]["tiers"]
    check("T0, T1, T2, T3 and C work",
          all(tiers[t]["state"] == "ok" for t in tiers), tiers)
    target = last["target"]
    check("the target is described",
          target["experts"] == 128 and target["top_k"] == 8 and
          target["moe_layers"] == 48 and target["engine"] and
          target["gpus"] and target["ranks"], target)
    check("every metric of this chain is known", not unknown(last),
          unknown(last))
    check("16 users are in the valley",
          last["regime"]["value"] == "valley", last["regime"])
    check("48 layers are listed, with rows and time",
          all_layers(lines), last["layers"][:2])
    lost = last["health"]["lost"]
    check("nothing was lost", not any(lost.values()), lost)


def check_in_flight(server, lines, before, name):
    """Every line against the server's own count, and most of them exactly."""
    account, far, near, stood = Account(server), [], 0, 0
    for s in lines[1:]:
        at_ns = (s["time"] - before) * 1e9
        lost_s = PAUSES.lost(s["time"] - 1, s["time"] + 1)
        low, high = account.range(at_ns, account.turn_ns + lost_s * 1e9)
        got = value(s, "requests_in_flight")
        if got is None or not low <= got <= high:
            far.append((got, low, high))
        near += got != account.counts[account.at(at_ns)]
        stood += lost_s > 0
    check(f"{name}: in flight is the server's own count, at every line",
          len(lines) > 3 and not far, far)
    few = max(1, len(lines) / 20) * server.slowness + stood
    check(f"{name}: nineteen in twenty lines equal it at that very moment",
          near <= few, f"{near} of {len(lines) - 1} do not")


def many():
    """Nobody, one, fifty, five hundred streams, and nobody again."""
    slow = min(4, slowness())
    nobody_s = round(4 * slow) + 6  # moetop starts meanwhile
    server = Server("--users", f"0:{nobody_s},1:4,50:4,500:{round(6 * slow)},0a")

    def over(lines):
        """As many as ever are, and then nobody for a second."""
        seen = [value(s, "requests_in_flight") for s in lines]
        return max(x or 0 for x in seen) > 400 and not any(seen[-5:])
    try:
        before = time.time() - time.monotonic()
        _, _, lines = watch(server, over, "--interval", "0.2", most=600)
    finally:
        server.end()
    check_in_flight(server, lines, before, "0, 1, 50, 500, 0 users")
    seen = [value(s, "requests_in_flight") for s in lines]
    most = max(Account(server).counts)
    check("the first and the last line show nobody, and all 500 were seen",
          seen[0] == 0 and seen[-1] == 0 and .95 * most <= max(seen) <= most and
          most > 400, (most, seen))
    check("and the rest of the line agrees: idle at both ends",
          lines[0]["regime"]["value"] == "idle" and
          lines[-1]["regime"]["value"] == "idle",
          [s["regime"]["value"] for s in lines])


def whole(lines):
    """All is known."""
    last = lines[-1]
    return (len(lines) >= 8 and not unknown(last) and all_layers(lines) and
            last["regime"]["value"] == "valley" and
            all(t["state"] == "ok" for t in last["health"]["tiers"].values()))


def attach():
    server = Server("--users", "16")
    steps = os.path.join(T, "steps")
    try:
        before = time.time() - time.monotonic()
        status, err, lines = watch(server, whole, "--gpu-price", "3",
                                   "--sampled-steps", steps, most=60)
        check("lines, status 0 and not a word", status == 0 and
              len(lines) >= 8 and not err, (status, err))
        if not lines:
            return
        check_fields(lines)
    finally:
        server.end()
    check_in_flight(server, lines, before, "16 users")
    n, wrong = compare_steps(server, steps)
    check(f"rows of all {n} sampled steps are those of the truth log",
          n >= 10 and not wrong, wrong[:5])


def death_of_the_server():
    server = Server("--users", "4")
    p = subprocess.Popen([MOETOP, "-p", str(server.pid), "--json"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=ENV)
    try:
        first = json.loads(p.stdout.readline())
        dies = Watch()
        os.kill(server.pid, signal.SIGKILL)
        out, err = p.communicate(timeout=60)
        dies.stop()
    finally:
        p.kill()
        server.end()
    last = json.loads(out.splitlines()[-1])
    check("a server that dies: one last line says so, and keeps the state",
          last["health"]["target_gone"] and
          not first["health"]["target_gone"] and
          last["target"]["pid"] == server.pid, last["health"])
    check("a server that dies: status 3, one line of error, within 2 s",
          p.returncode == 3 and len(err.splitlines()) == 1 and
          dies.within(2), (p.returncode, err, dies.seconds()))


def death_of_moetop():
    server = Server()
    load = subprocess.Popen(
        [LOAD, "--url", f"http://127.0.0.1:{server.port}", "--users", "50",
         "--output-tokens", "40", "--duration", "6", "--drain", "60"],
        stdout=subprocess.PIPE, text=True)
    try:
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            p = subprocess.Popen([MOETOP, "-p", str(server.pid), "--json"],
                                 stdout=subprocess.PIPE, text=True, env=ENV)
            p.stdout.readline()
            p.send_signal(how)
            p.communicate(timeout=60)
        out, _ = load.communicate(timeout=120)
        alive = server.p.poll() is None
    finally:
        load.kill()
        server.end()
    stats = json.loads(out.splitlines()[-1])
    check("moetop killed three times under load: no request failed",
          stats["completed"] >= 50 and not stats["failed"] and
          not stats["dropped"] and not stats["aborted"], stats)
    check("and the server serves on", alive)


attach()
many()
death_of_the_server()
death_of_moetop()
shutil.rmtree(T)
tap.end()
