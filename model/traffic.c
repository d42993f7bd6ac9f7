#include "model/traffic.h"
#include "model/valley.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define BATCH_MAX 1e7
#define BISECTIONS 200
/* Bins in the ratio of a popularity to the mean one: BINS_PER_OCTAVE from
 * 2^-8 to 2^8, bin 0 for what is below. */
#define BINS_PER_OCTAVE 4
#define LOWEST_OCTAVE (-8)
/* A missing share below this is all that rounding leaves of E - U. */
#define MISSING_MIN 1e-9

void traffic_uniform(struct traffic *t, double experts, double top_k)
{
	memset(t, 0, sizeof(*t));
	if (!(top_k > 0) || !(experts >= top_k) || !isfinite(experts))
		return;
	t->experts = experts;
	t->top_k = top_k;
	t->skew = VALLEY_SKEW_UNIFORM;
}

/* The data may be worth this many times more or less. */
#define WORTH_RANGE 3.0

/* ---- the curve before it is anchored ----------------------------------- */

/* Of one expert's chance, alpha + beta being the same for all. */
struct posterior {
	double alpha, beta;
};

static double posterior_sum(const struct traffic *t, double tokens)
{
	return t->skew * t->experts / t->top_k + tokens;
}

static struct posterior posterior(const struct traffic *t, double tokens,
				  unsigned bin)
{
	double ratio = t->experts / t->top_k;
	double q = t->bins[bin].q;

	return (struct posterior){
		.alpha = t->skew + q * tokens,
		.beta = t->skew * (ratio - 1) + (1 - q) * tokens,
	};
}

/* tokens: what the sample is taken to be worth. */
static double raw_active(const struct traffic *t, double tokens, double b)
{
	double sum = 0, all;

	if (t->basis != TRAFFIC_POPULARITY)
		return valley_skewed_active(t->experts, t->top_k, t->skew, b);
	all = valley_ln_rise(posterior_sum(t, tokens), b);
	for (unsigned i = 0; i < t->n; i++) {
		struct posterior p = posterior(t, tokens, i);

		sum -= t->bins[i].experts *
		       expm1(valley_ln_rise(p.beta, b) - all);
	}
	return sum;
}

/* b E[q (1 - q)^(b-1)] summed: the backward difference of U times b. */
static double raw_single(const struct traffic *t, double b)
{
	double sum = 0, all, total;

	if (t->basis != TRAFFIC_POPULARITY)
		return valley_skewed_single(t->experts, t->top_k, t->skew, b);
	if (b <= 1)
		return b * t->top_k;
	total = posterior_sum(t, t->tokens);
	all = valley_ln_rise(total + 1, b - 1);
	for (unsigned i = 0; i < t->n; i++) {
		struct posterior p = posterior(t, t->tokens, i);

		sum += t->bins[i].experts * p.alpha *
		       exp(valley_ln_rise(p.beta, b - 1) - all);
	}
	return b * sum / total;
}

/* ---- the anchor --------------------------------------------------------- */

/* By what the missing experts above B are scaled, where the curve had been
 * `was` at B. */
static double missing_scale(const struct traffic *t, double was)
{
	if (t->experts - was < MISSING_MIN * t->experts)
		return 1;
	return fmax(t->experts - t->active, 0) / (t->experts - was);
}

/* By what the rows that meet others below B are scaled. */
static double meeting_scale(const struct traffic *t, double was)
{
	double rows = t->top_k * t->batch;

	if (rows - was < MISSING_MIN * t->experts)
		return 1;
	return fmax(rows - t->active, 0) / (rows - was);
}

static double anchored(const struct traffic *t, double u, double was, double b)
{
	double rows = t->top_k * b;

	if (t->batch > 0 && b >= t->batch) {
		u = t->experts - (t->experts - u) * missing_scale(t, was);
		u = fmin(fmax(u, t->active), t->active * b / t->batch);
	} else if (t->batch > 0) {
		u = rows - (rows - u) * meeting_scale(t, was);
		u = fmin(u, t->active);
	}
	return fmin(fmax(u, t->top_k), fmin(rows, t->experts));
}

double traffic_active(const struct traffic *t, double b)
{
	if (!(t->experts > 0) || !(b > 0))
		return 0;
	b = fmin(b, BATCH_MAX);
	if (b <= 1)
		return fmin(t->top_k * b, t->experts);
	return anchored(t, raw_active(t, t->tokens, b), t->unanchored, b);
}

