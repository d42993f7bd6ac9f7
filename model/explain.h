/*
 * explain.h - what every number on the screen is, from one table
 *
 * Each metric and histogram of metrics.def and each column of a table has an
 * explanation: its meaning, how it is computed, from which metrics, and what is
 * good or bad about it.  model/explain.def holds the texts.
 */
#ifndef MOETOP_MODEL_EXPLAIN_H
#define MOETOP_MODEL_EXPLAIN_H

#include "model/snapshot.h"

#define EXPLAIN_INPUTS_MAX 4u

/* What a number is: 0 nothing, a metric, a histogram or a column. */
enum explain_id {
	EXPLAIN_NOTHING,
	EXPLAIN_METRIC,                               /* + enum metric_id */
	EXPLAIN_HISTOGRAM = EXPLAIN_METRIC + METRICS, /* + enum histogram_id */
	EXPLAIN_COLUMN = EXPLAIN_HISTOGRAM + HISTOGRAMS,
	EXPLAIN_BEFORE_COLUMNS = EXPLAIN_COLUMN - 1,
#define COLUMN(id, key, title, meaning, formula, judge, inputs) EXPLAIN_##id,
#include "model/explain.def"
	EXPLAINS
};

struct explanation {
	const char *key;       /* "mbu_ratio", "layer.share" */
	const char *title;     /* what a screen calls it */
	const char *meaning;   /* whole sentences, as the next but one */
	const char *formula;   /* in the symbols of docs/METRICS.md */
	const char *judgement; /* what is good or bad */
	enum metric_id inputs[EXPLAIN_INPUTS_MAX];
	unsigned n_inputs;
};

/* False, and *out untouched, for what has no explanation. */
bool explain(unsigned id, struct explanation *out);

/* The id whose key this is; EXPLAIN_NOTHING when there is none. */
unsigned explain_find(const char *key);

/* The metric that is explained, or METRICS. */
static inline enum metric_id explain_metric(unsigned id)
{
	return id >= EXPLAIN_METRIC && id < EXPLAIN_HISTOGRAM
		       ? (enum metric_id)(id - EXPLAIN_METRIC)
		       : METRICS;
}

#endif
