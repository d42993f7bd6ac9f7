"""ring.py - a small collector for tests: reads the ring of wire/ring.h

Written from the header alone, so that it checks the layout as well.
"""
import ctypes
import mmap
import os
import struct
import time

RECORD, HEADER, MAGIC = 128, 4096, 0x474E495250544F4D
HEAD, LOST, TAIL, CONTROL, STATE = 64, 72, 128, 192, 256
SYS_FUTEX, FUTEX_WAKE = {"x86_64": 202}.get(os.uname().machine, 98), 1
(STATUS, TICK, WINDOW, LAYER, ROWS, EXPERTS, STEP_ROWS, TEXT, HIST,
 STEPS) = range(1, 11)
STATES = ("absent starting idle window yielded disabled detaching "
          "stub").split()
REASONS = ("none no_cupti cupti_version no_driver other_client cupti_error "
           "fatal record_cap budget bad_records resources").split()
libc = ctypes.CDLL(None)
LAYER_NONE, BLOCK, BEFORE, DECODE, PREFILL = 0xFFFF, 0, 1, 0, 1

FORMATS = {
    STATUS: ("=IIiIIIIIIIII48s", "state reason detail cupti driver device "
             "graphs graph_nodes late experts top_k moe_layers name"),
    TICK: ("=9QIIQ", "decode_steps eager_steps padded_tokens eager_tokens "
           "launches callback_ns agent_cpu_ns kernel_records records_dropped "
           "windows overhead_ppm bad_stamps"),
    WINDOW: ("=I2II8Q8I", "window decode_steps prefill_steps layers_seen "
             "start_ns end_ns decode_step_ns prefill_step_ns decode_busy_ns "
             "prefill_busy_ns decode_tokens prefill_tokens cells_rejected "
             "cells_lost bad_steps kernels draft_layers bad_kernels "
             "edge_kernels edge_steps"),
    LAYER: ("=IHHHHIQQQ", "window phase layer klass part steps calls sum_ns "
            "union_ns"),
    ROWS: ("=IHHII8QIIQIHHII", "window phase layer cells experts rows active "
           "single twice sum_squares max_rows tokens padded_rows exact_cells "
           "direct_cells blocks placed_cells placed_experts dropped "
           "placed_rows placed_active"),
    EXPERTS: ("=IHHHH24I", "window phase layer first count"),
    STEP_ROWS: ("=IHHQQQQQQ", "window phase cells start_ns mask0 mask1 rows "
                "active single"),
    TEXT: ("=I104s", "level text"),
    STEPS: ("=IHHQQQQQQ", "window phase pad steps kernels launches span_ns "
            "busy_ns step_ns"),
}


class Record:
    """One record; of a type unknown here only its type and time."""

    def __init__(self, raw):
        self.type, _, self.time_ns = struct.unpack_from("=IIQ", raw)
        if self.type not in FORMATS:
            return
        fmt, names = FORMATS[self.type]
        values = struct.unpack_from(fmt, raw, 16)
        for name, value in zip(names.split(), values):
            setattr(self, name, value)
        if self.type == EXPERTS:
            self.counts = values[5:5 + self.count]
        if self.type == TEXT:
            self.text = self.text.split(b"\0")[0].decode()


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Ring:
    def __init__(self, pid):
        self.map = None
        folder = f"/proc/{pid}/fd"
        for fd in os.listdir(folder):
            try:
                if "memfd:moetop-ring" not in os.readlink(f"{folder}/{fd}"):
                    continue
                f = os.open(f"{folder}/{fd}", os.O_RDWR)
            except OSError:
                continue
            self.map = mmap.mmap(f, os.fstat(f).st_size)
            os.close(f)
        if self.map is None:
            raise FileNotFoundError("no ring")
        magic, = struct.unpack_from("=Q", self.map, 0)
        assert magic == MAGIC, hex(magic)
        _, _, size, self.capacity = struct.unpack_from("=4I", self.map, 8)
        assert size == RECORD, size

    def get(self, offset, fmt="=Q"):
        return struct.unpack_from(fmt, self.map, offset)[0]

    def put(self, offset, value, fmt="=Q"):
        """One store: struct would write byte by byte."""
        kind = {"=Q": ctypes.c_uint64, "=I": ctypes.c_uint32}[fmt]
        kind.from_buffer(self.map, offset).value = value

    def beat(self):
        self.put(CONTROL, now_ns())

    def control(self, name, value):
        at = dict(pid=8, budget=12, wish=16, rows=20, detach=24, hint=28,
                  wake=40, spans=44, experts=48, top_k=52)
        self.put(CONTROL + at[name], value, "=I")

    def open(self):
        """Become the reader, as ring_open does; wakes a stub."""
        self.put(CONTROL + 32, int.from_bytes(os.urandom(8), "little") | 1)
        self.beat()
        self.control("detach", 0)
        self.control("wake", self.get(CONTROL + 40, "=I") + 1 & 0xFFFFFFFF)
        word = ctypes.c_uint32.from_buffer(self.map, CONTROL + 40)
        libc.syscall(SYS_FUTEX, ctypes.byref(word), FUTEX_WAKE, 1, None, None,
                     0)
        return self

    def close(self, detach):
        """Leave, as ring_close does."""
        if detach:
            self.control("detach", 1)
        self.put(CONTROL, 0)
        self.put(CONTROL + 32, 0)

    @property
    def state(self):
        return STATES[self.get(STATE, "=I")]

    @property
    def reason(self):
        return REASONS[self.get(STATE + 4, "=I")]

    @property
    def lives(self):
        return self.get(STATE + 8, "=I")

    @property
    def late(self):
        return self.get(STATE + 12, "=I")

    def read(self):
        head, tail = self.get(HEAD), self.get(TAIL)
        out = []
        while tail < head:
            at = HEADER + tail % self.capacity * RECORD
            record = Record(self.map[at:at + RECORD])
            if record.type:
                out.append(record)
            tail += 1
        self.put(TAIL, tail)
        return out

    @property
    def lost(self):
        return self.get(LOST)


def held(pid, kind):
    """Records of a type that the ring still holds, oldest first, without being
    its reader."""
    ring = Ring(pid)
    head, out = ring.get(HEAD), []
    for n in range(max(0, head - ring.capacity + 1), head):
        at = HEADER + n % ring.capacity * RECORD
        if ring.get(at, "=I") == kind:
            out.append(Record(ring.map[at:at + RECORD]))
    return out


def attach(pid, deadline_s=120):
    end = time.monotonic() + deadline_s
    while True:
        try:
            return Ring(pid).open()
        except (FileNotFoundError, AssertionError, ValueError):
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def collect(ring, done, deadline_s):
    """Records until done(records) or the deadline; keeps the ring alive."""
    records, end = [], time.monotonic() + deadline_s
    while time.monotonic() < end:
        ring.beat()
        records += ring.read()
        if done(records):
            break
        time.sleep(0.05)
    return records
