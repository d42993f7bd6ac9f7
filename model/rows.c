#include "model/rows.h"

#include <math.h>

void rows_add_cell(struct sample_rows *sums, const uint32_t *rows, size_t n)
{
	double most = 0;

	for (size_t e = 0; e < n; e++) {
		double r = rows[e];

		sums->rows += r;
		sums->active += r > 0;
		sums->single += rows[e] == 1;
		sums->twice += rows[e] == 2;
		sums->sum_squares += r * r;
		most = fmax(most, r);
	}
	sums->max_rows += most;
	sums->experts += (double)n;
	sums->cells += 1;
}

void rows_add(struct sample_rows *sums, const struct sample_rows *other)
{
	sums->cells += other->cells;
	sums->rows += other->rows;
	sums->active += other->active;
	sums->single += other->single;
	sums->twice += other->twice;
	sums->sum_squares += other->sum_squares;
	sums->max_rows += other->max_rows;
	sums->experts += other->experts;
	sums->padded_rows += other->padded_rows;
}

bool rows_sane(const struct sample_rows *s)
{
	const double all[] = { s->cells,       s->rows,     s->active,
			       s->single,      s->twice,    s->padded_rows,
			       s->sum_squares, s->max_rows, s->experts };

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!(all[i] >= 0) || !isfinite(all[i]))
			return false;
	return s->single <= s->active && s->active <= s->rows &&
	       s->active <= s->experts;
}

void rows_ratios(const struct sample_rows *s, enum value_source source,
		 struct row_ratios *out)
{
	double u = s->active;

	out->coverage = value_ratio(u, s->rows > 0 ? s->experts : 0, source);
	out->fragmentation = value_ratio(u, s->rows, source);
	out->per_active = value_ratio(s->rows, u, source);
	out->single = value_ratio(s->single, u, source);
	out->valley = value_ratio(u * u, s->experts * s->rows, source);
	out->elasticity = value_ratio(u - s->single, u, source);
}

struct value rows_mean(const struct sample_rows *s, double sum,
		       enum value_source source)
{
	return value_ratio(sum, s->cells, source);
}

double rows_effective_experts(const uint32_t *rows, size_t n)
{
	double total = 0, pairs = 0, n2;

	for (size_t e = 0; e < n; e++) {
		total += rows[e];
		pairs += (double)rows[e] * ((double)rows[e] - 1);
	}
	if (total < 2)
		return NAN;
	n2 = pairs > 0 ? total * (total - 1) / pairs : (double)n;
	return fmin(n2, (double)n);
}

double rows_entropy(const uint32_t *rows, size_t n)
{
	double total = 0, h = 0;

	for (size_t e = 0; e < n; e++)
		total += rows[e];
	if (total <= 0 || n < 2)
		return 0;
	for (size_t e = 0; e < n; e++)
		if (rows[e])
			h -= rows[e] / total * log(rows[e] / total);
	return h / log((double)n);
}
