/* Bars to the eighth, parts that add up, graphs, wrapping, fields, tables. */
#include "tui/table.h"
#include "tui/widgets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct grid grid;

static void fresh(int w, int h, bool ascii)
{
	grid_fini(&grid);
	grid.ascii = ascii;
	assert_int_equal(grid_resize(&grid, w, h), 0);
}

static void expect(const char *text)
{
	char *got = NULL;
	size_t bytes;
	FILE *f = open_memstream(&got, &bytes);

	assert_non_null(f);
	assert_int_equal(grid_write(&grid, f), 0);
	fclose(f);
	assert_string_equal(got, text);
	free(got);
}

static void test_a_bar_is_exact_to_the_eighth(void **state)
{
	(void)state;
	for (int w = 1; w <= 200; w++)
		for (int i = 0; i <= 8 * w; i++)
			assert_int_equal(bar_eighths(i / (8.0 * w), w), i);
	assert_int_equal(bar_eighths(NAN, 10), 0);
	assert_int_equal(bar_eighths(-1, 10), 0);
	assert_int_equal(bar_eighths(INFINITY, 10), 80);
	assert_int_equal(bar_eighths(0.5, 0), 0);
	assert_int_equal(bar_eighths(0.5, -3), 0);
}

static void test_bars_look_right(void **state)
{
	(void)state;
	fresh(8, 1, false);
	bar_draw(&grid, grid_rect(&grid), 0.5 + 3 / 64.0, NAN, STYLE_BAR);
	expect("████▍···\n");
	fresh(8, 1, false);
	bar_draw(&grid, grid_rect(&grid), 0.75, 0.5, STYLE_BAR);
	assert_int_equal(grid_cell(&grid, 4, 0)->style, STYLE_BAR_WASTE);
	expect("████▒▒··\n");
	fresh(8, 1, false);
	bar_draw(&grid, grid_rect(&grid), NAN, NAN, STYLE_BAR);
	expect("········\n");
	fresh(4, 1, false);
	bar_draw(&grid, grid_rect(&grid), 1.5, NAN, STYLE_BAR);
	expect("███>\n");
	fresh(8, 1, true);
	bar_draw(&grid, grid_rect(&grid), 0.75, 0.5, STYLE_BAR);
	expect("####%%..\n");
}

static void test_parts_add_up_to_the_bar(void **state)
{
	int cells[7];

	(void)state;
	srand(1);
	for (int round = 0; round < 3000; round++) {
		double share[7];
		int w = rand() % 200, sum = 0, there = 0;
		for (int i = 0; i < 7; i++) {
			share[i] = rand() % 3 ? rand() % 1000 / 1000.0 : 0;
			there += share[i] > 0;
		}
		parts_divide(share, 7, w, cells);
		for (int i = 0; i < 7; i++) {
			sum += cells[i];
			if (share[i] > 0 && w >= there)
				assert_true(cells[i] >= 1);
			if (!(share[i] > 0))
				assert_int_equal(cells[i], 0);
		}
		assert_int_equal(sum, there ? w : 0);
	}
}

static void test_parts_are_in_proportion(void **state)
{
	const double share[3] = { 0.5, 0.3, 0.2 };
	const double odd[4] = { NAN, INFINITY, -1, 2 };
	int cells[4];

	(void)state;
	parts_divide(share, 3, 100, cells);
	assert_int_equal(cells[0], 50);
	assert_int_equal(cells[1], 30);
	assert_int_equal(cells[2], 20);
	parts_divide(odd, 4, 10, cells);
	assert_int_equal(cells[3], 10);
	assert_int_equal(cells[0] + cells[1] + cells[2], 0);
}

static void test_a_graph_tells_zero_from_unknown(void **state)
{
	const double v[6] = { NAN, NAN, 0, 0, 4, 2 };

	(void)state;
	fresh(3, 1, false);
	graph_draw(&grid, grid_rect(&grid), v, 6, 4, STYLE_SPARK);
	expect(" ⣀⣧\n");
	fresh(6, 1, true);
	graph_draw(&grid, grid_rect(&grid), v, 6, 4, STYLE_SPARK);
	expect("  __#-\n");
}

static void test_a_tall_graph_rises_through_its_rows(void **state)
{
	const double v[4] = { 1, 1, 2, 2 };

	(void)state;
	fresh(2, 2, false);
	graph_draw(&grid, grid_rect(&grid), v, 4, 2, STYLE_SPARK);
	expect(" ⣿\n⣿⣿\n");
}

static void test_text_is_wrapped_at_blanks(void **state)
{
	const char *text = "one two three  four";

	(void)state;
	fresh(9, 3, false);
	assert_int_equal(wrap_rows(&grid, text, 9), 3);
	assert_int_equal(wrap_draw(&grid, grid_rect(&grid), 0, text, 3), 3);
	assert_int_equal(grid_cell(&grid, 2, 0)->style, STYLE_STRONG);
	assert_int_equal(grid_cell(&grid, 4, 0)->style, STYLE_NORMAL);
	expect("one two\nthree\nfour\n");
}

static void test_text_that_does_not_fit_says_so(void **state)
{
	(void)state;
	fresh(9, 2, false);
	wrap_draw(&grid, grid_rect(&grid), 0, "one two three  four", 0);
	expect("one two\nthree  f…\n");
	fresh(8, 2, false);
	wrap_draw(&grid, grid_rect(&grid), 0, "about 59 % of", 0);
	expect("about\n59 % of\n");
	fresh(4, 3, false);
	wrap_draw(&grid, grid_rect(&grid), 0, "unbreakable", 0);
	expect("unbr\neaka\nble\n");
}

