#include "cupti/row_counts.h"

#include <errno.h>

#include "tests/unit/cupti/check.h"

#define K 2
#define E 8

static const struct moe_launch launch = { .data = { 0x7f0000000000 },
					  .rows = 4,
					  .k = K,
					  .experts = E,
					  .wide = E,
					  .what = ROWS_IDS,
					  .bytes = 4 };

static void counts_are_those_of_the_ids(void **state)
{
	const int32_t ids[4 * K] = { 0, 1, 1, 2, 1, 7, -1, -1 };
	const uint16_t want[E] = { 1, 3, 1, 0, 0, 0, 0, 1 };
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	assert_int_equal(row_counts_read(ids, &launch, &s, counts), 0);
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
	l.bytes = 8;
	assert_int_equal(row_counts_read(ids, &l, &s, counts), 0);
	assert_int_equal(s.rows, 6);
	l.bytes = 4; /* the same bytes as narrow ids make no sense */
	assert_int_equal(row_counts_read(ids, &l, &s, counts), -EINVAL);
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
			row_counts_read(nonsense[i].ids, &launch, &s, counts),
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
	assert_int_equal(row_counts_read(ids, &l, &s, counts), -EINVAL);
	l = launch;
	l.k = 0;
	assert_int_equal(row_counts_read(ids, &l, &s, counts), -EINVAL);
}

static void ids_of_two_bytes_are_read(void **state)
{
	const int16_t ids[4 * K] = { 0, 1, 1, 2, 1, 7, -1, -1 };
	struct moe_launch l = launch;
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	l.bytes = 2;
	assert_int_equal(row_counts_read(ids, &l, &s, counts), 0);
	assert_int_equal(s.rows, 6);
	assert_int_equal(s.last, 7);
}

static void ids_beyond_the_routed_experts_are_dropped(void **state)
{
	const int32_t shared[3 * 3] = { 0, 1, 8, 5, 1, 8, -1, -1, -1 };
	const int32_t without[3 * 3] = { 0, 1, 2, 5, 1, 8, -1, -1, -1 };
	struct moe_launch l = launch;
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	l.rows = l.k = 3;
	l.wide = E + 1;
	l.fused = 1;
	assert_int_equal(row_counts_read(shared, &l, &s, counts), 0);
	assert_int_equal(s.rows, 4);
	assert_int_equal(s.dropped, 2);
	assert_int_equal(counts[1], 2);
	assert_int_equal(row_counts_read(without, &l, &s, counts), -EINVAL);
	l.fused = 0;
	assert_int_equal(row_counts_read(without, &l, &s, counts), 0);
	assert_int_equal(s.rows, 5);
}

static struct moe_launch numbers(enum row_what what, uint8_t bytes)
{
	return (struct moe_launch){ .data = { 0x7f0000000000 },
				    .rows = 4,
				    .k = K,
				    .experts = E,
				    .wide = E,
				    .what = (uint8_t)what,
				    .bytes = bytes,
				    .stride = 1 };
}

static void counts_must_be_of_whole_tokens(void **state)
{
	static const struct {
		int32_t counts[E];
		int err;
	} cases[] = {
		{ { 3, 0, 1, 0, 0, 0, 1, 1 }, 0 },
		{ { 3, 0, 1, 0, 0, 0, 1, 2 }, -EINVAL }, /* half a token */
		{ { 4, 0, 1, 0, 0, 0, 0, 1 }, -EINVAL }, /* one twice */
		{ { 4, 4, 1, 0, 0, 0, 0, 1 }, -EINVAL }, /* five tokens */
		{ { 3, -1, 1, 0, 0, 0, 1, 2 }, -EINVAL },
		{ { 0 }, -EINVAL },
	};
	struct moe_launch l = numbers(ROWS_COUNTS, 4);
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(
			row_counts_read(cases[i].counts, &l, &s, counts),
			cases[i].err);
	assert_int_equal(row_counts_read(cases[0].counts, &l, &s, counts), 0);
	assert_int_equal(s.tokens, 3);
	assert_int_equal(s.padded_rows, 2);
	l.part = true; /* of this rank's experts: any number */
	assert_int_equal(row_counts_read(cases[1].counts, &l, &s, counts), 0);
}

static void offsets_must_begin_at_0_and_rise(void **state)
{
	const int64_t good[E + 1] = { 0, 3, 3, 4, 4, 4, 4, 5, 6 };
	const int64_t falls[E + 1] = { 0, 3, 2, 4, 4, 4, 4, 5, 6 };
	const int64_t late[E + 1] = { 1, 3, 3, 4, 4, 4, 4, 5, 6 };
	struct moe_launch l = numbers(ROWS_OFFSETS, 8);
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	assert_int_equal(row_counts_read(good, &l, &s, counts), 0);
	assert_int_equal(s.rows, 6);
	assert_int_equal(s.active, 4);
	assert_int_equal(s.single, 3);
	assert_int_equal(counts[0], 3);
	assert_int_equal(row_counts_read(falls, &l, &s, counts), -EINVAL);
	assert_int_equal(row_counts_read(late, &l, &s, counts), -EINVAL);
	l.bytes = 4;
	assert_int_equal(row_counts_read(good, &l, &s, counts), -EINVAL);
}

/* 3 rows of expert 0, 1 of expert 2, 1 of 6, 1 of 7, in blocks of 2. */
struct blocks {
	int32_t n, pad0[3], expert[8], end[8];
};
static const struct blocks blocks = { .n = 5,
				      .expert = { 0, 0, 2, 6, 7 },
				      .end = { 2, 3, 5, 7, 9 } };

static struct moe_launch block_launch(void)
{
	struct moe_launch l = numbers(ROWS_BLOCKS, 4);

	l.data[1] = l.data[0] + 4096;
	l.data[2] = l.data[0] + 8192;
	l.tile = 2;
	return l;
}

static void blocks_are_added_up(void **state)
{
	struct moe_launch l = block_launch();
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	assert_int_equal(row_part_offset(&l, 1),
			 offsetof(struct blocks, expert));
	assert_int_equal(row_part_offset(&l, 2), offsetof(struct blocks, end));
	assert_int_equal(row_counts_read(&blocks, &l, &s, counts), 0);
	assert_int_equal(s.rows, 6);
	assert_int_equal(counts[0], 3);
	assert_int_equal(s.single, 3);
}

static void blocks_that_no_kernel_makes_are_refused(void **state)
{
	struct moe_launch l = block_launch();
	struct blocks b[5];
	uint16_t counts[E];
	struct row_sums s;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		b[i] = blocks;
	b[0].n = 9;         /* more than there can be */
	b[1].expert[3] = 1; /* out of order */
	b[2].end[0] = 1;    /* a second block behind one that is not full */
	b[3].end[4] = 11;   /* longer than a tile */
	b[4].expert[4] = E;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(row_counts_read(&b[i], &l, &s, counts),
				 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_those_of_the_ids),
		cmocka_unit_test(wide_ids_are_read_as_wide),
		cmocka_unit_test(what_cannot_be_ids_is_refused),
		cmocka_unit_test(unknown_shape_is_refused),
		cmocka_unit_test(ids_of_two_bytes_are_read),
		cmocka_unit_test(ids_beyond_the_routed_experts_are_dropped),
		cmocka_unit_test(counts_must_be_of_whole_tokens),
		cmocka_unit_test(offsets_must_begin_at_0_and_rise),
		cmocka_unit_test(blocks_are_added_up),
		cmocka_unit_test(blocks_that_no_kernel_makes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
