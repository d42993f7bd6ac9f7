/* The families of a server as a whole: what it is, its state, its numbers. */
#include "exporter/exposition_build.h"

#include <string.h>

#ifndef MOETOP_VERSION
#define MOETOP_VERSION "0.1.0"
#endif

static void one(struct builder *b, double v)
{
	series_begin(b);
	series_end(b, v);
}

/* ---- the exporter ------------------------------------------------------- */

static void fill_build(struct builder *b, const struct family_spec *f)
{
	(void)f;
	series_begin(b);
	series_label(b, "version", MOETOP_VERSION);
	series_end(b, 1);
}

/* offset: of a double in exporter_stats. */
static void fill_stat_seconds(struct builder *b, const struct family_spec *f)
{
	double v;

	if (!b->options->stats)
		return;
	memcpy(&v, (const char *)b->options->stats + f->offset, sizeof(v));
	if (isfinite(v))
		one(b, v);
}

static void fill_connections(struct builder *b, const struct family_spec *f)
{
	(void)f;
	if (b->options->stats)
		one(b, b->options->stats->connections);
}

static void fill_answers(struct builder *b, const struct family_spec *f)
{
	const struct exporter_stats *st = b->options->stats;
	const struct {
		const char *what;
		unsigned long n;
	} rows[] = {
		{ "answered", st ? st->requests : 0 },
		{ "unauthorized", st ? st->unauthorized : 0 },
		{ "refused", st ? st->refused : 0 },
		{ "too_slow", st ? st->slow : 0 },
	};

	(void)f;
	for (size_t i = 0; st && i < sizeof(rows) / sizeof(rows[0]); i++) {
		series_begin(b);
		series_label(b, "result", rows[i].what);
		series_end(b, (double)rows[i].n);
	}
}

static void fill_servers(struct builder *b, const struct family_spec *f)
{
	(void)f;
	series_begin(b);
	series_label(b, "state", "watched");
	series_end(b, b->n_servers);
	series_begin(b);
	series_label(b, "state", "left_out");
	series_end(b, b->options->servers_left_out);
}

/* ---- the server --------------------------------------------------------- */

static void fill_target(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;
	const struct snapshot_target *g = &s->target;

	(void)f;
	series_begin(b);
	series_label(b, "engine_version", g->engine_version);
	series_label(b, "quant", g->quant);
	series_label(b, "compute_type", s->compute_type);
	series_label_known(b, "gpus", g->n_gpus);
	series_label_known(b, "tp", g->tp);
	series_label_known(b, "ep", g->ep);
	series_label_known(b, "pid", g->pid > 0 ? (uint64_t)g->pid : 0);
	series_label(b, "host", g->host);
	series_label(b, "container", g->container);
	series_end(b, 1);
}

static void fill_up(struct builder *b, const struct family_spec *f)
{
	(void)f;
	one(b, !b->server->s->health.target_gone);
}

/* offset: of a uint32_t in the target, 0 unknown. */
static void fill_shape(struct builder *b, const struct family_spec *f)
{
	uint32_t n;

	memcpy(&n, (const char *)&b->server->s->target + f->offset, sizeof(n));
	if (n)
		one(b, n);
}

static void fill_regime(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	(void)f;
	for (unsigned r = REGIME_UNKNOWN + 1;
	     r < REGIMES && regime_name(s->regime); r++) {
		series_begin(b);
		series_label(b, "regime", regime_name((enum regime)r));
		series_label(b, "source", value_source_name(s->regime_source));
		series_end(b, s->regime == r);
	}
}

static void fill_side(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	(void)f;
	for (unsigned i = SIDE_NEAR;
	     i <= SIDE_FAR && regime_name(s->regime) && side_name(s->side);
	     i++) {
		series_begin(b);
		series_label(b, "side", side_name((enum side)i));
		series_end(b, s->side == i);
	}
}

static void fill_flags(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	(void)f;
	for (unsigned i = 0; i < REGIME_FLAGS && regime_name(s->regime); i++) {
		series_begin(b);
		series_label(b, "flag", regime_flag_name(1u << i));
		series_end(b, (s->flags & 1u << i) != 0);
	}
}

