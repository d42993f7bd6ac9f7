#!/usr/bin/env python3
"""kernels.py - the request tracker in Debian's kernels, each in QEMU

usage: O=build tests/kernels/kernels.py [RELEASE...]      (make test-kernels)

Fetches the newest kernel of each release, boots it without KVM into an
initramfs that holds the tests of the tracker, and judges what they print: every
rung conforms or says why it is not for this kernel, and of a small load the
tracker counts what the server counts.  About two minutes a kernel.  Last comes
the table for the documentation.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import tap  # noqa: E402
from tap import check  # noqa: E402

O = os.path.abspath(os.environ.get("O", "build"))
WORK = os.path.join(O, "kernels")
# Debian's release that the kernel is taken from, the rung that it must choose, and
# those which it must not refuse.  5.10 has none: there are requests by the times
# of sockets only.
RELEASES = {"5.10": ("bullseye", "none", ""), "6.1": ("bookworm", "F", "fpcs"),
            "6.12": ("bookworm", "K", "fpcs")}
# The tests without a letter take the best rung that there is.
RUNGS = ["", "_f", "_p", "_c", "_s"]
TESTS = ["test_conformance", "test_conformance_unix", "test_tracker",
         "test_tracker_races"]
LIMIT_S = 900


def die(what):
    sys.exit(f"moetop: test-kernels: {what}")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        die(f"{command[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


# ---- kernels ------------------------------------------------------------------

def apt_options(suite):
    """Options of apt for a suite, with lists of their own."""
    state = os.path.join(WORK, "apt", suite)
    os.makedirs(os.path.join(state, "lists", "partial"), exist_ok=True)
    text = "".join(open(f, encoding="utf-8").read() for f in
                   glob.glob("/etc/apt/sources.list.d/*.sources") +
                   glob.glob("/etc/apt/sources.list") if os.path.exists(f))
    hosts = re.findall(r"(?:^URIs:|^deb(?: \[.*\])?) *(\S+)", text, re.M)
    if not hosts:
        die("no Debian mirror in /etc/apt")
    mirrors = sorted(set(hosts), key=lambda h: "security" in h)
    with open(os.path.join(state, "sources.list"), "w", encoding="utf-8") as f:
        key = glob.glob("/usr/share/keyrings/debian-archive-keyring.gpg")
        signed = f"[signed-by={key[0]}] " if key else ""
        f.write(f"deb {signed}{mirrors[0]} {suite} main\n")
        for host in mirrors:
            if "security" in host:
                f.write(f"deb {signed}{host} {suite}-security main\n")
    return ["-o", f"Dir::Etc::sourcelist={state}/sources.list",
            "-o", "Dir::Etc::sourceparts=/nonexistent",
            "-o", f"Dir::State::lists={state}/lists"]


def version_key(name):
    return [int(x) for x in re.findall(r"\d+", name)]


def kernel(release):
    """The path of vmlinuz, fetched when it is not there."""
    folder = os.path.join(WORK, release)
    there = glob.glob(f"{folder}/boot/vmlinuz-*")
    if there:
        return there[0]
    suite = RELEASES[release][0]
    options = apt_options(suite)
    run("apt-get", *options, "update", "-qq")
    names = [x.split()[0] for x in run(
        "apt-cache", *options, "search", "--names-only",
        rf"^linux-image-{re.escape(release)}\..*-cloud-amd64$").splitlines()]
    if not names:
        die(f"no package of Linux {release} in {suite}")
    name = max(names, key=version_key)
    print(f"# {name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    run("apt-get", *options, "download", "-qq", name, cwd=folder)
    run("dpkg-deb", "-x", glob.glob(f"{folder}/*.deb")[0], folder)
    shutil.rmtree(os.path.join(folder, "lib"), ignore_errors=True)
    return glob.glob(f"{folder}/boot/vmlinuz-*")[0]


# ---- the guest's system ---------------------------------------------------------

def libraries(program):
    env = dict(os.environ, LD_LIBRARY_PATH=f"{O}/sim/lib")
    text = subprocess.run(["ldd", program], capture_output=True, text=True,
                          env=env).stdout
    return re.findall(r"(?:=> )?(/\S+) \(0x", text)


def initramfs():
    root = os.path.join(WORK, "root")
    shutil.rmtree(root, ignore_errors=True)
    for d in ("bin", "proc", "sys", "dev", "tmp", "tests", "etc"):
        os.makedirs(os.path.join(root, d))
    busybox = shutil.which("busybox")
    if not busybox:
        die("no busybox; run: tools/deps.sh kernels")
    shutil.copy(busybox, f"{root}/bin/busybox")
    shutil.copy(os.path.join(HERE, "init"), f"{root}/init")
    os.chmod(f"{root}/init", 0o755)
    for d in ("models", "sequences"):
        shutil.copytree(f"{ROOT}/sim/{d}", f"{root}/bin/{d}")
    programs = {f"bin/{os.path.basename(p)}": p for p in
                (f"{O}/moetop", f"{O}/sim/moetop-sim",
                 f"{O}/tests/e2e/trackdump")}
    for t in TESTS:
        for rung in RUNGS:
            name = t + rung
            path = f"{O}/tests/unit/bpf/{name}"
            if os.path.exists(path):
                programs[f"tests/{name}"] = path
    for place, path in programs.items():
        shutil.copy(path, f"{root}/{place}")
        for lib in libraries(path):
            target = root + lib
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.realpath(lib), target)
            if lib.startswith(O):  # found by its name
                os.makedirs(f"{root}/lib", exist_ok=True)
                shutil.copy(lib, f"{root}/lib/{os.path.basename(lib)}")
    image = os.path.join(WORK, "initramfs.gz")
    subprocess.run("find . | cpio -o -H newc --quiet | gzip -1 > " + image,
                   shell=True, cwd=root, check=True)
    return image


# ---- a boot ----------------------------------------------------------------------

def boot(vmlinuz, image):
    """({name: (status, lines)}, all that the guest said)"""
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        die("no qemu-system-x86_64; run: tools/deps.sh kernels")
    try:
        text = subprocess.run(
            [qemu, "-accel", "tcg", "-cpu", "max", "-m", "1536", "-nographic",
             "-no-reboot", "-net", "none", "-kernel", vmlinuz, "-initrd",
             image, "-append", "console=ttyS0 quiet panic=-1"],
            stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        text = (e.stdout or b"").decode(errors="replace")
    told, name, lines = {}, None, []
    for line in text.replace("\r", "").splitlines():
        end = re.match(r"@ end (\d+)$", line)
        if end and name:
            told[name] = (int(end[1]), lines)
            name = None
        elif line.startswith("@ "):
            name, lines = line[2:], []
        elif name:
            lines.append(line)
    return told, text


def judge_tests(release, told):
    """Which rungs work here: {rung: "all tests", or why not}"""
    best = chosen(told)
    check(f"{release}: {best} is chosen", best == RELEASES[release][1],
          told.get("ladder", (1, []))[1])
    rungs = {}
    for rung in RUNGS:
        for t in TESTS:
            name = t + rung
            if name not in told:
                continue
            status, lines = told[name]
            absent = [x for x in lines if "not on this kernel" in x]
            if not rung and best == "none":
                continue
            bad = [x for x in lines if x.startswith("not ok")]
            refused = absent and rung[1:] in RELEASES[release][2]
            check(f"{release}: {name}", status == 0 and not bad and
                  not refused, "\n".join(lines[-25:]))
            if absent:
                rungs[rung] = absent[0].split(":", 1)[1].strip()
            else:
                rungs.setdefault(rung, "all tests")
    return {r[1:].upper() or "best": w for r, w in rungs.items()}


def judge_load(release, told):
    if chosen(told) == "none":
        return
    status, lines = told.get("load", (1, ["it did not run"]))
    tracker = [json.loads(x) for x in lines if x.startswith('{"before')]
    server = [list(map(int, x.split("\t")[2:])) for x in lines
              if x.startswith("T\t")]
    if not tracker or not server:
        check(f"{release}: a load is counted", False, "\n".join(lines[-10:]))
        return
    t, (started, completed, aborted, events, _) = tracker[-1], server[-1]
    ours = (t["started"][1], t["completed"][1],
            t["client_aborted"][1] + t["server_aborted"][1])
    check(f"{release}: {started} requests and {aborted} aborts are those that "
          "the server counts", status == 0 and started > 20 and
          ours == (started, completed, aborted) and
          t["waiting"][1] == t["streaming"][1] == t["desyncs"] == 0,
          (ours, server[-1], t))
    # What the server had queued for a connection that ended, it counts too.
    check(f"{release}: so are {events} events, but for those that an abort "
          "kept from the kernel",
          0 <= events - t["events"][1] <= 16 * aborted,
          (events, t["events"][1]))


def chosen(told):
    """The best rung that moetop doctor finds."""
    text = "".join(told.get("ladder", (1, []))[1])
    try:
        lines = json.loads(text[text.index("{"):])["checks"]
    except (ValueError, KeyError):
        return "?"
    good = {x["id"] for x in lines if x["state"] == "ok"}
    return next((r for r in "KFPCS" if f"rung.{r}" in good), "none")


def main():
    os.makedirs(WORK, exist_ok=True)
    image, rows = initramfs(), []
    for release in sys.argv[1:] or RELEASES:
        if release not in RELEASES:
            die(f"unknown release {release}; known: {' '.join(RELEASES)}")
        told, text = boot(kernel(release), image)
        name = re.search(r"@@ kernel (\S+)", text, re.M)
        check(f"{release}: it boots, runs the tests and ends",
              name and "@@ off" in text, text[-1500:])
        if not told:
            continue
        rungs = judge_tests(release, told)
        judge_load(release, told)
        rows.append((name[1] if name else release, chosen(told), rungs))
    for name, best, rungs in rows:
        print(f"# {name}: {best} is chosen; " + "; ".join(f"{r} {w}" for r, w in rungs.items()))
    tap.end()


main()
