#include "model/calibrate.h"
#include "model/economics.h"

#include <math.h>

/* What kernels were seen to reach, over the data sheet. */
#define REACHED_LOW 0.70
#define REACHED_HIGH 0.93
#define SLOWEST 0.1 /* of the peak: below this something else is timed */
#define POINTS_MIN 3u
#define Z 1.645

struct sums {
	double n, x, y, xx, xy, yy, low, high;
};

static bool usable(const struct calibration_point *p)
{
	return isfinite(p->batch) && p->batch > 0 && isfinite(p->bytes) &&
	       p->bytes > 0 && isfinite(p->seconds) && p->seconds > 0;
}

/* About the means: the plain sums would lose the digits that matter. */
static void add_up(const struct calibration_point *p, unsigned n,
		   struct sums *s)
{
	*s = (struct sums){ .low = INFINITY };
	for (unsigned i = 0; i < n; i++) {
		if (!usable(&p[i]))
			continue;
		s->n += 1;
		s->x += p[i].bytes;
		s->y += p[i].seconds;
		s->low = fmin(s->low, p[i].batch);
		s->high = fmax(s->high, p[i].batch);
	}
	if (!(s->n > 0))
		return;
	s->x /= s->n;
	s->y /= s->n;
	for (unsigned i = 0; i < n; i++) {
		double dx = p[i].bytes - s->x, dy = p[i].seconds - s->y;

		if (!usable(&p[i]))
			continue;
		s->xx += dx * dx;
		s->xy += dx * dy;
		s->yy += dy * dy;
	}
}

/* T = t0 + slope bytes; false when that cannot be. */
static bool fit(const struct sums *s, double peak, struct calibration *out)
{
	double slope, fixed, rest, slope_error, fixed_error;

	if (s->n < POINTS_MIN || s->high < CALIBRATE_SPREAD * s->low ||
	    !(s->xx > 0) || !(s->xy > 0))
		return false;
	slope = s->xy / s->xx;
	fixed = s->y - slope * s->x;
	rest = fmax(s->yy - slope * s->xy, 0) / fmax(s->n - 2, 1);
	slope_error = sqrt(rest / s->xx);
	fixed_error = sqrt(rest * (1 / s->n + s->x * s->x / s->xx));
	if (fixed < -Z * fixed_error)
		return false;
	if (fixed < 0) { /* the best line that begins at no time at all */
		slope = (s->xy + s->n * s->x * s->y) /
			(s->xx + s->n * s->x * s->x);
		fixed = 0;
	}
	if (peak > 0 && (1 / slope > peak || 1 / slope < SLOWEST * peak))
		return false;
	out->bw = 1 / slope;
	out->bw_low = 1 / (slope + Z * slope_error);
	out->bw_high = slope > Z * slope_error ? 1 / (slope - Z * slope_error)
					       : INFINITY;
	if (peak > 0 && out->bw_high > peak)
		out->bw_high = peak;
	out->fixed_s = fixed;
	return isfinite(out->bw) && isfinite(out->bw_high);
}

double calibrate_fixed(const struct calibration_point *p, unsigned n, double bw)
{
	struct sums s;

	add_up(p, n, &s);
	return s.n > 0 && bw > 0 ? fmax(s.y - s.x / bw, 0) : 0;
}

void calibrate(const struct calibration_point *p, unsigned n, double peak,
	       struct calibration *out)
{
	struct calibration c = { 0 };
	struct sums s;

	if (n > CALIBRATE_POINTS_MAX)
		n = CALIBRATE_POINTS_MAX;
	if (!(peak > 0) || !isfinite(peak))
		peak = 0;
	add_up(p, n, &s);
	c.n = (unsigned)s.n;
	c.batch_low = s.n > 0 ? s.low : 0;
	c.batch_high = s.high;
	c.fitted = fit(&s, peak, &c);
	if (!c.fitted) {
		c.bw = ECONOMICS_BW_ACHIEVED * peak;
		c.bw_low = REACHED_LOW * peak;
		c.bw_high = REACHED_HIGH * peak;
		c.fixed_s = calibrate_fixed(p, n, c.bw);
	}
	*out = c;
}