static void fill_findings(struct builder *b, const struct family_spec *f)
{
	static const char *const severities[] = { "info", "notice", "warning" };
	const struct snapshot *s = b->server->s;
	bool gain = f->offset != 0;

	for (unsigned i = 0; i < s->n_findings && i < SNAPSHOT_FINDINGS_MAX;
	     i++) {
		const struct finding *d = &s->findings[i];

		if (gain && !printable(d->gain))
			continue;
		series_begin(b);
		series_label(b, "rule", d->rule);
		series_label(b, "severity",
			     severities[(unsigned)d->severity % 3]);
		series_end(b, gain ? d->gain.v : 1);
	}
}

/* ---- metrics and histograms --------------------------------------------- */

/* Out of date for so long that it says nothing any more. */
static bool too_old(const struct builder *b, enum metric_id m)
{
	const double *since = b->server->stale_since;

	return since && since[m] > 0 && b->options->now > 0 &&
	       b->options->now - since[m] > STALE_SHOWN_S;
}

/* offset: the metric's id. */
static void fill_metric(struct builder *b, const struct family_spec *f)
{
	enum metric_id m = (enum metric_id)f->offset;
	struct value x = b->server->s->metrics[m];

	if (!printable(x) || too_old(b, m))
		return;
	series_begin(b);
	series_label_source(b, x);
	series_end(b, x.v);
}

/* offset: the histogram's id. */
static void fill_hist(struct builder *b, const struct family_spec *f)
{
	enum histogram_id id = (enum histogram_id)f->offset;
	const struct snapshot_hist_total *t = &b->server->s->totals[id];

	if (!t->known)
		return;
	series_begin(b);
	series_end_hist(b, t, id);
}

static void fill_endpoints(struct builder *b, const struct family_spec *f)
{
	static const char *const paths[SNAPSHOT_ENDPOINTS] = {
		"other", "generation", "pooling", "ignored"
	};
	static const struct {
		const char *result;
		enum request_count count;
	} results[] = {
		{ "completed", REQUESTS_COMPLETED },
		{ "failed_4xx", REQUESTS_FAILED_4XX },
		{ "failed_5xx", REQUESTS_FAILED_5XX },
		{ "client_aborted", REQUESTS_CLIENT_ABORTED },
		{ "server_aborted", REQUESTS_SERVER_ABORTED },
	};
	const struct snapshot_requests *r = &b->server->s->requests;

	(void)f;
	for (unsigned e = 0; r->known && e < SNAPSHOT_ENDPOINTS; e++) {
		for (unsigned i = 0; i < 5; i++) {
			series_begin(b);
			series_label(b, "endpoint", paths[e]);
			series_label(b, "result", results[i].result);
			series_end(b, (double)r->counts[e][results[i].count]);
		}
	}
}

