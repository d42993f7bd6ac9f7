/*
 * stream.h - synthetic kernel streams for the tests of the reduction
 *
 * A layer is norm, attention, top-k, expert GEMM, activation, expert GEMM, sum
 * of 10 us each with 1 us between them; a step is an embedding, its layers and
 * a head.
 */
#ifndef MOETOP_TESTS_UNIT_CUPTI_STREAM_H
#define MOETOP_TESTS_UNIT_CUPTI_STREAM_H

#include "cupti/reduce.h"

#include "tests/unit/cupti/check.h"

#define KERNEL_NS 10000u
#define GAP_NS 1000u

struct stream {
	struct kernel_names *names;
	struct reduce *reduce;
	uint64_t now;
	uint32_t correlation, graph;
	uint64_t node;
};

static inline void stream_kernel(struct stream *s, const char *name,
				 uint32_t length)
{
	struct kernel_name *n = kernel_names_get(s->names, name);
	const struct reduce_event e = {
		.start = s->now,
		.length = length,
		.correlation = s->graph ? s->correlation : ++s->correlation,
		.graph = s->graph,
		.graph_node = s->graph ? s->node++ : 0,
		.name = n->id,
		.klass = n->klass,
	};

	assert_int_equal(reduce_add(s->reduce, &e), 0);
	s->now += length + GAP_NS;
}

static inline void stream_layers(struct stream *s, unsigned layers)
{
	static const char *const kernels[] = {
		"rms_norm_kernel",  "flash_fwd_kernel",   "topkGatingI",
		"fused_moe_kernel", "act_and_mul_kernel", "fused_moe_kernel",
		"moe_sum_kernel",
	};

	for (unsigned l = 0; l < layers; l++)
		for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]);
		     k++)
			stream_kernel(s, kernels[k], KERNEL_NS);
}

static inline void stream_body(struct stream *s, unsigned layers)
{
	stream_kernel(s, "embedding_kernel", KERNEL_NS);
	stream_layers(s, layers);
	stream_kernel(s, "nvjet_head", KERNEL_NS);
}

/* A decode step through a graph. */
static inline void stream_replay(struct stream *s, uint32_t graph,
				 unsigned layers)
{
	s->graph = graph;
	s->node = (uint64_t)graph << 32;
	s->correlation++;
	stream_body(s, layers);
	s->graph = 0;
}

static inline int stream_setup(void **state)
{
	struct stream *s = calloc(1, sizeof(*s));

	*state = s;
	if (!s)
		return 1;
	s->names = kernel_names_new();
	s->reduce = s->names ? reduce_new(100000, s->names) : NULL;
	s->now = 1000000000;
	if (!s->reduce)
		return 1;
	reduce_begin(s->reduce);
	return 0;
}

static inline int stream_teardown(void **state)
{
	struct stream *s = *state;

	reduce_free(s->reduce);
	kernel_names_free(s->names);
	free(s);
	return 0;
}

#endif
