"""tap.py - the results of a test script, as TAP on standard output"""
import sys
import time

results = []


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


def wait_for(what, condition, seconds=60):
    """What the condition gives, once it is true; the end of the test if never."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        found = condition()
        if found:
            return found
        time.sleep(.02)
    raise SystemExit(f"Bail out! never happened: {what}")


def end():
    """The plan, and the exit status."""
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)
