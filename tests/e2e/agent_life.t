#!/usr/bin/env python3
"""The agent's life: refusals with the real CUPTI, two calls, fork, detach,
a collector that dies, a profiler that was there first.
"""
import glob
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import ring as R  # noqa: E402
from layers import ANY_PRICE  # noqa: E402
from tap import Watch, wait  # noqa: E402

O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
AGENT = f"{O}/libmoetop-agent.so"
SIM = f"{O}/sim/moetop-sim"
MODEL = os.path.join(ROOT, "sim/models/qwen3-30b.json")

SOON_S = 90  # a deadline of what a busy machine may delay

number, failed = 0, 0


def check(good, text, detail=""):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {text}")
    if not good and detail:
        print(f"# {detail}")
    sys.stdout.flush()


def skip(text, why):
    global number
    number += 1
    print(f"ok {number} - {text} # SKIP {why}")


def real_cupti():
    """A libcupti of NVIDIA's: the build's own copy, or a toolkit's."""
    for pattern in (f"{O}/**/libcupti.so.1[0-9]", "/usr/local/cuda*/**/"
                    "libcupti.so.1[0-9]", "/usr/lib/*/libcupti.so.1[0-9]"):
        for path in sorted(glob.glob(pattern, recursive=True)):
            if "/sim/lib/" not in path:
                return path
    return None


