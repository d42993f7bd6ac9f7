/* Keys, clicks, pause; the help and the key bar tell what there is. */
#include "tui/keys.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>

#include "tests/unit/tui/live_view.h"

static int setup(void **state)
{
	(void)state;
	if (live_view_open(100, 30))
		return -1;
	view_add(view, shot);
	return 0;
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
		{ 'w', TUI_WINDOW }, { 'x', TUI_NONE },     { 0, TUI_NONE },
		{ -1, TUI_NONE },    { 0x1f600, TUI_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		assert_int_equal(view_key(view, wishes[i].key), wishes[i].wish);
}

static void test_numbers_choose_screens(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		char title[32];

		assert_int_equal(view_key(view, '1' + i), TUI_REDRAW);
		assert_int_equal(view->screen, i);
		snprintf(title, sizeof(title), "%c %s", '1' + i,
			 screens[i]->title);
		check_shown(title, true);
	}
}

static void test_tab_goes_round_the_screens_that_exist(void **state)
{
	unsigned at = 0;

	(void)state;
	for (unsigned i = 1; i <= 6; i++) {
		if (screens[i % 6]->absent)
			continue;
		assert_int_equal(view_key(view, INPUT_TAB), TUI_REDRAW);
		assert_int_equal(view->screen, at = i % 6);
	}
	assert_int_equal(at, 0);
	for (unsigned i = 6; i-- > 0;) {
		if (screens[i]->absent)
			continue;
		view_key(view, INPUT_BACK_TAB);
		assert_int_equal(view->screen, i);
	}
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

static void test_the_key_bar_offers_what_the_screen_can(void **state)
{
	(void)state;
	view_resize(view, 200, 40);
	check_shown("2 layers", true);
	check_shown("s order", false);
	view_key(view, '2');
	check_shown("s order", true);
	check_shown("S setup", true);
}

static void test_the_key_bar_drops_words_by_rank(void **state)
{
	(void)state;
	for (int w = 40; w < 200; w++) {
		view_resize(view, w, 24);
		check_shown("q quit", true);
		check_shown("? help", true);
		check_shown("1 ", true);
		if (strstr(drawn(), "w kernels now"))
			check_shown("e explain", true);
	}
}

static void test_the_narrowest_key_bar_has_every_screen(void **state)
{
	(void)state;
	view_resize(view, 40, 12);
	for (unsigned i = 0; i < SCREEN_HELP; i++) {
		bool found[SCREEN_HELP] = { false };

		view->screen = i;
		drawn();
		for (unsigned z = 0; z < view->n_zones; z++)
			for (unsigned k = 0; k < SCREEN_HELP; k++)
				found[k] |=
					view->zones[z].kind == ZONE_KEY &&
					view->zones[z].value == screens[k]->key;
		for (unsigned k = 0; k < SCREEN_HELP; k++)
			assert_true(found[k] || screens[k]->absent);
		check_shown("? help", true);
		check_shown("6? help", false);
	}
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
	view_key(view, 'R');
	check_shown("µs/step▲", true);
	for (int i = 0; i < 20 && screen_state(view)->sort; i++) {
		view_key(view, 's');
		drawn();
	}
	check_shown("layer▲", true);
	view_key(view, 'r');
	check_shown("layer▼", true);
	check_shown("\n     93 ", false);
	assert_int_equal(view_key(view, INPUT_END), TUI_REDRAW);
	check_shown(" 93 ", true);
	view_key(view, INPUT_HOME);
	view_key(view, INPUT_UP);
	check_shown("\n      0 ", true);
	assert_int_equal(screen_state(view)->cursor, 0);
	for (int i = 0; i < 40; i++) {
		view_key(view, INPUT_DOWN);
		drawn();
	}
	assert_int_equal(screen_state(view)->cursor, 40);
	check_shown("\n      0 ", false);
	check_shown("\n     40 ", true);
	snprintf(screen_state(view)->filter, FILTER_BYTES, "93");
	check_shown("\n     93 ", true);
	check_shown("\n     40 ", false);
	snprintf(screen_state(view)->filter, FILTER_BYTES, "no such word");
	check_shown("no row has that word in it", true);
}

static void test_no_key_does_two_things(void **state)
{
	(void)state;
	for (unsigned i = 0; i < BINDINGS; i++) {
		assert_true(bindings[i].help[0]);
		for (unsigned k = 0; k < 6 && bindings[i].keys[k]; k++)
			assert_ptr_equal(binding_find(bindings[i].keys[k]),
					 &bindings[i]);
		if (bindings[i].bar)
			assert_true(bindings[i].keys[0] != 0);
	}
}

static void type(const char *keys)
{
	while (*keys)
		view_key(view, (unsigned char)*keys++);
}

static unsigned first_that_filters(void)
{
	unsigned i = 0;

	while (i < SCREEN_HELP && !screens[i]->filters)
		i++;
	assert_true(i < SCREEN_HELP);
	return i;
}

static void test_the_filter_is_typed_kept_and_taken_back(void **state)
{
	unsigned at = first_that_filters();
	struct screen_state *s = &view->state[at];

	(void)state;
	view->screen = at;
	view_key(view, '/');
	type("moe q");
	assert_int_equal(view->screen, at); /* q, 1 ... are letters now */
	assert_string_equal(s->filter, "moe q");
	check_shown("filter moe q", true);
	view_key(view, '\r');
	assert_false(view->filtering);
	check_shown(" only moe q ", true);
	view_key(view, '/');
	type("x");
	assert_string_equal(s->filter, "moe qx");
	view_key(view, INPUT_ESCAPE);
	assert_string_equal(s->filter, "moe q");
	assert_false(view->filtering);
	view_key(view, INPUT_ESCAPE);
	assert_string_equal(s->filter, "");
	view->screen = 0;
	view_key(view, '/');
	assert_false(view->filtering);
	check_shown("no rows to filter", true);
}

/* The first column of the key bar that shows this. */
static int bar_column(const char *what)
{
	int x = 0;

	drawn();
	for (; x < view->grid.w; x++) {
		unsigned n = 0;

		while (what[n] && x + (int)n < view->grid.w &&
		       grid_cell(&view->grid, x + (int)n, view->grid.h - 1)
				       ->glyph == (unsigned char)what[n])
			n++;
		if (!what[n])
			return x;
	}
	fail_msg("'%s' is not in the key bar", what);
	return -1;
}

static void test_a_click_on_a_key_is_no_letter_of_the_filter(void **state)
{
	(void)state;
	view->screen = 1;
	view_key(view, '/');
	type("93");
	assert_int_equal(view_click(view, bar_column("5 kernels"), 29),
			 TUI_REDRAW);
	assert_int_equal(view->screen, 4);
	assert_false(view->filtering);
	assert_string_equal(view->state[1].filter, "93");
	assert_string_equal(view->state[4].filter, "");
}

static void test_reset_forgets_order_filter_and_zoom(void **state)
{
	struct screen_state *s = &view->state[1];

	(void)state;
	view->screen = 1;
	type("ssR");
	assert_int_equal(s->sort, 2);
	assert_true(s->reverse);
	snprintf(s->filter, sizeof(s->filter), "x");
	view_key(view, INPUT_DOWN);
	view_key(view, 'z');
	view_key(view, 'r');
	assert_int_equal(s->sort, 0);
	assert_false(s->reverse);
	assert_false(s->selected);
	assert_string_equal(s->filter, "");
	assert_true(history_span(&view->history) == HISTORY_SECONDS);
}

static void test_zoom_goes_through_the_spans(void **state)
{
	(void)state;
	view_resize(view, 100, 40);
	check_shown("last 5 min", true);
	view_key(view, 'z');
	check_shown("last 1 min", true);
	view_key(view, 'z');
	check_shown("last 15 s", true);
	view_key(view, 'z');
	check_shown("last 5 min", true);
}

static void test_the_log_keeps_messages_with_their_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		scene_at(shot, SCENE_NEAR, i);
		snprintf(shot->health.message, 160, "message %u", i / 2);
		view_add(view, shot);
	}
	view_key(view, 'l');
	check_shown("07:06:40  message 0", true);
	check_shown("07:06:42  message 1", true);
	assert_int_equal(view->log.n, 2);
	for (unsigned i = 0; i < 2 * LOG_LINES; i++) {
		char line[32];

		snprintf(line, sizeof(line), "line %u", i);
		log_add(&view->log, SCENE_START, line);
	}
	assert_int_equal(view->log.n, LOG_LINES);
	assert_int_equal(view->log.pushed_out, LOG_LINES + 2);
	check_shown("line 199", true);
	check_shown("100 kept, 102 older ones not", true);
	view_key(view, INPUT_HOME);
	check_shown("line 100", true);
	check_shown("line 99 ", false);
	view_key(view, 'l');
	check_shown("messages", false);
}

