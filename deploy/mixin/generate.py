#!/usr/bin/env python3
"""generate.py - dashboards, recording rules and alerts, from one source

  generate.py                     write them where they are kept
  generate.py --check             say what is out of date; exit status 1
  generate.py --out DIR           write them below DIR instead
  generate.py --set NAME=VALUE    a threshold or time of rules.py, class Settings

Needs Python alone.  Texts come from the tables of the program (texts.py).
"""
import argparse
import json
import os
import sys

import dashboards
import rules
import yaml_text
from texts import ROOT, Texts

NOTE = ("# Written by deploy/mixin/generate.py; do not edit: rules.py is the"
        " source.\n")
OPERATOR = """apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: moetop
  namespace: moetop
  labels:
    app.kubernetes.io/name: moetop
spec:
"""


def files(settings):
    """Path in the repository -> content."""
    recording, alerts = rules.recording(), rules.alerts(settings)
    texts = Texts({rule["record"]: rule["help"]
                   for group in recording for rule in group["rules"]})

    def url(name):
        return f"{settings.runbooks}/{rules.runbook(name)}.md"

    out = {
        "deploy/mixin/rules/recording.yml": NOTE + yaml_text.groups(
            recording, settings.interval, url),
        "deploy/mixin/rules/alerts.yml": NOTE + yaml_text.groups(
            alerts, settings.interval, url),
        "deploy/kubernetes/prometheusrule.yaml": NOTE + OPERATOR +
        yaml_text.groups(recording + alerts, settings.interval, url, 2),
    }
    for name, make in dashboards.ALL.items():
        out[f"deploy/mixin/dashboards/{name}.json"] = json.dumps(
            make(texts, settings), indent=2, ensure_ascii=False) + "\n"
    return out


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def main():
    parser = argparse.ArgumentParser(
        description="dashboards, recording rules and alerts of moetop")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", default=ROOT, metavar="DIR")
    parser.add_argument("--set", action="append", default=[],
                        metavar="NAME=VALUE")
    args = parser.parse_args()
    settings = rules.Settings()
    for item in args.set:
        name, _, value = item.partition("=")
        try:
            settings.set(name, value)
        except (KeyError, ValueError):
            parser.error(f"--set {item}: no such setting, or not its type; "
                         "see class Settings in deploy/mixin/rules.py")
    stale = []
    for path, content in files(settings).items():
        path = os.path.join(args.out, path)
        if read(path) == content:
            continue
        stale.append(os.path.relpath(path, args.out))
        if not args.check:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
    for path in stale:
        print(("out of date: " if args.check else "wrote ") + path)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
