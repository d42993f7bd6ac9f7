#!/usr/bin/env python3
"""The agent beside every kind of CUPTI that the simulation can play.

Layer times and steps must agree with the server's truth whatever the release,
also one that is newer than the agent; records of a layout that no release has
must be found out before any number is made of them.  And beside every real
libcupti that is here (make deps, make abi-check), without a driver, it must say
so and touch nothing: some of them crash at any call then.
"""
import glob
import os
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
T = SourceFileLoader("agent_truth",
                     os.path.join(HERE, "agent_truth.t")).load_module()
LIFE = SourceFileLoader("agent_life",
                        os.path.join(HERE, "agent_life.t")).load_module()
L, R, check = T.L, T.R, T.check

# toolkit, its driver if that is another, cuptiGetVersion
RELEASES = [
    ("11.8", "", 18),
    ("12.4", "", 22),
    ("13.0", "", 130001),
    ("13.4", "", 130401),
    ("13.4", "13.0", 130401),
    ("14.0", "", 140000),
]
LIMIT = 0.02


def check_times(name, records, truth):
    """Layer times of the windows whose steps the truth log shows at their
    edges: one window may begin or end too close to a step's beginning."""
    windows = L.windows_of(records)
    errors = []
    for w in windows:
        got = L.layer_means(records, w)
        runs = L.runs_inside(w, truth, False)
        if runs:
            errors.append(max(min((L.worst_errors(got, r) for r in runs),
                                  key=max)))
    check(len(errors) >= max(2, len(windows) - 1) and max(errors) < LIMIT,
          f"{name}: layer times within 2 % in {len(errors)} windows "
          f"(worst {100 * max(errors, default=9):.2f} %)",
          f"{len(windows)} windows")


def play(toolkit, driver="", fault=""):
    for name, value in (("CUPTI", toolkit), ("DRIVER", driver),
                        ("FAULT", fault)):
        os.environ.pop("MOETOP_SIM_" + name, None)
        if value:
            os.environ["MOETOP_SIM_" + name] = value


def check_release(toolkit, driver, version):
    play(toolkit, driver)
    name = f"CUPTI {toolkit}" + (f", driver {driver}" if driver else "")
    records, truth = L.run("qwen3-30b", 8, [], 3, T.sampled)
    status = [r for r in records if r.type == R.STATUS]
    texts = [r.text for r in records if r.type == R.TEXT]
    check(status and status[-1].cupti == version and
          R.REASONS[status[-1].reason] == "none",
          f"{name}: works and says its version", f"{texts}")
    check(any("newer than this agent" in t for t in texts) ==
          (toolkit == "14.0"), f"{name}: says if it is newer", f"{texts}")
    check(any("other profilers may" in t for t in texts) ==
          (version >= 130300 and not driver),
          f"{name}: shares CUPTI where it can", f"{texts}")
    check_times(name, records, truth)
    T.check_steps(name, records, truth)
    T.check_rows(name, records, truth)


def check_no_clones():
    play("13.0", fault="no_clones")
    name = "nodes copied without a word"
    records, truth = L.run("qwen3-30b", 8, [], 3, T.sampled)
    check_times(name, records, truth)
    T.check_rows(name, records, truth)
    T.check_experts(name, records)


def check_strange():
    play("14.0", fault="strange_records")
    name = "records of no known layout"
    records, _ = L.run("qwen3-30b", 8, [], 1)
    status = [r for r in records if r.type == R.STATUS]
    check(status and R.STATES[status[-1].state] == "disabled" and
          R.REASONS[status[-1].reason] == "bad_records",
          f"{name}: stop the windows, and say why",
          f"{[(s.state, s.reason) for s in status]}")
    check(not any(r.type in (R.LAYER, R.ROWS, R.STEP_ROWS)
                  for r in records),
          f"{name}: give no number")


# A process with CUDA that is a client of CUPTI itself, by the older calls (v1)
# or the newer (v2), before or after the agent is.
CLIENT = """
import ctypes, sys
from ctypes import byref, c_void_p, c_char_p, c_size_t, c_uint8
lib, agent = sys.argv[1:]
cuda = ctypes.CDLL(lib + "/libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
cupti = ctypes.CDLL(lib + "/libcupti.so.13")
assert cuda.cuInit(0) == 0
nothing = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, ctypes.c_uint32,
                           c_void_p)(lambda *a: None)
handle = c_void_p()

class Params(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("old", c_void_p),
                ("old_bytes", c_size_t), ("many", c_uint8),
                ("pad", c_uint8 * 7)]

def v1():
    return cupti.cuptiSubscribe(byref(handle), nothing, None)

def v2():
    p = Params(40, b"kineto", None, 0, 1)
    return cupti.cuptiSubscribe_v2(byref(handle), nothing, None, byref(p))

def enable():
    return cupti.cuptiActivityEnable_v2(handle, 10, None)

def leave():
    return cupti.cuptiUnsubscribe(handle)

def start():
    return ctypes.CDLL(agent).InitializeInjection()

for line in sys.stdin:
    print(globals()[line.strip()](), flush=True)
"""


class Client:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, f"{L.O}/sim/lib", LIFE.AGENT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)


