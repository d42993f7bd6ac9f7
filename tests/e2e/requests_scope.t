#!/usr/bin/python3
"""requests_scope.t - every way in which a server may listen

Workers with a port each (SO_REUSEPORT) and with one socket for all, more ports
than are followed, IPv4 by an IPv6 socket, a socket that was opened by another process (uvicorn --fd), UNIX
sockets by path and by abstract name, ports that come later, and the network and
process namespaces of a container with moetop in it and outside; and a user with
the two capabilities that are enough.  What moetop counts is what the servers'
logs say.  Needs root.
"""
# time limit: 600 s
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import tap
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
WAIT_S = 120
PORTS_MAX = 64  # that moetop follows
PLAIN = "POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s"
CHAT = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" \
    "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


def chat(**ask):
    return json.dumps(dict(interval_s=.001, ttft_s=0, stream=True,
                           max_tokens=5, **ask))


def connect(address):
    if isinstance(address, str):
        s = socket.socket(socket.AF_UNIX)
        s.connect(address.replace("@", "\0"))
        return s
    return socket.create_connection(address[:2])


def hear(s, until, text=b""):
    while until not in text:
        b = s.recv(65536)
        if not b:
            raise RuntimeError(text)
        text += b


def use(address, users, ask, bodies):
    """Each user streams; some then leave in the middle of another stream."""
    whole, endless = bodies
    for i in range(users):
        s = connect(address)
        for _ in range(2):
            s.sendall((ask % (len(whole), whole)).encode())
            hear(s, b"0\r\n\r\n")
        if i % 3 == 0:
            s.sendall((ask % (len(endless), endless)).encode())
            hear(s, b"data:")
        s.close()
    return {"started": 2 * users + (users + 2) // 3, "completed": 2 * users,
            "client_aborted": (users + 2) // 3}


class Server:
    def __init__(self, tmp, name, *hows, prefix=()):
        self.log = os.path.join(tmp, name)
        self.p = subprocess.Popen([*prefix, PYTHON, f"{HERE}/scope_server.py",
                                   self.log, *hows], stdout=subprocess.PIPE,
                                  text=True, start_new_session=True)
        self.addresses = json.loads(self.p.stdout.readline())

    def later(self):
        self.addresses.update(json.loads(self.p.stdout.readline()))

    def counts(self):
        with open(self.log, encoding="ascii") as f:
            text = f.read()
        return {k: text.count(c) for k, c in
                zip(("started", "completed", "client_aborted"), "sca")}

    def stop(self):
        os.killpg(self.p.pid, signal.SIGKILL)
        self.p.wait()


class Moetop:
    def __init__(self, pid, prefix=(), env=None, program=f"{O}/moetop"):
        self.p = subprocess.Popen([*prefix, program, "-p", str(pid),
                                   "--json", "--interval", "0.2"],
                                  stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, **(env or {})))
        self.last = None

    def until(self, good):
        """The first snapshot that is good, None in vain."""
        end = time.monotonic() + WAIT_S
        for line in self.p.stdout:
            self.last = json.loads(line)
            if good(self.last):
                return self.last
            if time.monotonic() > end:
                break
        return None

    def counts(self, path="generation"):
        r = (self.last or {}).get("requests") or {}
        return r.get(path, {})

    def watches(self):
        return self.until(lambda s: s["health"]["tiers"]["T1"]["state"] ==
                          "ok" and s["requests"])

    def agrees(self, wanted):
        """wanted(): what the server, which may have to catch up, says."""
        return self.until(lambda s: s["requests"] and all(
            s["requests"]["generation"][k] == v for k, v in wanted().items()) and
            not any(s["requests"]["generation"][k] for k in
                    ("waiting", "streaming", "guessed")))

    def stop(self):
        self.p.kill()
        self.p.wait()


def judge(name, moetop, wanted):
    """wanted: what the clients did, or the server's log."""
    if isinstance(wanted, dict):
        return judge(name, moetop, lambda: wanted)
    ok = moetop.agrees(wanted)
    lost = moetop.last["health"]["lost"] if moetop.last else None
    check(name, ok and not lost["desyncs"] and not lost["calls"],
          (wanted(), moetop.counts(), lost))
    return ok


