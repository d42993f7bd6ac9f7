/* Layers of all kinds of engines; and that no record is lost uncounted. */
#include "tests/unit/cupti/stream.h"

#define LAYERS 5
#define HOST_NS 30000u
#define STEP_KERNELS (LAYERS * 7 + 2)

static struct reduce_params params;

static int setup(void **state)
{
	params = (struct reduce_params){ 0 };
	return stream_setup(state);
}

static void kernels(struct stream *s, const char *const *names)
{
	for (; *names; names++)
		stream_kernel(s, *names, KERNEL_NS);
}
#define KERNELS(s, ...) kernels(s, (const char *const[]){ __VA_ARGS__, NULL })

static void graph_begin(struct stream *s, uint32_t graph)
{
	s->graph = graph;
	s->node = (uint64_t)graph << 32;
	s->correlation++;
}

static struct reduce_sum all_sums(const struct reduce_result *r)
{
	struct reduce_sum all = { 0 };

	for (unsigned p = 0; p < PHASES; p++)
		for (unsigned l = 0; l <= LAYERS_MAX; l++)
			for (unsigned k = 0; k < 2 * CLASSES; k++) {
				const struct reduce_sum *x =
					&r->sum[p][l][k / CLASSES][k % CLASSES];

				all.calls += x->calls;
				all.sum_ns += x->sum_ns;
				all.union_ns += x->union_ns;
			}
	return all;
}

static void check_conservation(const struct stream *s,
			       const struct reduce_result *r)
{
	struct reduce_sum all = all_sums(r);
	uint64_t kept = r->kernels[PHASE_DECODE] + r->kernels[PHASE_PREFILL];

	assert_int_equal(all.calls, kept);
	assert_int_equal(all.sum_ns, kept * KERNEL_NS);
	assert_int_equal(all.union_ns,
			 r->busy_ns[PHASE_DECODE] + r->busy_ns[PHASE_PREFILL]);
	assert_int_equal(kept + r->bad_kernels + r->edge_kernels,
			 reduce_events(s->reduce));
}

/* ---- conservation ---------------------------------------------------------- */

static void every_record_of_replays_is_accounted_for(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	/* Cut by the window's start. */
	graph_begin(s, 7);
	stream_layers(s, 2);
	s->graph = 0;
	for (int i = 0; i < 6; i++) {
		if (i == 3) { /* a record was lost */
			graph_begin(s, 7);
			stream_layers(s, LAYERS);
			s->graph = 0;
		} else {
			stream_replay(s, 7, LAYERS);
		}
		stream_kernel(s, "at_argmax", KERNEL_NS);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 4);
	assert_int_equal(r->bad_steps, 1);
	assert_int_equal(r->bad_kernels, LAYERS * 7 + 1);
	assert_int_equal(r->edge_steps, 2);
	assert_int_equal(r->edge_kernels, 2 * 7 + STEP_KERNELS + 1);
	check_conservation(s, r);
}

static void every_record_of_eager_steps_is_accounted_for(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	stream_layers(s, 2);
	for (int i = 0; i < 12; i++) {
		stream_body(s, i == 6 ? LAYERS - 1 : LAYERS);
		s->now += HOST_NS;
	}
	params.layers = LAYERS;
	r = reduce_end(s->reduce, &params);
	assert_true(r->steps >= 8);
	assert_int_equal(r->bad_steps, 1);
	assert_true(r->edge_steps <= 2);
	check_conservation(s, r);
}

static void records_without_a_step_are_at_the_edge(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	KERNELS(s, "nvjet_a", "rms_norm_kernel", "nvjet_b");
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->edge_kernels, 3);
	check_conservation(s, r);
}

/* ---- steps ------------------------------------------------------------------ */

