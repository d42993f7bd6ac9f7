#include "tests/unit/cupti/stream.h"

#define LAYERS 4
#define STEP_KERNELS (LAYERS * 7 + 2)

static const struct reduce_params params;

static const struct reduce_result *replays(struct stream *s, int n)
{
	for (int i = 0; i < n; i++)
		stream_replay(s, 7, LAYERS);
	return reduce_end(s->reduce, &params);
}

static uint64_t part_ns(const struct reduce_result *r, unsigned layer,
			enum layer_part part)
{
	uint64_t ns = 0;

	for (unsigned k = 0; k < CLASSES; k++)
		ns += r->sum[PHASE_DECODE][layer][part][k].union_ns;
	return ns;
}

static void whole_replays_are_decode_steps(void **state)
{
	const struct reduce_result *r = replays(*state, 10);

	assert_int_equal(r->phase_steps[PHASE_DECODE], 9);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 0);
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->steps, 9);
	assert_int_equal(r->cells, 9 * LAYERS);
}

static void sums_by_layer_and_part_are_exact(void **state)
{
	const struct reduce_result *r = replays(*state, 10);
	const struct reduce_sum *gemm =
		&r->sum[PHASE_DECODE][2][PART_BLOCK][CLASS_GEMM_TRITON];

	assert_int_equal(gemm->calls, 18);
	assert_int_equal(gemm->sum_ns, 18 * KERNEL_NS);
	assert_int_equal(gemm->union_ns, 18 * KERNEL_NS);
	for (unsigned l = 0; l < LAYERS; l++)
		assert_int_equal(part_ns(r, l, PART_BLOCK), 9 * 5 * KERNEL_NS);
	/* The embedding leads up to the first layer. */
	assert_int_equal(part_ns(r, 0, PART_BEFORE), 9 * 3 * KERNEL_NS);
	assert_int_equal(part_ns(r, 1, PART_BEFORE), 9 * 2 * KERNEL_NS);
	assert_int_equal(part_ns(r, LAYERS_MAX, PART_BLOCK), 9 * KERNEL_NS);
	assert_int_equal(part_ns(r, LAYERS, PART_BLOCK), 0);
}

static void busy_time_is_the_sum_of_all_parts(void **state)
{
	const struct reduce_result *r = replays(*state, 10);
	uint64_t sum = 0;

	for (unsigned l = 0; l <= LAYERS_MAX; l++)
		sum += part_ns(r, l, PART_BLOCK) + part_ns(r, l, PART_BEFORE);
	assert_int_equal(sum, r->busy_ns[PHASE_DECODE]);
	assert_int_equal(sum, 9 * STEP_KERNELS * KERNEL_NS);
	assert_int_equal(r->step_ns[PHASE_DECODE],
			 9 * STEP_KERNELS * (KERNEL_NS + GAP_NS));
}

/* An attention projection with the name of an expert GEMM comes after the norm
 * of the next layer: by then the memory of the ids may serve another tensor. */
static void ids_are_not_trusted_once_the_next_layer_begins(void **state)
{
	static const char *const kernels[] = {
		"topkGatingI",     "fused_moe_kernel", "moe_sum_kernel",
		"rms_norm_kernel", "fused_moe_kernel", "flash_fwd_kernel",
	};
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t start = 0;

	for (int i = 0; i < 3; i++) {
		s->graph = 7;
		s->correlation++;
		start = s->now;
		for (unsigned k = 0; k < 2 * 6; k++)
			stream_kernel(s, kernels[k % 6], KERNEL_NS);
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->cells, 2 * 2);
	start -= 2 * 12 * (KERNEL_NS + GAP_NS);
	assert_int_equal(r->cell[0].from, start + KERNEL_NS);
	assert_int_equal(r->cell[0].until, start + 3 * KERNEL_NS + 2 * GAP_NS);
}

static void second_routing_kernel_makes_the_ids_final(void **state)
{
	static const char *const kernels[] = { "topkGatingI",
					       "single_group_topk_warp_kernel",
					       "fused_moe_kernel",
					       "moe_sum_kernel" };
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t start = s->now;

	for (int i = 0; i < 3; i++) {
		s->graph = 7;
		s->correlation++;
		for (unsigned k = 0; k < 2 * 4; k++)
			stream_kernel(s, kernels[k % 4], KERNEL_NS);
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, 2);
	assert_int_equal(r->cell[0].from, start + 2 * KERNEL_NS + GAP_NS);
}

static void order_of_records_does_not_matter(void **state)
{
	struct stream *s = *state;
	static struct reduce_result want;
	struct reduce *shuffled = reduce_new(100000, s->names);
	struct stream other = *s;
	uint64_t end;

	other.reduce = shuffled;
	assert_non_null(shuffled);
	memcpy(&want, replays(s, 6), offsetof(struct reduce_result, step));
	/* The same six steps, the last first. */
	reduce_begin(shuffled);
	end = s->now;
	for (int i = 5; i >= 0; i--) {
		other.now = 1000000000 +
			    (uint64_t)i * STEP_KERNELS * (KERNEL_NS + GAP_NS);
		stream_replay(&other, 7, LAYERS);
	}
	assert_true(end > other.now);
	assert_memory_equal(reduce_end(shuffled, &params), &want,
			    offsetof(struct reduce_result, bad_steps));
	reduce_free(shuffled);
}

