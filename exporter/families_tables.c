/* Families with a series per row of a table: classes, layers, experts, ... */
#include "exporter/exposition_build.h"

#include <string.h>

static struct value value_at(const void *row, size_t offset)
{
	struct value x;

	memcpy(&x, (const char *)row + offset, sizeof(x));
	return x;
}

static unsigned at_most(unsigned n, unsigned max)
{
	return n < max ? n : max;
}

/* ---- changes to the deployment ------------------------------------------ */

/* 17 digits do not help to tell two amounts apart. */
static void label_amount(struct builder *b, double amount)
{
	struct text t = { 0 };
	char s[32];

	text_number(&t, amount);
	snprintf(s, sizeof(s), "%s", t.data ? t.data : "");
	text_free(&t);
	series_label_copy(b, "amount", s);
}

static void fill_what_if(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	for (unsigned i = 0; i < at_most(s->n_what_if, SNAPSHOT_WHAT_IF_MAX);
	     i++) {
		const struct snapshot_what_if *w = &s->what_if[i];
		struct value x = value_at(w, f->offset);

		if (!printable(x) || w->limit != WHATIF_WITHIN)
			continue;
		series_begin(b);
		series_label(b, "kind", what_if_kind_name(w->kind));
		label_amount(b, w->amount);
		series_label(b, "name", w->name);
		series_end(b, x.v);
	}
}

/* ---- classes and layers ------------------------------------------------- */

static void fill_class(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	for (unsigned i = 0; i < at_most(s->n_classes, SNAPSHOT_CLASSES_MAX);
	     i++) {
		struct value x = value_at(&s->classes[i], f->offset);

		if (!series_shown(b, x))
			continue;
		series_begin(b);
		series_label(b, "class", s->classes[i].name);
		series_label_source(b, x);
		series_end(b, x.v);
	}
}

static void fill_layer(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	for (unsigned i = 0; i < at_most(s->n_layers, SNAPSHOT_LAYERS_MAX);
	     i++) {
		struct value x = value_at(&s->layers[i], f->offset);

		if (!series_shown(b, x))
			continue;
		series_begin(b);
		series_label_number(b, "layer", i);
		series_label_source(b, x);
		series_end(b, x.v);
	}
}

static void fill_experts(struct builder *b, const struct family_spec *f)
{
	const struct snapshot_experts *e = &b->server->s->experts;
	size_t cells = (size_t)e->n_layers * e->n_experts;

	(void)f;
	if (!b->options->experts || cells > SNAPSHOT_EXPERT_CELLS_MAX ||
	    b->server->hide_stale)
		return;
	for (size_t i = 0; i < cells; i++) {
		series_begin(b);
		series_label_number(b, "layer", i / e->n_experts);
		series_label_number(b, "expert", i % e->n_experts);
		series_end(b, e->rows[i]);
	}
}

/* ---- health ------------------------------------------------------------- */

static void fill_tiers(struct builder *b, const struct family_spec *f)
{
	const struct snapshot_health *h = &b->server->s->health;

	(void)f;
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++) {
		if (!h->tiers[i].name[0])
			continue;
		for (unsigned state = TIER_OFF; state <= TIER_OK; state++) {
			series_begin(b);
			series_label(b, "tier", h->tiers[i].name);
			series_label(b, "state",
				     tier_state_name((enum tier_state)state));
			series_end(b, h->tiers[i].state == state);
		}
	}
}

static void fill_ranks(struct builder *b, const struct family_spec *f)
{
	const struct snapshot_target *g = &b->server->s->target;

	(void)f;
	for (unsigned i = 0; i < at_most(g->n_ranks, SNAPSHOT_RANKS_MAX); i++) {
		const struct snapshot_rank *r = &g->ranks[i];

		series_begin_gpu(b);
		series_label_number(b, "rank", r->rank);
		series_label(b, "state", r->agent);
		series_label(b, "gpu", r->gpu);
		if (r->gpu_index >= 0)
			series_label_number(b, "gpu_index",
					    (uint64_t)r->gpu_index);
		series_end(b, 1);
	}
}

static void fill_checks(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;

	(void)f;
	for (unsigned i = 0; i < at_most(s->n_checks, SNAPSHOT_CHECKS_MAX);
	     i++) {
		if (s->checks[i].state == CHECK_UNKNOWN)
			continue;
		series_begin(b);
		series_label(b, "check", s->checks[i].name);
		series_end(b, s->checks[i].state == CHECK_AGREES);
	}
}

