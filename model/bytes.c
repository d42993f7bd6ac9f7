#include "model/bytes.h"
#include "model/nnls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_SPREAD 0.3
#define SWEEPS_GROUPS 8
#define SWEEPS_LAYERS 4
#define JUMPS 3
#define TOLERANCE 1e-7
/* A method is used while its own error is below this, of the expert groups. */
#define ERROR_MAX_RATIO 0.1
#define SAMPLES_MIN 200.0

struct bytes {
	unsigned layers, groups, expert, n; /* n: unknowns of the layer fit */
	struct nnls *by_group, *by_layer;
	double samples, bytes, interval_ns;
	double *scratch;  /* n x (n + 2) */
	double *variance; /* n */
	/* of the sample being added */
	double *busy;              /* [n] */
	unsigned *used;            /* pairs that ran in it */
	struct nnls_term *terms;   /* [n] */
	struct bytes_estimate was; /* the last one with errors */
	struct nnls *by_offset[BYTES_OFFSETS];
	struct bytes_part *parts; /* room for those of one sample */
};

#define PARTS_MAX 4096u

static unsigned pair(const struct bytes *b, unsigned layer, unsigned group)
{
	return layer * b->groups + group;
}

struct bytes *bytes_new(unsigned layers, unsigned groups, unsigned expert)
{
	unsigned n = (layers + 1) * groups;
	struct bytes *b;
	bool ok;

	if (!layers || layers > BYTES_LAYERS_MAX || !groups ||
	    groups > BYTES_GROUPS_MAX || expert >= groups)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->layers = layers;
	b->groups = groups;
	b->expert = expert;
	b->n = n;
	b->was.layer_error_ratio = b->was.groups_error_ratio = NAN;
	b->by_group = nnls_new(groups);
	b->by_layer = nnls_new(n);
	b->scratch = calloc((size_t)n * (n + 2), sizeof(*b->scratch));
	b->variance = calloc(n, sizeof(*b->variance));
	b->busy = calloc(n, sizeof(*b->busy));
	b->used = calloc(n, sizeof(*b->used));
	b->terms = calloc(n, sizeof(*b->terms));
	b->parts = calloc(PARTS_MAX, sizeof(*b->parts));
	ok = b->by_group && b->by_layer && b->scratch && b->variance &&
	     b->busy && b->used && b->terms && b->parts;
	for (unsigned o = 0; o < BYTES_OFFSETS; o++) {
		b->by_offset[o] = nnls_new(groups);
		ok &= b->by_offset[o] != NULL;
	}
	if (ok)
		return b;
	bytes_free(b);
	return NULL;
}

void bytes_free(struct bytes *b)
{
	if (!b)
		return;
	nnls_free(b->by_group);
	nnls_free(b->by_layer);
	free(b->scratch);
	free(b->variance);
	free(b->busy);
	free(b->used);
	free(b->terms);
	free(b->parts);
	for (unsigned o = 0; o < BYTES_OFFSETS; o++)
		nnls_free(b->by_offset[o]);
	free(b);
}

/* The busy times by pair, each pair once; the number of pairs. */
static unsigned gather(struct bytes *b, const struct bytes_part *parts,
		       unsigned n)
{
	unsigned used = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct bytes_part *p = &parts[i];
		unsigned u;

		if (p->layer > b->layers || p->group >= b->groups ||
		    !isfinite(p->busy_ns) || !(p->busy_ns > 0))
			continue;
		u = pair(b, p->layer, p->group);
		if (b->busy[u] <= 0)
			b->used[used++] = u;
		b->busy[u] += p->busy_ns;
	}
	return used;
}

/* One row of one rate per group. */
static void add_groups(const struct bytes *b, struct nnls *s, double dram_bytes,
		       const double *busy_ns)
{
	struct nnls_term terms[BYTES_GROUPS_MAX];
	unsigned n = 0;

	for (unsigned g = 0; g < b->groups; g++)
		if (busy_ns[g] > 0)
			terms[n++] = (struct nnls_term){ g, busy_ns[g] };
	nnls_add(s, terms, n, dram_bytes, 1);
}

void bytes_add(struct bytes *b, double dram_bytes, double interval_ns,
	       const struct bytes_part *parts, unsigned n)
{
	double by_group[BYTES_GROUPS_MAX] = { 0 };
	unsigned used;

	if (!isfinite(dram_bytes) || dram_bytes < 0 || !isfinite(interval_ns) ||
	    !(interval_ns > 0))
		return;
	used = gather(b, parts, n);
	for (unsigned i = 0; i < used; i++) {
		unsigned u = b->used[i];

		by_group[u % b->groups] += b->busy[u];
		b->terms[i] = (struct nnls_term){ u, b->busy[u] };
		b->busy[u] = 0;
	}
	add_groups(b, b->by_group, dram_bytes, by_group);
	nnls_add(b->by_layer, b->terms, used, dram_bytes, 1);
	b->samples += 1;
	b->bytes += dram_bytes;
	b->interval_ns += interval_ns;
}

