#include "core/window_hist.h"
#include "wire/clock.h"

#include <string.h>

#define COPY_EVERY_NS (5 * NS_PER_S)

_Static_assert(HIST_BUCKETS <= SAMPLE_HIST_BUCKETS, "every bucket has a place");

void window_hist_init(struct window_hist *w)
{
	memset(w, 0, sizeof(*w));
	w->out.n = HIST_BUCKETS;
	for (uint32_t b = 0; b + 1 < HIST_BUCKETS; b++)
		w->out.upper[b] = (double)hist_bucket_low_ns(b + 1) / 1e9;
	w->out.upper[HIST_BUCKETS - 1] = 2 * w->out.upper[HIST_BUCKETS - 2];
	w->all = w->out;
}

static void keep_copy(struct window_hist *w,
		      const struct request_histogram *now, uint64_t now_ns)
{
	unsigned at = (w->oldest + w->n) % WINDOW_HIST_COPIES;

	if (w->n && now_ns - w->taken_ns < COPY_EVERY_NS)
		return;
	if (w->n == WINDOW_HIST_COPIES)
		w->oldest = (w->oldest + 1) % WINDOW_HIST_COPIES;
	else
		w->n++;
	w->copies[at] = *now;
	w->taken_ns = now_ns;
}

/* A counter that went back belongs to another tracker. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

void window_hist_update(struct window_hist *w,
			const struct request_histogram *now, uint64_t now_ns)
{
	const struct request_histogram *old;

	keep_copy(w, now, now_ns);
	old = &w->copies[w->oldest];
	w->out.count = grown(now->count, old->count);
	w->out.sum = (double)grown(now->sum_ns, old->sum_ns) / 1e9;
	for (unsigned b = 0; b < HIST_BUCKETS; b++)
		w->out.buckets[b] = grown(now->buckets[b], old->buckets[b]);
	w->all.count = now->count;
	w->all.sum = (double)now->sum_ns / 1e9;
	memcpy(w->all.buckets, now->buckets, sizeof(now->buckets));
}
