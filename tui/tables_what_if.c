#include <math.h>
#include <stdio.h>

#include "model/explain.h"
#include "tui/tables.h"

enum what_if_column {
	WHAT_IF_NAME,
	WHAT_IF_SIGN,
	WHAT_IF_B,
	WHAT_IF_SPEED,
	WHAT_IF_SPEED_RANGE,
	WHAT_IF_STEP_TIME,
	WHAT_IF_PRICE,
	WHAT_IF_PRICE_RANGE,
	WHAT_IF_CHANGE,
	WHAT_IF_GAIN,
	WHAT_IF_EXPERTS,
	WHAT_IF_EXPERTS_RANGE,
	WHAT_IF_LIMIT,
	WHAT_IF_COLUMNS
};

static const struct table_column columns[WHAT_IF_COLUMNS] = {
	[WHAT_IF_NAME] = { .title = "what if", .w = 18, .left = true },
	[WHAT_IF_SIGN] = { .title = "", .w = 1 },
	[WHAT_IF_B] = { .title = "B",
			.w = 7,
			.explain = EXPLAIN_WHAT_IF_BATCH },
	[WHAT_IF_SPEED] = { .title = "tok/s",
			    .w = 8,
			    .explain = EXPLAIN_WHAT_IF_TOKENS },
	[WHAT_IF_SPEED_RANGE] = { .title = "9 of 10", .w = 16, .rank = 7 },
	[WHAT_IF_STEP_TIME] = { .title = "step",
				.w = 8,
				.rank = 3,
				.explain = EXPLAIN_WHAT_IF_STEP },
	[WHAT_IF_PRICE] = { .title = "$/Mtok",
			    .w = 8,
			    .explain = EXPLAIN_WHAT_IF_COST },
	[WHAT_IF_PRICE_RANGE] = { .title = "9 of 10", .w = 16, .rank = 6 },
	[WHAT_IF_CHANGE] = { .title = "cost",
			     .w = 7,
			     .rank = 2,
			     .explain = EXPLAIN_WHAT_IF_CHANGE },
	[WHAT_IF_GAIN] = { .title = "η",
			   .w = 6,
			   .rank = 1,
			   .explain = EXPLAIN_WHAT_IF_ETA },
	[WHAT_IF_EXPERTS] = { .title = "experts",
			      .w = 8,
			      .rank = 4,
			      .explain = EXPLAIN_WHAT_IF_ACTIVE },
	[WHAT_IF_EXPERTS_RANGE] = { .title = "9 of 10", .w = 10, .rank = 8 },
	[WHAT_IF_LIMIT] = { .title = "  out of range",
			    .w = 34,
			    .rank = 9,
			    .left = true },
};

/* ---- lines ---------------------------------------------------------------- */

static struct what_if_line *add_line(struct what_if_order *o)
{
	struct what_if_line *l = &o->line[o->n];

	if (o->n == WHAT_IF_LINES_MAX)
		return NULL;
	o->n++;
	*l = (struct what_if_line){ 0 };
	return l;
}

static void add_now(struct what_if_order *o, const struct snapshot *s)
{
	const struct value *m = s->metrics;
	struct what_if_line *l;

	if (!value_known(m[METRIC_TOKENS_PER_STEP]))
		return;
	l = add_line(o);
	l->strong = true;
	snprintf(l->name, sizeof(l->name), "now");
	l->w = (struct snapshot_what_if){
		.tokens_per_step = m[METRIC_TOKENS_PER_STEP],
		.active_experts = m[METRIC_ACTIVE_EXPERTS],
		.marginal_gain = m[METRIC_MARGINAL_GAIN],
		.step_s = m[METRIC_STEP_SECONDS],
		.tokens_per_s = m[METRIC_TOKENS],
		.usd_per_mtok = m[METRIC_COST],
	};
}

static void set_point(struct what_if_line *l, const struct whatif_point *p,
		      enum value_source s)
{
	l->w = (struct snapshot_what_if){
		.limit = p->limit,
		.tokens_per_step = value_make(p->batch, s),
		.active_experts = value_make(p->active, s),
		.marginal_gain = value_make(p->shares.gain, s),
		.step_s = value_make(p->step_s, s),
		.tokens_per_s = value_make(p->tokens_per_s, s),
		.tokens_per_s_low = value_make(p->tokens_per_s_low, s),
		.tokens_per_s_high = value_make(p->tokens_per_s_high, s),
		.usd_per_mtok = value_make(p->usd_per_mtok, s),
		.usd_per_mtok_low = value_make(p->usd_per_mtok_low, s),
		.usd_per_mtok_high = value_make(p->usd_per_mtok_high, s),
		.cost_ratio = value_make(p->cost_ratio, s),
	};
	l->active_low = value_make(p->active_low, s);
	l->active_high = value_make(p->active_high, s);
}

