/*
 * buckets.h - a histogram of times as a picture, on a log axis
 */
#ifndef MOETOP_TUI_BUCKETS_H
#define MOETOP_TUI_BUCKETS_H

#include "model/snapshot.h"
#include "tui/format.h"
#include "tui/grid.h"

#define BUCKETS_ROWS_LEAST 3 /* title, one of bars, axis */

/*
 * Spread the counts over n columns that divide the log axis evenly from the
 * first bucket to the last, and say where that begins and ends.  A bucket is
 * taken to be 1/16 octave wide, or as wide as the way from the one before it.
 * False, and nothing written, when there is nothing to show.
 */
bool buckets_spread(const struct snapshot_hist *h, unsigned n, double *out,
		    double *from, double *to);

/* Title with p50, p90 and p99, the bars, and the axis with the three marked. */
void buckets_draw(struct grid *g, struct rect r, const char *title,
		  const struct snapshot_hist *h, enum number_form form,
		  unsigned about);

#endif
