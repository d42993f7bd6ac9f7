"""streams.py - users of a completions server, and an exact log of what they saw

Each user has one connection after another and sends prompts as token ids; some
walk away in the middle of a stream, by FIN or by RST.
"""
import asyncio
import json
import os
import random
import socket
import struct


PROMPT_TOKENS = 16


class Totals:
    def __init__(self):
        self.started = self.completed = self.aborted = 0
        self.events = self.completed_tokens = 0


class User:
    def __init__(self, port, rng, totals):
        self.port, self.rng, self.totals = port, rng, totals
        self.reader = self.writer = None

    async def post(self, body):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port)
        data = json.dumps(body).encode()
        self.writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                          b"Content-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        await self.writer.drain()
        self.totals.started += 1
        status = await self.reader.readline()
        assert status.startswith(b"HTTP/1.1 200"), status
        while (await self.reader.readline()) != b"\r\n":
            pass

    async def chunk(self):
        n = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(n + 2))[:n]

    def arrived(self):
        """What has been sent to us and not been looked at yet."""
        self.writer.transport.pause_reading()
        data = bytes(self.reader._buffer)
        fd = os.dup(self.writer.get_extra_info("socket").fileno())
        with socket.socket(fileno=fd) as s:
            s.setblocking(False)
            try:
                while more := s.recv(1 << 16):
                    data += more
            except BlockingIOError:
                pass
        return data

    def leave(self):
        """Walk away; the server may have been done, and us slow to read."""
        rest = self.arrived()
        self.totals.events += rest.count(b"data: {")
        if rest.endswith(b"0\r\n\r\n"):
            self.totals.completed += 1
        else:
            self.totals.aborted += 1
        if self.rng.random() < .5:
            self.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.reader = self.writer = None

    async def stream(self, tokens, abort_ratio):
        leave_at = (self.rng.randint(1, tokens // 3)
                    if self.rng.random() < abort_ratio else None)
        await self.post({
            "model": "tiny-moe", "stream": True, "ignore_eos": True,
            "prompt": [self.rng.randrange(5, 500)
                       for _ in range(PROMPT_TOKENS)],
            "max_tokens": tokens})
        seen = 0
        while data := await self.chunk():
            events = data.count(b"data: {")  # not the end marker
            self.totals.events += events
            seen += events
            if leave_at and seen >= leave_at:
                return self.leave()
        self.totals.completed += 1
        self.totals.completed_tokens += tokens

    async def run(self, rounds, tokens, abort_ratio):
        for _ in range(rounds):
            await self.stream(tokens, abort_ratio)
        if self.writer:
            self.writer.close()


async def crowd(port, users, rounds, tokens, abort_ratio):
    totals = Totals()
    await asyncio.gather(*(
        User(port, random.Random(100 * users + i), totals).run(
            rounds, tokens, abort_ratio) for i in range(users)))
    return totals


def load(port, users, rounds, tokens, abort_ratio=0.15):
    return asyncio.run(crowd(port, users, rounds, tokens, abort_ratio))
