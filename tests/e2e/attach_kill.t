#!/usr/bin/env python3
"""attach_kill.t - moetop itself: 50 times attached, and killed 20 times

At random moments of attach, window and detach, with 200 streams on the server.
`make soak` does it 1000 and 200 times.
"""
# time limit: 600 s
import attach_scenarios as S
import tap
from tap import check

S.moetop_cycles(check, 50)
S.moetop_kills(check, 20)
tap.end()
