#!/usr/bin/python3
"""The simulated server from outside: HTTP, load, truth log, and its end."""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from tap import Watch, slowness

OUT = os.path.join(os.environ.get("O", "build"), "sim")
TESTS = 0
FAILED = 0


def check(good, what, detail=""):
    global TESTS, FAILED
    TESTS += 1
    print(f"{'ok' if good else 'not ok'} {TESTS} - {what}")
    if not good:
        FAILED += 1
        print(f"# {detail}")


def poll(seconds, probe):
    """The first true value of probe() within seconds, else its last."""
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


class Server:
    def __init__(self, *options):
        self.truth = tempfile.NamedTemporaryFile(suffix=".truth")
        self.process = subprocess.Popen(
            [f"{OUT}/moetop-sim", "--model", "sim/models/qwen3-30b.json",
             "--gpu", "H200", "--port", "0", "--truth", self.truth.name,
             *options], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("moetop-sim: listening on 127.0.0.1:"):
            print(f"Bail out! the server did not start: {line!r}")
            sys.exit(1)
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, body)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r, text

    def post(self, path, **fields):
        return self.ask("POST", path, json.dumps(fields))

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return s

    def metric(self, name):
        for line in self.ask("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        return None

    def idle(self):
        return (self.metric("vllm:num_requests_running") == 0 and
                self.metric("vllm:num_requests_waiting") == 0)

    def load(self, *options):
        out = subprocess.run(
            [f"{OUT}/moetop-load", "--url", f"http://127.0.0.1:{self.port}",
             *options], stdout=subprocess.PIPE, text=True, timeout=120)
        return json.loads(out.stdout)

    def lines(self, kind):
        with open(self.truth.name) as f:
            for line in f:
                words = line.split()
                if words[0] == kind:
                    yield words[1:]

    def end(self):
        """SIGTERM; (exit status, the time that it took)."""
        watch = Watch()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return status, watch.stop()

    def totals(self):
        last = list(self.lines("T"))[-1]
        names = ("started", "completed", "aborted", "events", "failed")
        return dict(zip(names, map(int, last[1:])))


def request_bytes(path, fields, version="1.1"):
    body = json.dumps(fields)
    return (f"POST {path} HTTP/{version}\r\nHost: x\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def read_chunks(f):
    """Head lines and the chunks of one response."""
    head = []
    while (line := f.readline().rstrip(b"\r\n")):
        head.append(line.decode().lower())
    chunks = []
    while (size := int(f.readline(), 16)):
        chunks.append(f.read(size))
        assert f.readline() == b"\r\n"
    assert f.readline() == b"\r\n"
    return head, chunks


# ---- the pages ---------------------------------------------------------------

def test_pages(s):
    r, text = s.ask("GET", "/health")
    check(r.status == 200 and text == b"", "health is 200 and empty")
    r, text = s.ask("GET", "/v1/models")
    m = json.loads(text)["data"][0]
    check(m["root"] == "sim/models/qwen3-30b.json" and
          m["max_model_len"] == 40960,
          "models name the config and the context", m)
    check("version" in json.loads(s.ask("GET", "/version")[1]), "version")
    check(s.ask("GET", "/nope")[0].status == 404, "unknown page is 404")
    check(s.ask("GET", "/v1/completions")[0].status == 405,
          "GET of a generation is 405")
    r, text = s.ask("POST", "/v1/completions", "{nonsense")
    check(r.status == 400 and "not JSON" in json.loads(text)["error"]["message"],
          "bad JSON is 400 and says so", text)
    r, _ = s.post("/v1/completions", prompt="x", max_tokens=10 ** 6)
    check(r.status == 400, "more than the context is 400")
    promtool = subprocess.run(["promtool", "check", "metrics"],
                              input=s.ask("GET", "/metrics")[1],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # The engine's own names are not to promtool's taste; that is all it says.
    said = promtool.stdout.decode().splitlines()
    check(all(not x or "should not" in x for x in said),
          "promtool can read the metrics", said)


def test_large_body(s):
    r = b""
    with s.connect() as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 9000000\r\n\r\n")
        try:
            r = c.recv(4096)
        except OSError:
            pass
    check(b" 413 " in r.split(b"\r\n")[0], "a body above 8 MB is 413", r[:80])
    r, text = s.post("/v1/completions", prompt=[1] * 30000, max_tokens=1)
    check(r.status == 200 and
          json.loads(text)["usage"]["prompt_tokens"] == 30000,
          "a prompt of several steps is answered", text[:200])


# ---- responses ---------------------------------------------------------------

def test_whole(s):
    r, text = s.post("/v1/completions", prompt="one two", max_tokens=5,
                     ignore_eos=True)
    j = json.loads(text)
    check(r.getheader("content-length") == str(len(text)) and
          j["choices"][0]["finish_reason"] == "length" and
          j["usage"]["completion_tokens"] == 5,
          "an answer that does not stream has its length", text)
    r, text = s.post("/v1/chat/completions",
                     messages=[{"role": "user", "content": "hi"}],
                     max_tokens=2, ignore_eos=True)
    check(json.loads(text)["choices"][0]["message"]["role"] == "assistant",
          "chat answers as the assistant", text)


def tokens_of(chunks):
    """A token is a word; those that wait for a late writer share an event."""
    return sum(len(c["text"].split()) for x in chunks[:-1]
               for c in json.loads(x[6:])["choices"])


def test_stream(s):
    fields = {"prompt": "x", "max_tokens": 6, "stream": True,
              "ignore_eos": True, "stream_options": {"include_usage": True}}
    with s.connect() as c, c.makefile("rb") as f:
        for turn in ("first", "second on the same connection"):
            c.sendall(request_bytes("/v1/completions", fields))
            head, chunks = read_chunks(f)
            tokens = tokens_of(chunks)
            check("transfer-encoding: chunked" in head and
                  "content-type: text/event-stream; charset=utf-8" in head,
                  f"{turn} stream: head", head)
            check(all(x.startswith(b"data: ") and x.endswith(b"\n\n")
                      for x in chunks), f"{turn} stream: a chunk is an event")
            check(chunks[-1] == b"data: [DONE]\n\n" and tokens == 6,
                  f"{turn} stream: each token in an event, then [DONE]", chunks)
            check(json.loads(chunks[-2][6:])["usage"]["completion_tokens"] == 6,
                  f"{turn} stream: usage on request")


def test_head_comes_first(s):
    """A long prompt delays the first token, not the head.  Whoever looks late
    finds both: one look in ten must do."""
    for _ in range(10):
        with s.connect() as c:
            c.sendall(request_bytes("/v1/completions", {
                "prompt": [1] * 40000, "max_tokens": 1, "stream": True}))
            first = whole = c.recv(65536)
            while b"[DONE]" not in whole:
                more = c.recv(65536)
                if not more:
                    break
                whole += more
        if b"data:" not in first:
            break
    check(first.startswith(b"HTTP/1.1 200") and b"data:" not in first,
          "the head is sent before the first token", first)


def test_pipelining(s):
    fields = {"prompt": "x", "max_tokens": 3, "stream": True,
              "ignore_eos": True}
    with s.connect() as c, c.makefile("rb") as f:
        c.sendall(2 * request_bytes("/v1/completions", fields))
        got = [read_chunks(f)[1] for _ in range(2)]
    check([tokens_of(x) for x in got] == [3, 3] and
          all(x[-1] == b"data: [DONE]\n\n" for x in got), "a request sent ahead waits for its turn", got)


def test_http_1_0(s):
    with s.connect() as c, c.makefile("rb") as f:
        c.sendall(request_bytes("/v1/completions", {
            "prompt": "x", "max_tokens": 2, "stream": True}, "1.0"))
        text = f.read()
    check(text.endswith(b"data: [DONE]\n\n") and b"chunked" not in text,
          "HTTP/1.0 gets no chunks", text)


def test_curl(s):
    out = subprocess.run(
        ["curl", "-sN", "-m", "60", "-d",
         '{"prompt":"x","max_tokens":4,"stream":true,"ignore_eos":true}',
         f"http://127.0.0.1:{s.port}/v1/completions"],
        stdout=subprocess.PIPE, text=True).stdout
    chunks = [x.encode() for x in out.strip().split("\n\n")]
    check(tokens_of(chunks) == 4 and out.endswith("data: [DONE]\n\n"),
          "curl gets its events", out)


def test_abort_is_noticed(s):
    for stream in (True, False):
        with s.connect() as c:
            c.sendall(request_bytes("/v1/completions", {
                "prompt": "x", "max_tokens": 30000, "stream": stream,
                "ignore_eos": True}))
            running = poll(60, lambda: not s.idle())
        gone = poll(60, s.idle)
        check(running and gone, "a request whose client leaves is dropped, " +
              ("streamed" if stream else "waiting for a whole answer"))


# ---- load and truth ----------------------------------------------------------

def test_load(s):
    load = s.load("--users", "50", "--output-tokens", "40", "--duration",
                  str(3 * slowness()), "--abort-ratio", "0.25", "--json-ratio", "0.1",
                  "--chat-ratio", "0.3", "--health-ratio", "0.1",
                  "--large-prompts", "0.01", "--drain", "60", "--seed", "5")
    check(load["failed"] == 0 and load["dropped"] == 0,
          "no request of the load fails", load)
    check(load["aborted"] >= 3 and load["completed"] >= 20 and
          load["health"] >= 1, "the load is mixed as asked", load)
    check(poll(60, s.idle), "the server is idle after the load")
    return load


def check_counts(s, load, before):
    after = s.totals()
    for name in ("started", "completed", "aborted"):
        check(after[name] - before[name] == load[name],
              f"load and server agree on requests {name}",
              f"{before} {after} {load}")
    # What was on its way to a client that had just left counts for the server;
    # an answer has at most 40 and [DONE].
    extra = after["events"] - before["events"] - load["events"]
    check(0 <= extra <= 41 * load["aborted"], "and on events",
          f"{extra} {load}")
    check(after["started"] == after["completed"] + after["aborted"],
          "every request ended", after)


def check_steps(s, prompt_and_output):
    k, layers = 8, {}
    steps = {int(w[0]): w[1:] for w in s.lines("S")}
    bad = []
    for w in s.lines("L"):
        step, layer, rows, active, single, block, expert, before = map(
            int, w[:8])
        tokens = int(steps[step][3])
        layers[step] = layers.get(step, 0) + 1
        if not (rows == k * tokens and 0 < active <= min(rows, 128) and
                single <= active and 0 < expert < block and before > 0):
            bad.append(w)
    check(not bad, "rows = tokens x k in every layer, times above 0", bad[:3])
    check(set(layers) == set(steps) and set(layers.values()) == {48},
          "every step has all 48 layers")
    check(all(int(w[4]) >= int(w[3]) and int(w[1]) > int(w[0])
              for w in steps.values()), "padding and times of steps")
    ends = [(int(w[0]), int(w[1])) for w in
            (steps[i] for i in sorted(steps))]
    check(all(a[1] <= b[0] for a, b in zip(ends, ends[1:])),
          "steps follow one another")
    check(any(w[5] == "1" for w in steps.values()) and
          any(w[2] == "prefill" for w in steps.values()) and
          all(w[2] == "decode" for w in steps.values() if w[5] == "1"),
          "decode steps replay graphs, prefill does not")
    warm_up = int(steps[0][3])
    check(sum(int(w[3]) for w in steps.values()) - warm_up ==
          prompt_and_output, "tokens of steps are those of the engine",
          f"{prompt_and_output}")


def check_in_flight(s):
    rows = [tuple(map(int, w)) for w in s.lines("F")]
    check(rows and all(0 <= w <= n for _, n, w in rows) and
          rows[-1][1:] == (0, 0), "in flight is never negative and ends at 0",
          rows[-1:])
    check(40 <= max(n for _, n, _ in rows) <= 50,
          "most of 50 users were in flight at once")
    check(all(abs(a[1] - b[1]) <= 1 for a, b in zip(rows, rows[1:])),
          "it changes by one")


def test_end_under_load():
    s = Server("--users", "1:0.3,40", "--output-tokens", "2000")
    seen = poll(60, lambda: s.metric("vllm:num_requests_running") >= 40)
    check(seen, "the built-in load follows its schedule")
    status, watch = s.end()
    check(status == 0 and watch.within(2.5),
          "SIGTERM under load: exit 0 within 2 s", f"{status} {watch.seconds()}")
    t = s.totals()
    check(t["started"] == t["completed"] + t["aborted"] >= 40,
          "requests that were cut off count as aborted", t)


def test_duration():
    s = Server("--eager", "--engine", "sglang", "--duration", "0.5")
    r, text = s.post("/generate", text="x",
                     sampling_params={"max_new_tokens": 3, "ignore_eos": True})
    check(json.loads(text)["meta_info"]["completion_tokens"] == 3,
          "SGLang's own path answers", text)
    check(b"sglang:num_running_reqs{" in s.ask("GET", "/metrics")[1],
          "SGLang's metrics")
    try:
        status = s.process.wait(60)
    except subprocess.TimeoutExpired:
        s.process.kill()
        status = None
    check(status == 0, "--duration ends it with status 0")
    check(all(w[6] == "0" for w in s.lines("S")), "--eager replays no graph")


def test_refusals():
    for options, word in ((["--backend", "nowhere"], "nowhere"),
                          (["--gpu", "V100"], "V100"),
                          (["--host", "nowhere"], "nowhere"),
                          (["--model", "README.md"], "README.md")):
        out = subprocess.run(
            [f"{OUT}/moetop-sim", "--model", "qwen3-30b", "--port", "0",
             *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, timeout=60)
        err = out.stderr.strip().splitlines()
        check(out.returncode in (1, 2) and len(err) == 1 and word in err[0],
              f"{' '.join(options)} is refused in one line", err)


def main():
    s = Server()
    try:
        test_pages(s)
        test_large_body(s)
        test_whole(s)
        test_stream(s)
        test_head_comes_first(s)
        test_pipelining(s)
        test_http_1_0(s)
        test_curl(s)
        test_abort_is_noticed(s)
        now = time.monotonic_ns()
        poll(60, lambda: any(int(w[0]) > now for w in s.lines("T")))
        before = s.totals()
        load = test_load(s)
        tokens = s.metric("vllm:iteration_tokens_total_sum")
        status, watch = s.end()
        check(status == 0 and watch.within(2.5), "SIGTERM: exit 0 within 2 s",
              f"{status} {watch.seconds()}")
        check_counts(s, load, before)
        check_steps(s, tokens)
        check_in_flight(s)
    finally:
        s.process.kill()
    test_end_under_load()
    test_duration()
    test_refusals()
    print(f"1..{TESTS}")
    return 1 if FAILED else 0


sys.exit(main())
