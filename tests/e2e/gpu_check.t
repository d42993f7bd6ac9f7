#!/usr/bin/env python3
"""tests/gpu/check.py judged without a GPU: fed a run that is right, then runs
that are wrong in one way each.

This file plays the program and the agent too, when check.py starts it with
their arguments: it prints the steps and fills a ring.
"""
# time limit: 600 s
import concurrent.futures
import ctypes
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import ring as R  # noqa: E402

CHECK = os.path.join(ROOT, "tests/gpu/check.py")
PROGRAM = os.path.join(ROOT, "tests/gpu/moe_steps.cu")
LAYERS, TOKENS, PADDED, K, EXPERTS = 24, 13, 16, 8, 128
FAULT = "GPU_CHECK_FAULT"
STEP_NS, PAUSE_NS = 1000000, 100000
CAPACITY = 4096

# What goes wrong, and the one line of each run that must say so.
FAULTS = [
    ("rows", ["sampled rows equal", "exact: rows equal",
              "sampled rows equal"]),
    ("no_copies", ["a captured graph takes copies"]),
    ("few", ["nine steps in ten have the rows"]),
    ("one_row", ["graph (records name"]),
    ("clock", ["sampled rows equal", "exact: rows equal",
               "sampled rows equal"]),
    ("bad_step", ["24 layers in every step"] * 2),
    ("no_kernels", ["every window brings kernel records"] * 2 +
     ["kernel records of the graph come"]),
    ("map", ["a node callback comes inside"]),
    ("layers", ["routing launches are found"]),
    ("padding", ["graph launches map to the graph"]),
    ("disabled", ["the agent is content"]),
    ("slow", ["outside windows a step costs"]),
    ("late_rows", ["no rows are claimed"]),
    ("slow_asleep", ["after a detach a step costs"]),
    ("no_stub", ["detach: CUPTI is left", "4 times detached"]),
    ("no_new_kernels", ["kernel records of the new graph", "4 times"]),
    ("thrice", ["with a live graph: 3 times, disabled fatal"]),
    ("leak", ["GPU memory does not grow"]),
]

NEVER = ("no_stub", "thrice")
TOLD = ("slow_asleep", "no_stub", "no_new_kernels", "thrice", "leak")

number, failed = 0, 0


def check(good, text, detail=""):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {text}")
    if not good and detail:
        print("# " + detail.replace("\n", "\n# "))
    sys.stdout.flush()


# ---- the program and the agent -------------------------------------------

def experts(step, layer, token):
    h = (step * 2654435761 ^ layer * 40503 ^ token * 2246822519) % 2 ** 32
    return [((h >> 7) + 17 * j) % EXPERTS for j in range(K)]


def sums(step, layers):
    rows = active = single = 0
    for layer in layers:
        ids = [e for t in range(TOKENS) for e in experts(step, layer, t)]
        rows += len(ids)
        active += len(set(ids))
        single += sum(ids.count(e) == 1 for e in set(ids))
    return rows, active, single


def record(kind, **values):
    fmt, names = R.FORMATS[kind]
    order = names.split()
    assert set(values) <= set(order), values
    blank = {name: 0 for name in order}
    blank.update({n: b"" for n in ("name", "text") if n in blank})
    blank.update(values)
    raw = struct.pack("=IIQ", kind, 0, R.now_ns())
    return (raw + struct.pack(fmt, *blank.values())).ljust(R.RECORD, b"\0")


