/*
 * plan.h - when a window is due
 *
 * The first one opens when a collector appears, then one every period; sooner
 * when the collector wishes, when steps begin after a pause, and when the mean
 * padded batch or the step rate has differed by more than a quarter from what
 * it was at the last window for 0.3 s.  Never while nothing runs, never less
 * than 1.5 s from start to start, and so far apart that slowdown x duty stays
 * within the budget.  While the slowdown is unknown, after the first few windows
 * never less than a period.  Pure: the caller brings the time and the totals.
 */
#ifndef MOETOP_AGENT_PLAN_H
#define MOETOP_AGENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct plan_totals {       /* only ever grow */
	uint64_t steps;    /* decode and eager */
	uint64_t padded;   /* rows of these steps, padding included */
	uint64_t launches; /* of graphs and kernels: anything at all */
};

struct plan {
	uint64_t period_ns, gap_ns; /* gap: least start to start */
	uint64_t last_start_ns;     /* 0: no window yet */
	uint64_t sample_ns;
	uint64_t busy_ns; /* when launches last grew */
	struct plan_totals sample, window;
	double window_batch, window_rate; /* as of the last window */
	uint32_t differs;                 /* samples in a row that differ */
	uint32_t blind; /* windows in a row of which the cost is unknown */
	uint32_t wish;  /* the collector's count, as last served */
	bool collector, idle, wanted;
};

void plan_init(struct plan *p, uint64_t period_ns);

/* Is a window due?  Call at least ten times a second. */
bool plan_due(struct plan *p, uint64_t now_ns, bool collector, uint32_t wish,
	      const struct plan_totals *now);

/* A window opened at start_ns. */
void plan_opened(struct plan *p, uint64_t start_ns);

/* It was closed: how long it was, the slowdown inside (negative: unknown), and
 * the budget as a ratio. */
void plan_closed(struct plan *p, uint64_t start_ns, uint64_t end_ns,
		 double slowdown, double budget,
		 const struct plan_totals *at_start,
		 const struct plan_totals *at_end);

#endif
