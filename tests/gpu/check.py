"""check.py - the assumptions about CUPTI, one line each (see check.sh)

check.py AGENT PROGRAM [MOETOP CUDA], where PROGRAM is moe_steps.cu, built, and
CUDA the folder of the toolkit; without them the counters are not sampled.
"""
import bisect
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import ring as R  # noqa: E402

sys.path.insert(0, HERE)
import counters  # noqa: E402

LAYERS, TOKENS, PADDED, K, EXPERTS = 24, 13, 16, 8, 128
EDGE_NS = 100000000  # around a window: recording is turned on, or drained
WARM_STEPS = 100
START_S, RUN_S = 60, 120
CYCLES = int(os.environ.get("GPU_CHECK_CYCLES", 100))
SLEEP_S = float(os.environ.get("GPU_CHECK_SLEEP_S", 15))
GROWTH_MB, ASLEEP_S = 64, 1
failed = 0


def say(state, item, text):
    global failed
    failed += state == "FAIL"
    print(f"{state:<4} {item} {text}", flush=True)


def check(good, item, text, detail=""):
    say("ok" if good else "FAIL", item,
        text + (f": {detail}" if detail and not good else ""))


def experts(step, layer, token):
    h = (step * 2654435761 ^ layer * 40503 ^ token * 2246822519) & 0xFFFFFFFF
    return [((h >> 7) + 17 * j & 0xFFFFFFFF) % EXPERTS for j in range(K)]


def truth(step, layer):
    """rows, active, single of one layer, as moe_steps.cu drew them"""
    counts = [0] * EXPERTS
    for token in range(TOKENS):
        for e in experts(step, layer, token):
            counts[e] += 1
    return (TOKENS * K, sum(c > 0 for c in counts), counts.count(1))


class Run:
    """What the program printed, and what the agent said meanwhile."""

    def __init__(self, lines, records):
        words = [line.split() for line in lines]
        self.steps = [tuple(map(int, w[1:])) for w in words
                      if len(w) == 4 and w[0] == "step"]
        self.starts = [s[1] for s in self.steps]
        self.records = records

    def of(self, kind):
        return [r for r in self.records if r.type == kind]

    def step_at(self, ns):
        i = bisect.bisect_right(self.starts, ns) - 1
        if i >= 0 and ns <= self.steps[i][2]:
            return self.steps[i][0]
        return None

    def disabled(self):
        return [R.REASONS[r.reason] for r in self.of(R.STATUS)
                if R.STATES[r.state] == "disabled"]

    def step_ns(self, inside):
        """Mean time of the steps within windows, or far from any."""
        spans = [(w.start_ns, w.end_ns) for w in self.of(R.WINDOW)]
        if inside:
            times = [end - start for _, start, end in self.steps
                     if any(a <= start and end <= b for a, b in spans)]
        else:
            times = [end - start for _, start, end in self.steps[WARM_STEPS:]
                     if not any(start < b + EDGE_NS and a - EDGE_NS < end
                                for a, b in spans)]
        return sum(times) / len(times) if times else 0

    def mean_ns(self, begin, end):
        """Mean time of the steps between two times."""
        times = [b - a for _, a, b in self.steps if begin <= a and b <= end]
        return sum(times) / len(times) if times else 0

    def longest_opening_ns(self):
        """The longest step while recording was being turned on."""
        opens = [w.start_ns for w in self.of(R.WINDOW)]
        return max((end - start for _, start, end in self.steps[WARM_STEPS:]
                    if any(start < a and a - EDGE_NS < end for a in opens)),
                   default=0)


def attach(p):
    end = time.monotonic() + START_S
    while p.poll() is None and time.monotonic() < end:
        try:
            return R.Ring(p.pid).open()
        except (OSError, AssertionError, ValueError, struct.error):
            time.sleep(0.02)
    return None


def collect(p, windows):
    ring = attach(p)
    if not ring:
        return []
    ring.control("hint", TOKENS)

    def done(records):
        return p.poll() is not None or \
            sum(r.type == R.WINDOW for r in records) >= windows

    return R.collect(ring, done, RUN_S) + ring.read()


