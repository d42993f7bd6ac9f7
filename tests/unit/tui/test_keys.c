/* Keys, clicks, pause; the help and the key bar tell what there is. */
#include "tests/unit/tui/scenes.h"
#include "tui/keys.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>

static struct view *view;
static struct snapshot *shot;
static char *text;

static int setup(void **state)
{
	(void)state;
	view = view_new(false);
	shot = calloc(1, sizeof(*shot));
	if (!view || !shot || view_resize(view, 100, 30))
		return -1;
	scene_fill(shot, SCENE_NEAR);
	view_add(view, shot);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	view_free(view);
	free(shot);
	free(text);
	text = NULL;
	return 0;
}

static const char *drawn(void)
{
	size_t bytes;
	FILE *f;

	free(text);
	text = NULL;
	view_draw(view);
	f = open_memstream(&text, &bytes);
	assert_non_null(f);
	assert_int_equal(grid_write(&view->grid, f), 0);
	fclose(f);
	return text;
}

static void check_shown(const char *what, bool there)
{
	if (!!strstr(drawn(), what) == there)
		return;
	printf("%s\n", text);
	fail_msg("'%s' is %s", what, there ? "not there" : "there");
}

static void test_wishes_of_keys(void **state)
{
	static const struct {
		int key;
		unsigned wish;
	} wishes[] = {
		{ 'q', TUI_QUIT },   { 'Q', TUI_QUIT },     { '+', TUI_FASTER },
		{ '=', TUI_FASTER }, { '-', TUI_SLOWER },   { '_', TUI_SLOWER },
		{ 'r', TUI_WINDOW }, { 'x', TUI_NONE },     { 0, TUI_NONE },
		{ -1, TUI_NONE },    { 0x1f600, TUI_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		assert_int_equal(view_key(view, wishes[i].key), wishes[i].wish);
}

static void test_numbers_choose_screens(void **state)
{
	static const char *const words[] = {
		"verdict", "layer",        "rows per expert",
		"latency", "kernel class", "curve of gain"
	};

	(void)state;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(view_key(view, '1' + i), TUI_REDRAW);
		assert_int_equal(view->screen, i);
		check_shown(words[i], true);
	}
}

static void test_tab_goes_round_the_screens_that_exist(void **state)
{
	static const unsigned round[] = { 1, 3, 4, 0, 1 };

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(view_key(view, INPUT_TAB), TUI_REDRAW);
		assert_int_equal(view->screen, round[i]);
	}
	view_key(view, INPUT_BACK_TAB);
	assert_int_equal(view->screen, 0);
	view_key(view, INPUT_BACK_TAB);
	assert_int_equal(view->screen, 4);
}

static void test_help_tells_every_key_and_comes_back(void **state)
{
	(void)state;
	view_resize(view, 160, 60);
	view_key(view, '4');
	view_key(view, '?');
	assert_int_equal(view->screen, SCREEN_HELP);
	for (unsigned i = 0; i < BINDINGS; i++) {
		check_shown(bindings[i].name, true);
		check_shown(bindings[i].help, true);
	}
	view_key(view, 'h');
	assert_int_equal(view->screen, 3);
	view_key(view, INPUT_F1);
	view_key(view, INPUT_ESCAPE);
	assert_int_equal(view->screen, 3);
}

static void test_the_whole_help_fits_100x30(void **state)
{
	(void)state;
	view_key(view, '?');
	check_shown("arrows scroll", false);
	check_shown("records and requests missed", true);
}

static void test_a_short_help_scrolls_to_its_end(void **state)
{
	(void)state;
	view_resize(view, 80, 24);
	view_key(view, '?');
	check_shown("useful arithmetic", false);
	view_key(view, INPUT_END);
	check_shown("useful arithmetic", true);
}

static void test_the_key_bar_lists_only_what_exists(void **state)
{
	(void)state;
	check_shown("3 experts", false);
	check_shown("6 valley", false);
	check_shown("2 layers", true);
	check_shown("s order", false);
	view_key(view, '2');
	check_shown("s order", true);
}

