#!/usr/bin/env python3
"""The agent falls asleep and rises: what it gives back, what it still knows, and
that its host notices nothing, whatever it is doing meanwhile.
"""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ring as R  # noqa: E402
from host import (ACTIVE, AGENT, LAYERS, O, ROWS, SINGLE, Host, counts,  # noqa
                  rings, status_kb)
from tap import check, end, wait  # noqa: E402

SOON_S = 90  # a deadline of what a busy machine may delay
# The most that docs/OVERHEAD.md states, MB more than without the agent.
IDLE_MB, WINDOW_MB, STUB_MB = 28, 131, 12


def windows(records):
    return [r for r in records if r.type == R.WINDOW]


def rows(records):
    return [r for r in records if r.type == R.ROWS]


def collect_windows(ring, n):
    return R.collect(ring, lambda r: len(windows(r)) >= n, SOON_S)


def sleep(ring):
    ring.close(detach=True)
    return wait(lambda: ring.state == "stub")


def rise(ring):
    ring.open()

    def up():
        ring.beat()
        return ring.state in ("idle", "window")
    return wait(up)


def exact(records):
    """Layers and rows are those of agent_host.c."""
    last = windows(records)[-1]
    return last.layers_seen == LAYERS and last.bad_steps == 0 and rows(
        records) and all((r.rows, r.active, r.single) ==
                         (r.cells * ROWS, r.cells * ACTIVE, r.cells * SINGLE)
                         for r in rows(records))


def attached(host, *before):
    host.do("init", *before, f"inject {AGENT}")
    ring = R.attach(host.pid)
    assert wait(lambda: ring.state == "idle"), ring.state
    return ring


def settled(pid):
    """What it has, once that has not changed for a quarter of a second: threads
    end a moment after the fall."""
    last, same = None, 0
    while same < 5:
        now = counts(pid)
        same = same + 1 if now == last else 0
        last = now
        time.sleep(.05)
    return last


def test_before_cuda():
    """A plugin loads the agent long before CUDA starts, and then forks."""
    with Host(CUDA_INJECTION64_PATH=AGENT) as host:
        host.do(f"inject {AGENT}")
        mine = R.attach(host.pid)
        check("before CUDA starts, the agent waits",
              not wait(lambda: mine.state != "starting", 0.5), mine.state)
        child = int(host.ask("fork").split()[1])
        check("fork's child has no ring of its parent's", rings(child) == 0)
        host.process.stdout.readline()  # the child's own answer
        host.do("init", "capture")
        ring = R.attach(child)
        check("CUDA starts in the child: it has an agent of its own",
              wait(lambda: ring.state == "idle") and not ring.late,
              ring.state)
        host.do("run")
        records = collect_windows(ring, 2)
        check("which sees all: layers and rows are exact", exact(records))
        check("the parent's still waits", mine.state == "starting")
        host.process.stdin.write("quit\n")
        host.process.stdin.flush()
        check("the child ends well",
              host.process.stdout.readline() == "child ended with 0\n")
        host.do("init")
        check("CUDA starts in the parent: its agent follows",
              wait(lambda: mine.state == "idle") and not mine.late,
              mine.state)
        code, watch = host.quit()
        check("and it ends well, at once", code == 0 and watch.within(1),
              (code, watch.seconds()))


def test_forks_at_work():
    """Children of a server in a window end as if there were no agent."""
    with Host(CUDA_INJECTION64_PATH=AGENT, MOETOP_WINDOW_MS="5000") as host:
        host.do("init", "capture", "run")
        ring = R.attach(host.pid)
        R.collect(ring, lambda r: ring.state == "window", SOON_S)
        ends, held = [], []
        for _ in range(10):
            child = int(host.ask("fork").split()[1])
            host.process.stdout.readline()
            held.append(rings(child))
            host.process.stdin.write("quit\n")
            host.process.stdin.flush()
            ends.append(host.process.stdout.readline())
            ring.beat()
        check("children of a server in a window hold no ring, and end well",
              not any(held) and set(ends) == {"child ended with 0\n"},
              (held, ends))
        check("the server goes on", host.ask("stop") == "ok")


def test_knowledge():
    with Host(CUDA_INJECTION64_PATH=AGENT) as host:
        host.do("init", "capture", "run")
        ring = R.attach(host.pid)
        check("there before the capture: rows are exact",
              exact(collect_windows(ring, 2)) and not ring.late)
        check("it falls asleep", sleep(ring), ring.state)
        check("a collector wakes it", rise(ring) and ring.lives == 2)
        check("what it saw at the capture still holds: rows are exact",
              exact(collect_windows(ring, 2)) and not ring.late)
        sleep(ring)
        host.do("stop", "capture", "run")
        rise(ring)
        records = collect_windows(ring, 2)
        last = windows(records)[-1]
        check("a graph that was captured in its sleep: layers are known",
              last.layers_seen == LAYERS and last.decode_steps > 0)
        check("it says that it came late, and claims no rows",
              ring.late and not rows(records), len(rows(records)))
        host.do("stop", "capture", "run")
        ring.control("wish", 1)
        records = R.collect(ring, lambda r: bool(rows(r)) and
                            bool(windows(r)), SOON_S)
        check("one that is captured now: rows are exact", exact(records))
        host.do("stop")