double traffic_single(const struct traffic *t, double b)
{
	double u = traffic_active(t, b), f;

	if (!(u > 0))
		return 0;
	b = fmin(b, BATCH_MAX);
	if (b <= 1)
		return u;
	f = raw_single(t, b);
	if (t->batch > 0 && b >= t->batch) {
		f *= missing_scale(t, t->unanchored);
	} else if (t->batch > 0) {
		double rows = t->top_k * b;

		f = rows - (rows - f) * meeting_scale(t, t->unanchored);
	}
	return fmin(fmax(f, 0), u);
}

/* ---- learning ----------------------------------------------------------- */

static unsigned bin_of(double ratio)
{
	/* 2^-3/4, 2^-1/2, 2^-1/4: of the mantissa, which is in 1/2..1 */
	static const double edges[] = { 0.5946035575013605, 0.7071067811865476,
					0.8408964152537145 };
	int octave;
	double m;
	int at;

	if (!(ratio > 0))
		return 0;
	m = frexp(ratio, &octave);
	at = (octave - 1 - LOWEST_OCTAVE) * BINS_PER_OCTAVE + 1;
	for (unsigned i = 0; i < BINS_PER_OCTAVE - 1; i++)
		at += m >= edges[i];
	return at < 0                    ? 0
	       : at >= (int)TRAFFIC_BINS ? TRAFFIC_BINS - 1
					 : (unsigned)at;
}

/* Sums over the layers that have rows. */
struct pooled {
	double layers;
	double q_spread; /* sum q (1 - q) */
	double variance; /* sum Var_t(r_e) over B */
	double steps;    /* T, mean */
};

static void pool_layer(struct traffic *t, const struct traffic_sample *s,
		       const uint32_t *rows, struct pooled *p)
{
	double total = 0, squares = 0, steps, tokens;

	for (unsigned e = 0; e < s->experts; e++) {
		total += rows[e];
		squares += (double)rows[e] * rows[e];
	}
	if (!(total > 0))
		return;
	tokens = total / s->top_k;
	steps = fmax(tokens / s->batch, 1);
	for (unsigned e = 0; e < s->experts; e++) {
		double q = fmin(rows[e] / tokens, 1);
		unsigned b = bin_of(q * s->experts / s->top_k);

		t->bins[b].q += q;
		t->bins[b].experts += 1;
	}
	squares /= tokens * tokens; /* sum of q^2 */
	p->layers += 1;
	p->q_spread += fmax(s->top_k - squares, 0);
	p->steps += steps;
	if (steps > 1)
		p->variance += (s->sum_squares / s->batch - squares * s->batch -
				s->batch_variance * squares / s->batch) *
			       steps / (steps - 1);
}

static double worth(const struct traffic_sample *s, const struct pooled *p,
		    double *correlated)
{
	double steps = p->steps / p->layers, f = 1;

	if (s->sum_squares > 0 && p->q_spread > 0 && steps > 1)
		f = 1 - p->variance / p->q_spread;
	f = isfinite(f) ? fmin(fmax(f, 0), 1) : 1;
	*correlated = f;
	return 1 / (f / s->batch + (1 - f) / (s->batch * steps));
}

/* Means of the bins, empty ones dropped. */
static void close_bins(struct traffic *t, double layers)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TRAFFIC_BINS; i++) {
		double experts = t->bins[i].experts, q = t->bins[i].q;

		if (!(experts > 0))
			continue;
		t->bins[n].q = q / experts;
		t->bins[n++].experts = experts / layers;
	}
	t->n = n;
}

static bool learn_popularity(struct traffic *t, const struct traffic_sample *s)
{
	struct pooled p = { 0 };

	if (!s->rows || s->stride < s->experts)
		return false;
	for (unsigned l = 0; l < s->layers; l++)
		pool_layer(t, s, s->rows + (size_t)l * s->stride, &p);
	if (!(p.layers > 0))
		return false;
	t->tokens = worth(s, &p, &t->correlated);
	close_bins(t, p.layers);
	t->basis = TRAFFIC_POPULARITY;
	return true;
}

