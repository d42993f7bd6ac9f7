"""grafana_schema.py - a dashboard against the types of grafana-foundation-sdk

The kit knows every field of Grafana's dashboards, panels, options and queries.
A field that does not come back from it is none of Grafana's; a value that is not
of the field's type would be ignored or refused by Grafana.
"""
import enum
import json
import typing

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard

plugins.register_default_plugins()


def lost(sent, back, path=""):
    """Paths that the kit does not know, or has changed."""
    if isinstance(sent, dict) and isinstance(back, dict):
        out = []
        for key, value in sent.items():
            if key not in back:
                out.append(f"{path}.{key} is no field")
            else:
                out += lost(value, back[key], f"{path}.{key}")
        return out
    if isinstance(sent, list) and isinstance(back, list):
        if len(sent) != len(back):
            return [f"{path}: {len(sent)} became {len(back)}"]
        return [x for i, (a, b) in enumerate(zip(sent, back))
                for x in lost(a, b, f"{path}[{i}]")]
    return [] if sent == back else [f"{path}: {sent!r} became {back!r}"]


def fits(value, hint):
    """Whether a value is of a type of the kit; what is not plain fits."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return any(fits(value, a) for a in args)
    if origin is typing.Literal:
        return value in args
    if origin is list:
        return isinstance(value, list) and all(fits(v, args[0])
                                               for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [e.value for e in hint]
    if hint in (int, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint in (str, bool):
        return isinstance(value, hint)
    return hint is not type(None) or value is None


def wrong(node, path="", seen=None):
    """Values that are not of their field's type."""
    if isinstance(node, (list, tuple)):
        return [x for i, v in enumerate(node) for x in wrong(v, f"{path}[{i}]")]
    if isinstance(node, dict):
        return [x for k, v in node.items() for x in wrong(v, f"{path}.{k}")]
    if not type(node).__module__.startswith("grafana_foundation_sdk.models") \
            or isinstance(node, enum.Enum):
        return []
    out = []
    hints = typing.get_type_hints(type(node))
    for name, value in vars(node).items():
        here = f"{path}.{name}"
        if name in hints and not fits(value, hints[name]):
            out.append(f"{here}: {value!r} is no {hints[name]}")
        out += wrong(value, here)
    return out


def problems(document):
    model = dashboard.Dashboard.from_json(document)
    back = json.loads(json.dumps(model, cls=encoder.JSONEncoder))
    return lost(document, back) + wrong(model)
