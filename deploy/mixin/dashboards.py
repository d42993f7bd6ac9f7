"""dashboards.py - what the four dashboards show"""
from grafana import (BLUE, GREEN, GREY, ORANGE, RED, YELLOW, Panel, Query, Row,
                     dashboard, link, mapping, steps, unit_of, variable,
                     variable_constant, variable_datasource)
from rules import REGIMES, runbook

# Every series of a server has these labels, empty where there is nothing.
ONE = 'namespace=~"$namespace",model=~"$model",server=~"$server"'
MANY = 'namespace=~"$namespace",model=~"$model"'

COLOURS = dict(zip(REGIMES, [GREY, BLUE, "purple", YELLOW, ORANGE, RED, GREEN]))
REGIME_WORDS = mapping({i: (name, COLOURS[name])
                        for i, name in enumerate(REGIMES, 1)})
LOW_IS_GOOD = steps((None, GREEN), (0.5, YELLOW), (0.8, ORANGE))
HIGH_IS_GOOD = steps((None, ORANGE), (0.3, YELLOW), (0.7, GREEN))
ALERTING = steps((None, GREEN), (1, RED))
SERVER = "{{server}} {{instance}}"


def ratio(top, bottom, where, by=""):
    """A ratio of sums over the chosen servers."""
    by = f" by ({by})" if by else ""
    factor = " / 3600 * 1e6" if top.endswith("usd_per_hour") else ""
    return (f"sum{by} (server:moetop_{top}{{{where}}}){factor}\n"
            f"/ (sum{by} (server:moetop_{bottom}{{{where}}}) > 0)")


def pick(metric, where=ONE, more=""):
    """A metric of a server, whatever its source is now."""
    return f"max without (source) (moetop_{metric}{{{where}{more}}})"


def sum_of(metric, where, by=""):
    by = f" by ({by})" if by else ""
    return f"sum{by} (moetop_{metric}{{{where}}})"


def cost(where, by=""):
    return ratio("priced:usd_per_hour", "priced_tokens:rate", where, by)


def distribution(metric, where=ONE):
    """The rate of a histogram's buckets: classic ones (two operands with le),
    or, where Prometheus keeps native histograms alone, those."""
    window = f"{{{where}}}[$__rate_interval]"
    return (f"sum by (le) (rate(moetop_{metric}_bucket{window}))",
            f"sum (rate(moetop_{metric}{window}))")


def quantiles(metric, where=ONE):
    return [Query("\nor ".join(f"histogram_quantile({q}, {x})" for x in
                               distribution(metric, where)), f"p{q * 100:g}")
            for q in (0.5, 0.9, 0.99)]


def tile(title, unit, about, expr, **more):
    return Panel(title, unit, about, Query(expr), kind="stat", w=3, h=4,
                 **more)


PHI = ("expert_reads:rate", "expert_rows:rate")
S1 = ("single_row_reads:rate", "single_known_reads:rate")
ETA = ("gain_time:rate", "gain_known_time:rate")
MBU = ("dram_bytes:rate", "dram_peak_bytes:rate")
SMBU = ("useful_bytes:rate", "step_peak_bytes:rate")
SHARE = ("unshared_time:rate", "share_known_time:rate")


# ---- fleet ------------------------------------------------------------------

