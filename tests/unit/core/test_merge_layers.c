/* Classes of layers, layers of a draft model, gaps and launches of steps. */
#include "tests/unit/core/merge_records.h"

static struct record steps(uint32_t number)
{
	return (struct record){ .type = REC_STEPS,
				.time_ns = 2,
				.steps = { .window = number,
					   .steps = 10,
					   .kernels = 400,
					   .launches = 20,
					   .span_ns = 1400,
					   .busy_ns = 1200,
					   .step_ns = 1500 } };
}

static void classes_of_a_layer_add_up_over_parts_and_windows(void **state)
{
	struct record before = layer(1, 3, CLASS_GEMM_TRITON, 50);
	const struct sample_layer *l = &m.closed.layers[3];

	(void)state;
	before.layer.part = PART_BEFORE;
	give(layer(1, 3, CLASS_GEMM_TRITON, 100));
	give(layer(1, 3, CLASS_TOPK_GATING, 20));
	give(before);
	give(window(1));
	give(layer(2, 3, CLASS_TOPK_GATING, 30));
	give(window(2));
	assert_int_equal(l->n_classes, 2);
	assert_int_equal(l->classes[0].id, CLASS_GEMM_TRITON);
	assert_int_equal(l->classes[0].calls, 20);
	assert_int_equal(l->classes[0].union_ns, 150);
	assert_int_equal(l->classes[0].sum_ns, 160);
	assert_int_equal(l->classes[1].id, CLASS_TOPK_GATING);
	assert_int_equal(l->classes[1].union_ns, 50);
}

static void steps_have_gaps_and_launches(void **state)
{
	struct record bad = steps(3);

	(void)state;
	give(steps(1));
	give(window(1));
	give(steps(2));
	give(window(2));
	assert_int_equal(m.closed.launches[PHASE_DECODE], 40);
	assert_int_equal(m.closed.kernels_run[PHASE_DECODE], 800);
	assert_int_equal(m.closed.span_ns[PHASE_DECODE], 2800);
	assert_int_equal(m.closed.phase_busy_ns[PHASE_DECODE], 2400);
	bad.steps.busy_ns = bad.steps.span_ns + 1;
	refuse(bad);
}

static void draft_layers_are_not_the_models(void **state)
{
	struct record w = window(1);

	(void)state;
	for (unsigned l = 0; l < 4; l++) {
		give(layer(1, l, CLASS_GEMM_TRITON, 100 + l));
		give(rows(1, l));
	}
	w.window.layers_seen = 3;
	w.window.draft_layers = 1;
	give(w);
	assert_int_equal(m.closed.n_layers, 3);
	assert_int_equal(m.closed.layers_seen, 3);
	assert_int_equal(m.closed.n_draft, 1);
	assert_int_equal(m.closed.draft[0].block_ns, 103);
	assert_int_equal(m.closed.rows.cells, 3 * 2);
	w.window.layers_seen = LAYERS_MAX;
	w.window.window = 2;
	refuse(w);
}

static void draft_layers_in_the_steps_graph_are_told_by_the_config(void **state)
{
	struct record w = window(1);

	(void)state;
	for (unsigned l = 0; l < 4; l++)
		give(layer(1, l, CLASS_GEMM_TRITON, 100 + l));
	w.window.layers_seen = 4;
	give(w);
	merge_split_draft(&m.closed, 2, 1); /* neither 2 nor 3 */
	assert_int_equal(m.closed.n_layers, 4);
	merge_split_draft(&m.closed, 3, 1);
	assert_int_equal(m.closed.n_layers, 3);
	assert_int_equal(m.closed.layers_seen, 3);
	assert_int_equal(m.closed.draft[0].block_ns, 103);
	merge_split_draft(&m.closed, 3, 1);
	assert_int_equal(m.closed.n_draft, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			classes_of_a_layer_add_up_over_parts_and_windows,
			setup),
		cmocka_unit_test_setup(steps_have_gaps_and_launches, setup),
		cmocka_unit_test_setup(draft_layers_are_not_the_models, setup),
		cmocka_unit_test_setup(
			draft_layers_in_the_steps_graph_are_told_by_the_config,
			setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
