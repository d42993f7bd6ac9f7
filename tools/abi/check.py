#!/usr/bin/env python3
"""Compare cupti/abi_releases.def with the headers of every CUPTI release.

usage: tools/abi/check.py [--update] DIR

Fetches each release into DIR (once), compiles a small program against its
headers, and makes the table anew in DIR.  Prints the difference and fails if
there is one; --update writes the table instead.  Also loads each release's
library and lists which functions of cupti/library.c it lacks.
"""
import ctypes
import difflib
import glob
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile

from facts import CRT_FOR_OLDER, NUMBERS, RECORDS, RELEASES

TABLE = "cupti/abi_releases.def"
HEAD = """/*
 * abi_releases.def - CUPTI's binary interface, release by release
 *
 * Made from NVIDIA's headers by `make abi-check UPDATE=1`; `make abi-check`
 * fetches them again and compares.  One line per fact: SAME, one value for all
 * releases, or EACH, one per release, in the order of the line `toolkit`
 * (1000 * major + 10 * minor); -1: the release does not have it.
 *
 * kernel, memcpy, memcpy2 and memset are the records that a release delivers:
 * the newest of their structures (X_record is its number).  X_sizeof is a size,
 * X_MEMBER an offset, NUMBER_X a constant.
 */
"""


def die(text):
    sys.exit(f"moetop: abi-check: {text}")


def fetch(package, wanted, folder):
    """Unpack headers and libcupti of a package into folder; its version."""
    wheels = folder + "/wheels"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps",
         "--disable-pip-version-check", "--only-binary", ":all:", "-d", wheels,
         package + wanted], capture_output=True, text=True)
    if done.returncode:
        die(f"cannot fetch {package}{wanted}: pip says: "
            f"{done.stderr.strip()[-200:]}")
    wheel = glob.glob(wheels + "/*.whl")[0]
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            _, slash, tail = name.partition("/include/")
            base = os.path.basename(name)
            if slash and base.endswith(".h"):
                target = f"{folder}/include/{tail}"
            elif base.startswith(("libcupti.so", "libnvperf_host.so")):
                target = f"{folder}/lib/{base}"
            else:
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with z.open(name) as source, open(target, "wb") as f:
                shutil.copyfileobj(source, f)
    shutil.rmtree(wheels)
    return os.path.basename(wheel).split("-")[1]


def release(folder, toolkit, cupti, runtime, crt):
    """The folder of a release, fetched when it is not there yet."""
    path = f"{folder}/{toolkit}"
    if os.path.exists(path + "/version"):
        return path
    print(f"  PYPI  {cupti} {toolkit}", flush=True)
    shutil.rmtree(path, ignore_errors=True)
    wanted = f"=={toolkit}.*"
    version = fetch(cupti, wanted, path)
    fetch(runtime, wanted, path)
    if crt:
        fetch(crt, wanted, path)
    else:
        fetch(CRT_FOR_OLDER, "", path)
    with open(path + "/version", "w", encoding="ascii") as f:
        f.write(version + "\n")
    return path


