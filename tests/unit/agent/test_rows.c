#include "agent/rows.h"

#include <errno.h>

#include "tests/unit/agent/check.h"

#define K 2
#define E 8

static const struct moe_launch launch = { .data = { 0x7f0000000000 },
					  .rows = 4,
					  .k = K,
					  .experts = E,
					  .wide = E,
					  .what = ROWS_IDS,
					  .bytes = 4 };

/* ---- copies to cells -------------------------------------------------------- */

/* Two steps of two layers; cell c can be read from 100000 c + 10000 on, for
 * 50000 ns. */
static struct reduce_result window;

static int setup(void **state)
{
	struct rows *r = rows_new();

	*state = r;
	memset(&window, 0, offsetof(struct reduce_result, step));
	window.steps = 2;
	window.cells = 4;
	for (uint32_t c = 0; c < 4; c++) {
		window.cell[c] = (struct reduce_cell){
			.from = 100000 * c + 10000,
			.until = 100000 * c + 60000,
			.gemm_from = 100000 * c + 20000,
			.gemm_until = 100000 * c + 55000,
			.at = { .rows = launch },
			.step = c / 2,
			.layer = (uint16_t)(c % 2),
		};
	}
	window.step[0] =
		(struct reduce_step){ .phase = PHASE_DECODE, .next = 200000 };
	window.step[1] = (struct reduce_step){ .phase = PHASE_DECODE,
					       .start = 200000,
					       .next = 400000 };
	if (!r)
		return 1;
	rows_begin(r);
	return 0;
}

static int teardown(void **state)
{
	rows_free(*state);
	return 0;
}

static const int32_t full[4 * K] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const int32_t other[4 * K] = { 0, 1, 0, 1, 0, 1, 0, 1 };
static const int32_t three[4 * K] = { 0, 1, 2, 3, 4, 5, -1, -1 };
static const int32_t nonsense[4 * K] = { 0, 1, 1, 8, 1, 7, 2, 3 };

static struct copy_time at(uint32_t correlation, uint64_t start)
{
	return (struct copy_time){ correlation, start, start + 2000 };
}

static int add(struct rows *r, const void *copy, const struct moe_launch *l,
	       uint32_t correlation)
{
	return rows_add(r, copy, l,
			(struct row_calls){ correlation, correlation });
}

static void copy_inside_a_cell_counts_for_it(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(7, 20000), at(9, 120000),
				       at(8, 220000) };
	const struct rows_result *out;

	add(r, full, &launch, 7);
	add(r, other, &launch, 9);
	add(r, three, &launch, 8);
	out = rows_end(r, t, 3, &window, false);
	assert_int_equal(out->rejected, 0);
	assert_int_equal(out->lost, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 2);
	assert_int_equal(out->layer[PHASE_DECODE][0].rows, 8 + 6);
	assert_int_equal(out->layer[PHASE_DECODE][0].active, 8 + 6);
	assert_int_equal(out->layer[PHASE_DECODE][0].tokens, 7);
	assert_int_equal(out->layer[PHASE_DECODE][1].active, 2);
	assert_int_equal(out->layer[PHASE_DECODE][1].experts, E);
	assert_int_equal(out->expert[PHASE_DECODE][0][0], 2);
	assert_int_equal(out->expert[PHASE_DECODE][0][7], 1);
	assert_int_equal(out->expert[PHASE_DECODE][1][1], 4);
	assert_int_equal(out->step[0].cells, 2);
	assert_int_equal(out->step[0].mask[0], 3);
	assert_int_equal(out->step[0].rows, 16);
	assert_int_equal(out->step[1].mask[0], 1);
}

static void copy_across_an_edge_counts_for_nothing(void **state)
{
	struct rows *r = *state;
	const uint64_t starts[] = { 9000,   10000, 11999, /* top-k runs */
				    56001,  59000, 60000, /* block ends */
				    410000, 500000 };
	struct copy_time t[8];
	const struct rows_result *out;

	for (uint32_t i = 0; i < 8; i++) {
		add(r, full, &launch, 100 + i);
		t[i] = at(100 + i, starts[i]);
	}
	out = rows_end(r, t, 8, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
	assert_int_equal(out->lost, 4);
	assert_int_equal(out->rejected, 0);
}

static void copy_just_inside_the_guard_counts(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 12000), at(2, 156000) };
	const struct rows_result *out;

	add(r, full, &launch, 1);
	add(r, full, &launch, 2);
	out = rows_end(r, t, 2, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][1].cells, 1);
}

static void copy_of_another_buffer_counts_for_nothing(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 120000),
				       at(3, 220000) };
	struct moe_launch l = launch;
	const struct rows_result *out;

	l.data[0] = 0x7f0000002000;
	add(r, full, &l, 1);
	l = launch;
	l.rows = 3;
	add(r, full, &l, 2);
	window.cell[2].at.rows.what = ROWS_NONE; /* unknown */
	add(r, full, &launch, 3);
	out = rows_end(r, t, 3, &window, false);
	assert_int_equal(out->lost, 4);
	assert_int_equal(out->rejected, 0);
}

