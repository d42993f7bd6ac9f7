/* Themes: text can be read in every one of them, whatever the terminal. */
#include "tui/theme.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#define CONTRAST_MIN 4.5

/* All but lines, empty parts of bars and the heat map, which are no text. */
static bool is_text(enum style s)
{
	return s != STYLE_FRAME && s != STYLE_BAR_EMPTY &&
	       (s < STYLE_HEAT || s > STYLE_HEAT_LAST);
}

static int rgb_of(int color, enum color_depth d)
{
	return d == DEPTH_256 ? color_of_256(color) : color;
}

static void check_contrast(unsigned theme, enum color_depth d)
{
	for (unsigned s = 0; s < STYLES; s++) {
		struct look l = theme_look(theme, (enum style)s, d);
		struct look c = theme_look_changed(theme, (enum style)s, d);
		double ratio = color_contrast(rgb_of(l.fg, d), rgb_of(l.bg, d));
		double later = color_contrast(rgb_of(c.fg, d), rgb_of(c.bg, d));

		if (is_text((enum style)s) && ratio < CONTRAST_MIN)
			fail_msg("%s: style %u has %.2f in depth %d",
				 theme_names[theme].name, s, ratio, (int)d);
		if (is_text((enum style)s) && later < CONTRAST_MIN)
			fail_msg("%s: style %u changed has %.2f",
				 theme_names[theme].name, s, later);
	}
}

static void test_text_stands_out_in_every_theme(void **state)
{
	unsigned painted = 0;

	(void)state;
	for (unsigned t = 0; t < THEMES; t++) {
		if (theme_background(t) < 0)
			continue;
		painted++;
		check_contrast(t, DEPTH_TRUE);
		check_contrast(t, DEPTH_256);
	}
	assert_true(painted >= 8);
}

/* Its hues must be seen on both: large-text contrast, 3 to 1, of the two. */
static void test_default_can_be_read_on_black_and_on_white(void **state)
{
	(void)state;
	assert_int_equal(theme_background(THEME_DEFAULT), -1);
	for (unsigned s = 0; s < STYLES; s++) {
		struct look l =
			theme_look(THEME_DEFAULT, (enum style)s, DEPTH_TRUE);

		if (l.fg < 0 || !is_text((enum style)s))
			continue;
		if (color_contrast(l.fg, 0x000000) < 3 ||
		    color_contrast(l.fg, 0xffffff) < 2)
			fail_msg("style %u: %.2f on black, %.2f on white", s,
				 color_contrast(l.fg, 0),
				 color_contrast(l.fg, 0xffffff));
	}
}

static void test_heat_grows_away_from_the_background(void **state)
{
	(void)state;
	for (unsigned t = 0; t < THEMES; t++) {
		int back = theme_background(t);
		double before = 1;

		for (unsigned i = 0; back >= 0 && i < HEAT_LEVELS; i++) {
			struct look l = theme_look(
				t, (enum style)(STYLE_HEAT + i), DEPTH_TRUE);
			double now = color_contrast(l.fg, back);

			if (now <= before)
				fail_msg("%s: heat %u is no step up",
					 theme_names[t].name, i);
			before = now;
		}
	}
}

static void test_mono_has_no_colour(void **state)
{
	unsigned mono = theme_find("mono");

	(void)state;
	assert_true(mono < THEMES);
	for (unsigned t = 0; t < THEMES; t++)
		for (unsigned s = 0; s < STYLES; s++)
			for (unsigned d = 0; d < DEPTHS; d++) {
				struct look l = theme_look(t, (enum style)s,
							   (enum color_depth)d);
				if (t != mono && d != DEPTH_MONO)
					continue;
				assert_int_equal(l.fg, -1);
				assert_int_equal(l.bg, -1);
			}
}

static void test_eight_colours_are_enough(void **state)
{
	(void)state;
	for (unsigned t = 0; t < THEMES; t++)
		for (unsigned s = 0; s < STYLES; s++) {
			struct look l = theme_look(t, (enum style)s, DEPTH_8);

			assert_in_range(l.fg + 1, 0, 8);
			assert_in_range(l.bg + 1, 0, 8);
			if (l.bg >= 0)
				assert_int_not_equal(l.fg, l.bg);
		}
}

static void test_a_changed_number_looks_different(void **state)
{
	(void)state;
	for (unsigned t = 0; t < THEMES; t++)
		for (unsigned d = 0; d < DEPTHS; d++) {
			struct look a = theme_look(t, STYLE_STRONG,
						   (enum color_depth)d);
			struct look b = theme_look_changed(t, STYLE_STRONG,
							   (enum color_depth)d);
			assert_true(a.fg != b.fg ||
				    a.attributes != b.attributes);
		}
}

static void test_names_are_found(void **state)
{
	(void)state;
	for (unsigned t = 0; t < THEMES; t++) {
		assert_int_equal(theme_find(theme_names[t].name), t);
		assert_true(theme_names[t].help[0]);
	}
	assert_int_equal(theme_find("no such theme"), THEMES);
}

static void test_256_colours_are_those_of_xterm(void **state)
{
	(void)state;
	assert_int_equal(color_of_256(16), 0x000000);
	assert_int_equal(color_of_256(231), 0xffffff);
	assert_int_equal(color_of_256(244), 0x808080);
	assert_int_equal(color_of_256(172), 0xd78700);
	for (int n = 17; n < 256; n++)
		assert_int_equal(color_of_256(color_to_256(color_of_256(n))),
				 color_of_256(n));
	assert_true(color_contrast(0, 0xffffff) > 20.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_stands_out_in_every_theme),
		cmocka_unit_test(
			test_default_can_be_read_on_black_and_on_white),
		cmocka_unit_test(test_heat_grows_away_from_the_background),
		cmocka_unit_test(test_mono_has_no_colour),
		cmocka_unit_test(test_eight_colours_are_enough),
		cmocka_unit_test(test_a_changed_number_looks_different),
		cmocka_unit_test(test_names_are_found),
		cmocka_unit_test(test_256_colours_are_those_of_xterm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
