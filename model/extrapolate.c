#include "model/extrapolate.h"
#include "model/valley.h"

#include <math.h>

#define BISECTIONS 200

static double clamp(double x, double lo, double hi)
{
	return fmin(fmax(x, lo), hi);
}

double extrapolate_good_toulmin(const uint32_t *rows, size_t n, double tokens,
				double b, double *raw)
{
	double active = 0, sum = 0, t;

	if (!(tokens > 0) || !(b >= tokens)) {
		if (raw)
			*raw = 0;
		return 0;
	}
	t = fmin((b - tokens) / tokens, 1);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i])
			continue;
		active += 1;
		sum += rows[i] % 2 ? -pow(t, rows[i]) : pow(t, rows[i]);
	}
	if (raw)
		*raw = active - sum;
	return clamp(active - sum, active, (double)n);
}

double extrapolate_chao2(double e, double active, double single, double twice,
			 double tokens, double b)
{
	double unseen;

	if (!(tokens > 0) || !(b >= tokens) || !(active > 0) || !(single >= 0))
		return 0;
	unseen = (tokens - 1) / tokens *
		 (twice > 0 ? single * single / (2 * twice)
			    : single * (single - 1) / 2);
	unseen = fmin(e, active + unseen) - active;
	if (!(unseen > 0))
		return fmin(active, e);
	return clamp(active + unseen * -expm1((b - tokens) *
					      log1p(-single / (tokens * unseen +
							       single))),
		     active, e);
}

double extrapolate_equal_experts(double e, double k, double tokens,
				 double active)
{
	double lo = k, hi = e;

	if (!(k > 0) || !(e >= k) || !(tokens > 0) || !isfinite(e) ||
	    !(active >= 0))
		return 0;
	if (active >= valley_active(e, k, tokens))
		return e;
	for (int i = 0; i < BISECTIONS; i++) {
		double mid = 0.5 * (lo + hi);

		if (valley_active(mid, k, tokens) < active)
			lo = mid;
		else
			hi = mid;
	}
	return 0.5 * (lo + hi);
}
