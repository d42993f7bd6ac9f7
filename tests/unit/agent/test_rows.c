#include "agent/rows.h"

#include <errno.h>

#include "tests/unit/agent/check.h"

#define K 2
#define E 8

static const struct moe_launch launch = {
	.ids = 0x1000, .rows = 4, .k = K, .experts = E, .id_bytes = 4
};

static void counts_are_those_of_the_ids(void **state)
{
	const int32_t ids[4 * K] = { 0, 1, 1, 2, 1, 7, -1, -1 };
	const uint16_t want[E] = { 1, 3, 1, 0, 0, 0, 0, 1 };
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	assert_int_equal(rows_count(ids, &launch, &s, counts), 0);
	assert_memory_equal(counts, want, sizeof(want));
	assert_int_equal(s.tokens, 3);
	assert_int_equal(s.rows, 6);
	assert_int_equal(s.active, 4);
	assert_int_equal(s.single, 3);
	assert_int_equal(s.twice, 0);
	assert_int_equal(s.sum_squares, 12);
	assert_int_equal(s.max_rows, 3);
	assert_int_equal(s.padded_rows, K);
}

static void wide_ids_are_read_as_wide(void **state)
{
	const int64_t ids[4 * K] = { 0, 1, 1, 2, 1, 7, -1, -1 };
	struct moe_launch l = launch;
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	l.id_bytes = 8;
	assert_int_equal(rows_count(ids, &l, &s, counts), 0);
	assert_int_equal(s.rows, 6);
	l.id_bytes = 4; /* the same bytes as narrow ids make no sense */
	assert_int_equal(rows_count(ids, &l, &s, counts), -EINVAL);
}

static const struct {
	const char *why;
	int32_t ids[4 * K];
} nonsense[] = {
	{ "id beyond the experts", { 0, 1, 1, 8, 1, 7, 2, 3 } },
	{ "negative id", { 0, 1, 1, -2, 1, 7, 2, 3 } },
	{ "an expert twice", { 0, 1, 3, 3, 1, 7, 2, 3 } },
	{ "half a token of padding", { 0, 1, 1, -1, 1, 7, 2, 3 } },
	{ "half a token of padding", { 0, 1, -1, 1, 1, 7, 2, 3 } },
	{ "padding before a token", { 0, 1, -1, -1, 1, 7, 2, 3 } },
	{ "zeroes", { 0 } },
	{ "floats", { 0x3f800000, 0x3f000000, 0, 0, 0, 0, 0, 0 } },
};

static void what_cannot_be_ids_is_refused(void **state)
{
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
		assert_int_equal(
			rows_count(nonsense[i].ids, &launch, &s, counts),
			-EINVAL);
}

static void unknown_shape_is_refused(void **state)
{
	const int32_t ids[4 * K] = { 0, 1, 1, 2, 1, 7, 2, 3 };
	struct moe_launch l = launch;
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	l.experts = 0;
	assert_int_equal(rows_count(ids, &l, &s, counts), -EINVAL);
	l = launch;
	l.k = 0;
	assert_int_equal(rows_count(ids, &l, &s, counts), -EINVAL);
}

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
			.launch = launch,
			.step = c / 2,
			.layer = (uint16_t)(c % 2),
		};
	}
	window.step[0] = window.step[1] =
		(struct reduce_step){ .phase = PHASE_DECODE };
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

static struct copy_time at(uint32_t correlation, uint64_t start)
{
	return (struct copy_time){ correlation, start, start + 2000 };
}

static void copy_inside_a_cell_counts_for_it(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(7, 20000), at(9, 120000),
				       at(8, 220000) };
	const struct rows_result *out;

	rows_add(r, full, &launch, 7);
	rows_add(r, other, &launch, 9);
	rows_add(r, three, &launch, 8);
	out = rows_end(r, t, 3, &window);
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
		rows_add(r, full, &launch, 100 + i);
		t[i] = at(100 + i, starts[i]);
	}
	out = rows_end(r, t, 8, &window);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
	assert_int_equal(out->lost, 4);
	assert_int_equal(out->rejected, 0);
}