bool traffic_learn(struct traffic *t, const struct traffic_sample *s)
{
	double e = s->experts, k = s->top_k, b = s->batch;
	struct traffic next;

	if (!(b >= 1 && b <= BATCH_MAX) || !(s->active > 0) ||
	    s->active > e * (1 + 1e-9) || s->active > k * b * (1 + 1e-9))
		return false;
	traffic_uniform(&next, e, k);
	if (!(next.experts > 0))
		return false;
	next.batch = b;
	next.active = fmin(s->active, fmin(e, k * b));
	next.active_error = s->active_error > 0 && isfinite(s->active_error)
				    ? s->active_error
				    : 0;
	next.skew = valley_skew(e, k, b, next.active);
	if (!learn_popularity(&next, s))
		next.basis = TRAFFIC_SKEW;
	next.unanchored = raw_active(&next, next.tokens, b);
	next.unanchored_more = raw_active(&next, WORTH_RANGE * next.tokens, b);
	next.unanchored_less = raw_active(&next, next.tokens / WORTH_RANGE, b);
	*t = next;
	return true;
}

/* ---- how sure ------------------------------------------------------------ */

/* Relative half widths that cover nine of ten of the synthetic mixes. */
#define Z 1.645          /* of the standard error of U(B) */
#define SHAPE_WEIGHT 0.9 /* of how far the prior alone is from the curve */
#define WORTH_WEIGHT 1.5 /* of what three times more or less data change */
#define PER_DOUBLING 0.008
#define PER_CORRELATED_DOUBLING 0.12 /* times f */
/* One parameter only: the more skew there is, the less its form is known. */
#define PER_DOUBLING_SKEW 0.03
#define PER_DOUBLING_STRONG_SKEW 0.08
#define STRONG_SKEW 0.5
/* What uniform routing may hide where nothing was measured: measured traffic of
 * models has a of 0.3 and more. */
#define HIDDEN_SKEW 0.3

static double relative_error(const struct traffic *t, double b, double u)
{
	double anchor = Z * t->active_error / t->active, rest;
	double doublings, more, less, prior, shape, range;

	b = fmax(b, 1);
	doublings = fabs(log2(b / t->batch));
	if (t->basis == TRAFFIC_SKEW) {
		rest = PER_DOUBLING_SKEW +
		       PER_DOUBLING_STRONG_SKEW *
			       fmin(STRONG_SKEW / t->skew, 1);
		return hypot(anchor, rest * doublings);
	}
	more = anchored(t, raw_active(t, t->tokens * WORTH_RANGE, b),
			t->unanchored_more, b);
	less = anchored(t, raw_active(t, t->tokens / WORTH_RANGE, b),
			t->unanchored_less, b);
	/* a was fitted: the prior passes through U(B) by itself */
	prior = anchored(t,
			 valley_skewed_active(t->experts, t->top_k, t->skew, b),
			 t->active, b);
	range = WORTH_WEIGHT * fmax(fabs(more - u), fabs(less - u)) / u;
	shape = SHAPE_WEIGHT * fabs(prior - u) / u;
	rest = (PER_DOUBLING + PER_CORRELATED_DOUBLING * t->correlated) *
	       doublings;
	return sqrt(anchor * anchor + rest * rest + shape * shape +
		    range * range);
}

/* Uniform routing is the most that there can be, but for the sample's noise. */
void traffic_bounds(const struct traffic *t, double b, double *low,
		    double *high)
{
	double u = traffic_active(t, b), off, top;

	*low = *high = u;
	if (!(u > 0) || b <= 1)
		return;
	b = fmin(b, BATCH_MAX);
	if (!(t->batch > 0)) {
		*low = valley_skewed_active(t->experts, t->top_k, HIDDEN_SKEW,
					    b);
		return;
	}
	off = relative_error(t, b, u);
	top = fmax(u, valley_active(t->experts, t->top_k, b));
	*high = fmin(u * (1 + off), top);
	*low = fmax(u * (1 - off), t->top_k);
	if (b >= t->batch)
		*low = fmax(*low, fmin(u, t->active * (1 - off)));
}

/* ---- where the valley ends ----------------------------------------------- */

#define NARROWINGS 5
/* Of ln b, again for nine of ten of the mixes. */
#define EXIT_SHAPE_WEIGHT 0.7
#define EXIT_PER_DOUBLING 0.02
#define EXIT_PER_CORRELATED_DOUBLING 0.35 /* times f */
#define EXIT_PER_STRONG_SKEW 0.12

/* d ln U / d ln b. */
static double slope(const struct traffic *t, double b)
{
	double u = traffic_active(t, b);

	return u > 0 ? traffic_single(t, b) / u : 0;
}

