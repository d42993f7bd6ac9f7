#include "model/nnls.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Below this, relative to a column's own size, a pivot is rounding. */
#define PIVOT_MIN 1e-12

struct nnls {
	unsigned n;
	double weight, square; /* sums of w and w b^2 */
	double *gram;          /* [n][n]: sum w a a', all of it */
	double *right;         /* [n]: sum w a b */
	double *x, *ridge, *mean;
};

struct nnls *nnls_new(unsigned n)
{
	size_t cells = (size_t)n * n;
	struct nnls *s;

	if (!n || n > NNLS_UNKNOWNS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->n = n;
	s->gram = calloc(cells + 4 * (size_t)n, sizeof(*s->gram));
	if (!s->gram) {
		free(s);
		return NULL;
	}
	s->right = s->gram + cells;
	s->x = s->right + n;
	s->ridge = s->x + n;
	s->mean = s->ridge + n;
	return s;
}

void nnls_free(struct nnls *s)
{
	if (!s)
		return;
	free(s->gram);
	free(s);
}

void nnls_clear(struct nnls *s)
{
	size_t cells = (size_t)s->n * s->n + 4 * (size_t)s->n;

	memset(s->gram, 0, cells * sizeof(*s->gram));
	s->weight = s->square = 0;
}

void nnls_add(struct nnls *s, const struct nnls_term *terms, unsigned n_terms,
	      double b, double weight)
{
	if (!isfinite(b) || !isfinite(weight) || !(weight > 0))
		return;
	for (unsigned i = 0; i < n_terms; i++)
		if (!isfinite(terms[i].a))
			return;
	s->weight += weight;
	s->square += weight * b * b;
	for (unsigned i = 0; i < n_terms; i++) {
		unsigned u = terms[i].unknown;
		double *row = s->gram + (size_t)u * s->n, wa;

		if (u >= s->n)
			continue;
		wa = weight * terms[i].a;
		s->right[u] += wa * b;
		for (unsigned k = 0; k < n_terms; k++)
			if (terms[k].unknown < s->n)
				row[terms[k].unknown] += wa * terms[k].a;
	}
}

void nnls_fade(struct nnls *s, double keep)
{
	size_t cells = (size_t)s->n * s->n + s->n; /* and the right side */

	if (!(keep >= 0) || !(keep < 1))
		return;
	for (size_t i = 0; i < cells; i++)
		s->gram[i] *= keep;
	s->weight *= keep;
	s->square *= keep;
}

void nnls_pull(struct nnls *s, unsigned unknown, double ridge, double mean)
{
	if (unknown >= s->n || !(ridge >= 0) || !isfinite(ridge) ||
	    !isfinite(mean))
		return;
	s->ridge[unknown] = ridge;
	s->mean[unknown] = mean;
}

/* Four sums side by side: one would wait for each addition. */
static double dot(const double *a, const double *b, unsigned n)
{
	double sum[4] = { 0 };
	unsigned i = 0;

	for (; i + 4 <= n; i += 4)
		for (unsigned k = 0; k < 4; k++)
			sum[k] += a[i + k] * b[i + k];
	for (; i < n; i++)
		sum[0] += a[i] * b[i];
	return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* The best x[u], all others given. */
static double best(const struct nnls *s, unsigned u)
{
	const double *row = s->gram + (size_t)u * s->n;
	double size = row[u] + s->ridge[u], rest;

	if (!(size > 0))
		return 0;
	rest = dot(row, s->x, s->n) - row[u] * s->x[u];
	return fmax(0, (s->right[u] + s->ridge[u] * s->mean[u] - rest) / size);
}

unsigned nnls_solve(struct nnls *s, unsigned sweeps, double tolerance)
{
	for (unsigned i = 0; i < sweeps; i++) {
		double moved = 0;

		for (unsigned u = 0; u < s->n; u++) {
			double x = best(s, u), d = x - s->x[u];

			moved = fmax(moved,
				     d * d * s->gram[(size_t)u * s->n + u]);
			s->x[u] = x;
		}
		if (moved <= tolerance * tolerance * s->square)
			return i + 1;
	}
	return sweeps;
}

const double *nnls_x(const struct nnls *s)
{
	return s->x;
}

double nnls_weight(const struct nnls *s)
{
	return s->weight;
}

double nnls_square(const struct nnls *s)
{
	return s->square;
}

double nnls_column_square(const struct nnls *s, unsigned unknown)
{
	return unknown < s->n ? s->gram[(size_t)unknown * s->n + unknown] : 0;
}

double nnls_residual_ratio(const struct nnls *s)
{
	double left = s->square;

	if (!(s->square > 0))
		return NAN;
	for (unsigned u = 0; u < s->n; u++) {
		const double *row = s->gram + (size_t)u * s->n;

		left += s->x[u] * (dot(row, s->x, s->n) - 2 * s->right[u]);
	}
	return fmax(0, left) / s->square;
}

/*
 * The lower triangle L of the scaled equations, in place; its pivots' range.
 * Row by row, so that the inner loop runs along two rows.
 */
static int factor(double *m, unsigned n, double *condition)
{
	double low = INFINITY, high = 0;

	for (unsigned i = 0; i < n; i++) {
		double *ri = m + (size_t)i * n;

		for (unsigned j = 0; j <= i; j++) {
			const double *rj = m + (size_t)j * n;
			double sum = ri[j] - dot(ri, rj, j);

			if (j < i) {
				ri[j] = sum / rj[j];
				continue;
			}
			if (!(sum > PIVOT_MIN))
				return -EDOM;
			low = fmin(low, sum);
			high = fmax(high, sum);
			ri[j] = sqrt(sum);
		}
	}
	*condition = high / low;
	return 0;
}

/* Cell (u, u) of the inverse of L L': the squared length of column u of L's
 * inverse, found by forward substitution into y, [n]. */
static double inverse_cell(const double *m, unsigned n, unsigned u, double *y)
{
	double sum = 0;

	for (unsigned i = u; i < n; i++) {
		const double *row = m + (size_t)i * n;

		y[i] = ((i == u) - dot(row + u, y + u, i - u)) / row[i];
		sum += y[i] * y[i];
	}
	return sum;
}

/* The scaled equations of the unknowns that `keep` has not at 0, the others
 * replaced by x = 0, and their sizes; -EDOM where an unknown has none. */
static int scaled(const struct nnls *s, const double *keep, double *m,
		  double *size)
{
	unsigned n = s->n;

	for (unsigned u = 0; u < n; u++) {
		size[u] = sqrt(s->gram[(size_t)u * n + u] + s->ridge[u]);
		if (!(size[u] > 0))
			return -EDOM;
	}
	for (unsigned u = 0; u < n; u++) {
		for (unsigned k = 0; k < u; k++) {
			bool both = !keep || (keep[u] > 0 && keep[k] > 0);

			m[(size_t)u * n + k] =
				both ? s->gram[(size_t)u * n + k] /
						(size[u] * size[k])
				     : 0;
		}
		m[(size_t)u * n + u] = 1;
	}
	return 0;
}

/* What is minimised, less a constant. */
static double cost(const struct nnls *s, const double *x)
{
	double sum = 0;

	for (unsigned u = 0; u < s->n; u++) {
		const double *row = s->gram + (size_t)u * s->n;

		sum += x[u] * (dot(row, x, s->n) + s->ridge[u] * x[u] -
			       2 * (s->right[u] + s->ridge[u] * s->mean[u]));
	}
	return sum;
}

/* x of L L' (x size) = right / size, for the unknowns that keep has; both may
 * be the same array. */
static void substitute(const struct nnls *s, const double *m,
		       const double *size, const double *keep, double *x)
{
	unsigned n = s->n;

	for (unsigned u = 0; u < n; u++) {
		double right =
			keep[u] > 0 ? (s->right[u] + s->ridge[u] * s->mean[u]) /
					      size[u]
				    : 0;

		x[u] = (right - dot(m + (size_t)u * n, x, u)) /
		       m[(size_t)u * n + u];
	}
	for (unsigned u = n; u-- > 0;) {
		x[u] /= m[(size_t)u * n + u];
		for (unsigned k = 0; k < u; k++)
			x[k] -= m[(size_t)u * n + k] * x[u];
	}
	for (unsigned u = 0; u < n; u++)
		x[u] /= size[u];
}

int nnls_jump(struct nnls *s, unsigned rounds, double *scratch)
{
	unsigned n = s->n, negative = 1;
	double *size = scratch + (size_t)n * n, *x = size + n, c;

	for (unsigned u = 0; u < n; u++)
		x[u] = 1;
	for (unsigned i = 0; i < rounds && negative; i++) {
		if (scaled(s, x, scratch, size) || factor(scratch, n, &c))
			return -EDOM;
		substitute(s, scratch, size, x, x);
		negative = 0;
		for (unsigned u = 0; u < n; u++) {
			negative += x[u] < 0;
			x[u] = fmax(0, x[u]);
		}
	}
	if (cost(s, x) < cost(s, s->x))
		memcpy(s->x, x, n * sizeof(*x));
	return 0;
}

int nnls_variance(const struct nnls *s, double error_variance, double *scratch,
		  double *variance, double *condition)
{
	unsigned n = s->n;
	double *y = scratch + (size_t)n * n, c;

	if (scaled(s, NULL, scratch, y) || factor(scratch, n, &c))
		return -EDOM;
	for (unsigned u = 0; u < n; u++)
		variance[u] = error_variance * inverse_cell(scratch, n, u, y) /
			      (s->gram[(size_t)u * n + u] + s->ridge[u]);
	*condition = c;
	return 0;
}
