"""attach_scenarios.py - what is done to each kind of target, and what must hold

Each function takes check(name, ok, detail) and a number of cycles; the tests of
`make test` call them with 50, tests/soak/ with 1000.
"""
import os
import random
import signal
import subprocess
import threading
import time

import attach_cycles as A
import tap

# what an agent that sleeps keeps
STUB = ("memfd:moetop-ring", "memfd:moetop-agent", "threads: moetop:")
# what the stress target opens, closes, loads and starts all the time
RESTLESS = ("eventpoll", "libresolv", "libanl", "libBrokenLocale", "ld.so.cache",
            "threads: stress_", "fds: /proc", "fds: pipe")


def say(text):
    print("# " + text, flush=True)


def pause_limits(check, pauses, name, wakes, p50_ms, p99_ms, share=.99):
    """The pauses against their limits, or where the machine itself is slower
    against a multiple of what as many wake-ups took at the same time."""
    own = {k: v / 1e3 for k, v in wakes.limits().items()}
    say(f"{name}: {pauses}")
    say(f"{name}: as many wake-ups: p50 {own['p50_us']:.3f} p90 "
        f"{own['p90_us']:.3f} p99 {own['p99_us']:.3f} ms")
    if p50_ms:
        limit = max(p50_ms, 8 * own["p50_us"])
        check(f"{name}: half of the pauses are at most {limit:.2f} ms",
              pauses.ms(.5) <= limit, str(pauses))
    if p99_ms:
        # of 50, one in a hundred is the longest of all
        share = share if len(pauses.good) >= 200 else .9
        limit = max(p99_ms, 3 * own["p99_us"])
        check(f"{name}: {share * 100:.0f} of 100 pauses are at most "
              f"{limit:.1f} ms", pauses.ms(share) <= limit, str(pauses))


def probes(pid, n, pauses, gap_s=0.0):
    """n injections of a library that keeps nothing, so that each is the first;
    BUSY is tried again, as moetop does."""
    for _ in range(n):
        for _ in range(3):
            report = A.probe(pid)
            if report["refusal"] != "busy":
                break
        pauses.add(report)
        time.sleep(gap_s)


def returns(check, pid, n, name, hold_ms=0):
    got = A.reattach(pid, n, hold_ms)
    say(f"{name}: {n} returns: rise p50 {got.get('rise_p50_us', 0) / 1e3:.1f} "
        f"p99 {got.get('rise_p99_us', 0) / 1e3:.1f}, asleep p50 "
        f"{got.get('sleep_p50_us', 0) / 1e3:.1f} p99 "
        f"{got.get('sleep_p99_us', 0) / 1e3:.1f} ms")
    check(f"{name}: {n} times risen and asleep again", got["cycles"] == n, got)


# ---- idle --------------------------------------------------------------------

def idle_once(pauses, wrong):
    with A.Odd("threads", 4) as t:
        before = A.Census(t.pid)
        report = pauses.add(A.inject(t.pid))
        got = A.reattach(t.pid, 1)
        later = A.asleep(t.pid)
        more = before.more(later, STUB)
        if (report["refusal"] != "ok" or got["cycles"] != 1 or more or
                later.threads["moetop"] != 1 or t.end() != 0):
            wrong.append((report, got, more, later.threads))


def idle(check, n):
    """New processes with four threads in poll."""
    pauses, wrong = A.Pauses(), []
    with A.Wakes() as wakes:
        for _ in range(n):
            idle_once(pauses, wrong)
        check(f"idle: {n} new processes injected; only the stub is more, and "
              "each ends by itself", not wrong, wrong[:3])
        pause_limits(check, pauses, "idle", wakes, 0.5, None)
    with A.Odd("threads", 4) as t:
        A.inject(t.pid)
        A.reattach(t.pid, 10)
        before = A.asleep(t.pid)
        returns(check, t.pid, n, "idle")
        later = A.asleep(t.pid)
        check("idle: nothing grows from the 10th return to the last",
              not before.more(later) and later.anonymous <= before.anonymous
              and later.rss_kb <= before.rss_kb + 1024,
              (before.more(later), before.anonymous, later.anonymous,
               before.rss_kb, later.rss_kb))
        rc = t.end()
        check("idle: it ends by itself", rc == 0, rc)


