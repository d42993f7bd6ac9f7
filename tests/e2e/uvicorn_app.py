#!/usr/bin/env python3
"""uvicorn_app.py PORT LOG [KEY CERTIFICATE] - a FastAPI server that knows its own load

The outermost ASGI middleware notes every start and end of a request with
CLOCK_MONOTONIC, which is the clock of the tracker, and when it began to send the
last bytes.  On SIGTERM all goes to LOG as JSON.
"""
import asyncio
import json
import sys
import time

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

app = FastAPI()
now = time.monotonic_ns


class Log:
    def __init__(self, inner):
        self.inner = inner
        self.requests = []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.inner(scope, receive, send)
        r = {"path": scope["path"], "start_ns": now(), "chunks": 0,
             "whole": False}
        self.requests.append(r)

        async def counting_send(message):
            if message["type"] == "http.response.body":
                body = message.get("body", b"")
                r["chunks"] += bool(body) and not body.startswith(
                    (b":", b"data: [DONE]"))
                r["whole"] = not message.get("more_body", False)
                r["last_ns"] = now()
            await send(message)

        try:
            await self.inner(scope, receive, counting_send)
        finally:
            r["end_ns"] = now()


log = Log(app)


@app.get("/health")
async def health():
    return {"ok": True}


async def tokens(n, interval_s, ttft_s):
    await asyncio.sleep(ttft_s)
    yield ": ping\n\n"
    for i in range(n):
        yield 'data: {"choices":[{"delta":{"content":"%d 0\\r\\n"}}]}\n\n' % i
        await asyncio.sleep(interval_s)
    yield "data: [DONE]\n\n"


@app.post("/v1/chat/completions")
async def chat(request: Request):
    ask = await request.json()
    n, interval_s = ask["max_tokens"], ask["interval_s"]
    if ask["stream"]:
        return StreamingResponse(tokens(n, interval_s, ask["ttft_s"]),
                                 media_type="text/event-stream")
    await asyncio.sleep(ask["ttft_s"])
    return JSONResponse({"choices": [{"text": "y" * n}]})


def main():
    port, path = int(sys.argv[1]), sys.argv[2]
    tls = dict(zip(("ssl_keyfile", "ssl_certfile"), sys.argv[3:]))
    uvicorn.run(log, host="127.0.0.1", port=port, loop="uvloop",
                http="httptools", log_level="warning", access_log=False, **tls)
    with open(path, "w") as f:
        json.dump({"requests": log.requests}, f)


if __name__ == "__main__":
    main()
