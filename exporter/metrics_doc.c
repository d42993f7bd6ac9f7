#include "exporter/metrics_doc.h"
#include "exporter/exposition.h"

#include <string.h>

/* One row of a table; the fourth cell is NULL in tables of three. */
struct row {
	const char *cells[4];
};

static const char intro[] =
	"# Metrics of moetop\n"
	"\n"
	"<!-- Written by `make docs` from model/metrics.def and "
	"exporter/metrics_doc.c; do not edit. -->\n"
	"\n"
	"One snapshot of values is computed once an interval (a "
	"second, or `--interval`). The screen, `--json`,\n"
	"`/metrics`, reports and recordings only format it, so they "
	"cannot disagree.\n"
	"\n"
	"## How to read a value\n"
	"\n"
	"Each value has a state and a source. Unknown is `-` on the "
	"screen, `null` in JSON and no sample in\n"
	"Prometheus. It is never 0.\n"
	"\n"
	"| state | meaning |\n"
	"|---|---|\n"
	"| `ok` | known, of this interval or of the newest window of "
	"kernel records |\n"
	"| `warming` | the source works and has not seen enough yet; "
	"no number |\n"
	"| `stale` | the source has stopped, or the load is no longer "
	"what it measured; the number is its last one |\n"
	"| `no_data` | no source for it here; `moetop doctor` says "
	"what is missing |\n"
	"\n"
	"| source | meaning |\n"
	"|---|---|\n"
	"| `measured` | counted or timed by moetop |\n"
	"| `inferred` | derived from other measurements |\n"
	"| `modelled` | a formula with an assumption, such as uniform "
	"routing |\n"
	"| `scraped` | the engine's own claim, from its `/metrics` |\n"
	"\n"
	"A derived value has the weakest source among its inputs. "
	"Ratios are ratios of sums. `rows`,\n"
	"`active_experts` and `single_row_experts` are means per "
	"(decode step, MoE layer). Units are base units:\n"
	"seconds, bytes, ratios from 0 to 1.\n"
	"\n"
	"Ranks run in lockstep, so steps, rows and layer times are those of "
	"the mean rank. All GPUs count as one machine. Of data-parallel\n"
	"replicas that share no experts that is not true: B, rows, U and "
	"tokens per second are then those of the mean replica, but requests,\n"
	"KV and DRAM bytes, GPUs and with them S-MBU, MFU and cost are those "
	"of all together.\n"
	"\n"
	"Symbols in the formulas: B tokens in a decode step, k experts "
	"per token, E experts of a layer, R rows, that is (token,\n"
	"expert) pairs, U experts with a row, F1 experts with exactly "
	"one row, T step time.\n";

static const char histograms[] =
	"\n"
	"## Histograms\n"
	"\n"
	"In JSON `count`, `sum` and the quantiles `p50`, `p90`, `p99` of "
	"the last minute (requests) or of the newest window (steps,\n"
	"rows). Prometheus has histograms of all since the attach, which "
	"only grow; as `step_seconds` is also a metric, its\n"
	"histogram is `moetop_step_duration_seconds`. Text has buckets at "
	"fixed bounds; protobuf has native (exponential) buckets\n"
	"of schema 5 beside them. Steps and rows are those of the windows "
	"of kernel records, a sample of all steps.\n"
	"\n";

static const char json[] =
	"\n"
	"## JSON\n"
	"\n"
	"`--json` prints one object per line and interval; "
	"`/snapshot.json` serves the newest one. Keys come in this "
	"order, and\n"
	"all of them are always there. Later versions may add keys and "
	"metrics; they take none away and change no meaning. Numbers\n"
	"read back exactly (up to 17 significant digits).\n"
	"\n";