# ---- stress ------------------------------------------------------------------

def stress_verdict(check, t, name="stress"):
    """Its last words: nothing was wrong."""
    h, rc = t.last()
    bad = {k: h.get(k) for k in ("wrong", "registers", "arithmetic",
                                 "fork_hung", "foreign", "stuck")}
    check(f"{name}: no call, child, register or sum was wrong, none is stuck",
          rc == 0 and not any(bad.values()), (rc, bad, h.get("texts")))
    check(f"{name}: every one of {h.get('sent')} queued signals was handled",
          h.get("sent") and h["sent"] == h["handled"] and
          h["sent_sum"] == h["handled_sum"], h)
    want = h.get("elapsed_ms", 0) / 5
    check(f"{name}: the timer's {h.get('timer')} expiries were all delivered",
          abs(h.get("timer", 0) - want) <= max(200, want / 50), (want, h))
    check(f"{name}: no thread stood still for 5 s", h.get("still_ms", 9e9) <
          5000, h.get("still_ms"))
    say(f"{name}: {h.get('elapsed_ms', 0) / 1e3:.1f} s, still {h.get('still_ms')}"
        f" ms, late {h.get('late_ms')} ms, EINTR {h.get('eintr')}, ended "
        f"early {h.get('early')}, turns "
        f"{h.get('turns')}")


def stress(check, n):
    """64 threads in everything that takes locks; signals at 1 kHz."""
    pauses = A.Pauses()
    with A.Stress() as t, A.Wakes() as wakes:
        probes(t.pid, 10, pauses)
        before = A.quiet(t.pid)
        probes(t.pid, n - 10, pauses)
        later = A.quiet(t.pid)
        check(f"stress: {n} injections, none failed", not pauses.bad,
              pauses.bad[:3])
        more = before.more(later, RESTLESS)
        check("stress: nothing grows from the 10th to the last", not more, more)
        # pthread_create waits while another thread is in fork, which holds the
        # memory map: one in ten waits longer on a busy machine.
        pause_limits(check, pauses, "stress", wakes, None, 15, .9)
        report = A.inject(t.pid)
        check("stress: the agent is there", report["refusal"] == "ok", report)
        returns(check, t.pid, n, "stress")
        stress_verdict(check, t)


def stress_no_fork(check, n):
    """The same without the threads that fork."""
    pauses = A.Pauses()
    with A.Stress(forkers=0) as t, A.Wakes() as wakes:
        probes(t.pid, n, pauses)
        check(f"stress without fork: {n} injections, none failed",
              not pauses.bad, pauses.bad[:3])
        pause_limits(check, pauses, "stress without fork", wakes, None, 15)
        stress_verdict(check, t, "stress without fork")


def stress_new(check, n):
    """New processes that are under stress from the first moment."""
    pauses, wrong = A.Pauses(), []
    for _ in range(n):
        with A.Stress(30) as t:
            report = pauses.add(A.inject(t.pid))
            got = A.reattach(t.pid, 2)
            h, rc = t.last()
            if report["refusal"] != "ok" or got["cycles"] != 2 or rc != 0:
                wrong.append((report, got, rc, h))
    check(f"stress: {n} new processes injected, and none was harmed", not wrong,
          wrong[:2])
    say(f"stress, new processes: {pauses}")


# ---- short lives, and stops of its own ---------------------------------------

