"""rules.py - the recording rules and the alerts, as tables

A fleet's ratio is the ratio of its sums: every server contributes a numerator
and a denominator per second (`server:*`), which add up over any group of
servers.  A mean of ratios would weigh an idle server like a busy one.  A server
of which one of the two is unknown is in neither sum.

Names are level:metric:operation.  The levels are one server of one machine,
an expert-parallel group over several machines (label ep_group), all replicas of
a model in a namespace, and the fleet.
"""
import textwrap


class Settings:
    """What a site may want to change; `generate.py --set name=value`."""
    job = ".*moetop.*"     # the scrape job, a regular expression
    usd_per_mtok = 1.0     # dear, in dollars per million generated tokens
    unshared_ratio = 0.25  # dear where no price is known: sigma_E
    merge_saves = 0.3      # share of the cost that a merge must save
    budget = 0.01          # of moetop itself: share of the step time
    straggler = 0.15       # time of the slowest rank over that of the mean
    valley_for = "15m"     # a regime, a straggler, a check that lasts
    slow_for = "30m"       # what calls for a change of the deployment
    fast_for = "5m"        # what makes moetop blind
    gone_for = "2m"        # a server or an exporter that is away
    missed_for = "1h"      # a target that is no longer discovered, how long
    rate = "5m"            # window of rates
    interval = "30s"       # between two evaluations
    runbooks = "docs/runbooks"  # where these pages are served

    def set(self, name, value):
        old = getattr(type(self), name, None)
        if old is None or name.startswith("_") or callable(old):
            raise KeyError(name)
        setattr(self, name, type(old)(value))


def plain(metric):
    """A metric of a server, whatever the source of its value is now."""
    return f"max without (source) (moetop_{metric})"


# name, help, expression: what a server adds to the sums.  Rates are per second
# of wall time, money per hour.
SERVER = [
    ("cells:rate", "Cells (decode step, MoE layer).",
     "{steps_per_second} * moetop_target_moe_layers"),
    ("expert_reads:rate", "Active experts: sum U.",
     "server:moetop_cells:rate * {active_experts}"),
    ("expert_rows:rate", "Rows, where active experts are known: sum R.",
     "server:moetop_cells:rate * {rows} and {active_experts}"),
    ("experts:rate", "Experts that there were, where active ones are known:"
     " sum E.",
     "server:moetop_cells:rate * moetop_target_experts"
     " and {active_experts}"),
    ("single_row_reads:rate", "Active experts with a single row: sum F1.",
     "server:moetop_cells:rate * {single_row_experts}"),
    ("single_known_reads:rate", "Active experts where single rows are known:"
     " sum U.", "server:moetop_expert_reads:rate and {single_row_experts}"),
    ("step_time:rate", "GPU seconds spent in decode steps.",
     "{steps_per_second} * {step_seconds} * moetop_target_gpus"),
    ("gain_known_time:rate", "GPU seconds of steps whose marginal gain is"
     " known.",
     "server:moetop_step_time:rate and {marginal_gain_ratio}"),
    ("gain_time:rate", "GPU seconds of steps that one more request would get"
     " for free: eta T.",
     "server:moetop_step_time:rate * {marginal_gain_ratio}"),
    ("share_known_time:rate", "GPU seconds of steps whose shares are known.",
     "server:moetop_step_time:rate and {expert_share_ratio}"),
    ("unshared_time:rate", "GPU seconds that read experts for a single row:"
     " sigma_E T.",
     "server:moetop_step_time:rate * {expert_share_ratio}"),
    ("kv_time:rate", "GPU seconds that read KV cache: sigma_KV T.",
     "server:moetop_step_time:rate * {kv_share_ratio}"),
    ("dram_bytes:rate", "DRAM bytes, by counters.",
     "{mbu_ratio} * {peak_bandwidth_bytes_per_second}"),
    ("dram_peak_bytes:rate", "Peak bandwidth where there are counters.",
     "{peak_bandwidth_bytes_per_second} and {mbu_ratio}"),
    ("step_peak_bytes:rate", "What DRAM could have moved during decode steps.",
     "{peak_bandwidth_bytes_per_second} * {steps_per_second}"
     " * {step_seconds} and {useful_mbu_ratio}"),
    ("useful_bytes:rate", "Bytes that decode steps needed.",
     "server:moetop_step_peak_bytes:rate * {useful_mbu_ratio}"),
    ("priced_tokens:rate", "Decoded tokens of servers whose price is known.",
     "{tokens_per_second} and {cost_usd_per_hour}"),
    ("priced:usd_per_hour", "Price of all GPUs of servers whose tokens are"
     " known, per hour; idle ones count.",
     "{cost_usd_per_hour} and {tokens_per_second}"),
    ("unshared:usd_per_hour", "Money that pays for reads of experts for a"
     " single row, per hour.",
     "{cost_usd_per_hour} * {steps_per_second} * {step_seconds}"
     " * {expert_share_ratio}"),
]

