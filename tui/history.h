/*
 * history.h - the last five minutes of the few values that have a graph
 *
 * A ring of fixed size.  Snapshots that come faster than the ring can hold
 * five minutes of replace the newest entry, so the span is always there and
 * the memory never grows.  A snapshot that is not newer than the last one
 * replaces it when the times are equal (a redraw) and starts a new history
 * when time ran backwards (another recording).
 */
#ifndef MOETOP_TUI_HISTORY_H
#define MOETOP_TUI_HISTORY_H

#include "model/snapshot.h"

#define HISTORY_SECONDS 300.0
#define HISTORY_POINTS 600u

enum history_series {
	HISTORY_TOKENS_PER_STEP,
	HISTORY_FRAGMENTATION,
	HISTORY_MARGINAL_GAIN,
	HISTORY_MBU,
	HISTORY_USEFUL_MBU,
	HISTORY_MFU,
	HISTORY_IN_FLIGHT,
	HISTORY_ARRIVALS,
	HISTORY_EVENTS,
	HISTORY_TOKENS,
	HISTORY_STEP_SECONDS,
	HISTORY_TTFT_P50,
	HISTORY_COMPLETED, /* per second, over the last few */
	HISTORY_ABORTED,
	HISTORY_SERIES
};

struct history_point {
	double time;               /* unix seconds */
	double interval_s;         /* of the snapshot */
	double v[HISTORY_SERIES];  /* NAN: unknown */
	double completed, aborted; /* totals, NAN: unknown */
};

struct history {
	unsigned n, newest; /* points in use; index of the newest */
	double span_s;      /* that is shown; 0: HISTORY_SECONDS */
	struct history_point points[HISTORY_POINTS];
};

/* All-zero is the empty history. */
void history_add(struct history *h, const struct snapshot *s);

/* The span that is shown, in seconds, and in words: "5 min", "15 s". */
static inline double history_span(const struct history *h)
{
	return h->span_s > 0 ? h->span_s : HISTORY_SECONDS;
}
const char *history_span_name(const struct history *h);

/* The next of 5 min, 1 min, 15 s. */
void history_zoom(struct history *h);

/*
 * The series over the last history_span() in n equal slots, oldest first: the
 * newest value of each slot, the one before it where the snapshots are further
 * apart than the slots, NAN where nothing is known.  Slots begin at multiples
 * of their length, and move on by two at a time: what has been drawn stays as
 * it is and only moves.
 */
void history_series(const struct history *h, enum history_series which,
		    unsigned n, double *out);

#endif
