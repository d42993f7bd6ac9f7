#include "model/traffic.h"
#include "model/valley.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define BATCH_MAX 1e7
#define BISECTIONS 200
/* Bins in the ratio of a popularity to the mean one: BINS_PER_OCTAVE from
 * 2^-8 to 2^8, bin 0 for what is below. */
#define BINS_PER_OCTAVE 6
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

/* ---- the curve before it is anchored ----------------------------------- */

struct posterior {
	double alpha, beta;
};

static struct posterior posterior(const struct traffic *t, unsigned bin)
{
	double ratio = t->experts / t->top_k;
	double q = t->bins[bin].q;

	return (struct posterior){
		.alpha = t->skew + q * t->tokens,
		.beta = t->skew * (ratio - 1) + (1 - q) * t->tokens,
	};
}

/* E[(1 - q)^b] under p. */
static double miss(struct posterior p, double b)
{
	return exp(valley_ln_rise(p.beta, b) -
		   valley_ln_rise(p.alpha + p.beta, b));
}

static double raw_active(const struct traffic *t, double b)
{
	double sum = 0;

	if (t->basis != TRAFFIC_POPULARITY)
		return valley_skewed_active(t->experts, t->top_k, t->skew, b);
	for (unsigned i = 0; i < t->n; i++)
		sum += t->bins[i].experts * (1 - miss(posterior(t, i), b));
	return sum;
}

/* b E[q (1 - q)^(b-1)] summed: the backward difference of U times b. */
static double raw_single(const struct traffic *t, double b)
{
	double sum = 0;

	if (t->basis != TRAFFIC_POPULARITY)
		return valley_skewed_single(t->experts, t->top_k, t->skew, b);
	if (b <= 1)
		return b * t->top_k;
	for (unsigned i = 0; i < t->n; i++) {
		struct posterior p = posterior(t, i);
		double all = p.alpha + p.beta;

		if (!(all > 0))
			continue;
		sum += t->bins[i].experts * p.alpha / all *
		       exp(valley_ln_rise(p.beta, b - 1) -
			   valley_ln_rise(all + 1, b - 1));
	}
	return b * sum;
}

/* ---- the anchor --------------------------------------------------------- */

/* By what the missing experts above B are scaled. */
static double missing_scale(const struct traffic *t)
{
	double was = t->experts - t->unanchored;

	if (was < MISSING_MIN * t->experts)
		return 1;
	return fmax(t->experts - t->active, 0) / was;
}

/* By what the rows that meet others below B are scaled. */
static double meeting_scale(const struct traffic *t)
{
	double was = t->top_k * t->batch - t->unanchored;

	if (was < MISSING_MIN * t->experts)
		return 1;
	return fmax(t->top_k * t->batch - t->active, 0) / was;
}

double traffic_active(const struct traffic *t, double b)
{
	double rows = t->top_k * b, u;

	if (!(t->experts > 0) || !(b > 0))
		return 0;
	b = fmin(b, BATCH_MAX);
	if (b <= 1)
		return fmin(rows, t->experts);
	u = raw_active(t, b);
	if (t->batch > 0 && b >= t->batch) {
		u = t->experts - (t->experts - u) * missing_scale(t);
		u = fmin(fmax(u, t->active), t->active * b / t->batch);
	} else if (t->batch > 0) {
		u = rows - (rows - u) * meeting_scale(t);
		u = fmin(u, t->active);
	}
	return fmin(fmax(u, t->top_k), fmin(rows, t->experts));
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
		f *= missing_scale(t);
	} else if (t->batch > 0) {
		double rows = t->top_k * b;

		f = rows - (rows - f) * meeting_scale(t);
	}
	return fmin(fmax(f, 0), u);
}

/* ---- learning ----------------------------------------------------------- */

