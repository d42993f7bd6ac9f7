/*
 * nnls.h - non-negative least squares over a stream of sparse rows
 *
 * Finds x >= 0 that minimises
 *
 *	sum_t w_t (b_t - sum_j a_tj x_j)^2 + sum_j ridge_j (x_j - mean_j)^2
 *
 * Only the normal equations are kept, n x n, so the memory does not grow with
 * the rows, and old rows can fade.  The solver is cyclic coordinate descent
 * from the last solution: on a quadratic with bounds it ends at the minimum, and
 * between two updates the minimum hardly moves.
 *
 * One thread.  Nothing is allocated after nnls_new.
 */
#ifndef MOETOP_MODEL_NNLS_H
#define MOETOP_MODEL_NNLS_H

#define NNLS_UNKNOWNS_MAX 2048u

struct nnls;

struct nnls_term {
	unsigned unknown; /* below n; each at most once in a row */
	double a;
};

/* n unknowns, 1..NNLS_UNKNOWNS_MAX.  NULL: no memory, or a bad n. */
struct nnls *nnls_new(unsigned n);
void nnls_free(struct nnls *s); /* NULL is legal */

/* Forget everything. */
void nnls_clear(struct nnls *s);

/* One row.  Terms of unknowns that there are not, and rows with a number that
 * is not finite or a weight that is not positive, are left out. */
void nnls_add(struct nnls *s, const struct nnls_term *terms, unsigned n_terms,
	      double b, double weight);

/* Rows so far count `keep` (0..1) times what they did. */
void nnls_fade(struct nnls *s, double keep);

/* The pull of one unknown towards a mean; ridge >= 0, 0 (at first): none. */
void nnls_pull(struct nnls *s, unsigned unknown, double ridge, double mean);

/*
 * Improve the solution by at most `sweeps` passes over the unknowns; fewer when
 * a pass changes nothing by more than `tolerance` of the largest b explained.
 * Returns the passes.  An unknown that no row and no pull speaks of is 0.
 */
unsigned nnls_solve(struct nnls *s, unsigned sweeps, double tolerance);

/*
 * The minimum itself, but for unknowns that ought to leave 0 again (nnls_solve
 * lets them): the equations are solved for those that are not at 0, and again
 * without those that came out negative, at most `rounds` times.  The solution
 * is only ever replaced by a better one.  Scratch and errors as in
 * nnls_variance; -EDOM leaves the solution alone.
 */
int nnls_jump(struct nnls *s, unsigned rounds, double *scratch);

/* The solution, [n]; owned by s. */
const double *nnls_x(const struct nnls *s);

/* Sum of the weights and of w b^2, and of w a^2 of one unknown. */
double nnls_weight(const struct nnls *s);
double nnls_square(const struct nnls *s);
double nnls_column_square(const struct nnls *s, unsigned unknown);

/* sum w (b - A x)^2 over sum w b^2, of the rows that are remembered; NAN
 * without any. */
double nnls_residual_ratio(const struct nnls *s);

/*
 * Variance of each x, [n], for rows whose error has this variance (at weight
 * 1), by the inverse of the normal equations; bounds are not looked at, so the
 * error of an x at 0 is too large.  Also the condition of the equations, their
 * columns scaled to 1, as the ratio of the largest to the smallest pivot.
 * Costs about n^3 / 3 multiplications and n x (n + 2) doubles of scratch.
 * 0, or -EDOM when the equations do not determine x (pivot below 1e-12, or an
 * unknown of which no row and no pull speaks); the results are untouched.
 */
int nnls_variance(const struct nnls *s, double error_variance, double *scratch,
		  double *variance, double *condition);

#endif
