/*
 * experts.h - what the rows of every expert say: the hottest, the idle ones
 *
 * Pure functions of snapshot_experts, for views.  Per layer:
 *
 *	R = sum r	N2 = R (R - 1) / sum r (r - 1), at most E
 *
 * A layer without any row was not sampled: nothing is said of its experts.
 * Layers were sampled in different steps, so experts are compared by their
 * share of the rows of their layer.
 *
 * `routed`: the columns that are experts a router chooses from, E; a shared
 * expert that was fused in comes after them and is left out.
 */
#ifndef MOETOP_MODEL_EXPERTS_H
#define MOETOP_MODEL_EXPERTS_H

#include "model/snapshot.h"

#define EXPERTS_HOTTEST 10u

/* E, by what is known of the model; 0 when there are no rows. */
unsigned experts_routed(const struct snapshot *s);

struct experts_layer {
	uint64_t rows;    /* R; 0: not sampled */
	double effective; /* N2, 1..E; NAN: R < 2 */
	unsigned unused;  /* experts without a row */
	unsigned fullest; /* the expert with most rows */
};

/* layer is below e->n_layers, routed at most e->n_experts; also below. */
void experts_layer(const struct snapshot_experts *e, unsigned routed,
		   unsigned layer, struct experts_layer *out);

struct experts_hot {
	unsigned layer, expert;
	uint32_t rows;
	double share_ratio;     /* of the rows of its layer, 0..1 */
	double over_mean_ratio; /* share times E */
};

struct experts_summary {
	unsigned layers;  /* sampled */
	uint64_t rows;    /* of all */
	uint64_t cells;   /* (layer, expert) in sampled layers */
	uint64_t unused;  /* of those, without a row */
	double effective; /* mean of N2; NAN unknown */
	unsigned n_hottest;
	struct experts_hot hottest[EXPERTS_HOTTEST]; /* by share */
};

void experts_summary(const struct snapshot_experts *e, unsigned routed,
		     struct experts_summary *out);

/*
 * Rows of the fullest expert over the mean one, as uniform routing would have
 * them after as many tokens as the mean layer saw: what chance gives.  At least
 * 1; NAN where nothing is known.
 */
double experts_chance_ratio(const struct snapshot_experts *e, unsigned routed,
			    unsigned top_k);

/* The rank that holds an expert when they are laid out one after the other,
 * E/ep on each; ep 0, or one that does not divide E: -1, not known. */
int experts_rank(unsigned routed, unsigned ep, unsigned expert);

/* Rows of the ranks by that layout, of one layer or, from n_layers on, of all.
 * False when the layout is not known or ep is more than n. */
bool experts_rank_rows(const struct snapshot_experts *e, unsigned routed,
		       unsigned layer, unsigned ep, uint64_t *rows, unsigned n);

#endif