def short_lived(check, n):
    """Processes that end by themselves while they are injected."""
    rng, wrong, seen = random.Random(3), [], {}
    for _ in range(n):
        ms = rng.randint(5, 150)
        with A.Odd("short", ms) as t:
            wait_us(rng.random() * ms * 1e3)
            watch = tap.Watch()
            report = A.inject(t.pid)
            quick = watch.within(1.5)
            rc = t.p.wait(60)
        seen[report["refusal"]] = seen.get(report["refusal"], 0) + 1
        if (rc or not quick or
                report["refusal"] not in ("ok", "no-process", "busy")):
            wrong.append((ms, rc, report))
    say(f"short lives: {seen}")
    check(f"{n} processes of 5 to 150 ms: each ends as it would, and the answer "
          "comes at once", not wrong, wrong[:3])


class Storm:
    """SIGSTOP and SIGCONT, some hundred times a second."""

    def __init__(self, pid):
        self.pid, self.ending, self.count = pid, False, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        rng = random.Random(5)
        while not self.ending:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(rng.random() * 0.001)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(rng.random() * 0.002)
            self.count += 1

    def end(self):
        self.ending = True
        self.thread.join(5)
        os.kill(self.pid, signal.SIGCONT)


def stopped_often(check, n):
    """Stopped and continued by somebody else in the middle of it."""
    pauses, seen = A.Pauses(), {}
    with A.Odd("threads", 8) as t:
        storm = Storm(t.pid)
        try:
            for _ in range(n):
                report = pauses.add(A.probe(t.pid))
                seen[report["refusal"]] = seen.get(report["refusal"], 0) + 1
        finally:
            storm.end()
        other = [r for r in pauses.reports
                 if r["refusal"] not in ("ok", "stopped", "busy")]
        check(f"{n} injections between {storm.count} SIGSTOPs: each works or "
              "says why not", not other and pauses.good, (seen, other[:3]))
        running = A.until(lambda: A.status(t.pid, "State")[0] in "SR" and
                          not held(t.pid))
        check("continued at last, it runs", running, held(t.pid))
        works_after(check, t.pid, "stopped often")
        rc = t.end()
        check("stopped often: it ends by itself", rc == 0, rc)
    say(f"stopped often: {seen}")


def registers(check, n):
    """The one thread that can be borrowed has a value in every register."""
    pauses = A.Pauses()
    with A.Odd("registers") as t:
        probes(t.pid, n, pauses)
        t.p.stdin.close()
        line = A.line_of(t.p.stdout, 60)
        rc = t.p.wait(60)
    check(f"{n} injections through a thread that holds values in all registers:"
          f" {line.strip()}", line and rc == 0 and len(pauses.good) > n / 2,
          (line, rc, pauses.bad[:3]))


# ---- servers -----------------------------------------------------------------

def server(check, t, n, name, p99_ms):
    """Injections and returns into a server that is under load."""
    pauses = A.Pauses()
    with A.Wakes() as wakes:
        probes(t.pid, 10, pauses)
        before = A.quiet(t.pid)
        probes(t.pid, n - 10, pauses, 0.002)
        pause_limits(check, pauses, name, wakes, None, p99_ms)
    check(f"{name}: {n} injections, none failed", not pauses.bad,
          pauses.bad[:3])
    later = A.quiet(t.pid)
    more = before.more(later, ("socket",))
    check(f"{name}: nothing grows from the 10th to the last",
          not more and later.anonymous <= before.anonymous + 8,
          (more, before.anonymous, later.anonymous))
    report = A.inject(t.pid)
    check(f"{name}: the agent is there", report["refusal"] == "ok", report)
    A.reattach(t.pid, 10)
    before = A.asleep(t.pid)
    returns(check, t.pid, n, name)
    later = A.asleep(t.pid)
    more = before.more(later, ("socket",))
    check(f"{name}: nothing grows from the 10th return to the last",
          not more and later.anonymous <= before.anonymous + 8,
          (more, before.anonymous, later.anonymous))


def sim(check, n, users=200):
    """The simulated server under streams."""
    with A.Sim() as t:
        load = t.load(users)
        A.until(lambda: A.descriptors(t.pid)["socket"] >= users, 90)
        server(check, t, n, f"sim under {users} streams", 15)
        completed, failed = load.done()
        check("sim: no request failed, and it serves on",
              completed and not failed and A.alive(t.pid), load.total)
        say(f"sim: {completed} requests")


