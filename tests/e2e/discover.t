#!/usr/bin/python3
"""discover.t - servers of every layout are found, whole, once, and nothing else

Scripted processes with the titles, sockets and files of real ones.  Needs root.
"""
# time limit: 600 s
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import stand_in
import tap
from stand_in import Server
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
MOETOP = f"{O}/moetop"
MIXTRAL = {
    "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2,
    "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "torch_dtype": "bfloat16", "architectures": ["MixtralForCausalLM"]}


def vllm(*options, model="org/name", children=(), **more):
    return {"args": ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve",
                     model, "--port", "@PORT", *options],
            "children": list(children), "listen": [0], **more}


def sglang(*options, children=(), **more):
    return {"args": ["python", "-m", "sglang.launch_server", "--model-path",
                     "org/name", "--port=@PORT", *options],
            "children": list(children), "listen": [0], **more}


def titled(title, *children, **more):
    return {"title": title, "children": list(children), **more}


TRACKER = {"args": ["/opt/venv/bin/python3", "-B", "-c",
                    "from multiprocessing.resource_tracker import main"]}
SERVE = [titled("VLLM::EngineCore", titled("VLLM::Worker_TP0_EP0"),
                titled("VLLM::Worker_TP1_EP1")), TRACKER]

LAYOUTS = {
    "vLLM, one process with the GPU":
        vllm(children=[titled("VLLM::EngineCore"), TRACKER]),
    "vLLM, tensor and expert parallel":
        vllm("-tp", "2", "--enable-expert-parallel", children=SERVE),
    "vLLM, data parallel with a pool of API servers":
        vllm("-dp", "2", listen=[], children=[
            titled("VLLM::APIServer_0", listen=[0]),
            titled("VLLM::APIServer_1"), titled("VLLM::EngineCore_DP0"),
            titled("VLLM::EngineCore_DP1"), titled("VLLM::DPCoordinator")]),
    "vLLM, a front end in Rust":
        vllm(listen=[], children=[
            titled("VLLM::EngineCore"),
            {"args": ["vllm-rs", "frontend", "--listen-fd", "9"],
             "listen": [0]}]),
    "vLLM by its module":
        {"args": ["python3", "-m", "vllm.entrypoints.openai.api_server",
                   "--model", "org/name", "--port", "@PORT"], "listen": [0],
          "children": [titled("VLLM::EngineCore")]},
    "vLLM with cut titles":
        vllm("-tp", "2", children=[titled("VLLM::En"),
                                    titled("VLLMWorker_TP"),
                                    titled("VLLM::Worker   ")]),
    "SGLang, four ranks":
        sglang("--tp", "4", children=[
            titled(f"sglang::scheduler_TP{i}") for i in range(4)] +
            [titled("sglang::detokenizer")]),
    "SGLang, data parallel below a controller":
        sglang("--dp", "2", children=[
            titled("sglang::data_parallel_controller",
                   titled("sglang::scheduler_DP0_TP0"),
                   titled("sglang::scheduler_DP1_TP0")),
            titled("sglang::detokenizer")]),
    "SGLang, tokenizer workers share the port":
        sglang("--tokenizer-worker-num", "2", listen=[], children=[
            titled("sglang::scheduler"),
            titled("sglang::tokenizer_worker:77", listen=[0]),
            titled("sglang::detokenizer_router")]),
    "SGLang, the socket in the scheduler":
        sglang(listen=[], children=[titled("sglang::scheduler_TP0",
                                            listen=[0])]),
    "SGLang by its command, other titles":
        {"args": ["/usr/local/bin/python3", "/usr/local/bin/sglang", "serve",
                   "--model-path", "org/name", "--port", "@PORT"],
          "listen": [0],
          "children": [titled("sglang::scheduler_gpu0_tp0"),
                       titled("sglang::scheduler_gpu1_tp1"),
                       titled("sglang::detokenizer")]},
    "a server below wrappers":
        {"args": ["tini", "--", "uv", "run", "vllm", "serve", "org/name"],
          "children": [vllm(children=SERVE)]},
}


def servers(prefix=()):
    """The list of `moetop`, by pid: a line each."""
    r = subprocess.run([*prefix, MOETOP], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=240)
    return {int(line.split()[0]): line.split()
            for line in (r.stdout + r.stderr).splitlines()
            if line.split() and line.split()[0].isdigit()}, r


