#!/usr/bin/python3
"""exporter_all.t - one exporter for every server of the machine

In a pid namespace of its own, so that these are all there are: servers that
come, end, come again, hang, and share a port number; started as a service
manager would, with a socket and a watchdog.
"""
# time limit: 600 s
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import scrape
import tap
from scrape import get, samples, wait
from tap import check

if os.environ.get("INSIDE") != "1":
    os.execvpe("unshare", ["unshare", "--pid", "--fork", "--mount-proc",
                           "--kill-child", sys.executable,
                           os.path.abspath(__file__)],
               dict(os.environ, INSIDE="1"))


def labels(line):
    """Of a sample whose values hold no quotes."""
    inner = line[line.index("{") + 1:line.rindex("}")]
    return dict(x.split("=", 1) for x in
                inner.replace('",', '"\n').replace('"', "").split("\n"))


def read(port):
    return samples(get(port)[1])


def family(port, name):
    """{server: value}"""
    return {labels(x)["server"]: float(x.rsplit(" ", 1)[1])
            for x in read(port) if x.startswith(name + "{")}


def agents(port):
    return [labels(x) for x in read(port)
            if x.startswith("moetop_agent_info{")]


def start_service(folder, *options):
    """moetop with a socket, and the manager's end of its notifications."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(f"{folder}/notify")
    manager.setblocking(False)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    fd = listener.fileno()
    log = open(f"{folder}/log", "w+")
    env = dict(os.environ, NOTIFY_SOCKET=f"{folder}/notify",
               WATCHDOG_USEC="1000000", LISTEN_FDS="1",
               MOETOP_PERIOD_MS="1500")

    def move():
        os.dup2(fd, 3)
        os.set_inheritable(3, True)

    top = scrape.start("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh",
                       f"{scrape.O}/moetop", "--all", "--headless",
                       "--listen", "1", *options, env=env, stderr=log,
                       preexec_fn=move, close_fds=False)
    return top, manager, listener.getsockname()[1], log


def notified(manager):
    out = []
    try:
        while True:
            out.append(manager.recv(200).decode())
    except BlockingIOError:
        return out


def two(port, a, b):
    vllm, sglang = f"vllm:{a}", f"sglang:{b}"
    got = wait(lambda: set(family(port, "moetop_target_up")) ==
               {vllm, sglang} and family(port, "moetop_layer_rows"))
    lines = read(port)
    check("both servers are there, by names that last", got, lines[:40])
    names = [x.rsplit(" ", 1)[0] for x in lines]
    check("no series twice", len(names) == len(set(names)))
    of = [labels(x) for x in lines if 'server="' in x]
    check("every series of a server says engine and model", all(
        x.get("engine") and x.get("model") for x in of) and
        {(x["engine"], x["model"]) for x in of} ==
        {("vllm", "qwen3-30b"), ("sglang", "mixtral-8x7b")},
        {(x.get("engine"), x.get("model")) for x in of})
    # which GPU a rank has NVML says, in a thread of its own
    got = wait(lambda: len(agents(port)) == 2 and all(
        "rank" in x and "gpu" in x for x in agents(port)))
    check("agents say rank and gpu", got, agents(port))
    # for a moment one may be less, between two requests of a user
    check("each has its own load", wait(lambda: family(
        port, "moetop_requests_in_flight") == {vllm: 8, sglang: 3}),
        family(port, "moetop_requests_in_flight"))
    page = json.loads(get(port, "/snapshot.json")[1])
    check("the JSON page is a list of both", {
        x["target"]["server"] for x in page["servers"]} == {vllm, sglang})
    return vllm, sglang


def one_hangs(port, sim, vllm, sglang):
    def made():
        """When the snapshots of both were."""
        ages, now = family(port, "moetop_snapshot_age_seconds"), time.time()
        return [now - ages.get(x, now) for x in (vllm, sglang)]

    os.kill(sim.pid, signal.SIGSTOP)
    before = time.time()
    check("a server that hangs holds up no other",
          wait(lambda: min(made()) > before + 3), (before, made()))
    os.kill(sim.pid, signal.SIGCONT)


def one_ends_and_comes_again(port, sim, sim_port, vllm, sglang):
    sim.kill()
    sim.wait()
    got = wait(lambda: family(port, "moetop_target_up").get(vllm) == 0)
    lines = [x for x in read(port) if f'server="{vllm}"' in x]
    check("of one that has ended only that is told", got and not any(
        "source=" in x for x in lines) and
        family(port, "moetop_target_up")[sglang] == 1, lines)
    scrape.start_sim("--port", str(sim_port), "--users", "8",
                     model="qwen3-30b")
    got = wait(lambda: family(port, "moetop_target_up").get(vllm) == 1)
    up = family(port, "moetop_target_up")
    check("started again it has its old name", got and len(up) == 2, up)


def same_port(port, number):
    scrape.start("unshare", "--net", "sh", "-c",
                 'ip link set lo up; exec "$@"', "sh",
                 f"{scrape.O}/sim/moetop-sim", "--model",
                 f"{scrape.ROOT}/sim/models/qwen3-30b.json", "--port",
                 str(number), stdout=subprocess.DEVNULL)
    got = wait(lambda: len(family(port, "moetop_target_up")) == 3)
    up = family(port, "moetop_target_up")
    check("two on one port number have two names", got and sum(
        x.startswith(f"vllm:{number}") for x in up) == 2, up)


def json_lines(sim):
    top = scrape.start(f"{scrape.O}/moetop", "--all", "--json", "--interval",
                       "0.3", "--no-inject", "--no-bpf",
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                       text=True)
    lines = []

    def read_until(condition):
        while not condition(lines):
            line = top.stdout.readline()
            if not line:
                return False
            lines.append(json.loads(line))
        return True

    def named(x):
        return {s["target"]["server"] for s in x}

    def of_sim(x):
        return [s for s in x if s["target"]["pid"] == sim.pid]

    check("--json --all prints a line for each",
          read_until(lambda x: len(named(x)) == 3), named(lines))
    sim.kill()
    sim.wait()
    told = read_until(lambda x: any(s["health"]["target_gone"]
                                    for s in of_sim(x)))
    n = len(lines)
    read_until(lambda x: len(x) > n + 6)
    top.send_signal(signal.SIGTERM)
    read_until(lambda x: False)
    last = of_sim(lines)
    check("the end of one is a line, and its last", top.wait(120) == 0 and
          told and
          [x["health"]["target_gone"] for x in last].count(True) == 1 and
          last[-1]["health"]["target_gone"], last[-2:])


def usage():
    for options in (["--all"], ["--all", "-p", "1", "--json"],
                    ["--all", "--headless"]):
        r = subprocess.run([f"{scrape.O}/moetop", *options],
                           capture_output=True, text=True, timeout=60)
        if r.returncode != 2 or r.stderr.count("\n") != 1:
            break
    check("--all needs somewhere to show them, and no -p",
          r.returncode == 2 and r.stderr.count("\n") == 1,
          (options, r.returncode, r.stderr))


def main():
    usage()
    with tempfile.TemporaryDirectory() as folder:
        top, manager, port, log = start_service(folder)
        ready = wait(lambda: get(port, "/readyz")[0] == 200)
        check("without a server it is ready, and says so to its manager",
              ready and any("READY=1" in x for x in notified(manager)))
        check("there is no server yet",
              'moetop_exporter_servers{state="watched"} 0' in read(port))
        # a port that is still there when it starts again
        vllm_sim, a = scrape.start_sim("--port", str(tap.free_port()),
                                       "--users", "8", model="qwen3-30b")
        sglang_sim, b = scrape.start_sim("--engine", "sglang", "--users", "3",
                                         model="mixtral-8x7b")
        names = two(port, a, b)
        one_hangs(port, vllm_sim, *names)
        one_ends_and_comes_again(port, vllm_sim, a, *names)
        same_port(port, a)
        check("the watchdog is fed", "WATCHDOG=1" in notified(manager))
        top.send_signal(signal.SIGTERM)
        check("it ends well, and says so", top.wait(120) == 0 and
              "STOPPING=1" in notified(manager))
        log.seek(0)
        said = log.read()
        check("the log is a few lines", 4 <= said.count("\n") <= 9 and
              "watched from now on" in said and "has ended" in said, said)
        json_lines(sglang_sim)
        scrape.end_all()
    tap.end()


if __name__ == "__main__":
    main()