def run(mode, steps, with_agent, windows=3, **more):
    env = dict(os.environ, MOETOP_PERIOD_MS="1500", **more)
    env.pop("CUDA_INJECTION64_PATH", None)
    if with_agent and mode != "late":
        env["CUDA_INJECTION64_PATH"] = AGENT
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen([PROGRAM, mode, str(steps), AGENT], env=env,
                             stdout=out)
        records = collect(p, windows) if with_agent else []
        try:
            rc = p.wait(RUN_S)
        except subprocess.TimeoutExpired:
            p.kill()
            rc = p.wait()
        out.seek(0)
        result = Run(out, records)
    check(rc == 0 and len(result.steps) == steps, 22,
          f"{mode}{'' if with_agent else ', no agent'}: the program runs to "
          "its end", f"exit {rc} after {len(result.steps)} of {steps} steps")
    if with_agent:
        check(bool(records), 22, f"{mode}: the agent is in the process",
              "no ring, or nothing in it")
    return result


def rows_exact(run):
    """(sampled cells, wrong or unknown steps)"""
    cells, wrong = 0, []
    for r in run.of(R.STEP_ROWS):
        step = run.step_at(r.start_ns)
        layers = [n for n in range(LAYERS) if r.mask0 >> n & 1]
        cells += len(layers)
        want = [sum(x) for x in zip(*(truth(step or 0, n) for n in layers))]
        if step is None or want != [r.rows, r.active, r.single]:
            wrong.append((step, want, [r.rows, r.active, r.single]))
    return cells, wrong


def check_rows(run, item, name):
    cells, wrong = rows_exact(run)
    check(cells > 0 and not wrong, item,
          f"{name}: sampled rows equal the program's own ({cells} cells)",
          f"{len(wrong)} wrong, {wrong[:1]}")


def check_windows(run, item, name):
    windows = run.of(R.WINDOW)
    kernels = [w.kernels for w in windows]
    check(len(windows) >= 3 and all(kernels), item,
          f"{name}: every window brings kernel records, off and on again",
          f"{kernels} {run.disabled()}")
    check(windows and all(w.layers_seen == LAYERS and w.bad_steps == 0
                          for w in windows), item,
          f"{name}: {LAYERS} layers in every step",
          str([(w.layers_seen, w.bad_steps) for w in windows]))


def check_map(r):
    status = [s for s in r.of(R.STATUS) if s.graphs]
    check(status and status[-1].graph_nodes == LAYERS * 8 + 2, 29,
          "a node callback comes inside each captured launch",
          str([s.graph_nodes for s in status][-1:]))
    check(status and status[-1].moe_layers == LAYERS, 29,
          "routing launches are found among the captured ones",
          str([s.moe_layers for s in status][-1:]))
    ticks = r.of(R.TICK)
    check(ticks and ticks[-1].padded_tokens == PADDED * ticks[-1].decode_steps
          and ticks[-1].decode_steps, 29,
          "graph launches map to the graph that was captured")


def check_cost(bare, r):
    alone, outside = bare.step_ns(False), r.step_ns(False)
    say("ok", 23, f"step {alone / 1e3:.1f} us without agent, "
        f"{outside / 1e3:.1f} outside windows, {r.step_ns(True) / 1e3:.1f} "
        f"inside; longest at an opening {r.longest_opening_ns() / 1e3:.1f}")
    check(alone and outside and outside < 1.02 * alone, 23,
          "outside windows a step costs less than 2 % more",
          f"{outside / max(alone, 1):.3f}")


def graphs():
    bare = run("graph", 4000, False)
    r = run("graph", 6000, True)
    check(not r.disabled(), 22, "the agent is content with this CUPTI and "
          "driver", str(r.disabled()))
    check(bool(r.of(R.WINDOW)) and "bad_records" not in r.disabled(), 29,
          "kernel records have the known prefix")
    check_map(r)
    check_windows(r, 23, "graph")
    check_rows(r, 29, "graph (records name the executable graph's nodes)")
    check_cost(bare, r)
    return bare