def step_times(count, windows, fault):
    """(number, start, end); slower in windows, and outside if so told"""
    now, out = R.now_ns(), []
    for i in range(1, count + 1):
        inside = any(a <= i < b for a, b in windows)
        length = STEP_NS * (120 if inside else 105 if fault == "slow" else 100)
        out.append((i, now, now + length // 100))
        now += length // 100 + PAUSE_NS
    return out


def window_records(mode, n, steps, fault):
    first, last = steps[0], steps[-1]
    start, end = first[1] - 1, last[2] + 1
    count = len(steps)
    kernels = 0 if fault == "no_kernels" else count * (LAYERS * 8 + 2)
    out = []
    exact = os.environ.get("MOETOP_ROWS") == "2"
    for i, s in enumerate(steps[::10] if mode != "late" else []):
        layers = range(LAYERS - (fault == "few")) if exact \
            else [i % LAYERS, (7 * i + 3) % LAYERS]
        rows, active, single = sums(s[0], set(layers))
        wrong = fault == "rows" or \
            (fault == "one_row" and mode == "graph" and n == 2 and i == 3
             and not exact)
        out.append(record(
            R.STEP_ROWS, window=n, cells=len(set(layers)),
            start_ns=s[1] + 20000 + (STEP_NS * 13 // 10
                                     if fault == "clock" else 0),
            mask0=sum(1 << x for x in set(layers)), rows=rows,
            active=active + wrong, single=single - wrong))
    if mode != "late" or fault == "late_rows":
        out.append(record(R.ROWS, window=n, cells=1, experts=EXPERTS,
                          rows=TOKENS * K))
    out.append(record(R.WINDOW, window=n, decode_steps=count,
                      layers_seen=LAYERS, start_ns=start, end_ns=end,
                      bad_steps=fault == "bad_step" and mode != "late",
                      kernels=kernels))
    return out


def ring_fill(records):
    fd = os.memfd_create("moetop-ring")
    os.ftruncate(fd, R.HEADER + CAPACITY * R.RECORD)
    ring = R.mmap.mmap(fd, R.HEADER + CAPACITY * R.RECORD)
    struct.pack_into("=4I", ring, 8, 1, 1, R.RECORD, CAPACITY)
    for i, raw in enumerate(records):
        at = R.HEADER + i * R.RECORD
        ring[at:at + R.RECORD] = raw
    struct.pack_into("=Q", ring, R.HEAD, len(records))
    struct.pack_into("=Q", ring, 0, R.MAGIC)
    end = time.monotonic() + 100
    while time.monotonic() < end and \
            struct.unpack_from("=Q", ring, R.TAIL)[0] < len(records):
        time.sleep(0.005)


def agent_records(mode, steps, windows, fault):
    graphs = mode != "eager"
    out = [record(R.STATUS, state=5 if fault == "disabled" and graphs and
                  mode != "late" else 2, reason=5, graphs=int(graphs),
                  graph_nodes=7 if fault == "map" else LAYERS * 8 + 2,
                  moe_layers=LAYERS - (fault == "layers"))]
    for n, (a, b) in enumerate(windows):
        out += window_records(mode, n + 1, steps[a - 1:b - 1], fault)
    if os.environ.get("MOETOP_ROWS") == "2" and fault != "no_copies":
        out.insert(1, record(R.TEXT, text=b"rows: exact; 24 layers"))
    out.insert(1, record(R.TICK, decode_steps=len(steps), padded_tokens=(
        PADDED - (fault == "padding")) * len(steps)))
    return out


class Player:
    """The program and the agent of the mode "told", in real time."""

    def __init__(self, fault):
        self.fault, self.captured, self.lives, self.windows = fault, 0, 1, 0
        self.window_ns = R.now_ns()
        fd = os.memfd_create("moetop-ring")
        os.ftruncate(fd, R.HEADER + CAPACITY * R.RECORD)
        self.ring = R.mmap.mmap(fd, R.HEADER + CAPACITY * R.RECORD)
        struct.pack_into("=4I", self.ring, 8, 1, 1, R.RECORD, CAPACITY)
        self.state("idle")
        struct.pack_into("=Q", self.ring, 0, R.MAGIC)

    def get(self, at, fmt="=I"):
        return struct.unpack_from(fmt, self.ring, at)[0]

    def state(self, name, reason="none"):
        struct.pack_into("=4I", self.ring, R.STATE, R.STATES.index(name),
                         R.REASONS.index(reason), self.lives, 0)

    def is_(self, name):
        return R.STATES[self.get(R.STATE)] == name

    def window(self):
        self.windows += 1
        self.window_ns = now = R.now_ns()
        head = self.get(R.HEAD, "=Q")
        at = R.HEADER + head % CAPACITY * R.RECORD
        kernels = 0 if self.fault == "no_new_kernels" and self.captured \
            else 1000
        self.ring[at:at + R.RECORD] = record(
            R.WINDOW, window=self.windows, layers_seen=LAYERS,
            start_ns=now, end_ns=now, decode_steps=5, kernels=kernels)
        struct.pack_into("=Q", self.ring, R.HEAD, head + 1)

    def agent(self):
        detach = self.get(R.CONTROL + 24)
        if detach and not self.is_("stub") and self.fault != "no_stub":
            self.state("stub")
        elif not detach and self.is_("stub"):
            self.lives += 1
            if self.fault == "thrice" and self.lives > 5:
                self.state("disabled", "fatal")
            else:
                self.state("idle")
        elif self.is_("idle") and R.now_ns() - self.window_ns > 2e7:
            self.window()

    def program(self):
        line = sys.stdin.readline().strip() \
            if select.select([sys.stdin], [], [], 0.001)[0] else ""
        if line == "capture":
            self.captured += 1
            print("captured")
        elif line == "memory":
            used = 2 ** 25 * self.lives if self.fault == "leak" else 0
            print("memory", 2 ** 36 - used)
        return line != "quit"

    def run(self):
        go, n = True, 0
        while go:
            n += 1
            now = R.now_ns()
            slow = self.fault == "slow_asleep" and self.is_("stub")
            print("step", n, now, now + STEP_NS * (105 if slow else 100) // 100)
            self.agent()
            go = self.program()
            sys.stdout.flush()
        print("steps", n, STEP_NS)


def play(mode, count):
    fault = os.environ[FAULT]
    if mode == "told":
        if fault == "no_agent":
            return 0
        Player(fault).run()
        return 0
    agent = mode == "late" or "CUDA_INJECTION64_PATH" in os.environ
    if fault == "crash" and mode == "eager":
        sys.exit("cudaErrorLaunchFailure")
    windows = [(500, 900), (1200, 1600), (2000, 2400)] if agent else []
    steps = step_times(count, windows, fault if agent else "")
    print("ready", os.getpid())
    if agent and fault != "no_agent":
        ring_fill(agent_records(mode, steps, windows, fault))
    for step in steps:
        print("step", *step)
    print("steps", count, STEP_NS)


# ---- the tests -------------------------------------------------------------

def run_check(fault, cycles=4):
    # how long to wait for what one of these runs never does
    patience = "3" if fault in NEVER else "30"
    env = dict(os.environ, GPU_CHECK_CYCLES=str(cycles),
               GPU_CHECK_SLEEP_S=patience)
    env[FAULT] = fault
    p = subprocess.run([sys.executable, CHECK, "/agent.so", __file__], env=env,
                       capture_output=True, text=True, timeout=500)
    lines = p.stdout.splitlines()
    return p.returncode, [s for s in lines if s.startswith("FAIL")], \
        p.stdout + p.stderr


def test_good():
    rc, fails, text = run_check("")
    check(rc == 0 and not fails, "a run that is right: no FAIL, exit 0", text)
    lines = text.splitlines()
    check(len(lines) > 20 and all(re.match(r"(ok|skip)  ?\s*\d+ \w", s)
                                  for s in lines),
          "one line each: a state, the number of the assumption, the finding",
          text)
    check("step 1000.0 us without agent, 1000.0 outside windows, 1200.0 "
          "inside" in text, "times of steps are told apart by window", text)


def test_faults():
    def run(case):
        return run_check(case[0], 4 if case[0] in TOLD else 0)

    # A run mostly sleeps.
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        runs = list(pool.map(run, FAULTS))
    for (fault, want), (rc, fails, text) in zip(FAULTS, runs):
        check(rc == 1 and len(fails) == len(want) and
              all(w in s for w, s in zip(want, fails)),
              f"{fault}: found, and nothing else", text)


def test_no_run():
    rc, fails, text = run_check("crash")
    check(rc == 1 and "Traceback" not in text
          and any("eager: the program runs to its end" in s for s in fails),
          "a program that dies is a FAIL and no crash", text)
    rc, fails, text = run_check("no_agent")
    check(rc == 1 and "Traceback" not in text
          and sum("the agent is in the process" in s for s in fails) == 5,
          "a process without the agent is a FAIL and no crash", text)


def test_truth():
    """The experts of check.py, and of this file, are those of the program."""
    with open(PROGRAM) as f:
        body = re.search(r"__device__ (static int expert\(.*?\n}\n)", f.read(),
                         re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        source, library = f"{folder}/e.c", f"{folder}/e.so"
        with open(source, "w") as f:
            f.write("#include <stdint.h>\nenum { EXPERTS = %d };\n" % EXPERTS
                    + body.replace("static ", "", 1))
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o",
                        library, source], check=True)
        expert = ctypes.CDLL(library).expert
        sys.path.insert(0, os.path.dirname(CHECK))
        import check as judge
        good = all([expert(ctypes.c_uint32(s), n, t, j) for j in range(K)]
                   == judge.experts(s, n, t) == experts(s, n, t)
                   for s in (1, 2, 77, 5999, 2 ** 31)
                   for n in range(LAYERS) for t in range(TOKENS))
        distinct = all(len(set(judge.experts(s, n, 5))) == K
                       for s in range(1, 50) for n in range(LAYERS))
    check(good, "check.py draws the experts that the program draws")
    check(distinct, "no expert comes twice in a token")


def main():
    test_good()
    test_faults()
    test_no_run()
    test_truth()
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(play(sys.argv[1], int(sys.argv[2])))
    sys.exit(main())