def bodies(text):
    """The members of every structure, by each of its names."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    out = {}
    for m in re.finditer(r"(typedef (?:\w+ )?)?\bstruct\b([^{};()]*)\{", plain):
        depth, at = 1, m.end()
        while depth and at < len(plain):
            depth += {"{": 1, "}": -1}.get(plain[at], 0)
            at += 1
        name = re.match(r"\s*(\w+)\s*;", plain[at:]) if m.group(1) else None
        tag = re.findall(r"\w+", m.group(2))[-1:]
        for n in tag + ([name.group(1)] if name else []):
            out[n] = plain[m.end():at]
    for m in re.finditer(r"typedef (?:\w+ )*?struct (\w+) (\w+);", plain):
        if m.group(1) in out:
            out[m.group(2)] = out[m.group(1)]
    return out


def newest(family, structs):
    number = max(int(n) for n in (re.fullmatch(family[:-1] + r"(\d+)", s) and
                                  s[len(family) - 1:] for s in structs) if n)
    return number, f"{family[:-1]}{number}"


def program(path):
    """Facts as (name, C expression or -1), in the order of facts.py."""
    text = ""
    for header in sorted(glob.glob(path + "/include/*.h")):
        base = os.path.basename(header)
        if "deprecated" in base or "profiler_host" in base:
            continue
        with open(header, encoding="utf-8", errors="replace") as f:
            text += f.read()
    structs = bodies(text)
    words = set(re.findall(r"\w+", text))
    facts = [("version", "CUPTI_API_VERSION")]
    for ours, theirs, members in RECORDS:
        if theirs.endswith("*"):
            number, theirs = newest(theirs, structs)
            facts.append((f"{ours}_record", str(number)))
        there = theirs in words
        body = set(re.findall(r"\w+", structs.get(theirs, "")))
        facts.append((f"{ours}_sizeof",
                      f"sizeof({theirs})" if there else "-1"))
        for member in members.split():
            facts.append((f"{ours}_{member}",
                          f"offsetof({theirs}, {member})"
                          if there and member in body else "-1"))
    for line in NUMBERS.strip().split("\n"):
        ours, theirs = line.split()
        facts.append((f"NUMBER_{ours}", theirs if theirs in words else "-1"))
    return facts


def ask(path):
    """Compile and run a program that prints the facts of one release."""
    facts = program(path)
    with open(path + "/facts.c", "w", encoding="ascii") as f:
        f.write("#include <stddef.h>\n#include <stdio.h>\n#include <cuda.h>\n"
                "#include <cupti.h>\nint main(void)\n{\n")
        for _, expression in facts:
            f.write(f'\tprintf("%ld\\n", (long)({expression}));\n')
        f.write("\treturn 0;\n}\n")
    subprocess.run([os.environ.get("CC", "cc"), "-w", "-isystem",
                    path + "/include", "-o", path + "/facts",
                    path + "/facts.c"], check=True)
    out = subprocess.run([path + "/facts"], check=True, capture_output=True,
                         text=True).stdout.split()
    return [name for name, _ in facts], out


def table(columns, versions):
    names = columns[0][0]
    toolkits = [str(1000 * int(a) + 10 * int(b)) for a, b in
                (r[0].split(".") for r in RELEASES)]
    lines = [HEAD]
    lines.append(textwrap.fill("of the packages " + ", ".join(versions), 76,
                               initial_indent="/* ", subsequent_indent=" * ") +
                 " */\n")
    lines.append(f"#define ABI_RELEASES {len(RELEASES)}\n")
    rows = [("toolkit", toolkits)]
    rows += [(name, [c[1][i] for c in columns])
             for i, name in enumerate(names)]
    for name, values in rows:
        if name.endswith("_sizeof") or name in ("toolkit",
                                                "NUMBER_kind_memcpy"):
            lines.append("\n")
        if len(set(values)) == 1:
            lines.append(f"SAME({name}, {values[0]})\n")
        else:
            lines.append(f"EACH({name},\n     {', '.join(values)})\n")
    return "".join(lines)


def wanted_symbols():
    with open("cupti/library.c", encoding="ascii") as f:
        found = re.findall(r'CUPTI_(SYM|OPT|V2)\(\w+,\s*"(\w+)"', f.read())
    return [(f"cupti{name}_v2" if kind == "V2" else f"cupti{name}",
             kind == "SYM") for kind, name in found]


def check_symbols(path):
    """Load a library: name what it lacks, True if any of that is needed."""
    lib = ctypes.CDLL(glob.glob(path + "/lib/libcupti.so*")[0])
    wanted = wanted_symbols()
    lost = [(s, needed) for s, needed in wanted if not hasattr(lib, s)]
    text = " ".join(("LACKS " if needed else "") + s for s, needed in lost)
    print(textwrap.fill(f"{os.path.basename(path)}: {len(wanted) - len(lost)} "
                        f"of {len(wanted)} functions" +
                        (f"; not {text}" if lost else ""), 79,
                        initial_indent="  LOAD  ",
                        subsequent_indent="        "), flush=True)
    return any(needed for _, needed in lost)


def check_libraries(paths):
    """Each library in a process of its own: they share a name."""
    bad = False
    for path in paths:
        pid = os.fork()
        if pid == 0:
            os._exit(check_symbols(path))
        bad |= os.waitpid(pid, 0)[1] != 0
    return bad


def main():
    args = [a for a in sys.argv[1:] if a != "--update"]
    update = len(args) != len(sys.argv) - 1
    if len(args) != 1:
        die("usage: tools/abi/check.py [--update] DIR")
    paths = [release(args[0], *r) for r in RELEASES]
    columns = [ask(p) for p in paths]
    versions = [open(p + "/version", encoding="ascii").read().strip()
                for p in paths]
    new = table(columns, versions)
    with open(args[0] + "/abi_releases.def", "w", encoding="ascii") as f:
        f.write(new)
    if update:
        shutil.copy(args[0] + "/abi_releases.def", TABLE)
    old = open(TABLE, encoding="ascii").read() if os.path.exists(TABLE) else ""
    diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), TABLE,
                                     "headers", lineterm=""))
    print("\n".join(diff), end="\n" if diff else "")
    lost = check_libraries(paths)
    if diff or lost:
        die(f"{TABLE} is not what the headers say" if diff else
            "a needed function is missing")
    print(f"  abi   {len(RELEASES)} releases, {len(columns[0][0])} facts, "
          f"as in {TABLE}")


if __name__ == "__main__":
    main()
