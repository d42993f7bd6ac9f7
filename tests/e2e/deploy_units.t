#!/usr/bin/env python3
"""deploy_units.t - the systemd unit, the Kubernetes manifests, the Dockerfile

Their formats are checked by those who define them.  Their capabilities are tried:
with exactly those, as the unit's user and as the DaemonSet's, every tier is
there for a server of another user; without any one of them a tier is missing.
"""
# time limit: 600 s
import concurrent.futures
import copy
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "deploy"))
import venv

venv.enter()

import yaml

import tap
from tap import check, wait

ROOT, O = venv.ROOT, venv.O
DEPLOY = os.path.join(ROOT, "deploy")
MOETOP = os.path.join(O, "moetop")
TOOLS = os.path.join(venv.VENV, "bin")
T = tempfile.mkdtemp()
EXPOSURE_MAX = 25  # tenths, of systemd-analyze security
UNIT_UID, SERVER_UID = "61234", "61235"


def run(*command, **more):
    r = subprocess.run(command, capture_output=True, text=True, check=False,
                       timeout=240, **more)
    return r.returncode == 0, r.stdout + r.stderr


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def documents(name):
    return list(yaml.safe_load_all(read(DEPLOY, "kubernetes", name)))


# ---- systemd ----------------------------------------------------------------

def directives(unit):
    """Key -> values, in order."""
    out = {}
    for line in unit.split("\n"):
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            out.setdefault(key.strip(), []).append(value.strip())
    return out


def systemd():
    prefix = os.path.join(T, "prefix")
    env = {k: v for k, v in os.environ.items()
           if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
    ok, out = run("make", "-s", "-o", "all", f"O={O}", f"PREFIX={prefix}",
                  "install", cwd=ROOT, env=env)
    units = [os.path.join(prefix, "lib/systemd/system", u)
             for u in ("moetop.service", "moetop.socket")]
    check("make install brings the units", ok and all(map(os.path.exists,
                                                          units)), out)
    ok, out = run("systemd-analyze", "verify", "--man=no", *units)
    check("systemd-analyze verify says nothing", ok and not out, out)
    ok, out = run("systemd-analyze", "security", "--offline=true",
                  "--no-pager", f"--threshold={EXPOSURE_MAX}", units[0])
    score = re.search(r"exposure level for \S+: ([\d.]+)", out)
    print(f"# exposure {score and score.group(1)}")
    check(f"systemd-analyze security: at most {EXPOSURE_MAX / 10}", ok, out)
    own = units[0] + ".d"
    os.makedirs(own)
    shutil.copy(os.path.join(DEPLOY, "systemd", "containers.conf"), own)
    ok, out = run("systemd-analyze", "verify", "--man=no", *units)
    check("nor about the drop-in for containers", ok and not out, out)
    return directives(read(units[0]))


# ---- capabilities -----------------------------------------------------------

def start_server():
    """A server of another user, with the agent in it from the start."""
    env = dict(os.environ, CUDA_INJECTION64_PATH=f"{O}/libmoetop-agent.so")
    p = subprocess.Popen(
        ["setpriv", "--reuid", SERVER_UID, "--regid", SERVER_UID,
         "--clear-groups", f"{O}/sim/moetop-sim", "--port", "0", "--model",
         f"{ROOT}/sim/models/qwen3-30b.json", "--gpu", "H200", "--users",
         "4"], env=env, stdout=subprocess.PIPE, text=True)
    while "listening on" not in (p.stdout.readline() or "listening on"):
        pass
    return p


def limited(uid, caps):
    """The command that gives the next one these capabilities alone."""
    names = "-all," + ",".join("+" + c.lower() for c in caps)
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups",
            "--bounding-set", names, "--inh-caps", names,
            "--ambient-caps", names, "--no-new-privs"]


def works(states):
    """All that capabilities are for; C is a matter of NVIDIA's devices."""
    return all(states.get(t) == "ok" for t in ("T0", "T1", "T2", "T3"))