void bytes_fade(struct bytes *b, double keep)
{
	if (!(keep >= 0) || !(keep < 1))
		return;
	nnls_fade(b->by_group, keep);
	nnls_fade(b->by_layer, keep);
	for (unsigned o = 0; o < BYTES_OFFSETS; o++)
		nnls_fade(b->by_offset[o], keep);
	b->samples *= keep;
	b->bytes *= keep;
	b->interval_ns *= keep;
}

/* Few unknowns: the minimum itself.  A group that never ran is pulled to 0, or
 * the equations would not be determined. */
static void solve_groups(struct nnls *s, unsigned groups, double *scratch)
{
	for (unsigned g = 0; g < groups; g++)
		nnls_pull(s, g, !(nnls_column_square(s, g) > 0), 0);
	nnls_jump(s, groups, scratch);
	nnls_solve(s, SWEEPS_GROUPS, TOLERANCE);
}

/* ---- windows ----------------------------------------------------------- */

static double offset_ns(unsigned o)
{
	return ((double)o - (BYTES_OFFSETS - 1) / 2.0) * BYTES_OFFSET_STEP_NS;
}

/*
 * The parts of one sample when kernel times are moved by an offset; *from: the
 * first span that may still matter, moved along.  Times are taken from the
 * sample's start, where doubles are exact.
 */
static unsigned overlap(const struct bytes *b, const struct bytes_span *spans,
			unsigned n_spans, const struct bytes_sample *s,
			double offset, unsigned *from)
{
	unsigned layers = b->layers;
	struct bytes_part *parts = b->parts;
	double length = (double)(s->end_ns - s->start_ns);
	unsigned n = 0;

	for (unsigned i = *from; i < n_spans && n < PARTS_MAX; i++) {
		double start =
			(double)(int64_t)(spans[i].start_ns - s->start_ns) +
			offset;
		double end = (double)(int64_t)(spans[i].end_ns - s->start_ns) +
			     offset;

		if (start >= length)
			break;
		if (end <= 0) {
			*from += i == *from;
			continue;
		}
		parts[n++] = (struct bytes_part){
			.layer = spans[i].layer < layers ? spans[i].layer
							 : layers,
			.group = spans[i].group,
			.busy_ns = fmin(end, length) - fmax(start, 0),
		};
	}
	return n;
}

/* Whether it is known, by all offsets, what ran in a sample; *from as above. */
static bool is_known(const struct bytes *b, const struct bytes_span *spans,
		     unsigned n_spans, const struct bytes_sample *s,
		     unsigned *from)
{
	uint64_t slack = (uint64_t)offset_ns(BYTES_OFFSETS - 1);
	bool known = s->start_ns >= slack;

	for (unsigned i = *from; known && i < n_spans; i++) {
		if (spans[i].start_ns > s->end_ns + slack)
			break;
		if (spans[i].end_ns < s->start_ns - slack)
			*from += i == *from;
		else
			known = spans[i].group < b->groups;
	}
	return known;
}

/* The rows of a window by one offset, to a group fit of its own; NULL: to the two
 * fits that count.  Returns the samples. */
static unsigned add_samples(struct bytes *b, double offset, struct nnls *fit,
			    const struct bytes_span *spans, unsigned n_spans,
			    const struct bytes_sample *samples, unsigned n)
{
	unsigned from = 0, known_from = 0, used = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct bytes_sample *s = &samples[i];
		double by_group[BYTES_GROUPS_MAX] = { 0 };
		unsigned parts;

		if (!is_known(b, spans, n_spans, s, &known_from))
			continue;
		parts = overlap(b, spans, n_spans, s, offset, &from);
		used++;
		if (!fit) {
			bytes_add(b, s->dram_bytes,
				  (double)(s->end_ns - s->start_ns), b->parts,
				  parts);
			continue;
		}
		for (unsigned p = 0; p < parts; p++)
			by_group[b->parts[p].group] += b->parts[p].busy_ns;
		add_groups(b, fit, s->dram_bytes, by_group);
	}
	return used;
}

static double best_offset(struct bytes *b)
{
	double left[BYTES_OFFSETS], curve, slope;
	unsigned best = 0;

	for (unsigned o = 0; o < BYTES_OFFSETS; o++) {
		solve_groups(b->by_offset[o], b->groups, b->scratch);
		left[o] = nnls_residual_ratio(b->by_offset[o]);
		if (left[o] < left[best])
			best = o;
	}
	if (best == 0 || best == BYTES_OFFSETS - 1 || !isfinite(left[best]))
		return isfinite(left[best]) ? offset_ns(best) : 0;
	curve = left[best - 1] - 2 * left[best] + left[best + 1];
	slope = left[best + 1] - left[best - 1];
	return offset_ns(best) -
	       (curve > 0 ? slope / (2 * curve) * BYTES_OFFSET_STEP_NS : 0);
}

