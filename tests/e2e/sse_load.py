#!/usr/bin/env python3
"""sse_load.py PORT USERS ROUNDS [tls] - clients that stream, probe and walk away

Each user keeps one connection as long as it lasts and does ROUNDS times: a
health check, then a stream or a JSON completion; some leave a stream in the
middle by FIN or by RST; those would go on for hours.  On SIGTERM each ends when
its round does.  Prints what was done as one JSON object; "spans" has of each
request for tokens when its first byte was to be sent, when its last one had come
or it was left, in ns of CLOCK_MONOTONIC, and whether it was left.
"""
import asyncio
import json
import random
import signal
import socket
import ssl
import struct
import sys
import time

PROMPT = "word " * 40
ENDLESS = 1000000  # tokens
TLS = None
if "tls" in sys.argv[4:]:
    TLS = ssl.create_default_context()
    TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


class User:
    def __init__(self, port, rounds, total, rng, interval_s):
        self.port, self.rounds, self.total = port, rounds, total
        self.rng, self.interval_s = rng, interval_s
        self.reader = self.writer = None

    async def ask(self, method, path, body=b""):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=TLS)
        self.asked_ns = time.monotonic_ns()
        self.writer.write(b"%s %s HTTP/1.1\r\nHost: x\r\n"
                          b"Content-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n%s" %
                          (method, path, len(body), body))
        await self.writer.drain()
        return await self.head()

    async def head(self):
        status = await self.reader.readline()
        assert status.startswith(b"HTTP/1.1 200"), status
        length = None
        while (line := await self.reader.readline()) != b"\r\n":
            name, value = line.lower().split(b":", 1)
            if name == b"content-length":
                length = int(value)
        return length

    async def chunk(self):
        n = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(n + 2))[:n]

    def over(self, left=False):
        self.total["spans"].append((self.asked_ns, time.monotonic_ns(), left))

    def leave(self):
        self.over(True)
        if self.rng.random() < .5:
            self.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.total["resets"] += 1
        self.writer.transport.abort()
        self.reader = self.writer = None
        self.total["aborted"] += 1

    def pace(self, n, interval_s):
        """As uvicorn_app.py has it, and servers_app.py."""
        ttft_s = self.rng.random() * .2
        return {"max_tokens": n, "interval_s": interval_s, "ttft_s": ttft_s,
                "events": n, "interval_us": interval_s * 1e6,
                "ttft_us": ttft_s * 1e6}

    async def stream(self):
        n = self.rng.randint(8, 20)
        leave_at = self.rng.randint(1, 5) if self.rng.random() < .2 else None
        await self.ask(b"POST", b"/v1/chat/completions", json.dumps({
            "stream": True, "prompt": PROMPT,
            **self.pace(ENDLESS if leave_at else n, self.interval_s)}).encode())
        text, seen = b"", 0
        while data := await self.chunk():
            text += data  # a proxy cuts the stream where it likes
            seen = text.count(b"data: {")
            if leave_at and seen >= leave_at:
                return self.leave()
        assert seen == n, (seen, n)
        self.over()
        self.total["streams"] += 1

    async def completion(self):
        length = await self.ask(b"POST", b"/v1/chat/completions", json.dumps({
            "stream": False, **self.pace(500, 0)}).encode())
        await self.reader.readexactly(length)
        self.over()
        self.total["completions"] += 1

    async def probe(self):
        length = await self.ask(b"GET", b"/health")
        await self.reader.readexactly(length)
        self.total["probes"] += 1

    async def run(self, delay_s):
        await asyncio.sleep(delay_s)
        for _ in range(self.rounds):
            if self.total["enough"]:
                break
            await self.probe()
            await (self.completion() if self.rng.random() < .15 else
                   self.stream())
        if self.writer:
            self.writer.close()


async def main(port, users, rounds):
    total = dict(enough=False, streams=0, completions=0, probes=0, aborted=0,
                 resets=0, spans=[])
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: total.update(enough=True))
    rng = random.Random(users)
    interval_s = max(.02, users * .0004)
    # at most about 250 users a second arrive, so that accepting is no burst
    await asyncio.gather(*(User(port, rounds, total, random.Random(i),
                                interval_s).run(rng.random() * users / 250)
                           for i in range(users)))
    print(json.dumps(total))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