static void test_wrapping_always_ends(void **state)
{
	static const char *const texts[] = { "漢字漢字",     "a 漢",
					     "     ",        " a",
					     "\xff\xfe\xfd", "" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (int w = -1; w < 12; w++) {
			int rows = wrap_rows(&grid, texts[i], w);
			assert_true(rows <= (int)strlen(texts[i]));
		}
}

static void test_cut_text_keeps_its_width(void **state)
{
	(void)state;
	for (int w = -1; w < 14; w++) {
		fresh(14, 1, false);
		int used = text_cut(&grid, grid_rect(&grid), 0, 0, w,
				    STYLE_NORMAL, "漢字 and more");
		assert_true(used <= (w > 0 ? w : 0));
		for (int x = w > 0 ? w : 0; x < 14; x++)
			assert_int_equal(grid_cell(&grid, x, 0)->glyph, ' ');
	}
	expect("漢字 and more\n");
}

static void test_the_least_wanted_field_goes_first(void **state)
{
	struct fields left = { 0 }, right = { 0 };

	(void)state;
	fields_add(&left, 0, STYLE_NORMAL, "", "must");
	fields_add(&left, 2, STYLE_NORMAL, "", "second");
	fields_add(&left, 1, STYLE_NORMAL, "a", "1");
	fields_add(&right, 3, STYLE_NORMAL, "", "first");
	fields_add(&right, 0, STYLE_NORMAL, "", "end");
	fresh(18, 1, false);
	fields_draw(&grid, grid_rect(&grid), 0, " · ", &left, &right);
	expect("must · a 1     end\n");
}

static void test_too_many_fields_are_left_out(void **state)
{
	struct fields fs = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3 * FIELDS_MAX; i++)
		fields_add(&fs, i, STYLE_NORMAL, "", "%u", i);
	assert_int_equal(fs.n, FIELDS_MAX);
}

/* ---- table --------------------------------------------------------------- */

static const struct table_column columns[] = {
	{ .title = "n", .w = 3 },
	{ .title = "bar", .w = 4, .rank = 1, .bar = true },
	{ .title = "name", .w = 6, .rank = 2, .left = true },
};

static void cell(const void *context, int row, unsigned column,
		 struct table_cell *out)
{
	(void)context;
	if (column == 0)
		snprintf(out->text, sizeof(out->text), "%d", row);
	else if (column == 1)
		out->ratio = row / 4.0;
	else
		snprintf(out->text, sizeof(out->text), "row %d", row);
}

static struct table five_rows(int first)
{
	return (struct table){ .columns = columns,
			       .n_columns = 3,
			       .rows = 5,
			       .footer = 1,
			       .first = first,
			       .sorted = 0,
			       .cell = cell };
}

static void test_a_table_scrolls_above_its_footer(void **state)
{
	struct table t = five_rows(2);

	(void)state;
	fresh(18, 6, false);
	table_draw(&grid, grid_rect(&grid), &t);
	expect(" n▼    bar name\n"
	       "  1 █▌···· row 1\n"
	       "  2 ███··· row 2\n"
	       "  3 ████▌· row 3\n"
	       "  4 ██████ row 4\n"
	       "  5 █████> row 5\n");
}

static void test_a_narrow_table_drops_columns_by_rank(void **state)
{
	struct table t = five_rows(0);

	(void)state;
	fresh(9, 2, false);
	table_draw(&grid, grid_rect(&grid), &t);
	expect(" n▼  bar\n  0 ····\n");
	fresh(4, 2, false);
	table_draw(&grid, grid_rect(&grid), &t);
	expect(" n▼\n  0\n");
}

static void test_no_scroll_position_leaves_the_table(void **state)
{
	(void)state;
	for (int first = -100; first < 100; first += 7)
		for (int h = 1; h < 12; h++) {
			struct table t = five_rows(first);
			fresh(16, h, false);
			table_draw(&grid, grid_rect(&grid), &t);
			assert_true(table_shown(&t, h) <= 5);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_bar_is_exact_to_the_eighth),
		cmocka_unit_test(test_bars_look_right),
		cmocka_unit_test(test_parts_add_up_to_the_bar),
		cmocka_unit_test(test_parts_are_in_proportion),
		cmocka_unit_test(test_a_graph_tells_zero_from_unknown),
		cmocka_unit_test(test_a_tall_graph_rises_through_its_rows),
		cmocka_unit_test(test_text_is_wrapped_at_blanks),
		cmocka_unit_test(test_text_that_does_not_fit_says_so),
		cmocka_unit_test(test_wrapping_always_ends),
		cmocka_unit_test(test_cut_text_keeps_its_width),
		cmocka_unit_test(test_the_least_wanted_field_goes_first),
		cmocka_unit_test(test_too_many_fields_are_left_out),
		cmocka_unit_test(test_a_table_scrolls_above_its_footer),
		cmocka_unit_test(test_a_narrow_table_drops_columns_by_rank),
		cmocka_unit_test(test_no_scroll_position_leaves_the_table),
	};
	int failed;

	setlocale(LC_ALL, "C.UTF-8");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	grid_fini(&grid);
	return failed;
}
