#!/usr/bin/env python3
"""requests_server.py [-s SECONDS] [-o OBSERVERS] [-k] [CASE...]

What it costs uvicorn (uvloop, httptools, FastAPI) to be watched, by
requests_cost.  Cases: 3000 and 20000 events/s, and full, which is as many as it
can send.  With -k what it costs who watches, at 20000 events/s and beside short
requests without a pause: requests_collector, and all of moetop without a
screen.  O is the build directory.  Needs root.
"""
import contextlib
import getopt
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
O = os.path.abspath(os.environ.get("O", "build"))
# streams, milliseconds between two events of one
CASES = {"3000": (60, 20), "20000": (400, 20), "full": (400, 0)}
ASK = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
STREAM = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
          b"Content-Length: 2\r\n\r\n{}")


@contextlib.contextmanager
def serving(case):
    streams, step_ms = CASES[case]
    server = subprocess.Popen(
        ["/usr/bin/python3", f"{HERE}/requests_app.py", str(streams),
         str(step_ms)], stdout=subprocess.PIPE, text=True)
    try:
        yield server.pid, int(server.stdout.readline()), streams
    finally:
        server.kill()
        server.wait()


def measure(case, seconds, observers):
    with serving(case) as (pid, port, streams):
        print(f"-- uvicorn, {streams} streams, {case} events/s", flush=True)
        return subprocess.run(
            [f"{O}/tests/bench/requests_cost", "-w", f"{pid}:{port}", "-c",
             str(streams), "-s", str(seconds), "-o", observers],
            check=False).returncode


def stream(port, streams):
    """Streams, read without a look at them."""
    poll, buffer = select.epoll(), bytearray(1 << 16)
    connections = {}
    for _ in range(streams):
        c = socket.create_connection(("127.0.0.1", port))
        c.sendall(STREAM)
        connections[c.fileno()] = c
        poll.register(c, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            connections[fd].recv_into(buffer)
        time.sleep(.01)


def ask(port):
    """One request after the other, for as many records."""
    with socket.create_connection(("127.0.0.1", port)) as c:
        while True:
            c.sendall(ASK)
            got = b""
            while not got.endswith(b"{}"):
                got += c.recv(4096)


@contextlib.contextmanager
def clients(port, streams):
    both = [multiprocessing.Process(target=stream, args=(port, streams)),
            multiprocessing.Process(target=ask, args=(port,))]
    for p in both:
        p.start()
    try:
        yield
    finally:
        for p in both:
            p.kill()
            p.join()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        field = f.read().rsplit(")", 1)[1].split()
    return (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")


def whole(pid, seconds):
    """All of moetop, with its requests read ten times a second."""
    moetop = subprocess.Popen(
        [f"{O}/moetop", "-p", str(pid), "--json", "--interval", "0.1",
         "--no-inject"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(5)
        begin, begin_s = cpu_s(moetop.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_s(moetop.pid) - begin) / (time.monotonic() - begin_s)
        print(f"all of moetop, ten times a second: {share:.2%} of a core")
    finally:
        moetop.kill()
        moetop.wait()


def collectors(seconds):
    with serving("20000") as (pid, port, streams):
        subprocess.run([f"{O}/tests/bench/requests_collector", str(port),
                        str(seconds)], check=True)
        with clients(port, streams):
            print(f"-- beside {streams} streams, 20000 events/s", flush=True)
            subprocess.run([f"{O}/tests/bench/requests_collector", str(port),
                            str(seconds)], check=True)
            whole(pid, seconds)


def main():
    options, cases = getopt.getopt(sys.argv[1:], "s:o:k")
    options = dict(options)
    seconds = int(options.get("-s", 60))
    if "-k" in options:
        return collectors(seconds)
    for case in cases or CASES:
        if measure(case, seconds, options.get("-o", "K")):
            sys.exit(1)


if __name__ == "__main__":
    main()