def uvicorn(check, n, users=60):
    """A real server: FastAPI, uvicorn, uvloop, httptools."""
    with A.Uvicorn() as t:
        check("uvicorn: it answers", t.up)
        load = t.load(users)
        A.until(lambda: load.good >= users, 90)
        server(check, t, n, f"uvicorn under {users} streams", 15)
        ended = load.done()
        check("uvicorn: no request failed, and it serves on",
              ended and load.good and not load.failed and t.answers(),
              (load.good, load.failed, load.why[:3]))
        say(f"uvicorn: {load.good} streams; gap of chunks p50 "
            f"{load.gap_ms(.5):.1f} p99 {load.gap_ms(.99):.1f} p99.9 "
            f"{load.gap_ms(.999):.1f} max {load.gap_ms(1):.1f} ms")
        # An event loop whose wait is begun again at each stop fires no timer
        # for as long as it is stopped again and again.
        check("uvicorn: no timer is starved (999 of 1000 gaps under 2 s)",
              load.gap_ms(.999) < 2000, load.gap_ms(.999))


def uvicorn_new(check, n, users=20):
    """New servers, each injected once while it serves streams."""
    pauses, wrong, good = A.Pauses(), [], 0
    for _ in range(n):
        with A.Uvicorn() as t:
            load = t.load(users)
            A.until(lambda: load.good >= users, 90)
            report = pauses.add(A.inject(t.pid))
            got = A.reattach(t.pid, 5)
            ended = load.done()
            good += load.good
            if (report["refusal"] != "ok" or got["cycles"] != 5 or not ended or
                    load.failed or not t.answers()):
                wrong.append((report, got, load.failed, load.why[:2]))
    check(f"uvicorn: {n} new servers injected under {users} streams; all "
          f"{good} requests answered", good and not wrong, wrong[:2])
    say(f"uvicorn, new servers: {pauses}")


# ---- killed ------------------------------------------------------------------

def held(pid):
    """Threads that are stopped or traced."""
    out = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            if (A.status(pid, "State", tid)[0] in "tT" or
                    A.status(pid, "TracerPid", tid) != "0"):
                out.append(tid)
        except (OSError, TypeError):
            pass
    return out


def wait_us(us):
    """Exactly; a sleep would round."""
    end = time.perf_counter() + us / 1e6
    while time.perf_counter() < end:
        pass


def free(pid):
    """True when no thread of pid is held any more."""
    return A.until(lambda: not held(pid), 60)


def kill_random(pid, n, spread_us, image=A.QUIET, seed=1):
    """SIGKILL to the injector at random moments.  How many it had not ended by
    itself before, and what was wrong with the target."""
    rng, hits, wrong = random.Random(seed), 0, []
    for i in range(n):
        p = subprocess.Popen([A.TOOL, image, str(pid)],
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        wait_us(rng.random() * spread_us)
        hits += p.poll() is None
        p.kill()
        p.wait()
        if not A.alive(pid):
            wrong.append(f"kill {i}: the target is dead")
            break
        if not free(pid):
            wrong.append(f"kill {i}: threads are held: {held(pid)}")
            break
    return hits, wrong


def kill_moments(pid, image=A.QUIET):
    """SIGKILL to the injector by itself, after each of its steps."""
    kills, wrong = 0, []
    steps = int(subprocess.run([A.TOOL, image, "list"], capture_output=True,
                               text=True, check=True).stdout)
    for step in range(steps):
        for _ in range(5):  # until a thread could be borrowed
            run = subprocess.run([A.TOOL, image, str(pid), "-d", str(step)],
                                 capture_output=True, check=False)
            if run.returncode == -signal.SIGKILL:
                break
        if not A.alive(pid) or not free(pid):
            wrong.append(f"step {step}: dead, or held: {held(pid)}")
            break
        if run.returncode != -signal.SIGKILL:
            wrong.append(f"step {step} is never reached: {run.stdout}")
        kills += run.returncode == -signal.SIGKILL
    return kills, wrong


CALLS = ("ptrace", "wait4", "process_vm_writev", "process_vm_readv",
         "pidfd_getfd", "futex", "fcntl", "ftruncate", "pwrite64", "mmap")


def kill_steps(pid, calls=CALLS, most=60, image=A.QUIET):
    """SIGKILL to the injector at its first, second, ... system call of each
    kind.  (kills, what was wrong)"""
    kills, wrong = 0, []
    for call in calls:
        for n in range(1, most):
            run = subprocess.run(
                ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                 "-e", f"inject={call}:signal=SIGKILL:when={n}", A.TOOL,
                 image, str(pid)], capture_output=True, check=False)
            if not A.alive(pid):
                return kills, wrong + [f"{call} {n}: the target is dead"]
            if not free(pid):
                return kills, wrong + [f"{call} {n}: held: {held(pid)}"]
            if run.returncode not in (-signal.SIGKILL, 137):
                break
            kills += 1
    return kills, wrong


