"""texts.py - what moetop's metrics mean, from the tables that define them

Titles, units, help and judgements are those of model/metrics.def,
model/explain.def and docs/METRICS.md (which the exporter's own tables write), so
that a dashboard explains a number in the words of the screen.
"""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

STRING = r'"((?:[^"\\]|\\.)*)"'
METRIC = re.compile(r"^METRIC\((\w+),\s*" + STRING + r",\s*(\w+),\s*(\w+),\s*"
                    + STRING + r",\s*" + STRING + r"\)", re.M)
HISTOGRAM = re.compile(r"^HISTOGRAM\((\w+),\s*" + STRING + r",\s*(\w+),\s*"
                       + STRING + r",\s*" + STRING + r"\)", re.M)
EXPLAIN = re.compile(r"^EXPLAIN(?:_HIST)?\((\w+),\s*" + STRING + r",\s*"
                     + STRING, re.M)
ROW = re.compile(r"^\| `(moetop_\w+)` \| (\w+) \|([^|]*)\| (.*) \|$", re.M)
NAME = re.compile(r"\bmoetop_\w+")
RECORDED = re.compile(r"\b\w+:moetop_\w+:\w+")

# Grafana's units for those of metrics.def.
UNITS = {"NONE": "none", "SECONDS": "s", "BYTES": "bytes",
         "BYTES_PER_SECOND": "Bps", "RATIO": "percentunit",
         "PER_SECOND": "cps", "COUNT": "short", "USD": "currencyUSD"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


class Texts:
    def __init__(self, recorded):
        """recorded: name of a recording rule -> sentence."""
        self.recorded = recorded
        self.help = {}     # Prometheus name -> sentence
        self.unit = {}     # Prometheus name -> Grafana's unit
        self.judge = {}    # Prometheus name -> what is good or bad
        ids = {}
        table = read("model", "metrics.def")
        for key, name, unit, _, _, text in METRIC.findall(table):
            self.add(ids, key, name, unit, text)
        for key, name, unit, _, text in HISTOGRAM.findall(table):
            name = {"step_seconds": "step_duration_seconds"}.get(name, name)
            self.add(ids, key + " hist", name, unit, text)
        for key, _, judge in EXPLAIN.findall(read("model", "explain.def")):
            if key in ids:
                self.judge[ids[key]] = judge
        for name, _, _, text in ROW.findall(read("docs", "METRICS.md")):
            self.help.setdefault(name, sentence(text))

    def add(self, ids, key, name, unit, text):
        ids[key] = "moetop_" + name
        self.help["moetop_" + name] = text
        self.unit["moetop_" + name] = UNITS[unit]

    def base(self, name):
        """The family that a series belongs to, or None."""
        for suffix in ("", "_bucket", "_sum", "_count"):
            if suffix and not name.endswith(suffix):
                continue
            family = name[:len(name) - len(suffix)]
            if family in self.help:
                return family
        return None

    def families(self, expr):
        """The documented families that an expression reads, in order."""
        found = []
        for name in NAME.findall(expr):
            family = self.base(name)
            if family and family not in found:
                found.append(family)
        return found

    def describe(self, exprs):
        """Help and judgement of what these expressions read, as Markdown."""
        lines = []
        for family in self.families(" ".join(exprs)):
            line = f"`{family}`: {self.help[family]}"
            if family in self.judge:
                line += f" {self.judge[family]}"
            lines.append(line)
        for name in sorted(set(RECORDED.findall(" ".join(exprs)))):
            lines.append(f"`{name}`, recorded: {self.recorded[name]}")
        return "\n\n".join(lines)


def sentence(text):
    """As a sentence: the table of docs/METRICS.md has some without a point."""
    text = text.strip().replace("\\|", "|")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
