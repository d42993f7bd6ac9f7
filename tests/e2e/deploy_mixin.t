#!/usr/bin/env python3
"""deploy_mixin.t - dashboards, rules, alerts and runbooks, without a server

They are what the generator writes, name only series that exist, fit Grafana's and
Prometheus' formats, and every alert has a page and a test in which it fires and
one in which it clears.
"""
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "deploy"))
import venv

venv.enter()

import _jsonnet
import yaml

import grafana_schema
import tap
from tap import check

ROOT = venv.ROOT
MIXIN = os.path.join(ROOT, "deploy", "mixin")
sys.path.insert(0, MIXIN)
import rules
import texts

DASHBOARDS = sorted(glob.glob(os.path.join(MIXIN, "dashboards", "*.json")))
RULES = sorted(glob.glob(os.path.join(MIXIN, "rules", "*.yml")))
PROMETHEUS = os.path.join(ROOT, "deploy", "prometheus")
# Prometheus' own series that our expressions use.
FOREIGN = {"up", "ALERTS"}


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True, check=False,
                       cwd=ROOT)
    return r.returncode == 0, r.stdout + r.stderr


def load(path):
    with open(path, encoding="utf-8") as f:
        return list(yaml.safe_load_all(f)) if path.endswith((".yml", ".yaml")) \
            else json.load(f)


def panels():
    """(dashboard, panel) of every panel that shows something."""
    for path in DASHBOARDS:
        for panel in load(path)["panels"]:
            if panel["type"] != "row":
                yield os.path.basename(path), panel


def all_rules():
    return [rule for path in RULES for document in load(path)
            for group in document["groups"] for rule in group["rules"]]


def generator():
    check("dashboards and rules are what the generator writes now",
          *run(os.path.join(MIXIN, "generate.py"), "--check"))
    ok, out = run(os.path.join(MIXIN, "generate.py"), "--check", "--set",
                  "no_such=1")
    check("a setting that does not exist is refused by name",
          not ok and "no_such" in out, out)


def importing():
    """Others take it as it is, and know what they may set."""
    mixin = json.loads(_jsonnet.evaluate_snippet(
        "mixin", "local m = import 'mixin.libsonnet'; {d: m."
        "grafanaDashboards, r: m.prometheusRules, a: m.prometheusAlerts}",
        jpathdir=[MIXIN]))
    check("the jsonnet mixin has the same dashboards, rules and alerts",
          sorted(mixin["d"]) == ["moetop-" + os.path.basename(p)
                                 for p in DASHBOARDS] and
          [mixin["a"], mixin["r"]] == [load(p)[0] for p in RULES])
    with open(os.path.join(MIXIN, "README.md"), encoding="utf-8") as f:
        said = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", f.read(), re.M))
    have = {k: str(v) for k, v in vars(rules.Settings).items()
            if not k.startswith("_") and not callable(v)}
    check("the README has every setting with its default", said == have,
          set(said.items()) ^ set(have.items()))


def formats():
    for path in DASHBOARDS:
        wrong = grafana_schema.problems(load(path))
        check(f"{os.path.basename(path)} fits Grafana's schema", not wrong,
              "\n".join(wrong))
    bad = load(DASHBOARDS[0])
    bad["panels"][1]["options"]["bogus"] = 1
    bad["panels"][2]["fieldConfig"]["defaults"]["unit"] = 7
    check("the check of the schema sees a wrong field and a wrong type",
          len(grafana_schema.problems(bad)) == 2, grafana_schema.problems(bad))
    check("promtool check rules", *run("promtool", "check", "rules", *RULES))
    for name, more in (("prometheus.yml", ()), ("federation.yml", ()),
                       ("agent.yml", ("--agent",))):
        check(f"promtool check config {name}", *run(
            "promtool", "check", "config", "--syntax-only", *more,
            os.path.join(PROMETHEUS, name)))


