"""tap.py - the results of a test script, as TAP on standard output"""
import random
import socket
import sys
import threading
import time

results = []
kept = []  # ports, by the names of sockets


def check(name, ok, detail=""):
    """One result; the detail is shown when it is a failure."""
    results.append(bool(ok))
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {name}")
    if not ok:
        print("# " + str(detail)[:3000].replace("\n", "\n# "))
    sys.stdout.flush()


def slowness():
    """How many times longer than its processor time anything takes on this
    machine just now, at least 1: limits of time are multiplied by it."""
    wall, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < 0.05:
        pass
    return max(1, (time.monotonic() - wall) / (time.thread_time() - cpu))


class Pauses(threading.Thread):
    """Notes when this machine did not let its programs run."""

    def __init__(self):
        super().__init__(daemon=True)
        self.late = []  # (from, to), seconds since the epoch
        self.start()

    def run(self):
        while True:
            due = time.time() + .02
            time.sleep(.02)
            now = time.time()
            if now > due + .01:
                self.late.append((due, now))

    def lost(self, since, until):
        """How much of this span, in seconds."""
        return sum(max(0, min(b, until) - max(a, since))
                   for a, b in self.late)


class Watch:
    """A stopwatch for limits of time: what the machine took does not count."""
    pauses = None

    def __init__(self):
        Watch.pauses = Watch.pauses or Pauses()
        self.start, self.slow, self.end = time.time(), slowness(), None

    def stop(self):
        if self.end is None:
            self.end = time.time()
            self.slow = max(self.slow, slowness())
        return self

    def seconds(self):
        end = self.end or time.time()
        return end - self.start - self.pauses.lost(self.start, end)

    def within(self, limit_s):
        return self.stop().seconds() < limit_s * self.slow


def wait(condition, deadline_s=120, pause_s=.02):
    """What the condition gave last: something true, or the time is over."""
    end_s = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found or time.monotonic() > end_s:
            return found
        time.sleep(pause_s)


def wait_for(what, condition, seconds=120):
    """What the condition gives, once it is true; the end of the test if never."""
    found = wait(condition, seconds)
    if not found:
        raise SystemExit(f"Bail out! never happened: {what}")
    return found


def free_port():
    """A port that stays free: the kernel gives it to nobody who asks for any,
    and no other test takes it as long as this one runs."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        low, high = map(int, f.read().split())
    places = [*range(10000, low), *range(high + 1, 65536)]
    while True:
        port = random.choice(places or range(10000, 65536))
        mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            mark.bind(f"\0moetop-test-port-{port}")
            with socket.socket() as s:
                s.bind(("", port))
        except OSError:
            mark.close()
            continue
        kept.append(mark)
        return port


def end():
    """The plan, and the exit status."""
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)
