#include <stdio.h>
#include <string.h>

#include "model/explain.h"
#include "tui/tables.h"

enum class_column {
	CLASS_NAME,
	CLASS_GROUP,
	CLASS_CALLS,
	CLASS_TIME,
	CLASS_EACH,
	CLASS_SUM,
	CLASS_BAR,
	CLASS_SHARE,
	CLASS_MBU,
	CLASS_COLUMNS
};

static const struct table_column columns[CLASS_COLUMNS] = {
	[CLASS_NAME] = { .title = "kernel class", .w = 20, .left = true },
	[CLASS_GROUP] = { .title = "group", .w = 10, .rank = 2, .left = true },
	[CLASS_CALLS] = { .title = "calls/step",
			  .w = 10,
			  .rank = 3,
			  .explain = EXPLAIN_CLASS_CALLS },
	[CLASS_TIME] = { .title = "µs/step",
			 .w = 9,
			 .explain = EXPLAIN_CLASS_TIME },
	[CLASS_EACH] = { .title = "µs/call", .w = 9, .rank = 4 },
	[CLASS_SUM] = { .title = "added up", .w = 9, .rank = 6 },
	[CLASS_BAR] = { .title = "", .w = 8, .rank = 1, .bar = true },
	[CLASS_SHARE] = { .title = "share",
			  .w = 7,
			  .explain = EXPLAIN_CLASS_SHARE },
	[CLASS_MBU] = { .title = "MBU", .w = 7, .rank = 5 },
};

const char *group_name(unsigned group)
{
	static const char *const names[] = { "experts", "route", "attention",
					     "dense",   "comm",  "other",
					     "idle" };

	return group < sizeof(names) / sizeof(*names) ? names[group] : "?";
}

/* Bytes are known of the expert kernels together: of a class where it is the
 * only one of them. */
static struct value class_mbu(const struct class_order *o,
			      const struct snapshot_class *c)
{
	struct value peak = o->s->metrics[METRIC_PEAK_BANDWIDTH];
	struct value most = c->seconds_per_step;

	if (c->group != 0 || o->expert_classes != 1 || !value_known(peak))
		return (struct value){ 0 };
	most.v *= peak.v;
	return cell_quotient(o->expert_bytes, most);
}

static void class_cell(const void *context, int row, unsigned column,
		       struct table_cell *out)
{
	const struct class_order *o = context;
	bool sum = row >= (int)o->n;
	const struct snapshot_class *c =
		sum ? &o->sum : &o->s->classes[o->row[row]];

	switch ((enum class_column)column) {
	case CLASS_NAME:
		snprintf(out->text, sizeof(out->text), "%s%s", c->name,
			 !sum && !strcmp(c->name, "other") ? " (unknown)" : "");
		break;
	case CLASS_GROUP:
		if (!sum)
			snprintf(out->text, sizeof(out->text), "%s",
				 group_name(c->group));
		out->style = STYLE_DIM;
		break;
	case CLASS_CALLS:
		cell_value(out, c->calls_per_step, NUMBER_COUNT);
		break;
	case CLASS_TIME:
		cell_value(out, c->seconds_per_step, NUMBER_MICROS);
		break;
	case CLASS_EACH:
		cell_value(
			out,
			cell_quotient(c->seconds_per_step, c->calls_per_step),
			NUMBER_MICROS);
		break;
	case CLASS_SUM:
		cell_value(out, c->sum_seconds_per_step, NUMBER_MICROS);
		break;
	case CLASS_MBU:
		if (!sum)
			cell_value(out, class_mbu(o, c), NUMBER_PERCENT);
		break;
	case CLASS_BAR:
		if (!sum && value_known(c->share) && o->largest_share > 0)
			out->ratio = c->share.v / o->largest_share;
		break;
	case CLASS_SHARE:
		cell_value(out, c->share, NUMBER_PERCENT);
		break;
	case CLASS_COLUMNS:
		break;
	}
}

static void add(struct value *sum, struct value v)
{
	if (!value_known(v))
		return;
	sum->v += v.v;
	sum->source = source_weaker(sum->source, v.source);
	if (sum->state != VALUE_STALE)
		sum->state = v.state;
}

static double seconds(const struct class_order *o, unsigned i)
{
	struct value v = o->s->classes[o->row[i]].seconds_per_step;

	return value_known(v) ? v.v : -1;
}

static void sort_down(struct class_order *o)
{
	for (unsigned i = 1; i < o->n; i++)
		for (unsigned k = i; k > 0 && seconds(o, k) > seconds(o, k - 1);
		     k--) {
			unsigned char swap = o->row[k];
			o->row[k] = o->row[k - 1];
			o->row[k - 1] = swap;
		}
}

void class_table(const struct snapshot *s, struct class_order *o,
		 struct table *t)
{
	*o = (struct class_order){ .s = s, .n = s->n_classes };
	if (o->n > SNAPSHOT_CLASSES_MAX)
		o->n = SNAPSHOT_CLASSES_MAX;
	snprintf(o->sum.name, sizeof(o->sum.name), "sum");
	for (unsigned i = 0; i < o->n; i++) {
		const struct snapshot_class *c = &s->classes[i];
		o->row[i] = (unsigned char)i;
		if (value_known(c->share) && c->share.v > o->largest_share)
			o->largest_share = c->share.v;
		add(&o->sum.calls_per_step, c->calls_per_step);
		add(&o->sum.seconds_per_step, c->seconds_per_step);
		add(&o->sum.sum_seconds_per_step, c->sum_seconds_per_step);
		add(&o->sum.share, c->share);
		o->expert_classes += c->group == 0;
	}
	for (unsigned i = 0; i < s->n_layers && i < SNAPSHOT_LAYERS_MAX; i++)
		add(&o->expert_bytes, s->layers[i].expert_bytes_per_step);
	sort_down(o);
	*t = (struct table){
		.columns = columns,
		.n_columns = CLASS_COLUMNS,
		.rows = (int)o->n,
		.footer = o->n ? 1 : 0,
		.sorted = CLASS_TIME,
		.cell = class_cell,
		.context = o,
	};
}
