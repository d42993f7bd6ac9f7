/*
 * balance.h - how evenly rows spread over experts and ranks
 *
 *	Gini	sum (2 i - n + 1) r_(i) / (n sum r), r sorted upwards; 0..1.
 *		Says nothing at small B: uniform routing alone gives 0.5.
 *	excess imbalance  (max r / mean r) over what uniform routing of the same
 *		B gives on average; about 1 is chance, more is skew
 *	tile padding	1 - R / (m sum ceil(r/m)): share of the rows of tiles of
 *		m that are empty; 0..1
 *	I_R, I_U	rows, or active experts, of the fullest rank over the
 *		mean rank; 1..EP
 *	straggler share sum over layers of the slowest rank's time over that of
 *		the mean rank's, - 1; 0..EP-1.  Predicted: I_U - 1 while memory
 *		sets the pace, I_R - 1 when arithmetic does
 *
 * Predictions place experts at random, ranks of equal size; the maximum of n
 * ranks is that of n normal draws, so it is good to about 0.1.
 *
 * Sources: Gini 1912; the rest is occupancy of independent draws.
 */
#ifndef MOETOP_MODEL_BALANCE_H
#define MOETOP_MODEL_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"
#include "model/traffic.h"

/* 0 without rows. */
double balance_gini(const uint32_t *rows, size_t n);

/* NAN without rows. */
double balance_tile_padding(const uint32_t *rows, size_t n, uint32_t tile);

/* The same of a distribution of rows per active expert (exact below 32 rows,
 * rounded up to a bucket above); NAN when it is empty. */
double balance_tile_padding_hist(const struct sample_hist *h, double tile);

/* Mean of the largest r_e under uniform routing; 0 where it makes no sense. */
double balance_uniform_max(double e, double k, double b);

/* Mean number of tiles, sum of ceil(r_e / tile), under uniform routing; 0
 * where it makes no sense. */
double balance_uniform_tiles(double e, double k, double b, double tile);

/* From sums over cells: mean max over mean r, over that of uniform routing of b
 * tokens.  NAN without rows. */
double balance_excess(const struct sample_rows *r, double k, double b);

struct balance {
	double rows;   /* I_R */
	double active; /* I_U */
};

/* max/mean of n ranks that hold these sums. */
void balance_ranks(const double *rows, const double *active, unsigned n,
		   struct balance *out);

/* What ep ranks of a batch of b would have; 1 and 1 for ep <= 1. */
void balance_expected(const struct traffic *t, double b, double ep,
		      struct balance *out);

/* Mean of the largest of n standard normal draws; 0 for n <= 1. */
double balance_normal_max(double n);

#endif
