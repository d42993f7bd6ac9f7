#include "cupti/reduce.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cupti/reduce_parts.h"

#define RADIX_BITS 11
#define RADIX (1u << RADIX_BITS)

/* Zero pages that cost nothing until a window fills them. */
static void *pages_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void pages_free(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

struct reduce *reduce_new(size_t events, struct kernel_names *names)
{
	struct reduce *r = pages_new(sizeof(*r));

	if (!r)
		return NULL;
	r->names = names;
	r->max = events;
	r->first_name = UINT32_MAX;
	r->ev = pages_new(events * sizeof(*r->ev));
	r->spare = pages_new(events * sizeof(*r->spare));
	r->owner = pages_new(events * sizeof(*r->owner));
	if (!r->ev || !r->spare || !r->owner) {
		reduce_free(r);
		return NULL;
	}
	return r;
}

void reduce_free(struct reduce *r)
{
	if (!r)
		return;
	pages_free(r->ev, r->max * sizeof(*r->ev));
	pages_free(r->spare, r->max * sizeof(*r->spare));
	pages_free(r->owner, r->max * sizeof(*r->owner));
	munmap(r, sizeof(*r));
}

void reduce_begin(struct reduce *r)
{
	r->n = 0;
	r->replays = r->segments = r->stretches = r->bounds = 0;
	r->layers = r->draft = r->inner_lead = 0;
	memset(r->replay_slot, 0, sizeof(r->replay_slot));
	memset(r->stat, 0, sizeof(r->stat));
	memset(&r->result, 0, offsetof(struct reduce_result, step));
	memset(r->result.sum, 0, sizeof(r->result.sum));
}

int reduce_add(struct reduce *r, const struct reduce_event *e)
{
	if (r->n == r->max)
		return -ENOSPC;
	r->ev[r->n++] = *e;
	return 0;
}

size_t reduce_events(const struct reduce *r)
{
	return r->n;
}

/* ---- order --------------------------------------------------------------- */

/* The range of starts; true when they are already in order. */
static bool scan_starts(const struct reduce *r, uint64_t *low, uint64_t *high)
{
	bool sorted = true;

	*low = *high = r->ev[0].start;
	for (size_t i = 1; i < r->n; i++) {
		uint64_t t = r->ev[i].start;

		sorted = sorted && t >= r->ev[i - 1].start;
		*low = t < *low ? t : *low;
		*high = t > *high ? t : *high;
	}
	return sorted;
}

static void radix_pass(struct reduce *r, uint64_t low, int shift)
{
	struct reduce_event *swap;
	size_t at[RADIX] = { 0 };
	size_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		at[(r->ev[i].start - low) >> shift & (RADIX - 1)]++;
	for (size_t d = 0; d < RADIX; d++) {
		size_t count = at[d];

		at[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < r->n; i++)
		r->spare[at[(r->ev[i].start - low) >> shift & (RADIX - 1)]++] =
			r->ev[i];
	swap = r->ev;
	r->ev = r->spare;
	r->spare = swap;
}

static void sort_events(struct reduce *r)
{
	uint64_t low, high;

	if (r->n == 0 || scan_starts(r, &low, &high))
		return;
	for (int shift = 0; shift < 64 && (high - low) >> shift;
	     shift += RADIX_BITS)
		radix_pass(r, low, shift);
}

/* ---- the whole ------------------------------------------------------------ */

/* An expert GEMM confirms what may have opened its layer. */
static uint32_t confirm(struct anchor_state *s, uint32_t i)
{
	uint32_t opens = NO_EVENT;

	if (s->candidate)
		opens = s->candidate - 1;
	else if (!s->last && s->outside)
		opens = i;
	s->candidate = 0;
	s->experts = true;
	s->outside = false;
	return opens;
}

/* May run between two kernels of one routing group: a memset that is reported as
 * a kernel, a conversion of the input. */
static bool is_between(unsigned klass)
{
	return klass == CLASS_OTHER || klass == CLASS_COPY ||
	       klass == CLASS_QUANT || kernel_class_group(klass) == GROUP_ROUTE;
}

/* Kernels that open no layer by themselves. */
static uint32_t plain_step(struct anchor_state *s, unsigned klass, uint32_t i)
{
	if (!is_between(klass))
		s->adjacent = false;
	if (is_expert_gemm(klass))
		return confirm(s, i);
	if (is_outside(klass)) {
		s->outside = true;
		/* Not the top-k that it was taken for. */
		if (kernel_class_group(klass) == GROUP_ATTENTION)
			s->candidate = 0;
	} else if (!s->candidate && !s->last && s->outside &&
		   kernel_class_group(klass) == GROUP_ROUTE &&
		   kernel_class_closes(klass)) {
		s->candidate = i + 1;
	}
	return NO_EVENT;
}

uint32_t anchor_step(struct anchor_state *s, unsigned klass, uint32_t i)
{
	bool opens;

	if (klass == CLASS_TOPK_TORCH) {
		if (!s->candidate && (!s->last || s->experts))
			s->candidate = i + 1;
		return NO_EVENT;
	}
	if (!kernel_class_is_anchor(klass))
		return plain_step(s, klass, i);
	/* Two routing kernels of one layer differ, or are a TRT-LLM group. */
	opens = !s->last || s->experts ||
		(klass == s->last &&
		 !(klass == CLASS_ROUTE_TRTLLM && s->adjacent));
	s->last = (uint8_t)klass;
	s->adjacent = true;
	s->candidate = 0;
	if (!opens)
		return NO_EVENT;
	s->experts = false;
	return i;
}

static uint32_t choose_layers(struct reduce *r, const struct reduce_params *p)
{
	uint32_t layers =
		p->layers > r->graph_layers ? p->layers : r->graph_layers;

	if (!layers)
		layers = r->eager_layers;
	return layers <= LAYERS_MAX ? layers : 0;
}

const struct reduce_result *reduce_end(struct reduce *r,
				       const struct reduce_params *p)
{
	sort_events(r);
	memset(r->owner, 0, r->n * sizeof(*r->owner));
	reduce_find_replays(r);
	r->layers = choose_layers(r, p);
	reduce_judge_replays(r);
	reduce_find_stretches(r);
	if (!p->layers && !r->graph_layers) {
		uint32_t learnt = reduce_learn_layers(r);

		if (learnt)
			r->eager_layers = learnt;
		r->layers = choose_layers(r, p);
	}
	r->result.layers = r->layers;
	r->result.edge_kernels = (uint32_t)r->n;
	if (r->layers) {
		reduce_find_draft(r);
		reduce_find_bounds(r);
		reduce_sum_steps(r, p);
	}
	r->result.draft_layers = r->draft;
	return &r->result;
}
