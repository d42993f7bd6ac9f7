"""grafana.py - panels and dashboards as Grafana stores them (schema 39)

A panel names its queries, its unit and one sentence; what the metrics in the
queries mean is added from texts.py.  Panels flow from left to right.
"""
SCHEMA = 39
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = (
    "green", "yellow", "orange", "red", "blue", "text")


class Query:
    """expr, and what a series of it is called.  instant: a table's cell."""

    def __init__(self, expr, legend="", instant=False, form="time_series"):
        self.expr, self.legend = expr, legend
        self.instant, self.form = instant, form

    def json(self, ref):
        return {"datasource": DATASOURCE, "refId": ref, "expr": self.expr,
                "legendFormat": self.legend, "instant": self.instant,
                "range": not self.instant, "format": self.form,
                "editorMode": "code"}


def steps(*pairs):
    """Thresholds: (from, colour), the first one without a lower bound."""
    return {"mode": "absolute",
            "steps": [{"value": v, "color": c} for v, c in pairs]}


def mapping(words):
    """Numbers as words: {1: ("idle", colour)}."""
    return [{"type": "value", "options": {
        str(n): {"text": text, "color": colour, "index": i}
        for i, (n, (text, colour)) in enumerate(words.items())}}]


LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True,
          "calcs": []}
TOOLTIP = {"mode": "multi", "sort": "desc"}
REDUCE = {"calcs": ["lastNotNull"], "fields": "", "values": False}

OPTIONS = {
    "timeseries": {"legend": LEGEND, "tooltip": TOOLTIP},
    "stat": {"reduceOptions": REDUCE, "orientation": "auto",
             "textMode": "auto", "colorMode": "value", "graphMode": "area",
             "justifyMode": "auto"},
    "bargauge": {"reduceOptions": REDUCE, "orientation": "horizontal",
                 "displayMode": "gradient", "showUnfilled": True,
                 "valueMode": "color", "minVizWidth": 0, "minVizHeight": 10},
    "table": {"showHeader": True, "cellHeight": "sm",
              "footer": {"show": False, "reducer": ["sum"]}},
    "state-timeline": {"showValue": "auto", "rowHeight": 0.9,
                       "mergeValues": True, "alignValue": "left",
                       "legend": LEGEND, "tooltip": {"mode": "single",
                                                     "sort": "none"}},
    "heatmap": {"calculate": False, "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Turbo", "steps": 64,
                          "exponent": 0.5, "fill": "dark-orange",
                          "reverse": False},
                "yAxis": {"axisPlacement": "left", "reverse": False},
                "rowsFrame": {"layout": "auto"},
                "legend": {"show": True},
                "tooltip": {"show": True, "yHistogram": False},
                "exemplars": {"color": "rgba(255,0,255,0.7)"},
                "filterValues": {"le": 1e-9}, "showValue": "never"},
}

CUSTOM = {
    "timeseries": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8,
                   "showPoints": "never", "spanNulls": False,
                   "stacking": {"mode": "none", "group": "A"}},
    "state-timeline": {"lineWidth": 0, "fillOpacity": 80},
    "table": {"align": "auto", "cellOptions": {"type": "auto"},
              "inspect": False},
}


class Panel:
    def __init__(self, title, unit, about, *queries, kind="timeseries", w=8,
                 h=8, **more):
        """more: min, max, decimals, thresholds, mappings, overrides, stack,
        transformations, links, options, repeat."""
        self.title, self.unit, self.about = title, unit, about
        self.queries, self.kind, self.w, self.h = queries, kind, w, h
        self.more = more

    def field_config(self):
        more = self.more
        defaults = {"unit": self.unit, "mappings": more.get("mappings", []),
                    "thresholds": more.get("thresholds",
                                           steps((None, GREEN))),
                    "color": {"mode": "palette-classic" if self.kind ==
                              "timeseries" else "thresholds"},
                    "custom": dict(CUSTOM.get(self.kind, {}))}
        for key in ("min", "max", "decimals", "noValue"):
            if key in more:
                defaults[key] = more[key]
        if more.get("stack"):
            defaults["custom"]["stacking"] = {"mode": "normal", "group": "A"}
            defaults["custom"]["fillOpacity"] = 40
        return {"defaults": defaults, "overrides": more.get("overrides", [])}

    def json(self, number, x, y, texts):
        about = self.about
        meaning = texts.describe([q.expr for q in self.queries])
        if meaning:
            about += "\n\n" + meaning
        options = dict(OPTIONS[self.kind], **self.more.get("options", {}))
        if self.kind == "heatmap": # it takes the unit of its cells from here
            options["cellValues"] = {"unit": self.unit}
        return {"id": number, "type": self.kind, "title": self.title,
                "description": about, "datasource": DATASOURCE,
                "gridPos": {"x": x, "y": y, "w": self.w, "h": self.h},
                "targets": [q.json(chr(ord("A") + i))
                            for i, q in enumerate(self.queries)],
                "fieldConfig": self.field_config(), "options": options,
                "transformations": self.more.get("transformations", []),
                "links": self.more.get("links", []),
                "transparent": False}


