#include "model/regime.h"

#include <math.h>
#include <string.h>

#define TAU_S 4.0
#define DWELL_S 2.0
#define BLIND_S 30.0
#define NEAR_SIDE_ENTER 0.5
#define NEAR_SIDE_LEAVE 0.48
#define JUMP_RATIO 3.0
#define JUMPS_TO_RESTART 2u
#define ERRORS_AWAY 2.0

enum { OVERHEAD = REGIMES, IMBALANCE, SKEW, THRESHOLDS };

static const struct {
	double enter, leave;
} thresholds[THRESHOLDS] = {
	[REGIME_IDLE] = { 0.02, 0.04 },    [REGIME_PREFILL] = { 0.50, 0.40 },
	[REGIME_COMPUTE] = { 0.50, 0.40 }, [REGIME_KV] = { 0.50, 0.40 },
	[REGIME_SOLO] = { 1.50, 1.75 },    [REGIME_VALLEY] = { 0.12, 0.08 },
	[OVERHEAD] = { 0.40, 0.30 },       [IMBALANCE] = { 0.15, 0.10 },
	[SKEW] = { 0.60, 0.65 },
};

static double threshold(const struct regime_state *s, enum regime r)
{
	return s->regime == r ? thresholds[r].leave : thresholds[r].enter;
}

static double smoothed(const struct regime_state *s, enum regime_smoothed k)
{
	return s->weight > 0 ? s->sum[k] / s->weight : 0;
}

static void restart(struct regime_state *s)
{
	memset(s->sum, 0, sizeof(s->sum));
	s->weight = 0;
	s->active = 0;
	s->uu = s->uf = s->ff = 0;
	s->jumps = 0;
}

static void smooth(struct regime_state *s, const struct regime_evidence *e)
{
	double keep = exp(-e->dt_s / TAU_S);
	double ln_tokens =
		e->tokens > 0 ? log(e->tokens) : smoothed(s, SMOOTH_LN_TOKENS);
	const double x[SMOOTHED] = {
		[SMOOTH_EXPERT] = e->expert,   [SMOOTH_KV] = e->kv,
		[SMOOTH_COMPUTE] = e->compute, [SMOOTH_PREFILL] = e->prefill,
		[SMOOTH_SINGLE] = e->single,   [SMOOTH_LN_TOKENS] = ln_tokens,
	};

	if (s->weight > 0 &&
	    fabs(ln_tokens - smoothed(s, SMOOTH_LN_TOKENS)) > log(JUMP_RATIO))
		s->jumps++;
	else
		s->jumps = 0;
	if (e->restart || s->jumps >= JUMPS_TO_RESTART)
		restart(s);
	for (unsigned k = 0; k < SMOOTHED; k++)
		s->sum[k] = keep * s->sum[k] + e->weight * x[k];
	s->weight = keep * s->weight + e->weight;
	s->active = keep * s->active + e->sampled_active;
	s->uu = keep * s->uu + e->clusters.uu;
	s->uf = keep * s->uf + e->clusters.uf;
	s->ff = keep * s->ff + e->clusters.ff;
	s->near = smoothed(s, SMOOTH_SINGLE) >
		  (s->near ? NEAR_SIDE_LEAVE : NEAR_SIDE_ENTER);
	s->modelled = e->modelled;
	s->have_shares = e->have_shares;
}

/* The regime that the figures show, whatever was before. */
static enum regime first_match(const struct regime_state *s,
			       const struct regime_evidence *e)
{
	static const struct {
		enum regime regime;
		enum regime_smoothed share;
	} tests[] = {
		{ REGIME_PREFILL, SMOOTH_PREFILL },
		{ REGIME_COMPUTE, SMOOTH_COMPUTE },
		{ REGIME_KV, SMOOTH_KV },
	};

	if (e->idle || e->busy < threshold(s, REGIME_IDLE))
		return REGIME_IDLE;
	if (!(s->weight > 0))
		return s->regime == REGIME_IDLE ? REGIME_UNKNOWN : s->regime;
	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (smoothed(s, tests[i].share) > threshold(s, tests[i].regime))
			return tests[i].regime;
	if (exp(smoothed(s, SMOOTH_LN_TOKENS)) < threshold(s, REGIME_SOLO))
		return REGIME_SOLO;
	if (!s->have_shares)
		return REGIME_UNKNOWN;
	if (smoothed(s, SMOOTH_EXPERT) > threshold(s, REGIME_VALLEY))
		return REGIME_VALLEY;
	return REGIME_SHARED;
}