def fleet_now(settings):
    return Row(
        "Now",
        tile("Servers", "short", "LLM servers that moetop watches and that"
             " run.", f"sum (moetop_target_up{{{MANY}}})"),
        tile("Not answering", "short", "Exporters that Prometheus cannot"
             " scrape. Runbook: down.",
             f'sum (up{{job=~"{settings.job}"}} == bool 0)',
             thresholds=ALERTING),
        tile("Tokens", "cps", "Decoded tokens per second of all chosen"
             " servers.", sum_of("tokens_per_second", MANY)),
        tile("In flight", "short", "Generation requests in flight.",
             sum_of("requests_in_flight", MANY)),
        tile("Cost", "currencyUSD", "Dollars per million generated tokens:"
             " price of all GPUs over all tokens, so idle GPUs count. Needs"
             " --gpu-price.", cost(MANY), decimals=2),
        tile("Cost of the GPUs", "currencyUSD", "Dollars per hour.",
             sum_of("cost_usd_per_hour", MANY), decimals=2),
        tile("Unshared", "currencyUSD", "Dollars per hour that pay for expert"
             " reads which serve a single row: what sharing could save at"
             " most.", f"sum (server:moetop_unshared:usd_per_hour{{{MANY}}})",
             decimals=2),
        tile("In the valley", "short", "Servers in the MoE batch valley.",
             f'sum (moetop_regime{{{MANY},regime="valley"}})',
             thresholds=steps((None, GREEN), (1, ORANGE))),
        tile("φ", "percentunit", "Fragmentation of the whole choice: expert"
             " reads per row, sum U / sum R. 100 % means that every row pays"
             " for an expert of its own.", ratio(*PHI, MANY),
             thresholds=LOW_IS_GOOD, min=0, max=1),
        tile("s1", "percentunit", "Share of the active experts that serve one"
             " row, sum F1 / sum U.", ratio(*S1, MANY),
             thresholds=LOW_IS_GOOD, min=0, max=1),
        tile("η", "percentunit", "How much of one more request is free, by GPU"
             " time in decode steps.", ratio(*ETA, MANY),
             thresholds=HIGH_IS_GOOD, min=0, max=1),
        tile("Unshared reads", "percentunit", "Share of the GPU time in decode"
             " steps that reads experts for a single row.",
             ratio(*SHARE, MANY), min=0, max=1,
             thresholds=steps((None, GREEN), (0.08, YELLOW), (0.12, ORANGE))),
        tile("MBU", "percentunit", "DRAM bytes by counters over peak"
             " bandwidth, of the GPUs that have counters.",
             ratio(*MBU, MANY), min=0, max=1),
        tile("S-MBU", "percentunit", "Bytes that decode steps needed over what"
             " DRAM could have moved during them.", ratio(*SMBU, MANY),
             min=0, max=1),
        tile("Alerts", "short", "Alerts of moetop that fire.",
             'count (ALERTS{alertname=~"Moetop.*",alertstate="firing"})'
             " or vector(0)", thresholds=ALERTING),
        tile("Best merge", "percentunit", "Largest share of its cost per token"
             " that a server is predicted to save when replicas like it are"
             " merged.",
             f'1 - min (moetop_what_if_cost_ratio{{{MANY},kind="merge"}})',
             max=1))


def fleet_models():
    by = "namespace, model"
    name = "{{model}} {{namespace}}"
    return Row(
        "Models",
        Panel("Cost per million tokens", "currencyUSD", "Price of all GPUs of"
              " a model over all its tokens.", Query(cost(MANY, by), name)),
        Panel("Fragmentation φ", "percentunit", "Expert reads per row of a"
              " model's replicas together: sum U / sum R.",
              Query(ratio(*PHI, MANY, by), name), min=0, max=1),
        Panel("Single-row share s1", "percentunit", "Active experts that serve"
              " one row, of a model's replicas together: sum F1 / sum U.",
              Query(ratio(*S1, MANY, by), name), min=0, max=1),
        Panel("Marginal gain η", "percentunit", "How much of one more request"
              " is free, by GPU time.", Query(ratio(*ETA, MANY, by), name),
              min=0, max=1),
        Panel("MBU and S-MBU", "percentunit", "What DRAM moved, by counters,"
              " and what decode steps needed, over the peak.",
              Query(ratio(*MBU, MANY, by), "MBU " + name),
              Query(ratio(*SMBU, MANY, by), "S-MBU " + name), min=0, max=1),
        Panel("Tokens per second", "cps", "Decoded tokens.",
              Query(sum_of("tokens_per_second", MANY, by), name), stack=True,
              min=0))


TABLE_COLUMNS = [
    ("regime", "none", f"server:moetop_regime:code{{{MANY}}}"),
    ("in flight", "short", pick("requests_in_flight", MANY)),
    ("B", "short", pick("tokens_per_step", MANY)),
    ("exit", "short", pick("traffic_exit_tokens", MANY)),
    ("φ", "percentunit", pick("fragmentation_ratio", MANY)),
    ("s1", "percentunit", pick("single_row_ratio", MANY)),
    ("η", "percentunit", pick("marginal_gain_ratio", MANY)),
    ("S-MBU", "percentunit", pick("useful_mbu_ratio", MANY)),
    ("tok/s", "cps", pick("tokens_per_second", MANY)),
    ("$/Mtok", "currencyUSD", pick("cost_usd_per_million_tokens", MANY)),
]