def exact(bare):
    """Copies in the graph, placed at the exit of cuStreamEndCapture."""
    r = run("graph", 8000, True, 4, MOETOP_ROWS="2")
    texts = [t.text for t in r.of(R.TEXT) if "rows:" in t.text]
    check(any("rows: exact" in t for t in texts), 28,
          "exact: a captured graph takes copies, which say what its buffers "
          "say", str(texts))
    last = max((w.window for w in r.of(R.WINDOW)), default=0)
    cells = [s.cells for s in r.of(R.STEP_ROWS) if s.window == last]
    whole = sum(c == LAYERS for c in cells)
    check(cells and whole > 0.9 * len(cells), 28,
          "exact: nine steps in ten have the rows of all layers",
          f"{whole} of {len(cells)}")
    cells, wrong = rows_exact(r)
    check(cells > 0 and not wrong, 28,
          f"exact: rows equal the program's own ({cells} cells)",
          f"{len(wrong)} wrong, {wrong[:1]}")
    alone, ns = bare.step_ns(False), r.step_ns(False)
    say("ok", 28, f"exact: step {ns / 1e3:.1f} us with {LAYERS} copies in the "
        f"graph, {alone / 1e3:.1f} without agent: "
        f"{(ns - alone) / LAYERS / 1e3:.2f} us a copy")


def eager():
    r = run("eager", 3000, True)
    check_windows(r, 23, "eager")
    check_rows(r, 29, "eager (correlation ids without API records)")


def late():
    r = run("late", 6000, True)
    windows = r.of(R.WINDOW)
    check(windows and windows[-1].kernels > 0 and windows[-1].decode_steps > 0,
          25, "attached after the capture: kernel records of the graph come",
          str(r.disabled()))
    check(windows and not r.of(R.ROWS), 25,
          "attached after the capture: no rows are claimed")


class Told:
    """The program in the mode in which it does as it is told."""

    def __init__(self):
        env = dict(os.environ, MOETOP_PERIOD_MS="1500",
                   CUDA_INJECTION64_PATH=AGENT)
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [PROGRAM, "told", "100000000", AGENT], env=env,
            stdin=subprocess.PIPE, stdout=self.out, text=True)
        self.ring = attach(self.process)

    def alive(self):
        return self.process.poll() is None

    def lines(self):
        return os.pread(self.out.fileno(), os.fstat(
            self.out.fileno()).st_size, 0).decode().splitlines()

    def wait(self, condition, deadline_s=START_S):
        end = time.monotonic() + deadline_s
        while self.alive() and not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return self.alive()

    def tell(self, line, answer):
        """The words of the answer that comes; none if the program dies."""
        def answers():
            return [s for s in self.lines() if s.split()[:1] == [answer]]
        before = len(answers())
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            return []
        self.wait(lambda: len(answers()) > before)
        return (answers()[before:] or [""])[0].split()

    def free_mb(self):
        words = self.tell("memory", "memory")
        return int(words[1]) / 2 ** 20 if len(words) == 2 else 0

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return sum(int(line.split()[1]) / 1024 for line in f
                       if line.startswith("VmRSS"))

    def window(self):
        """The next one that has begun since; None if none comes."""
        now = R.now_ns()

        def begun(records):
            return [r for r in records
                    if r.type == R.WINDOW and r.start_ns > now]
        records = R.collect(self.ring, lambda r: bool(begun(r))
                            or not self.alive(), 30)
        return (begun(records) or [None])[0]

    def sleep(self):
        self.ring.close(detach=True)
        return self.wait(lambda: self.ring.state == "stub", SLEEP_S)

    def rise(self):
        self.ring.open()

        def up():
            self.ring.beat()
            return self.ring.state in ("idle", "window")
        return self.wait(up, SLEEP_S)

    def quit(self):
        self.tell("quit", "steps")
        try:
            return self.process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def check_sleep(t, bare_ns):
    start = time.monotonic()
    fell = t.sleep()
    say("ok" if fell else "FAIL", 25, "detach: CUPTI is left at the exit of a "
        f"call, {1e3 * (time.monotonic() - start):.0f} ms")
    begin = R.now_ns()
    t.wait(lambda: False, ASLEEP_S)
    ns = Run(t.lines(), []).mean_ns(begin, R.now_ns())
    check(ns and ns < 1.02 * bare_ns, 23,
          "after a detach a step costs less than 2 % more than before",
          f"{ns / 1e3:.1f} us, {bare_ns / 1e3:.1f} without agent")


