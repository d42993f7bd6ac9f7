#!/usr/bin/env python3
"""Refuse functions of more than 80 lines and files of more than 600."""
import re
import sys

FUNCTION_MAX, FILE_MAX = 80, 600
bad = 0
for path in sys.argv[1:]:
    lines = open(path, encoding="utf-8").read().split("\n")
    if len(lines) - 1 > FILE_MAX:
        print(f"{path}: {len(lines) - 1} lines, {FILE_MAX} at most")
        bad = 1
    start = None
    for i, line in enumerate(lines):
        if line == "{" and i and re.search(r"[)\w]\s*$", lines[i - 1]):
            start = i
        elif line == "}" and start is not None:
            if i - start - 1 > FUNCTION_MAX:
                print(f"{path}:{start}: function of {i - start - 1} lines,"
                      f" {FUNCTION_MAX} at most")
                bad = 1
            start = None
sys.exit(bad)
