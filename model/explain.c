#include "model/explain.h"

#include <stddef.h>
#include <string.h>

/* METRIC_ is put before each of one to four names. */
#define IN1(a) .inputs = { METRIC_##a }, .n_inputs = 1
#define IN2(a, b) .inputs = { METRIC_##a, METRIC_##b }, .n_inputs = 2
#define IN3(a, b, c) \
	.inputs = { METRIC_##a, METRIC_##b, METRIC_##c }, .n_inputs = 3
#define IN4(a, b, c, d)                                               \
	.inputs = { METRIC_##a, METRIC_##b, METRIC_##c, METRIC_##d }, \
	.n_inputs = 4
#define PICK(a, b, c, d, name, ...) name
#define INPUTS(...) PICK(__VA_ARGS__, IN4, IN3, IN2, IN1, )(__VA_ARGS__)

/* Key, title and meaning of metrics and histograms are in metrics.def. */
static const struct explanation own[EXPLAINS] = {
#define EXPLAIN(id, formula_, judge, ...)                       \
	[EXPLAIN_METRIC + METRIC_##id] = { .formula = formula_, \
					   .judgement = judge,  \
					   __VA_ARGS__ },
#define EXPLAIN_HIST(id, formula_, judge, ...)                        \
	[EXPLAIN_HISTOGRAM + HISTOGRAM_##id] = { .formula = formula_, \
						 .judgement = judge,  \
						 __VA_ARGS__ },
#define COLUMN(id, key_, title_, meaning_, formula_, judge, ...) \
	[EXPLAIN_##id] = { .key = key_,                          \
			   .title = title_,                      \
			   .meaning = meaning_,                  \
			   .formula = formula_,                  \
			   .judgement = judge,                   \
			   __VA_ARGS__ },
#include "model/explain.def"
};

bool explain(unsigned id, struct explanation *out)
{
	const struct metric_info *info = NULL;

	if (id == EXPLAIN_NOTHING || id >= EXPLAINS || !own[id].formula)
		return false;
	if (id < EXPLAIN_HISTOGRAM)
		info = &metric_info[id - EXPLAIN_METRIC];
	else if (id < EXPLAIN_COLUMN)
		info = &histogram_info[id - EXPLAIN_HISTOGRAM];
	*out = own[id];
	if (info) {
		out->key = info->key;
		out->title = info->title;
		out->meaning = info->help;
	}
	return true;
}

unsigned explain_find(const char *key)
{
	struct explanation e;

	for (unsigned id = 1; id < EXPLAINS; id++)
		if (explain(id, &e) && !strcmp(e.key, key))
			return id;
	return EXPLAIN_NOTHING;
}
