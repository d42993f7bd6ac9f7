#!/usr/bin/env python3
"""pm_chips.t - the set of counters chosen for every chip takes one pass.

By the real libcupti and libnvperf_host of every release that is here (a CUDA
toolkit, make deps, make abi-check), without a GPU.
"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from tap import check  # noqa: E402

O = os.environ.get("O", "build")
CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
# As measured with 12.9, 13.0 and 13.1.  12.6 and 12.8 need two passes for the
# bytes, which leaves shares of the peak, and nothing on Turing.
OLDER = {"throughput+tensor", "no DRAM metric on this chip"}
KNOWN = {
    "TU102": "bytes", "GA100": "bytes+tensor", "GA102": "bytes+tensor",
    "AD102": "bytes+tensor", "GH100": "bytes+tensor",
    "GB100": "bytes+tensor", "GB102": "bytes+tensor",
    "GB202": "op bytes+tensor",
}


def libraries():
    found = {}
    for pattern in (f"{CUDA}/lib*/libcupti.so.1?",
                    f"{CUDA}/extras/CUPTI/lib64/libcupti.so.1?",
                    f"{O}/cupti*/lib/libcupti.so.1?",
                    f"{O}/abi/*/lib/libcupti.so.1?"):
        for path in sorted(glob.glob(pattern)):
            beside = os.path.join(os.path.dirname(path), "libnvperf_host.so")
            if os.path.exists(beside):
                found[os.path.realpath(path)] = path
    return list(found.values())


def chips(library):
    """{chip: (set, passes)}, or None: it wants a driver first"""
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library))
    run = subprocess.run([f"{O}/tests/e2e/pm_chips", library], env=env,
                         capture_output=True, text=True, timeout=60)
    if run.returncode:
        return None
    rows = (x.split("\t") for x in run.stdout.splitlines())
    return {chip: (name, int(passes)) for chip, name, passes in rows}


answered = 0
for library in libraries():
    told = chips(library)
    if told is None:
        print(f"# {library} says nothing without a driver")
        continue
    answered += 1
    for chip, (name, passes) in told.items():
        print(f"# {chip}: {name}{', one pass' if passes == 1 else ''}")
    check(f"{library}: every set that is chosen takes one pass",
          told and all(passes == 1 or (passes == 0 and name.startswith("no "))
                       for name, passes in told.values()), told)
    check(f"{library}: known chips have the sets that they had",
          all(told[c][0] in {KNOWN[c]} | OLDER for c in KNOWN if c in told)
          and told.get("GH100", ("", 0))[1] == 1, told)
check("a real library answered", answered > 0, libraries())
tap.end()