def in_scope(name, moetop, address):
    """A listener that has just come: probes, until one is counted.  What was
    counted is told by a snapshot that is younger than it."""
    def probes():
        now = time.time()
        moetop.until(lambda s: s["time"] > now)
        return moetop.counts("ignored").get("started")

    begin = time.monotonic()
    found, before = False, probes()
    while not found and time.monotonic() < begin + WAIT_S:
        s = connect(address)
        s.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        hear(s, b"{}")
        s.close()
        asked = time.monotonic() - begin
        found = probes() != before
    print(f"# {name}: in scope {asked:.1f} s after it began to listen")
    check(name, found, moetop.last)


def ports(tmp):
    server = Server(tmp, "ports", "reuseport", "prefork", "six", "late",
                    "late-again")
    moetop = Moetop(server.p.pid)
    try:
        check("workers: all ports are watched", moetop.watches(), moetop.last)
        both = server.addresses["prefork"][1]
        plain = (PLAIN, ("whole", "endless"))
        use(server.addresses["reuseport"], 24, *plain)
        use(("127.0.0.1", both), 12, *plain)
        use(("::1", both), 12, *plain)
        use(server.addresses["six"], 12, *plain)
        judge("SO_REUSEPORT, a socket for all workers, IPv6, IPv4 by IPv6",
              moetop, server.counts)
        server.p.send_signal(signal.SIGUSR1)
        server.later()
        server.later()
        in_scope("a worker that is born later", moetop,
                 server.addresses["late"])
        in_scope("a worker that listens later", moetop,
                 server.addresses["late-again"])
        use(server.addresses["late"], 6, *plain)
        use(server.addresses["late-again"], 6, *plain)
        judge("their requests are counted", moetop, server.counts)
    finally:
        moetop.stop()
        server.stop()


def too_many(tmp):
    """The lowest ports are followed, and that others are not is said."""
    server = Server(tmp, "many", f"many:{PORTS_MAX + 6}")
    moetop = Moetop(server.p.pid)
    try:
        s = moetop.watches()
        check("ports beyond what is followed are said",
              s and s["health"]["lost"]["listeners"] == 6 and
              "6 more of its listeners" in s["health"]["tiers"]["T1"]["what"],
              moetop.last)
        many = sorted(server.addresses[f"many:{PORTS_MAX + 6}"])
        for address in many:
            use(address, 1, PLAIN, ("whole", "endless"))
        judge("and the requests of the others are counted", moetop,
              {"started": 3 * PORTS_MAX, "completed": 2 * PORTS_MAX,
               "client_aborted": PORTS_MAX})
    finally:
        moetop.stop()
        server.stop()


def by_unix(tmp):
    path = os.path.join(tmp, "socket")
    name = f"@moetop-test-{os.getpid()}"
    server = Server(tmp, "unix", f"unix:{path}", f"unix:{name}")
    for rung in ("", "C"):
        moetop = Moetop(server.p.pid, env={"MOETOP_TRACKER": rung})
        try:
            s = moetop.until(lambda s: s["health"]["tiers"]["T1"]["what"] !=
                             "waiting")
            tier = s["health"]["tiers"]["T1"]
            if rung == "C":
                check("C says that a UNIX socket sends no packets",
                      tier["state"] == "missing" and
                      "sends no packets" in tier["what"], tier)
            elif tier["state"] != "ok":
                check(f"{rung}: not on this kernel: {tier['what']}", True)
            else:
                wanted = {"started": 0, "completed": 0, "client_aborted": 0}
                for a in (path, name):
                    for k, v in use(a, 12, PLAIN, ("whole", "endless")
                                    ).items():
                        wanted[k] += v
                judge(f"{rung or 'the best source'}: UNIX sockets, by path and "
                      "by abstract name",
                      moetop, wanted)
        finally:
            moetop.stop()
    server.stop()


def uvicorn(tmp, name, *options, **kwargs):
    """A real one, whose clients' list is the log."""
    env = dict(os.environ, PYTHONPATH=HERE)
    return subprocess.Popen(
        [PYTHON, "-m", "uvicorn", "uvicorn_app:log", "--log-level", "warning",
         "--loop", "uvloop", "--http", "httptools", *options], env=env,
        cwd=tmp, **kwargs)