def spread_us(pid):
    """How long one injection takes, from the start of its program."""
    took = [A.probe(pid)["seconds"] for _ in range(5)]
    return sorted(took)[2] * 1.1e6


def works_after(check, pid, name):
    report = A.inject(pid)
    got = A.reattach(pid, 3)
    check(f"{name}: a later attach works", report["refusal"] == "ok" and
          got["cycles"] == 3, (report, got))


def kill_idle(check, n):
    with A.Odd("threads", 4) as t:
        kills, wrong = kill_moments(t.pid)
        check(f"idle: the injector killed after each of {kills} steps",
              kills > 10 and not wrong, (kills, wrong))
        kills, wrong = kill_steps(t.pid)
        check(f"idle: and at each of {kills} system calls",
              kills > 20 and not wrong, (kills, wrong))
        hits, wrong = kill_random(t.pid, n, spread_us(t.pid))
        check(f"idle: and at {hits} of {n} random moments", hits and not wrong,
              (hits, wrong))
        works_after(check, t.pid, "idle")
        rc = t.end()
        check("idle: it ends by itself", rc == 0, rc)


def kill_stress(check, n):
    # A borrowed thread that has lost its tracer ends a timed call by EINTR.
    with A.Stress(early=n + 200) as t:
        hits, wrong = kill_random(t.pid, n, spread_us(t.pid))
        check(f"stress: the injector killed at {hits} of {n} random moments",
              hits and not wrong, (hits, wrong))
        kills, wrong = kill_moments(t.pid)
        check(f"stress: and after each of {kills} steps", kills > 10 and
              not wrong, (kills, wrong))
        kills, wrong = kill_steps(t.pid, ("ptrace",))
        check(f"stress: and at each of {kills} requests", kills and not wrong,
              (kills, wrong))
        works_after(check, t.pid, "stress")
        stress_verdict(check, t, "stress, injector killed")


def kill_sim(check, n, users=200):
    with A.Sim() as t:
        load = t.load(users)
        A.until(lambda: A.descriptors(t.pid)["socket"] >= users, 90)
        hits, wrong = kill_random(t.pid, n, spread_us(t.pid))
        check(f"sim under {users} streams: the injector killed at {hits} of {n} "
              "random moments", hits and not wrong, (hits, wrong))
        kills, wrong = kill_moments(t.pid)
        check(f"sim under {users} streams: and at each of {kills} steps",
              kills > 10 and not wrong, (kills, wrong))
        works_after(check, t.pid, "sim")
        completed, failed = load.done()
        check("sim: every request completed, and it serves on",
              completed and not failed and A.alive(t.pid), load.total)


# ---- with moetop itself ------------------------------------------------------

def t2(lines):
    """The agent's tier in the last line: "ok", or what it says."""
    if not lines:
        return "no line"
    tier = lines[-1]["health"]["tiers"]["T2"]
    return "ok" if tier["state"] == "ok" else (tier["what"] or tier["state"])