# Codes of the regimes on a time line, in the order of the classifier.
REGIMES = ["idle", "prefill", "compute", "kv", "solo", "valley", "shared"]

LEVELS = [
    ("ep_group", "an expert-parallel group over machines", ["ep_group"],
     '{{ep_group!=""}}'),
    ("model", "all replicas of a model in a namespace",
     ["namespace", "model"], ""),
    ("fleet", "all that this Prometheus sees", [], ""),
]

# name, help, numerator, denominator (None: a sum): ratios of sums.
GROUP = [
    ("servers:count", "Servers that are up.", "moetop_target_up", None),
    ("requests_in_flight:sum", "Generation requests in flight.",
     "moetop_requests_in_flight", None),
    ("tokens:rate", "Decoded tokens per second.",
     "moetop_tokens_per_second", None),
    ("cost:usd_per_hour", "Price of all GPUs for an hour.",
     "moetop_cost_usd_per_hour", None),
    ("unshared:usd_per_hour", "Money that pays for reads of experts for a"
     " single row, per hour.", "server:moetop_unshared:usd_per_hour", None),
    ("fragmentation:ratio", "phi = sum U / sum R.",
     "server:moetop_expert_reads:rate", "server:moetop_expert_rows:rate"),
    ("single_row:ratio", "s1 = sum F1 / sum U.",
     "server:moetop_single_row_reads:rate",
     "server:moetop_single_known_reads:rate"),
    ("coverage:ratio", "c = sum U / sum E.",
     "server:moetop_expert_reads:rate", "server:moetop_experts:rate"),
    ("marginal_gain:ratio", "eta: shares of GPU time in decode steps.",
     "server:moetop_gain_time:rate", "server:moetop_gain_known_time:rate"),
    ("expert_share:ratio", "sigma_E: share of the GPU time in decode steps"
     " that reads experts for a single row.",
     "server:moetop_unshared_time:rate", "server:moetop_share_known_time:rate"),
    ("mbu:ratio", "DRAM bytes by counters over peak bandwidth.",
     "server:moetop_dram_bytes:rate", "server:moetop_dram_peak_bytes:rate"),
    ("useful_mbu:ratio", "Bytes that decode steps needed over what DRAM could"
     " have moved during them.",
     "server:moetop_useful_bytes:rate", "server:moetop_step_peak_bytes:rate"),
    ("cost:usd_per_million_tokens", "Price of all GPUs over all tokens, of"
     " servers of which both are known.", "server:moetop_priced:usd_per_hour",
     "server:moetop_priced_tokens:rate"),
]


class Fields(dict):
    def __missing__(self, key):
        return plain(key)


def total(by, expr):
    return f"sum by ({', '.join(by)}) ({expr})" if by else f"sum ({expr})"


def server_rules():
    rules = [dict(record="server:moetop_regime:code",
                  expr="sum without (regime, source) (\n  " + "\n  or ".join(
                      f'{i} * (moetop_regime{{regime="{r}"}} == 1)'
                      for i, r in enumerate(REGIMES, 1)) + "\n)",
                  help="The regime as a number: " + ", ".join(
                      f"{i} {r}" for i, r in enumerate(REGIMES, 1)) + ".")]
    for name, text, expr in SERVER:
        rules.append(dict(record="server:moetop_" + name, help=text,
                          expr=expr.format_map(Fields())))
    return rules


