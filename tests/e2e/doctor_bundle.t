#!/usr/bin/env python3
"""doctor_bundle.t - the tar of a bug report holds what helps, and no secret.

Secrets are planted in the environment, command lines, titles, model paths, hosts
and users of a server and of moetop.  Needs root.
"""
# time limit: 600 s
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

import tap
from doctor import MODEL, MOETOP, NVML, SIM, doctor
from tap import check

HERE = tempfile.mkdtemp()
SECRETS = {
    "environment of the server": "WhiteRabbit",
    "environment of moetop": "MarchHare77",
    "key in the environment": "hat",
    "key by its look": "sk-Teaparty1234567",
    "folder of the model": "jabberwocky",
    "folder above it": "looking-glass",
    "token in the command line": "hf_Dormouse12345",
    "key in the command line": "tweedledum",
    "address": "203.0.113.77",
    "user in a path": "duchess",
    "name of the host": "cheshire",
}


def plant():
    folder = os.path.join(HERE, SECRETS["folder above it"],
                          SECRETS["user in a path"],
                          SECRETS["folder of the model"])
    os.makedirs(folder)
    with open(MODEL, encoding="utf-8") as f:
        config = json.load(f)
    config["model_name"] = SECRETS["key by its look"]
    model = os.path.join(folder, "tiny.json")
    with open(model, "w", encoding="utf-8") as f:
        json.dump(config, f)
    env = dict(os.environ,
               RABBIT=SECRETS["environment of the server"],
               PROXY=f"http://{SECRETS['address']}:3128/",
               API_KEY=SECRETS["key in the environment"],
               OPENAI=SECRETS["key by its look"])
    # what the simulated server does not know stands in its parent's line
    line = ('"$0" --model "$1" --gpu H200 --port 0 --scenario sweep; :')
    return subprocess.Popen(
        ["sh", "-c", line, SIM, model,
         "--hf-token=" + SECRETS["token in the command line"], "--api-key",
         SECRETS["key in the command line"]], env=env, text=True,
        stdout=subprocess.PIPE, cwd=folder, start_new_session=True)


def make(server):
    tar = os.path.join(HERE, "report.tar")
    named = ('echo ' + SECRETS["name of the host"] + '.example >'
             '/proc/sys/kernel/hostname && exec "$@"')
    run, lines, _ = doctor("-p", str(server.pid), "--bundle", tar,
                           prefix=["unshare", "--uts", "sh", "-c", named, "-"],
                           HARE=SECRETS["environment of moetop"])
    check("written, beside what doctor says", run.returncode == 0 and lines and
          not run.stderr, run)
    check("for the user alone", os.stat(tar).st_mode & 0o777 == 0o600)
    before = os.stat(tar)
    again, _, _ = doctor("--bundle", tar)
    check("a file that is there is refused, and left alone",
          again.returncode == 1 and not again.stdout and
          "File exists; remove it, or name another file" in again.stderr and
          os.stat(tar).st_mtime_ns == before.st_mtime_ns, again)
    return tar


def read(tar):
    with tarfile.open(tar) as t:
        files = {m.name: t.extractfile(m).read().decode() for m in t}
        check("regular files in one folder", all(
            m.isreg() and m.name.startswith("moetop-bundle/") and
            m.mode == 0o600 and m.uid == 0 for m in t.getmembers()))
    return {n.split("/")[1]: text for n, text in files.items()}


def has(files):
    check("all the parts", sorted(files) == [
        "README.txt", "doctor.json", "kernels.txt", "processes.txt",
        "snapshots.json", "versions.txt"], sorted(files))
    shots = [json.loads(x) for x in files["snapshots.json"].splitlines()]
    check("three snapshots of the server, that are whole",
          len(shots) == 3 and shots[-1]["target"]["engine"] == "vllm" and
          shots[-1]["health"]["tiers"]["T0"]["state"] == "ok" and
          isinstance(shots[-1]["metrics"]["requests_in_flight"]["value"],
                     (int, float)), files["snapshots.json"][:2000])
    checks = json.loads(files["doctor.json"])["checks"]
    model = [c for c in checks if c["id"] == "server.model"]
    check("what doctor says, and of the model's path the last part",
          model and "/tiny.json (model path" in model[0]["what"], model)
    check("versions, states of processes, classes of kernels",
          "moetop " in files["versions.txt"] and
          "kernel Linux " in files["versions.txt"] and
          "CapEff:" in files["processes.txt"] and
          "Seccomp:" in files["processes.txt"] and
          "rank 0 pid " in files["kernels.txt"], files)


def lacks(files):
    everything = "\n".join(files.values())
    for where, secret in {**SECRETS, "folder of the test": HERE}.items():
        found = [line for line in everything.splitlines()
                 if secret.lower() in line.lower()]
        check(f"not in it: {where}", len(secret) > 2 and not
              (found if where != "key in the environment" else
               [x for x in found if f'"{secret}"' in x or f" {secret} " in x]),
              [x[max(0, x.lower().find(secret.lower()) - 200):][:400]
               for x in found])


def ends_badly():
    path = os.path.join(HERE, "no", "such", "folder.tar")
    run = subprocess.run([MOETOP, "doctor", "--bundle", path], text=True,
                         capture_output=True, check=False,
                         env=dict(os.environ, MOETOP_NVML=NVML))
    check("a file that cannot be made is an error", run.returncode == 1 and
          not run.stdout and run.stderr.startswith("moetop: --bundle: ") and
          "; name a file that can be made" in run.stderr, run)
    run = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "-", MOETOP,
                          "doctor", "--no-bpf", "--bundle",
                          os.path.join(HERE, "full.tar")], text=True,
                         capture_output=True, check=False)
    check("one that cannot be written whole is removed",
          run.returncode != 0 and "--bundle: " in run.stderr and
          not os.path.exists(os.path.join(HERE, "full.tar")), run)


SERVER = plant()
try:
    SERVER.stdout.readline()
    FILES = read(make(SERVER))
    has(FILES)
    lacks(FILES)
finally:
    os.killpg(SERVER.pid, 9)  # with the simulated server
    SERVER.wait()
    SERVER.stdout.close()
ends_badly()
shutil.rmtree(HERE)
tap.end()