/* Any change of the base, in words of its own. */
static void add_change(struct what_if_order *o, const struct snapshot *s,
		       const struct whatif_change *c, const char *name)
{
	struct what_if_line *l;
	struct whatif_point p;

	if (!whatif_at(&s->what_if_base, c, &p) || p.limit == WHATIF_SHAPE)
		return;
	l = add_line(o);
	if (!l)
		return;
	set_point(l, &p, s->what_if_base.source);
	snprintf(l->name, sizeof(l->name), "%s", name);
}

/* The words for a row of the snapshot's table. */
static void row_name(const struct snapshot *s, const struct snapshot_what_if *w,
		     char out[WHAT_IF_NAME_BYTES])
{
	double now = s->what_if_base.tp > 0 ? s->what_if_base.tp : s->target.tp;
	double gpus = s->target.n_gpus;

	switch (w->kind) {
	case WHAT_IF_MERGE:
		snprintf(out, WHAT_IF_NAME_BYTES, "%.0f replicas → 1",
			 w->amount);
		break;
	case WHAT_IF_TP:
		if (now > 0)
			gpus *= w->amount / now;
		snprintf(out, WHAT_IF_NAME_BYTES, "TP %.0f, %.0f GPU%s",
			 w->amount, gpus, gpus > 1 ? "s" : "");
		break;
	case WHAT_IF_EP:
		snprintf(out, WHAT_IF_NAME_BYTES, "EP %.0f", w->amount);
		break;
	case WHAT_IF_GPU:
		snprintf(out, WHAT_IF_NAME_BYTES, "%.0f × %.16s", w->amount,
			 w->name);
		break;
	case WHAT_IF_BATCH:
	case WHAT_IF_KINDS:
		snprintf(out, WHAT_IF_NAME_BYTES, "B = %.0f", w->amount);
		break;
	}
}

/* Rows of the snapshot's table, of the kinds first to last. */
static void add_rows(struct what_if_order *o, const struct snapshot *s,
		     enum what_if_kind first, enum what_if_kind last)
{
	for (unsigned i = 0; i < s->n_what_if && i < SNAPSHOT_WHAT_IF_MAX;
	     i++) {
		const struct snapshot_what_if *w = &s->what_if[i];
		struct what_if_line *l;

		if (w->kind < first || w->kind > last)
			continue;
		l = add_line(o);
		if (!l)
			return;
		l->w = *w;
		row_name(s, w, l->name);
	}
}

/* Without a load there is nothing to change: the model at a few batches. */
static void add_batches(struct what_if_order *o, const struct snapshot *s)
{
	for (double b = 1; b <= 2048; b *= 2) {
		char name[WHAT_IF_NAME_BYTES];

		snprintf(name, sizeof(name), "B = %.0f", b);
		add_change(o, s, &(struct whatif_change){ .batch = b }, name);
	}
}

/* ---- cells ---------------------------------------------------------------- */

static void range_cell(struct table_cell *out, struct value low,
		       struct value high, enum number_form form)
{
	char from[NUMBER_TEXT], to[NUMBER_TEXT];

	out->style = STYLE_DIM;
	if (!value_known(low) || !value_known(high))
		return;
	format_number(from, low.v, form);
	format_number(to, high.v, form);
	snprintf(out->text, sizeof(out->text), "%s..%s", from, to);
}

/* The ratio is of GPU seconds: of money, where a GPU hour costs what it did. */
static void change_cell(struct table_cell *out,
			const struct snapshot_what_if *w)
{
	struct value ratio = w->cost_ratio;

	if (w->kind == WHAT_IF_GPU && !value_known(w->usd_per_mtok)) {
		cell_value(out, w->usd_per_mtok, NUMBER_PERCENT);
		return;
	}
	if (!value_known(ratio))
		return;
	snprintf(out->text, sizeof(out->text), "%+.0f %%%s",
		 100 * fmin(ratio.v - 1, 99), format_mark(ratio.source));
	out->style =
		format_style(ratio, ratio.v < 1 ? STYLE_GOOD : STYLE_NORMAL);
}