/* key, type, meaning */
static const struct row json_rows[] = {
	{ { "`time`", "number",
	    "when the values were computed, Unix seconds" } },
	{ { "`interval_seconds`", "number",
	    "length of the interval that they cover" } },
	{ { "`target.pid`", "integer",
	    "the process that was named, `null` for none" } },
	{ { "`target.engine`", "string",
	    "`vllm`, `sglang`, `trtllm`; `null` unknown, like all that "
	    "follow" } },
	{ { "`target.engine_version`", "string",
	    "`simulated` for the simulated server" } },
	{ { "`target.model`", "string", "the model's name or directory" } },
	{ { "`target.experts`", "integer",
	    "E, routed experts of a layer; `null` also for a dense model" } },
	{ { "`target.top_k`", "integer", "k, experts per token" } },
	{ { "`target.moe_layers`", "integer", "layers with experts" } },
	{ { "`target.gpus[]`", "array",
	    "GPUs in use: `index` (NVML's, or `null`), `name`" } },
	{ { "`target.ranks[]`", "array",
	    "processes that own a GPU: `pid`, `rank`, `agent` (state, see "
	    "`health.agents`), `reason` (why disabled or refused, or `null`), "
	    "`attach`" } },
	{ { "`target.ranks[].attach`", "object",
	    "what loading the agent into the running process did; `null` where "
	    "it was there before: `thread` that was borrowed, number of the "
	    "system `call` it was in, ptrace `stops`, `pause_us` that the "
	    "thread stood still, `load_ms` until the agent ran" } },
	{ { "`target.port`", "integer", "HTTP port of the server" } },
	{ { "`target.server`", "string",
	    "what it is called for long: the engine (in a pod, the pod) and "
	    "the port" } },
	{ { "`target.pod`", "string",
	    "name of its Kubernetes pod; beside it `namespace` and "
	    "`container`, the id of its control group" } },
	{ { "`target.config_origin`", "string",
	    "where the model's shape was found" } },
	{ { "`target.options`", "object",
	    "options of the server that matter, by their names here (`tp`, "
	    "`capture_sizes`, `stream_interval`, ...), as they were given or "
	    "as the server reports them; docs/ENGINES.md" } },
	{ { "`target.compute_type`", "string",
	    "arithmetic whose dense peak `mfu_ratio` is a share of: `BF16`, "
	    "`FP8`, `FP4`; that of the expert GEMMs on this GPU" } },
	{ { "`regime.value`", "string",
	    "`idle`, `prefill`, `compute`, `kv`, `solo`, `valley` or `shared`; "
	    "`null` while there is too little evidence" } },
	{ { "`regime.side`", "string",
	    "in the valley: `near` (most active experts serve one row) or "
	    "`far`; else `null`" } },
	{ { "`regime.source`", "string",
	    "weakest source of what decided: the experts that tokens touch, "
	    "tokens per step (solo), prompts (prefill), steps or requests "
	    "(idle)" } },
	{ { "`regime.flags`", "array",
	    "what holds beside it: `overhead` (fixed time is more than 0.4 of "
	    "a step), `imbalance` (straggler share above 0.15), `skew` "
	    "(effective experts below 0.6 of E)" } },
	{ { "`metrics.ID`", "object",
	    "`value` (number or `null`), `state`, `source`; every metric of "
	    "the table above" } },
	{ { "`histograms.ID`", "object",
	    "`count`, `sum`, `p50`, `p90`, `p99`; each may be `null`" } },
	{ { "`layers[]`", "array",
	    "one object per MoE layer, first to last; empty without kernel "
	    "records" } },
	{ { "`layers[].layer`", "integer", "from 0, counting MoE layers" } },
	{ { "`layers[].seconds_per_step`", "number",
	    "time of the layer's MoE block in a decode step: kernels from the "
	    "top-k to the last routing or expert kernel, gaps left out" } },
	{ { "`layers[].rows`", "number",
	    "R of the layer, mean over decode steps" } },
	{ { "`layers[].active_experts`", "number",
	    "U of the layer: from sampled rows, else from "
	    "`expert_bytes_per_step`" } },
	{ { "`layers[].active_experts_source`", "string",
	    "`measured`, `inferred`, or `null`" } },
	{ { "`layers[].single_row_experts`", "number", "F1 of the layer" } },
	{ { "`layers[].dram_bytes_per_step`", "number",
	    "DRAM bytes of the layer's block, all GPUs, by model/bytes.h" } },
	{ { "`layers[].expert_bytes_per_step`", "number",
	    "of them, those of the expert kernels" } },
	{ { "`layers[].backend`", "string",
	    "class of the kernels that do its expert GEMMs" } },
	{ { "`layers[].before_seconds_per_step`", "number",
	    "time of the kernels that lead up to the block: norms, attention, "
	    "router" } },
	{ { "`layers[].expert_seconds_per_step`", "number",
	    "time of the expert GEMMs alone" } },
	{ { "`layers[].fragmentation_ratio`", "number",
	    "sum U / sum R of the layer" } },
	{ { "`layers[].share_ratio`", "number",
	    "share in the time of all MoE blocks" } },
	{ { "`layers[].classes[]`", "array",
	    "kernel classes of the layer, with what leads up to it: `class`, "
	    "`calls_per_step`, `seconds_per_step` (time covered: an instant "
	    "belongs to the kernel that started first), `sum_seconds_per_step` "
	    "(durations added up, larger where streams overlap), `share_ratio` "
	    "of the layer's time; not in recordings" } },
	{ { "`bytes.method`", "string",
	    "how bytes of layers are known: `layers` (a rate per layer and "
	    "kernel group), `groups` (a rate per group), `total`, or "
	    "`null`" } },
	{ { "`bytes.samples`", "number", "counter samples behind it" } },
	{ { "`bytes.residual_ratio`", "number",
	    "rms of what the fit leaves over rms of the samples" } },
	{ { "`bytes.condition`", "number",
	    "of its equations: large is uncertain" } },
	{ { "`bytes.layer_error_ratio`", "number",
	    "standard error of one layer's expert bytes" } },
	{ { "`bytes.clock_offset_seconds`", "number",
	    "found between kernel records and counters" } },
	{ { "`findings[].rule`", "string", "name of the rule, stable" } },
	{ { "`findings[].severity`", "string",
	    "`info`, `notice` or `warning`" } },
	{ { "`findings[].evidence`", "object",
	    "numbers that the rule fired on, by name" } },
	{ { "`findings[].gain_ratio`", "number",
	    "share of the cost that the advice is predicted to save" } },
	{ { "`findings[].text`", "string", "one sentence for people" } },
	{ { "`checks[]`", "array",
	    "our numbers against the engine's own, empty without them: "
	    "`name`, `state` (`unknown`, `agrees`, `differs`), `ours`, "
	    "`ours_source` (as of a metric), `theirs`, `tolerance_ratio` (of "
	    "the larger one), `why` (what "
	    "explains a difference, or `null`); docs/ENGINES.md" } },
	{ { "`what_if[]`", "array",
	    "changes to the deployment, one object each, all modelled; empty "
	    "while nothing runs. Everything that is not named stays: the "
	    "lengths of contexts, communication, the time of prompts per "
	    "decoded token, the share of the wall time without a step" } },
	{ { "`what_if[].kind`", "string",
	    "`batch` (`amount` tokens per step), `merge` (`amount` replicas "
	    "like this one into one), `tp` (`amount` GPUs to a copy), `ep` "
	    "(`amount` ranks to a layer's experts), `gpu` (as many of the GPU "
	    "`name`)" } },
	{ { "`what_if[].tokens_per_step`", "number",
	    "B; beside it U, s1 and eta there: `active_experts`, "
	    "`single_row_ratio`, `marginal_gain_ratio`" } },
	{ { "`what_if[].step_seconds`", "object",
	    "`value`, and `low` and `high` between which it lies in nine of "
	    "ten cases; also `tokens_per_second` (with prompts and pauses, "
	    "like the metric of that name: at the batch of now it is the "
	    "same), "
	    "`cost_usd_per_million_tokens` (`null` for another GPU, whose "
	    "price is not known) and `cost_ratio` (GPU seconds per token over "
	    "those of now)" } },
	{ { "`what_if[].out_of_range`", "boolean",
	    "beyond what the measurements carry; `limit` says in what: "
	    "`batch` (16 times the one that was measured), `routing` (no "
	    "experts were ever seen), `memory` (the KV cache has no room)" } },
	{ { "`requests`", "object",
	    "what the kernel counted, live only, else `null`: for each of "
	    "`generation`, `pooling`, `ignored` (health, metrics, models) and "
	    "`other` paths an object with `waiting`, `streaming`, `guessed` "
	    "(from before the attach, not proved yet) and the totals "
	    "`started`, `completed`, `failed_4xx` and `failed_5xx` of those, "
	    "`client_aborted`, `server_aborted`, `events`; then "
	    "`unread_bytes` that the server has received and not read, "
	    "connections `not_accepted`, and `oldest_seconds`, the age of the "
	    "oldest request in flight, looked up every few seconds" } },
	{ { "`requests.tls`", "object",
	    "encrypted connections so far: `connections`, of which `followed` "
	    "in plain text, so that their requests are counted above, and "
	    "`inferred`: of those, no more is known than when records go by, "
	    "and `waiting` and `streaming`, which are in no count above but in "
	    "`requests_in_flight`, are about right. `source` is `measured`, "
	    "or `inferred from timing (TLS)` as soon as there is one of the "
	    "latter kind; `null` without TLS" } },
	{ { "`health.tiers.T`", "object",
	    "T is `T0`, `T1`, `T2`, `T3` or `C`: `state` (`ok`, `missing`, "
	    "`off`), `what` it gives, `remedy` that would enable it" } },
	{ { "`health.lost.ring`", "integer",
	    "records that an agent could not hand over" } },
	{ { "`health.lost.records`", "integer",
	    "kernel records dropped by CUPTI, refused for bad times, or "
	    "too late for their window" } },
	{ { "`health.lost.requests`", "integer",
	    "request records lost between the kernel and moetop" } },
	{ { "`health.lost.desyncs`", "integer",
	    "connections on which HTTP framing was lost, and requests "
	    "beyond 8 outstanding ones" } },
	{ { "`health.lost.connections`", "integer",
	    "calls on connections that are not followed, for the table of "
	    "connections is full" } },
	{ { "`health.lost.calls`", "integer",
	    "calls that the kernel did not show, since the program was "
	    "running on that processor already" } },
	{ { "`health.lost.paths`", "integer",
	    "requests of unknown paths that no room was left to classify: "
	    "they count as `other`" } },
	{ { "`health.lost.listeners`", "integer",
	    "ports and UNIX sockets of the server that are not followed now, "
	    "for there are too many" } },
	{ { "`health.lost.bad_steps`", "integer",
	    "steps whose kernels did not match the layers" } },
	{ { "`health.agents[]`", "array",
	    "one object per rank: `pid`, `rank`, `state`, `reason`. States: "
	    "`absent` (no agent), `starting`, `idle` (counters only), `window` "
	    "(kernel records on), `yielded` (another profiler is at work), "
	    "`disabled`, `detaching`, `asleep` (a stub that a later moetop "
	    "wakes), `silent` (it should write and does not), `refused` (no "
	    "agent could be loaded or read), `gone` (the process has "
	    "ended)" } },
	{ { "`health.rows.method`", "string",
	    "how rows per expert are read: `sampled`, `exact`, `inferred`, "
	    "`off`" } },
	{ { "`health.rows.cells`", "integer",
	    "(decode step, MoE layer) cells read" } },
	{ { "`health.rows.rejected`", "integer",
	    "cells that failed validation" } },
	{ { "`health.rows.lost`", "integer", "cells never read" } },
	{ { "`health.rows.windows`", "integer",
	    "windows of kernel records taken" } },
	{ { "`health.layers`", "object",
	    "the period check: `seen` MoE layers in a step and `draft` ones of "
	    "a draft model, `expected` by the model's config, `holds` whether "
	    "they are as many" } },
	{ { "`health.target_gone`", "boolean",
	    "the server has ended; the rest is its last state" } },
	{ { "`health.message`", "string",
	    "the newest event: what an attach did, an agent's warning" } },
	{ { "`step.decode`", "object",
	    "the mean decode step: `seconds` start to start, of which "
	    "`busy_seconds` with a kernel running, `gap_seconds` idle between "
	    "its kernels and `between_seconds` from its last kernel to the "
	    "next step; `kernels`, and `launches` by the host (the replay of "
	    "a graph is one)" } },
	{ { "`step.prefill`", "object",
	    "the same of steps that carry prompts, in the newest window that "
	    "had decode steps" } },
	{ { "`classes[]`", "array",
	    "one object per class of kernels that ran in decode steps" } },
	{ { "`classes[].class`", "string",
	    "of `wire/kernel_class.def`; `other` for kernels that no pattern "
	    "knows" } },
	{ { "`classes[].group`", "string",
	    "`experts`, `routing`, `attention`, `dense`, `comm` or "
	    "`other`" } },
	{ { "`classes[].calls_per_step`", "number",
	    "kernels in a decode step" } },
	{ { "`classes[].seconds_per_step`", "number",
	    "time covered; adds up over classes to "
	    "`step.decode.busy_seconds`" } },
	{ { "`classes[].sum_seconds_per_step`", "number",
	    "durations added up, larger where streams overlap" } },
	{ { "`classes[].share_ratio`", "number",
	    "share of `step.decode.seconds`" } },
	{ { "`draft_layers[]`", "array",
	    "layers of a draft model (multi-token prediction), counted apart "
	    "from the model's own, with the keys of `layers[]`: `layer`, "
	    "`seconds_per_step`, `rows`, `active_experts`, "
	    "`active_experts_source`, `single_row_experts`, "
	    "`dram_bytes_per_step`, `expert_bytes_per_step`, `backend`, "
	    "`before_seconds_per_step`, `expert_seconds_per_step`, "
	    "`fragmentation_ratio`, `share_ratio`, `classes`" } },
};

