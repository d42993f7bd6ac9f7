/*
 * regime.h - which regime the server is in
 *
 * First match of, with the thresholds to enter and to leave:
 *
 *	idle	busy time / wall time below		0.02	0.04
 *	prefill share of step time on prompts above	0.50	0.40
 *	compute sigma_C above				0.50	0.40
 *	kv	sigma_KV above				0.50	0.40
 *	solo	tokens per decode step below		1.50	1.75
 *	valley	sigma_E above				0.12	0.08
 *	shared	otherwise
 *
 * Beside them, flags, with the same hysteresis:
 *
 *	overhead	t0 / T above			0.40	0.30
 *	imbalance	straggler share above		0.15	0.10
 *	skew		N2 / E below			0.60	0.65
 *
 * Shares are smoothed with a time constant of 4 s, weighted by step time; B is
 * smoothed geometrically, so that a burst does not echo.  Smoothing starts anew
 * when B is off by more than 3x in two updates in a row, when the caller says
 * so, and after idle time.  A state lasts at least 2 s, except that idle is
 * taken at once, and that nothing is known after 30 s without evidence.  A
 * change between valley and shared also needs the threshold to be two standard
 * errors away: those of s1 over the sampled steps, as the layers of one step
 * share its tokens, at least the binomial one.  In the valley the near side is
 * s1 > 1/2, left below 0.48.
 *
 * The thresholds and times are judgement, tested in simulation only: real
 * expert popularity, Poisson batches.
 */
#ifndef MOETOP_MODEL_REGIME_H
#define MOETOP_MODEL_REGIME_H

#include <stdbool.h>

#include "model/sample.h"
#include "model/snapshot.h"

/* What was learnt in one interval. */
struct regime_evidence {
	double dt_s;      /* its length */
	bool idle;        /* nothing ran and nothing waits */
	double busy;      /* busy / wall; NAN unknown */
	bool restart;     /* the load has changed: forget what was smoothed */
	double weight;    /* step time; 0: nothing known about steps, hold */
	bool have_shares; /* false: only tokens is known */
	double expert, kv, compute, prefill; /* shares of step time */
	double single;                       /* s1 */
	double tokens;                       /* B; 0 or less: not known */
	double sampled_active; /* U summed over newly sampled cells; 0: none */
	struct sample_clusters clusters; /* of the same; steps 0: not known */
	double fixed;                    /* t0 / T; NAN unknown */
	double straggler;                /* share; NAN unknown */
	double popularity;               /* N2 / E; NAN unknown */
	bool modelled;                   /* no sampling error to allow for */
};

enum regime_smoothed {
	SMOOTH_EXPERT,
	SMOOTH_KV,
	SMOOTH_COMPUTE,
	SMOOTH_PREFILL,
	SMOOTH_SINGLE,
	SMOOTH_LN_TOKENS,
	SMOOTHED
};

/* Plain memory; zero it to begin. */
struct regime_state {
	enum regime regime;
	double since_s; /* time in it */
	double blind_s; /* time without evidence */
	double sum[SMOOTHED], weight;
	double active;     /* decayed sum of sampled_active */
	double uu, uf, ff; /* decayed sums of the clusters */
	unsigned flags;    /* enum regime_flag */
	unsigned jumps;
	unsigned long changes;
	bool modelled, have_shares; /* of the newest evidence */
	bool near;
};

/* Take in one interval; returns the regime that now holds. */
enum regime regime_update(struct regime_state *s,
			  const struct regime_evidence *e);

/* Standard error of the smoothed s1; 0 before anything was sampled. */
double regime_single_error(const struct regime_state *s);

enum side regime_side(const struct regime_state *s);

#endif