static void fill_lost(struct builder *b, const struct family_spec *f)
{
	const struct snapshot_health *h = &b->server->s->health;
	const struct {
		const char *what;
		uint64_t n;
	} lost[] = {
		{ "ring_records", h->lost_ring },
		{ "kernel_records", h->lost_records },
		{ "request_records", h->lost_requests },
		{ "connection_desyncs", h->desyncs },
		{ "connection_calls", h->lost_connections },
		{ "missed_calls", h->lost_calls },
		{ "request_paths", h->lost_paths },
		{ "unmatched_steps", h->bad_steps },
		{ "row_cells_rejected", h->cells_rejected },
		{ "row_cells_unread", h->cells_lost },
	};

	(void)f;
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		series_begin(b);
		series_label(b, "what", lost[i].what);
		series_end(b, (double)lost[i].n);
	}
}

/* offset: of a uint64_t in the health. */
static void fill_count(struct builder *b, const struct family_spec *f)
{
	uint64_t n;

	memcpy(&n, (const char *)&b->server->s->health + f->offset, sizeof(n));
	series_begin(b);
	series_end(b, (double)n);
}

/* Since the snapshot it has grown older. */
static double since_snapshot(const struct builder *b)
{
	double s =
		b->options->now > 0 ? b->options->now - b->server->s->time : 0;

	return s > 0 ? s : 0;
}

static void fill_window_age(struct builder *b, const struct family_spec *f)
{
	struct value x = b->server->s->health.window_age_seconds;

	(void)f;
	if (!printable(x))
		return;
	series_begin(b);
	series_end(b, x.v + since_snapshot(b));
}

static void fill_stale(struct builder *b, const struct family_spec *f)
{
	const struct snapshot *s = b->server->s;
	unsigned n = 0;

	(void)f;
	for (unsigned i = 0; i < METRICS; i++)
		n += s->metrics[i].state == VALUE_STALE;
	series_begin(b);
	series_end(b, n);
}

static void fill_stale_seconds(struct builder *b, const struct family_spec *f)
{
	const double *since = b->server->stale_since;
	double now = b->options->now;

	(void)f;
	for (unsigned i = 0; since && now > 0 && i < METRICS; i++) {
		if (!(since[i] > 0))
			continue;
		series_begin(b);
		series_label(b, "metric", metric_info[i].key);
		series_end(b, now > since[i] ? now - since[i] : 0);
	}
}

static void fill_time(struct builder *b, const struct family_spec *f)
{
	double time = b->server->s->time;

	(void)f;
	if (!isfinite(time))
		return;
	series_begin(b);
	series_end(b, time);
}

static void fill_age(struct builder *b, const struct family_spec *f)
{
	(void)f;
	if (!(b->options->now > 0))
		return;
	series_begin(b);
	series_end(b, since_snapshot(b));
}

/* Written last, and whatever the limit. */
static void fill_left_out(struct builder *b, const struct family_spec *f)
{
	unsigned n = b->server->left_out, had = b->server->series;

	(void)f;
	b->server->series = 0;
	series_begin(b);
	series_end(b, n);
	b->server->series = had;
}

#define LAYER(name, field, help)                                            \
	{                                                                   \
		{ "layer_" name, FAMILY_GAUGE, "layer, source", help },     \
			fill_layer, offsetof(struct snapshot_layer, field), \
			false, false                                        \
	}
#define CLASS(name, field, help)                                            \
	{                                                                   \
		{ "kernel_" name, FAMILY_GAUGE, "class, source", help },    \
			fill_class, offsetof(struct snapshot_class, field), \
			false, false                                        \
	}
#define WHAT_IF(name, field, help)                                             \
	{                                                                      \
		{ "what_if_" name, FAMILY_GAUGE, "kind, amount, name", help }, \
			fill_what_if,                                          \
			offsetof(struct snapshot_what_if, field), false, false \
	}

