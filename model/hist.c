#include "model/hist.h"

#include <math.h>
#include <string.h>

double hist_quantile(const struct sample_hist *h, double q)
{
	unsigned n = h->n < SAMPLE_HIST_BUCKETS ? h->n : SAMPLE_HIST_BUCKETS;
	double total = 0, below = 0, want, lower = 0;

	for (unsigned i = 0; i < n; i++)
		total += (double)h->buckets[i];
	if (total <= 0)
		return NAN;
	want = fmin(fmax(q, 0), 1) * total;
	for (unsigned i = 0; i < n; i++) {
		double in = (double)h->buckets[i];

		if (in > 0 && below + in >= want && h->exact)
			return h->upper[i];
		if (in > 0 && below + in >= want)
			return lower +
			       (h->upper[i] - lower) * (want - below) / in;
		below += in;
		lower = h->upper[i];
	}
	return lower;
}

/* Where more are in use than there is room for, equal runs of neighbours share
 * a bucket. */
static void fill_buckets(const struct sample_hist *h, struct snapshot_hist *out)
{
	unsigned n = h->n < SAMPLE_HIST_BUCKETS ? h->n : SAMPLE_HIST_BUCKETS;
	unsigned used = 0, run, in_run = 0;

	for (unsigned i = 0; i < n; i++)
		used += h->buckets[i] > 0;
	run = (used + SNAPSHOT_BUCKETS_MAX - 1) / SNAPSHOT_BUCKETS_MAX;
	for (unsigned i = 0; i < n; i++) {
		struct snapshot_bucket *b = &out->buckets[out->n_buckets];

		if (!h->buckets[i])
			continue;
		if (in_run)
			b--;
		else
			out->n_buckets++;
		b->upper = h->upper[i];
		b->count += h->buckets[i];
		in_run = (in_run + 1) % run;
	}
}

void hist_view(const struct sample_hist *h, enum value_source source,
	       struct snapshot_hist *out)
{
	*out = (struct snapshot_hist){ 0 };
	if (!h)
		return;
	out->count = value_make((double)h->count, source);
	out->sum = value_make(h->sum, source);
	out->p50 = value_make(hist_quantile(h, 0.5), source);
	out->p90 = value_make(hist_quantile(h, 0.9), source);
	out->p99 = value_make(hist_quantile(h, 0.99), source);
	fill_buckets(h, out);
}

static void total_bounds(struct snapshot_hist_total *all,
			 const struct sample_hist *h)
{
	all->known = true;
	all->exact = h->exact;
	all->n = h->n < SNAPSHOT_TOTAL_BUCKETS ? h->n : SNAPSHOT_TOTAL_BUCKETS;
	memcpy(all->upper, h->upper, all->n * sizeof(all->upper[0]));
}

void hist_total_add(struct hist_total *t, const struct sample_hist *h)
{
	struct snapshot_hist_total *all = &t->all;

	if (!h->n)
		return;
	if (!all->known)
		total_bounds(all, h);
	for (unsigned i = 0; i < all->n && i < h->n; i++) {
		all->buckets[i] += h->buckets[i];
		all->count += h->buckets[i];
	}
	if (isfinite(h->sum))
		all->sum += h->sum;
}

static bool began_anew(const struct sample_hist *last,
		       const struct sample_hist *h)
{
	for (unsigned i = 0; i < h->n && i < SAMPLE_HIST_BUCKETS; i++)
		if (h->buckets[i] < last->buckets[i])
			return true;
	return h->sum < last->sum;
}

void hist_total_follow(struct hist_total *t, const struct sample_hist *h)
{
	struct snapshot_hist_total *all = &t->all;

	if (!h->n)
		return;
	if (!all->known)
		total_bounds(all, h);
	if (began_anew(&t->last, h))
		t->last = (struct sample_hist){ 0 };
	for (unsigned i = 0; i < all->n && i < h->n; i++) {
		all->buckets[i] += h->buckets[i] - t->last.buckets[i];
		all->count += h->buckets[i] - t->last.buckets[i];
	}
	all->sum += h->sum - t->last.sum;
	t->last = *h;
}
