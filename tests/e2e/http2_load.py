#!/usr/bin/env python3
"""http2_load.py PORT CONNECTIONS STREAMS [tls] - clients that speak HTTP/2

Each connection has several streams at once, one after the other in each of its
lanes: probes, answers in one piece to prompts of up to 200 KB, and event streams;
some are reset in the middle, and some connections are left with streams open, by
FIN or by RST.  Prints what was done as one JSON object.
"""
import asyncio
import json
import random
import socket
import ssl
import struct
import sys

import h2.config
import h2.connection
import h2.events
import h2.exceptions

LANES = 6
TLS = None
if "tls" in sys.argv[4:]:
    TLS = ssl.create_default_context()
    TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
    TLS.set_alpn_protocols(["h2"])


class Connection:
    def __init__(self, port, streams, total, seed):
        self.port, self.left, self.total = port, streams, total
        self.rng = random.Random(seed)
        self.leaves, self.resets = seed % 2, seed // 2 % 2
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8"))
        self.queues = {}
        self.window = asyncio.Event()

    async def flush(self):
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def read(self):
        while data := await self.reader.read(65536):
            for e in self.h2.receive_data(data):
                if isinstance(e, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(
                        e.flow_controlled_length, e.stream_id)
                if isinstance(e, (h2.events.WindowUpdated,
                                  h2.events.RemoteSettingsChanged)):
                    self.window.set()
                queue = self.queues.get(getattr(e, "stream_id", None))
                if queue:
                    queue.put_nowait(e)
            await self.flush()

    async def send_body(self, stream, body):
        while body:
            n = min(self.h2.local_flow_control_window(stream),
                    self.h2.max_outbound_frame_size, len(body))
            if n <= 0:
                self.window.clear()
                await self.window.wait()
                continue
            self.h2.send_data(stream, body[:n], end_stream=n == len(body))
            body = body[n:]
            await self.flush()

    async def ask(self, method, path, body):
        stream = self.h2.get_next_available_stream_id()
        self.queues[stream] = asyncio.Queue()
        self.h2.send_headers(stream, [
            (":method", method), (":path", path), (":scheme", "http"),
            (":authority", "127.0.0.1"), ("user-agent", "http2_load"),
            ("x-request-id", str(self.rng.random()))], end_stream=not body)
        await self.flush()
        await self.send_body(stream, body)
        return stream

    async def hear(self, stream, leave_at=None):
        """Events of the answer; True: it was heard to its end."""
        events, queue = 0, self.queues[stream]
        while True:
            e = await queue.get()
            if isinstance(e, h2.events.DataReceived):
                events += e.data.count(b"data: {")
                if leave_at and events >= leave_at:
                    return events, False
            if isinstance(e, h2.events.StreamEnded):
                del self.queues[stream]
                return events, True
            assert not isinstance(e, h2.events.StreamReset), e

    async def lane(self):
        while self.left > 0:
            self.left -= 1
            kind = self.rng.random()
            if kind < .2:
                stream = await self.ask("GET", "/health", b"")
                await self.hear(stream)
                self.total["probes"] += 1
                continue
            streams = kind < .8
            leave_at = self.rng.randint(1, 4) if kind < .4 else None
            events = 1000000 if leave_at else self.rng.randint(8, 20)
            stream = await self.ask("POST", "/v1/chat/completions", json.dumps({
                "stream": streams, "events": events,
                "ttft_us": self.rng.randint(0, 50000), "interval_us": 5000,
                "prompt": "x" * (200000 if kind > .95 else 200)}).encode())
            _, whole = await self.hear(stream, leave_at)
            if not whole:
                del self.queues[stream]
                self.h2.reset_stream(stream, 8)
                await self.flush()
            self.total["completed" if whole else "resets"] += 1

    async def leave(self):
        """With two streams that have begun."""
        for _ in range(2):
            stream = await self.ask("POST", "/v1/chat/completions", json.dumps({
                "stream": True, "events": 1000000, "ttft_us": 0,
                "interval_us": 5000}).encode())
            await self.hear(stream, 1)
            self.total["left"] += 1
        if self.resets:
            self.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def run(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=TLS)
        self.h2.initiate_connection()
        await self.flush()
        reading = asyncio.ensure_future(self.read())
        await asyncio.gather(*(self.lane() for _ in range(LANES)))
        if self.leaves:
            await self.leave()
        else:
            self.h2.close_connection()
            await self.flush()
            self.writer.close()
        reading.cancel()


async def main(port, connections, streams):
    total = dict(completed=0, resets=0, probes=0, left=0)
    await asyncio.gather(*(Connection(port, streams, total, i).run()
                           for i in range(connections)))
    print(json.dumps(total))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
