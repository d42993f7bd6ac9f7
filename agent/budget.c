#include "agent/budget.h"

#define SPAN_NS 20000000000ull
#define STEPS_LEAST 8.0

void budget_step(struct budget *b, uint32_t graph, uint64_t ns, bool window)
{
	struct step_stat *s = window ? &b->in[graph] : &b->out[graph];
	double x = (double)ns, d = x - s->mean;

	s->fresh = true;
	s->n += 1;
	s->mean += d / s->n;
	s->m2 += d * (x - s->mean);
}

/* What still gathers is left alone until there is enough of it: windows that
 * hold few steps each would else never say anything. */
static void fade(struct step_stat *s)
{
	bool gathers = s->fresh && s->n < 2 * STEPS_LEAST;

	s->fresh = false;
	if (gathers)
		return;
	s->n /= 2;
	s->m2 /= 2;
	if (s->n < 1)
		*s = (struct step_stat){ 0 };
}

void budget_age(struct budget *b)
{
	for (uint32_t g = 0; g < BUDGET_GRAPHS; g++) {
		if (b->in[g].n > 0)
			fade(&b->in[g]);
		if (b->out[g].n > 0)
			fade(&b->out[g]);
	}
}

static double mean_variance(const struct step_stat *s)
{
	return s->m2 / (s->n - 1) / s->n;
}

bool budget_slowdown(const struct budget *b, double *ratio)
{
	double excess = 0, base = 0, variance = 0;

	for (uint32_t g = 0; g < BUDGET_GRAPHS; g++) {
		const struct step_stat *in = &b->in[g], *out = &b->out[g];

		if (in->n < STEPS_LEAST || out->n < STEPS_LEAST)
			continue;
		excess += in->n * (in->mean - out->mean);
		base += in->n * out->mean;
		variance += in->n * in->n *
			    (mean_variance(in) + mean_variance(out));
	}
	if (!(base > 0))
		return false;
	*ratio = excess * excess > 4 * variance && excess > 0 ? excess / base
							      : 0;
	return true;
}

uint32_t budget_overhead_ppm(struct budget *b, const struct budget_mark *now,
			     unsigned cpus)
{
	double slowdown = 0, span, cost;
	uint64_t window_ns = now->window_ns - b->old.window_ns;

	if (!budget_slowdown(b, &slowdown) && window_ns)
		return BUDGET_UNKNOWN;
	span = (double)(now->time_ns - b->old.time_ns);
	span = span > (double)SPAN_NS ? span : (double)SPAN_NS;
	cost = slowdown * (double)window_ns +
	       (double)(now->callback_ns - b->old.callback_ns) +
	       (double)(now->cpu_ns - b->old.cpu_ns) / (cpus ? cpus : 1);
	if (now->time_ns - b->recent.time_ns >= SPAN_NS) {
		b->old = b->recent;
		b->recent = *now;
	}
	cost = 1e6 * cost / span;
	return cost < 4e9 ? (uint32_t)(cost + 0.5) : BUDGET_UNKNOWN - 1;
}

bool budget_stop(struct budget *b, uint32_t ppm, uint64_t budget_ppm,
		 uint32_t windows)
{
	if (ppm == BUDGET_UNKNOWN || ppm <= 4 * budget_ppm || !windows) {
		b->over = 0;
		return false;
	}
	if (!b->over)
		b->over = windows;
	return windows - b->over >= 2;
}