#define METRIC(id, key, unit, kind, title, help)  \
	{ { key, FAMILY_##kind, "source", help }, \
	  fill_metric,                            \
	  METRIC_##id,                            \
	  false,                                  \
	  false },
#define STAT(field) offsetof(struct exporter_stats, field)
#define SHAPE(field) offsetof(struct snapshot_target, field)

const struct family_spec families_server[] = {
	{ { "build_info", FAMILY_INFO, "version",
	    "Version of moetop; the value is always 1." },
	  fill_build,
	  0,
	  true,
	  true },
	{ { "exporter_servers", FAMILY_GAUGE, "state",
	    "Servers that this exporter watches (or has until five minutes "
	    "ago), and those that it has no room for." },
	  fill_servers,
	  0,
	  true,
	  true },
	{ { "render_seconds", FAMILY_GAUGE, "",
	    "Time that it took to compute and write the previous scrape." },
	  fill_stat_seconds,
	  STAT(render_seconds),
	  true,
	  true },
	{ { "http_connections", FAMILY_GAUGE, "",
	    "Connections to this exporter." },
	  fill_connections,
	  0,
	  true,
	  true },
	{ { "http_requests_total", FAMILY_COUNTER, "result",
	    "Requests to this exporter by how they ended; refused are those "
	    "beyond a limit." },
	  fill_answers,
	  0,
	  true,
	  true },
	{ { "process_cpu_seconds_total", FAMILY_COUNTER, "",
	    "Processor time of moetop, without its agents." },
	  fill_stat_seconds,
	  STAT(cpu_seconds),
	  true,
	  true },
	{ { "process_resident_bytes", FAMILY_GAUGE, "",
	    "Memory of moetop, without its agents." },
	  fill_stat_seconds,
	  STAT(resident_bytes),
	  true,
	  true },
	{ { "target_info", FAMILY_INFO,
	    "engine_version, quant, compute_type, gpus, tp, ep, pid, host, "
	    "container",
	    "The watched server; the value is always 1." },
	  fill_target,
	  0,
	  false,
	  true },
	{ { "target_up", FAMILY_GAUGE, "",
	    "1 while the watched server runs, 0 when it is gone." },
	  fill_up,
	  0,
	  false,
	  true },
	{ { "target_gpus", FAMILY_GAUGE, "", "GPUs of the server." },
	  fill_shape,
	  SHAPE(n_gpus),
	  false,
	  false },
	{ { "target_experts", FAMILY_GAUGE, "",
	    "E: routed experts of one MoE layer." },
	  fill_shape,
	  SHAPE(experts),
	  false,
	  false },
	{ { "target_experts_per_token", FAMILY_GAUGE, "",
	    "k: experts of one token in one MoE layer." },
	  fill_shape,
	  SHAPE(top_k),
	  false,
	  false },
	{ { "target_moe_layers", FAMILY_GAUGE, "", "Layers with experts." },
	  fill_shape,
	  SHAPE(moe_layers),
	  false,
	  false },
	{ { "regime", FAMILY_GAUGE, "regime, source",
	    "1 for the regime that the server is in, 0 for the others; absent "
	    "while unknown." },
	  fill_regime,
	  0,
	  false,
	  false },
	{ { "regime_side", FAMILY_GAUGE, "side",
	    "1 for the side of the valley that the server is on: near, where "
	    "most active experts serve one row, or far; in the valley only." },
	  fill_side,
	  0,
	  false,
	  false },
	{ { "regime_flag", FAMILY_GAUGE, "flag",
	    "1 for what holds beside the regime: overhead, imbalance, skew." },
	  fill_flags,
	  0,
	  false,
	  false },
#include "model/metrics.def"
	{ { "ttft_seconds", FAMILY_HISTOGRAM, "",
	    "Request head complete to first body byte, of generation "
	    "requests." },
	  fill_hist,
	  HISTOGRAM_TTFT,
	  false,
	  false },
	{ { "event_gap_seconds", FAMILY_HISTOGRAM, "",
	    "Time between two events of a stream." },
	  fill_hist,
	  HISTOGRAM_EVENT_GAP,
	  false,
	  false },
	{ { "request_duration_seconds", FAMILY_HISTOGRAM, "",
	    "Request head complete to end of response, of generation "
	    "requests." },
	  fill_hist,
	  HISTOGRAM_DURATION,
	  false,
	  false },
	{ { "step_duration_seconds", FAMILY_HISTOGRAM, "",
	    "Decode step time, of the steps in windows of kernel records." },
	  fill_hist,
	  HISTOGRAM_STEP,
	  false,
	  false },
	{ { "rows_per_expert", FAMILY_HISTOGRAM, "",
	    "Rows of one active expert in one (decode step, MoE layer), of "
	    "the cells that were sampled." },
	  fill_hist,
	  HISTOGRAM_ROWS_PER_EXPERT,
	  false,
	  false },
	{ { "endpoint_requests_total", FAMILY_COUNTER, "endpoint, result",
	    "Requests by what their path is for and how they ended; failed "
	    "ones are among the completed." },
	  fill_endpoints,
	  0,
	  false,
	  false },
	{ { "finding", FAMILY_GAUGE, "rule, severity",
	    "1 for each rule whose advice holds now." },
	  fill_findings,
	  0,
	  false,
	  false },
	{ { "finding_gain_ratio", FAMILY_GAUGE, "rule, severity",
	    "Share of the cost that following the advice is predicted to "
	    "save." },
	  fill_findings,
	  1,
	  false,
	  false },
};
const unsigned n_families_server =
	sizeof(families_server) / sizeof(families_server[0]);
