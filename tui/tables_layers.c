#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "model/experts.h"
#include "model/explain.h"
#include "tui/tables.h"

enum layer_column {
	LAYER_NUMBER,
	LAYER_TIME,
	LAYER_EXPERT_TIME,
	LAYER_BAR,
	LAYER_SHARE,
	LAYER_DRAM,
	LAYER_MBU,
	LAYER_ROWS,
	LAYER_ACTIVE,
	LAYER_ROWS_PER_ACTIVE,
	LAYER_SINGLE,
	LAYER_PHI,
	LAYER_IMBALANCE,
	LAYER_BACKEND,
	LAYER_SOURCE,
	LAYER_COLUMNS
};

static const struct table_column columns[LAYER_COLUMNS] = {
	[LAYER_NUMBER] = { .title = "layer", .w = 6 },
	[LAYER_TIME] = { .title = "µs/step",
			 .w = 9,
			 .explain = EXPLAIN_LAYER_TIME },
	[LAYER_EXPERT_TIME] = { .title = "experts µs",
				.w = 11,
				.rank = 7,
				.explain = EXPLAIN_LAYER_EXPERT_TIME },
	[LAYER_BAR] = { .title = "", .w = 6, .rank = 5, .bar = true },
	[LAYER_SHARE] = { .title = "share",
			  .w = 7,
			  .rank = 6,
			  .explain = EXPLAIN_LAYER_SHARE },
	[LAYER_DRAM] = { .title = "DRAM/step",
			 .w = 10,
			 .rank = 3,
			 .explain = EXPLAIN_LAYER_DRAM },
	[LAYER_MBU] = { .title = "MBU", .w = 7, .rank = 4 },
	[LAYER_ROWS] = { .title = "rows",
			 .w = 7,
			 .rank = 2,
			 .explain = EXPLAIN_LAYER_ROWS },
	[LAYER_ACTIVE] = { .title = "active",
			   .w = 7,
			   .explain = EXPLAIN_LAYER_ACTIVE },
	[LAYER_ROWS_PER_ACTIVE] = { .title = "rows/active",
				    .w = 12,
				    .rank = 8,
				    .explain = EXPLAIN_LAYER_ROWS_PER_ACTIVE },
	[LAYER_SINGLE] = { .title = "single-row",
			   .w = 11,
			   .rank = 1,
			   .explain = EXPLAIN_LAYER_SINGLE },
	[LAYER_PHI] = { .title = "φ", .w = 6, .explain = EXPLAIN_LAYER_PHI },
	[LAYER_IMBALANCE] = { .title = "×chance",
			      .w = 8,
			      .rank = 3,
			      .explain = EXPLAIN_LAYER_IMBALANCE },
	[LAYER_BACKEND] = { .title = "backend",
			    .w = 18,
			    .rank = 9,
			    .left = true },
	[LAYER_SOURCE] = { .title = "rows are",
			   .w = 9,
			   .rank = 10,
			   .left = true },
};

/* Columns that are a field of the layer as it stands. */
#define FIELD(member) offsetof(struct snapshot_layer, member)
static const struct layer_field {
	bool there, summed; /* summed: has a meaning in the row of sums */
	size_t offset;
	enum number_form form;
} fields[LAYER_COLUMNS] = {
	[LAYER_TIME] = { true, true, FIELD(seconds_per_step), NUMBER_MICROS },
	[LAYER_EXPERT_TIME] = { true, true, FIELD(expert_seconds_per_step),
				NUMBER_MICROS },
	[LAYER_SHARE] = { true, true, FIELD(share), NUMBER_PERCENT },
	[LAYER_DRAM] = { true, true, FIELD(dram_bytes_per_step), NUMBER_BYTES },
	[LAYER_MBU] = { .summed = true },
	[LAYER_ROWS] = { true, false, FIELD(rows), NUMBER_COUNT },
	[LAYER_ACTIVE] = { true, false, FIELD(active_experts), NUMBER_COUNT },
	[LAYER_PHI] = { true, false, FIELD(fragmentation), NUMBER_RATIO },
};

static struct value field(const struct snapshot_layer *l, size_t offset)
{
	return *(const struct value *)((const char *)l + offset);
}

static void set_field(struct snapshot_layer *l, size_t offset, struct value v)
{
	*(struct value *)((char *)l + offset) = v;
}

/* Over all layers; unknown when one of them is. */
static struct value total(const struct snapshot *s, unsigned n, size_t offset)
{
	double sum = 0;
	enum value_source source = SOURCE_MEASURED;
	bool stale = false;

	for (unsigned i = 0; i < n; i++) {
		struct value v = field(&s->layers[i], offset);
		if (!value_known(v))
			return (struct value){ 0 };
		sum += v.v;
		source = source_weaker(source, v.source);
		stale |= v.state == VALUE_STALE;
	}
	struct value out = value_make(sum, source);
	if (stale && out.state == VALUE_OK)
		out.state = VALUE_STALE;
	return out;
}

/* Bytes over what the block's time allows on all GPUs. */
static struct value layer_mbu(const struct layer_order *o,
			      const struct snapshot_layer *l)
{
	struct value peak = o->s->metrics[METRIC_PEAK_BANDWIDTH];
	struct value most = l->seconds_per_step;

	if (!value_known(peak) || !value_known(most))
		return (struct value){ 0 };
	most.v *= peak.v;
	return cell_quotient(l->dram_bytes_per_step, most);
}

