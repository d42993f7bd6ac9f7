#include "exporter/hist_buckets.h"

#include <math.h>
#include <string.h>

#define PER_OCTAVE (1 << HIST_NATIVE_SCHEMA)

static const double ttft[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
			       0.1,   0.25,   0.5,   1,    2.5,   5,
			       10,    25,     50,    100 };
static const double gap[] = { 0.001, 0.0025, 0.005, 0.0075, 0.01,  0.015,
			      0.02,  0.03,   0.04,  0.05,   0.075, 0.1,
			      0.15,  0.25,   0.5,   1,      2.5 };
static const double duration[] = { 0.1, 0.25, 0.5, 1,  2.5, 5,   10,
				   15,  20,   30,  60, 120, 300, 600 };
static const double step[] = { 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075,
			       0.01,  0.015, 0.02,  0.03,  0.05,  0.075,
			       0.1,   0.2,   0.5,   1 };
static const double rows[] = { 1,  2,  3,  4,  6,   8,   12,  16,
			       24, 32, 48, 64, 128, 256, 512, 1024 };

#define BOUNDS(b)                           \
	{                                   \
		b, sizeof(b) / sizeof(b[0]) \
	}
static const struct {
	const double *bounds;
	unsigned n;
} all_bounds[HISTOGRAMS] = {
	[HISTOGRAM_TTFT] = BOUNDS(ttft),
	[HISTOGRAM_EVENT_GAP] = BOUNDS(gap),
	[HISTOGRAM_DURATION] = BOUNDS(duration),
	[HISTOGRAM_STEP] = BOUNDS(step),
	[HISTOGRAM_ROWS_PER_EXPERT] = BOUNDS(rows),
};

const double *hist_bounds(enum histogram_id id, unsigned *n)
{
	*n = all_bounds[id].n;
	return all_bounds[id].bounds;
}

double hist_zero_threshold(void)
{
	return exp2((double)HIST_ZERO_INDEX / PER_OCTAVE);
}

/* v > 0, finite.  The logarithm may be off by a hair at a bound. */
static int native_index(double v)
{
	int i = (int)ceil(log2(v) * PER_OCTAVE);

	while (v > exp2((double)i / PER_OCTAVE))
		i++;
	while (v <= exp2((double)(i - 1) / PER_OCTAVE))
		i--;
	return i;
}

/* What stands for the values of a bucket. */
static double middle(const struct snapshot_hist_total *t, unsigned i)
{
	if (t->exact)
		return t->upper[i];
	return ((i ? t->upper[i - 1] : 0) + t->upper[i]) / 2;
}

static void add_native(struct hist_buckets *out, double v, uint64_t n)
{
	struct hist_native *last = &out->native[out->n_native];
	int index = v > 0 ? native_index(v) : HIST_ZERO_INDEX;

	if (index <= HIST_ZERO_INDEX) {
		out->zero_count += n;
		return;
	}
	if (out->n_native && last[-1].index >= index) {
		last[-1].count += n;
		return;
	}
	*last = (struct hist_native){ index, n };
	out->n_native++;
}

void hist_buckets_fill(const struct snapshot_hist_total *t,
		       enum histogram_id id, struct hist_buckets *out)
{
	unsigned at = 0, n = t->n < SNAPSHOT_TOTAL_BUCKETS
				     ? t->n
				     : SNAPSHOT_TOTAL_BUCKETS;

	out->count = out->zero_count = 0;
	out->sum = t->sum;
	out->n_native = 0;
	out->bounds = hist_bounds(id, &out->n_bounds);
	memset(out->cumulative, 0, sizeof(out->cumulative));
	for (unsigned i = 0; i < n; i++) {
		double v = middle(t, i);

		while (at < out->n_bounds && v > out->bounds[at])
			out->cumulative[at++] = out->count;
		if (!t->buckets[i])
			continue;
		out->count += t->buckets[i];
		add_native(out, v, t->buckets[i]);
	}
	while (at < out->n_bounds)
		out->cumulative[at++] = out->count;
}