def start_look(pid, prefix=()):
    return subprocess.Popen(
        [*prefix, MOETOP, *(["-p", str(pid)] if pid else []), "--json",
         "--count", "1", "--interval", ".1", "--no-inject", "--no-bpf"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)


def end_look(moetop):
    """What it says of its target, or how it ended."""
    out, err = moetop.communicate(timeout=240)
    if moetop.returncode == 0:
        return json.loads(out)["target"]
    return subprocess.CompletedProcess(moetop.args, moetop.returncode, out,
                                       err)


def look(pid, prefix=()):
    return end_look(start_look(pid, prefix))


def layouts():
    with contextlib.ExitStack() as stack:
        all_of_them = [stack.enter_context(Server(layout))
                       for layout in LAYOUTS.values()]
        found, r = servers()
        looks = [[start_look(p) for p in (s.pid, s.pids[-1])]
                 for s in all_of_them]
        for name, s, started in zip(LAYOUTS, all_of_them, looks):
            first = s.pids[1] if "wrappers" in name else s.pid
            engine = "sglang" if "SGLang" in name else "vllm"
            mine = {p: l for p, l in found.items() if p in s.pids}
            check(f"{name}: one entry, its first process, its port",
                  list(mine) == [first] and mine[first][1] == engine and
                  mine[first][3] == "org/name" and
                  mine[first][5] == str(s.port), (mine, s.pids, r.stdout))
            told = [end_look(m) for m in started]
            check(f"{name}: the same by its first and its last process",
                  all(isinstance(t, dict) and t["engine"] == engine and
                      t["model"] == "org/name" and t["port"] == s.port
                      for t in told), told)


def tier(pid):
    """The line of T0 by moetop -p."""
    out, _ = start_look(pid).communicate(timeout=240)
    return json.loads(out)["health"]["tiers"]["T0"]


def left_over():
    with Server(vllm("-tp", "2", children=SERVE)) as s:
        s.kill_first()
        found, r = servers()
        mine = {p: " ".join(l) for p, l in found.items() if p in s.pids}
        check("a killed server's workers are left over, one entry",
              list(mine) == [s.pids[0]] and
              "left over" in mine[s.pids[0]], (mine, s.pids, r))
        t0 = tier(s.pids[0])
        check("and moetop -p says that nobody counts their requests",
              t0["state"] == "missing" and
              "requests cannot be counted" in t0["what"], t0)
        run = subprocess.run([MOETOP, "doctor", "--json", "--no-bpf", "-p",
                              str(s.pids[0])], text=True, check=False,
                             capture_output=True, timeout=240)
        t0 = json.loads(run.stdout)["tiers"]["T0"]
        check("so does moetop doctor", t0["state"] == "missing" and
              "requests cannot be counted" in t0["what"] and
              t0["remedy"].startswith("end them"), t0)


def embedded(tmp):
    """Programs with an engine in them: nobody else has started it."""
    torch = os.path.join(tmp, "libtorch_cpu.so")
    with open(torch, "wb") as f:
        f.write(bytes(4096))
    script = {"args": ["python3", "/app/serve.py", "--model", "org/name",
                       "--port", "@PORT"], "listen": [0], "maps": torch,
              "children": [titled("VLLM::EngineCore")]}
    replica = titled("ray::ServeReplica:llm:LLMServer",
                     titled("VLLM::EngineCore"), maps=torch)
    with Server(script) as s, Server(replica) as r:
        found, out = servers()
        check("an engine inside a script: one entry, with the script's "
              "options", found.get(s.pid, [])[1:6:2] ==
              ["vllm", "org/name", str(s.port)] and
              not any(p in found for p in s.pids[1:]), (found, out.stdout))
        check("and inside a replica of Ray Serve, which is no left-over",
              r.pid in found and found[r.pid][1] == "vllm" and
              "left over" not in " ".join(found[r.pid]) and
              r.pids[1] not in found, (found, out.stdout))


def launcher_gone():
    """API servers and engine live on: it serves, though its options are
    gone."""
    with Server(vllm(listen=[], children=[
            titled("VLLM::APIServer_0", listen=[0]),
            titled("VLLM::EngineCore")])) as s:
        s.kill_first()
        found, r = servers()
        mine = {p: " ".join(l) for p, l in found.items() if p in s.pids}
        check("a server whose launcher alone is gone is no left-over",
              len(mine) == 1 and "left over" not in str(mine) and
              "launcher is gone" in str(mine), (mine, r.stdout))


def no_servers():
    words = [["pkill", "-f", "VLLM::EngineCore"],
             ["bash", "-c", "vllm serve org/name --port 8000"],
             ["python3", "bench_serving.py", "--backend", "vllm"],
             ["python3", "/runner/_work/sglang/sglang/test/run_suite.py"],
             ["vim", "/src/vllm/entrypoints/openai/api_server.py"],
             ["vllm", "bench", "serve", "--model", "org/name"],
             ["docker", "run", "vllm/vllm-openai", "--model", "org/name"],
             ["python3", "-c", "import vllm"], ["Starman::Worker"]]
    node = {"args": ["sh", "-c", "sglang::scheduler_TP0"],
            "children": [{"args": w} for w in words]}
    with Server(node) as s:
        found, r = servers()
        check("tools, shells and editors are no servers",
              not any(p in s.pids for p in found), (found, s.pids))


def actors(tmp):
    logs = os.path.join(tmp, "session_2026_1", "logs")
    os.makedirs(logs)
    job = {p: os.path.join(logs, n) for p, n in (
        ("a", "worker-0123abcd-01000000-77.out"),
        ("b", "worker-4567abcd-02000000-78.out"),
        ("A", "python-core-driver-01000000ffff_7.log"),
        ("B", "python-core-driver-02000000ffff_8.log"))}
    for path in job.values():
        open(path, "w").close()
    ray = "--distributed-executor-backend=ray"
    raylet = {"args": ["raylet"], "session": True, "children": [
        titled("ray::RayWorkerWrapper", log=job["b"]),
        titled("ray::RayWorkerWrapper", log=job["a"])]}
    with Server(vllm(ray, log=job["A"])) as a, \
            Server(vllm(ray, log=job["B"])) as b, Server(raylet) as r:
        found, out = servers()
        mine = {p for p in found if p in a.pids + b.pids + r.pids}
        told = look(r.pids[2])
        check("actors of Ray belong to the server of their job",
              mine == {a.pid, b.pid} and isinstance(told, dict) and
              told["port"] == a.port, (mine, told, a.port, b.port, out))


# ---- other namespaces -------------------------------------------------------

SPACES = ["unshare", "-p", "-f", "-m", "-n", "--mount-proc"]


def make_root(tmp):
    """A root with the model in it, and ways out of it."""
    root = os.path.join(tmp, "root")
    for d in ("m", "abs", "rel", "fifo", "huge", "binary", "loop", "proc",
              "dev"):
        os.makedirs(os.path.join(root, d))
    outside = os.path.join(tmp, "outside.json")
    with open(outside, "w") as f:
        json.dump(MIXTRAL, f)
    with open(os.path.join(root, "m", "config.json"), "w") as f:
        json.dump({**MIXTRAL, "num_local_experts": 16}, f)
    os.symlink(outside, os.path.join(root, "abs", "config.json"))
    os.symlink("../" * 20 + outside[1:],
               os.path.join(root, "rel", "config.json"))
    os.symlink("config.json", os.path.join(root, "loop", "config.json"))
    os.mkfifo(os.path.join(root, "fifo", "config.json"))
    with open(os.path.join(root, "huge", "config.json"), "wb") as f:
        f.truncate(1 << 40)
    with open(os.path.join(root, "binary", "config.json"), "wb") as f:
        f.write(os.urandom(65536))
    return root


def inside(tmp):
    root = make_root(tmp)
    wanted = {"m": 16, "abs": None, "rel": None, "fifo": None, "huge": None,
              "binary": None, "loop": None}
    got = {}
    with contextlib.ExitStack() as stack:
        looks = {}
        for model in wanted:
            s = stack.enter_context(Server(
                vllm(model=f"/{model}", listen=[8000], root=root,
                     children=[titled("VLLM::EngineCore", root=root)]),
                prefix=SPACES))
            looks[model] = start_look(s.pids[-1])
        for model, moetop in looks.items():
            told = end_look(moetop)
            got[model] = told["experts"] if isinstance(told, dict) else told
            if model == "m":
                check("in namespaces and a root of its own: engine and port",
                      isinstance(told, dict) and told["engine"] == "vllm" and
                      told["port"] == 8000, told)
    check("a model's config is read below the server's root, and nothing "
          "outside of it", got == wanted, got)


def alone(tmp):
    """One server in a pid namespace that moetop shares."""
    layout = vllm(model="/m", children=[titled("VLLM::EngineCore")])
    none = {"args": ["sleep", "9"]}
    for name, nodes, test in (
            ("with one server, moetop --json attaches to it", [layout],
             lambda r: isinstance(r, dict) and r["engine"] == "vllm"),
            ("with two it names them and asks for one", [layout, layout],
             lambda r: not isinstance(r, dict) and r.returncode == 3 and
             "2 servers" in r.stderr and not r.stdout and
             r.stderr.count("/m") + r.stderr.count(" m ") >= 2),
            ("with none it says so", [none],
             lambda r: not isinstance(r, dict) and r.returncode == 3 and
             "no LLM server" in r.stderr and not r.stdout)):
        all_of_them = {"args": ["sh"], "children": nodes}
        with Server(all_of_them, prefix=SPACES) as s:
            first = s.pids[0]
            r = look(0, prefix=["nsenter", "-t", str(first), "-p", "-m",
                                "-n"])
            check(name, test(r), r)


def restarts():
    """Without -p the next one is taken when the first has ended."""
    layout = vllm("--served-model-name", "x", children=SERVE)
    with Server({"args": ["supervisor"]}, prefix=SPACES) as box:
        enter = ["nsenter", "-t", str(box.pids[0]), "-p", "-m", "-n"]
        moetop = None
        ports, seen, told = [], [], []
        for _ in range(2):
            with Server(layout, prefix=enter) as s:
                ports.append(s.port)
                moetop = moetop or subprocess.Popen(
                    [*enter, MOETOP, "--json", "--interval", ".1",
                     "--no-inject", "--no-bpf"], text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                for line in moetop.stdout:
                    shot = json.loads(line)
                    seen.append(shot["target"]["port"])
                    if seen[-1] == s.port:
                        break
                told.append(shot["health"]["tiers"]["T0"]["what"])
        moetop.kill()
        moetop.wait()
        moetop.stdout.close()
        check("a server that starts again is taken when none was named",
              ports[0] in seen and seen[-1] == ports[1], (ports, seen))
        check("and may be looked at as the first one could",
              not any("in part" in t for t in told), told)


def another_model(tmp):
    """Below a supervisor, which is what is watched."""
    nodes = []
    for experts in (8, 16):
        model = os.path.join(tmp, f"model-{experts}")
        os.mkdir(model)
        with open(os.path.join(model, "config.json"), "w") as f:
            json.dump({**MIXTRAL, "num_local_experts": experts}, f)
        nodes.append(json.dumps(vllm(model=model)))
    one = f'"{sys.executable}" "{stand_in.__file__}"'
    sh = subprocess.Popen(
        ["sh", "-c", f'{one} "$1" "$3"; {one} "$2" "$3"; :', "-", *nodes,
         "x" * stand_in.ROOM], stdout=subprocess.PIPE, text=True)
    moetop, born, seen = None, [], []
    try:
        born.append(json.loads(sh.stdout.readline())["pid"])
        moetop = subprocess.Popen(
            [MOETOP, "-p", str(sh.pid), "--json", "--interval", ".1",
             "--no-inject", "--no-bpf"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        for line in moetop.stdout:
            target = json.loads(line)["target"]
            seen.append((target["model"], target["experts"]))
            if target["experts"] == 8 and len(born) == 1:
                os.kill(born[0], 9)
                born.append(json.loads(sh.stdout.readline())["pid"])
            if target["experts"] == 16 or len(seen) > 3000:
                break
        check("a server that starts again with another model has its shape",
              ("model-8", 8) in seen and seen[-1] == ("model-16", 16),
              seen[-3:])
    finally:
        for p in (moetop, sh):
            if p:
                p.kill()
                p.wait()
                p.stdout.close()
        for pid in born[-1:]:
            os.kill(pid, 9)


def gpus(tmp):
    script = os.path.join(tmp, "dev.sh")
    with open(script, "w") as f:
        f.write("mount -t tmpfs x /dev && touch /dev/nvidia0 /dev/nvidia1 "
                "/dev/nvidia2 /dev/nvidiactl /dev/null && exec \"$@\"\n")
    cuda = os.path.join(tmp, "libcuda.so.1")
    with open(cuda, "wb") as f:
        f.write(bytes(4096))
    with Server(sglang("--tp", "2", children=[
            titled("sglang::scheduler_TP1", gpus=[1], maps=cuda),
            titled("sglang::scheduler_TP0", gpus=[0], maps=cuda),
            titled("sglang::detokenizer", maps=cuda)]),
            prefix=["unshare", "-m", "sh", script]) as s:
        found, r = servers()
        told = look(s.pids[-1])
        check("GPUs are those that its processes have open",
              found[s.pid][4] == "0-1", found.get(s.pid))
        check("ranks are the owners of GPUs, by their titles",
              isinstance(told, dict) and
              [(k["pid"], k["rank"]) for k in told["ranks"]] ==
              [(s.pids[2], 0), (s.pids[1], 1)], told)


with tempfile.TemporaryDirectory() as T:
    layouts()
    left_over()
    embedded(T)
    launcher_gone()
    no_servers()
    actors(T)
    inside(T)
    alone(T)
    restarts()
    another_model(T)
    gpus(T)
tap.end()