/* Over steps: sqrt(sum (F1 - s1 U)^2) / sum U, at least the binomial error. */
static double single_error(const struct regime_state *s, double s1)
{
	double active = fmax(s->active, 1);
	double binomial = sqrt(fmax(s1 * (1 - s1), 1e-9) / active);
	double squares = s->ff - 2 * s1 * s->uf + s1 * s1 * s->uu;

	return fmax(binomial, sqrt(fmax(squares, 0)) / active);
}

/* Between valley and shared: is the threshold far enough from the figure? */
static bool is_significant(const struct regime_state *s, enum regime to)
{
	double limit = to == REGIME_VALLEY ? thresholds[REGIME_VALLEY].enter
					   : thresholds[REGIME_VALLEY].leave;
	double s1 = smoothed(s, SMOOTH_SINGLE);
	double expert = smoothed(s, SMOOTH_EXPERT);
	double error = single_error(s, s1);

	return fabs(expert - limit) >=
	       ERRORS_AWAY * error * expert / fmax(s1, 1e-9);
}

static bool may_change(const struct regime_state *s, enum regime to)
{
	bool statistical =
		(s->regime == REGIME_VALLEY && to == REGIME_SHARED) ||
		(s->regime == REGIME_SHARED && to == REGIME_VALLEY);

	if (to == REGIME_IDLE || s->regime == REGIME_UNKNOWN)
		return true;
	if (s->since_s < DWELL_S)
		return false;
	return !statistical || s->modelled || is_significant(s, to);
}

static void set_flag(struct regime_state *s, unsigned flag, unsigned limit,
		     double x, bool below)
{
	bool on = s->flags & flag;
	double edge = on ? thresholds[limit].leave : thresholds[limit].enter;

	on = below ? x < edge : x > edge; /* false for what is not known */
	s->flags = on ? s->flags | flag : s->flags & ~flag;
}

static void set_flags(struct regime_state *s, const struct regime_evidence *e)
{
	if (e->idle) {
		s->flags = 0;
		return;
	}
	set_flag(s, FLAG_OVERHEAD, OVERHEAD, e->fixed, false);
	set_flag(s, FLAG_IMBALANCE, IMBALANCE, e->straggler, false);
	set_flag(s, FLAG_SKEW, SKEW, e->popularity, true);
}

enum regime regime_update(struct regime_state *s,
			  const struct regime_evidence *e)
{
	enum regime now;

	set_flags(s, e);
	if (e->weight > 0 && e->dt_s >= 0)
		smooth(s, e);
	else if (e->restart)
		restart(s);
	s->blind_s = e->weight > 0 || e->idle ? 0 : s->blind_s + e->dt_s;
	if (s->blind_s > BLIND_S)
		restart(s);
	now = s->blind_s > BLIND_S ? REGIME_UNKNOWN : first_match(s, e);
	s->since_s += e->dt_s;
	if (now != s->regime && may_change(s, now)) {
		s->regime = now;
		s->since_s = 0;
		s->changes++;
		if (now == REGIME_IDLE)
			restart(s);
	}
	return s->regime;
}

double regime_single_error(const struct regime_state *s)
{
	if (!(s->active > 0))
		return 0;
	return single_error(s, smoothed(s, SMOOTH_SINGLE));
}

enum side regime_side(const struct regime_state *s)
{
	if (s->regime != REGIME_VALLEY)
		return SIDE_NONE;
	return s->near ? SIDE_NEAR : SIDE_FAR;
}
