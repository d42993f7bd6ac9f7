#!/usr/bin/env python3
"""cli_plan.t - the valley on paper: numbers, formats, plots, refusals.

The numbers are worked out here once more, from the model's shape in the
answer and the GPU's data sheet.
"""
import csv
import glob
import json
import math
import os
import shutil
import subprocess
import tempfile

import tap
from tap import check

O = os.path.abspath(os.environ.get("O", "build"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MOETOP = os.path.join(O, "moetop")
CONFIGS = os.path.join(ROOT, "tests", "data", "configs")
DEEPSEEK = os.path.join(CONFIGS, "deepseek-ai--DeepSeek-V3_config.json")
QWEN = os.path.join(CONFIGS, "Qwen--Qwen3-30B-A3B_config.json")
DENSE = os.path.join(CONFIGS,
                     "deepseek-ai--DeepSeek-R1-Distill-Qwen-32B_config.json")
NO_KV = os.path.join(CONFIGS, "deepseek-ai--DeepSeek-V4-Pro_config.json")
POINT = ["batch", "active_experts", "coverage_ratio", "fragmentation_ratio",
         "single_row_ratio", "valley_index", "marginal_gain_ratio",
         "routed_bytes_per_step", "bytes_per_token", "step_seconds",
         "tokens_per_second", "cost_usd_per_million_tokens"]
POPULARITY = os.path.join(ROOT, "tests", "data", "expert_popularity.csv")
GPT_OSS = os.path.join(CONFIGS, "openai--gpt-oss-120b_config.json")
BATCHES = [2 ** i for i in range(11)]


def moetop(*args, stdout=subprocess.PIPE, **env):
    return subprocess.run([MOETOP, *args], stdout=stdout, text=True,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          env={**os.environ, "COLUMNS": "80",
                               "LC_ALL": "C.UTF-8", **env},
                          timeout=240, check=False)


def plan(*args, **env):
    return moetop("plan", *args, **env)


def answer(*args):
    return json.loads(plan(*args, "--json").stdout)


def near(a, b, rel=1e-9):
    return math.isclose(a, b, rel_tol=rel, abs_tol=1e-12)


def routed_and_rest(point):
    """Bytes of a step: experts, and all else."""
    total = point["bytes_per_token"] * point["batch"]
    return point["routed_bytes_per_step"], total - \
        point["routed_bytes_per_step"]


def wrong_numbers(a, p, bw, flops, price):
    """The members of a point that are not what the formulas give."""
    m, b = a["model"], p["batch"]
    e, k, layers = m["experts"], m["top_k"], m["moe_layers"]
    u = e * (1 - (1 - k / e) ** b)
    s1 = b * k * (1 - k / e) ** (b - 1) / u
    routed = layers * u * m["expert_bytes"]
    kv = b * m["context_tokens"] * m["kv_bytes_per_token"]
    experts = (routed / bw, 2 * b * layers * k * m["expert_params"] / flops)
    dense = (m["dense_bytes"] / bw, 2 * b * m["dense_params"] / flops)
    step = max(experts) + max(dense) + kv / bw
    paid = kv / bw + (experts[1] if experts[1] >= experts[0]
                      else s1 * experts[0])
    paid += dense[1] if dense[1] >= dense[0] else 0
    want = {
        "active_experts": u, "coverage_ratio": u / e,
        "fragmentation_ratio": u / (b * k), "single_row_ratio": s1,
        "valley_index": u * u / (e * b * k),
        "marginal_gain_ratio": max(0, 1 - paid / step),
        "routed_bytes_per_step": routed,
        "bytes_per_token": (routed + m["dense_bytes"] + kv) / b,
        "step_seconds": step, "tokens_per_second": b / step,
        "cost_usd_per_million_tokens": price / 3600 * step / b * 1e6,
    }
    return [n for n in want if not near(p[n], want[n])]


def numbers():
    a = answer("--model", DEEPSEEK, "--gpu", "H200", "--tp", "8",
               "--gpu-price", "3")
    check("JSON: the parts of the contract, and where numbers come from",
          {"model", "gpu", "points", "valley"} <= set(a) and
          a["source"] == "modelled" and
          all(list(p) == POINT for p in a["points"]) and
          set(a["valley"]) == {"floor_batch", "enter_batch", "exit_batch"}, a)
    check("default batches: powers of two up to 1024",
          [p["batch"] for p in a["points"]] == BATCHES, a["points"])
    check("the GPU: name, count, layout, arithmetic",
          a["gpu"]["name"] == "H200-SXM" and a["gpu"]["count"] == 8 and
          a["gpu"]["tp"] == 8 and a["gpu"]["compute"] == "FP8", a["gpu"])
    bad = {p["batch"]: wrong_numbers(a, p, 0.85 * 8 * 4.8e12,
                                     0.6 * 8 * 1978.9e12, 24)
           for p in a["points"]}
    check("every number of every point", not any(bad.values()), bad)
    check("the valley of 256 experts, 8 per token",
          near(a["valley"]["floor_batch"], 39.574258956285) and
          near(a["valley"]["enter_batch"], 7.49139, 1e-6) and
          near(a["valley"]["exit_batch"], 114.528, 1e-5), a["valley"])

    one = answer("--model", QWEN, "--gpu", "H100", "--batch", "7,3")
    check("--batch: these, in this order; no price, no cost",
          [p["batch"] for p in one["points"]] == [7, 3] and
          one["points"][0]["cost_usd_per_million_tokens"] is None, one)
    skew = answer("--model", QWEN, "--gpu", "H100", "--batch", "16,128",
                  "--skew", "0.855")
    check("--skew 0.855: what Qwen3-235B measured, 64.1 and 111.4 experts",
          near(skew["points"][0]["active_experts"], 64.12, 5e-3) and
          near(skew["points"][1]["active_experts"], 111.37, 5e-3) and
          skew["model"]["skew"] == 0.855 and
          skew["valley"]["exit_batch"] > 2 * one["valley"]["exit_batch"], skew)


def options():
    def first(*args):
        a = answer("--model", QWEN, "--gpu", "H100", "--batch", "8", *args)
        return a, routed_and_rest(a["points"][0])

    base, (routed, rest) = first("--ctx", "0")
    for name, weight, other, compute in (
            ("bf16", 2, 2, "BF16"), ("fp8", 1, 1, "FP8"),
            ("fp4", 0.5625, 2, "BF16"), ("int4", 0.515625, 2, "BF16")):
        a, (r, d) = first("--ctx", "0", "--dtype", name)
        check(f"--dtype {name}: bytes of experts and the rest, arithmetic",
              near(r, routed * weight / 2, 3e-4) and
              near(d, rest * other / 2, 3e-4) and
              a["gpu"]["compute"] == compute and
              a["model"]["quant"].startswith(name), a)
    a, (r, d) = first("--ctx", "1000")
    check("--ctx: bytes of the cache, for each sequence",
          near(d - rest, 8 * 1000 * base["model"]["kv_bytes_per_token"],
               1e-6), a)
    a, (r, d) = first("--ctx", "0", "--tp", "1", "--ep", "8")
    check("--tp 1 --ep 8: eight GPUs, each reads the dense weights",
          a["gpu"]["count"] == 8 and near(r, routed) and near(d, 8 * rest), a)
    b, _ = first("--ctx", "0", "--gpus", "8")
    check("--gpus 8: all bytes over eight GPUs",
          near(b["points"][0]["step_seconds"] * 8,
               base["points"][0]["step_seconds"]), b)


def table():
    run = plan("--model", DEEPSEEK, "--gpu", "h200", "--tp", "8")
    lines = run.stdout.splitlines()
    valley = [x for x in lines if x.startswith("valley")]
    check("a table for people: 80 columns, says modelled, one valley line",
          run.returncode == 0 and not run.stderr and
          max(map(len, lines)) <= 80 and len(valley) == 1 and
          any(x.startswith("modelled") for x in lines) and
          "7.5 to 114.5" in valley[0] and "39.6" in valley[0], run.stdout)
    marked = [int(x[1:8]) for x in lines if x.startswith(">")]
    check("rows in the valley are marked", marked == [8, 16, 32, 64], marked)
    for gpu, gpus in ("GB10", "1"), ("RTXPRO6000-WS", "4096"):
        wide = plan("--model", DEEPSEEK, "--gpu", gpu, "--gpus", gpus, "--ctx",
                    "16777216", "--batch", "1,1000000", "--gpu-price", "99999",
                    "--skew", "0.012345678").stdout
        check(f"the greatest numbers keep 80 columns, {gpus} GPUs",
              0 < max(map(len, wide.splitlines()), default=0) <= 80, wide)
    none = plan("--model", QWEN, "--gpu", "H100", "--dtype", "fp4",
                "--plot", "no").stdout
    check("--plot no: the table alone", "eta: how free" not in none, none)
    check("without a price, what would give one", "--gpu-price" in none, none)
    check("how bytes follow from the type of the weights",
          "fp4: experts 0.5625, the rest 2 bytes each\n" in none, none)


def popularity():
    a = answer("--model", QWEN, "--gpu", "H100", "--batch", "1,16,128",
               "--popularity", POPULARITY)
    u = [p["active_experts"] for p in a["points"]]
    check("--popularity: what the published popularity touches",
          near(u[0], 8) and abs(u[1] - 64.12) < 0.006 and
          abs(u[2] - 111.37) < 0.006 and
          a["model"]["popularity_layers"] == 94 and
          a["model"]["skew"] is None, a)
    check("and its valley ends near 140, not at 57",
          135 < a["valley"]["exit_batch"] < 145, a["valley"])
    said = plan("--model", QWEN, "--gpu", "H100", "--popularity",
                POPULARITY).stdout
    check("the table says whose popularity", "popularity (94 layers)" in said,
          said)
    directory = tempfile.mkdtemp(prefix="moetop-plan-")
    path = os.path.join(directory, "p.csv")
    try:
        for text, why in (("1,2,3\n", "line 1: 3 numbers, but the model has "
                           "128 experts"),
                          ("1," * 127 + "x\n", "line 1: 'x' is not"),
                          ("0," * 127 + "0\n", "all chances are 0"),
                          ("9," + "0," * 126 + "1\n", "expert 0 would be"),
                          ("", "0 lines")):
            with open(path, "w") as f:
                f.write(text)
            refused(2, why, "--model", QWEN, "--gpu", "H100", "--popularity",
                    path)
        refused(2, "numbers, but the model has 256",
                "--model", QWEN, "--gpu", "H100", "--compare", DEEPSEEK,
                "--popularity", POPULARITY)
    finally:
        shutil.rmtree(directory)
    refused(1, "No such file", "--model", QWEN, "--gpu", "H100",
            "--popularity", "/nonexistent")
    refused(2, "give one of them", "--model", QWEN, "--gpu", "H100",
            "--popularity", POPULARITY, "--skew", "1")


def comparison():
    args = ["--model", QWEN, "--gpu", "H100", "--gpu-price", "3", "--batch",
            "1,16,256", "--compare", "@B200=6", "--compare",
            GPT_OSS + "@H200", "--compare", GPT_OSS]
    a = answer(*args)
    alone = answer("--model", GPT_OSS, "--gpu", "H200", "--gpu-price", "3",
                   "--batch", "1,16,256")
    check("--compare: the first plan as ever, then one for each",
          len(a["compare"]) == 3 and
          [c["gpu"]["name"] for c in a["compare"]] ==
          ["B200-HGX", "H200-SXM", "H100-SXM"] and
          a["compare"][0]["gpu"]["usd_per_hour"] == 6 and
          a["compare"][0]["model"] == a["model"], a)
    check("each is what it is alone",
          all(a["compare"][1][k] == alone[k] for k in
              ("model", "gpu", "points", "valley")), (a, alone))
    run = plan(*args)
    lines = run.stdout.splitlines()
    check("side by side, 80 columns, a letter each",
          run.returncode == 0 and max(map(len, lines)) <= 80 and
          [x[0] for x in lines if x[1:3] == "  " and x[0] in "ABCD"] ==
          list("ABCD") and
          any(x.split() == ["$/Mtok", "A", "B", "C", "D"] for x in lines),
          run.stdout)
    wide = plan("--model", QWEN, "--gpu", "RTXPRO6000-MaxQ", "--gpus", "4096",
                "--gpu-price", "99999", *sum((["--compare", "@A100-80GB-PCIe"]
                                              for _ in range(7)), []))
    check("eight of them keep 80 columns",
          max(map(len, wide.stdout.splitlines())) <= 80, wide.stdout)
    good = ["--model", QWEN, "--gpu", "H100"]
    refused(2, "--compare: 'abacus' is not known", *good, "--compare",
            "@abacus")
    refused(2, "is not a price", *good, "--compare", "@H200=much")
    refused(2, "is not a price", *good, "--compare", "@H200=-1")
    refused(1, "--compare: /nonexistent", *good, "--compare",
            "/nonexistent@H200")
    refused(1, "not a mixture of experts", *good, "--compare", DENSE)
    refused(2, "given more than 7 times", *good,
            *sum((["--compare", "@H200"] for _ in range(8)), []))


def plots():
    args = ["--model", DEEPSEEK, "--gpu", "H200", "--tp", "8", "--gpu-price",
            "3"]
    for columns in ("20", "40", "80", "133", "100000"):
        text = plan(*args, COLUMNS=columns).stdout
        drawn = text[text.index("\neta: how free"):].splitlines()
        want = min(max(int(columns), 40), 200)
        check(f"COLUMNS={columns}: charts of {want} columns",
              max(map(len, drawn)) == want and
              not any(x != x.rstrip() for x in drawn), text)
    text = plan(*args).stdout
    check("three charts, the valley under the first, its floor marked",
          "\nMB read per token\n" in text and
          "\n$ per million tokens\n" in text and
          text.count("  valley  ") == 1 and text.count("\u25bc") == 1, text)
    valley = [x for x in text.splitlines() if x.startswith("  valley  ")][0]
    axis = [x for x in text.splitlines() if x.startswith("       B  1 ")][0]
    column = axis.index(" 32 ") + 1, axis.index(" 64 ") + 1
    check("and it lies between 32 and 64", column[0] < valley.index("\u25bc")
          < column[1], (valley, axis))
    for env, extra in (({"LC_ALL": "C"}, []), ({}, ["--ascii"])):
        text = plan(*args, *extra, **env).stdout
        check(f"ASCII {env or extra}: no other character, the same charts",
              text.isascii() and text.count("\n  valley  ") == 1 and
              "V" in text and "*" in text, text)
    text = plan("--model", QWEN, "--gpu", "H100").stdout
    check("without prices: tokens per second", "\ntokens per second\n" in text
          and "$ per million" not in text, text)
    one = plan("--model", QWEN, "--gpu", "H100", "--batch", "7")
    check("one batch: a chart nevertheless", one.returncode == 0 and
          "MB read per token" in one.stdout, one.stdout)
    far = plan("--model", QWEN, "--gpu", "H100", "--batch", "4096,8192").stdout
    check("a valley out of sight is said to be", "before these batches" in far,
          far)


# Models of the tables, and how their weights are stored there.
TABLES = {
    "Mixtral-8x7B": ("mistralai--Mixtral-8x7B-v0.1", "bf16"),
    "Qwen3-30B-A3B": ("Qwen--Qwen3-30B-A3B", "fp8"),
    "Qwen3-235B-A22B": ("Qwen--Qwen3-235B-A22B", "fp8"),
    "DeepSeek-V3": ("deepseek-ai--DeepSeek-V3", "config"),
    "gpt-oss-120b": ("openai--gpt-oss-120b", "config"),
    "gpt-oss-20b": ("openai--gpt-oss-20b", "config"),
    "Kimi-K2": ("rtp--kimi_k2_fake", "config"),
    "Qwen3.5-397B-A17B": ("Qwen--Qwen3.5-397B-A17B", "fp8"),
    "Qwen3-Next-80B-A3B": ("Qwen--Qwen3-Next-80B-A3B-Thinking", "fp8"),
    "Llama-4-Scout": ("meta-llama--Llama-4-Scout-17B-16E-Instruct", "bf16"),
    "Llama-4-Maverick": ("meta-llama--Llama-4-Maverick-17B-128E-Instruct",
                         "fp8"),
}


def rows_of(name):
    with open(os.path.join(ROOT, "tests", "data", name)) as f:
        return list(csv.DictReader(f))


def as_printed(text, value):
    """Six digits, rounded."""
    return abs(float(text) - value) <= 5.001e-6 * 10 ** math.floor(
        math.log10(abs(value)) if value else 0) + 1e-14


def published_tables():
    """What depends on routing alone to the printed digits; bytes, which
    count every weight of the config, within a few percent."""
    rows, bounds = rows_of("valley_tables.csv"), rows_of("boundaries.csv")
    bad, n = [], 0
    for name, (config, dtype) in TABLES.items():
        mine = [r for r in rows if r["model"] == name]
        a = answer("--model", os.path.join(CONFIGS, config + "_config.json"),
                   "--gpu", "H100", "--ctx", "0", "--dtype", dtype, "--batch",
                   ",".join(r["B"] for r in mine))
        for r, p in zip(mine, a["points"]):
            n += 1
            for column, value in (
                    ("U", "active_experts"), ("coverage", "coverage_ratio"),
                    ("single_row_share", "single_row_ratio"),
                    ("fragmentation", "fragmentation_ratio"),
                    ("V", "valley_index")):
                if not as_printed(r[column], p[value]):
                    bad.append((name, r["B"], column, r[column], p[value]))
            for column, value, part in (
                    ("routed_GB_step", p["routed_bytes_per_step"] / 1e9, .002),
                    ("MB_per_token_total_ctx0", p["bytes_per_token"] / 1e6,
                     .07)):
                if not near(float(r[column]), value, part):
                    bad.append((name, r["B"], column, r[column], value))
        b = next(r for r in bounds if r["model"] == name)
        for column, value in (("B_floor", "floor_batch"),
                              ("B_s1_090", "enter_batch"),
                              ("B_s1_010", "exit_batch")):
            if not as_printed(b[column], a["valley"][value]):
                bad.append((name, column, b[column], a["valley"][value]))
    check(f"the published tables of {len(TABLES)} models, {n} rows",
          not bad and n == 242, bad)


def every_config():
    bad = []
    for path in sorted(glob.glob(os.path.join(CONFIGS, "*config*.json"))):
        run = plan("--model", path, "--gpu", "B200", "--ctx", "0", "--json")
        if run.returncode:
            if run.returncode != 1 or run.stdout or \
                    run.stderr.count("\n") != 1:
                bad.append((path, run.stderr))
            continue
        points = json.loads(run.stdout)["points"]
        per_token = [p["bytes_per_token"] for p in points]
        speed = [p["tokens_per_second"] for p in points]
        if per_token != sorted(per_token, reverse=True) or \
                speed != sorted(speed):
            bad.append((path, run.stdout))
    check("every model: bytes per token only fall, tokens/s only rise",
          not bad, bad)


def refused(status, text, *args):
    run = plan(*args)
    check(f"moetop plan {' '.join(map(os.path.basename, args))[:70]}: status "
          f"{status}, one line",
          run.returncode == status and not run.stdout and
          run.stderr.count("\n") == 1 and run.stderr.count("; ") >= 1 and
          run.stderr.startswith("moetop: ") and text in run.stderr,
          (run.returncode, run.stderr, run.stdout))


def folders():
    with tempfile.TemporaryDirectory(prefix="moetop-plan-") as top:
        folder = os.path.join(top, "Some-Model")
        os.mkdir(folder)
        refused(1, "no config.json in this folder", "--model", folder,
                "--gpu", "H100")
        shutil.copy(QWEN, os.path.join(folder, "config.json"))
        with open(os.path.join(folder, "hf_quant_config.json"), "w") as f:
            json.dump({"quantization": {"quant_algo": "NVFP4",
                                        "kv_cache_quant_algo": "FP8"}}, f)
        a, b = (answer("--model", folder + end, "--gpu", "B200", "--batch",
                       "8") for end in ("", "/"))
        m = a["model"]
        check("a folder stands for its config.json, with the file beside it",
              a == b and m["name"] == "Some-Model" and
              m["quant"] == "nvfp4 g16" and m["expert_bytes"] == 2654208 and
              m["kv_element_bytes"] == 1 and m["kv_bytes_per_token"] == 98304,
              a)
        _, rest = routed_and_rest(a["points"][0])
        check("its cache in the type that the checkpoint asks for",
              near(rest, m["dense_bytes"] + 8 * 4096 * 98304 / 2), a)


def refusals():
    good = ["--model", QWEN, "--gpu", "H100"]
    refused(2, "no model named", "--gpu", "H100")
    refused(2, "no GPU named", "--model", QWEN)
    refused(2, "H200-SXM, H200-NVL, GH200-96GB, GH200-144GB, B200-HGX, GB200, "
            "B300-HGX, GB300, GB10-Spark, MI300X, MI325X, MI350X, MI355X",
            "--model", QWEN, "--gpu", "abacus")
    refused(1, "not a mixture of experts", "--model", DENSE, "--gpu", "H100")
    refused(1, "No such file", "--model", "/nonexistent", "--gpu", "H100")
    refused(1, "not a JSON object", "--model", __file__, "--gpu", "H100")
    refused(1, "--ctx 0", "--model", NO_KV, "--gpu", "H100")
    check("and with --ctx 0 it is planned",
          plan("--model", NO_KV, "--gpu", "H100", "--ctx",
               "0").returncode == 0)
    refused(2, "a multiple of both", *good, "--gpus", "6", "--tp", "4")
    refused(2, "more than the 128 experts", *good, "--ep", "256")
    for text in ("", ",", "1,", "0", "1;2", " 1", "-1", "1.5", "1000001",
                 "99999999999999999999", ",".join(["1"] * 65)):
        refused(2, "--batch", *good, "--batch", text)
    refused(2, "out of range", *good, "--skew", "0")
    refused(2, "out of range", *good, "--gpus", "0")
    refused(2, "not a choice", *good, "--dtype", "fp16")
    refused(2, "not an option", *good, "-p", "1")
    refused(2, "not understood here", *good, "extra")


def outside():
    said = moetop("help").stdout
    line = [x for x in said.splitlines() if "moetop plan" in x]
    check("moetop help offers it", len(line) == 1 and
          "not built" not in line[0], line)
    with open("/dev/full", "w") as full:
        run = moetop("plan", "--model", QWEN, "--gpu", "H100", stdout=full)
    check("output that cannot be written: status 1 and one line",
          run.returncode == 1 and run.stderr.count("\n") == 1, run.stderr)


numbers()
options()
table()
popularity()
comparison()
plots()
published_tables()
every_config()
folders()
refusals()
outside()
tap.end()
