#include "core/expert_rows.h"
#include "wire/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 7u
#define BUCKET_NS (10 * NS_PER_S)

struct expert_rows {
	unsigned layers, experts;
	uint64_t epoch[BUCKETS]; /* number of its ten seconds, 0: empty */
	uint32_t *counts[BUCKETS];
	uint32_t *total;
	uint32_t store[]; /* BUCKETS + 1 times layers x experts */
};

struct expert_rows *expert_rows_new(unsigned layers, unsigned experts)
{
	size_t n = (size_t)layers * experts;
	struct expert_rows *e;

	e = calloc(1, sizeof(*e) + (BUCKETS + 1) * n * sizeof(uint32_t));
	if (!e)
		return NULL;
	e->layers = layers;
	e->experts = experts;
	for (unsigned b = 0; b < BUCKETS; b++)
		e->counts[b] = e->store + b * n;
	e->total = e->store + BUCKETS * n;
	return e;
}

void expert_rows_free(struct expert_rows *e)
{
	free(e);
}

static size_t shape_bytes(const struct expert_rows *e)
{
	return (size_t)e->layers * e->experts * sizeof(uint32_t);
}

static void add_capped(uint32_t *to, uint32_t rows)
{
	*to = rows > UINT32_MAX - *to ? UINT32_MAX : *to + rows;
}

int expert_rows_add(struct expert_rows *e, const struct rec_experts *r,
		    uint64_t now_ns)
{
	uint64_t epoch = now_ns / BUCKET_NS + 1;
	unsigned b = (unsigned)(epoch % BUCKETS);
	uint32_t *row;

	if (r->layer >= e->layers || r->count > EXPERTS_PER_RECORD ||
	    (uint32_t)r->first + r->count > e->experts)
		return -EBADMSG;
	if (r->phase != PHASE_DECODE)
		return 0;
	if (e->epoch[b] != epoch) {
		memset(e->counts[b], 0, shape_bytes(e));
		e->epoch[b] = epoch;
	}
	row = e->counts[b] + (size_t)r->layer * e->experts + r->first;
	for (unsigned i = 0; i < r->count; i++)
		add_capped(&row[i], r->rows[i]);
	return 0;
}

const uint32_t *expert_rows_total(struct expert_rows *e, uint64_t now_ns)
{
	uint64_t epoch = now_ns / BUCKET_NS + 1;
	size_t n = (size_t)e->layers * e->experts;
	bool any = false;

	memset(e->total, 0, shape_bytes(e));
	for (unsigned b = 0; b < BUCKETS; b++) {
		if (!e->epoch[b] || epoch - e->epoch[b] >= BUCKETS)
			continue;
		for (size_t i = 0; i < n; i++)
			add_capped(&e->total[i], e->counts[b][i]);
		any = true;
	}
	return any ? e->total : NULL;
}
