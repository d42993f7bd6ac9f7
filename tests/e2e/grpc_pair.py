#!/usr/bin/env python3
"""grpc_pair.py serve PORT | load PORT CHANNELS CALLS - both ends of remote calls

The server has methods of vLLM's and SGLang's services, with messages of bytes:
Generate streams as many as it is asked for, HealthCheck answers with one, and
what begins with "fail" fails.  It prints its log when standard input ends, the
clients what they did; both as one JSON object.
"""
import json
import random
import sys
import threading
import time
from concurrent import futures

import grpc

GENERATE = ("/vllm.grpc.engine.VllmEngine/Generate",
            "/sglang.grpc.scheduler.SglangScheduler/Generate")
HEALTH = "/vllm.grpc.engine.VllmEngine/HealthCheck"


# ---- the server ------------------------------------------------------------

calls = []  # method, messages, whole


def generate(request, context):
    call = ["generate", 0, False]
    calls.append(call)
    if request.startswith(b"fail"):
        call[2] = True
        context.abort(grpc.StatusCode.UNAVAILABLE, "as asked")
    for i in range(int(request)):
        call[1] += 1
        yield b"token" * (i % 7) if i % 10 else b"x" * 40000
        time.sleep(.004)
    call[2] = True


def health(_request, _context):
    calls.append(["health", 1, True])
    return b"well"


class Handlers(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method in GENERATE:
            return grpc.unary_stream_rpc_method_handler(generate)
        if details.method == HEALTH:
            return grpc.unary_unary_rpc_method_handler(health)
        return None


def serve(port):
    server = grpc.server(futures.ThreadPoolExecutor(60))
    server.add_generic_rpc_handlers([Handlers()])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    sys.stdin.read()
    server.stop(1).wait()
    print(json.dumps(calls))


# ---- the clients -----------------------------------------------------------

def channel_calls(channel, n, total, rng):
    for i in range(n):
        kind = rng.random()
        if kind < .25:
            channel.unary_unary(HEALTH)(b"?")
            total["probes"] += 1
            continue
        ask = channel.unary_stream(GENERATE[i % 2])
        if kind < .35:
            try:
                list(ask(b"fail"))
            except grpc.RpcError:
                total["failed"] += 1
            continue
        n_messages = rng.randint(10, 25) if kind > .6 else 1000000
        got = ask(b"%d" % n_messages)
        if kind <= .6:
            next(got)
            got.cancel()
            total["cancelled"] += 1
            continue
        assert len(list(got)) == n_messages
        total["completed"] += 1
        total["messages"] += n_messages


def load(port, channels, n):
    total = dict(completed=0, cancelled=0, failed=0, probes=0, messages=0)
    opened = [grpc.insecure_channel(f"127.0.0.1:{port}", [
        ("grpc.use_local_subchannel_pool", 1)]) for _ in range(channels)]
    threads = [threading.Thread(target=channel_calls, args=(
        c, n, total, random.Random(i))) for i, c in enumerate(opened * 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for c in opened:
        c.close()
    print(json.dumps(total))


if __name__ == "__main__":
    {"serve": serve, "load": load}[sys.argv[1]](*map(int, sys.argv[2:]))