def dashboards():
    bare = [(d, p["title"]) for d, p in panels()
            if not p["fieldConfig"]["defaults"]["unit"]
            or len(p["description"]) < 20 or not p["title"]]
    check("no panel without title, unit and description", not bare, bare)
    ids = [(d, p["id"]) for d, p in panels()]
    check("no panel has another one's number", len(ids) == len(set(ids)))
    overlaps = []
    for path in DASHBOARDS:
        taken = {}
        for p in load(path)["panels"]:
            g = p["gridPos"]
            for x in range(g["x"], g["x"] + g["w"]):
                for y in range(g["y"], g["y"] + g["h"]):
                    if x > 23 or (x, y) in taken:
                        overlaps.append((path, p["title"]))
                    taken[x, y] = p
    check("no panel lies on another one or outside", not overlaps, overlaps)
    for path in DASHBOARDS:
        board = load(path)
        names = {v["name"] for v in board["templating"]["list"]}
        text = json.dumps(board)
        used = set(re.findall(r"\$\{?([a-z_]\w*)\}?", text))
        used = {u for u in used if not u.startswith("__")}
        check(f"{os.path.basename(path)}: variables are defined, and used",
              used == names and {"datasource", "namespace", "model"} <= names,
              (used, names))


def names():
    """What is read exists: in the exporter's tables or as a recording rule."""
    known = texts.Texts({})
    recorded = {r["record"] for r in all_rules() if "record" in r}
    unknown, used = [], set()
    sources = [(f"{d}: {p['title']}", t["expr"]) for d, p in panels()
               for t in p["targets"]]
    sources += [(r.get("record") or r["alert"], r["expr"])
                for r in all_rules()]
    for where, expr in sources:
        bare = re.sub(r'"[^"]*"', '""', expr)
        for name in re.findall(r"\b(\w+:moetop_\w+:\w+)", bare):
            used.add(name)
            if name not in recorded:
                unknown.append((where, name))
        bare = re.sub(r"\b\w+:moetop_\w+:\w+", "", bare)
        for name in re.findall(r"\bmoetop_\w+", bare):
            if not known.base(name):
                unknown.append((where, name))
    check("every series that is read exists", not unknown, unknown)


def alerts():
    ours = [r for r in all_rules() if "alert" in r]
    pages = {os.path.basename(p)[:-3] for p in glob.glob(
        os.path.join(ROOT, "docs", "runbooks", "*.md"))} - {"README"}
    wanted = {rules.runbook(r["alert"]) for r in ours}
    check("every alert has a runbook, and every runbook an alert",
          pages == wanted, pages ^ wanted)
    headings = ["# ", "## What it means", "## How to confirm it",
                "## What to do", "## Silencing it wisely"]
    poor = []
    for page in pages:
        with open(os.path.join(ROOT, "docs", "runbooks", page + ".md"),
                  encoding="utf-8") as f:
            lines = f.read().split("\n")
        poor += [(page, h) for h in headings
                 if not any(line.startswith(h) for line in lines)]
    check("a runbook says what, how to confirm, what to do, how to silence",
          not poor, poor)
    lacking = [r["alert"] for r in ours
               if not {"summary", "description", "runbook_url"} <=
               set(r["annotations"]) or "severity" not in r["labels"]
               or not r["annotations"]["runbook_url"].endswith(
                   rules.runbook(r["alert"]) + ".md")]
    check("every alert has severity, summary, description and runbook",
          not lacking, lacking)
    fires, clears = set(), set()
    for group in load(os.path.join(ROOT, "tests/deploy/alerts_test.yml")):
        for test in group["tests"]:
            for t in test.get("alert_rule_test", []):
                (fires if t["exp_alerts"] else clears).add(t["alertname"])
            for t in test.get("promql_expr_test", []):
                name = re.search(r'alertname="(\w+)"', t["expr"]).group(1)
                (fires if t["exp_samples"] else clears).add(name)
    every = {r["alert"] for r in ours}
    check("every alert has a test in which it fires and one in which it does"
          " not", fires == every == clears, (every ^ fires, every ^ clears))
    for name in ("recording_test.yml", "alerts_test.yml"):
        check(f"promtool test rules {name}", *run(
            "promtool", "test", "rules", os.path.join("tests/deploy", name)))


def main():
    generator()
    importing()
    formats()
    dashboards()
    names()
    alerts()
    tap.end()


if __name__ == "__main__":
    main()
