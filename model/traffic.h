/*
 * traffic.h - how the tokens of a server pick experts
 *
 * From what was measured at one batch B: how many experts another batch b would
 * touch, U(b), and how many of them for one row, F1(b).  The best of three
 * descriptions that the evidence allows:
 *
 *	popularity	rows per expert were sampled.  Empirical Bayes: expert e
 *		is picked by a token with a chance that is Beta(a + q n,
 *		a (E/k - 1) + (1 - q) n) distributed, where q is its share in
 *		the sample and n the tokens that the sample is worth;
 *		U(b) = sum over e of 1 - Beta(al, be + b) / Beta(al, be)
 *	skew		only U(B) is known: the prior, Beta(a, a (E/k - 1))
 *	uniform		nothing is known: every token a random k-subset, the
 *		largest U that there can be
 *
 * a is what makes the prior's U(B) the measured mean.  The tokens in a sample
 * are not independent, as sequences keep their taste from step to step:
 *
 *	n = 1 / (f/B + (1 - f) / (B T))
 *	f = 1 - sum Var_t(r_e) / (B sum q (1 - q))
 *
 * with T steps and the variance over steps.  The curve is then made to pass
 * through the measured U(B): above B what is missing, E - U(b), is scaled;
 * below B the rows that meet others, k b - U(b).
 *
 * Units: tokens, experts per layer (mean over layers).  Ranges: k b >= U >= 0,
 * U <= E, 0 <= F1 <= U; U grows and U/b falls with b.  Mean error on 33
 * synthetic mixes of traffic: 1.1, 2.4, 4.0, 4.9 % at 2, 4, 8, 16 times B; not
 * tried beyond, and only more of the same traffic is predicted.
 *
 * Source: Good-Turing and Robbins' empirical Bayes, applied to experts.
 */
#ifndef MOETOP_MODEL_TRAFFIC_H
#define MOETOP_MODEL_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#define TRAFFIC_BINS 98u
#define TRAFFIC_REACH 16.0 /* times the measured batch: tested up to here */

enum traffic_basis { TRAFFIC_UNIFORM, TRAFFIC_SKEW, TRAFFIC_POPULARITY };

/* Plain memory; all 0 is traffic of which nothing, not even E, is known. */
struct traffic {
	double experts, top_k; /* E, k */
	enum traffic_basis basis;
	double skew;         /* a; VALLEY_SKEW_UNIFORM: uniform */
	double tokens;       /* n: what the sample is worth */
	double batch;        /* B that was measured; 0: none */
	double active;       /* U(B) there, mean */
	double active_error; /* its standard error; 0: not known */
	double unanchored;   /* what the curve had been at B */
	double unanchored_more, unanchored_less; /* n three times off */
	double correlated;                       /* f, 0..1 */
	unsigned n; /* bins in use: experts of like popularity */
	struct {
		double q;       /* chance that a token picks one of them */
		double experts; /* how many, per layer */
	} bins[TRAFFIC_BINS];
};

/* What was sampled.  All means are over cells, (step, layer). */
struct traffic_sample {
	double experts, top_k;
	const uint32_t *rows; /* [layers][stride] summed over steps, or NULL;
			       * columns past E are left out */
	unsigned layers, stride;
	double batch;          /* B: mean tokens of a step */
	double batch_variance; /* over steps; 0 where not known */
	double active;         /* mean U */
	double active_error;   /* standard error of it; 0: not known */
	double sum_squares;    /* mean of sum r_e^2; 0 or NAN: not known */
};

void traffic_uniform(struct traffic *t, double experts, double top_k);

/* Skew or popularity, whatever the sample allows.  False, and *t untouched,
 * when it allows nothing: B < 1, U out of its range, E or k senseless. */
bool traffic_learn(struct traffic *t, const struct traffic_sample *s);

/* U(b) and F1(b); 0 for b <= 0 or where E is not known. */
double traffic_active(const struct traffic *t, double b);
double traffic_single(const struct traffic *t, double b);

/* Between these U(b) lies in nine of ten cases; widens with |ln(b/B)|. */
void traffic_bounds(const struct traffic *t, double b, double *low,
		    double *high);

/* Smallest batch >= 1 at which F1/U falls to share, at most 1e7, and between
 * what it lies in nine of ten cases.  low and high may be NULL.  0 when k = E
 * or nothing is known. */
double traffic_batch_at(const struct traffic *t, double share, double *low,
			double *high);

/* Chance that a second token picks an expert that a first one has: sum of
 * E[q^2] over k.  k/E under uniform routing. */
double traffic_pair_ratio(const struct traffic *t);

/* b is 1 or more, which U(1) = k and U(B) enclose, and TRAFFIC_REACH times B at
 * most. */
bool traffic_reaches(const struct traffic *t, double b);

#endif