static void copy_just_inside_the_guard_counts(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 12000), at(2, 156000) };
	const struct rows_result *out;

	rows_add(r, full, &launch, 1);
	rows_add(r, full, &launch, 2);
	out = rows_end(r, t, 2, &window);
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

	l.ids = 0x2000;
	rows_add(r, full, &l, 1);
	l = launch;
	l.rows = 3;
	rows_add(r, full, &l, 2);
	window.cell[2].launch.rows = 0; /* unknown */
	rows_add(r, full, &launch, 3);
	out = rows_end(r, t, 3, &window);
	assert_int_equal(out->lost, 4);
	assert_int_equal(out->rejected, 0);
}

static void two_equal_copies_count_once(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 30000) };
	const struct rows_result *out;

	rows_add(r, full, &launch, 1);
	rows_add(r, full, &launch, 2);
	out = rows_end(r, t, 2, &window);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 1);
	assert_int_equal(out->rejected, 0);
}

static void two_copies_that_differ_kill_the_cell(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000), at(2, 30000),
				       at(3, 40000) };
	const struct rows_result *out;

	rows_add(r, full, &launch, 1);
	rows_add(r, other, &launch, 2);
	rows_add(r, full, &launch, 3);
	out = rows_end(r, t, 3, &window);
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

	rows_add(r, full, &launch, 1);
	rows_add(r, three, &launch, 2); /* same step, one token less */
	rows_add(r, three, &launch, 3); /* another step */
	out = rows_end(r, t, 3, &window);
	assert_int_equal(out->rejected, 1);
	assert_int_equal(out->layer[PHASE_DECODE][1].cells, 0);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 2);
}

static void nonsense_in_a_cell_is_rejected(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(1, 20000) };
	const struct rows_result *out;

	rows_add(r, nonsense[0].ids, &launch, 1);
	out = rows_end(r, t, 1, &window);
	assert_int_equal(out->rejected, 1);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
}

static void copy_without_a_record_counts_for_nothing(void **state)
{
	struct rows *r = *state;
	const struct copy_time t[] = { at(99, 20000), at(0, 30000) };
	const struct rows_result *out;

	rows_add(r, full, &launch, 1);
	rows_add(r, full, &launch, 0); /* its call was not seen */
	out = rows_end(r, t, 2, &window);
	assert_int_equal(out->layer[PHASE_DECODE][0].cells, 0);
}

static void copies_beyond_the_table_are_refused(void **state)
{
	struct rows *r = *state;

	for (uint32_t i = 0; i < ROW_COPIES_MAX; i++)
		assert_int_equal(rows_add(r, full, &launch, i + 1), 0);
	assert_int_equal(rows_add(r, full, &launch, 1), -ENOSPC);
	assert_int_equal(
		rows_end(r, NULL, 0, &window)->layer[PHASE_DECODE][0].cells, 0);
	rows_begin(r);
	assert_int_equal(rows_add(r, full, &launch, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		cmocka_unit_test(counts_are_those_of_the_ids),
		cmocka_unit_test(wide_ids_are_read_as_wide),
		cmocka_unit_test(what_cannot_be_ids_is_refused),
		cmocka_unit_test(unknown_shape_is_refused),
		T(copy_inside_a_cell_counts_for_it),
		T(copy_across_an_edge_counts_for_nothing),
		T(copy_just_inside_the_guard_counts),
		T(copy_of_another_buffer_counts_for_nothing),
		T(two_equal_copies_count_once),
		T(two_copies_that_differ_kill_the_cell),
		T(layers_of_a_step_must_have_the_same_tokens),
		T(nonsense_in_a_cell_is_rejected),
		T(copy_without_a_record_counts_for_nothing),
		T(copies_beyond_the_table_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