def table(title, about, columns, hidden, **more):
    """One row per series, one column per query."""
    names = {f"Value #{chr(ord('A') + i)}": column[0]
             for i, column in enumerate(columns)}
    return Panel(
        title, "short", about,
        *[Query(expr, "", True, "table") for _, _, expr in columns],
        kind="table", transformations=[
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {
                "excludeByName": {name: True for name in hidden},
                "indexByName": {}, "renameByName": names}}],
        **more)


def fleet_servers():
    columns = [unit_of(name, unit) for name, unit, _ in TABLE_COLUMNS[1:]]
    regime = {"matcher": {"id": "byName", "options": "regime"},
              "properties": [{"id": "mappings", "value": REGIME_WORDS},
                             {"id": "custom.cellOptions",
                              "value": {"type": "color-text"}}]}
    return Row(
        "Servers",
        table("Servers", "One line per server; click the name of a column to"
              " sort.", TABLE_COLUMNS,
              ["Time", "job", "__name__", "engine", "pod", "node"], w=24, h=9,
              overrides=columns + [regime]),
        Panel("Regime", "none", "What sets the price of a token, over time.",
              Query(f"server:moetop_regime:code{{{MANY}}}", SERVER),
              kind="state-timeline", w=16, mappings=REGIME_WORDS),
        Panel("Servers by regime", "short", "How many servers are in each"
              " regime.", Query(f"sum by (regime) (moetop_regime{{{MANY}}})",
                                "{{regime}}"), stack=True, min=0))


def fleet_groups():
    name = "{{ep_group}}"
    return Row(
        "Expert-parallel groups over machines, and alerts",
        Panel("Fragmentation φ of a group", "percentunit", "Expert reads per"
              " row over all machines of a group: each holds a part of the"
              " experts, so only the sums mean something.",
              Query("ep_group:moetop_fragmentation:ratio", name), min=0,
              max=1),
        Panel("Imbalance of machines", "short", "Fullest machine of a group"
              " over the mean one: rows, and active experts. 1 is balanced;"
              " the others wait for the fullest.",
              Query("ep_group:moetop_rows_imbalance:ratio", "rows " + name),
              Query("ep_group:moetop_active_imbalance:ratio",
                    "active experts " + name), min=1),
        Panel("Firing", "short", "Alerts of moetop that fire; 1 per series.",
              Query('ALERTS{alertname=~"Moetop.*",alertstate="firing"}', "",
                    True, "table"), kind="table",
              transformations=[{"id": "organize", "options": {
                  "excludeByName": {"Time": True, "__name__": True,
                                    "job": True, "alertstate": True},
                  "indexByName": {}, "renameByName": {}}}]))


def fleet(texts, settings):
    return dashboard(
        "moetop-fleet", "moetop / Fleet", "All servers, and what they cost."
        " Ratios are ratios of sums over the chosen servers.",
        common(settings, server=False),
        [fleet_now(settings), fleet_models(), fleet_servers(), fleet_groups()],
        runbook_links(["MoetopInValley", "MoetopMergeWouldSave",
                       "MoetopGroupStraggler", "MoetopDown"]), texts)


# ---- one server -------------------------------------------------------------