static void test_screens_that_do_not_exist_say_so(void **state)
{
	(void)state;
	view_key(view, '3');
	check_shown("This version has no such screen.", true);
	view_key(view, '6');
	check_shown("This version has no such screen.", true);
}

static void test_a_click_is_the_key_under_it(void **state)
{
	unsigned hits = 0;

	(void)state;
	drawn();
	for (int x = 0; x < 100; x++)
		assert_int_equal(view_click(view, x, 10), TUI_NONE);
	for (int x = 0; x < 100; x++) {
		view->screen = 0;
		view_click(view, x, 29);
		hits += view->screen == 3;
	}
	assert_int_equal(hits, strlen("4 requests"));
	view->screen = 0;
	drawn();
	assert_int_equal(view_click(view, 98, 29), TUI_QUIT);
	assert_int_equal(view_click(view, 99, 29), TUI_NONE);
}

static void test_pause_holds_the_picture_but_not_the_history(void **state)
{
	(void)state;
	view_key(view, ' ');
	check_shown("PAUSED", true);
	scene_at(shot, SCENE_SHARED, 5);
	view_add(view, shot);
	check_shown("IN THE VALLEY", true);
	assert_int_equal(view->history.n, 2);
	view_key(view, ' ');
	check_shown("PAUSED", false);
	scene_at(shot, SCENE_SHARED, 6);
	view_add(view, shot);
	check_shown("SHARED", true);
}

static void test_the_loss_of_the_target_ends_a_pause(void **state)
{
	(void)state;
	view_key(view, ' ');
	scene_fill(shot, SCENE_GONE);
	view_add(view, shot);
	check_shown("PAUSED", false);
	check_shown("target gone at 07:05:39 - the last state is kept", true);
	check_shown("in flight 14", true);
}

static void test_sorting_and_scrolling_the_layers(void **state)
{
	(void)state;
	view_key(view, '2');
	check_shown("layer▼", true);
	view_key(view, 's');
	check_shown("µs/step▼", true);
	for (int i = 0; i < 3; i++)
		view_key(view, 's');
	check_shown("layer▼", true);
	check_shown("\n     93 ", false);
	assert_int_equal(view_key(view, INPUT_END), TUI_REDRAW);
	check_shown(" 93 ", true);
	view_key(view, INPUT_HOME);
	view_key(view, INPUT_UP);
	check_shown("\n      0 ", true);
	view_key(view, INPUT_DOWN);
	check_shown("\n      0 ", false);
	check_shown("\n      1 ", true);
}

static void test_the_remedy_of_what_is_missing_most(void **state)
{
	(void)state;
	scene_at(shot, SCENE_TIERS_MISSING, 5);
	view_add(view, shot);
	check_shown("! T2 missing", true);
	check_shown("moetop run -- CMD", true);
	scene_tier(shot, 2, "T2", TIER_OK, "", "");
	view_add(view, shot);
	check_shown("! T1 missing", true);
	snprintf(shot->target.ranks[0].agent, 24, "disabled");
	snprintf(shot->target.ranks[0].reason, 96, "CUPTI error 39");
	view_add(view, shot);
	check_shown("! agent of pid 41300 is disabled · CUPTI error 39", true);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_wishes_of_keys),
		T(test_numbers_choose_screens),
		T(test_tab_goes_round_the_screens_that_exist),
		T(test_help_tells_every_key_and_comes_back),
		T(test_the_whole_help_fits_100x30),
		T(test_a_short_help_scrolls_to_its_end),
		T(test_the_key_bar_lists_only_what_exists),
		T(test_screens_that_do_not_exist_say_so),
		T(test_a_click_is_the_key_under_it),
		T(test_pause_holds_the_picture_but_not_the_history),
		T(test_the_loss_of_the_target_ends_a_pause),
		T(test_sorting_and_scrolling_the_layers),
		T(test_the_remedy_of_what_is_missing_most),
	};

	setlocale(LC_ALL, "C.UTF-8");
	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