def becomes(ring, state, deadline_s=90):
    end = time.monotonic() + deadline_s
    while ring.state != state and time.monotonic() < end:
        ring.beat()
        ring.read()
        time.sleep(0.02)
    return ring.state == state


def check_newer_clients():
    play("13.4")
    name = "a client of the newer kind"
    with Client() as c:
        check(c.ask("v2") == 0 and c.ask("start") == 1,
              f"{name}: is there before the agent")
        ring = R.attach(c.process.pid)
        check(becomes(ring, "idle"), f"{name}: the agent works beside it",
              ring.state)
        ring.close(True)
        check(becomes(ring, "stub"), f"{name}: the agent leaves", ring.state)
        check(c.ask("enable") == 0, f"{name}: still has CUPTI then")
    with Client() as c:
        c.ask("start")
        ring = R.attach(c.process.pid)
        becomes(ring, "idle")
        check(c.ask("v1") == 39, f"{name}: one of the older is kept out")
        check(c.ask("v2") == 0 and c.ask("enable") == 0,
              f"{name}: may come after the agent")
        check(ring.state == "idle", f"{name}: does not disturb it", ring.state)


def check_older_client():
    play("13.4")
    name = "a client of the older kind"
    with Client() as c:
        check(c.ask("v1") == 0 and c.ask("start") == 1,
              f"{name}: is there before the agent")
        ring = R.attach(c.process.pid)
        check(becomes(ring, "yielded"), f"{name}: the agent yields to it",
              ring.state)
        check(c.ask("leave") == 0 and becomes(ring, "idle"),
              f"{name}: the agent works once it has left", ring.state)


def second_life(records):
    """It gives a window with steps."""
    at = [i for i, r in enumerate(records)
          if r.type == R.TEXT and "CUPTI life 2" in r.text]
    return at and any(r.type == R.WINDOW and r.decode_steps
                      for r in records[at[0]:])


def check_lives():
    play("13.4")
    os.environ["MOETOP_RECORD_CAP"] = "20000"
    name = "a CUPTI of several clients"
    records, _ = L.run("qwen3-30b", 8, [], 2, second_life)
    del os.environ["MOETOP_RECORD_CAP"]
    texts = [r.text for r in records if r.type == R.TEXT]
    check(any("CUPTI life 2" in t for t in texts),
          f"{name}: is taken down and started again when it is ours alone",
          f"{texts}")
    check(second_life(records),
          f"{name}: gives records in its second life")


def check_silent():
    """No flush is forced beside others, and then none brings a buffer."""
    play("13.4", fault="starve")
    name = "a CUPTI that gives no records"
    with LIFE.Server() as server:
        ring = R.attach(server.pid)
        records = R.collect(ring, lambda r: any(
            x.type == R.TEXT and "not one kernel record" in x.text
            for x in r), 90)
    texts = [r.text for r in records if r.type == R.TEXT]
    check(any("not one kernel record" in t for t in texts),
          f"{name}: is said", f"{texts}")
    check(not any(r.type in (R.LAYER, R.ROWS) for r in records),
          f"{name}: gives no number")


def check_late():
    """Prompts so long that their kernels are still queued when a window has
    waited long enough for them."""
    play("13.4")
    name = "records that come after their window"
    with LIFE.Server("--model", f"{L.MODELS}/qwen3-235b.json", "--gpu", "A100",
                     "--users", "32", "--prompt-tokens", "30000",
                     "--max-num-batched-tokens", "65536",
                     "--output-tokens", "20", "--eager") as server:
        ring = R.attach(server.pid)
        records = R.collect(ring, lambda r: any(
            x.type == R.TEXT and "came after its end" in x.text
            for x in r) and r[-1].type == R.TICK, 90)
    late = sum(int(r.text.split()[2]) for r in records
               if r.type == R.TEXT and "came after its end" in r.text)
    dropped = max((r.records_dropped for r in records if r.type == R.TICK),
                  default=0)
    check(late > 0, f"{name}: are said",
          [r.text for r in records if r.type == R.TEXT])
    check(dropped >= late, f"{name}: are counted", (dropped, late))


def check_real():
    play("13.0")
    paths = [p for folder in ("abi/*/lib", "cupti/lib")
             for p in sorted(glob.glob(f"{L.O}/{folder}/libcupti.so.1[0-9]*"))]
    paths = paths or [p for p in [LIFE.real_cupti()] if p]
    name = "real CUPTI without a driver"
    if not paths or os.path.exists("/dev/nvidia0"):
        check(True, f"{name} # SKIP " +
              ("this machine has a GPU" if paths else "there is none here"))
        return
    LIFE.check = check
    for path in paths:
        short = "/".join(path.split("/")[-3:])
        with LIFE.Host(path) as host:
            LIFE.expect_disabled(short, host, "no_driver")
        check(host.process.returncode == 0,
              f"{short}: the process goes on and ends well",
              host.process.returncode)


def main():
    for release in RELEASES:
        check_release(*release)
    check_no_clones()
    check_strange()
    check_newer_clients()
    check_older_client()
    check_lives()
    check_silent()
    check_late()
    check_real()
    T.tap.end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