def group_rules(level, what, by, selector):
    rules = []
    prefix = f"{level}:moetop_"
    selector = selector.format()
    for name, text, top, bottom in GROUP:
        if bottom:
            factor = " / 3600 * 1e6" if top.endswith("per_hour") else ""
            expr = (f"{total(by, top + selector)}{factor}\n"
                    f"/ ({total(by, bottom + selector)} > 0)")
        else:
            expr = total(by, top + selector)
        rules.append(dict(record=prefix + name, expr=expr,
                          help=f"Of {what}: {text}"))
    if level == "ep_group":
        for name, series in (("active", "expert_reads"),
                             ("rows", "expert_rows")):
            s = f"server:moetop_{series}:rate{selector}"
            rules.append(dict(
                record=f"{prefix}{name}_imbalance:ratio",
                expr=f"max by (ep_group) ({s})\n/ (avg by (ep_group) ({s})"
                     " > 0)",
                help=f"Of {what}: the fullest machine over the mean one."))
    return rules


def recording():
    """Groups of recording rules."""
    groups = [dict(name="moetop-server", rules=server_rules())]
    for level in LEVELS:
        groups.append(dict(name="moetop-" + level[0].replace("_", "-"),
                           rules=group_rules(*level)))
    return groups


# ---- alerts -----------------------------------------------------------------

WHERE = "{{ $labels.server }} on {{ $labels.instance }}"


def alert(name, expr, wait, severity, summary, description):
    return {"alert": name, "expr": textwrap.dedent(expr).strip(), "for": wait,
            "severity": severity, "summary": summary,
            "description": " ".join(description.split())}


def economics_alerts(s):
    return [
        alert("MoetopInValley", f"""
            max without (source, regime) (
              moetop_regime{{regime="valley"}}
            ) == 1
            and (
              {plain("cost_usd_per_million_tokens")} > {s.usd_per_mtok}
              or (
                {plain("expert_share_ratio")} > {s.unshared_ratio}
                unless {plain("cost_usd_per_million_tokens")}
              )
            )""", s.valley_for, "warning",
              f"{WHERE} is in the MoE batch valley, and dear",
              f"""{{{{ $labels.model }}}} reads most of its experts and hardly
              shares them, for {s.valley_for}, at more than
              ${s.usd_per_mtok:g} per million tokens (without a price: more
              than {s.unshared_ratio:.0%} of a step reads experts for a single
              row)."""),
        alert("MoetopMergeWouldSave", f"""
            1 - min without (kind, amount, name) (
              moetop_what_if_cost_ratio{{kind="merge"}}
            ) > {s.merge_saves}
            and on (namespace, model) model:moetop_servers:count > 1
            """, s.slow_for, "info",
              "fewer replicas of {{ $labels.model }} would cost "
              "{{ $value | humanizePercentage }} less",
              f"""Merging replicas like {WHERE} is predicted to save more than
              {s.merge_saves:.0%} of the cost per token, and there are several
              of them in namespace {{{{ $labels.namespace }}}}."""),
        alert("MoetopKvBound", """
            max without (source, regime) (
              moetop_regime{regime="kv"}
            ) == 1
            """, s.valley_for, "info",
              f"{WHERE} is bound by its KV cache",
              """Contexts set the price of a token: reads of KV cache take most
              of a step, and neither load nor merging makes it cheaper."""),
        alert("MoetopExpertStraggler", f"""
            {plain("straggler_share_ratio")} > {s.straggler}
            or max without (rule, severity) (
              moetop_finding{{rule="straggler_experts"}}
            ) == 1
            """, s.valley_for, "warning",
              f"{WHERE} waits for its slowest experts",
              f"""The slowest rank takes more than {s.straggler:.0%} longer in
              its experts than the mean one, or the fullest expert alone sets
              the pace of a layer."""),
        alert("MoetopGroupStraggler", f"""
            ep_group:moetop_rows_imbalance:ratio > {1 + s.straggler:g}
            """, s.valley_for, "warning",
              "one machine of {{ $labels.ep_group }} has more rows than the"
              " others",
              """In this expert-parallel group the fullest machine computes
              {{ $value | humanize }} times the rows of the mean one; the
              others wait for it in every layer."""),
    ]


