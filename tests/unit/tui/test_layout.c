/* Rectangles of every size of terminal: inside, apart, and worth having. */
#include "tui/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define COLUMNS_MOST 300
#define ROWS_MOST 120

static bool empty(const struct rect *r)
{
	return r->w <= 0 || r->h <= 0;
}

static bool within(const struct rect *r, const struct rect *outer)
{
	return r->x >= outer->x && r->y >= outer->y &&
	       r->x + r->w <= outer->x + outer->w &&
	       r->y + r->h <= outer->y + outer->h;
}

static bool overlap(const struct rect *a, const struct rect *b)
{
	return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h &&
	       b->y < a->y + a->h;
}

static void check_apart(const struct rect *r, unsigned n,
			const struct rect *outer)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(r[i].w >= 0 && r[i].h >= 0);
		if (empty(&r[i]))
			continue;
		assert_true(within(&r[i], outer));
		for (unsigned k = 0; k < i; k++)
			if (!empty(&r[k]))
				assert_false(overlap(&r[i], &r[k]));
	}
}

static void frame_rects(const struct frame_layout *l, struct rect out[6])
{
	out[0] = l->header;
	out[1] = l->tiers;
	out[2] = l->remedy;
	out[3] = l->body;
	out[4] = l->message;
	out[5] = l->keys;
}

static void check_frame(int w, int h, bool remedy, bool message)
{
	struct rect screen = { 0, 0, w, h }, r[6];
	struct frame_layout l;
	int rows = 0;

	layout_frame(w, h, remedy, message, &l);
	frame_rects(&l, r);
	check_apart(r, 6, &screen);
	for (unsigned i = 0; i < 6; i++)
		rows += r[i].h;
	assert_int_equal(rows, h);
	assert_int_equal(l.header.h, 1);
	assert_int_equal(l.keys.h, 1);
	assert_int_equal(l.message.h, message);
	assert_true(l.body.h >= 8);
	if (h >= 24) {
		assert_int_equal(l.tiers.h, 1);
		assert_int_equal(l.remedy.h, remedy);
	}
}

static void test_frame_fills_every_size(void **state)
{
	(void)state;
	for (int w = LAYOUT_COLUMNS_MIN; w <= COLUMNS_MOST; w++)
		for (int h = LAYOUT_ROWS_MIN; h <= ROWS_MOST; h++)
			for (int k = 0; k < 4; k++)
				check_frame(w, h, k & 1, k & 2);
}

static void test_below_the_minimum_nothing_fits(void **state)
{
	(void)state;
	for (int w = 1; w <= COLUMNS_MOST; w++)
		for (int h = 1; h <= ROWS_MOST; h++)
			assert_int_equal(layout_fits(w, h), w >= 40 && h >= 12);
}

static const struct overview_needs needs[] = {
	{ 0 },
	{ .verdict_rows = 1, .graphs = 8 },
	{ .verdict_rows = 4,
	  .findings = 3,
	  .strips = 3,
	  .layers = 94,
	  .classes = 12,
	  .graphs = 8 },
	{ .verdict_rows = 40,
	  .findings = 16,
	  .strips = 3,
	  .layers = 128,
	  .classes = 96,
	  .graphs = 8 },
	{ .verdict_rows = 2, .classes = 12, .graphs = 8 },
};
#define NEEDS (sizeof(needs) / sizeof(*needs))

static struct overview_layout overview(int w, int h,
				       const struct overview_needs *n)
{
	struct overview_layout o;
	struct frame_layout f;

	layout_frame(w, h, false, false, &f);
	layout_overview(f.body, n, &o);
	check_apart(o.part, OVERVIEW_PARTS, &f.body);
	return o;
}

static void test_overview_parts_stay_apart(void **state)
{
	(void)state;
	for (int w = LAYOUT_COLUMNS_MIN; w <= COLUMNS_MOST; w++)
		for (int h = LAYOUT_ROWS_MIN; h <= ROWS_MOST; h++)
			for (unsigned i = 0; i < NEEDS; i++)
				overview(w, h, &needs[i]);
}

static void test_essentials_are_there_at_the_minimum(void **state)
{
	(void)state;
	for (int w = LAYOUT_COLUMNS_MIN; w <= COLUMNS_MOST; w++) {
		struct overview_layout o = overview(w, 12, &needs[2]);
		assert_true(o.part[PART_VERDICT].h >= 1);
		assert_int_equal(o.part[PART_BARS].h, 4);
		assert_true(o.part[PART_STEP].h >= 1);
		assert_true(o.part[PART_REQUESTS].h >= 1);
	}
}

static void test_from_80x24_nothing_essential_is_missing(void **state)
{
	(void)state;
	for (int w = 80; w <= COLUMNS_MOST; w++)
		for (int h = 24; h <= ROWS_MOST; h++) {
			struct overview_layout o = overview(w, h, &needs[2]);
			assert_true(o.boxed);
			assert_int_equal(o.part[PART_VERDICT].h, 6);
			assert_int_equal(o.part[PART_STEP].h, 2);
			assert_int_equal(o.part[PART_REQUESTS].h, 3);
			assert_true(o.part[PART_HISTORY].h >= 2);
			assert_true(o.part[PART_FINDINGS].h >= 2);
		}
}

static void test_more_rows_never_lose_a_part(void **state)
{
	(void)state;
	for (int w = LAYOUT_COLUMNS_MIN; w <= COLUMNS_MOST; w += 7)
		for (int h = LAYOUT_ROWS_MIN; h < ROWS_MOST; h++) {
			struct overview_layout a = overview(w, h, &needs[2]);
			struct overview_layout b =
				overview(w, h + 1, &needs[2]);
			for (int i = 0; i <= PART_STRIPS; i++)
				if (i != PART_HISTORY)
					assert_true(a.part[i].h <= b.part[i].h);
			assert_true(a.graph_rows <= b.graph_rows);
		}
}

static void test_graphs_fill_their_part(void **state)
{
	(void)state;
	for (int h = LAYOUT_ROWS_MIN; h <= ROWS_MOST; h++) {
		struct overview_layout o = overview(100, h, &needs[2]);
		int used = o.graph_rows * o.graph_height;
		int rows = o.part[PART_HISTORY].h;
		assert_true(rows == used || rows == used + 1);
	}
}

static void test_a_bar_line_fits_its_width(void **state)
{
	(void)state;
	for (int w = LAYOUT_COLUMNS_MIN; w <= COLUMNS_MOST; w++) {
		struct bar_layout b;
		layout_bar(w, &b);
		assert_true(b.bar > b.label && b.bar_w >= 8);
		assert_int_equal(b.value, b.bar + b.bar_w);
		assert_true(b.value + b.value_w <= w);
		if (w >= 80)
			assert_true(b.detail_w >= 24);
		if (b.detail_w)
			assert_true(b.detail + b.detail_w <= w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frame_fills_every_size),
		cmocka_unit_test(test_below_the_minimum_nothing_fits),
		cmocka_unit_test(test_overview_parts_stay_apart),
		cmocka_unit_test(test_essentials_are_there_at_the_minimum),
		cmocka_unit_test(test_from_80x24_nothing_essential_is_missing),
		cmocka_unit_test(test_more_rows_never_lose_a_part),
		cmocka_unit_test(test_graphs_fill_their_part),
		cmocka_unit_test(test_a_bar_line_fits_its_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
