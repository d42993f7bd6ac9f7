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

#endif
