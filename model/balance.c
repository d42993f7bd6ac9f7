#include "model/balance.h"
#include "model/valley.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEVIATIONS 12.0 /* of the mean: beyond is nothing */
#define BATCH_MAX 1e7
#define NORMAL_STEPS 64
#define RANKS_MAX 4096.0

/* ---- one histogram ------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

double balance_gini(const uint32_t *rows, size_t n)
{
	uint32_t sorted[SAMPLE_EXPERTS_MAX];
	double total = 0, sum = 0;

	if (n > SAMPLE_EXPERTS_MAX)
		n = SAMPLE_EXPERTS_MAX;
	if (!n)
		return 0;
	memcpy(sorted, rows, n * sizeof(*rows));
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 0; i < n; i++) {
		total += sorted[i];
		sum += (2 * (double)i - (double)n + 1) * sorted[i];
	}
	return total > 0 ? sum / ((double)n * total) : 0;
}

double balance_tile_padding(const uint32_t *rows, size_t n, uint32_t tile)
{
	double total = 0, tiles = 0;

	if (!tile)
		return NAN;
	for (size_t i = 0; i < n; i++) {
		total += rows[i];
		tiles += ceil((double)rows[i] / tile);
	}
	return tiles > 0 ? 1 - total / (tile * tiles) : NAN;
}

double balance_tile_padding_hist(const struct sample_hist *h, double tile)
{
	unsigned n = h->n < SAMPLE_HIST_BUCKETS ? h->n : SAMPLE_HIST_BUCKETS;
	double tiles = 0;

	if (!(tile >= 1))
		return NAN;
	for (unsigned i = 0; i < n; i++)
		tiles += (double)h->buckets[i] * ceil(h->upper[i] / tile);
	if (!(tiles > 0) || !(h->sum > 0))
		return NAN;
	return fmin(fmax(1 - h->sum / (tile * tiles), 0), 1);
}

/* ---- experts ------------------------------------------------------------- */

/* The counts x, lo..hi, that matter of Binomial(b, p). */
struct binomial {
	double b, p, lo, hi;
};

static bool binomial_of(double e, double k, double b, struct binomial *n)
{
	double mean, sd;

	if (!(k > 0) || !(e > k) || !(b >= 1) || !isfinite(e) ||
	    !(b <= BATCH_MAX))
		return false;
	n->b = round(b);
	n->p = k / e;
	mean = n->b * n->p;
	sd = sqrt(mean * (1 - n->p)) + 1;
	n->lo = fmax(0, floor(mean - DEVIATIONS * sd));
	n->hi = fmin(n->b, ceil(mean + DEVIATIONS * sd + 20));
	return true;
}

static double binomial_at(const struct binomial *n, double x)
{
	int sign;

	return exp(lgamma_r(n->b + 1, &sign) - lgamma_r(x + 1, &sign) -
		   lgamma_r(n->b - x + 1, &sign) + x * log(n->p) +
		   (n->b - x) * log1p(-n->p));
}

static bool all_experts(double e, double k, double b)
{
	return k > 0 && k == e && b >= 1 && b <= BATCH_MAX;
}

/* Of e draws: the sum over x of the chance that the largest is above x. */
double balance_uniform_max(double e, double k, double b)
{
	double below = 0, sum;
	struct binomial n;

	if (all_experts(e, k, b))
		return round(b);
	if (!binomial_of(e, k, b, &n))
		return 0;
	sum = n.lo;
	for (double x = n.lo; x < n.hi; x++) {
		below += binomial_at(&n, x);
		sum += 1 - pow(fmin(below, 1), e);
	}
	return sum;
}

double balance_uniform_tiles(double e, double k, double b, double tile)
{
	struct binomial n;
	double sum = 0;

	if (!(tile >= 1) || !isfinite(tile))
		return 0;
	if (all_experts(e, k, b))
		return e * ceil(round(b) / tile);
	if (!binomial_of(e, k, b, &n))
		return 0;
	for (double x = fmax(n.lo, 1); x <= n.hi; x++)
		sum += binomial_at(&n, x) * ceil(x / tile);
	return e * sum;
}

double balance_excess(const struct sample_rows *r, double k, double b)
{
	double e = r->cells > 0 ? r->experts / r->cells : 0;
	double chance = balance_uniform_max(e, k, b);

	if (!(chance > 0) || !(r->rows > 0))
		return NAN;
	return r->max_rows / r->rows * r->experts / r->cells /
	       (chance / (b * k / e));
}

/* ---- ranks --------------------------------------------------------------- */

static double max_over_mean(const double *x, unsigned n)
{
	double sum = 0, most = 0;

	for (unsigned i = 0; i < n; i++) {
		sum += x[i];
		most = fmax(most, x[i]);
	}
	return sum > 0 ? most * n / sum : 1;
}

void balance_ranks(const double *rows, const double *active, unsigned n,
		   struct balance *out)
{
	out->rows = max_over_mean(rows, n);
	out->active = max_over_mean(active, n);
}

/* Integral of 1 - F^n above 0, less F^n below. */
double balance_normal_max(double n)
{
	double sum = 0, step = 12.0 / NORMAL_STEPS;

	if (!(n > 1))
		return 0;
	n = fmin(n, RANKS_MAX);
	for (unsigned i = 0; i < NORMAL_STEPS; i++) {
		double x = -6 + (i + 0.5) * step;
		double f = pow(0.5 * erfc(-x * M_SQRT1_2), n);

		sum += x > 0 ? 1 - f : -f;
	}
	return sum * step;
}

/* An expert on a rank has a row with chance c, and B q rows: all experts of the
 * rank were drawn at random. */
void balance_expected(const struct traffic *t, double b, double ep,
		      struct balance *out)
{
	double held, c, q, second, z, most;

	*out = (struct balance){ 1, 1 };
	if (!(t->experts > 0) || !(ep > 1) || !(b > 0))
		return;
	ep = fmin(ep, t->experts);
	held = t->experts / ep;
	z = balance_normal_max(ep);
	c = traffic_active(t, b) / t->experts;
	if (c > 0)
		out->active = 1 + z * sqrt(held * c * (1 - c)) / (held * c);
	out->active = fmin(out->active, fmin(1 / c, ep));
	q = t->top_k / t->experts;
	second = traffic_pair_ratio(t) * t->top_k / t->experts;
	most = b * q + b * (b - 1) * second - b * q * b * q;
	out->rows = 1 + z * sqrt(fmax(held * most, 0)) / (held * b * q);
	out->rows = fmin(out->rows, ep);
}