static unsigned bin_of(double ratio)
{
	double at;

	if (!(ratio > 0))
		return 0;
	at = (log2(ratio) - LOWEST_OCTAVE) * BINS_PER_OCTAVE + 1;
	return at < 0               ? 0
	       : at >= TRAFFIC_BINS ? TRAFFIC_BINS - 1
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
	next.unanchored = raw_active(&next, b);
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
#define PER_DOUBLING_SKEW 0.07       /* one parameter only */
/* What uniform routing may hide where nothing was measured: measured traffic of
 * models has a of 0.3 and more. */
#define HIDDEN_SKEW 0.3

/* The curve with `tokens` and `basis` instead, anchored anew. */
static double varied(const struct traffic *t, enum traffic_basis basis,
		     double tokens, double b)
{
	struct traffic other = *t;

	other.basis = basis;
	other.tokens = tokens;
	other.unanchored = raw_active(&other, t->batch);
	return traffic_active(&other, b);
}

static double relative_error(const struct traffic *t, double b)
{
	double u = traffic_active(t, b), doublings, shape = 0, worth_ = 0;
	double anchor = Z * t->active_error / t->active, rest;

	doublings = fabs(log2(fmax(b, 1) / t->batch));
	if (t->basis == TRAFFIC_SKEW) {
		rest = PER_DOUBLING_SKEW * doublings;
	} else {
		double more, less, prior;

		more = varied(t, t->basis, t->tokens * 3, b);
		less = varied(t, t->basis, t->tokens / 3, b);
		prior = varied(t, TRAFFIC_SKEW, 0, b);
		worth_ = WORTH_WEIGHT * fmax(fabs(more - u), fabs(less - u));
		shape = SHAPE_WEIGHT * fabs(prior - u);
		rest = (PER_DOUBLING +
			PER_CORRELATED_DOUBLING * t->correlated) *
		       doublings;
	}
	return sqrt(anchor * anchor + rest * rest +
		    (shape * shape + worth_ * worth_) / (u * u));
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
	off = relative_error(t, b);
	top = fmax(u, valley_active(t->experts, t->top_k, b));
	*high = fmin(u * (1 + off), top);
	*low = fmax(u * (1 - off), t->top_k);
	if (b >= t->batch)
		*low = fmax(*low, fmin(u, t->active * (1 - off)));
}

/* ---- where the valley ends ----------------------------------------------- */

#define GRID_PER_OCTAVE 4
#define SLOPE_STEP 1.1

/* d ln U / d ln b at b of the curve and of its bounds. */
static void slopes(const struct traffic *t, double b, double *at, double *low,
		   double *high)
{
	double u = traffic_active(t, b), spread = 0;

	*at = u > 0 ? traffic_single(t, b) / u : 0;
	if (t->batch > 0 && b > 1) {
		double next = b * SLOPE_STEP;

		spread = (relative_error(t, next) - relative_error(t, b)) /
			 log(SLOPE_STEP);
		spread = fmax(spread, 0);
	}
	*low = *at - spread;
	*high = *at + spread;
	if (!(t->batch > 0)) {
		double a = HIDDEN_SKEW, e = t->experts, k = t->top_k;

		*high = valley_skewed_single(e, k, a, b) /
			valley_skewed_active(e, k, a, b);
	}
}

/* ln b where a slope that was `before` at ln b0 and is `now` at ln b1 passes
 * `share`. */
static double crossing(double ln0, double before, double ln1, double now,
		       double share)
{
	if (!(before > now))
		return ln1;
	return ln0 +
	       (ln1 - ln0) *
		       fmin(fmax((before - share) / (before - now), 0), 1);
}

double traffic_batch_at(const struct traffic *t, double share, double *low,
			double *high)
{
	double was[3], is[3], found[3] = { NAN, NAN, NAN };
	double step = M_LN2 / GRID_PER_OCTAVE, ln = 0, end = log(BATCH_MAX);
	bool want = low || high;
	unsigned missing = want ? 3 : 1;

	if (!(t->experts > t->top_k))
		return 0;
	slopes(t, 1, &was[0], &was[1], &was[2]);
	for (; missing && ln < end; ln += step) {
		double b = exp(ln + step);

		if (want)
			slopes(t, b, &is[0], &is[1], &is[2]);
		else
			is[0] = traffic_single(t, b) / traffic_active(t, b);
		for (unsigned i = 0; i < (want ? 3 : 1); i++) {
			if (!isnan(found[i]) || is[i] > share)
				continue;
			found[i] = exp(
				crossing(ln, was[i], ln + step, is[i], share));
			missing--;
		}
		memcpy(was, is, sizeof(was));
	}
	for (unsigned i = 0; i < 3; i++)
		if (isnan(found[i]))
			found[i] = BATCH_MAX;
	if (low)
		*low = fmin(found[1], found[0]);
	if (high)
		*high = fmax(found[2], found[0]);
	return found[0];
}

/* ---- the rest ------------------------------------------------------------- */

double traffic_pair_ratio(const struct traffic *t)
{
	double sum = 0;

	if (!(t->experts > 0))
		return 0;
	if (t->basis != TRAFFIC_POPULARITY) {
		double a = t->skew, all = a * t->experts / t->top_k;

		if (a >= VALLEY_SKEW_UNIFORM)
			return t->top_k / t->experts;
		return (a + 1) / (all + 1);
	}
	for (unsigned i = 0; i < t->n; i++) {
		struct posterior p = posterior(t, i);
		double all = p.alpha + p.beta;

		sum += t->bins[i].experts * p.alpha * (p.alpha + 1) /
		       (all * (all + 1));
	}
	return fmin(sum / t->top_k, 1);
}

bool traffic_reaches(const struct traffic *t, double b)
{
	return t->batch > 0 && b >= fmin(1, t->batch) &&
	       b <= t->batch * TRAFFIC_REACH && b >= t->batch / TRAFFIC_REACH;
}