/* The samples that lie inside the spans whatever the offset. */
static unsigned inside(const struct bytes_span *spans, unsigned n_spans,
		       const struct bytes_sample *samples, unsigned n,
		       unsigned *first)
{
	uint64_t slack = (uint64_t)offset_ns(BYTES_OFFSETS - 1);
	uint64_t start = spans[0].start_ns + slack;
	uint64_t end = spans[n_spans - 1].end_ns;
	unsigned from = 0, to;

	while (from < n && samples[from].start_ns < start)
		from++;
	for (to = from; to < n && samples[to].end_ns + slack <= end; to++)
		if (samples[to].end_ns <= samples[to].start_ns)
			break;
	*first = from;
	return to - from;
}

unsigned bytes_window(struct bytes *b, const struct bytes_span *spans,
		      unsigned n_spans, const struct bytes_sample *samples,
		      unsigned n_samples)
{
	unsigned first, n;

	if (!n_spans)
		return 0;
	n = inside(spans, n_spans, samples, n_samples, &first);
	samples += first;
	for (unsigned o = 0; o < BYTES_OFFSETS; o++)
		add_samples(b, offset_ns(o), b->by_offset[o], spans, n_spans,
			    samples, n);
	b->was.offset_ns = best_offset(b);
	return add_samples(b, b->was.offset_ns, NULL, spans, n_spans, samples,
			   n);
}

/* ---- the fits ---------------------------------------------------------- */

/* Of one sample, around the fit. */
static double error_variance(const struct nnls *s)
{
	double weight = nnls_weight(s);

	return weight > 0 ? nnls_residual_ratio(s) * nnls_square(s) / weight
			  : NAN;
}

/* Each pair is pulled to the rate of its group, as hard as the samples err;
 * one that never ran, to 0, or the equations would not be determined. */
static void pull_layers(struct bytes *b, double error)
{
	const double *rate = nnls_x(b->by_group);

	for (unsigned u = 0; u < b->n; u++) {
		double mean = rate[u % b->groups], spread = RATE_SPREAD * mean;

		if (spread > 0)
			nnls_pull(b->by_layer, u, error / (spread * spread),
				  mean);
		else
			nnls_pull(b->by_layer, u,
				  !(nnls_column_square(b->by_layer, u) > 0), 0);
	}
}

/* Root mean square over the layers of one group's standard errors, over the
 * mean rate; by the variances of the last inversion. */
static double layers_error(const struct bytes *b)
{
	const double *x = nnls_x(b->by_layer);
	double sum = 0, rate = 0;

	for (unsigned l = 0; l < b->layers; l++) {
		sum += b->variance[pair(b, l, b->expert)];
		rate += x[pair(b, l, b->expert)];
	}
	return rate > 0 ? sqrt(sum * b->layers) / rate : NAN;
}

static double groups_error(struct bytes *b, double error, double *condition)
{
	double rate = nnls_x(b->by_group)[b->expert];

	if (!(rate > 0) || nnls_variance(b->by_group, error, b->scratch,
					 b->variance, condition))
		return NAN;
	return sqrt(b->variance[b->expert]) / rate;
}

static void judge(struct bytes *b)
{
	struct bytes_estimate *e = &b->was;
	double error = error_variance(b->by_layer), condition = NAN;

	e->method = b->samples > 0 ? BYTES_TOTAL : BYTES_NOTHING;
	e->layer_error_ratio = e->groups_error_ratio = e->condition = NAN;
	if (b->samples < SAMPLES_MIN)
		return;
	e->groups_error_ratio =
		groups_error(b, error_variance(b->by_group), &condition);
	if (e->groups_error_ratio <= ERROR_MAX_RATIO) {
		e->method = BYTES_GROUPS;
		e->condition = condition;
	}
	if (nnls_variance(b->by_layer, error, b->scratch, b->variance,
			  &condition))
		return;
	e->layer_error_ratio = layers_error(b);
	if (e->method == BYTES_GROUPS &&
	    e->layer_error_ratio <= ERROR_MAX_RATIO) {
		e->method = BYTES_LAYERS;
		e->condition = condition;
	}
}

void bytes_solve(struct bytes *b, bool errors, struct bytes_estimate *out)
{
	double error;

	solve_groups(b->by_group, b->groups, b->scratch);
	error = error_variance(b->by_group);
	if (b->was.samples > 0)
		error = fmin(error, error_variance(b->by_layer));
	pull_layers(b, error);
	if (errors)
		nnls_jump(b->by_layer, JUMPS, b->scratch);
	nnls_solve(b->by_layer, SWEEPS_LAYERS, TOLERANCE);
	if (errors)
		judge(b);
	b->was.samples = b->samples;
	b->was.bytes = b->bytes;
	b->was.interval_ns = b->interval_ns;
	b->was.residual_ratio = sqrt(nnls_residual_ratio(
		b->was.method == BYTES_LAYERS ? b->by_layer : b->by_group));
	*out = b->was;
}

double bytes_rate(const struct bytes *b, unsigned layer, unsigned group)
{
	unsigned u;

	if (layer > b->layers || group >= b->groups)
		return NAN;
	u = pair(b, layer, group);
	if (!(nnls_column_square(b->by_layer, u) > 0))
		return NAN;
	if (b->was.method == BYTES_LAYERS)
		return nnls_x(b->by_layer)[u];
	return b->was.method == BYTES_GROUPS ? nnls_x(b->by_group)[group] : NAN;
}
