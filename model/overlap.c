#include "model/overlap.h"

#include <math.h>

static double ratio(double num, double den)
{
	return den > 0 ? fmin(fmax(num / den, 0), 1) : NAN;
}

void overlap_measured(const struct sample_rows *r,
		      const struct sample_clusters *clusters, double top_k,
		      struct overlap *out)
{
	double squares = NAN, pairs = r->sum_squares - r->rows;
	double tokens = r->cells * top_k > 0 ? r->rows / (r->cells * top_k) : 0;

	*out = (struct overlap){ NAN, NAN };
	if (!(tokens > 1))
		return;
	out->rows_ratio = ratio(r->rows - r->single, r->rows);
	/* sum over cells of k B (B - 1) = (R^2 / k - R) */
	if (clusters && clusters->cell_rows_squared > 0)
		squares = clusters->cell_rows_squared;
	else
		squares = r->rows * r->rows / r->cells;
	out->pair_ratio = ratio(pairs, squares / top_k - r->rows);
}

void overlap_expected(const struct traffic *t, double batch,
		      struct overlap *out)
{
	double rows = t->top_k * batch;

	*out = (struct overlap){ NAN, NAN };
	if (!(t->experts > 0) || !(batch > 1))
		return;
	out->rows_ratio = ratio(rows - traffic_single(t, batch), rows);
	out->pair_ratio = traffic_pair_ratio(t);
}
