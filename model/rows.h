/*
 * rows.h - what one histogram of rows per expert says, and sums of them
 *
 * A cell is one (decode step, MoE layer).  r_e rows went to expert e.
 *
 *	R = sum r_e   U = #{r_e > 0}   F1 = #{r_e = 1}   E experts
 *
 * Sums over cells add up in any order; a ratio is taken once, of sums:
 *
 *	coverage	c   = sum U / sum E		0..1
 *	fragmentation	phi = sum U / sum R		1/B..1
 *	rows per active	m   = sum R / sum U		1..B
 *	single-row	s1  = sum F1 / sum U		0..1
 *	valley index	V   = (sum U)^2 / (sum E sum R)	0..1
 *	elasticity	    = 1 - s1: of the experts' part of the throughput
 *
 * A ratio without rows is not known: NO_DATA.
 */
#ifndef MOETOP_MODEL_ROWS_H
#define MOETOP_MODEL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"
#include "model/value.h"

struct row_ratios {
	struct value coverage, fragmentation, per_active, single, valley,
		elasticity;
};

/* Add the cell whose experts got rows[0..n-1]. */
void rows_add_cell(struct sample_rows *sums, const uint32_t *rows, size_t n);

/* Add other sums: another window, rank or layer. */
void rows_add(struct sample_rows *sums, const struct sample_rows *other);

/* False for what no histograms can add up to: not finite, negative, more
 * singles than active experts, more of those than rows or experts. */
bool rows_sane(const struct sample_rows *sums);

void rows_ratios(const struct sample_rows *sums, enum value_source source,
		 struct row_ratios *out);

/* Mean per cell, NO_DATA without cells. */
struct value rows_mean(const struct sample_rows *sums, double sum,
		       enum value_source source);

/*
 * N2 = R (R - 1) / sum r (r - 1): the number of equally popular experts that
 * would repeat as often (Simpson), at most n.  Needs R >= 2, else NAN.
 */
double rows_effective_experts(const uint32_t *rows, size_t n);

/* Entropy of the shares over ln n, 0..1; 0 without rows or with n < 2. */
double rows_entropy(const uint32_t *rows, size_t n);

#endif
