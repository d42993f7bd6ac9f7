#include "tui/history.h"

#include <math.h>
#include <string.h>

/* The slots stand still until so many are over: a cell of a braille graph. */
#define SLOTS_PER_STEP 2.0
#define SPACING_S (HISTORY_SECONDS / HISTORY_POINTS)
/* A value stands for this many intervals before the graph shows a gap. */
#define HOLD_INTERVALS 2.0
#define RATE_SECONDS 5.0

static const enum metric_id sources[HISTORY_TTFT_P50 + 1] = {
	[HISTORY_TOKENS_PER_STEP] = METRIC_TOKENS_PER_STEP,
	[HISTORY_FRAGMENTATION] = METRIC_FRAGMENTATION,
	[HISTORY_MARGINAL_GAIN] = METRIC_MARGINAL_GAIN,
	[HISTORY_MBU] = METRIC_MBU,
	[HISTORY_USEFUL_MBU] = METRIC_USEFUL_MBU,
	[HISTORY_MFU] = METRIC_MFU,
	[HISTORY_IN_FLIGHT] = METRIC_IN_FLIGHT,
	[HISTORY_ARRIVALS] = METRIC_ARRIVALS,
	[HISTORY_EVENTS] = METRIC_EVENTS,
	[HISTORY_TOKENS] = METRIC_TOKENS,
	[HISTORY_STEP_SECONDS] = METRIC_STEP_SECONDS,
	[HISTORY_TTFT_P50] = METRICS,
};

static double number(struct value v)
{
	return value_known(v) && isfinite(v.v) ? v.v : NAN;
}

static void fill(struct history_point *p, const struct snapshot *s)
{
	p->time = s->time;
	p->interval_s = s->interval_s > 0 ? s->interval_s : 1;
	for (unsigned i = 0; i <= HISTORY_TTFT_P50; i++)
		p->v[i] = number(sources[i] < METRICS
					 ? s->metrics[sources[i]]
					 : s->hists[HISTOGRAM_TTFT].p50);
	p->completed = number(s->metrics[METRIC_COMPLETED]);
	p->aborted = number(s->metrics[METRIC_ABORTED]);
}

/* i = 0 is the newest. */
static const struct history_point *back(const struct history *h, unsigned i)
{
	return &h->points[(h->newest + HISTORY_POINTS - i) % HISTORY_POINTS];
}

static double rate(double now, double then, double seconds)
{
	return seconds > 0 && now >= then ? (now - then) / seconds
					  : (double)NAN;
}

/* Of the newest point's totals, over the last RATE_SECONDS. */
static void fill_rates(struct history *h)
{
	struct history_point *p = &h->points[h->newest];
	const struct history_point *then = p;

	for (unsigned i = 1; i < h->n; i++) {
		then = back(h, i);
		if (then->time <= p->time - RATE_SECONDS)
			break;
	}
	p->v[HISTORY_COMPLETED] =
		rate(p->completed, then->completed, p->time - then->time);
	p->v[HISTORY_ABORTED] =
		rate(p->aborted, then->aborted, p->time - then->time);
}

void history_add(struct history *h, const struct snapshot *s)
{
	if (!isfinite(s->time))
		return;
	if (h->n && s->time < back(h, 0)->time)
		h->n = 0;
	bool replace = h->n > 0 && s->time <= back(h, 0)->time;
	if (h->n > 1 && back(h, 0)->time < back(h, 1)->time + SPACING_S)
		replace = true;
	if (!replace) {
		h->newest = h->n ? (h->newest + 1) % HISTORY_POINTS : 0;
		h->n += h->n < HISTORY_POINTS;
	}
	fill(&h->points[h->newest], s);
	fill_rates(h);
}

static const struct span {
	double seconds;
	const char *name;
} spans[] = { { HISTORY_SECONDS, "5 min" }, { 60, "1 min" }, { 15, "15 s" } };
#define SPANS (sizeof(spans) / sizeof(*spans))

static size_t span_index(const struct history *h)
{
	size_t i = 0;

	while (i + 1 < SPANS && spans[i].seconds > history_span(h))
		i++;
	return i;
}

const char *history_span_name(const struct history *h)
{
	return spans[span_index(h)].name;
}

void history_zoom(struct history *h)
{
	h->span_s = spans[(span_index(h) + 1) % SPANS].seconds;
}

void history_series(const struct history *h, enum history_series which,
		    unsigned n, double *out)
{
	double slot = history_span(h) / n, step = slot * SLOTS_PER_STEP;
	double now = h->n ? back(h, 0)->time : 0;
	/* end of the newest slot, which may be still to come */
	double last = ceil(now / step - 1e-6) * step;
	unsigned i = 0;

	for (unsigned age = 0; age < n; age++) {
		double end = fmin(last - age * slot, now);
		double *v = &out[n - 1 - age];
		*v = NAN;
		while (i < h->n && back(h, i)->time > end)
			i++;
		if (i == h->n)
			continue;
		const struct history_point *p = back(h, i);
		double hold = p->interval_s * HOLD_INTERVALS;
		if (p->time > end - (hold > slot ? hold : slot))
			*v = p->v[which];
	}
}