def test_late():
    with Host() as host:
        ring = attached(host, "capture", "replay 5")
        check("injected after CUDA has started: it says so", ring.late)
        host.do("run")
        records = collect_windows(ring, 2)
        check("kernel records come, layers are known, no rows are claimed",
              windows(records)[-1].layers_seen == LAYERS
              and windows(records)[-1].kernels > 0 and not rows(records))
        host.do("stop")


def test_capture():
    """Taking CUPTI down waits for the device, which would spoil a capture."""
    with Host() as host:
        ring = attached(host, "capture")
        host.do("hold")
        ring.close(detach=True)
        check("while the host captures, it waits",
              not wait(lambda: ring.state == "stub", 1)
              and ring.state == "detaching", ring.state)
        check("the capture is whole", host.ask("release") == "ok")
        check("then it falls asleep", wait(lambda: ring.state == "stub"),
              ring.state)
        check("and the host goes on", host.ask("replay 3") == "ok")


def test_memory():
    with Host() as host:
        host.do("init", "capture", "replay 50")
        before = status_kb(host.pid, "VmRSS")
        at_first = counts(host.pid)

        def mb():
            return (status_kb(host.pid, "VmRSS") - before) / 1024

        host.do(f"inject {AGENT}")
        ring = R.attach(host.pid)
        wait(lambda: ring.state == "idle")
        check(f"idle: less than {IDLE_MB} MB", mb() < IDLE_MB, mb())
        host.do("run")
        collect_windows(ring, 3)
        check(f"after windows: less than {WINDOW_MB} MB", mb() < WINDOW_MB,
              mb())
        sleep(ring)
        check(f"asleep: less than {STUB_MB} MB", mb() < STUB_MB, mb())

        def left():
            now = counts(host.pid)
            return now[0] == at_first[0] + 1 and now[2] <= at_first[2] + 2
        check("asleep: one descriptor and one thread, and CUPTI's own",
              wait(left), (at_first, counts(host.pid)))


def test_cycles(n=60):
    """Life after life, in a host at work."""
    with Host() as host:
        ring = attached(host, "capture", "run")
        sleep(ring)
        for i in range(n):
            if not rise(ring):
                break
            if i % 20 == 5:
                collect_windows(ring, 1)
            if not sleep(ring):
                break
            if i == 9:
                early = settled(host.pid), status_kb(host.pid, "VmRSS")
        late = settled(host.pid), status_kb(host.pid, "VmRSS")
        check(f"{n} lives: it rises and sleeps every time",
              ring.state == "stub" and ring.lives == n + 1,
              (ring.state, ring.lives))
        check("descriptors, mappings and threads as after the tenth",
              early[0] == late[0], (early, late))
        check("memory as after the tenth", late[1] - early[1] < 3000,
              (early, late))
        check("no step failed", host.ask("stop") == "ok")
        code, watch = host.quit()
        check("exit does not wait for a sleeper", code == 0 and
              watch.within(0.5), (code, watch.seconds()))


def test_leaving_at_exit():
    for delay in (0, 0.05, 0.3):
        with Host() as host:
            ring = attached(host, "capture", "run")
            collect_windows(ring, 1)
            ring.close(detach=True)
            time.sleep(delay)
            code, watch = host.quit()
            check(f"exit {delay} s after a detach: well, and at once",
                  code == 0 and watch.within(1), (code, watch.seconds()))


def test_collector_gone():
    with Host(MOETOP_GONE_MS="2000", CUDA_INJECTION64_PATH=AGENT) as host:
        host.do("init", "capture")
        ring = R.Ring(host.pid)
        check("there from the start and never watched: it stays awake",
              not wait(lambda: ring.state != "idle", 4), ring.state)
        ring.open()
        check("watched once, then left: it falls asleep",
              wait(lambda: ring.state == "stub"), ring.state)
    with Host(MOETOP_GONE_MS="2000") as host:
        host.do("init", "capture", f"inject {AGENT}")
        ring = R.Ring(host.pid)
        check("injected, and nobody comes: it falls asleep",
              wait(lambda: ring.state == "stub"), ring.state)


def test_signals():
    """Nothing of the agent's takes a signal that was meant for the host."""
    with Host() as host:
        ring = attached(host, "capture", "run")
        sleep(ring)
        blocked = []
        for task in os.listdir(f"/proc/{host.pid}/task"):
            with open(f"/proc/{host.pid}/task/{task}/status") as f:
                text = dict(line.split(":\t", 1) for line in f)
            if text["Name"].startswith("moetop"):
                blocked.append(int(text["SigBlk"], 16))
        check("its thread blocks all signals", blocked and all(
            b >> (signal.SIGUSR1 - 1) & 1 and b >> (signal.SIGTERM - 1) & 1
            for b in blocked), blocked)
        host.do("stop")


def main():
    for test in (test_before_cuda, test_forks_at_work, test_knowledge,
                 test_late, test_capture, test_memory, test_cycles,
                 test_leaving_at_exit, test_collector_gone, test_signals):
        test()
    end()


if __name__ == "__main__":
    if not os.path.exists(f"{O}/sim/lib/libcupti.so.13"):
        print("1..0 # SKIP no simulated GPU in", O)
        sys.exit(0)
    main()