static void gaps_and_launches_are_those_of_the_steps(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t span = (STEP_KERNELS + 1) * (KERNEL_NS + GAP_NS) - GAP_NS;

	for (int i = 0; i < 4; i++) {
		stream_replay(s, 7, LAYERS);
		stream_kernel(s, "at_argmax", KERNEL_NS);
		s->now += HOST_NS;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
	assert_int_equal(r->launches[PHASE_DECODE], 3 * 2);
	assert_int_equal(r->kernels[PHASE_DECODE], 3 * (STEP_KERNELS + 1));
	assert_int_equal(r->span_ns[PHASE_DECODE], 3 * span);
	assert_int_equal(r->span_ns[PHASE_DECODE] - r->busy_ns[PHASE_DECODE],
			 3 * STEP_KERNELS * GAP_NS);
	assert_int_equal(r->step_ns[PHASE_DECODE],
			 3 * (span + GAP_NS + HOST_NS));
}

static void pieces_of_graphs_make_one_step(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 8; i++) {
		graph_begin(s, 20);
		KERNELS(s, "embedding_kernel", "rms_norm_kernel");
		s->graph = 0;
		for (uint32_t l = 0; l < LAYERS; l++) {
			stream_kernel(s, "flash_fwd_kernel", KERNEL_NS);
			graph_begin(s, 21 + l);
			KERNELS(s, "topkGatingI", "fused_moe_kernel",
				"act_and_mul_kernel", "fused_moe_kernel",
				"moe_sum_kernel", "rms_norm_kernel");
			s->graph = 0;
		}
		stream_kernel(s, "nvjet_head", KERNEL_NS);
		s->now += HOST_NS;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 6);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->launches[PHASE_DECODE], 6 * (1 + 2 * LAYERS + 1));
	check_conservation(s, r);
}

/* Rows unknown: a step with a prompt is one whose kernels take longer. */
static void longer_eager_steps_have_prompts(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 12; i++) {
		stream_body(s, LAYERS);
		if (i == 5)
			stream_kernel(s, "nvjet_long", 40 * KERNEL_NS);
		s->now += HOST_NS;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 9);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 1);
}

/* ---- draft layers ------------------------------------------------------------ */

static void draft_replay(struct stream *s, unsigned layers)
{
	graph_begin(s, 9);
	stream_kernel(s, "embedding_kernel", KERNEL_NS);
	stream_layers(s, layers);
	stream_kernel(s, "nvjet_head", KERNEL_NS);
	s->graph = 0;
}

static void draft_layers_of_their_own_graph_are_apart(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 6; i++) {
		stream_replay(s, 7, LAYERS);
		draft_replay(s, 1);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->draft_layers, 1);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 5);
	assert_int_equal(r->bad_steps, 0);
	for (unsigned l = 0; l <= LAYERS; l++)
		assert_int_equal(
			r->sum[PHASE_DECODE][l][PART_BLOCK][CLASS_GEMM_TRITON]
				.calls,
			5 * 2);
	/* The main head leads up to the draft layer; its own comes after. */
	assert_int_equal(
		r->sum[PHASE_DECODE][LAYERS][PART_BEFORE][CLASS_GEMM_DENSE]
			.calls,
		5);
	assert_int_equal(
		r->sum[PHASE_DECODE][LAYERS_MAX][PART_BLOCK][CLASS_GEMM_DENSE]
			.calls,
		5);
	check_conservation(s, r);
}

static void step_without_its_draft_layer_is_bad(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 8; i++) {
		stream_replay(s, 7, LAYERS);
		if (i != 3)
			draft_replay(s, 1);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->draft_layers, 1);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 6);
	assert_int_equal(r->bad_steps, 1);
	check_conservation(s, r);
}

static void prompt_with_a_draft_layer_is_one_step(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	params.graphs_used = true;
	for (int i = 0; i < 8; i++) {
		if (i == 4) {
			stream_body(s, LAYERS + 1);
			s->now += HOST_NS;
		}
		stream_replay(s, 7, LAYERS);
		draft_replay(s, 1);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->draft_layers, 1);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 7);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 1);
	assert_int_equal(r->bad_steps, 0);
	check_conservation(s, r);
}

