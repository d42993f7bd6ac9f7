/*
 * prometheus.c - a snapshot in the Prometheus text format 0.0.4
 *
 * What is unknown has no sample.  A histogram is a summary of quantiles alone:
 * its counts are of a sliding window, and a _sum or _count that falls would
 * look like a restarted counter.
 *
 * Series are few: 7 a layer and 3 a kernel class at most, so that a model of
 * 61 layers stays below 1000.
 */
#include "exporter/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#ifndef MOETOP_VERSION
#define MOETOP_VERSION "0.1.0"
#endif

/* HELP and TYPE; every family begins with it. */
static void family(struct text *t, const char *name, const char *type,
		   const char *help)
{
	text_printf(t, "# HELP moetop_%s ", name);
	text_label(t, help);
	text_printf(t, "\n# TYPE moetop_%s %s\n", name, type);
}

/* name="value" with the comma in front where one is needed. */
static void label(struct text *t, const char *name, const char *value)
{
	char last = t->bytes ? t->data[t->bytes - 1] : '{';

	text_printf(t, "%s%s=\"", last == '{' ? "" : ",", name);
	text_label(t, value);
	text_write(t, "\"", 1);
}

static void label_number(struct text *t, const char *name, uint64_t n)
{
	char s[24];

	snprintf(s, sizeof(s), "%" PRIu64, n);
	label(t, name, s);
}

/* "" where 0 stands for unknown. */
static void label_known(struct text *t, const char *name, uint64_t n)
{
	if (n)
		label_number(t, name, n);
	else
		label(t, name, "");
}

static void sample_begin(struct text *t, const char *name)
{
	text_printf(t, "moetop_%s{", name);
}

static void sample_end(struct text *t, double v)
{
	/* "{}" is legal but nobody writes it */
	if (t->bytes && t->data[t->bytes - 1] == '{')
		t->bytes--;
	else
		text_write(t, "}", 1);
	text_write(t, " ", 1);
	text_number(t, v);
	text_write(t, "\n", 1);
}

static void label_source(struct text *t, struct value x)
{
	label(t, "source", value_source_name(x.source));
}

static void plain(struct text *t, const char *name, const char *type,
		  const char *help, double v)
{
	family(t, name, type, help);
	sample_begin(t, name);
	sample_end(t, v);
}

/* ---- metrics and histograms --------------------------------------------- */

/* A name stands for one type only: the gauge of the mean step has its id. */
static const char *summary_name(enum histogram_id id)
{
	return id == HISTOGRAM_STEP ? "step_duration_seconds"
				    : histogram_info[id].key;
}

static void write_metrics(struct text *t, const struct snapshot *s)
{
	for (unsigned i = 0; i < METRICS; i++) {
		const struct metric_info *m = &metric_info[i];

		if (!printable(s->metrics[i]))
			continue;
		family(t, m->key, m->kind == KIND_COUNTER ? "counter" : "gauge",
		       m->help);
		sample_begin(t, m->key);
		label_source(t, s->metrics[i]);
		sample_end(t, s->metrics[i].v);
	}
}

static void write_quantile(struct text *t, const char *id, const char *quantile,
			   struct value x)
{
	if (!printable(x))
		return;
	sample_begin(t, id);
	label_source(t, x);
	label(t, "quantile", quantile);
	sample_end(t, x.v);
}

static void write_histograms(struct text *t, const struct snapshot *s)
{
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		const struct snapshot_hist *h = &s->hists[i];
		const char *id = summary_name((enum histogram_id)i);

		if (!printable(h->p50) && !printable(h->p90) &&
		    !printable(h->p99))
			continue;
		family(t, id, "summary", histogram_info[i].help);
		write_quantile(t, id, "0.5", h->p50);
		write_quantile(t, id, "0.9", h->p90);
		write_quantile(t, id, "0.99", h->p99);
	}
}

/* ---- tables ------------------------------------------------------------- */

struct column {
	const char *name, *help;
	size_t offset; /* of the value in a row */
};

