#!/usr/bin/env python3
"""inject_targets.t - every kind of process, and what an injection does to it

Either the agent is there afterwards, or one refusal with its sentence; and in
both cases the process goes on as before and ends by itself with status 0.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import attach_cycles as A
import tap
from tap import check

T = tempfile.mkdtemp()
POLL = """
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char c;
	puts("ready");
	fflush(stdout);
	while (poll(&in, 1, 30000) > 0 && read(0, &c, 1) > 0)
		;
	return 0;
}
"""
POLL_32 = """
void _start(void);
void _start(void)
{
	int r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(4), "b"(1), "c"("ready\\n"),
			 "d"(6) : "memory");
	for (char c;;) {
		__asm__ volatile("int $0x80" : "=a"(r)
				 : "a"(3), "b"(0), "c"(&c), "d"(1) : "memory");
		if (r <= 0)
			break;
	}
	__asm__ volatile("int $0x80" : : "a"(1), "b"(0));
}
"""


def build(name, *command, source=POLL):
    path, code = os.path.join(T, name), os.path.join(T, name + ".c")
    with open(code, "w", encoding="ascii") as f:
        f.write(source)
    run = subprocess.run([*command, "-o", path, code], capture_output=True,
                         text=True, check=False)
    if run.returncode:
        print(f"# {name}: {run.stderr.splitlines()[:3]}")
    return path if run.returncode == 0 else None


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def unharmed(target, pid, before, name):
    """After a refusal: nothing has changed, and it ends as it should."""
    def same():
        return not before.more(A.Census(pid))

    # A process that works comes back to what it was within its own time.
    A.until(same, 10)
    later = A.Census(pid)
    wrong = before.more(later)
    check(f"{name}: nothing of it is left", not wrong, wrong)
    if target is not None:
        rc = target.end()
        check(f"{name}: it ends by itself", rc == 0, rc)


def refused(target, want, name, pid=None, end=True, limit_s=3.5):
    """One injection that must be refused with one of `want`."""
    pid = pid or target.pid
    before = A.Census(pid)
    watch = tap.Watch()
    report = A.inject(pid)
    check(f"{name}: refused ({report['refusal']}), in a sentence",
          watch.within(limit_s) and report["refusal"] in want and
          report["why"] and "\n" not in report["why"], report)
    unharmed(target if end else None, pid, before, name)
    return report


def accepted(target, name, pid=None, end=True, rings=2):
    """One injection that must succeed; the agent sleeps and rises."""
    pid = pid or target.pid
    report = A.inject(pid)
    check(f"{name}: the agent is there",
          report["refusal"] == "ok" and A.has_ring(pid), report)
    if report["refusal"] == "ok":
        cycles = A.reattach(pid, rings)
        check(f"{name}: it sleeps and rises", cycles["cycles"] == rings, cycles)
    if end:
        rc = target.end()
        check(f"{name}: it ends by itself", rc == 0, rc)
    return report


# ---- what it is made of ------------------------------------------------------

def other_programs():
    for name, want, *command in (
            ("static", {"static"}, "gcc", "-static"),
            ("static-pie", {"static"}, "gcc", "-static-pie"),
            ("musl", {"libc"}, "musl-gcc"),
            ("static-musl", {"static"}, "musl-gcc", "-static")):
        path = build(name, *command)
        if not path:
            print(f"# left out: {name}: it cannot be built here")
            continue
        with A.Target([path]) as t:
            refused(t, want, name)
    path = build("i386", "gcc", "-m32", "-nostdlib", "-static",
                 "-ffreestanding", "-fno-pic", "-fno-stack-protector",
                 source=POLL_32)
    if path:
        with A.Target([path]) as t:
            refused(t, {"machine"}, "32-bit")


def jemalloc():
    found = [p for p in ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                         "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2")
             if os.path.exists(p)]
    if not found:
        print("# left out: libjemalloc2 is not installed")
        return
    with A.Odd("threads", 4, env=dict(os.environ, LD_PRELOAD=found[0])) as t:
        accepted(t, "malloc of jemalloc")


# ---- what state it is in -----------------------------------------------------

def no_process():
    p = subprocess.Popen(["/bin/true"])
    A.until(lambda: not A.alive(p.pid))
    report = A.inject(p.pid)
    check("a process that has ended is none", report["refusal"] == "no-process"
          and report["why"], report)
    p.wait()
    report = A.inject(p.pid)
    check("nor is a number that nobody has", report["refusal"] == "no-process"
          and report["why"], report)
    watch = tap.Watch()
    report = A.inject(2)
    check("a kernel thread is refused", watch.within(2) and
          report["refusal"] != "ok" and report["why"], report)


def stopped_and_traced():
    with A.Odd("threads", 2) as t:
        os.kill(t.pid, signal.SIGSTOP)
        A.until(lambda: A.status(t.pid, "State")[0] == "T")
        refused(t, {"stopped"}, "stopped", end=False)
        check("stopped: it still is", A.status(t.pid, "State")[0] == "T",
              A.status(t.pid, "State"))
        os.kill(t.pid, signal.SIGCONT)
        accepted(t, "continued")
    with A.Odd("threads", 2) as t:
        tracer = subprocess.Popen(["strace", "-f", "-q", "-o", "/dev/null",
                                   "-p", str(t.pid)],
                                  stderr=subprocess.DEVNULL)
        try:
            A.until(lambda: A.status(t.pid, "TracerPid") != "0")
            time.sleep(0.1)  # until strace has stopped and continued all
            refused(t, {"traced"}, "traced", end=False)
        finally:
            tracer.terminate()
            tracer.wait()
        accepted(t, "no longer traced")


def seccomp():
    with A.Odd("seccomp_errno") as t:
        report = A.inject(t.pid)
        check("memfd_create forbidden: loaded otherwise, or refused for it",
              report["refusal"] in ("ok", "seccomp") and
              (report["why"] or report["refusal"] == "ok"), report)
        rc = t.end()
        check("memfd_create forbidden: it ends by itself", rc == 0, rc)
    with A.Odd("seccomp_kill") as t:
        refused(t, {"seccomp"}, "memfd_create deadly")
    with A.Odd("seccomp_mmap") as t:
        refused(t, {"seccomp", "denied", "load"},
                "executable memory forbidden")
    with A.Odd("seccomp_strict") as t:
        accepted(t, "one thread under strict seccomp")
    with A.Odd("seccomp_thread") as t:
        refused(t, {"seccomp"}, "one thread with a deadly filter")


def nobody_to_borrow():
    with A.Odd("busy", 2) as t:
        refused(t, {"busy"}, "every thread busy", end=False)
        check("every thread busy: it still is", A.alive(t.pid))
    with A.Odd("locks", 4) as t:
        refused(t, {"busy"}, "every thread waits for a lock", end=False)
        check("every thread waits for a lock: it still does", A.alive(t.pid))
    with A.Odd("vfork", 3000) as t:
        refused(t, {"busy"}, "in vfork", end=False)
        rc = t.end()
        check("in vfork: it ends by itself", rc == 0, rc)
    with A.Odd("vfork_poll", 1500) as t:
        accepted(t, "in vfork, with another thread")
    with A.Odd("small_stack") as t:
        report = A.inject(t.pid)
        check("16 KiB of stack: attached or refused, and it lives on",
              report["refusal"] in ("ok", "busy") and A.alive(t.pid), report)
    with A.Odd("fiber") as t:
        report = refused(t, {"busy"}, "a stack among other things")
        check("a stack among other things: it was stopped once",
              report["stops"] == 1, report)


def signals():
    with A.Odd("trap") as t:
        # glibc takes its own two signals when it makes the first thread, also
        # from one who was started with them ignored
        own = 3 << 31

        def signals_of(m):
            return int(A.status(t.pid, m), 16) & ~own
        caught = signals_of("SigCgt")
        masks = [signals_of(m) for m in ("SigIgn", "SigBlk")]
        accepted(t, "a handler of SIGTRAP", end=False)
        later = signals_of("SigCgt")
        # The thread may still be on its way home.
        after, end = None, time.monotonic() + 30
        while after != masks and time.monotonic() < end:
            after = [signals_of(m) for m in ("SigIgn", "SigBlk")]
        check("handlers and masks are as before",
              later == caught and masks == after,
              (hex(caught), hex(later), masks, after))
        t.p.stdin.write("\n")
        t.p.stdin.flush()
        line = A.line_of(t.p.stdout)
        check("the handler of SIGTRAP still runs, once per trap",
              line == "traps 1\n", line)
        rc = t.end()
        check("and it ends by itself", rc == 0, rc)


# ---- where it is -------------------------------------------------------------

def inner(target, steps):
    """The pid of the program behind `steps` wrappers."""
    pid = target.pid
    for _ in range(steps):
        pid = A.until(lambda p=pid: children(p))[0]
    return pid


def namespaces():
    odd = [A.program("stress_odd"), "threads", "2"]
    space = ["unshare", "--pid", "--mount", "--net", "--ipc", "--uts", "--fork"]
    with A.Target([*space, "--mount-proc", *odd]) as t:
        accepted(t, "namespaces of its own", inner(t, 1))
    with A.Target([*space, "/bin/sh", "-c",
                   "mount -t tmpfs none /proc && exec \"$@\"", "sh",
                   *odd]) as t:
        report = A.inject(inner(t, 1))
        check("without a /proc: loaded otherwise, or refused for it",
              report["refusal"] in ("ok", "load") and
              (report["why"] or report["refusal"] == "ok"), report)
        rc = t.end()
        check("without a /proc: it ends by itself", rc == 0, rc)
    for mode in "012":
        with A.Target(["unshare", "--pid", "--mount", "--fork", "--mount-proc",
                       "/bin/sh", "-c", f"echo {mode} > "
                       "/proc/sys/vm/memfd_noexec; exec \"$@\"", "sh",
                       *odd]) as t:
            accepted(t, f"vm.memfd_noexec {mode}", inner(t, 1))


def make_root():
    """A root of its own with the program and its libraries; libc's path."""
    root, libc = os.path.join(T, "tree"), None
    out = subprocess.run(["ldd", A.program("stress_odd")], capture_output=True,
                         text=True, check=True).stdout
    for word in out.split():
        if word.startswith("/"):
            to = root + word
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(word, to)
            libc = to if "libc.so.6" in word else libc
    for d in ("proc", "tmp", "dev/shm"):
        os.makedirs(os.path.join(root, d), exist_ok=True)
    shutil.copy(A.program("stress_odd"), root)
    return root, libc


