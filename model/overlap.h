/*
 * overlap.h - how much the experts of concurrent requests are the same
 *
 * One request is one token of the step.  With r_e rows at expert e:
 *
 *	rows	1 - F1/R: share of a step's rows whose expert another request
 *		chose, too; it is also the share of a request's experts that
 *		another one uses.  0..1; uniform: 1 - (1 - k/E)^(B-1)
 *	pair	sum r (r - 1) / (k B (B - 1)): share of the experts of one
 *		request that are those of a given other.  0..1; uniform: k/E
 *
 * Both are ratios of sums over (step, layer).  With speculative decoding the
 * tokens of one request overlap among themselves, and both count that.
 *
 * Source: the definitions behind "5 % overlap" in published claims; for three
 * requests on 512 experts, 10 of them each, uniform routing gives 3.87 % of
 * rows and 1.95 % of pairs.
 */
#ifndef MOETOP_MODEL_OVERLAP_H
#define MOETOP_MODEL_OVERLAP_H

#include "model/sample.h"
#include "model/traffic.h"
#include "model/value.h"

struct overlap {
	double rows_ratio, pair_ratio; /* NAN: not defined, as B <= 1 */
};

/* clusters may be NULL: then B is taken to be the same in every step. */
void overlap_measured(const struct sample_rows *r,
		      const struct sample_clusters *clusters, double top_k,
		      struct overlap *out);

void overlap_expected(const struct traffic *t, double batch,
		      struct overlap *out);

#endif