def told(port):
    """States of the tiers in /metrics."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=60) as r:
            text = r.read().decode()
    except OSError:
        return {}
    return {m[1]: m[2] for line in re.findall(r"moetop_tier_state\{.* 1\n",
                                              text)
            if (m := re.search(r'tier="(\w+)",state="(\w+)"', line))}


def service(server, uid, caps, trace):
    """What systemd would start, under strace: tiers, what it told systemd."""
    path = os.path.join(T, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        os.chmod(path, 0o666)
        port = tap.free_port()
        notify.settimeout(120)
        p = subprocess.Popen(
            [*limited(uid, caps), "strace", "-f", "-qq", "-c", "-U", "name",
             "-o", trace, MOETOP, "-p", str(server.pid), "--headless",
             "--listen", str(port)], env=dict(
                 os.environ, NOTIFY_SOCKET=path, WATCHDOG_USEC="1000000"))
        try:
            messages = [notify.recv(100).decode().strip() for _ in range(2)]
            got = wait(lambda: works(t := told(port)) and t) or told(port)
        except TimeoutError:
            messages, got = [], {}
        with open(f"/proc/{p.pid}/task/{p.pid}/children",
                  encoding="ascii") as f:
            for child in f.read().split():
                os.kill(int(child), signal.SIGTERM)
        p.wait(120)
    return got, messages


def watch(server, uid, caps, enough):
    """The first snapshot that is enough for a moetop with these capabilities
    alone, else its last one."""
    p = subprocess.Popen([*limited(uid, caps), MOETOP, "-p", str(server.pid),
                          "--json", "--interval", "0.5", "--count", "240"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True)
    snapshot = {"health": {"tiers": {}, "agents": []}}
    for line in p.stdout:
        snapshot = json.loads(line)
        if enough(snapshot):
            break
    p.terminate()
    p.stdout.close()
    p.wait(120)
    return snapshot


def states(snapshot):
    return {t: v["state"] for t, v in snapshot["health"]["tiers"].items()}


def no_bpf(snapshot):
    """Requests are not counted, and why is said."""
    tier = snapshot["health"]["tiers"]["T1"]
    return tier["state"] == "missing" and "CAP_BPF" in tier["what"]


def no_agent(snapshot):
    return states(snapshot)["T2"] == "missing" and any(
        a["state"] == "refused" for a in snapshot["health"]["agents"])


def allowed_calls(filters):
    """System calls that SystemCallFilter= lines allow, in systemd's order."""
    sets = {}

    def members(word):
        if not word.startswith("@"):
            return {word}
        if word not in sets:
            _, out = run("systemd-analyze", "syscall-filter", "--no-pager",
                         word)
            sets[word] = set()
            for line in out.split("\n")[1:]:
                line = line.strip()
                if line and not line.startswith("#"):
                    sets[word] |= members(line)
        return sets[word]

    allowed = set(members("@default"))
    for value in filters:
        deny, words = value.startswith("~"), value.lstrip("~").split()
        for word in words:
            allowed = allowed - members(word) if deny else \
                allowed | members(word)
    return allowed


def capabilities(unit):
    caps = [c.removeprefix("CAP_") for c in
            unit["AmbientCapabilities"][0].split()]
    pod = documents("daemonset.yaml")[0]["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    check("unit and DaemonSet have the same four capabilities",
          caps == context["capabilities"]["add"] and len(caps) == 4 and
          context["capabilities"]["drop"] == ["ALL"] and
          unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"],
          (caps, context))
    server = start_server()
    trace = os.path.join(T, "calls") # written by the unit's user
    with open(trace, "w", encoding="utf-8"):
        os.chmod(T, 0o755)
        os.chmod(trace, 0o666)
    try:
        got, messages = service(server, UNIT_UID, caps, trace)
        check("the unit's user with them has every tier, of another user's"
              " server", works(got), got)
        check("systemd is told that it is up, and that it is alive",
              [m.split("\n")[0] for m in messages] ==
              ["READY=1", "WATCHDOG=1"], messages)
        got = states(watch(server, str(context["runAsUser"]), caps,
                           lambda s: works(states(s))))
        check("so has the DaemonSet's", works(got), got)
        needs = {"BPF": no_bpf, "PERFMON": no_bpf, "SYS_PTRACE": no_agent,
                 "DAC_READ_SEARCH": no_agent}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            less = list(pool.map(lambda cap: watch(
                server, UNIT_UID, [c for c in caps if c != cap], needs[cap]),
                needs))
        for (cap, missing), got in zip(needs.items(), less):
            check(f"without CAP_{cap} a tier is missing, for that reason",
                  missing(got), got["health"])
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    used = set(read(trace).split()[2:-2])
    denied = used - allowed_calls(unit["SystemCallFilter"])
    # asked for, and done without where they are refused
    denied -= {"sched_setscheduler", "setpriority"}
    check("the unit's filter allows every system call that it made",
          len(used) > 40 and not denied, (sorted(denied), len(used)))


# ---- options ----------------------------------------------------------------