static void two_equal_copies_count_once(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 30000) };
	const struct rows_result *out;

	add(r, full, &launch, 1);
	add(r, full, &launch, 2);
	out = rows_end(r, t, 2, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->rejected, 0);
}

static void two_copies_that_differ_kill_the_cell(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 30000),
				       at(3, 40000) };
	const struct rows_result *out;

	add(r, full, &launch, 1);
	add(r, other, &launch, 2);
	add(r, full, &launch, 3);
	out = rows_end(r, t, 3, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
	assert_int_equal(out->rejected, 1);
	assert_int_equal(out->lost, 4);
}

static void layers_of_a_step_must_have_the_same_tokens(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 120000),
				       at(3, 220000) };
	const struct rows_result *out;

	add(r, full, &launch, 1);
	add(r, three, &launch, 2); /* same step, one token less */
	add(r, three, &launch, 3); /* another step */
	out = rows_end(r, t, 3, &window, false);
	assert_int_equal(out->rejected, 2);
	assert_int_equal(out->layer[PHASE_DECODE][1].cells, 0);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].tokens, 3);
}

/* ---- counts, experts elsewhere ---------------------------------------------- */

static const int32_t counted[E] = { 2, 2, 2, 0, 0, 0, 1, 1 };

static void counts_are_read_while_the_experts_run(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 15000), at(2, 125000),
				       at(3, 256000) };
	struct moe_launch l = { .data = { 0x7f0000003000 },
				.k = K,
				.experts = E,
				.wide = E,
				.what = ROWS_COUNTS,
				.bytes = 4,
				.stride = 1 };
	const struct rows_result *out;

	for (uint32_t c = 0; c < 4; c++)
		window.cell[c].at.rows = l;
	for (uint32_t i = 1; i <= 3; i++)
		add(r, counted, &l, i);
	out = rows_end(r, t, 3, &window, false);
	/* Before the first GEMM, among them, after the last. */
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
	assert_int_equal(out->layer[PHASE_DECODE][1].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][1].rows, 8);
	assert_int_equal(out->layer[PHASE_DECODE][1].tokens, 4);
	assert_int_equal(out->layer[PHASE_DECODE][1].single, 2);
}

static void blocks_are_rows_where_nothing_was_aligned(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 220000) };
	const struct rows_result *out;

	window.cell[0].at.direct = true;
	add(r, other, &launch, 1);
	add(r, other, &launch, 2);
	out = rows_end(r, t, 2, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 2);
	assert_int_equal(out->layer[PHASE_DECODE][0].direct_cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].active, 4);
	assert_int_equal(out->layer[PHASE_DECODE][0].blocks, 8 + 2);
}

static void experts_at_work_are_counted_apart(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 25000) };
	struct moe_launch l = launch;
	const struct rows_result *out;

	l.data[0] = 0x7f0000008000;
	l.experts = l.wide = 2 * E;
	window.cell[0].at.placed = l;
	add(r, other, &launch, 1);
	add(r, full, &l, 2);
	out = rows_end(r, t, 2, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].active, 2);
	assert_int_equal(out->layer[PHASE_DECODE][0].placed_cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].placed_experts, 2 * E);
	assert_int_equal(out->layer[PHASE_DECODE][0].placed_active, 8);
}

/* ---- stages ------------------------------------------------------------------- */

#define STAGE 0x7f1000000000ull

static void stage(struct rows *r, const void *copy, unsigned layer,
		  uint32_t correlation)
{
	rows_add_stage(r, copy, &launch, STAGE + layer * STAGE_ALIGN,
		       (struct row_calls){ correlation, correlation });
}

static void set_stages(void)
{
	for (uint32_t c = 0; c < 4; c++)
		window.cell[c].at.stage = STAGE + c % 2 * STAGE_ALIGN;
}

static void stage_holds_its_rows_until_the_next_step_writes(void **state)
{
	struct rows *r = *state;
	/* Both stages: while layer 1 is routed, between the steps, and when
	 * layer 0 of the next step is done and layer 1 is not. */
	const struct copy_time t[] = { at(1, 115000), at(2, 190000),
				       at(3, 290000) };
	const struct rows_result *out;

	set_stages();
	for (uint32_t i = 1; i <= 3; i++) {
		stage(r, i == 3 ? other : full, 0, i);
		stage(r, three, 1, i);
	}
	out = rows_end(r, t, 3, &window, true);
	/* What is in stage 1 at first is nobody's in this window. */
	assert_int_equal(out->step[0].cells, 0); /* 4 tokens, and 3 */
	assert_int_equal(out->rejected, 2);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].exact_cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].active, 2);
	assert_int_equal(out->exact, 1);
}

static void stage_is_nobodys_after_a_step_that_is_not_known(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 170000), at(2, 195000) };
	const struct rows_result *out;

	set_stages();
	window.step[0].next = 180000; /* a bad step, then step 1 */
	stage(r, full, 0, 1);
	stage(r, other, 0, 2);
	out = rows_end(r, t, 2, &window, true);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].active, 8);
	assert_int_equal(out->stages, 1);
}