static const struct column layer_columns[] = {
	{ "layer_seconds_per_step",
	  "Time of one MoE layer's block in a decode step.",
	  offsetof(struct snapshot_layer, seconds_per_step) },
	{ "layer_before_seconds_per_step",
	  "Time of what leads up to one MoE layer's block in a decode step.",
	  offsetof(struct snapshot_layer, before_seconds_per_step) },
	{ "layer_expert_seconds_per_step",
	  "Time of one MoE layer's expert GEMMs in a decode step.",
	  offsetof(struct snapshot_layer, expert_seconds_per_step) },
	{ "layer_rows",
	  "Rows (token, expert) in one MoE layer and decode step.",
	  offsetof(struct snapshot_layer, rows) },
	{ "layer_active_experts",
	  "Experts with a row in one MoE layer and decode step.",
	  offsetof(struct snapshot_layer, active_experts) },
	{ "layer_single_row_experts",
	  "Experts with exactly one row in one MoE layer and decode step.",
	  offsetof(struct snapshot_layer, single_row_experts) },
	{ "layer_dram_bytes_per_step",
	  "DRAM bytes attributed to one MoE layer in a decode step.",
	  offsetof(struct snapshot_layer, dram_bytes_per_step) },
	{ "layer_fragmentation_ratio",
	  "Sum of active experts over sum of rows of one MoE layer.",
	  offsetof(struct snapshot_layer, fragmentation) },
};

static const struct column class_columns[] = {
	{ "kernel_calls_per_step",
	  "Launches of one class of kernels in a decode step.",
	  offsetof(struct snapshot_class, calls_per_step) },
	{ "kernel_seconds_per_step",
	  "Time of one class of kernels in a decode step.",
	  offsetof(struct snapshot_class, seconds_per_step) },
	{ "kernel_share_ratio",
	  "Share of one class of kernels in the time of a decode step.",
	  offsetof(struct snapshot_class, share) },
};

static struct value value_at(const void *row, size_t offset)
{
	struct value x;

	memcpy(&x, (const char *)row + offset, sizeof(x));
	return x;
}

/* One family: a column over all rows; label_row names a row. */
static void write_column(struct text *t, const struct column *c,
			 const void *rows, size_t row_bytes, unsigned n,
			 void (*label_row)(struct text *t, const void *row,
					   unsigned i))
{
	bool begun = false;

	for (unsigned i = 0; i < n; i++) {
		const void *row = (const char *)rows + i * row_bytes;
		struct value x = value_at(row, c->offset);

		if (!printable(x))
			continue;
		if (!begun)
			family(t, c->name, "gauge", c->help);
		begun = true;
		sample_begin(t, c->name);
		label_row(t, row, i);
		label_source(t, x);
		sample_end(t, x.v);
	}
}

static void label_layer(struct text *t, const void *row, unsigned i)
{
	(void)row;
	label_number(t, "layer", i);
}

static void label_class(struct text *t, const void *row, unsigned i)
{
	(void)i;
	label(t, "class", ((const struct snapshot_class *)row)->name);
}

static void write_tables(struct text *t, const struct snapshot *s)
{
	unsigned layers = s->n_layers, classes = s->n_classes;

	if (layers > SNAPSHOT_LAYERS_MAX)
		layers = SNAPSHOT_LAYERS_MAX;
	if (classes > SNAPSHOT_CLASSES_MAX)
		classes = SNAPSHOT_CLASSES_MAX;
	for (size_t i = 0; i < sizeof(layer_columns) / sizeof(struct column);
	     i++)
		write_column(t, &layer_columns[i], s->layers,
			     sizeof(s->layers[0]), layers, label_layer);
	for (size_t i = 0; i < sizeof(class_columns) / sizeof(struct column);
	     i++)
		write_column(t, &class_columns[i], s->classes,
			     sizeof(s->classes[0]), classes, label_class);
}

/* ---- states ------------------------------------------------------------- */

static void write_regime(struct text *t, const struct snapshot *s)
{
	if (!regime_name(s->regime))
		return;
	family(t, "regime", "gauge",
	       "1 for the regime that the server is in, 0 for the others.");
	for (unsigned r = REGIME_UNKNOWN + 1; r < REGIMES; r++) {
		sample_begin(t, "regime");
		label(t, "regime", regime_name((enum regime)r));
		sample_end(t, s->regime == r);
	}
	family(t, "regime_flag", "gauge",
	       "1 for what holds beside the regime: overhead, imbalance, "
	       "skew.");
	for (unsigned i = 0; i < REGIME_FLAGS; i++) {
		sample_begin(t, "regime_flag");
		label(t, "flag", regime_flag_name(1u << i));
		sample_end(t, (s->flags & 1u << i) != 0);
	}
	if (!side_name(s->side))
		return;
	family(t, "regime_side", "gauge",
	       "1 for the side of the valley that the server is on: near, "
	       "where "
	       "most active experts serve one row, or far.");
	for (unsigned i = SIDE_NEAR; i <= SIDE_FAR; i++) {
		sample_begin(t, "regime_side");
		label(t, "side", side_name((enum side)i));
		sample_end(t, s->side == i);
	}
}

