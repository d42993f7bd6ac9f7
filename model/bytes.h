/*
 * bytes.h - DRAM bytes of each MoE layer, from counters that know no layers
 *
 * A counter sample is the bytes of the whole GPU in some interval of about a
 * millisecond, in which kernels of a dozen layers ran.  Kernel records say for
 * how long those of each (layer, kernel group) ran in it.  With one rate, in
 * bytes per busy nanosecond, for each pair, a sample is
 *
 *	bytes_t = sum_j rate_j busy_tj + error
 *
 * and the rates are a non-negative least-squares problem (model/nnls.h) over
 * many samples.  A sample is never split in proportion to time: that gives
 * kernels which are bound by bandwidth too little, at every interval longer
 * than they are.
 *
 * Two fits run side by side.  The first has one rate per group.  The second has
 * one per (layer, group), each pulled towards its group's rate as strongly as
 * the data are poor: with a ridge of error variance over (RATE_SPREAD x group
 * rate)^2, which is the posterior mean of layers that differ by RATE_SPREAD.
 * Which one is used is what their own errors say, bytes_estimate.method.
 *
 * It holds for stationary rates, and takes what other processes read for the
 * server's.  Source of the method and of its limits: simulations of 48 layers
 * at 0.5 to 1 ms; an interval that is locked to the steps cannot be told
 * apart, so samples must be jittered.
 */
#ifndef MOETOP_MODEL_BYTES_H
#define MOETOP_MODEL_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#define BYTES_LAYERS_MAX 128u
#define BYTES_GROUPS_MAX 8u

enum bytes_method {
	BYTES_NOTHING, /* too little data for any rate */
	BYTES_TOTAL,   /* the sum of the samples only */
	BYTES_GROUPS,  /* one rate per group, the same in all layers */
	BYTES_LAYERS   /* one rate per layer and group */
};

/*
 * The clocks of counters and kernel records may differ by some microseconds,
 * which at these intervals is enough to move bytes between groups.  The offset
 * is therefore fitted, too: of BYTES_OFFSETS offsets, BYTES_OFFSET_STEP_NS
 * apart around 0, the one that leaves the smallest error of the group fit over
 * all remembered windows, then the vertex of the parabola through it and its
 * neighbours.
 */
#define BYTES_OFFSETS 21u
#define BYTES_OFFSET_STEP_NS 10000.0

/* A run of kernels of one pair, by the clock of the kernel records. */
struct bytes_span {
	uint16_t layer, group; /* as in struct bytes_part */
	uint64_t start_ns, end_ns;
};

/* One sample, by the clock of the counters. */
struct bytes_sample {
	uint64_t start_ns, end_ns;
	double dram_bytes;
};

/* layer: 0 .. layers - 1, or `layers` for what is in no MoE layer. */
struct bytes_part {
	unsigned layer, group;
	double busy_ns;
};

struct bytes_estimate {
	enum bytes_method method;
	double samples;        /* remembered, faded ones in part */
	double residual_ratio; /* rms of the error over rms of the samples */
	double condition;      /* of the equations of the fit in use */
	/* root mean square over the layers of the standard error of what a
	 * layer's expert group reads, relative; NAN unknown */
	double layer_error_ratio;
	double groups_error_ratio; /* the same of the group rates */
	double bytes, interval_ns; /* sums over the remembered samples */
	double offset_ns; /* added to kernel times to get counter times */
};

struct bytes;

/* layers 1..BYTES_LAYERS_MAX, groups 1..BYTES_GROUPS_MAX; expert: the group of
 * the expert kernels, whose errors decide.  NULL: no memory, or out of range. */
struct bytes *bytes_new(unsigned layers, unsigned groups, unsigned expert);
void bytes_free(struct bytes *b); /* NULL is legal */

/* One sample.  Bad parts are left out, a bad sample is ignored; parts of the
 * same pair may come more than once. */
void bytes_add(struct bytes *b, double dram_bytes, double interval_ns,
	       const struct bytes_part *parts, unsigned n);

/*
 * One window: all spans of it, ascending by start, and the samples, ascending,
 * that lie in or around it.  Samples that are not wholly inside, by all offsets,
 * are left out, and so are those that touch a span whose group is not below
 * `groups`: nobody knows what ran there.  A layer beyond the last is none.
 * Overlapping spans of different pairs both count in full; of the same pair
 * they must not overlap.  Returns the samples used.
 */
unsigned bytes_window(struct bytes *b, const struct bytes_span *spans,
		      unsigned n_spans, const struct bytes_sample *samples,
		      unsigned n_samples);

/* Samples so far count `keep` (0..1) of what they did: called after each
 * interval with exp(-interval / memory). */
void bytes_fade(struct bytes *b, double keep);

/*
 * Fit.  Cheap enough for every snapshot: a few passes from the last solution.
 * With `errors` the equations are also inverted (tens of milliseconds at 61
 * layers): method, condition and errors are then made anew, else they stay.
 */
void bytes_solve(struct bytes *b, bool errors, struct bytes_estimate *out);

/* Bytes per busy nanosecond by the method of the last fit, >= 0; NAN where it
 * has none (BYTES_NOTHING, BYTES_TOTAL, a pair that never ran). */
double bytes_rate(const struct bytes *b, unsigned layer, unsigned group);

#endif