static const char prometheus[] =
	"\n"
	"## Prometheus\n"
	"\n"
	"`--listen [ADDR:]PORT` serves (127.0.0.1 unless ADDR says "
	"otherwise):\n"
	"\n"
	"| path | what |\n"
	"|---|---|\n"
	"| `/metrics` | text format 0.0.4, OpenMetrics 1.0 or protobuf, as "
	"`Accept` asks; gzip as `Accept-Encoding` does |\n"
	"| `/snapshot.json` | the JSON object above; with `--all` an object "
	"with the list `servers` of them |\n"
	"| `/healthz` | `ok` while the loop that takes the snapshots turns; "
	"503 when it has not for 60 s |\n"
	"| `/readyz` | 200 when the values are younger than three intervals, "
	"else 503 |\n"
	"\n"
	"`docs/EXPORTER.md` tells more. All series of a server have the "
	"labels `server` (a name that stays: `vllm:8000`), `engine`,\n"
	"`model`, `gpu`, and in Kubernetes `pod` and `namespace`; one that is "
	"not known is left out. Metrics are named `moetop_` and\n"
	"their id, with the label `source` beside. Beside them, in the "
	"order of a scrape:\n"
	"\n";

static const char end[] =
	"\n"
	"A model of 61 layers has some 1000 series, histograms counted by "
	"bucket; `--expert-metrics` adds layers x experts more. Beyond\n"
	"`--max-series` (5000 for each server) series are left out, the "
	"last families of the table first, and counted.\n"
	"\n"
	"## Recordings\n"
	"\n"
	"`moetop record` writes the eight bytes `MOETOPR1`, then for "
	"each snapshot its length as a varint and one protobuf\n"
	"message `moetop.Snapshot` (wire/snapshot.proto). Metrics "
	"carry their ids: a file stays readable when metrics are added.\n";