/* Of the fullest expert over the mean one, over what chance gives. */
static void find_imbalance(struct layer_order *o)
{
	const struct snapshot_experts *e = &o->s->experts;
	unsigned routed = experts_routed(o->s);
	double sum = 0, n = 0;

	o->chance = routed ? experts_chance_ratio(e, routed, o->s->target.top_k)
			   : (double)NAN;
	for (unsigned i = 0; i < o->n; i++) {
		struct experts_layer l = { 0 };

		if (i < e->n_layers && routed)
			experts_layer(e, routed, i, &l);
		o->imbalance[i] = NAN;
		if (!l.rows)
			continue;
		o->imbalance[i] =
			(double)e->rows[i * e->n_experts + l.fullest] * routed /
			(double)l.rows / o->chance;
		if (isfinite(o->imbalance[i])) {
			sum += o->imbalance[i];
			n++;
		}
	}
	o->imbalance_mean = n > 0 ? sum / n : (double)NAN;
}

/* ---- cells --------------------------------------------------------------- */

static void number_cell(const struct layer_order *o, int row,
			struct table_cell *out)
{
	int below = row - (int)o->n;

	out->style = STYLE_DIM;
	if (below >= 0)
		snprintf(out->text, sizeof(out->text), "%s",
			 below ? "mean" : "sum");
	else
		snprintf(out->text, sizeof(out->text), "%u",
			 (unsigned)o->row[row]);
}

static void derived_cell(const struct layer_order *o,
			 const struct snapshot_layer *l, unsigned column,
			 double imbalance, struct table_cell *out)
{
	switch ((enum layer_column)column) {
	case LAYER_ROWS_PER_ACTIVE:
		cell_value(out, cell_quotient(l->rows, l->active_experts),
			   NUMBER_RATIO);
		break;
	case LAYER_SINGLE:
		cell_value(
			out,
			cell_quotient(l->single_row_experts, l->active_experts),
			NUMBER_PERCENT);
		break;
	case LAYER_MBU:
		cell_value(out, layer_mbu(o, l), NUMBER_PERCENT);
		break;
	case LAYER_IMBALANCE:
		cell_value(out, value_make(imbalance, SOURCE_MEASURED),
			   NUMBER_RATIO);
		break;
	default:
		break;
	}
}

static void word_cell(const struct snapshot_layer *l, unsigned column,
		      struct table_cell *out)
{
	if (column == LAYER_BACKEND)
		snprintf(out->text, sizeof(out->text), "%s", l->backend);
	else if (value_known(l->active_experts))
		snprintf(out->text, sizeof(out->text), "%s",
			 value_source_name(l->active_experts.source));
	out->style = STYLE_DIM;
}

static void layer_cell(const void *context, int row, unsigned column,
		       struct table_cell *out)
{
	const struct layer_order *o = context;
	bool sum = row == (int)o->n, mean = row > (int)o->n;
	const struct snapshot_layer *l = sum    ? &o->sum
					 : mean ? &o->mean
						: &o->s->layers[o->row[row]];
	const struct layer_field *f = &fields[column];

	if (column == LAYER_NUMBER) {
		number_cell(o, row, out);
	} else if (column == LAYER_BACKEND || column == LAYER_SOURCE) {
		if (!sum && !mean)
			word_cell(l, column, out);
	} else if (column == LAYER_BAR) {
		if (!sum && !mean && value_known(l->share) &&
		    o->largest_share > 0)
			out->ratio = l->share.v / o->largest_share;
	} else if (sum && !f->summed) {
		return;
	} else if (f->there) {
		cell_value(out, field(l, f->offset), f->form);
	} else {
		derived_cell(o, l, column,
			     sum || mean ? o->imbalance_mean
					 : o->imbalance[o->row[row]],
			     out);
	}
}

/* ---- order --------------------------------------------------------------- */

/* Insertion: stable, and the order hardly changes from frame to frame. */
static void slowest_first(struct layer_order *o)
{
	for (unsigned i = 1; i < o->n; i++) {
		unsigned char moving = o->row[i];
		struct value v = o->s->layers[moving].seconds_per_step;
		unsigned k = i;

		for (; k > 0; k--) {
			struct value w =
				o->s->layers[o->row[k - 1]].seconds_per_step;

			if (!value_known(v) || (value_known(w) && !(v.v > w.v)))
				break;
			o->row[k] = o->row[k - 1];
		}
		o->row[k] = moving;
	}
}

static void fill_footer(struct layer_order *o)
{
	struct snapshot_layer *mean = &o->mean;
	struct value single = total(o->s, o->n, FIELD(single_row_experts));

	for (unsigned c = 0; c < LAYER_COLUMNS; c++) {
		struct value sum;
		if (!fields[c].there)
			continue;
		sum = total(o->s, o->n, fields[c].offset);
		set_field(&o->sum, fields[c].offset, sum);
		sum.v /= o->n ? o->n : 1;
		set_field(mean, fields[c].offset, sum);
	}
	single.v /= o->n ? o->n : 1;
	mean->single_row_experts = single;
	mean->fragmentation = cell_quotient(mean->active_experts, mean->rows);
}

void layer_table(const struct snapshot *s, bool slowest, struct layer_order *o,
		 struct table *t)
{
	*o = (struct layer_order){ .s = s, .n = s->n_layers };
	if (o->n > SNAPSHOT_LAYERS_MAX)
		o->n = SNAPSHOT_LAYERS_MAX;
	for (unsigned i = 0; i < o->n; i++) {
		struct value share = s->layers[i].share;
		o->row[i] = (unsigned char)i;
		if (value_known(share) && share.v > o->largest_share)
			o->largest_share = share.v;
	}
	if (slowest)
		slowest_first(o);
	find_imbalance(o);
	fill_footer(o);
	*t = (struct table){
		.columns = columns,
		.n_columns = LAYER_COLUMNS,
		.rows = (int)o->n,
		.footer = o->n ? 2 : 0,
		.sorted = slowest ? LAYER_TIME : LAYER_NUMBER,
		.cell = layer_cell,
		.context = o,
	};
}