/* Eager, what leads up to the draft layer comes once a step as well: a step
 * begins where the host's pause is. */
static void eager_step_does_not_begin_with_its_draft_layer(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t first = 0;

	for (int i = 0; i < 10; i++) {
		first = i == 1 ? s->now : first;
		stream_body(s, LAYERS);
		stream_kernel(s, "cat_embedding_kernel", KERNEL_NS);
		stream_layers(s, 1);
		stream_kernel(s, "nvjet_head", KERNEL_NS);
		s->now += HOST_NS;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS + 1);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->steps, 8);
	assert_int_equal(r->step[0].start, first);
	check_conservation(s, r);
}

/* ---- anchors ------------------------------------------------------------------ */

/* Layers of one replay whose kernels between attention and the next norm are
 * these. */
static uint32_t layers_of(struct stream *s, const char *const *block,
			  const char *after)
{
	static uint32_t graph = 100; /* what is known of an old one stays */
	const struct reduce_result *r;

	graph++;
	reduce_begin(s->reduce);
	for (int i = 0; i < 4; i++) {
		graph_begin(s, graph);
		for (int l = 0; l < LAYERS; l++) {
			KERNELS(s, "rms_norm_kernel", "flash_fwd_kernel");
			kernels(s, block);
		}
		KERNELS(s, "rms_norm_kernel", "nvjet_head");
		if (after)
			stream_kernel(s, after, KERNEL_NS);
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
	check_conservation(s, r);
	return r->layers;
}
#define LAYERS_OF(s, after, ...) \
	layers_of(s, (const char *const[]){ __VA_ARGS__, NULL }, after)

#define TORCH_TOPK "void at::native::sbtopk::gatherTopK<float>"

static void torch_topk_opens_a_layer_once(void **state)
{
	assert_int_equal(LAYERS_OF(*state, NULL, TORCH_TOPK,
				   "triton_poi_fused_a", TORCH_TOPK,
				   "fused_moe_kernel", "fused_moe_kernel",
				   "moe_sum_kernel"),
			 LAYERS);
}

static void torch_topk_of_a_sampler_opens_none(void **state)
{
	assert_int_equal(LAYERS_OF(*state, TORCH_TOPK, "topkGatingI",
				   "fused_moe_kernel", "fused_moe_kernel"),
			 LAYERS);
	assert_int_equal(LAYERS_OF(*state, TORCH_TOPK, TORCH_TOPK,
				   "fused_moe_kernel", "fused_moe_kernel"),
			 LAYERS);
}

static void
block_without_known_routing_opens_with_what_comes_first(void **state)
{
	assert_int_equal(LAYERS_OF(*state, NULL, "qmv",
				   "custom_kernel_moe_gateup",
				   "custom_kernel_moe_down"),
			 LAYERS);
	assert_int_equal(
		LAYERS_OF(*state, NULL, "fmoe_bf16_blockscaleFp8_g1u1"),
		LAYERS);
	assert_int_equal(LAYERS_OF(*state, NULL, "sm100_fp8_fp4_mega_moe_impl"),
			 LAYERS);
}

static void combine_of_deepep_belongs_to_the_block(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 3; i++) {
		graph_begin(s, 7);
		for (int l = 0; l < LAYERS; l++)
			KERNELS(s, "flash_fwd_kernel", "_router_triton_kernel",
				"internode_ll::dispatch",
				"sm90_fp8_gemm_1d2d_impl",
				"internode_ll::combine");
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	for (unsigned l = 0; l < LAYERS; l++)
		assert_int_equal(
			r->sum[PHASE_DECODE][l][PART_BLOCK][CLASS_A2A_DEEPEP_LL]
				.calls,
			2 * 2);
}

static void memset_between_routing_kernels_opens_no_layer(void **state)
{
	assert_int_equal(LAYERS_OF(*state, NULL, "routingMainKernel",
				   "memset32", "routingIndicesClusterKernel",
				   "bmm_E2m1_E2m1E2m1_Fp32", "bmm_Bfloat16_",
				   "finalizeKernel"),
			 LAYERS);
}

/* What the warm-up captured is not what decodes. */
static void larger_graph_of_old_is_forgotten(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r = NULL;

	for (int i = 0; i < 3; i++)
		stream_replay(s, 5, 2 * LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, 2 * LAYERS);
	for (int w = 0; w < 9; w++) {
		reduce_begin(s->reduce);
		for (int i = 0; i < 4; i++)
			stream_replay(s, 7, LAYERS);
		r = reduce_end(s->reduce, &params);
		check_conservation(s, r);
	}
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
}

/* A late attach knows nothing of the nodes; their order is enough. */
static void layers_of_unknown_nodes_are_told_by_their_order(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 5; i++) {
		graph_begin(s, 7);
		s->node = 0;
		stream_body(s, LAYERS);
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS);
	for (unsigned l = 0; l < LAYERS; l++)
		assert_int_equal(
			r->sum[PHASE_DECODE][l][PART_BLOCK][CLASS_GEMM_TRITON]
				.union_ns,
			4 * 2 * KERNEL_NS);
	check_conservation(s, r);
}