def blind_alerts(s):
    return [
        alert("MoetopOverBudget", f"""
            {plain("agent_overhead_ratio")} > {s.budget}
            """, s.fast_for, "warning",
              f"moetop costs {WHERE} more than its budget",
              f"""The agent's own account is {{{{ $value |
              humanizePercentage }}}} of the step time; the budget is
              {s.budget:.1%}. The agent makes its windows rarer by itself and
              stops them at four times the budget."""),
        alert("MoetopTierMissing", """
            moetop_tier_state{tier=~"T[12]",state="missing"} == 1
            and ignoring (tier, state) moetop_target_up == 1
            """, s.fast_for, "warning",
              f"moetop is half blind: {{{{ $labels.tier }}}} of {WHERE}",
              """Requests (T1) or kernels (T2) of this server are not seen.
              What would enable them is on the screen and in
              `moetop doctor`."""),
        alert("MoetopSnapshotOld", """
            moetop_snapshot_age_seconds > 30
            and moetop_target_up == 1
            """, s.fast_for, "warning",
              f"no new values of {WHERE}",
              """The exporter answers, and its values are older than half a
              minute: the collector is stuck or starved."""),
        alert("MoetopLosingRecords", f"""
            sum without (what) (
              rate(moetop_lost_total{{what=~".*_records"}}[{s.rate}])
            ) > 1
            """, s.fast_for, "warning",
              f"moetop loses records of {WHERE}",
              """More than one record a second cannot be taken in, so counts
              and times are too low."""),
        alert("MoetopSeriesLeftOut", """
            moetop_series_left_out > 0
            """, s.fast_for, "info",
              f"{{{{ $value }}}} series of {WHERE} are left out",
              """The server has more series than --max-series allows; those
              beyond it are missing here."""),
        alert("MoetopTargetGone", """
            moetop_target_up == 0
            """, s.gone_for, "warning",
              f"{WHERE} has ended",
              "The server that moetop watched is gone."),
        alert("MoetopDown", f"""
            up{{job=~"{s.job}"}} == 0
            """, s.gone_for, "critical",
              "moetop on {{ $labels.instance }} does not answer",
              """Prometheus cannot scrape this exporter; the server itself may
              be well."""),
        # by node where there is one: a pod that is made anew has another
        # instance, and is the same moetop
        alert("MoetopVanished", f"""
            (
              max by (job, node) (up{{job=~"{s.job}",node!=""}}
                                  offset {s.missed_for})
              unless max by (job, node) (up{{job=~"{s.job}",node!=""}})
            )
            or
            (
              max by (job, instance) (up{{job=~"{s.job}",node=""}}
                                      offset {s.missed_for})
              unless max by (job, instance) (up{{job=~"{s.job}",node=""}})
            )
            """, s.fast_for, "warning",
              "moetop on {{ $labels.node }}{{ $labels.instance }} is no longer"
              " scraped",
              f"""Prometheus discovered this exporter {s.missed_for} ago and
              does not now: nothing is said of the servers of that machine,
              and no other alert can be."""),
        alert("MoetopChecksDiffer", """
            moetop_check_agrees{check!~"mfu_ratio|mbu_ratio"} == 0
            """, s.valley_for, "warning",
              f"moetop and {WHERE} disagree on {{{{ $labels.check }}}}",
              """A number that moetop measured and the engine's own one differ
              by more than both could be off: one of them is wrong."""),
    ]


def runbook(name):
    """MoetopInValley -> in-valley: the page below docs/runbooks/."""
    words = name[len("Moetop"):]
    return "".join("-" + c.lower() if c.isupper() else c
                   for c in words).lstrip("-")


def alerts(settings):
    """Groups of alerting rules."""
    return [dict(name="moetop-economics", rules=economics_alerts(settings)),
            dict(name="moetop-health", rules=blind_alerts(settings))]
