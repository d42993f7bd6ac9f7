/*
 * extrapolate.h - estimators of U(b) from one histogram
 *
 * For comparison and tests: what moetop predicts with is traffic.h.  Mean error
 * at twice the batch, on 33 synthetic mixes of traffic: Good-Toulmin 1.6 %,
 * Chao2 1.3 %, E_eff 7.5 %; none of them holds beyond that.
 *
 *	Good-Toulmin	U - sum over j of (-t)^j F_j, t = (b - B)/B <= 1
 *	Chao2		U + q0 (1 - (1 - F1 / (B q0 + F1))^(b - B)),
 *			q0 = (B - 1)/B F1^2 / (2 F2); without F2: F1 (F1 - 1)/2
 *	E_eff		the E' for which E' (1 - (1 - k/E')^B) = U
 *
 * All results are clamped to U..E, for b >= B.  Totals: arguments that make no
 * sense give 0.
 */
#ifndef MOETOP_MODEL_EXTRAPOLATE_H
#define MOETOP_MODEL_EXTRAPOLATE_H

#include <stddef.h>
#include <stdint.h>

/* With the rows of one histogram; before the clamp: raw, which may leave U..E
 * (NULL: not wanted).  b > 2 B counts as 2 B. */
double extrapolate_good_toulmin(const uint32_t *rows, size_t n, double tokens,
				double b, double *raw);

double extrapolate_chao2(double e, double active, double single, double twice,
			 double tokens, double b);

/* E_eff in k..E. */
double extrapolate_equal_experts(double e, double k, double tokens,
				 double active);

#endif
