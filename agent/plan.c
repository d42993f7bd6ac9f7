#include "agent/plan.h"

#define SAMPLE_NS 100000000ull
#define GAP_NS 1500000000ull
#define IDLE_NS 500000000ull
#define DIFFERS 3 /* samples in a row */
#define CHANGE 0.25
#define BLIND_MOST 4 /* windows that may follow each other at unknown cost */
#define BUDGET_LEAST 1e-6

void plan_init(struct plan *p, uint64_t period_ns)
{
	*p = (struct plan){ .period_ns = period_ns,
			    .gap_ns = GAP_NS,
			    .idle = true };
}

static bool changed(double now, double then)
{
	return now > then * (1 + CHANGE) || now < then * (1 - CHANGE);
}

static void sample(struct plan *p, uint64_t now_ns,
		   const struct plan_totals *now)
{
	uint64_t steps = now->steps - p->sample.steps;
	double seconds = (double)(now_ns - p->sample_ns) * 1e-9;
	double rate = (double)steps / seconds;
	double batch =
		steps ? (double)(now->padded - p->sample.padded) / (double)steps
		      : 0;

	/* One step more or less in a sample is no change of rate. */
	if (steps && (changed(batch, p->window_batch) ||
		      (steps > 8 && changed(rate, p->window_rate))))
		p->differs++;
	else
		p->differs = 0;
	p->sample = *now;
	p->sample_ns = now_ns;
}

static void watch(struct plan *p, uint64_t now_ns,
		  const struct plan_totals *now)
{
	if (now->launches != p->window.launches) {
		if (p->idle)
			p->wanted = true;
		p->idle = false;
		p->busy_ns = now_ns;
		p->window.launches = now->launches;
	} else if (now_ns - p->busy_ns > IDLE_NS) {
		p->idle = true;
	}
	if (!p->sample_ns) {
		p->sample_ns = now_ns;
		p->sample = *now;
	} else if (now_ns - p->sample_ns >= SAMPLE_NS) {
		sample(p, now_ns, now);
	}
}

bool plan_due(struct plan *p, uint64_t now_ns, bool collector, uint32_t wish,
	      const struct plan_totals *now)
{
	bool due;

	watch(p, now_ns, now);
	if (collector && !p->collector)
		p->wanted = true;
	p->collector = collector;
	if (!collector || p->idle)
		return false;
	due = p->wanted || wish != p->wish || p->differs >= DIFFERS ||
	      now_ns - p->last_start_ns >= p->period_ns;
	if (!due || (p->last_start_ns && now_ns - p->last_start_ns < p->gap_ns))
		return false;
	p->wish = wish;
	return true;
}

void plan_opened(struct plan *p, uint64_t start_ns)
{
	p->last_start_ns = start_ns;
	p->wanted = false;
	p->differs = 0;
}

static uint64_t least_gap_ns(struct plan *p, double length_ns, double slowdown,
			     double budget)
{
	double gap;

	p->blind = slowdown < 0 ? p->blind + 1 : 0;
	if (p->blind >= BLIND_MOST)
		return p->period_ns > GAP_NS ? p->period_ns : GAP_NS;
	if (p->blind)
		return GAP_NS;
	gap = slowdown * length_ns /
	      (budget > BUDGET_LEAST ? budget : BUDGET_LEAST);
	return gap > (double)GAP_NS ? (uint64_t)gap : GAP_NS;
}

void plan_closed(struct plan *p, uint64_t start_ns, uint64_t end_ns,
		 double slowdown, double budget,
		 const struct plan_totals *at_start,
		 const struct plan_totals *at_end)
{
	double length = (double)(end_ns - start_ns);
	uint64_t steps = at_end->steps - at_start->steps;

	p->gap_ns = least_gap_ns(p, length, slowdown, budget);
	p->window_rate = length > 0 ? (double)steps * 1e9 / length : 0;
	p->window_batch = steps ? (double)(at_end->padded - at_start->padded) /
					  (double)steps
				: 0;
	p->differs = 0;
}