def by_uvicorn(name, p, address):
    moetop = Moetop(p.pid)
    try:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                connect(address).close()
                break
            except OSError:
                time.sleep(.05)
        check(f"{name}: it is watched", moetop.watches(), moetop.last)
        wanted = use(address, 15, CHAT, (chat(), chat(endless=1).replace(
            '"max_tokens": 5', '"max_tokens": 10000000')))
        judge(f"{name}: requests are those of its clients", moetop, wanted)
    finally:
        moetop.stop()
        p.kill()
        p.wait()


def by_capabilities(tmp):
    """Nobody, with exactly the two capabilities."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    two = [*nobody, *(f"--{x}=-all,+bpf,+perfmon" for x in
                      ("inh-caps", "ambient-caps", "bounding-set"))]
    place = os.path.join(tmp, "nobody")
    os.mkdir(place)
    os.chmod(tmp, 0o755)
    os.chmod(place, 0o777)
    program = shutil.copy(f"{O}/moetop", place)
    server = Server(place, "log", "reuseport", prefix=nobody)
    for rung in ("", "S"):
        moetop = Moetop(server.p.pid, two, {"MOETOP_TRACKER": rung,
                                            "HOME": "/"}, program)
        name = f"CAP_BPF and CAP_PERFMON alone: {rung or 'the best source'}"
        try:
            wanted = None
            if moetop.watches():
                wanted = use(server.addresses["reuseport"], 6, PLAIN,
                             ("whole", "endless"))
                judge(name, moetop, wanted)
            else:
                check(name, False, moetop.last)
        finally:
            moetop.stop()
    server.stop()
    told = subprocess.run([*nobody, program, "doctor", "--json"], text=True,
                          capture_output=True, check=False, cwd="/",
                          env=dict(os.environ, HOME="/"))
    rungs = {x["id"]: x for x in json.loads(told.stdout)["checks"]
             if x["id"].startswith("rung.")}
    check("doctor names what each source needs",
          all("CAP_BPF + CAP_PERFMON" in json.dumps(rungs[f"rung.{r}"])
              for r in "KFPCS") and
          "CAP_NET_ADMIN" in json.dumps(rungs["rung.C"]), rungs)


def in_container(tmp):
    """Namespaces of its own for processes, network and mounts."""
    server = Server(tmp, "box", "reuseport", "six", prefix=[
        "unshare", "-pfn", "--mount-proc", "--kill-child", "sh", "-c",
        'ip link set lo up && exec "$@"', "-"])
    kids = subprocess.run(["pgrep", "-P", str(server.p.pid)], text=True,
                          stdout=subprocess.PIPE, check=True).stdout.split()
    enter = ["nsenter", "-t", kids[0], "-p", "-n", "-m", "--"]
    outside = Moetop(kids[0])
    inside = Moetop(1, enter)
    try:
        check("container: watched from outside and from inside",
              outside.watches() and inside.watches(),
              (outside.last, inside.last))
        subprocess.run([*enter, PYTHON, __file__, "use",
                        json.dumps([server.addresses["reuseport"],
                                    server.addresses["six"]])], check=True)
        judge("container: counted from outside", outside, server.counts)
        judge("container: and from inside, where pids are others", inside,
              server.counts)
    finally:
        outside.stop()
        inside.stop()
        server.stop()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        uds = os.path.join(tmp, "uds")
        by_path = uvicorn(tmp, "uds", "--uds", uds)
        opened = socket.create_server(("127.0.0.1", 0))
        os.set_inheritable(opened.fileno(), True)
        by_fd = uvicorn(tmp, "fd", "--fd", str(opened.fileno()),
                        pass_fds=[opened.fileno()])
        try:
            ports(tmp)
            too_many(tmp)
            by_unix(tmp)
            by_uvicorn("uvicorn --uds", by_path, uds)
            by_uvicorn("uvicorn --fd", by_fd, opened.getsockname())
            in_container(tmp)
            by_capabilities(tmp)
        finally:
            by_path.kill()
            by_fd.kill()
    tap.end()


if __name__ == "__main__":
    import sys
    if sys.argv[1:2] == ["use"]:
        for a in json.loads(sys.argv[2]):
            use(a, 12, PLAIN, ("whole", "endless"))
    else:
        main()