static void kernel_on_a_second_stream_is_covered_once(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 3; i++) {
		uint64_t start = s->now;

		stream_replay(s, 7, LAYERS);
		/* A shared expert, 25 us from the third kernel of layer 0: the
		 * top-k starts first, the rest lies under it but for gaps. */
		s->now = start + 3 * (KERNEL_NS + GAP_NS) + 5000;
		s->graph = 7;
		stream_kernel(s, "nvjet_shared", 25000);
		s->graph = 0;
		s->now = start + STEP_KERNELS * (KERNEL_NS + GAP_NS);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 2);
	assert_int_equal(
		r->sum[PHASE_DECODE][0][PART_BLOCK][CLASS_GEMM_DENSE].sum_ns,
		2 * 25000);
	/* From start of top-k to the end of the sum: 5 kernels and the gaps
	 * that the shared expert fills (three of the four). */
	assert_int_equal(part_ns(r, 0, PART_BLOCK),
			 2 * (5 * KERNEL_NS + 2 * GAP_NS));
}

static void kernels_after_the_graph_belong_to_its_step(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 4; i++) {
		stream_replay(s, 7, LAYERS);
		stream_kernel(s, "at_argmax", 3 * KERNEL_NS);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
	assert_int_equal(part_ns(r, LAYERS_MAX, PART_BLOCK), 3 * 4 * KERNEL_NS);
}

static void replay_that_lost_a_kernel_is_bad(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 3; i++)
		stream_replay(s, 7, LAYERS);
	s->graph = 7;
	s->correlation++;
	stream_layers(s, LAYERS); /* no embedding, no head */
	s->graph = 0;
	for (int i = 0; i < 3; i++)
		stream_replay(s, 7, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 5);
	assert_int_equal(r->bad_steps, 1);
}

static void replay_cut_by_the_window_is_left_out(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	s->graph = 7;
	s->correlation++;
	stream_layers(s, 2);
	s->graph = 0;
	r = replays(s, 5);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 4);
	assert_int_equal(r->bad_steps, 0);
}

static void pause_after_a_step_is_not_step_time(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	stream_replay(s, 7, LAYERS);
	s->now += 50000000;
	stream_replay(s, 7, LAYERS);
	stream_replay(s, 7, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 2);
	assert_int_equal(r->step_ns[PHASE_DECODE],
			 2 * STEP_KERNELS * (KERNEL_NS + GAP_NS) - GAP_NS);
}

static void knowledge_of_graphs_outlives_the_window(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	replays(s, 5);
	reduce_begin(s->reduce);
	stream_replay(s, 7, LAYERS);
	s->graph = 7;
	s->correlation++;
	stream_layers(s, LAYERS);
	s->graph = 0;
	stream_replay(s, 7, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 1);
	assert_int_equal(r->bad_steps, 1);
	assert_int_equal(reduce_graph_anchors(s->reduce, 7), LAYERS);
	assert_int_equal(reduce_graph_anchors(s->reduce, 8), 0);
}

static void draft_layers_between_steps_are_outside_the_model(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 5; i++) {
		stream_replay(s, 7, LAYERS);
		stream_replay(s, 9, 1);
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 4);
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->bad_steps, 0);
}

static void cells_lie_between_topk_and_the_end_of_the_block(void **state)
{
	const struct reduce_result *r = replays(*state, 2);
	const struct reduce_cell *c = &r->cell[1];
	uint64_t topk = 1000000000 + 10 * (KERNEL_NS + GAP_NS);

	assert_int_equal(r->cells, LAYERS);
	assert_int_equal(c->layer, 1);
	assert_int_equal(c->from, topk + KERNEL_NS);
	assert_int_equal(c->until, topk + 4 * (KERNEL_NS + GAP_NS) + KERNEL_NS);
}

static void no_records_give_no_steps(void **state)
{
	const struct reduce_result *r = replays(*state, 0);

	assert_int_equal(r->steps, 0);
	assert_int_equal(r->layers, 0);
	assert_int_equal(r->bad_steps, 0);
}

static void one_routing_group_is_one_anchor(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 4; i++) {
		s->graph = 7;
		s->correlation++;
		for (int l = 0; l < LAYERS; l++) {
			stream_kernel(s, "routingMainKernel", KERNEL_NS);
			stream_kernel(s, "routingPostTopKKernel", KERNEL_NS);
			stream_kernel(s, "bmm_Bfloat16_", KERNEL_NS);
			stream_kernel(s, "finalizeKernel", KERNEL_NS);
		}
		s->graph = 0;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, stream_setup, stream_teardown)
		T(whole_replays_are_decode_steps),
		T(sums_by_layer_and_part_are_exact),
		T(busy_time_is_the_sum_of_all_parts),
		T(ids_are_not_trusted_once_the_next_layer_begins),
		T(second_routing_kernel_makes_the_ids_final),
		T(order_of_records_does_not_matter),
		T(kernel_on_a_second_stream_is_covered_once),
		T(kernels_after_the_graph_belong_to_its_step),
		T(replay_that_lost_a_kernel_is_bad),
		T(replay_cut_by_the_window_is_left_out),
		T(pause_after_a_step_is_not_step_time),
		T(knowledge_of_graphs_outlives_the_window),
		T(draft_layers_between_steps_are_outside_the_model),
		T(cells_lie_between_topk_and_the_end_of_the_block),
		T(no_records_give_no_steps),
		T(one_routing_group_is_one_anchor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
