#!/usr/bin/env python3
"""inject_cycles.t - 50 injections and 50 returns for each kind of process

No crash, no failed request, no deadlock; descriptors, mappings and threads as
before; short pauses; no stop at a return.  `make soak` does it 1000 times.
"""
import time

import attach_scenarios as S
import tap
from tap import check

start = time.monotonic()
S.idle(check, 50)
S.short_lived(check, 50)
S.stopped_often(check, 50)
S.registers(check, 50)
S.stress(check, 50)
S.stress_no_fork(check, 50)
S.sim(check, 50)
S.uvicorn(check, 50)
print(f"# {time.monotonic() - start:.0f} s")
tap.end()