class Row:
    def __init__(self, title, *panels):
        self.title, self.panels = title, panels


def unit_of(field, unit, **more):
    """An override of a table's column: unit, and config keys as they are."""
    properties = [{"id": "unit", "value": unit}]
    properties += [{"id": k, "value": v} for k, v in more.items()]
    return {"matcher": {"id": "byName", "options": field},
            "properties": properties}


def link(title, url):
    return {"title": title, "type": "link", "url": url, "icon": "doc",
            "tooltip": "", "tags": [], "asDropdown": False,
            "targetBlank": True, "includeVars": False, "keepTime": False}


def variable_datasource():
    return {"name": "datasource", "label": "Prometheus", "type": "datasource",
            "query": "prometheus", "current": {}, "hide": 0, "regex": "",
            "refresh": 1, "multi": False, "includeAll": False,
            "skipUrlSync": False, "options": []}


def variable(name, label, query, multi=True, sort=5):
    """A variable that lists the values of a label; all of them to begin with,
    those without the label, too."""
    all_ = {"selected": True, "text": "All", "value": "$__all"}
    return {"name": name, "label": label, "type": "query", "query": {
                "query": query, "refId": "values"},
            "datasource": DATASOURCE, "current": all_ if multi else {},
            "hide": 0, "regex": "", "refresh": 2, "sort": sort, "multi": multi,
            "includeAll": multi, "allValue": ".*" if multi else None,
            "skipUrlSync": False, "options": []}


def variable_constant(name, value):
    return {"name": name, "type": "constant", "query": value, "hide": 2,
            "skipUrlSync": True, "current": {"selected": True, "text": value,
                                             "value": value},
            "options": [{"selected": True, "text": value, "value": value}]}


def place(rows, texts):
    panels, number, y = [], 1, 0
    for row in rows:
        panels.append({"id": number, "type": "row", "title": row.title,
                       "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        number, x, y, tallest = number + 1, 0, y + 1, 0
        for panel in row.panels:
            if x + panel.w > 24:
                x, y, tallest = 0, y + tallest, 0
            panels.append(panel.json(number, x, y, texts))
            number, x = number + 1, x + panel.w
            tallest = max(tallest, panel.h)
        y += tallest
    return panels


def dashboard(uid, title, about, variables, rows, links, texts):
    return {
        "uid": uid, "title": title, "description": about, "tags": ["moetop"],
        "schemaVersion": SCHEMA, "version": 1, "editable": True,
        "graphTooltip": 1, "timezone": "browser", "style": "dark",
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s",
        "timepicker": {}, "fiscalYearStartMonth": 0, "liveNow": False,
        "weekStart": "",
        "annotations": {"list": [{
            "name": "moetop alerts", "enable": True, "hide": False,
            "iconColor": "red", "datasource": DATASOURCE,
            "expr": 'ALERTS{alertname=~"Moetop.*",alertstate="firing"}'}]},
        "templating": {"list": variables},
        "links": [{"title": "moetop", "type": "dashboards", "url": "",
                   "tags": ["moetop"], "asDropdown": True,
                   "targetBlank": False, "includeVars": True,
                   "keepTime": True, "icon": "external link",
                   "tooltip": "the other dashboards"}] + links,
        "panels": place(rows, texts),
    }
