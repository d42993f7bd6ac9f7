#!/usr/bin/env python3
"""inject_kill.t - the injector is killed, and the target does not notice

At each of its system calls in turn, and at random moments.  `make soak` does it
200 times for each kind.
"""
import attach_scenarios as S
import tap
from tap import check

S.kill_idle(check, 40)
S.kill_stress(check, 40)
S.kill_sim(check, 40)
tap.end()
