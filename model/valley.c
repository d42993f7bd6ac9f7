#include "model/valley.h"

#include <math.h>
#include <stdbool.h>

#define BATCH_MAX 1e7
#define BISECTIONS 200

static bool is_sane(double e, double k, double b)
{
	return e > 0 && k > 0 && k <= e && b > 0 && isfinite(e) && isfinite(b);
}

double valley_active(double e, double k, double b)
{
	if (!is_sane(e, k, b))
		return 0;
	if (k >= e)
		return e;
	/* 1 - (1 - p)^B without losing digits at small p */
	return -e * expm1(b * log1p(-k / e));
}

double valley_single(double e, double k, double b)
{
	double single, active;

	if (!is_sane(e, k, b))
		return 0;
	if (k >= e)
		return b <= 1 ? e * b : 0;
	single = b * k * exp((b - 1) * log1p(-k / e));
	active = valley_active(e, k, b);
	return single < active ? single : active;
}

double valley_floor(double e, double k)
{
	if (!is_sane(e, k, 1) || k >= e)
		return 0;
	return VALLEY_FLOOR_X / -log1p(-k / e);
}

double valley_peak(double e, double k)
{
	if (!is_sane(e, k, 1) || k >= e)
		return 0;
	return VALLEY_PEAK * -log1p(-k / e) * e / k;
}

/* ---- one-parameter skew ----------------------------------------------- */

/* What Stirling's series adds to (x - 1/2) ln x - x + ln(2 pi)/2. */
static double stirling_tail(double x)
{
	double y = 1 / (x * x);

	return (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680))) / x;
}

/* The plain difference would lose all digits for large x. */
double valley_ln_rise(double x, double n)
{
	int sign;

	if (x < 32)
		return lgamma_r(x + n, &sign) - lgamma_r(x, &sign);
	return (x - 0.5) * log1p(n / x) + n * log(x + n) - n +
	       stirling_tail(x + n) - stirling_tail(x);
}

double valley_skewed_active(double e, double k, double a, double b)
{
	double beta;

	if (!is_sane(e, k, b) || !(a > 0))
		return 0;
	if (a >= VALLEY_SKEW_UNIFORM || k >= e)
		return valley_active(e, k, b);
	beta = a * (e / k - 1);
	return -e *
	       expm1(valley_ln_rise(beta, b) - valley_ln_rise(a + beta, b));
}

double valley_skewed_single(double e, double k, double a, double b)
{
	double beta, single, active;

	if (!is_sane(e, k, b) || !(a > 0))
		return 0;
	if (a >= VALLEY_SKEW_UNIFORM || k >= e)
		return valley_single(e, k, b);
	active = valley_skewed_active(e, k, a, b);
	if (b <= 1)
		return fmin(valley_single(e, k, b), active);
	beta = a * (e / k - 1);
	single = e * b * a *
		 exp(valley_ln_rise(beta, b - 1) - valley_ln_rise(a + beta, b));
	return single < active ? single : active;
}

double valley_skew(double e, double k, double b, double active)
{
	double lo = VALLEY_SKEW_MIN, hi = VALLEY_SKEW_UNIFORM;

	if (!is_sane(e, k, b) || !(active > 0))
		return VALLEY_SKEW_UNIFORM;
	if (active >= valley_skewed_active(e, k, hi, b))
		return hi;
	if (active <= valley_skewed_active(e, k, lo, b))
		return lo;
	for (int i = 0; i < BISECTIONS; i++) {
		double mid = sqrt(lo * hi);

		if (mid <= lo || mid >= hi)
			break;
		if (valley_skewed_active(e, k, mid, b) < active)
			lo = mid;
		else
			hi = mid;
	}
	return sqrt(lo * hi);
}

double valley_batch_at(double e, double k, double a, double share)
{
	double lo = 1, hi = BATCH_MAX;

	if (!is_sane(e, k, 1) || !(a > 0))
		return 0;
	for (int i = 0; i < BISECTIONS && hi / lo > 1 + 1e-9; i++) {
		double mid = sqrt(lo * hi);
		double u = valley_skewed_active(e, k, a, mid);

		if (valley_skewed_single(e, k, a, mid) > share * u)
			lo = mid;
		else
			hi = mid;
	}
	return hi;
}

/* ---- rarefaction ------------------------------------------------------ */

/* C(n - r, b) / C(n, b): the chance that none of b tokens is among r. */
static double miss_chance(uint32_t n, uint32_t r, uint32_t b)
{
	uint32_t few = r < b ? r : b, many = r < b ? b : r;
	double p = 1;

	if (n - many < few)
		return 0;
	for (uint32_t i = 0; i < few; i++)
		p *= (double)(n - many - i) / (double)(n - i);
	return p;
}

double valley_rarefied(const uint32_t *rows, size_t n, uint32_t tokens,
		       uint32_t b)
{
	double sum = 0;

	if (b > tokens)
		b = tokens;
	for (size_t i = 0; i < n; i++) {
		uint32_t r = rows[i] < tokens ? rows[i] : tokens;

		if (r)
			sum += 1 - miss_chance(tokens, r, b);
	}
	return sum;
}