static void write_tiers(struct text *t, const struct snapshot_health *h)
{
	family(t, "tier_state", "gauge",
	       "1 for the state of each tier of sources, 0 for the others.");
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++) {
		if (!h->tiers[i].name[0])
			continue;
		for (unsigned state = TIER_OFF; state <= TIER_OK; state++) {
			sample_begin(t, "tier_state");
			label(t, "tier", h->tiers[i].name);
			label(t, "state",
			      tier_state_name((enum tier_state)state));
			sample_end(t, h->tiers[i].state == state);
		}
	}
}

static void write_ranks(struct text *t, const struct snapshot_target *g)
{
	if (!g->n_ranks)
		return;
	family(t, "agent_info", "gauge",
	       "State of the agent in each rank; the value is always 1.");
	for (unsigned i = 0; i < g->n_ranks && i < SNAPSHOT_RANKS_MAX; i++) {
		sample_begin(t, "agent_info");
		label_number(t, "rank", g->ranks[i].rank);
		label(t, "state", g->ranks[i].agent);
		label(t, "gpu", g->ranks[i].gpu);
		sample_end(t, 1);
	}
}

static void write_info(struct text *t, const struct snapshot *s)
{
	const struct snapshot_target *g = &s->target;

	family(t, "build_info", "gauge",
	       "Version of moetop; the value is always 1.");
	sample_begin(t, "build_info");
	label(t, "version", MOETOP_VERSION);
	sample_end(t, 1);
	family(t, "target_info", "gauge",
	       "The watched server; the value is always 1.");
	sample_begin(t, "target_info");
	label(t, "engine", g->engine);
	label(t, "engine_version", g->engine_version);
	label(t, "model", g->model);
	label(t, "quant", g->quant);
	label(t, "compute_type", s->compute_type);
	label(t, "gpu", g->gpu);
	label_known(t, "gpus", g->n_gpus);
	label_known(t, "pid", g->pid > 0 ? (uint64_t)g->pid : 0);
	sample_end(t, 1);
	plain(t, "target_up", "gauge",
	      "1 while the watched server runs, 0 when it is gone.",
	      !s->health.target_gone);
}

/* ---- moetop itself ------------------------------------------------------ */

static void write_lost(struct text *t, const struct snapshot_health *h)
{
	const struct {
		const char *what;
		uint64_t n;
	} lost[] = {
		{ "ring_records", h->lost_ring },
		{ "kernel_records", h->lost_records },
		{ "request_records", h->lost_requests },
		{ "connection_desyncs", h->desyncs },
		{ "unmatched_steps", h->bad_steps },
		{ "row_cells_rejected", h->cells_rejected },
		{ "row_cells_unread", h->cells_lost },
	};

	family(t, "lost_total", "counter",
	       "What moetop could not take in, by kind.");
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		sample_begin(t, "lost_total");
		label(t, "what", lost[i].what);
		sample_end(t, (double)lost[i].n);
	}
}

static unsigned count_stale(const struct snapshot *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < METRICS; i++)
		n += s->metrics[i].state == VALUE_STALE;
	return n;
}

static void write_self(struct text *t, const struct snapshot *s)
{
	const struct snapshot_health *h = &s->health;

	write_tiers(t, h);
	write_ranks(t, &s->target);
	write_lost(t, h);
	plain(t, "windows_total", "counter", "Windows of kernel records taken.",
	      (double)h->windows);
	plain(t, "row_cells_total", "counter",
	      "Cells (decode step, MoE layer) whose rows were read.",
	      (double)h->cells_sampled);
	if (printable(h->window_age_seconds))
		plain(t, "window_age_seconds", "gauge",
		      "Time since the end of the newest window of kernel "
		      "records.",
		      h->window_age_seconds.v);
	plain(t, "stale_metrics", "gauge",
	      "Metrics here whose value is old because their source stopped.",
	      count_stale(s));
	if (isfinite(s->time))
		plain(t, "snapshot_timestamp_seconds", "gauge",
		      "When these values were computed, Unix time.", s->time);
}

static void prometheus_write(struct text *t, const struct snapshot *s)
{
	struct c_locale l;

	c_locale_enter(&l);
	write_info(t, s);
	write_regime(t, s);
	write_metrics(t, s);
	write_histograms(t, s);
	write_tables(t, s);
	write_self(t, s);
	c_locale_leave(&l);
}

const struct format format_prometheus = {
	.name = "prometheus",
	.content_type = "text/plain; version=0.0.4; charset=utf-8",
	.write = prometheus_write,
};