/* Where the slope falls to share; it only falls. */
static double crossing(const struct traffic *t, double share)
{
	double lo = 0, hi = 0, end = log(BATCH_MAX), above, below;

	above = below = slope(t, 1);
	while (hi < end && below > share) {
		lo = hi;
		above = below;
		hi = fmin(hi + M_LN2, end);
		below = slope(t, exp(hi));
	}
	for (unsigned i = 0; i < NARROWINGS && above > below; i++) {
		double mid = lo + (hi - lo) * (above - share) / (above - below);
		double at = slope(t, exp(mid));

		if (at > share) {
			lo = mid;
			above = at;
		} else {
			hi = mid;
			below = at;
		}
	}
	if (above > below && share > below)
		hi = lo + (hi - lo) * (above - share) / (above - below);
	return exp(hi);
}

/* How far the crossing is, in ln b, when the sample is worth these tokens. */
static double crossing_off(const struct traffic *t, double tokens, double was,
			   double share, double at)
{
	struct traffic other = *t;

	other.tokens = tokens;
	other.unanchored = was;
	return fabs(log(crossing(&other, share) / at));
}

/* The same, when U(B) is off by its error times z. */
static double crossing_off_anchor(const struct traffic *t, double z,
				  double share, double at)
{
	double most = valley_active(t->experts, t->top_k, t->batch);
	double u = t->active + z * t->active_error;
	struct traffic other = *t;

	other.active = fmax(fmin(u, most), t->top_k);
	other.unanchored = other.active;
	other.skew = valley_skew(t->experts, t->top_k, t->batch, other.active);
	return fabs(log(crossing(&other, share) / at));
}

/* Half of the interval around a crossing, in ln b. */
static double crossing_error(const struct traffic *t, double share, double at)
{
	double doublings = fabs(log2(at / t->batch)), shape, worth_, rest;
	struct traffic prior = *t;

	if (t->basis == TRAFFIC_SKEW) {
		rest = EXIT_PER_STRONG_SKEW * fmin(STRONG_SKEW / t->skew, 1);
		rest = (EXIT_PER_DOUBLING + rest) * doublings;
		if (!(t->active_error > 0))
			return rest;
		return hypot(rest, fmax(crossing_off_anchor(t, Z, share, at),
					crossing_off_anchor(t, -Z, share, at)));
	}
	prior.basis = TRAFFIC_SKEW;
	prior.unanchored = t->active;
	shape = EXIT_SHAPE_WEIGHT * log(crossing(&prior, share) / at);
	worth_ = fmax(crossing_off(t, t->tokens * WORTH_RANGE,
				   t->unanchored_more, share, at),
		      crossing_off(t, t->tokens / WORTH_RANGE,
				   t->unanchored_less, share, at));
	rest = (EXIT_PER_DOUBLING +
		EXIT_PER_CORRELATED_DOUBLING * t->correlated) *
	       doublings;
	return sqrt(shape * shape + worth_ * worth_ + rest * rest);
}

double traffic_batch_at(const struct traffic *t, double share, double *low,
			double *high)
{
	double at, off;

	if (!(t->experts > t->top_k))
		return 0;
	at = crossing(t, share);
	if (low)
		*low = at;
	if (high)
		*high = at;
	if (!(t->batch > 0)) {
		if (high)
			*high = fmax(at, valley_batch_at(t->experts, t->top_k,
							 HIDDEN_SKEW, share));
		return at;
	}
	if (!low && !high)
		return at;
	off = crossing_error(t, share, at);
	if (low)
		*low = fmax(at * exp(-off), 1);
	if (high)
		*high = fmin(at * exp(off), BATCH_MAX);
	return at;
}

/* ---- the rest --------------------------------------------------------- */

double traffic_pair_ratio(const struct traffic *t)
{
	double sum = 0, all;

	if (!(t->experts > 0))
		return 0;
	all = posterior_sum(t, t->tokens);
	if (t->basis != TRAFFIC_POPULARITY) {
		double a = t->skew;

		all = a * t->experts / t->top_k;
		if (a >= VALLEY_SKEW_UNIFORM)
			return t->top_k / t->experts;
		return (a + 1) / (all + 1);
	}
	for (unsigned i = 0; i < t->n; i++) {
		double alpha = posterior(t, t->tokens, i).alpha;

		sum += t->bins[i].experts * alpha * (alpha + 1);
	}
	return fmin(sum / (all * (all + 1) * t->top_k), 1);
}

bool traffic_reaches(const struct traffic *t, double b)
{
	return t->batch > 0 && b >= fmin(1, t->batch) &&
	       b <= t->batch * TRAFFIC_REACH;
}
