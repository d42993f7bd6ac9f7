"""attach_cycles.py - attach to a process and let go of it, again and again

What the tests of `make test` do 50 times and tests/soak/ 1000 times: targets
that know their own health, the injector, and a census of what a process has
open and mapped.
"""
import asyncio
import collections
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import threading
import time

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
MOETOP = os.path.join(O, "moetop")
AGENT = os.path.join(O, "libmoetop-agent.so")
SIM = os.path.join(O, "sim", "moetop-sim")
LOAD = os.path.join(O, "sim", "moetop-load")
MODEL = os.path.join(ROOT, "sim", "models", "qwen3-30b.json")
TOOL = os.path.join(O, "tests", "e2e", "inject_tool")
QUIET = os.path.join(O, "tests", "lib", "quiet_agent.so")
RINGS = os.path.join(O, "tests", "e2e", "ring_cycles")
ENV = dict(os.environ,
           MOETOP_NVML=os.path.join(O, "sim", "lib", "libnvidia-ml.so.1"))


def program(name):
    return os.path.join(O, "tests", "e2e", name)


def line_of(stream, deadline_s=90):
    """The next line of a child's output, or "" when none comes in time."""
    if not select.select([stream], [], [], deadline_s)[0]:
        return ""
    return stream.readline()


def until(true, deadline_s=90, step_s=0.01):
    """Wait for a condition; its last value."""
    end = time.monotonic() + deadline_s
    while not (value := true()) and time.monotonic() < end:
        time.sleep(step_s)
    return value


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))] if values else 0


# ---- what a process has ------------------------------------------------------

