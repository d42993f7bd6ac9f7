#!/usr/bin/env python3
"""servers_app.py - one stand-in of an engine behind each HTTP server

As an ASGI application it is servers_app:app; as a program,

	servers_app.py PORT [KEY CERTIFICATE]

it serves the same by aiohttp.  It notes the start and end of every request with
CLOCK_MONOTONIC, the tracker's clock, and how many events it has sent.  GET /log
answers with all of it and is not in it.
"""
import asyncio
import json
import ssl
import sys
import time

now = time.monotonic_ns
requests = []  # path, start_ns, end_ns (0: open), events, whole
DATA = (b'data: {"id":"cmpl-1","object":"text_completion","model":"stand-in",'
        b'"choices":[{"index":0,"text":" token %06d","logprobs":null,'
        b'"finish_reason":null}]}\n\n')
DONE = b"data: [DONE]\n\n"
STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]


def begin(path):
    r = [path, now(), 0, 0, False]
    requests.append(r)
    return r


def log():
    return json.dumps(requests).encode()


async def stream(ask, r, write):
    """The events of a stream; write() sends one."""
    await asyncio.sleep(ask["ttft_us"] / 1e6)
    interval_s = ask["interval_us"] / 1e6
    due = asyncio.get_running_loop().time()
    for i in range(ask["events"]):
        if i:
            due += interval_s
            await asyncio.sleep(due - asyncio.get_running_loop().time())
        await write(DATA % i)
        r[3] += 1
    await write(DONE)


# ---- ASGI ------------------------------------------------------------------

async def read_all(receive):
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def watch(receive, task):
    """The client has left: the stream ends."""
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


async def send_whole(send, body):
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def send_stream(receive, send, ask, r):
    async def write(data):
        await send({"type": "http.response.body", "body": data,
                    "more_body": True})

    watcher = asyncio.ensure_future(watch(receive, asyncio.current_task()))
    try:
        await send({"type": "http.response.start", "status": 200,
                    "headers": STREAM})
        await stream(ask, r, write)
        await send({"type": "http.response.body", "body": b""})
    finally:
        watcher.cancel()


async def answer(path, receive, send, r):
    if path == "/health":
        await send_whole(send, b"{}")
        return
    ask = json.loads(await read_all(receive))
    if ask["stream"]:
        await send_stream(receive, send, ask, r)
    else:
        await asyncio.sleep(ask["ttft_us"] / 1e6)
        await send_whole(send, b'{"text":"%s"}' % (b"y" * ask["events"]))


async def lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["path"] == "/log":
        await send_whole(send, log())
    elif scope["type"] == "http":
        r = begin(scope["path"])
        try:
            await answer(scope["path"], receive, send, r)
            r[4] = True
        except (asyncio.CancelledError, OSError):
            pass  # the client has left
        finally:
            r[2] = now()


# ---- aiohttp ---------------------------------------------------------------

def serve_aiohttp(port, key=None, certificate=None):
    from aiohttp import web

    async def whole(body):
        return web.Response(body=body, content_type="application/json")

    async def chat(request, r):
        ask = await request.json()
        if not ask["stream"]:
            await asyncio.sleep(ask["ttft_us"] / 1e6)
            return await whole(b'{"text":"%s"}' % (b"y" * ask["events"]))
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await stream(ask, r, response.write)
        await response.write_eof()
        return response

    async def noted(request):
        """The handler has to end before aiohttp sends a whole answer."""
        r = begin(request.path)
        try:
            response = (await whole(b"{}") if request.path == "/health" else
                        await chat(request, r))
            if not response.prepared:
                await response.prepare(request)
                await response.write_eof()
            r[4] = True
            return response
        except OSError:
            return web.Response()  # the client has left
        finally:
            r[2] = now()

    async def show(_):
        return await whole(log())

    application = web.Application(client_max_size=1 << 30)
    application.add_routes([
        web.get("/log", show), web.get("/health", noted),
        web.post("/v1/chat/completions", noted)])
    tls = key and ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls:
        tls.load_cert_chain(certificate, key)
    web.run_app(application, host="127.0.0.1", port=port, print=None,
                access_log=None, handler_cancellation=True, ssl_context=tls)


if __name__ == "__main__":
    serve_aiohttp(int(sys.argv[1]), *sys.argv[2:4])