def server_now():
    return Row(
        "Verdict",
        Panel("Regime", "none", "What sets the price of a token, over time.",
              Query(f"server:moetop_regime:code{{{ONE}}}", SERVER),
              kind="state-timeline", w=12, h=4, mappings=REGIME_WORDS),
        tile("φ", "percentunit", "Expert reads per row.",
             pick("fragmentation_ratio"), thresholds=LOW_IS_GOOD),
        tile("s1", "percentunit", "Active experts that serve one row.",
             pick("single_row_ratio"), thresholds=LOW_IS_GOOD),
        tile("η", "percentunit", "How much of one more request is free.",
             pick("marginal_gain_ratio"), thresholds=HIGH_IS_GOOD),
        tile("Cost", "currencyUSD", "Dollars per million generated tokens;"
             " needs --gpu-price.", pick("cost_usd_per_million_tokens"),
             decimals=2),
        Panel("Batch and the valley", "short", "Tokens in a decode step"
              " against the valley's floor and exit for this traffic. Below"
              " the exit, more load mostly reads more experts.",
              Query(pick("tokens_per_step"), "B " + SERVER),
              Query(pick("traffic_floor_tokens"), "floor"),
              Query(pick("traffic_exit_tokens"), "exit"),
              Query(pick("traffic_exit_low_tokens"), "exit, at least"),
              Query(pick("traffic_exit_high_tokens"), "exit, at most"),
              min=0),
        Panel("Shares of a step", "percentunit", "What a decode step spends on"
              " expert reads for a single row, on KV cache and on arithmetic;"
              " the rest is what one more request gets for free.",
              Query(pick("expert_share_ratio"), "unshared expert reads"),
              Query(pick("kv_share_ratio"), "KV cache"),
              Query(pick("compute_share_ratio"), "arithmetic"), stack=True,
              min=0, max=1),
        Panel("Experts", "short", "Per (decode step, MoE layer): rows, experts"
              " with a row, experts with exactly one.",
              Query(pick("rows"), "rows R"),
              Query(pick("active_experts"), "active U"),
              Query(pick("single_row_experts"), "single-row F1"), min=0))


def server_time():
    return Row(
        "Steps and requests",
        Panel("Step time", "s", "Start of a decode step to the start of the"
              " next, in windows of kernel records.",
              *quantiles("step_duration_seconds"),
              Query(pick("step_seconds"), "mean"), min=0),
        Panel("Time to first token", "s", "Seen from the kernel: request head"
              " complete to first body byte.", *quantiles("ttft_seconds"),
              min=0),
        Panel("Gaps", "s", "Time between two events of a stream.",
              *quantiles("event_gap_seconds"), min=0),
        Panel("Requests", "short", "In flight and waiting as the kernel sees"
              " them, running and queued as the engine says.",
              Query(pick("requests_in_flight"), "in flight"),
              Query(pick("requests_waiting"), "waiting"),
              Query(pick("engine_requests_running"), "running (engine)"),
              Query(pick("engine_requests_waiting"), "queued (engine)"),
              min=0),
        Panel("Ends of requests", "cps", "Generation requests per second.",
              *[Query(f"sum (rate(moetop_requests_{what}_total{{{ONE}}}"
                      "[$__rate_interval]))", what)
                for what in ("started", "completed", "aborted")], min=0),
        Panel("Tokens and steps", "cps", "Decoded tokens and decode steps per"
              " second, and the engine's own count of tokens.",
              Query(pick("tokens_per_second"), "tokens"),
              Query(pick("engine_tokens_per_second"), "tokens (engine)"),
              Query(pick("steps_per_second"), "steps"), min=0),
        Panel("KV cache", "percentunit", "How full the engine says its KV cache"
              " is.", Query(pick("engine_kv_usage_ratio"), "in use"), min=0,
              max=1),
        Panel("Preemptions", "short", "Requests that lost their place in the"
              " KV cache in the range that is shown.",
              Query(f"sum (increase(moetop_engine_preemptions_total{{{ONE}}}"
                    "[$__range]))", "preempted"), kind="stat", w=4,
              thresholds=steps((None, GREEN), (1, ORANGE))),
        Panel("Prompts, busy time", "percentunit", "Share of the step time"
              " spent on prompts; share of the wall time with a kernel"
              " running.", Query(pick("prefill_share_ratio"), "prompts"),
              Query(pick("gpu_busy_ratio"), "busy"), min=0, max=1, w=12),
        Panel("Kernels of a step", "s", "Time of each class of kernels in a"
              " decode step.",
              Query(pick("kernel_seconds_per_step"), "{{class}}"), stack=True,
              min=0, w=24))