def other_root():
    root, libc = make_root()
    with A.Target(["chroot", root, "/stress_odd", "threads", "2"]) as t:
        report = A.inject(t.pid)
        check("chroot without a /proc: loaded otherwise, or refused for it",
              report["refusal"] in ("ok", "load") and
              (report["why"] or report["refusal"] == "ok"), report)
        left = [x for d in ("tmp", "dev/shm", "")
                for x in os.listdir(os.path.join(root, d)) if "moetop" in x]
        check("chroot without a /proc: no file is left behind", not left, left)
        rc = t.end()
        check("chroot without a /proc: it ends by itself", rc == 0, rc)
    start = ["unshare", "--mount", "/bin/sh", "-c",
             f"mount -t proc proc {root}/proc && exec chroot {root} "
             "/stress_odd threads 2"]
    with A.Target(start) as t:
        accepted(t, "chroot with a /proc")
    with A.Target(start) as t:
        shutil.copy(libc, libc + ".new")
        os.rename(libc + ".new", libc)
        with open(f"/proc/{t.pid}/maps", encoding="ascii") as f:
            deleted = "libc.so.6 (deleted)" in f.read()
        accepted(t, "its libc was replaced on the disk" if deleted else
                 "NOT its libc was replaced on the disk")


def forked():
    """A child has the parent's memory but not its agent."""
    with A.Odd("forks") as t:
        accepted(t, "before it forks", end=False)
        t.p.stdin.write("\n")
        t.p.stdin.flush()
        child = int(A.line_of(t.p.stdout).split()[1])
        check("a child has no ring and no agent's thread",
              A.until(lambda: not A.has_ring(child)) and
              not A.threads(child)["moetop"],
              (A.descriptors(child), A.threads(child)))
        report = A.inject(child)
        check("and can be given an agent of its own", report["refusal"] == "ok"
              and A.has_ring(child), report)
        got = A.reattach(child, 3), A.reattach(t.pid, 3)
        check("both sleep and rise", all(x["cycles"] == 3 for x in got), got)
        rc = t.end()
        check("the parent ends by itself", rc == 0, rc)


