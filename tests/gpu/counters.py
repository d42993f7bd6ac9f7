"""counters.py - PM sampling beside a program that decodes, on a real GPU

The sampler is moetop's own child process (core/counters.h), run by hand.
"""
import glob
import os
import struct
import subprocess
import time

READING = struct.Struct("QQddd")
STATUS, READINGS = 1, 2
INTERVAL_NS = 1030000


def message_bytes():
    info = 16 + 24 + 4 * 8
    return 8 + max(8 * READING.size, (4 + 160 + 192 + 7) // 8 * 8, info)


class Sampler:
    def __init__(self, moetop, library, driver=""):
        self.process = subprocess.Popen(
            [moetop, "--counters-child", library, driver, "0",
             str(INTERVAL_NS), "nan"], stdout=subprocess.PIPE)
        kind, _ = self.header(first := self.next())
        self.error, self.why = 0, ""
        if kind == STATUS:
            self.error = struct.unpack_from("i", first, 8)[0]
            self.why = first[12:172].split(b"\0")[0].decode()
        elif not first:
            self.error, self.why = -1, "it ended at once"

    @staticmethod
    def header(data):
        return struct.unpack_from("II", data) if len(data) >= 8 else (0, 0)

    def next(self):
        return self.process.stdout.read(message_bytes())

    def read(self, seconds):
        """[(start_ns, end_ns, read, write, tensor)]"""
        out, end = [], time.monotonic() + seconds
        while not self.error and time.monotonic() < end:
            data = self.next()
            if not data:
                break
            kind, n = self.header(data)
            if kind == READINGS:
                out += [READING.unpack_from(data, 8 + i * READING.size)
                        for i in range(min(n, 8))]
        return out

    def close(self):
        self.process.stdout.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def sm_clock_mhz():
    try:
        return int(subprocess.run(
            ["nvidia-smi", "--query-gpu=clocks.sm", "--id=0",
             "--format=csv,noheader,nounits"], capture_output=True, text=True,
            timeout=10).stdout.split()[0])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return 0


def find_cupti(cuda):
    for pattern in ("lib64/libcupti.so.1?", "extras/CUPTI/lib64/libcupti.so.1?",
                    "lib/libcupti.so.1?"):
        for path in sorted(glob.glob(os.path.join(cuda, pattern))):
            return path
    return ""


def bytes_of(reading):
    return reading[2] + (reading[3] if reading[3] == reading[3] else 0)


def edge_ns(readings):
    """When the first work begins: the first sample over half of the upper
    quartile, at its middle."""
    if not readings:
        return 0
    busy = sorted(map(bytes_of, readings))[len(readings) * 3 // 4] / 2
    return next((r[0] + r[1]) // 2 for r in readings if bytes_of(r) > busy)


def check(say, moetop, cuda, start_program):
    """start_program(): a process that prints steps; wait_steps(p) ends it and
    returns [(step, start_ns, end_ns)]."""
    start, wait_steps = start_program
    library = find_cupti(cuda)
    before = sm_clock_mhz()
    sampler = Sampler(moetop, library)
    if sampler.error:
        say("skip", 26, f"PM sampling: {sampler.why} ({sampler.error})")
        sampler.close()
        return None
    program = start()
    readings = sampler.read(8)
    during = sm_clock_mhz()
    steps = wait_steps(program)
    sampler.close()
    rate = sum(map(bytes_of, readings)) / max(
        sum(r[1] - r[0] for r in readings), 1)
    say("ok" if len(readings) > 4000 and rate > 0 else "FAIL", 26,
        f"PM sampling from another process: {len(readings)} samples in 8 s, "
        f"{rate:.0f} bytes/ns")
    say("ok" if not before or during > 0.95 * before else "FAIL", 26,
        f"the SM clock is not locked by it: {before} to {during} MHz")
    offset = edge_ns(readings) - steps[0][1] if steps else 0
    say("ok" if steps and abs(offset) < 5000000 else "FAIL", 27,
        "counters and host share a clock: the first step shows "
        f"{offset / 1e6:.2f} ms after its launch")
    return steps