def server_bytes():
    return Row(
        "Bytes and arithmetic",
        Panel("MBU, S-MBU, MFU", "percentunit", "DRAM traffic by counters,"
              " bytes that a step needs, and arithmetic of the decoded tokens,"
              " each over the peak.", Query(pick("mbu_ratio"), "MBU"),
              Query(pick("useful_mbu_ratio"), "S-MBU"),
              Query(pick("mfu_ratio"), "MFU"),
              Query(pick("tensor_active_ratio"), "tensor active"), min=0),
        Panel("DRAM", "Bps", "What the GPUs read, against their peak and what"
              " reads of weights reach.",
              Query(pick("dram_read_bytes_per_second"), "read"),
              Query(pick("peak_bandwidth_bytes_per_second"), "peak"),
              Query(pick("achieved_bandwidth_bytes_per_second"), "achieved"),
              min=0),
        Panel("Ranks", "short", "Slowest rank's expert time over the mean one"
              " less one, and rows and active experts of the fullest rank over"
              " the mean one; absent with one rank.",
              Query(pick("straggler_share_ratio"), "straggler"),
              Query(pick("rank_rows_imbalance_ratio"), "rows"),
              Query(pick("rank_active_imbalance_ratio"), "active"), min=0))


def server_health():
    return Row(
        "Advice, and moetop itself",
        Panel("Findings", "percentunit", "Advice that holds now, and the share"
              " of the cost that it is predicted to save.",
              Query(f"moetop_finding_gain_ratio{{{ONE}}}", "{{rule}}"),
              kind="bargauge", min=0, max=1),
        Panel("What if", "percentunit", "GPU seconds per token after one change"
              " to the deployment over those of now: below 100 % is cheaper."
              " Modelled.", Query(f"moetop_what_if_cost_ratio{{{ONE}}}",
                                  "{{kind}} {{amount}} {{name}}"),
              kind="bargauge", min=0,
              thresholds=steps((None, GREEN), (0.95, YELLOW), (1.05, RED))),
        Panel("Cost of the agent", "percentunit", "The agent's own account of"
              " what it costs; the budget is --budget.",
              Query(pick("agent_overhead_ratio"), SERVER), min=0,
              thresholds=steps((None, GREEN), (0.01, RED))),
        Panel("Tiers", "short", "1 where a tier of sources works.",
              Query(f'moetop_tier_state{{{ONE},state="ok"}}', "{{tier}}"),
              kind="state-timeline",
              mappings=mapping({0: ("no", ORANGE), 1: ("yes", GREEN)})),
        Panel("Lost", "cps", "What moetop could not take in, per second. Cells"
              " that were not read are normal: rows are sampled.",
              Query(f"sum by (what) (rate(moetop_lost_total{{{ONE}}}"
                    "[$__rate_interval]))", "{{what}}"), min=0),
        Panel("Age", "s", "Age of the values, and of the newest window of"
              " kernel records.",
              Query(f"moetop_snapshot_age_seconds{{{ONE}}}", "snapshot"),
              Query(f"moetop_window_age_seconds{{{ONE}}}", "window"), min=0),
        Panel("Checks", "short", "1 where a number of moetop agrees with the"
              " engine's own.", Query(f"moetop_check_agrees{{{ONE}}}",
                                      "{{check}}"), kind="state-timeline",
              mappings=mapping({0: ("differs", RED), 1: ("agrees", GREEN)})),
        Panel("Windows", "short", "Windows of kernel records taken in the"
              " range that is shown.",
              Query(f"sum (increase(moetop_windows_total{{{ONE}}}[$__range]))",
                    "windows"), kind="stat"),
        Panel("Scrapes", "s", "Time to compute and write a scrape.",
              Query("moetop_render_seconds", "{{instance}}"), min=0))


def server(texts, settings):
    return dashboard(
        "moetop-server", "moetop / Server", "One server: its place in the"
        " valley, its steps, its bytes, and how well moetop sees it.",
        common(settings),
        [server_now(), server_time(), server_bytes(), server_health()],
        runbook_links(["MoetopInValley", "MoetopKvBound",
                       "MoetopExpertStraggler", "MoetopTierMissing"]), texts)


# ---- experts ----------------------------------------------------------------

