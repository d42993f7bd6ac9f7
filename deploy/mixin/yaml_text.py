"""yaml_text.py - groups of rules as YAML, with the standard library alone"""
import json


def quote(value):
    return json.dumps(str(value), ensure_ascii=False)


def block(key, text, indent):
    """key: one line, or a literal block."""
    pad = " " * indent
    if "\n" not in text and len(text) < 60:
        return f"{pad}{key}: {quote(text)}\n"
    lines = "".join(f"{pad}  {line}\n" if line else "\n"
                    for line in text.split("\n"))
    return f"{pad}{key}: |-\n{lines}"


def recording(rule, indent):
    pad = " " * indent
    return (f"{pad}# {rule['help']}\n{pad}- record: {rule['record']}\n" +
            block("expr", rule["expr"], indent + 2))


def alerting(rule, indent, url):
    pad = " " * (indent + 2)
    out = f"{' ' * indent}- alert: {rule['alert']}\n"
    out += block("expr", rule["expr"], indent + 2)
    out += f"{pad}for: {rule['for']}\n"
    out += f"{pad}labels:\n{pad}  severity: {rule['severity']}\n"
    out += f"{pad}annotations:\n"
    for key, text in (("summary", rule["summary"]),
                      ("description", rule["description"]),
                      ("runbook_url", url(rule["alert"]))):
        out += f"{pad}  {key}: {quote(text)}\n"
    return out


def groups(groups_, interval, url, indent=0):
    """groups: of Prometheus' rule files, from what rules.py returns."""
    pad = " " * indent
    out = f"{pad}groups:\n"
    for group in groups_:
        out += (f"{pad}  - name: {group['name']}\n"
                f"{pad}    interval: {interval}\n{pad}    rules:\n")
        for rule in group["rules"]:
            out += (recording(rule, indent + 6) if "record" in rule
                    else alerting(rule, indent + 6, url))
    return out
