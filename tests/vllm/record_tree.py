#!/usr/bin/env python3
"""record_tree.py PID DIR - what /proc says of a server's processes, as files.

One directory per process, one file per thing: cmdline, comm, stat, status,
cgroup, maps (objects of CUDA, torch and shared memory) and fd, one line each,
and, for the root, tcp: the sockets that the tree listens on.  Paths of
this machine are replaced by /srv, users by 1000; nothing else is changed, so
what a reader must cope with (NULs, padding, cut titles) stays.
"""
import os
import re
import sys


def read(pid, name):
    with open(f"/proc/{pid}/{name}", "rb") as f:
        return f.read()


def tree(root):
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = read(name, "stat")
            except OSError:
                continue
            parents[int(name)] = int(stat[stat.rindex(b")") + 2:].split()[1])
    found, more = [], [root]
    while more:
        pid = more.pop(0)
        found.append(pid)
        more += sorted(p for p, up in parents.items() if up == pid)
    return found


def scrub(text, cwd):
    text = text.replace(cwd.encode(), b"/srv")
    text = re.sub(rb"/(ro[o]t|ho[m]e/[^/\0 ]+)/", b"/srv/user/", text)
    text = re.sub(rb"(?m)^(\d+:[a-z_]*):/\S+$", rb"\1:/llm.slice", text)
    return re.sub(rb"(?m)^((?:Uid|Gid):).*$", rb"\1\t1000\t1000\t1000\t1000",
                  text)


def listening(root, pids):
    """The lines of net/tcp for sockets that the tree holds and listens on."""
    held = {os.readlink(f"/proc/{pid}/fd/{fd}")
            for pid in pids for fd in os.listdir(f"/proc/{pid}/fd")
            if os.path.islink(f"/proc/{pid}/fd/{fd}")}
    out = []
    for line in read(root, "net/tcp").splitlines():
        word = line.split()
        if word[3] == b"0A" and f"socket:[{word[9].decode()}]" in held:
            word[11] = b"0"
            out.append(b" ".join(word))
    return b"\n".join(out) + b"\n"


def links(pid):
    out = []
    for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            out.append(f"{fd} {os.readlink(f'/proc/{pid}/fd/{fd}')}")
        except OSError:
            continue
    return "\n".join(out).encode() + b"\n"


def objects(pid):
    paths = {line.split(None, 5)[5] for line in read(pid, "maps").splitlines()
             if len(line.split(None, 5)) == 6}
    keep = [p for p in paths if re.search(rb"cuda|libtorch|/dev/shm", p)]
    return b"\n".join(sorted(keep)) + b"\n"


def main():
    root, out = int(sys.argv[1]), sys.argv[2]
    cwd = os.readlink(f"/proc/{root}/cwd")
    pids = tree(root)
    for pid in pids:
        os.makedirs(f"{out}/{pid}", exist_ok=True)
        parts = {name: read(pid, name) for name in
                 ("cmdline", "comm", "stat", "status", "cgroup")}
        parts["fd"] = links(pid)
        parts["maps"] = objects(pid)
        if pid == root:
            parts["tcp"] = listening(root, pids)
        for name, text in parts.items():
            with open(f"{out}/{pid}/{name}", "wb") as f:
                f.write(scrub(text, cwd))


main()
