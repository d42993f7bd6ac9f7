#!/usr/bin/python3
"""tls_cost.py [CONNECTIONS [PAIRS]] - what a TLS server pays for being followed

uvicorn with uvloop and httptools streams to CONNECTIONS clients, 50 events a
second each; every phase has clients of its own.  In turns nothing looks on, the
tracker follows connections from their handshake, it comes when they are there
already (so that few are tied to their socket, in lockstep), and it does without
reading TLS, so that their records go by unread.  CPU time of the server per event,
each phase against that without before it: median of the differences, with a 95 %
bootstrap interval.  Needs root.
"""
import asyncio
import json
import os
import random
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
O = os.path.abspath(os.environ.get("O", "build"))
E2E = f"{HERE}/../e2e"
sys.path.insert(0, E2E)
from servers import accepts, certificate  # noqa: E402
from tap import free_port, wait_for  # noqa: E402

SETTLE_S, PHASE_S, HZ = 1, 2.5, 50


class Clients(threading.Thread):
    """Ask once, then count what comes."""

    def __init__(self, port, n):
        super().__init__(daemon=True)
        self.port, self.n, self.events = port, n, 0
        self.start()

    async def one(self, context):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context)
        body = json.dumps({"max_tokens": 10**6, "interval_s": 1 / HZ,
                           "ttft_s": 0, "stream": True}).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        try:
            while data := await reader.read(1 << 16):
                self.events += data.count(b"data: ")
        finally:
            writer.transport.abort()

    async def all(self):
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        await asyncio.gather(*(self.one(context) for _ in range(self.n)))

    def run(self):
        try:
            asyncio.run(self.all())
        except asyncio.CancelledError:
            pass

    def __enter__(self):
        end_s = time.monotonic() + 30
        while self.events < 3 * self.n and time.monotonic() < end_s:
            time.sleep(.05)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.task.cancel)
        self.join()


class Looks:
    """trackdump, while this is open."""

    def __init__(self, *args):
        self.p = subprocess.Popen(
            [f"{O}/tests/e2e/trackdump", *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            bufsize=1) if args else None

    def __enter__(self):
        if self.p:
            self.p.stdout.readline()
            self.last = ""
            self.t = threading.Thread(target=self.drain)
            self.t.start()
        return self

    def drain(self):
        for line in self.p.stdout:
            self.last = line

    def __exit__(self, *_):
        if self.p:
            self.p.stdin.close()
            self.t.join()
            self.p.wait()


def cpu_s(pid):
    return time.clock_gettime((~pid) << 3 | 2)


def phase(server, clients):
    """us of the server's CPU time per event."""
    time.sleep(SETTLE_S)
    cpu, events = cpu_s(server), clients.events
    time.sleep(PHASE_S)
    return (cpu_s(server) - cpu) * 1e6 / (clients.events - events)


def report(name, off, diff):
    resampled = sorted(
        statistics.median(random.choices(diff, k=len(diff)))
        for _ in range(2000))
    base, extra = statistics.median(off), statistics.median(diff)
    low, high = resampled[50], resampled[1949]
    print(f"{name}: {base:.1f} us per event without, {extra:+.2f} us "
          f"[{low:+.2f}, {high:+.2f}] with = {100 * extra / base:+.1f} % "
          f"[{100 * low / base:+.1f}, {100 * high / base:+.1f}], "
          f"{len(diff)} pairs")


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    port = free_port()
    with tempfile.TemporaryDirectory() as tmp:
        certificate(tmp)
        server = subprocess.Popen(
            ["/usr/bin/python3", f"{E2E}/uvicorn_app.py", str(port),
             f"{tmp}/log", f"{tmp}/key", f"{tmp}/cert"])
        try:
            wait_for("the server listens", lambda: accepts(port))
            measure(server.pid, port, n, pairs)
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def measure(pid, port, n, pairs):
    ways = {"from the handshake": (port, f"pid={pid}"),
            "older connections": (port, f"pid={pid}"),
            "records unread": (port,)}
    off, diff, paired = [], {name: [] for name in ways}, {}
    for _ in range(pairs):
        for name, args in ways.items():
            with Clients(port, n) as clients:
                off.append(phase(pid, clients))
                if name != "from the handshake":
                    with Looks(*args) as looks:
                        on = phase(pid, clients)
            if name == "from the handshake":
                with Looks(*args) as looks, Clients(port, n) as clients:
                    on = phase(pid, clients)
            diff[name].append(on - off[-1])
            last = json.loads(looks.last)
            paired[name] = (f"{last['tls_read']} of {last['tls']} tied, "
                            f"{last['events'][1]} events, desyncs "
                            f"{last['desyncs']}, missed {last['missed']}")
    for name in ways:
        report(name, off, diff[name])
        print(f"  at the end {paired[name]}")


if __name__ == "__main__":
    main()
