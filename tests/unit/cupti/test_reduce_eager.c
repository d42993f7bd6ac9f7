#include "tests/unit/cupti/stream.h"

#define LAYERS 6
#define HOST_NS 30000u /* the host's time from step to step */

static struct reduce_params params;

static void eager_step(struct stream *s, unsigned layers)
{
	stream_body(s, layers);
	s->now += HOST_NS;
}

static int rows_by_correlation(void *arg, const struct reduce_event *ev,
			       uint32_t n, struct layer_rows_at *out)
{
	const uint32_t *rows = arg;

	(void)ev;
	assert_true(n > 0);
	*out = (struct layer_rows_at){
		.rows = { .what = ROWS_IDS, .rows = *rows, .k = 2 },
	};
	return 0;
}

static int setup(void **state)
{
	params = (struct reduce_params){ 0 };
	return stream_setup(state);
}

static void period_is_learnt_from_kernels_that_come_once_a_step(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint32_t rows = 16;

	params.find_rows = rows_by_correlation;
	params.arg = &rows;
	for (int i = 0; i < 10; i++)
		eager_step(s, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, LAYERS);
	/* The first begins with the window, the last has no next. */
	assert_int_equal(r->phase_steps[PHASE_DECODE], 8);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->tokens[PHASE_DECODE], 8 * 16);
}

static void steps_are_cut_at_the_hosts_pause(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t step_ns = (LAYERS * 7 + 2) * (KERNEL_NS + GAP_NS) + HOST_NS;

	for (int i = 0; i < 10; i++)
		eager_step(s, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->step[0].start, 1000000000 + step_ns);
	assert_int_equal(r->step_ns[PHASE_DECODE], 8 * step_ns);
	assert_int_equal(
		r->sum[PHASE_DECODE][LAYERS_MAX][PART_BLOCK][CLASS_GEMM_DENSE]
			.calls,
		8);
}

/* Once, the host is held up after the embedding for longer than between steps:
 * all the other steps tell that the embedding is what a step begins with. */
static void one_long_gap_inside_a_step_does_not_move_its_start(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint64_t third = 0;

	for (int i = 0; i < 10; i++) {
		if (i == 3) {
			third = s->now;
			stream_kernel(s, "embedding_kernel", KERNEL_NS);
			s->now += 3 * HOST_NS;
			stream_layers(s, LAYERS);
			stream_kernel(s, "nvjet_head", KERNEL_NS);
			s->now += HOST_NS;
		} else {
			eager_step(s, LAYERS);
		}
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->steps, 8);
	assert_int_equal(r->step[2].start, third);
}

static void hybrid_attention_does_not_shorten_the_period(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	for (int i = 0; i < 10; i++) {
		stream_kernel(s, "embedding_kernel", KERNEL_NS);
		for (int l = 0; l < 12; l++) {
			if (l % 4 == 3)
				stream_kernel(s, "full_attention", KERNEL_NS);
			stream_layers(s, 1);
		}
		stream_kernel(s, "nvjet_head", KERNEL_NS);
		s->now += HOST_NS;
	}
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, 12);
	assert_int_equal(r->steps, 8);
}

static void eager_prefill_between_replays_is_one_step(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;
	uint32_t rows = 400;

	params.find_rows = rows_by_correlation;
	params.arg = &rows;
	params.graphs_used = true;
	params.decode_hint = 16;
	stream_replay(s, 7, LAYERS);
	stream_replay(s, 7, LAYERS);
	s->now += HOST_NS;
	eager_step(s, LAYERS);
	stream_replay(s, 7, LAYERS);
	stream_replay(s, 7, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_DECODE], 3);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 1);
	assert_int_equal(r->bad_steps, 0);
	assert_int_equal(r->tokens[PHASE_PREFILL], 400);
}

static void two_eager_steps_between_replays_are_told_apart(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	params.graphs_used = true;
	stream_replay(s, 7, LAYERS);
	stream_replay(s, 7, LAYERS);
	s->now += HOST_NS;
	eager_step(s, LAYERS);
	eager_step(s, LAYERS);
	stream_replay(s, 7, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->phase_steps[PHASE_PREFILL], 2);
	assert_int_equal(r->bad_steps, 0);
}

static void step_with_a_missing_layer_is_bad(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	params.graphs_used = true;
	for (int i = 0; i < 12; i++)
		eager_step(s, i == 6 ? LAYERS - 1 : LAYERS);
	params.layers = LAYERS;
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->bad_steps, 1);
	assert_true(r->phase_steps[PHASE_PREFILL] >= 4);
}

static uint32_t phase_of(struct stream *s, uint32_t rows)
{
	const struct reduce_result *r;

	params.find_rows = rows_by_correlation;
	params.arg = &rows;
	reduce_begin(s->reduce);
	for (int i = 0; i < 6; i++)
		eager_step(s, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_true(r->steps > 0);
	return r->step[0].phase;
}

static void phase_of_an_eager_step_follows_the_hint(void **state)
{
	struct stream *s = *state;

	params.decode_hint = 16;
	assert_int_equal(phase_of(s, 22), PHASE_DECODE);
	assert_int_equal(phase_of(s, 23), PHASE_PREFILL);
	params.decode_hint = 0;
	assert_int_equal(phase_of(s, 256), PHASE_DECODE);
	assert_int_equal(phase_of(s, 257), PHASE_PREFILL);
	params.graphs_used = true;
	assert_int_equal(phase_of(s, 1), PHASE_PREFILL);
}

static void too_few_steps_teach_nothing(void **state)
{
	struct stream *s = *state;
	const struct reduce_result *r;

	eager_step(s, LAYERS);
	r = reduce_end(s->reduce, &params);
	assert_int_equal(r->layers, 0);
	assert_int_equal(r->steps, 0);
}

static void full_table_refuses_and_says_so(void **state)
{
	struct stream *s = *state;
	struct reduce *small = reduce_new(2, s->names);
	const struct reduce_event e = { .start = 1 };

	assert_int_equal(reduce_add(small, &e), 0);
	assert_int_equal(reduce_add(small, &e), 0);
	assert_int_not_equal(reduce_add(small, &e), 0);
	assert_int_equal(reduce_events(small), 2);
	reduce_free(small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, stream_teardown)
		T(period_is_learnt_from_kernels_that_come_once_a_step),
		T(steps_are_cut_at_the_hosts_pause),
		T(one_long_gap_inside_a_step_does_not_move_its_start),
		T(hybrid_attention_does_not_shorten_the_period),
		T(eager_prefill_between_replays_is_one_step),
		T(two_eager_steps_between_replays_are_told_apart),
		T(step_with_a_missing_layer_is_bad),
		T(phase_of_an_eager_step_follows_the_hint),
		T(too_few_steps_teach_nothing),
		T(full_table_refuses_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