def execs():
    """It becomes another program while it is injected, a hundred times."""
    p = subprocess.Popen([A.program("stress_odd"), "execs", "100"], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    seen = []
    try:
        while A.alive(p.pid) and not A.line_of(p.stdout, 0):
            seen.append(A.probe(p.pid))
        check(f"{len(seen)} injections between 100 times of exec: it is there",
              A.alive(p.pid) and seen, seen[-2:])
        report = A.inject(p.pid)
        check("and can be given its agent in the end", report["refusal"] ==
              "ok", report)
        p.stdin.close()
        rc = p.wait(60)
        check("it ends by itself", rc == 0, rc)
    finally:
        p.kill()
        p.wait()


# ---- more than one -----------------------------------------------------------

def twice():
    with A.Odd("threads", 4) as t:
        accepted(t, "first", end=False)
        before = A.Census(t.pid)
        report = A.inject(t.pid)
        check("a second injection finds the agent",
              report["refusal"] == "present" and report["why"], report)
        unharmed(t, t.pid, before, "second")
    with A.Odd("threads", 4) as t:
        junk = os.path.join(T, "junk")
        with open(junk, "wb") as f:
            f.write(b"\x7fELF" + bytes(range(256)) * 64)
        for path in (junk, "/bin/true"):
            report = A.inject(t.pid, path)
            check(f"{os.path.basename(path)} is no agent of ours",
                  report["refusal"] == "image" and report["why"], report)
        accepted(t, "after two bad images")


def at_once():
    for n in range(4):
        with A.Odd("threads", 8) as t:
            reports = []
            both = [threading.Thread(
                target=lambda p=t.pid: reports.append(A.inject(p)))
                for _ in range(3)]
            for x in both:
                x.start()
            for x in both:
                x.join()
            names = sorted(r["refusal"] for r in reports)
            rings = [x for x in A.descriptors(t.pid) if "moetop-ring" in x]
            check(f"three at once ({n}): one agent, and two are told",
                  names.count("ok") == 1 and len(rings) == 1 and
                  A.descriptors(t.pid)[rings[0]] == 1 and
                  all(x in ("ok", "traced", "present", "busy") for x in names),
                  reports)
            rc = t.end()
            check(f"three at once ({n}): it ends by itself", rc == 0, rc)


try:
    other_programs()
    jemalloc()
    no_process()
    stopped_and_traced()
    seccomp()
    nobody_to_borrow()
    signals()
    namespaces()
    other_root()
    forked()
    execs()
    twice()
    at_once()
finally:
    shutil.rmtree(T)
tap.end()
