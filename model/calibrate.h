/*
 * calibrate.h - what a step takes beside its reads, and how fast those are
 *
 *	T = t0 + bytes / BW
 *
 * Least squares over measured steps of different batches: T and the bytes both
 * measured, BW what reads reach on all GPUs together.  Only where the batches
 * are CALIBRATE_SPREAD apart; else BW is ECONOMICS_BW_ACHIEVED of the data
 * sheet and t0 alone is fitted.  t0 holds launches, host, communication, and
 * whatever grows with nothing.  A fit that cannot be true is refused: BW above
 * the peak, below a tenth of it, or t0 < 0 by more than its error.
 *
 * Points must be bound by memory; whoever collects them leaves others out.
 */
#ifndef MOETOP_MODEL_CALIBRATE_H
#define MOETOP_MODEL_CALIBRATE_H

#include <stdbool.h>

#define CALIBRATE_SPREAD 2.0
#define CALIBRATE_POINTS_MAX 64u

struct calibration_point {
	double batch, bytes, seconds;
};

struct calibration {
	double bw;                    /* bytes per second; 0 unknown */
	double bw_low, bw_high;       /* nine of ten, or for the default: what
				       * kernels are known to reach */
	double fixed_s;               /* t0 >= 0; 0 without points */
	bool fitted;                  /* both; else bw is the default */
	double batch_low, batch_high; /* of the points; 0 without any */
	unsigned n;                   /* points used */
};

/* peak: data-sheet bytes per second of all GPUs, 0 unknown.  Points that are
 * not finite and positive are left out. */
void calibrate(const struct calibration_point *p, unsigned n, double peak,
	       struct calibration *out);

/* t0 for another BW, from the same points: what is left of the mean point. */
double calibrate_fixed(const struct calibration_point *p, unsigned n,
		       double bw);

#endif
