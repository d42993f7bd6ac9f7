#!/usr/bin/env python3
"""The agent under valgrind, in a host that does all that hosts do; and beside
NVIDIA's own libcupti without a driver, life after life.
"""
import glob
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ring as R  # noqa: E402
from host import AGENT, O, Host, counts, status_kb  # noqa: E402
from tap import check, end, results, wait  # noqa: E402

VALGRIND = ("valgrind", "--error-exitcode=9", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
            "--fair-sched=yes", "--trace-children=no")


def skip(text, why):
    results.append(True)
    print(f"ok {len(results)} - {text} # SKIP {why}")


def real_cupti():
    """Every libcupti of NVIDIA's that is here."""
    found = {}
    for pattern in (f"{O}/**/libcupti.so.1[0-9]*", "/usr/local/cuda*/**/"
                    "libcupti.so.1[0-9]*", "/usr/lib/*/libcupti.so.1[0-9]*"):
        for path in sorted(glob.glob(pattern, recursive=True)):
            if "/sim/lib/" not in path:
                found.setdefault(os.path.realpath(path), path)
    return sorted(found.values())


def windows(records):
    return [r for r in records if r.type == R.WINDOW]


def sleep(ring):
    ring.close(detach=True)
    return wait(lambda: ring.state == "stub", 30)


def rise(ring, state="idle"):
    ring.open()

    def up():
        ring.beat()
        return ring.state == state
    return wait(up, 30)


def test_valgrind():
    if not shutil.which("valgrind"):
        skip("valgrind finds nothing", "no valgrind here")
        return
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        with Host(*VALGRIND, f"--log-file={log}",
                  CUDA_INJECTION64_PATH=AGENT) as host:
            host.do("init", "capture")
            ring = R.attach(host.pid)
            host.do("eager 20", "run")
            seen = windows(R.collect(ring, lambda r: len(windows(r)) > 1, 120))
            check("under valgrind: windows with layers",
                  len(seen) > 1 and seen[-1].layers_seen == 6, ring.state)
            lives = [sleep(ring) and rise(ring) for _ in range(3)]
            R.collect(ring, windows, 120)
            host.do("stop")
            lives += [sleep(ring) and rise(ring)]  # no call comes
            check("under valgrind: it sleeps and rises", all(lives), lives)
            sleep(ring)
            host.do("capture")
            code, _ = host.quit()
        with open(log) as f:
            text = f.read()
    check("valgrind finds nothing", code == 0, text)


def real_under_valgrind(name, path, folder):
    log = os.path.join(folder, "log")
    with Host(*VALGRIND, f"--log-file={log}", libraries=[path]) as host:
        host.do(f"inject {AGENT}")
        ring = R.attach(host.pid)
        wait(lambda: ring.state == "disabled", 30)
        good = sleep(ring) and rise(ring, "disabled") and sleep(ring)
        code, _ = host.quit()
    with open(log) as f:
        check(f"{name}, no driver: valgrind finds nothing",
              good and code == 0, f.read())


def test_real():
    libraries = real_cupti()
    if not libraries or os.path.exists("/dev/nvidiactl"):
        skip("NVIDIA's CUPTI without a driver", "no libcupti of NVIDIA's here"
             if not libraries else "this machine has a driver")
        return
    for path in libraries:
        name = os.path.basename(os.path.realpath(path))
        with Host(libraries=[path]) as host:
            host.do(f"inject {AGENT}")
            ring = R.attach(host.pid)
            check(f"{name}, no driver: disabled, and says why",
                  wait(lambda: ring.state == "disabled") and
                  ring.reason == "no_driver", (ring.state, ring.reason))
            good = []
            for i in range(40):
                good.append(sleep(ring) and rise(ring, "disabled"))
                if i == 9:
                    early = counts(host.pid), status_kb(host.pid, "VmRSS")
            late = counts(host.pid), status_kb(host.pid, "VmRSS")
            check(f"{name}, no driver: 40 lives leave nothing behind",
                  all(good) and early[0] == late[0]
                  and late[1] - early[1] < 1000, (good, early, late))
            code, watch = host.quit()
            check(f"{name}, no driver: the host ends well, at once",
                  code == 0 and watch.within(2), (code, watch.seconds()))
        if shutil.which("valgrind"):
            with tempfile.TemporaryDirectory() as folder:
                real_under_valgrind(name, path, folder)


def main():
    test_valgrind()
    test_real()
    end()


if __name__ == "__main__":
    if not os.path.exists(f"{O}/sim/lib/libcupti.so.13"):
        print("1..0 # SKIP no simulated GPU in", O)
        sys.exit(0)
    main()