/* Spans are the same time as the sums, each instant once, in order. */
static void spans_add_up_to_the_time_of_decode_steps(void **state)
{
	static uint64_t by_group[LAYERS_MAX + 1][GROUPS];
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t before = 0, decode = 0, unknown = 0;

	memset(by_group, 0, sizeof(by_group));
	params.spans = true;
	for (int i = 0; i < 6; i++) {
		stream_replay(s, 7, LAYERS);
		if (i == 3)
			stream_body(s, LAYERS); /* a prompt */
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 1);
	for (uint32_t i = 0; i < r->spans; i++) {
		const struct reduce_span *n = &r->span[i];

		assert_true(n->start >= before);
		before = n->start + n->length;
		if (n->group == SPAN_UNKNOWN) {
			unknown += n->length;
			continue;
		}
		decode += n->length;
		by_group[n->layer == LAYER_NONE ? LAYERS_MAX : n->layer]
			[n->group] += n->length;
	}
	assert_int_equal(decode, r->busy_ns[PHASE_DECODE]);
	assert_true(unknown >= r->busy_ns[PHASE_PREFILL]);
	for (unsigned l = 0; l < LAYERS; l++)
		assert_int_equal(by_group[l][GROUP_EXPERT],
				 r->phase_steps[PHASE_DECODE] * 3ull *
					 KERNEL_NS);
	params.spans = false;
	reduce_begin(s->reduce);
	stream_replay(s, 7, LAYERS);
	stream_replay(s, 7, LAYERS);
	assert_int_equal(reduce_end(s->reduce, &params)->spans, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, stream_teardown)
		T(every_record_of_replays_is_accounted_for),
		T(every_record_of_eager_steps_is_accounted_for),
		T(records_without_a_step_are_at_the_edge),
		T(gaps_and_launches_are_those_of_the_steps),
		T(pieces_of_graphs_make_one_step),
		T(longer_eager_steps_have_prompts),
		T(draft_layers_of_their_own_graph_are_apart),
		T(step_without_its_draft_layer_is_bad),
		T(prompt_with_a_draft_layer_is_one_step),
		T(eager_step_does_not_begin_with_its_draft_layer),
		T(torch_topk_opens_a_layer_once),
		T(torch_topk_of_a_sampler_opens_none),
		T(block_without_known_routing_opens_with_what_comes_first),
		T(combine_of_deepep_belongs_to_the_block),
		T(memset_between_routing_kernels_opens_no_layer),
		T(larger_graph_of_old_is_forgotten),
		T(layers_of_unknown_nodes_are_told_by_their_order),
		T(spans_add_up_to_the_time_of_decode_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
