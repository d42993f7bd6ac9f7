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
import sys
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
    ("12.9", "", 28),
    ("13.0", "", 130001),
    ("13.4", "", 130401),
    ("13.4", "13.0", 130401),
    ("14.0", "", 140000),
]


def play(toolkit, driver="", fault=""):
    for name, value in (("CUPTI", toolkit), ("DRIVER", driver),
                        ("FAULT", fault)):
        os.environ.pop("MOETOP_SIM_" + name, None)
        if value:
            os.environ["MOETOP_SIM_" + name] = value


def check_release(toolkit, driver, version):
    play(toolkit, driver)
    name = f"CUPTI {toolkit}" + (f", driver {driver}" if driver else "")
    records, truth = L.run("qwen3-30b", 8, [], 3)
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
    T.check_times(name, records, truth)
    T.check_steps(name, records, truth)
    T.check_rows(name, records, truth)


def check_no_clones():
    play("13.0", fault="no_clones")
    name = "nodes copied without a word"
    records, truth = L.run("qwen3-30b", 8, [], 3)
    T.check_times(name, records, truth)
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


def check_real():
    play("13.0")
    paths = [p for folder in ("abi/*/lib", "cupti/lib")
             for p in sorted(glob.glob(f"{L.O}/{folder}/libcupti.so.1[0-9]*"))]
    name = "real CUPTI without a driver"
    if not paths or os.path.exists("/dev/nvidia0"):
        check(True, f"{name} # SKIP " +
              ("this machine has a GPU" if paths else "there is none here"))
        return
    LIFE.check = check
    for path in paths:
        with LIFE.Host(path) as host:
            LIFE.expect_disabled(path[len(L.O) + 1:], host, "no_driver")
        check(host.process.returncode == 0,
              f"{path[len(L.O) + 1:]}: the process goes on and ends well",
              host.process.returncode)


def main():
    for release in RELEASES:
        check_release(*release)
    check_no_clones()
    check_strange()
    check_real()
    T.tap.end()


if __name__ == "__main__":
    if not os.path.exists(f"{L.O}/sim/moetop-sim"):
        print("1..0 # SKIP no simulated server in", L.O)
        sys.exit(0)
    main()
