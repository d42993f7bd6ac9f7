/*
 * valley.h - how many experts a batch touches
 *
 * E routed experts, k per token, B real tokens in a step, R = B k rows, U
 * experts with a row, F1 experts with exactly one.  Tokens are exchangeable.
 *
 *	uniform routing (each token a random k-subset):
 *	U  = E (1 - (1 - k/E)^B)	F1 = B k (1 - k/E)^(B-1)
 *	floor: B where s1 = F1/U = 1/2, which is where V = U^2 / (E R) peaks,
 *	       1.2564312086261697 / -ln(1 - k/E)
 *	V max  0.40726437758907386 x -ln(1 - k/E) E/k
 *
 *	skewed routing, one parameter: the chance that a token picks an expert
 *	is Beta(a, a (E/k - 1)) distributed over the experts; a grows without
 *	bound towards uniform routing.
 *
 *	rarefaction: the mean U of b tokens drawn from B that were observed,
 *	sum over e of 1 - C(B - r_e, b) / C(B, b); U - U(B-1) = F1/B exactly.
 *
 * Source: Good and Turing's estimate of unseen species, Hurlbert's rarefaction,
 * and the beta-binomial, applied to experts.  One parameter reproduces U(B) of
 * Qwen3-235B's measured expert popularity within 0.5 % from B = 1 to 1024.
 *
 * B need not be whole: it is often a mean.  All functions are total: an
 * argument out of range (E or k of 0, k > E, B < 0, not a number) gives 0.
 */
#ifndef MOETOP_MODEL_VALLEY_H
#define MOETOP_MODEL_VALLEY_H

#include <stddef.h>
#include <stdint.h>

#define VALLEY_FLOOR_X 1.2564312086261697 /* root of x/(e^x - 1) = 1/2 */
#define VALLEY_PEAK 0.40726437758907386   /* (1 - e^-x)^2 / x there */
#define VALLEY_SKEW_MIN 1e-3
#define VALLEY_SKEW_UNIFORM 1e5 /* a of this or more: uniform */

/* U and F1 of uniform routing. */
double valley_active(double e, double k, double b);
double valley_single(double e, double k, double b);

/* B of the valley's floor; 0 when k = E, where there is no valley. */
double valley_floor(double e, double k);
/* Greatest V under uniform routing; 0 when k = E. */
double valley_peak(double e, double k);

/* U and F1 with skew a. */
double valley_skewed_active(double e, double k, double a, double b);
double valley_skewed_single(double e, double k, double a, double b);

/* ln Gamma(x + n) - ln Gamma(x), x > 0 and x + n > 0. */
double valley_ln_rise(double x, double n);

/* The skew with which U(b) is the measured mean `active`, in
 * VALLEY_SKEW_MIN..VALLEY_SKEW_UNIFORM. */
double valley_skew(double e, double k, double b, double active);

/* Smallest B at which F1/U falls to `share` (0..1), at most 1e7. */
double valley_batch_at(double e, double k, double a, double share);

/* Mean U of b of the B tokens behind one histogram, b <= B; every rows[i] must
 * be at most B.  b > B counts as B. */
double valley_rarefied(const uint32_t *rows, size_t n, uint32_t tokens,
		       uint32_t b);

#endif
