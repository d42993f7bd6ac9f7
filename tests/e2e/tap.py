"""tap.py - the results of a test script, as TAP on standard output"""
import sys

results = []


def check(name, ok, detail=""):
    """One result; the detail is shown when it is a failure."""
    results.append(bool(ok))
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {name}")
    if not ok:
        print("# " + str(detail)[:3000].replace("\n", "\n# "))
    sys.stdout.flush()


def end():
    """The plan, and the exit status."""
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)
