/*
 * hist.h - quantiles of the bucketed histograms in a sample
 *
 * Straight line inside a bucket, so the error is at most a bucket's width.
 */
#ifndef MOETOP_MODEL_HIST_H
#define MOETOP_MODEL_HIST_H

#include "model/sample.h"
#include "model/snapshot.h"

/* The value below which the share q (0..1) of the counts lies; NAN if empty. */
double hist_quantile(const struct sample_hist *h, double q);

/* h may be NULL: all NO_DATA.  An empty one has a count of 0 and no quantiles. */
void hist_view(const struct sample_hist *h, enum value_source source,
	       struct snapshot_hist *out);

/* A histogram that only grows, whatever the sources do. */
struct hist_total {
	struct snapshot_hist_total all;
	struct sample_hist last; /* of the source that is followed */
};

/* Add what one window saw. */
void hist_total_add(struct hist_total *t, const struct sample_hist *h);

/* h counts since its source began; one that has begun anew (any of its buckets
 * holds less than before) adds all that it has. */
void hist_total_follow(struct hist_total *t, const struct sample_hist *h);

#endif