def padded(label, expr):
    """Numbers in a label as words of three digits: Prometheus sorts by them,
    and a heat map draws its lines in that order."""
    for digits, zeros in ((1, "00"), (2, "0")):
        expr = (f'label_replace({expr}, "{label}", "{zeros}$1", "{label}",'
                f' "({"." * digits})")')
    return expr


def heat(title, unit, about, expr, label="layer", **more):
    """One line of colours per value of the label."""
    return Panel(title, unit, about,
                 Query(padded(label, expr), f"{{{{{label}}}}}"),
                 kind="heatmap", **dict({"w": 12, "h": 10}, **more))


def experts_layers():
    return Row(
        "Layers",
        heat("Fragmentation of each layer", "percentunit", "Expert reads per"
             " row, one line per MoE layer.",
             pick("layer_fragmentation_ratio")),
        heat("Active experts of each layer", "short", "Experts with a row, one"
             " line per MoE layer.", pick("layer_active_experts")),
        heat("Time of each layer", "s", "Time of a layer's MoE block in a"
             " decode step.", pick("layer_seconds_per_step")),
        heat("Expert GEMMs of each layer", "s", "Time of a layer's expert"
             " GEMMs in a decode step.",
             pick("layer_expert_seconds_per_step")))


def experts_each():
    where = ONE + ',layer=~"$layer"'
    rows = f"moetop_expert_rows{{{where}}}"
    return Row(
        "Experts (--expert-metrics)",
        heat("Rows of each expert", "short", "Rows that each expert of the"
             " chosen layers got in the last minute's samples, one line per"
             " expert. Bright lines are hot experts; a line that is never"
             " bright costs memory and nothing else.",
             f"sum by (expert) ({rows})", "expert", w=16, h=14),
        Panel("Hottest experts", "short", "The ten experts of the chosen"
              " layers with the most rows.",
              Query(f"topk(10, sum by (layer, expert) ({rows}))",
                    "layer {{layer}}, expert {{expert}}", True),
              kind="bargauge", h=14))


def experts_traffic():
    return Row(
        "How requests share experts",
        # this format alone takes cumulative buckets apart
        Panel("Rows per active expert", "cps", "How many rows an expert had"
              " when it was read: mass at 1 is what the valley is made of.",
              Query("\nor ".join(distribution("rows_per_expert")), "{{le}}",
                    form="heatmap"), kind="heatmap"),
        Panel("Overlap", "percentunit", "Rows whose expert another request"
              " also chose: measured, for uniform routing, and for independent"
              " requests with this popularity.",
              Query(pick("expert_overlap_ratio"), "measured"),
              Query(pick("expert_overlap_uniform_ratio"), "uniform"),
              Query(pick("expert_overlap_fitted_ratio"), "independent"),
              min=0, max=1),
        Panel("Effective experts", "short", "Experts that the traffic really"
              " uses, and those that a step reads.",
              Query(pick("effective_experts"), "effective"),
              Query(pick("active_experts"), "active"),
              Query(f"moetop_target_experts{{{ONE}}}", "all"), min=0),
        Panel("Skew", "none", "Skew of the experts' popularity; small is"
              " skewed, 100000 is uniform.",
              Query(pick("routing_skew"), SERVER)),
        Panel("Imbalance beyond chance", "short", "Rows of the fullest expert"
              " over the mean, over what chance gives.",
              Query(pick("excess_imbalance_ratio"), SERVER), min=0),
        Panel("Padding of tiles", "percentunit", "Empty share of the rows of"
              " 16-row tiles.", Query(pick("tile_padding_ratio"), SERVER),
              min=0, max=1))


def experts(texts, settings):
    layer = variable("layer", "Layer", "label_values(moetop_expert_rows,"
                     " layer)", sort=3)
    return dashboard(
        "moetop-experts", "moetop / Experts", "Which experts the traffic"
        " reads, layer by layer. Choose one server.",
        common(settings) + [layer],
        [experts_layers(), experts_each(), experts_traffic()],
        runbook_links(["MoetopExpertStraggler", "MoetopGroupStraggler"]),
        texts)


# ---- cost -------------------------------------------------------------------

