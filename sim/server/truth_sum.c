#include "sim/server/truth.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
	const struct truth_kernel *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return 0;
}

/* When each layer's block begins and ends. */
struct span {
	uint64_t from_ns, to_ns;
};

static void find_spans(const struct truth_kernels *k, struct span *span)
{
	for (uint32_t i = 0; i < k->n; i++) {
		const struct truth_kernel *t = &k->v[i];

		if (t->opens)
			span[t->layer].from_ns = t->start_ns;
		if (t->closes)
			span[t->layer].to_ns = t->end_ns;
	}
}

/* Where a kernel counts, or NULL: after the last layer. */
static uint64_t *part_of(const struct truth_kernel *t, const struct span *span,
			 struct truth_layer *layer, unsigned layers)
{
	for (unsigned l = t->layer; l < layers && l <= t->layer + 1u; l++) {
		if (t->start_ns < span[l].from_ns)
			return &layer[l].before_ns;
		if (t->start_ns < span[l].to_ns)
			return &layer[l].block_ns;
	}
	return NULL;
}

void truth_sum(struct truth_kernels *k, struct truth_step *s,
	       struct truth_layer *layer, unsigned layers)
{
	struct span span[LAYERS_MAX] = { { 0 } };
	uint64_t covered = 0;

	s->start_ns = s->end_ns = 0;
	for (unsigned c = 0; c < CLASSES; c++)
		s->klass[c] = (struct truth_class){ 0 };
	for (unsigned l = 0; l < layers; l++)
		layer[l].block_ns = layer[l].before_ns = layer[l].expert_ns = 0;
	find_spans(k, span);
	qsort(k->v, k->n, sizeof(k->v[0]), by_start);
	if (k->n)
		s->start_ns = k->v[0].start_ns;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct truth_kernel *t = &k->v[i];
		struct truth_class *c = &s->klass[t->klass];
		uint64_t from = t->start_ns > covered ? t->start_ns : covered;
		uint64_t new_ns = t->end_ns > from ? t->end_ns - from : 0;
		uint64_t *part = part_of(t, span, layer, layers);

		covered = t->end_ns > covered ? t->end_ns : covered;
		c->calls++;
		c->sum_ns += t->end_ns - t->start_ns;
		c->union_ns += new_ns;
		if (part)
			*part += new_ns;
		if (t->expert)
			layer[t->layer].expert_ns += t->end_ns - t->start_ns;
	}
	s->end_ns = covered;
}
