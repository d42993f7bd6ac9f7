#!/usr/bin/env python3
"""requests_app.py STREAMS STEP_MS - a FastAPI server that streams without end

What an engine does: a step every STEP_MS milliseconds, after which each stream
has an event to send; 0: the next step begins when the last one was sent.  The
streams are in ten groups, which have their steps one after the other, as those
of ten replicas would.  Every event says when its step was due.  uvicorn, uvloop,
httptools; prints its port when it listens.
"""
import asyncio
import json
import socket
import sys
import time

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

STREAMS, STEP_S = int(sys.argv[1]), float(sys.argv[2]) / 1e3
GROUPS = 10
PAD = "x" * 150

app = FastAPI()
groups = [[] for _ in range(GROUPS)]
state = {"streams": 0}


async def steps():
    due = time.monotonic()
    while True:
        for group in groups:
            due += STEP_S / GROUPS
            left = due - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            elif not STEP_S:
                due = time.monotonic()
                await asyncio.sleep(0)
            for queue in group:
                queue.put_nowait(int(due * 1e9))


@app.on_event("startup")
async def startup():
    state["steps"] = asyncio.get_event_loop().create_task(steps())


async def tokens():
    queue = asyncio.Queue()
    group = groups[state["streams"] % GROUPS]
    state["streams"] += 1
    group.append(queue)
    try:
        while True:
            due = await queue.get()
            yield "data: %s\n\n" % json.dumps({
                "t": due, "object": "chat.completion.chunk", "model": "m",
                "choices": [{"index": 0, "delta": {"content": PAD},
                             "logprobs": None, "finish_reason": None}]},
                separators=(",", ":"))
    finally:
        group.remove(queue)


@app.get("/health")
async def health():
    return {}


@app.post("/v1/completions")
async def completions():
    return StreamingResponse(tokens(), media_type="text/event-stream")


def main():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(1000)
    print(s.getsockname()[1], flush=True)
    config = uvicorn.Config(app, loop="uvloop", http="httptools",
                            log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[s])


if __name__ == "__main__":
    main()
