/*
 * budget.h - what the agent costs the server
 *
 * Windows: steps of one executable graph inside windows against steps of the
 * same graph outside, by the time from one cuGraphLaunch to the next.  The
 * slowdown is the ratio of sums over graphs that have both,
 *
 *	slowdown = sum n_in (mean_in - mean_out) / sum n_in mean_out
 *
 * and counts only when it is larger than twice its standard error.  Outside
 * windows: time spent in callbacks, and the agent's own CPU time as a share of
 * the machine's.  Pure arithmetic: no clock is read here.
 */
#ifndef MOETOP_AGENT_BUDGET_H
#define MOETOP_AGENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Executable graphs by their index, then eager steps by the binary logarithm of
 * their rows. */
#define BUDGET_EAGER 2048u
#define BUDGET_GRAPHS (BUDGET_EAGER + 32u)
#define BUDGET_UNKNOWN 0xffffffffu

struct step_stat {
	double n, mean, m2; /* Welford */
	bool fresh;         /* has grown since the last budget_age */
};

struct budget {
	struct step_stat in[BUDGET_GRAPHS], out[BUDGET_GRAPHS];
	/* Totals at the marks: the cost is taken over the time since `old`. */
	struct budget_mark {
		uint64_t time_ns, window_ns, callback_ns, cpu_ns;
	} old, recent;
	uint32_t over; /* windows there were when the cost became too high */
};

/* One step of graph (an index below BUDGET_GRAPHS) took ns. */
void budget_step(struct budget *b, uint32_t graph, uint64_t ns, bool window);

/* Let the past count half, but for what is still too little to tell.  Call when
 * a window has closed. */
void budget_age(struct budget *b);

/* Relative slowdown inside windows, >= 0.  False: too few steps to know. */
bool budget_slowdown(const struct budget *b, double *ratio);

/*
 * The cost since 20 to 40 s ago in millionths of the time that passed (at least
 * 20 s count as passed), given the totals of now; BUDGET_UNKNOWN when windows
 * were open and their slowdown is not known.  cpus: processors usable by the
 * process.
 */
uint32_t budget_overhead_ppm(struct budget *b, const struct budget_mark *now,
			     unsigned cpus);

/*
 * Shall windows stop?  When the cost is more than four times the budget, and
 * still is after two more windows, which come further apart by then
 * (agent/plan.h): a busy moment of the host is no reason.  windows: that were
 * closed in this life.
 */
bool budget_stop(struct budget *b, uint32_t ppm, uint64_t budget_ppm,
		 uint32_t windows);

#endif
