#include "tui/curve.h"

#include <math.h>
#include <string.h>

#include "tui/format.h"

#define OCTAVES_LEAST 10.0
#define ENTER_SINGLE_RATIO 0.9
#define FLOOR_SINGLE_RATIO 0.5
#define EXIT_SINGLE_RATIO 0.1

static double positive_or_nan(double x)
{
	return x > 0 ? x : NAN;
}

static void add_point(struct curve *c, double octaves, double gain, bool beyond)
{
	if (c->n == CURVE_POINTS)
		return;
	c->point[c->n].octaves = octaves;
	c->point[c->n].gain = gain;
	c->point[c->n++].beyond = beyond;
}

static void from_base(struct curve *c)
{
	static const enum curve_basis bases[] = {
		[TRAFFIC_UNIFORM] = CURVE_UNIFORM,
		[TRAFFIC_SKEW] = CURVE_SKEW,
		[TRAFFIC_POPULARITY] = CURVE_ROWS,
	};
	const struct traffic *t = &c->base.traffic;

	c->basis = bases[t->basis];
	c->load = c->base.valid;
	for (unsigned i = 0; i < CURVE_POINTS; i++) {
		double octaves = (double)i / CURVE_PER_OCTAVE;
		struct whatif_point p;

		whatif_at(&c->base,
			  &(struct whatif_change){ .batch = exp2(octaves) },
			  &p);
		add_point(c, octaves, p.shares.gain, p.limit != WHATIF_WITHIN);
	}
	c->enter = positive_or_nan(
		traffic_batch_at(t, ENTER_SINGLE_RATIO, NULL, NULL));
	c->floor = positive_or_nan(
		traffic_batch_at(t, FLOOR_SINGLE_RATIO, NULL, NULL));
	c->exit = positive_or_nan(traffic_batch_at(
		t, EXIT_SINGLE_RATIO, &c->exit_low, &c->exit_high));
}

static void from_table(struct curve *c, const struct snapshot *s)
{
	double last = -INFINITY;

	for (unsigned i = 0; i < s->n_what_if && i < SNAPSHOT_WHAT_IF_MAX;
	     i++) {
		const struct snapshot_what_if *w = &s->what_if[i];
		double octaves = log2(known_or_nan(w->tokens_per_step));

		if (w->kind != WHAT_IF_BATCH || !(octaves > last))
			continue;
		add_point(c, octaves, known_or_nan(w->marginal_gain),
			  w->limit != WHATIF_WITHIN);
		last = octaves;
	}
	c->basis = c->n > 1 ? CURVE_TABLE : CURVE_NONE;
}

/* What the snapshot itself says of the valley goes first: other screens show
 * that. */
static void find_marks(struct curve *c, const struct snapshot *s)
{
	const struct value *m = s->metrics;
	bool own = c->floor > 0 && c->basis != CURVE_UNIFORM;

	if (value_known(m[METRIC_TRAFFIC_FLOOR]))
		c->floor = m[METRIC_TRAFFIC_FLOOR].v;
	else if (value_known(m[METRIC_VALLEY_FLOOR]) && !own)
		c->floor = m[METRIC_VALLEY_FLOOR].v;
	if (!value_known(m[METRIC_TRAFFIC_EXIT]))
		return;
	c->exit = m[METRIC_TRAFFIC_EXIT].v;
	c->exit_low = known_or_nan(m[METRIC_TRAFFIC_EXIT_LOW]);
	c->exit_high = known_or_nan(m[METRIC_TRAFFIC_EXIT_HIGH]);
}

void curve_find(struct curve *c, const struct snapshot *s)
{
	const struct whatif *w = &s->what_if_base;
	bool live = w->known || w->valid;

	if (!live || c->basis < CURVE_UNIFORM ||
	    memcmp(&c->base, w, sizeof(*w))) {
		memset(c, 0, sizeof(*c));
		memcpy(&c->base, w, sizeof(*w));
		c->enter = c->floor = c->exit = NAN;
		c->exit_low = c->exit_high = NAN;
		if (live)
			from_base(c);
		else
			from_table(c, s);
	}
	find_marks(c, s);
}

double curve_gain(const struct curve *c, double octaves)
{
	for (unsigned i = 1; i < c->n; i++) {
		double from = c->point[i - 1].octaves, to = c->point[i].octaves;

		if (octaves >= from && octaves <= to)
			return c->point[i - 1].gain +
			       (c->point[i].gain - c->point[i - 1].gain) *
				       (octaves - from) / (to - from);
	}
	return NAN;
}

double curve_end(const struct curve *c, const struct snapshot *s)
{
	double end = OCTAVES_LEAST;
	double now = known_or_nan(s->metrics[METRIC_TOKENS_PER_STEP]);

	if (now > 0)
		end = fmax(end, log2(now) + 2);
	if (c->exit > 0)
		end = fmax(end, log2(c->exit) + 0.5);
	return fmin(ceil(end), CURVE_OCTAVES);
}