HOST = """
import ctypes, os, sys, time
for path in sys.argv[2:]:
    ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
agent = ctypes.CDLL(sys.argv[1])
start = time.monotonic()
assert agent.InitializeInjection() == 1
assert agent.InitializeInjection() == 1
assert time.monotonic() - start < 20
print("up", flush=True)
for line in sys.stdin:
    if line == "fork\\n":
        pid = os.fork()
        if pid == 0:
            n = sum("moetop-ring" in os.readlink("/proc/self/fd/" + f)
                    for f in os.listdir("/proc/self/fd")
                    if os.path.islink("/proc/self/fd/" + f))
            os._exit(n)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Host:
    def __init__(self, *libraries):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOST, AGENT, *libraries],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.up = self.process.stdout.readline() == "up\n"
        return self

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)


def disabled(records):
    return [r for r in records if r.type == R.STATUS
            and R.STATES[r.state] == "disabled"]


def expect_disabled(name, host, reason):
    ring = R.attach(host.process.pid)
    records = R.collect(ring, lambda r: disabled(r) and any(
        x.type == R.TEXT and x.level == 2 for x in r), SOON_S)
    said = disabled(records)
    texts = [r.text for r in records if r.type == R.TEXT and r.level == 2]
    check(host.up, f"{name}: InitializeInjection returns 1, twice, at once")
    check(said and R.REASONS[said[0].reason] == reason,
          f"{name}: disabled, reason {reason}",
          str([R.REASONS[s.reason] for s in said]))
    check(texts and "disabled" in texts[0], f"{name}: a line says why",
          str(texts))
    rings = [f for f in os.listdir(f"/proc/{host.process.pid}/fd")
             if "moetop-ring" in os.readlink(
                 f"/proc/{host.process.pid}/fd/{f}")]
    check(len(rings) == 1, f"{name}: one ring")


def test_symbols():
    out = subprocess.run(["nm", "-D", "--defined-only", AGENT], check=True,
                         capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in out.splitlines()]
    check(names == ["InitializeInjection"],
          "one symbol is exported: InitializeInjection", str(names))
    out = subprocess.run(["readelf", "-d", AGENT], check=True,
                         capture_output=True, text=True).stdout
    needed = {line.split("[")[1].rstrip("]").split(".so")[0]
              for line in out.splitlines() if "(NEEDED)" in line}
    check(needed <= {"libc", "libdl", "libpthread"},
          "nothing but libc is linked", str(needed))
    check("NODELETE" in out, "it stays mapped whoever closes it")


def test_refusals():
    with Host() as host:
        expect_disabled("no CUPTI at all", host, "no_cupti")
        check(host.ask("fork") == "0", "fork's child has no ring")
    path = real_cupti()
    if not path:
        skip("real CUPTI without a driver", "no libcupti of NVIDIA's here")
        return
    if os.path.exists("/dev/nvidia0"):
        skip("real CUPTI without a driver", "this machine has a GPU")
        return
    with Host(path) as host:
        expect_disabled("real CUPTI, no driver", host, "no_driver")


class Server:
    def __init__(self, *options, **env):
        self.folder = tempfile.TemporaryDirectory()
        env = dict(os.environ, CUDA_INJECTION64_PATH=AGENT,
                   MOETOP_PERIOD_MS="1500", **ANY_PRICE, **env)
        self.process = subprocess.Popen(
            [SIM, "--model", MODEL, "--port", "0", "--duration", "200",
             "--users", "4", *options], env=env, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.folder.cleanup()


def windows(records):
    return [r for r in records if r.type == R.WINDOW]


def threads(pid):
    names = []
    for t in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{t}/comm") as f:
                names.append(f.read().strip())
        except OSError:
            pass
    return names


def thread_cpu(pid, name):
    """Clock ticks that the thread of this name has used."""
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/stat") as f:
            comm, rest = f.read().split(" (", 1)[1].rsplit(") ", 1)
        if comm == name:
            return sum(map(int, rest.split()[11:13]))
    return None


def agents_threads(pid):
    return [n for n in threads(pid) if n.startswith("moetop")
            and n != "moetop-sim"]


def long_life(records, steps=400):
    """The steps that it has counted, once they are that many."""
    counted = max((r.decode_steps for r in records if r.type == R.TICK),
                  default=0)
    return counted if counted > steps else 0


def test_detach():
    with Server() as p:
        ring = R.attach(p.pid)
        first = R.collect(ring, lambda r: windows(r) and long_life(r), SOON_S)
        check(windows(first), "server: a window opens")
        before_steps = long_life(first)
        check("moetop" in threads(p.pid), "the agent's thread is named moetop")
        ring.close(detach=True)
        check(wait(lambda: ring.state == "stub", SOON_S),
              "detach ends in the stub state", ring.state)
        check(wait(lambda: agents_threads(p.pid) == ["moetop"], SOON_S),
              "one thread of the agent is left", str(threads(p.pid)))
        before = thread_cpu(p.pid, "moetop")
        check(not wait(lambda: bool(ring.read()), 1), "the ring is silent")
        check(thread_cpu(p.pid, "moetop") == before,
              "the stub uses no processor")
        check(p.poll() is None, "the server lives on")
        ring.read()
        opened_ns = R.now_ns()
        ring.open()
        records = R.collect(ring, lambda r: windows(r) and any(
            x.type == R.ROWS for x in r), SOON_S)
        check(windows(records) and ring.lives == 2,
              "a new collector wakes it, and gets a window",
              f"{ring.state} {ring.lives}")
        check(any(r.type == R.ROWS for r in records) and not ring.late,
              "what it saw at capture still holds: rows are sampled")
        ticks = [r for r in records if r.type == R.TICK]
        # no step is as short as a millisecond
        most = ticks and (ticks[0].time_ns - opened_ns) / 1e6
        check(ticks and ticks[0].windows == 0 and
              ticks[0].decode_steps <= most,
              "its counters start from zero",
              str([(t.decode_steps, most, before_steps) for t in ticks][:1]))


def test_quiet():
    with Server() as p:
        ring = R.attach(p.pid)
        check(windows(R.collect(ring, windows, SOON_S)), "a collector, a window")
        ring.read()
        # The collector dies: two seconds later nothing is written any more.
        def silent():
            time.sleep(1)
            return not ring.read()
        check(wait(silent, SOON_S) and
              not wait(lambda: bool(ring.read()), 2),
              "without a collector the agent falls silent")
        records = R.collect(ring, windows, SOON_S)
        check(windows(records), "a new collector gets a window")


def test_other_client():
    with Server(MOETOP_SIM_FAULT="subscribe39") as p:
        ring = R.attach(p.pid)
        records = R.collect(ring, lambda r: ring.state == "yielded" and any(
            x.type == R.TEXT and x.level for x in r), SOON_S)
        check(ring.state == "yielded" and ring.reason == "other_client",
              "a profiler that was there first: yielded, other_client")
        check(sum(r.type == R.TEXT and "yields" in r.text
                  for r in records) == 1, "a line says so, once")
        check(p.poll() is None, "the server lives on")


def renewals(records):
    return [i for i, r in enumerate(records)
            if r.type == R.TEXT and r.text.startswith("CUPTI life")]


def test_record_cap():
    with Server(MOETOP_RECORD_CAP="20000", MOETOP_RENEW_MS="2000") as p:
        ring = R.attach(p.pid)

        def renewed(records):
            lives = renewals(records)
            return len(lives) > 1 and bool(windows(records[lives[1]:]))

        records = R.collect(ring, renewed, SOON_S)
        check(renewed(records), "used up records: a new CUPTI life, and "
              "windows go on", str([r.text for r in records
                                    if r.type == R.TEXT]))
        check(ring.lives == 1 and not disabled(records),
              "in the same life of the agent")
        last = windows(records)[-1]
        check(last.layers_seen == 48 and last.bad_steps == 0
              and any(r.type == R.ROWS and r.window == last.window
                      for r in records),
              "layers and rows as before")


def test_flapping_collector():
    """Windows that the collector leaves are aborted, and counted all the same.
    """
    with Server(MOETOP_RECORD_CAP="20000", MOETOP_WINDOW_MS="15000",
                MOETOP_RENEW_MS="1000") as p:
        ring = R.attach(p.pid)
        records = R.collect(ring, lambda r: any(
            x.type == R.TICK and x.kernel_records > 20000 for x in r), 40)
        check(not windows(records), "a long window is open")
        # Two seconds without a beat end it, long before its time.
        watch = Watch()
        wait(lambda: ring.state == "idle", 50)
        check(ring.state == "idle" and watch.within(10),
              "it ends when the collector is gone", watch.seconds())
        records = R.collect(ring, renewals, SOON_S)
        check(renewals(records),
              "a window that the collector leaves counts for the record cap")
        check(p.poll() is None, "the server lives on")


def test_exact_rows():
    with Server(MOETOP_ROWS="2") as p:
        ring = R.attach(p.pid)
        records = R.collect(ring, lambda r: any(
            x.type == R.ROWS and x.exact_cells for x in r), SOON_S)
        texts = [r.text for r in records if r.type == R.TEXT]
        check(sum("rows: exact" in t for t in texts) == 1,
              "rows mode 2: one line says that graphs keep their rows",
              str(texts))
        check(any(r.type == R.ROWS and r.exact_cells for r in records),
              "rows mode 2: rows are those that the graphs keep")


def test_exit():
    with Server() as p:
        ring = R.attach(p.pid)
        R.collect(ring, lambda r: any(
            x.type == R.STATUS and R.STATES[x.state] == "window" for x in r),
            SOON_S)
        watch = Watch()
        p.terminate()
        rc = p.wait(60)
        check(rc == 0 and watch.within(3),
              "a server that ends in a window ends well, and at once",
              f"exit {rc} after {watch.seconds():.1f} s")


def test_zero_stamps():
    with Server(MOETOP_SIM_FAULT="zero_stamps=5000") as p:
        ring = R.attach(p.pid)
        records = R.collect(ring, lambda r: any(
            x.type == R.TICK and x.bad_stamps > 0 for x in r), SOON_S)
        ticks = [r for r in records if r.type == R.TICK]
        check(ticks and ticks[-1].bad_stamps > 0
              and ticks[-1].records_dropped >= ticks[-1].bad_stamps,
              "zero timestamps are dropped and counted")
        check(p.poll() is None, "the server lives on")


def test_fatal():
    with Server(MOETOP_SIM_FAULT="fatal=5000") as p:
        ring = R.attach(p.pid)
        said = disabled(R.collect(ring, disabled, SOON_S))
        check(said and R.REASONS[said[0].reason] == "fatal",
              "a fatal error of CUPTI: disabled, fatal",
              str([R.REASONS[s.reason] for s in said]))
        check(p.poll() is None, "the server lives on")


def main():
    test_symbols()
    test_refusals()
    if os.path.exists(SIM):
        for test in (test_detach, test_quiet, test_other_client,
                     test_record_cap, test_flapping_collector,
                     test_exact_rows, test_exit, test_zero_stamps,
                     test_fatal):
            test()
    else:
        skip("life in a server", f"no simulated server in {O}")
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