const struct family_spec families_tables[] = {
	{ { "tier_state", FAMILY_GAUGE, "tier, state",
	    "1 for the state of each tier of sources, 0 for the others." },
	  fill_tiers,
	  0,
	  false,
	  false },
	{ { "agent_info", FAMILY_INFO, "rank, state, gpu, gpu_index",
	    "State of the agent in each rank; the value is always 1." },
	  fill_ranks,
	  0,
	  false,
	  false },
	{ { "check_agrees", FAMILY_GAUGE, "check",
	    "1 where a number of moetop agrees with the engine's own, 0 where "
	    "it does not; absent where one of them is unknown." },
	  fill_checks,
	  0,
	  false,
	  false },
	{ { "lost_total", FAMILY_COUNTER, "what",
	    "What moetop could not take in, by kind." },
	  fill_lost,
	  0,
	  false,
	  false },
	{ { "listeners_not_followed", FAMILY_GAUGE, "",
	    "Ports and UNIX sockets of the server whose requests are not "
	    "counted, for there are too many." },
	  fill_count,
	  offsetof(struct snapshot_health, lost_listeners),
	  false,
	  false },
	{ { "windows_total", FAMILY_COUNTER, "",
	    "Windows of kernel records taken." },
	  fill_count,
	  offsetof(struct snapshot_health, windows),
	  false,
	  false },
	{ { "row_cells_total", FAMILY_COUNTER, "",
	    "Cells (decode step, MoE layer) whose rows were read." },
	  fill_count,
	  offsetof(struct snapshot_health, cells_sampled),
	  false,
	  false },
	{ { "window_age_seconds", FAMILY_GAUGE, "",
	    "Time since the end of the newest window of kernel records." },
	  fill_window_age,
	  0,
	  false,
	  false },
	{ { "stale_metrics", FAMILY_GAUGE, "",
	    "Metrics whose value is old because their source stopped." },
	  fill_stale,
	  0,
	  false,
	  false },
	{ { "metric_stale_seconds", FAMILY_GAUGE, "metric",
	    "How long a metric's value is old already; after 300 s it has no "
	    "series of its own any more." },
	  fill_stale_seconds,
	  0,
	  false,
	  false },
	{ { "snapshot_timestamp_seconds", FAMILY_GAUGE, "",
	    "When these values were computed, Unix time." },
	  fill_time,
	  0,
	  false,
	  true },
	{ { "snapshot_age_seconds", FAMILY_GAUGE, "",
	    "Time since these values were computed." },
	  fill_age,
	  0,
	  false,
	  true },
	WHAT_IF("cost_ratio", cost_ratio,
		"GPU seconds per token after one change to the deployment, "
		"over those of now; modelled."),
	WHAT_IF("step_seconds", step_s,
		"Decode step after one change to the deployment; modelled."),
	WHAT_IF("tokens_per_second", tokens_per_s,
		"Tokens per second after one change to the deployment; "
		"modelled."),
	CLASS("calls_per_step", calls_per_step,
	      "Launches of one class of kernels in a decode step."),
	CLASS("seconds_per_step", seconds_per_step,
	      "Time of one class of kernels in a decode step."),
	CLASS("share_ratio", share,
	      "Share of one class of kernels in the time of a decode step."),
	LAYER("seconds_per_step", seconds_per_step,
	      "Time of one MoE layer's block in a decode step."),
	LAYER("before_seconds_per_step", before_seconds_per_step,
	      "Time of what leads up to one MoE layer's block in a decode "
	      "step."),
	LAYER("expert_seconds_per_step", expert_seconds_per_step,
	      "Time of one MoE layer's expert GEMMs in a decode step."),
	LAYER("rows", rows,
	      "Rows (token, expert) in one MoE layer and decode step."),
	LAYER("active_experts", active_experts,
	      "Experts with a row in one MoE layer and decode step."),
	LAYER("single_row_experts", single_row_experts,
	      "Experts with exactly one row in one MoE layer and decode step."),
	LAYER("dram_bytes_per_step", dram_bytes_per_step,
	      "DRAM bytes attributed to one MoE layer in a decode step."),
	LAYER("fragmentation_ratio", fragmentation,
	      "Sum of active experts over sum of rows of one MoE layer."),
	{ { "expert_rows", FAMILY_GAUGE, "layer, expert",
	    "Rows of one expert in the sampled decode steps of the last "
	    "minute; only with --expert-metrics." },
	  fill_experts,
	  0,
	  false,
	  false },
};
const unsigned n_families_tables =
	sizeof(families_tables) / sizeof(families_tables[0]);

const struct family_spec families_last[] = {
	{ { "series_left_out", FAMILY_GAUGE, "",
	    "Series that had no place in this scrape: --max-series." },
	  fill_left_out,
	  0,
	  false,
	  true },
};
const unsigned n_families_last =
	sizeof(families_last) / sizeof(families_last[0]);