static void test_escape_leaves_one_thing_at_a_time(void **state)
{
	(void)state;
	view->screen = 1;
	screen_state(view)->selected = true;
	snprintf(screen_state(view)->filter, FILTER_BYTES, "1");
	view_key(view, 'e');
	assert_int_equal(view->panel, PANEL_EXPLAIN);
	view_key(view, INPUT_ESCAPE);
	assert_int_equal(view->panel, PANEL_NONE);
	assert_string_equal(screen_state(view)->filter, "1");
	view_key(view, INPUT_ESCAPE);
	assert_string_equal(screen_state(view)->filter, "");
	assert_true(screen_state(view)->selected);
	view_key(view, INPUT_ESCAPE);
	assert_false(screen_state(view)->selected);
	assert_int_equal(view_key(view, INPUT_ESCAPE), TUI_NONE);
	assert_int_equal(view->screen, 1);
}

static void test_a_theme_is_named_when_it_comes(void **state)
{
	(void)state;
	view_key(view, 't');
	assert_int_equal(view->theme, 1);
	check_shown("theme dark", true);
	for (unsigned i = 1; i < THEMES; i++)
		view_key(view, 't');
	assert_int_equal(view->theme, 0);
	/* the message goes by itself */
	for (unsigned i = 0; i < 4; i++) {
		scene_at(shot, SCENE_NEAR, 10 + i);
		view_add(view, shot);
	}
	check_shown("theme default", false);
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
		T(test_the_key_bar_offers_what_the_screen_can),
		T(test_the_key_bar_drops_words_by_rank),
		T(test_no_key_does_two_things),
		T(test_the_filter_is_typed_kept_and_taken_back),
		T(test_reset_forgets_order_filter_and_zoom),
		T(test_zoom_goes_through_the_spans),
		T(test_the_log_keeps_messages_with_their_time),
		T(test_escape_leaves_one_thing_at_a_time),
		T(test_a_theme_is_named_when_it_comes),
		T(test_the_narrowest_key_bar_has_every_screen),
		T(test_a_click_is_the_key_under_it),
		T(test_a_click_on_a_key_is_no_letter_of_the_filter),
		T(test_pause_holds_the_picture_but_not_the_history),
		T(test_the_loss_of_the_target_ends_a_pause),
		T(test_sorting_and_scrolling_the_layers),
		T(test_the_remedy_of_what_is_missing_most),
	};

	setlocale(LC_ALL, "C.UTF-8");
	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