static const char *unit_name(enum metric_unit u)
{
	static const char *const names[] = {
		[UNIT_NONE] = "",
		[UNIT_SECONDS] = "seconds",
		[UNIT_BYTES] = "bytes",
		[UNIT_BYTES_PER_SECOND] = "bytes per second",
		[UNIT_RATIO] = "ratio",
		[UNIT_PER_SECOND] = "per second",
		[UNIT_COUNT] = "count",
		[UNIT_USD] = "US dollars",
	};

	return names[u];
}

static void put(struct text *t, const char *s)
{
	text_write(t, s, strlen(s));
}

/* A bar would end the cell. */
static void put_cell(struct text *t, const char *s)
{
	for (; *s; s++) {
		if (*s == '|')
			text_write(t, "\\", 1);
		text_write(t, s, 1);
	}
}

static void put_row(struct text *t, const struct metric_info *m,
		    const char *kind)
{
	text_printf(t, "| `%s` | %s | %s | %s | ", m->key, m->title,
		    unit_name(m->unit), kind);
	put_cell(t, m->help);
	put(t, " |\n");
}

static bool is_metric(const char *name)
{
	for (unsigned i = 0; i < METRICS; i++)
		if (!strcmp(metric_info[i].key, name))
			return true;
	return false;
}

static void put_family(struct text *t, const struct family_info *f)
{
	static const char *const types[] = {
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_COUNTER] = "counter",
		[FAMILY_INFO] = "info",
		[FAMILY_HISTOGRAM] = "histogram",
	};

	text_printf(t, "| `moetop_%s` | %s | %s | ", f->name, types[f->type],
		    f->labels);
	put_cell(t, f->help);
	put(t, " |\n");
}