def check_capture(t):
    captured = t.tell("capture", "captured")
    w = t.window() if captured and t.rise() else None
    check(w and w.kernels > 0 and w.layers_seen == LAYERS, 25,
          "attach, detach, capture, attach: kernel records of the new graph "
          "come", f"{w and (w.kernels, w.layers_seen)} {t.ring.state}")


def check_cycles(t):
    t.sleep()
    free, rss = t.free_mb(), t.rss_mb() if t.alive() else 0
    good = 0
    for i in range(CYCLES):
        if not t.rise():
            break
        if i % 25 == 1:
            w = t.window()
            if not w or not w.kernels:
                break
        if not t.sleep():
            break
        good += 1
    check(good == CYCLES, 25, f"{CYCLES} times detached and attached with a "
          "live graph", f"{good} times, {t.ring.state} {t.ring.reason}")
    grown = free - t.free_mb()
    check(t.alive() and grown < GROWTH_MB, 24, "GPU memory does not grow with "
          f"them: {grown:.0f} MB")
    grown = t.rss_mb() - rss if t.alive() else 0
    check(t.alive() and grown < GROWTH_MB, 24,
          f"nor does the host's: {grown:.0f} MB")


def lives(bare):
    t = Told()
    check(bool(t.ring), 22, "told: the agent is in the process")
    if t.ring:
        check(bool(t.rise() and t.window()), 25,
              "told: a window opens", t.ring.state)
        check_sleep(t, bare.step_ns(False))
        check_capture(t)
        check_cycles(t)
    rc = t.quit()
    check(rc == 0, 22, "told: the program runs to its end", f"exit {rc}")


def start_plain():
    """The program without an agent, until it is told to end."""
    env = dict(os.environ)
    env.pop("CUDA_INJECTION64_PATH", None)
    out = tempfile.TemporaryFile("w+")
    p = subprocess.Popen([PROGRAM, "told", "100000000", AGENT], env=env,
                         stdin=subprocess.PIPE, stdout=out, text=True)
    return p, out


def end_plain(started):
    p, out = started
    try:
        p.communicate("quit\n", timeout=RUN_S)
    except (subprocess.TimeoutExpired, BrokenPipeError):
        p.kill()
        p.wait()
    out.seek(0)
    return Run(out, []).steps


def sampled(bare):
    if len(sys.argv) < 5:
        say("skip", 26, "PM sampling: no moetop was named")
        return
    steps = counters.check(say, sys.argv[3], sys.argv[4],
                           (start_plain, end_plain))
    if not steps:
        return
    times = [b - a for _, a, b in steps[WARM_STEPS:]]
    alone, ns = bare.step_ns(False), sum(times) / max(len(times), 1)
    check(ns and ns < 1.02 * alone, 26, "a step costs less than 2 % more while "
          "counters are sampled", f"{ns / 1e3:.1f} us, {alone / 1e3:.1f} alone")


def main():
    bare = graphs()
    exact(bare)
    eager()
    late()
    if CYCLES:
        lives(bare)
    say("skip", 24, "25 million records: takes longer than this check")
    sampled(bare)
    say("skip", 27, "bytes of layers against ncu's: not here")
    say("skip", 28, "a million captures with copies: not here")
    say("skip", 30, "torch.profiler and DCGM beside the agent: not here")
    return failed > 0


if __name__ == "__main__":
    AGENT, PROGRAM = sys.argv[1:3]
    sys.exit(main())