static void stages_are_compared_before_they_are_used(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 30000), at(2, 150000),
				       at(3, 230000), at(4, 350000) };
	const struct rows_result *out;

	set_stages();
	add(r, full, &launch, 1);
	stage(r, full, 0, 2);
	add(r, full, &launch, 3);
	stage(r, other, 0, 4);
	out = rows_end(r, t, 4, &window, false);
	assert_int_equal(out->agree, 1);
	assert_int_equal(out->differ, 1);
	assert_int_equal(out->exact, 0);
	assert_int_equal(out->sampled, 2);
}

/* ---- doubt ------------------------------------------------------------------- */

static void make_layers(unsigned layers)
{
	window.steps = 1;
	window.cells = layers;
	window.step[0].next = 100000 * layers;
	for (uint32_t c = 0; c < layers; c++) {
		window.cell[c] = window.cell[0];
		window.cell[c].from = 100000 * c + 10000;
		window.cell[c].until = 100000 * c + 60000;
		window.cell[c].step = 0;
		window.cell[c].layer = (uint16_t)c;
	}
}

static const struct rows_result *
window_of(struct rows *r, void (*fill)(int32_t *ids, uint32_t layer))
{
	struct copy_time t[12];

	make_layers(12);
	for (uint32_t c = 0; c < 12; c++) {
		int32_t ids[4 * K];

		fill(ids, c);
		add(r, ids, &launch, c + 1);
		t[c] = at(c + 1, 100000 * c + 30000);
	}
	return rows_end(r, t, 12, &window, false);
}

static void fill_routed(int32_t *ids, uint32_t layer)
{
	for (uint32_t i = 0; i < 4 * K; i++)
		ids[i] = (int32_t)((layer * 3 + i * 3 + i / K * layer) % E);
}

static void fill_index(int32_t *ids, uint32_t layer)
{
	(void)layer;
	for (uint32_t i = 0; i < 4 * K; i++)
		ids[i] = (int32_t)(i % K * 4 + i / K);
}

static void fill_alike(int32_t *ids, uint32_t layer)
{
	(void)layer;
	fill_routed(ids, 3);
}

static void fill_broken(int32_t *ids, uint32_t layer)
{
	fill_routed(ids, layer);
	if (layer % 4 == 0)
		ids[0] = ids[1];
}

static void buffers_that_are_no_ids_make_a_window_doubtful(void **state)
{
	static void (*const no_ids[])(
		int32_t *, uint32_t) = { fill_index, fill_alike, fill_broken };
	struct rows *r = *state;
	const struct rows_result *out = window_of(r, fill_routed);

	assert_int_equal(out->sampled, 12);
	assert_false(out->doubtful);
	for (size_t i = 0; i < sizeof(no_ids) / sizeof(no_ids[0]); i++) {
		rows_begin(r);
		out = window_of(r, no_ids[i]);
		assert_true(out->doubtful);
		assert_int_equal(out->sampled, 0);
		assert_int_equal(out->rejected, 12);
		assert_int_equal(out->lost, 12);
	}
}

static void nonsense_in_a_cell_is_rejected(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000) };
	const struct rows_result *out;

	add(r, nonsense, &launch, 1);
	out = rows_end(r, t, 1, &window, false);
	assert_int_equal(out->rejected, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
}

static void copy_without_a_record_counts_for_nothing(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(99, 20000), at(0, 30000) };
	const struct rows_result *out;

	add(r, full, &launch, 1);
	add(r, full, &launch, 0); /* its call was not seen */
	out = rows_end(r, t, 2, &window, false);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
}

static void copies_beyond_the_table_are_refused(void **state)
{
	struct rows *r = *state;

	for (uint32_t i = 0; i < ROW_COPIES_MAX; i++)
		assert_int_equal(add(r, full, &launch, i + 1), 0);
	assert_int_equal(add(r, full, &launch, 1), -ENOSPC);
	assert_int_equal(rows_end(r, NULL, 0, &window, false)
				 ->layer[PHASE_DECODE][0]
				 .cells,
			 0);
	rows_begin(r);
	assert_int_equal(add(r, full, &launch, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(copy_inside_a_cell_counts_for_it),
		T(copy_across_an_edge_counts_for_nothing),
		T(copy_just_inside_the_guard_counts),
		T(copy_of_another_buffer_counts_for_nothing),
		T(two_equal_copies_count_once),
		T(two_copies_that_differ_kill_the_cell),
		T(layers_of_a_step_must_have_the_same_tokens),
		T(counts_are_read_while_the_experts_run),
		T(blocks_are_rows_where_nothing_was_aligned),
		T(experts_at_work_are_counted_apart),
		T(stage_holds_its_rows_until_the_next_step_writes),
		T(stage_is_nobodys_after_a_step_that_is_not_known),
		T(stages_are_compared_before_they_are_used),
		T(buffers_that_are_no_ids_make_a_window_doubtful),
		T(nonsense_in_a_cell_is_rejected),
		T(copy_without_a_record_counts_for_nothing),
		T(copies_beyond_the_table_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