def moetop_works(pid, shows, tries=5):
    """moetop until `shows` holds of its lines, for longer on a busy machine."""
    for _ in range(tries):
        run, lines = A.moetop(pid, "--count", "8", "--interval", "0.5")
        if run.returncode or shows(lines):
            break
    return run, lines


def moetop_cycles(check, n, users=200):
    """`moetop -p`, which injects the first time and returns from then on."""
    with A.Sim() as t:
        load = t.load(users)
        A.until(lambda: A.descriptors(t.pid)["socket"] >= users, 90)
        wrong, stops, before = [], [], None
        for i in range(n):
            # the first time it must be there long enough to tell of it
            count = 2 if i else 16
            run, lines = A.moetop(t.pid, "--count", str(count), "--interval",
                                  "0.1" if i else "0.4")
            if run.returncode or len(lines) != count or run.stderr:
                wrong.append((i, run.returncode, run.stderr))
            for rank in lines[-1]["target"]["ranks"] if lines else []:
                if rank["attach"]:
                    stops.append((i, rank["attach"]["stops"]))
            if i == min(9, n - 2):
                before = A.asleep(t.pid)
        later = A.asleep(t.pid)
        check(f"moetop {n} times: its lines and status 0 each time", not wrong,
              wrong[:3])
        check("moetop: stops at the first attach, and never again",
              len({i for i, _ in stops}) == 1, stops[:5])
        more = before.more(later, ("socket",))
        check("moetop: nothing grows from the 10th time to the last",
              not more and later.anonymous <= before.anonymous + 8,
              (more, before.anonymous, later.anonymous))
        _, lines = moetop_works(t.pid, lambda x: x and x[-1]["layers"])
        check("moetop: and then shows kernel times", t2(lines) == "ok" and
              lines[-1]["layers"], t2(lines))
        completed, failed = load.done()
        check("moetop: no request failed, and it serves on",
              completed and not failed and A.alive(t.pid), load.total)
        say(f"moetop: {completed} requests")


def killed_moetop(pid, rng, at_end):
    """One that is killed: while it attaches and reads, or while it lets go.
    True when it had not ended by itself."""
    p = subprocess.Popen([A.MOETOP, "-p", str(pid), "--json", "--interval",
                          "0.1"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env=A.ENV)
    if at_end:
        p.stdout.readline()
        time.sleep(rng.random() * 0.3)
        p.send_signal(signal.SIGINT)
        wait_us(rng.random() * 30e3)
    else:
        time.sleep(rng.random() * 1.2)
    running = p.poll() is None
    p.kill()
    p.communicate()
    return running


def moetop_kills(check, n, users=200, each=10):
    """moetop killed n times, on a new server after every `each` times."""
    rng, hits, wrong, failed, completed = random.Random(7), 0, [], 0, 0
    for first in range(0, n, each):
        with A.Sim() as t:
            load = t.load(users)
            A.until(lambda: A.descriptors(t.pid)["socket"] >= users, 90)
            for i in range(first, min(n, first + each)):
                hits += killed_moetop(t.pid, rng, i % 3 == 2)
                if not A.alive(t.pid) or not free(t.pid):
                    wrong.append(f"kill {i}: dead, or held: {held(t.pid)}")
                    break
            time.sleep(2.1)  # the heartbeat of the one that was killed
            run, lines = moetop_works(t.pid, lambda x: t2(x) == "ok")
            if run.returncode or t2(lines) != "ok":
                wrong.append((first, run.returncode, run.stderr, t2(lines)))
            good, bad = load.done()
            completed, failed = completed + good, failed + bad
    check(f"moetop killed at {hits} of {n} random moments: the server lives, "
          "and a later attach works", hits > n / 3 and not wrong, wrong[:4])
    check(f"moetop killed: all of {completed} requests were answered",
          completed and not failed, failed)