static void put_rows(struct text *t, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (unsigned c = 0; c < 4 && rows[i].cells[c]; c++)
			text_printf(t, "| %s ", rows[i].cells[c]);
		put(t, "|\n");
	}
}

void metrics_doc_write(struct text *t)
{
	put(t, intro);
	put(t, "\n## Metrics\n\n"
	       "| id | on the screen | unit | type | meaning |\n"
	       "|---|---|---|---|---|\n");
	for (unsigned i = 0; i < METRICS; i++)
		put_row(t, &metric_info[i],
			metric_info[i].kind == KIND_COUNTER ? "counter"
							    : "gauge");
	put(t, histograms);
	put(t, "| id | on the screen | unit | type | meaning |\n"
	       "|---|---|---|---|---|\n");
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		put_row(t, &histogram_info[i], "histogram");
	put(t, json);
	put(t, "| key | type | meaning |\n|---|---|---|\n");
	put_rows(t, json_rows, sizeof(json_rows) / sizeof(json_rows[0]));
	put(t, prometheus);
	put(t, "| name | type | labels | meaning |\n|---|---|---|---|\n");
	for (unsigned i = 0; exposition_family(i); i++)
		if (!is_metric(exposition_family(i)->name))
			put_family(t, exposition_family(i));
	put(t, end);
}