def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def status(pid, field, tid=None):
    task = f"/task/{tid}" if tid else ""
    with open(f"/proc/{pid}{task}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(field + ":"):
                return line.split(":", 1)[1].strip()
    return None


def descriptors(pid):
    """What is open, and how often; sockets by kind, as their numbers change."""
    found = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        found[re.sub(r":\[\d+\]$", "", link)] += 1
    return found


def mappings(pid):
    """(mappings by name and permission, number of anonymous ones)."""
    named, anonymous = collections.Counter(), 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        for line in f:
            part = line.split(None, 5)
            if len(part) < 6 or part[5].startswith("["):
                anonymous += 1
            else:
                named[part[5].strip() + " " + part[1]] += 1
    return named, anonymous


def threads(pid):
    """Names of the threads, and how often."""
    found = collections.Counter()
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
                found[f.read().strip()] += 1
        except OSError:
            pass
    return found


class Census:
    """All of the above at one moment; `more` says what a later one has."""

    def __init__(self, pid):
        self.fds = descriptors(pid)
        self.named, self.anonymous = mappings(pid)
        self.threads = threads(pid)
        self.rss_kb = int((status(pid, "VmRSS") or "0 kB").split()[0])

    def more(self, later, ignore=()):
        """What has come or gone since, but what matches one of `ignore`."""
        out = []
        for what in ("fds", "named", "threads"):
            a, b = getattr(self, what), getattr(later, what)
            for key in sorted(set(a) | set(b)):
                text = f"{what}: {key}: {a[key]} -> {b[key]}"
                if a[key] != b[key] and not any(x in text for x in ignore):
                    out.append(text)
        return out


def asleep(pid):
    """Wait for the agent's threads to end, all but the one that sleeps; the
    census of then."""
    until(lambda: threads(pid)["moetop"] == 1 and
          not threads(pid)["moetop-rows"])
    return Census(pid)


def quiet(pid):
    """Wait for the threads of injections to end; the census of then."""
    until(lambda: not threads(pid)["moetop"])
    return Census(pid)


def has_ring(pid):
    return any("memfd:moetop-ring" in x for x in descriptors(pid))


# ---- attaching ---------------------------------------------------------------

def inject(pid, image=AGENT, *options, limit_s=60):
    """One injection; its report as a dictionary, `seconds` it took added."""
    start = time.monotonic()
    run = subprocess.run([TOOL, image, str(pid), *options], text=True,
                         capture_output=True, timeout=limit_s, check=False)
    try:
        report = json.loads(run.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        report = {"refusal": "no report", "why": run.stdout + run.stderr}
    report["seconds"] = time.monotonic() - start
    report["rc"] = run.returncode
    return report


def probe(pid, *options):
    """Inject the library that leaves nothing: that it made no ring is right."""
    report = inject(pid, QUIET, *options)
    if "could not make its ring" in report["why"]:
        report["refusal"] = "ok"
    return report


def reattach(pid, cycles, hold_ms=0, limit_s=600):
    """Wake the agent by its ring and send it to sleep, `cycles` times."""
    run = subprocess.run([RINGS, str(pid), str(cycles), str(hold_ms)],
                         capture_output=True, text=True, timeout=limit_s,
                         check=False)
    return json.loads(run.stdout or '{"cycles":0,"why":"no answer"}')


def moetop(pid, *options, limit_s=120):
    run = subprocess.run([MOETOP, "-p", str(pid), "--json", *options],
                         capture_output=True, text=True, env=ENV,
                         timeout=limit_s, check=False)
    return run, [json.loads(x) for x in run.stdout.splitlines()]


class Pauses:
    """Reports of many injections."""

    def __init__(self):
        self.reports = []

    def add(self, report):
        self.reports.append(report)
        return report

    @property
    def good(self):
        return [r for r in self.reports if r["refusal"] == "ok"]

    @property
    def bad(self):
        return [r for r in self.reports if r["refusal"] != "ok"]

    def ms(self, p):
        return percentile([r["pause_us"] for r in self.good], p) / 1e3

    def __str__(self):
        calls = collections.Counter(r["call"] for r in self.good)
        return (f"{len(self.good)} of {len(self.reports)} injections; pause "
                f"p50 {self.ms(.5):.3f} p99 {self.ms(.99):.3f} "
                f"max {self.ms(1):.3f} ms; stops "
                f"{max([r['stops'] for r in self.good], default=0)}; "
                f"calls {dict(calls)}")


# ---- targets -----------------------------------------------------------------

class Target:
    """A child that says `ready`; a context that always ends it."""

    def __init__(self, command, **options):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.p.pid
        self.ready = line_of(self.p.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        for f in (self.p.stdin, self.p.stdout):
            try:
                f.close()
            except BrokenPipeError:
                pass

    def end(self, limit_s=60):
        """Ask it to end by itself; its exit status."""
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass
        try:
            return self.p.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "does not end"


class Odd(Target):
    def __init__(self, *words, **options):
        super().__init__([program("stress_odd"), *map(str, words)], **options)


class Stress(Target):
    """The stress target; health() is what it counts itself."""

    def __init__(self, seconds=3600, early=0, forkers=6):
        super().__init__([program("stress_target"), str(seconds), str(early),
                          str(forkers)])

    def health(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        return json.loads(line_of(self.p.stdout) or "{}")

    def last(self):
        """(its last words, exit status)"""
        self.p.stdin.close()
        line = line_of(self.p.stdout, 40)
        try:
            return json.loads(line or "{}"), self.p.wait(60)
        except subprocess.TimeoutExpired:
            return json.loads(line or "{}"), "does not end"


class Wakes(Target):
    """What the wake-ups of an injection take on this machine as it is now."""

    def __init__(self):
        super().__init__([program("stress_wakes")])

    def limits(self):
        """{"p50_us": ..., "p90_us": ..., "p99_us": ...} until now"""
        self.p.stdin.close()
        return json.loads(line_of(self.p.stdout) or "{}")


class Sim(Target):
    """A simulated server that nobody has prepared."""

    def __init__(self, *options):
        super().__init__([SIM, "--model", MODEL, "--gpu", "H200", "--port",
                          "0", *options], stderr=subprocess.DEVNULL)
        found = re.search(r"listening on .*:(\d+)", self.ready)
        self.port = int(found.group(1)) if found else 0

    def load(self, users):
        return Load(self.port, users)


class Load:
    """Users of a simulated server, until done(), which tells what became of
    their requests.  Two programs take turns, so that there are always users and
    that each request is waited for."""

    SLICE_S = 4

    def __init__(self, port, users, tokens=40):
        self.port, self.tokens = port, tokens
        self.total = collections.Counter()
        self.ending = False
        self.lanes = [threading.Thread(target=self.lane, daemon=True,
                                       args=(users // 2, self.SLICE_S + i))
                      for i in range(2)]
        for lane in self.lanes:
            lane.start()

    def lane(self, users, seconds):
        while not self.ending:
            run = subprocess.run(
                [LOAD, "--url", f"http://127.0.0.1:{self.port}", "--users",
                 str(users), "--output-tokens", str(self.tokens), "--duration",
                 str(seconds), "--drain", "60"], capture_output=True, text=True,
                check=False)
            try:
                stats = json.loads(run.stdout.splitlines()[-1])
            except (IndexError, ValueError):
                self.total["failed"] += 1
                return
            self.total.update({k: stats[k] for k in (
                "started", "completed", "failed", "dropped", "aborted")})

    def done(self, limit_s=90):
        """(requests completed, requests that were not)"""
        self.ending = True
        for lane in self.lanes:
            lane.join(limit_s)
            self.total["failed"] += lane.is_alive()
        return (self.total["completed"], self.total["failed"] +
                self.total["dropped"] + self.total["aborted"])


class Uvicorn(Target):
    """FastAPI on uvicorn, uvloop and httptools: a real server of streams."""

    def __init__(self):
        self.log = tempfile.NamedTemporaryFile()
        self.port = tap.free_port()
        super().__init__(["/bin/sh", "-c", "echo ready; exec /usr/bin/python3 "
                          f"{HERE}/uvicorn_app.py {self.port} "
                          f"{self.log.name}"], stderr=subprocess.DEVNULL)
        self.up = until(self.answers, 90, 0.05)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n"
                          b"Connection: close\r\n\r\n")
                return b" 200 " in s.recv(64)
        except OSError:
            return False

    def load(self, users, chunks=20, interval_s=0.02):
        return Streams(self.port, users, chunks, interval_s)


class Streams:
    """Clients that read streams for ever, in a thread of this program."""

    def __init__(self, port, users, chunks, interval_s):
        self.port, self.users = port, users
        self.chunks, self.interval_s = chunks, interval_s
        self.good, self.failed, self.why = 0, 0, []
        self.gaps = []
        self.ending = False
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()),
                                       daemon=True)
        self.thread.start()

    async def stream(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            body = json.dumps({"stream": True, "max_tokens": self.chunks,
                               "interval_s": self.interval_s,
                               "ttft_s": 0.01}).encode()
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                         b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                         % (len(body), body))
            whole, last = b"", None
            while data := await asyncio.wait_for(reader.read(65536), 60):
                now = time.monotonic()
                if last:
                    self.gaps.append(now - last)
                whole, last = whole + data, now
            if (whole.count(b"data: {") != self.chunks or
                    b"[DONE]" not in whole or b" 200 " not in whole[:20]):
                raise ValueError(whole[-200:])
        finally:
            writer.close()

    async def user(self):
        while not self.ending:
            try:
                await self.stream()
                self.good += 1
            except (OSError, ValueError, asyncio.TimeoutError) as e:
                self.failed += 1
                self.why.append(repr(e))

    async def run(self):
        await asyncio.gather(*(self.user() for _ in range(self.users)))

    def done(self, limit_s=60):
        self.ending = True
        self.thread.join(limit_s)
        return not self.thread.is_alive()

    def gap_ms(self, p):
        return percentile(self.gaps, p) * 1e3
