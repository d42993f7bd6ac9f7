/*
 * window_hist.h - the last minute of a histogram that only grows
 *
 * The kernel's histograms count since the tracker was opened.  A copy is kept
 * every five seconds; the last minute is the newest minus the oldest copy.
 */
#ifndef MOETOP_CORE_WINDOW_HIST_H
#define MOETOP_CORE_WINDOW_HIST_H

#include <stdint.h>

#include "model/sample.h"
#include "wire/requests.h"

#define WINDOW_HIST_COPIES 13u

struct window_hist {
	unsigned n, oldest; /* copies kept */
	uint64_t taken_ns;  /* time of the newest copy */
	struct request_histogram copies[WINDOW_HIST_COPIES];
	struct sample_hist out, all; /* the last minute; since the beginning */
};

void window_hist_init(struct window_hist *w);

/* Take in the histogram as it is now; what came in the last 60 to 65 s (less
 * at the beginning) is then in w->out, in seconds; all
 * of it in w->all. */
void window_hist_update(struct window_hist *w,
			const struct request_histogram *now, uint64_t now_ns);

#endif
