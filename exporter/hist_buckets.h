/*
 * hist_buckets.h - a histogram that only grows, in Prometheus' two shapes
 *
 * Classic: counts at or below fixed bounds.  Native: exponential buckets, four
 * in an octave times 2^(schema - 2).  A bucket of the source goes as a whole to
 * where its middle is (its upper bound, where values are whole numbers), so
 * that no count is ever split and every bucket only grows.  The source has 16
 * buckets an octave, 3 to 6 % wide; with schema 5 (2.2 %) a value read back is
 * off by at most the width of its source bucket.
 */
#ifndef MOETOP_EXPORTER_HIST_BUCKETS_H
#define MOETOP_EXPORTER_HIST_BUCKETS_H

#include <stdint.h>

#include "model/snapshot.h"

#define HIST_BOUNDS_MAX 24u
#define HIST_NATIVE_SCHEMA 5
#define HIST_NATIVE_MAX SNAPSHOT_TOTAL_BUCKETS
/* 2^(-634/32) s = 1.09 us, the end of the source's first bucket; a bound of
 * the schema. */
#define HIST_ZERO_INDEX (-634)

struct hist_native {
	int index; /* values in (2^((index - 1) / 32), 2^(index / 32)] */
	uint64_t count;
};

struct hist_buckets {
	uint64_t count;
	double sum;
	unsigned n_bounds; /* without +Inf */
	const double *bounds;
	uint64_t cumulative[HIST_BOUNDS_MAX];
	uint64_t zero_count; /* at most hist_zero_threshold() */
	unsigned n_native;   /* not empty, ascending */
	struct hist_native native[HIST_NATIVE_MAX];
};

/* t is known. */
void hist_buckets_fill(const struct snapshot_hist_total *t,
		       enum histogram_id id, struct hist_buckets *out);

double hist_zero_threshold(void);

/* The classic bounds of one histogram. */
const double *hist_bounds(enum histogram_id id, unsigned *n);

#endif
