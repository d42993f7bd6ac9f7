/* The line that is typed. */
#include "tui/line.h"
#include "tui/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static struct line line;

static int setup(void **state)
{
	(void)state;
	line_set(&line, "", 0);
	return 0;
}

static void type(const char *utf8)
{
	for (uint32_t c; (c = utf8_next(&utf8));)
		assert_true(line_key(&line, (int)c));
}

static void test_characters_go_in_at_the_cursor(void **state)
{
	(void)state;
	type("φ=1");
	line_key(&line, INPUT_HOME);
	type("ηx");
	line_key(&line, INPUT_RIGHT);
	type("é");
	assert_string_equal(line.text, "ηxφé=1");
	line_key(&line, INPUT_END);
	line_key(&line, INPUT_LEFT);
	line_key(&line, INPUT_LEFT);
	line_key(&line, INPUT_LEFT);
	line_key(&line, 127);
	assert_string_equal(line.text, "ηxé=1");
	line_key(&line, INPUT_DELETE);
	assert_string_equal(line.text, "ηx=1");
}

static void test_control_keys_cut(void **state)
{
	(void)state;
	type("one two  ");
	line_key(&line, 'W' & 0x1f);
	assert_string_equal(line.text, "one ");
	line_key(&line, 'A' & 0x1f);
	line_key(&line, 'F' & 0x1f);
	line_key(&line, 'K' & 0x1f);
	assert_string_equal(line.text, "o");
	line_key(&line, 'U' & 0x1f);
	assert_string_equal(line.text, "");
	line_key(&line, 127);
	line_key(&line, INPUT_DELETE);
	line_key(&line, INPUT_LEFT);
	line_key(&line, INPUT_RIGHT);
	assert_string_equal(line.text, "");
}

static void test_what_has_no_room_stays_out(void **state)
{
	(void)state;
	line_set(&line, "", 4);
	type("aéé");
	assert_string_equal(line.text, "aé");
	type("b");
	type("c");
	assert_string_equal(line.text, "aéb");
	line_set(&line, "much longer than that", 4);
	assert_string_equal(line.text, "much");
}

static void test_other_keys_are_not_for_it(void **state)
{
	(void)state;
	assert_false(line_key(&line, INPUT_UP));
	assert_false(line_key(&line, INPUT_ENTER));
	assert_false(line_key(&line, INPUT_ESCAPE));
	assert_false(line_key(&line, INPUT_TAB));
	assert_false(line_key(&line, 0));
	assert_false(line_key(&line, -1));
	assert_false(line_key(&line, 0x9b)); /* CSI in 8 bits */
}

static void test_the_cursor_is_always_in_sight(void **state)
{
	struct grid g = { 0 };

	(void)state;
	assert_int_equal(grid_resize(&g, 20, 1), 0);
	type("a long text that is wider than its place 世界");
	for (int i = 0; i < 60; i++) {
		unsigned cursors = 0;

		grid_clear(&g);
		line_draw(&g, (struct rect){ 5, 0, 10, 1 }, &line,
			  STYLE_NORMAL);
		for (int x = 0; x < 20; x++) {
			bool here = grid_cell(&g, x, 0)->style == STYLE_CURSOR;

			cursors += here && grid_cell(&g, x, 0)->glyph;
			if (x < 5 || x >= 15)
				assert_int_equal(grid_cell(&g, x, 0)->glyph,
						 ' ');
		}
		assert_int_equal(cursors, 1);
		line_key(&line, INPUT_LEFT);
	}
	grid_fini(&g);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_characters_go_in_at_the_cursor),
		T(test_control_keys_cut),
		T(test_what_has_no_room_stays_out),
		T(test_other_keys_are_not_for_it),
		T(test_the_cursor_is_always_in_sight),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