def cost_rows():
    by = "namespace, model"
    name = "{{model}} {{namespace}}"
    unshared = f"server:moetop_unshared:usd_per_hour{{{ONE}}}"
    return Row(
        "Money",
        Panel("Cost per million tokens", "currencyUSD", "By server.",
              Query(pick("cost_usd_per_million_tokens"), SERVER), w=12),
        Panel("Cost per million tokens, by model", "currencyUSD", "Price of"
              " all GPUs over all tokens, idle replicas included.",
              Query(cost(ONE, by), name), w=12),
        Panel("Price of the GPUs", "currencyUSD", "Dollars per hour.",
              Query(sum_of("cost_usd_per_hour", ONE, by), name), stack=True,
              min=0),
        Panel("Unshared expert reads", "currencyUSD", "Dollars per hour that"
              " pay for expert reads which serve a single row.",
              Query(f"sum by ({by}) ({unshared})", name), stack=True, min=0),
        Panel("Tokens for a dollar", "short", "Generated tokens per dollar.",
              Query(f"sum by ({by}) (server:moetop_priced_tokens:rate{{{ONE}}})"
                    " * 3600\n/ (sum by "
                    f"({by}) (server:moetop_priced:usd_per_hour{{{ONE}}}) > 0)",
                    name),
              min=0))


def cost_what_if():
    merge = f'moetop_what_if_cost_ratio{{{ONE},kind="merge"}}'
    return Row(
        "What would be cheaper",
        Panel("Merging replicas", "percentunit", "Cost per token after merging"
              " so many replicas like this one into one, over that of now."
              " Modelled.", Query(merge, "{{amount}} into one, " + SERVER),
              kind="bargauge", min=0,
              thresholds=steps((None, GREEN), (0.7, YELLOW), (1, RED))),
        Panel("More load", "percentunit", "Cost per token at other batches"
              " over that of now. Modelled.",
              Query(f'moetop_what_if_cost_ratio{{{ONE},kind="batch"}}',
                    "B = {{amount}}, " + SERVER), kind="bargauge", min=0,
              thresholds=steps((None, GREEN), (0.95, YELLOW), (1.05, RED))),
        Panel("Advice", "percentunit", "Share of the cost that following a"
              " finding is predicted to save.",
              Query(f"moetop_finding_gain_ratio{{{ONE}}}",
                    "{{rule}} " + SERVER), kind="bargauge", min=0, max=1),
        Panel("Cost against load", "currencyUSD", "Dollars per million tokens"
              " and tokens in a step, over time: in the valley the first hardly"
              " falls when the second rises.",
              Query(pick("cost_usd_per_million_tokens"), "$/Mtok " + SERVER),
              Query(pick("tokens_per_step"), "B " + SERVER), w=12, min=0,
              overrides=[{"matcher": {"id": "byRegexp", "options": "/^B /"},
                          "properties": [
                              {"id": "unit", "value": "short"},
                              {"id": "custom.axisPlacement",
                               "value": "right"}]}]),
        Panel("One more request", "percentunit", "How much of one more request"
              " is free: what an admission limit or a router should know.",
              Query(pick("marginal_gain_ratio"), SERVER), w=12, min=0, max=1))


def costs(texts, settings):
    return dashboard(
        "moetop-cost", "moetop / Cost", "What tokens cost and what would make"
        " them cheaper. Needs --gpu-price for dollars.", common(settings),
        [cost_rows(), cost_what_if()],
        runbook_links(["MoetopInValley", "MoetopMergeWouldSave"]), texts)


# ---- common -----------------------------------------------------------------

def common(settings, server=True):
    """The variables of every dashboard."""
    up = "moetop_target_up"
    out = [variable_datasource(),
           variable("namespace", "Namespace", f"label_values({up},"
                    " namespace)"),
           variable("model", "Model", f'label_values({up}{{namespace=~'
                    '"$namespace"}, model)')]
    if server:
        out.append(variable("server", "Server", f"label_values({up}"
                            f"{{{MANY}}}, server)"))
    return out + [variable_constant("runbooks", settings.runbooks)]


def runbook_links(alerts):
    return [link("runbook: " + runbook(a), "${runbooks}/" + runbook(a) + ".md")
            for a in alerts]


ALL = {"fleet": fleet, "server": server, "experts": experts, "cost": costs}
