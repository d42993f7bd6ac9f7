/* The grid: clipping, wide and combining glyphs, hostile text, ASCII. */
#include "tui/grid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static struct grid make(int w, int h, bool ascii)
{
	struct grid g = { .ascii = ascii };

	assert_int_equal(grid_resize(&g, w, h), 0);
	return g;
}

/* The grid as text, in a buffer that the caller frees. */
static char *text_of(const struct grid *g)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(grid_write(g, f), 0);
	fclose(f);
	return text;
}

static void expect(struct grid *g, const char *text)
{
	char *got = text_of(g);

	assert_string_equal(got, text);
	free(got);
	grid_fini(g);
}

static void test_text_is_clipped_to_its_rectangle(void **state)
{
	struct grid g = make(8, 3, false);
	struct rect clip = { 2, 1, 4, 1 };

	(void)state;
	assert_int_equal(grid_text(&g, clip, 0, 0, STYLE_NORMAL, "abcdefgh"),
			 8);
	grid_text(&g, clip, 0, 1, STYLE_NORMAL, "below");
	grid_text(&g, clip, 0, -1, STYLE_NORMAL, "above");
	grid_text(&g, clip, -2, 0, STYLE_NORMAL, "xyz");
	expect(&g, "\n  zbcd\n\n");
}

static void test_a_clip_beyond_the_grid_is_harmless(void **state)
{
	struct grid g = make(4, 2, false);

	(void)state;
	grid_text(&g, (struct rect){ -2, -1, 100, 100 }, 0, 1, STYLE_NORMAL,
		  "abcdefgh");
	grid_text(&g, (struct rect){ 50, 50, 9, 9 }, 0, 0, STYLE_NORMAL, "x");
	grid_text(&g, (struct rect){ 1, 1, -3, 4 }, 0, 0, STYLE_NORMAL, "x");
	grid_paint(&g, (struct rect){ -5, -5, 50, 50 }, STYLE_BAD);
	assert_int_equal(grid_cell(&g, 3, 1)->style, STYLE_BAD);
	expect(&g, "cdef\n\n");
}

static void test_a_wide_glyph_takes_two_cells(void **state)
{
	struct grid g = make(6, 1, false);

	(void)state;
	assert_int_equal(
		grid_text(&g, grid_rect(&g), 0, 0, STYLE_NORMAL, "a漢b"), 4);
	assert_int_equal(grid_cell(&g, 1, 0)->glyph, 0x6f22);
	assert_int_equal(grid_cell(&g, 2, 0)->glyph, 0);
	expect(&g, "a漢b\n");
}

static void test_half_a_wide_glyph_becomes_blank(void **state)
{
	struct grid g = make(4, 1, false);

	(void)state;
	grid_text(&g, grid_rect(&g), 0, 0, STYLE_NORMAL, "漢字");
	grid_text(&g, grid_rect(&g), 1, 0, STYLE_NORMAL, "x");
	assert_int_equal(grid_cell(&g, 0, 0)->glyph, ' ');
	grid_text(&g, grid_rect(&g), 3, 0, STYLE_NORMAL, "漢");
	expect(&g, " x\n");
}

static void test_a_combining_glyph_rides_on_the_one_before(void **state)
{
	struct grid g = make(4, 1, false);

	(void)state;
	assert_int_equal(
		grid_text(&g, grid_rect(&g), 0, 0, STYLE_NORMAL, "e\xcc\x81o"),
		2);
	assert_int_equal(grid_cell(&g, 0, 0)->marks[0], 0x301);
	expect(&g, "e\xcc\x81o\n");
}

static void test_marks_beyond_the_second_are_dropped(void **state)
{
	struct grid g = make(2, 1, false);

	(void)state;
	grid_text(&g, grid_rect(&g), 0, 0, STYLE_NORMAL,
		  "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81");
	expect(&g, "e\xcc\x81\xcc\x81\n");
}

static void test_no_control_reaches_the_screen(void **state)
{
	static const char *const hostile[] = {
		"\033[2J",          "\x7f",         "\xc2\x9b[J",
		"\xe2\x80\xae",     "\r\n",         "\xff\xfe",
		"\xc0\xaf",         "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"\xe2\x82",         "\xd8\x9c",     "\xef\xbf\xb9",
		"\xf3\xa0\x81\x81",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		const char *p = hostile[i];
		for (uint32_t c; (c = utf8_next(&p));)
			assert_true((c >= 0x20 && c < 0x7f) || c == 0xfffd);
		assert_ptr_equal(p, hostile[i] + strlen(hostile[i]));
	}
}

static void test_utf8_survives_the_round_trip(void **state)
{
	(void)state;
	for (uint32_t c = 0x20; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
		char bytes[5] = { 0 };
		const char *p = bytes;
		unsigned n = utf8_encode(c, bytes);
		uint32_t back = utf8_next(&p);
		assert_int_equal(p - bytes, n);
		assert_true(back == c || back == 0xfffd);
	}
}

static void test_ascii_spells_every_glyph(void **state)
{
	struct grid g = make(30, 1, true);

	(void)state;
	assert_int_equal(grid_text(&g, grid_rect(&g), 0, 0, STYLE_NORMAL,
				   "φ 8×H200 · 2≈ 漢 é"),
			 grid_width(&g, "φ 8×H200 · 2≈ 漢 é", 64));
	expect(&g, "phi 8xH200 . 2^ ? ?\n");
}

static void test_sizes_are_capped(void **state)
{
	struct grid g = make(-5, 0, false);

	(void)state;
	assert_int_equal(g.w, 1);
	assert_int_equal(g.h, 1);
	assert_int_equal(grid_resize(&g, 1 << 20, 1 << 20), 0);
	assert_int_equal(g.w, GRID_COLUMNS_MAX);
	assert_int_equal(g.h, GRID_ROWS_MAX);
	grid_fini(&g);
}

static void test_a_box_needs_room(void **state)
{
	struct grid g = make(5, 3, false);

	(void)state;
	grid_box(&g, (struct rect){ 0, 0, 1, 3 }, STYLE_FRAME);
	grid_box(&g, (struct rect){ 1, 0, 3, 3 }, STYLE_FRAME);
	expect(&g, " ┌─┐\n │ │\n └─┘\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_clipped_to_its_rectangle),
		cmocka_unit_test(test_a_clip_beyond_the_grid_is_harmless),
		cmocka_unit_test(test_a_wide_glyph_takes_two_cells),
		cmocka_unit_test(test_half_a_wide_glyph_becomes_blank),
		cmocka_unit_test(
			test_a_combining_glyph_rides_on_the_one_before),
		cmocka_unit_test(test_marks_beyond_the_second_are_dropped),
		cmocka_unit_test(test_no_control_reaches_the_screen),
		cmocka_unit_test(test_utf8_survives_the_round_trip),
		cmocka_unit_test(test_ascii_spells_every_glyph),
		cmocka_unit_test(test_sizes_are_capped),
		cmocka_unit_test(test_a_box_needs_room),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