def options(unit):
    """What the files give to moetop, moetop takes."""
    settings = documents("configmap.yaml")[0]["data"]["moetop.conf"]
    conf = os.path.join(T, "moetop.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(re.sub(r"(?m)^# (?=[a-z-]+( = [\d.]+)?$)", "", settings))
    ok, out = run(MOETOP, "--config", conf, "--version")
    check("the ConfigMap's options exist, those in comments, too",
          ok and "gpu-price" in read(conf), out)
    pod = documents("daemonset.yaml")[0]["spec"]["template"]["spec"]
    args = [a for a in pod["containers"][0]["args"]
            if not a.startswith("--config")]
    ok, out = run(MOETOP, *args, "--version")
    check("the DaemonSet's arguments exist", ok, out)
    words = unit["ExecStart"][0].replace("${LISTEN}", "127.0.0.1:9400")
    ok, out = run(MOETOP, *words.replace("$ARGS", "").split()[1:],
                  "--version")
    check("the unit's arguments exist", ok, out)
    command = re.search(r"^CMD (.*)$", read(DEPLOY, "docker/Dockerfile"),
                        re.M).group(1)
    ok, out = run(MOETOP, *json.loads(command), "--version")
    check("the Dockerfile's arguments exist", ok, out)


# ---- Kubernetes -------------------------------------------------------------

# Of the operator's two kinds there is no schema in a package: their fields.
OPERATOR = {
    "PodMonitor": {"selector", "namespaceSelector", "podMetricsEndpoints",
                   "sampleLimit", "labelLimit", "labelValueLengthLimit"},
    "PrometheusRule": {"groups"},
}
ENDPOINT = {"port", "path", "interval", "scrapeTimeout", "honorLabels",
            "relabelings", "metricRelabelings"}
RELABEL = {"action", "sourceLabels", "separator", "targetLabel", "regex",
           "replacement"}


def patched(base, patch):
    """A strategic merge: containers by name, other lists replaced."""
    out = copy.deepcopy(base)
    for key, value in patch.items():
        if isinstance(value, dict):
            out[key] = patched(out.get(key, {}), value)
        elif key == "containers":
            for c in value:
                i = [x["name"] for x in out[key]].index(c["name"])
                out[key][i] = patched(out[key][i], c)
        else:
            out[key] = value
    return out


def kubernetes_schema():
    names = documents("kustomization.yaml")[0]["resources"]
    here = {os.path.basename(p) for p in glob.glob(
        os.path.join(DEPLOY, "kubernetes", "*.yaml"))}
    check("the kustomization names every manifest",
          set(names) == here - {"kustomization.yaml", "attach.yaml"},
          here ^ set(names))
    merged = os.path.join(T, "attach-merged.yaml")
    with open(merged, "w", encoding="utf-8") as f:
        yaml.safe_dump(patched(documents("daemonset.yaml")[0],
                               documents("attach.yaml")[0]), f)
    plain = [os.path.join(DEPLOY, "kubernetes", n) for n in names
             if n not in ("podmonitor.yaml", "prometheusrule.yaml")]
    ok, out = run(os.path.join(TOOLS, "kubernetes-validate"), "--strict",
                  *plain, merged)
    check("manifests, and the DaemonSet with the patch, fit Kubernetes'"
          " schema", ok and out.count("passed for") == len(plain) + 2, out)
    odd = copy.deepcopy(documents("daemonset.yaml")[0])
    odd["spec"]["template"]["spec"]["hostPid"] = True
    with open(merged, "w", encoding="utf-8") as f:
        yaml.safe_dump(odd, f)
    ok, out = run(os.path.join(TOOLS, "kubernetes-validate"), "--strict",
                  merged)
    check("the check of the schema sees a misspelt field",
          not ok and "hostPid" in out, out)
    for name in ("podmonitor.yaml", "prometheusrule.yaml"):
        document = documents(name)[0]
        spec = document["spec"]
        unknown = set(spec) - OPERATOR[document["kind"]]
        for e in spec.get("podMetricsEndpoints", []):
            unknown |= set(e) - ENDPOINT
            for r in e["relabelings"] + e["metricRelabelings"]:
                unknown |= set(r) - RELABEL
        check(f"{name} has the operator's fields alone", not unknown and
              document["apiVersion"] == "monitoring.coreos.com/v1", unknown)


def kubernetes_sense():
    """What one manifest says of another one is so."""
    daemon = documents("daemonset.yaml")[0]
    pod = daemon["spec"]["template"]
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    labels = pod["metadata"]["labels"].items()
    policy = documents("networkpolicy.yaml")[0]["spec"]
    monitor = documents("podmonitor.yaml")[0]["spec"]
    selectors = [daemon["spec"]["selector"], policy["podSelector"],
                 monitor["selector"]]
    check("selectors choose the pods of the DaemonSet", all(
        s["matchLabels"].items() <= labels for s in selectors))
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    named = [policy["ingress"][0]["ports"][0]["port"],
             monitor["podMetricsEndpoints"][0]["port"],
             container["livenessProbe"]["httpGet"]["port"],
             container["readinessProbe"]["httpGet"]["port"]]
    check("ports by name are those of the container, and of --listen",
          all(n in ports for n in named) and
          f"--listen=0.0.0.0:{ports['metrics']}" in container["args"])
    context = container["securityContext"]
    check("not privileged, no escalation, nothing to write to",
          context["privileged"] is False and
          context["allowPrivilegeEscalation"] is False and
          context["readOnlyRootFilesystem"] is True and
          spec["hostPID"] is True and "hostNetwork" not in spec and
          not any("hostPath" in v for v in spec["volumes"]) and
          all(m["readOnly"] for m in container["volumeMounts"]))
    check("moetop's own account has no token and no role",
          spec["automountServiceAccountToken"] is False and
          documents("serviceaccount.yaml")[0]["automountServiceAccountToken"]
          is False and all(s["name"] != "moetop" for s in documents(
              "rbac.yaml")[1]["subjects"]))
    check("no traffic leaves the pods, and only Prometheus comes in",
          policy["egress"] == [] and len(policy["ingress"]) == 1 and
          set(policy["policyTypes"]) == {"Ingress", "Egress"})
    groups = [r for r in monitor["podMetricsEndpoints"][0]
              ["metricRelabelings"] if r["targetLabel"] == "ep_group"]
    prometheus = yaml.safe_load(read(DEPLOY, "prometheus/kubernetes.yml"))
    other = [r for r in prometheus["scrape_configs"][0]
             ["metric_relabel_configs"] if r["target_label"] == "ep_group"]
    pattern = re.compile(groups[0]["regex"])
    found = [(pattern.fullmatch(p) or [None, ""])[1] for p in
             ("a/vllm-0", "a/vllm-0-1", "b/vllm-0", "b/vllm-12-3",
              "a/vllm-7d9f-abc1x", "/", "team-1/")]
    check("leader and workers of a LeaderWorkerSet are one group, in their"
          " namespace",
          found == ["a/vllm-0", "a/vllm-0", "b/vllm-0", "b/vllm-12", "", "",
                    ""] and
          [groups[0][k] for k in ("sourceLabels", "separator", "regex")] ==
          [other[0][k] for k in ("source_labels", "separator", "regex")] ==
          [["namespace", "pod"], "/", pattern.pattern], (found, groups, other))


# ---- Docker -----------------------------------------------------------------

def docker():
    path = os.path.join(DEPLOY, "docker", "Dockerfile")
    ok, out = run(os.path.join(TOOLS, "hadolint"), path)
    check("hadolint finds nothing in the Dockerfile", ok and not out, out)
    text = read(path)
    kept = re.findall(r"^!(.*)$", read(path + ".dockerignore"), re.M)
    context = os.path.join(T, "context")
    os.makedirs(context)
    for name in kept:
        os.makedirs(os.path.dirname(os.path.join(context, name)),
                    exist_ok=True)
        subprocess.run(["cp", "-r", os.path.join(ROOT, name),
                        os.path.join(context, name)], check=True)
    ok, out = run("make", "-n", f"O={T}/o", "DESTDIR=/out", "all", "install",
                  cwd=context)
    check("the build context has all that the build needs", ok, out[-2000:])
    final = text[text.rindex("FROM "):].replace("\\\n", " ")
    installed = set(re.search(r"--no-install-recommends(.*?)&&",
                              final).group(1).split())
    _, needed = run("objdump", "-p", MOETOP)
    missing = []
    for soname in re.findall(r"NEEDED\s+(\S+)", needed):
        _, cache = run("ldconfig", "-p")
        library = re.search(rf"\b{re.escape(soname)} .*=> (\S+)", cache)
        # by name: /lib is a link to /usr/lib, which dpkg does not follow
        _, owner = run("dpkg", "-S", "*/" + os.path.basename(
            os.path.realpath(library.group(1))))
        packages = {line.split(":")[0] for line in owner.split("\n") if line}
        if not packages & (installed | {"libc6"}):
            missing.append((soname, packages))
    check("the image has the libraries that moetop is linked to",
          not missing, missing)
    check("the image's user is not root", "USER 65532:65532" in final)


def main():
    unit = systemd()
    capabilities(unit)
    options(unit)
    kubernetes_schema()
    kubernetes_sense()
    docker()
    tap.end()


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(T, ignore_errors=True)