static const char *limit_words(enum whatif_limit l)
{
	switch (l) {
	case WHATIF_BATCH:
		return "  over 16 times from what was seen";
	case WHATIF_ROUTING:
		return "  routing was never measured";
	case WHATIF_MEMORY:
		return "  its KV cache would not fit";
	case WHATIF_WITHIN:
	case WHATIF_SHAPE:
		break;
	}
	return "";
}

static void number_cell(const struct what_if_line *l, unsigned column,
			struct table_cell *out)
{
	const struct snapshot_what_if *w = &l->w;

	switch ((enum what_if_column)column) {
	case WHAT_IF_B:
		cell_value(out, w->tokens_per_step, NUMBER_COUNT);
		break;
	case WHAT_IF_SPEED:
		cell_value(out, w->tokens_per_s, NUMBER_COUNT);
		break;
	case WHAT_IF_SPEED_RANGE:
		range_cell(out, w->tokens_per_s_low, w->tokens_per_s_high,
			   NUMBER_COUNT);
		break;
	case WHAT_IF_STEP_TIME:
		cell_value(out, w->step_s, NUMBER_SECONDS);
		break;
	case WHAT_IF_PRICE:
		cell_value(out, w->usd_per_mtok, NUMBER_USD);
		break;
	case WHAT_IF_PRICE_RANGE:
		range_cell(out, w->usd_per_mtok_low, w->usd_per_mtok_high,
			   NUMBER_USD);
		break;
	case WHAT_IF_GAIN:
		cell_value(out, w->marginal_gain, NUMBER_RATIO);
		break;
	case WHAT_IF_EXPERTS:
		cell_value(out, w->active_experts, NUMBER_COUNT);
		break;
	case WHAT_IF_EXPERTS_RANGE:
		range_cell(out, l->active_low, l->active_high, NUMBER_COUNT);
		break;
	default:
		break;
	}
}

static void what_if_cell(const void *context, int row, unsigned column,
			 struct table_cell *out)
{
	const struct what_if_order *o = context;
	const struct what_if_line *l = &o->line[row];

	switch ((enum what_if_column)column) {
	case WHAT_IF_NAME:
		snprintf(out->text, sizeof(out->text), "%s", l->name);
		out->style = l->strong ? STYLE_STRONG : STYLE_NORMAL;
		break;
	case WHAT_IF_SIGN:
		if (l->w.limit != WHATIF_WITHIN)
			snprintf(out->text, sizeof(out->text), "!");
		out->style = STYLE_WARN;
		break;
	case WHAT_IF_CHANGE:
		change_cell(out, &l->w);
		break;
	case WHAT_IF_LIMIT:
		snprintf(out->text, sizeof(out->text), "%s",
			 limit_words(l->w.limit));
		out->style = STYLE_DIM;
		break;
	default:
		number_cell(l, column, out);
		break;
	}
}

/* From the base where there is one, with the intervals that only it knows. */
static void add_loads(struct what_if_order *o, const struct snapshot *s)
{
	if (s->what_if_base.valid) {
		for (double n = 2; n <= 8; n *= 2) {
			char name[WHAT_IF_NAME_BYTES];

			snprintf(name, sizeof(name), "%.0f replicas → 1", n);
			add_change(o, s,
				   &(struct whatif_change){ .replicas = n },
				   name);
		}
	} else if (s->what_if_base.known) {
		add_batches(o, s);
	} else {
		add_rows(o, s, WHAT_IF_BATCH, WHAT_IF_MERGE);
	}
}

void what_if_table(const struct snapshot *s, double batch,
		   struct what_if_order *o, struct table *t)
{
	*o = (struct what_if_order){ 0 };
	add_now(o, s);
	if (batch > 0) {
		unsigned at = o->n;

		add_change(o, s, &(struct whatif_change){ .batch = batch },
			   "cursor");
		o->line[at].strong = o->n > at;
	}
	add_loads(o, s);
	add_rows(o, s, WHAT_IF_TP, WHAT_IF_GPU);
	*t = (struct table){
		.columns = columns,
		.n_columns = WHAT_IF_COLUMNS,
		.rows = (int)o->n,
		.sorted = -1,
		.cell = what_if_cell,
		.context = o,
	};
}
