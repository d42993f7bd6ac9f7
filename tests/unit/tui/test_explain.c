/* The panel that explains the number under the cursor, and the set-up screen. */
#include "tui/setup.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "tests/unit/tui/live_view.h"

static int setup(void **state)
{
	(void)state;
	if (live_view_open(100, 40))
		return -1;
	shot->metrics[METRIC_FRAGMENTATION] = scene_ok(0.64);
	shot->metrics[METRIC_ACTIVE_EXPERTS] = scene_ok(71.4);
	view_add(view, shot);
	return 0;
}

static bool shows(const char *what)
{
	return strstr(drawn(), what) != NULL;
}

static const struct number *marked(void)
{
	drawn();
	for (unsigned i = 0; i < view->n_numbers; i++) {
		const struct number *n = &view->numbers[i];

		if (n->r.x == view->focus.x && n->r.y == view->focus.y)
			return n;
	}
	fail_msg("no number under the cursor");
	return NULL;
}

static void find(enum metric_id id)
{
	view->panel = PANEL_EXPLAIN;
	for (unsigned i = 0; i < 400; i++) {
		if (marked()->about == EXPLAIN_METRIC + id)
			return;
		view_key(view, i ? INPUT_RIGHT : INPUT_HOME);
	}
	fail_msg("%s is nowhere on this screen", metric_info[id].key);
}

static void test_a_number_is_explained_whole(void **state)
{
	(void)state;
	assert_int_equal(view_key(view, 'e'), TUI_REDRAW);
	find(METRIC_FRAGMENTATION);
	assert_true(shows("φ · fragmentation_ratio"));
	assert_true(shows("0.64, measured"));
	assert_true(shows("expert weight reads per row"));
	assert_true(shows("phi = sum U / sum R"));
	assert_true(shows("active experts 71.4"));
	assert_true(shows("Lower is better"));
	find(METRIC_MARGINAL_GAIN);
	assert_true(shows("modelled: a formula with an assumption"));
	find(METRIC_SCRAPED_RUNNING);
	assert_true(shows("scraped: the engine's own claim"));
	view_key(view, 'e');
	assert_false(shows("Lower is better"));
}

static void test_unknown_and_stale_are_said(void **state)
{
	(void)state;
	shot->metrics[METRIC_MFU].state = VALUE_STALE;
	shot->metrics[METRIC_FRAGMENTATION].state = VALUE_NO_DATA;
	view_add(view, shot);
	find(METRIC_MFU);
	assert_true(shows("stale: its source is silent"));
	find(METRIC_FRAGMENTATION);
	assert_true(shows("-, unknown: nothing that it is computed from"));
}

static void test_every_screen_has_numbers_that_are_explained(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		if (screens[i]->absent)
			continue;
		view_key(view, '1' + i);
		view_key(view, 'e');
		drawn();
		if (view->n_numbers < 3)
			fail_msg("screen %d has %u numbers", i + 1,
				 view->n_numbers);
		for (unsigned k = 0; k < view->n_numbers; k++) {
			struct explanation e;

			assert_true(explain(view->numbers[k].about, &e));
		}
		view_key(view, 'e');
	}
}

static void test_arrows_reach_every_number(void **state)
{
	bool seen[NUMBERS_MAX] = { false };
	unsigned n, reached = 0;

	(void)state;
	view_key(view, 'e');
	drawn();
	n = view->n_numbers;
	view_key(view, INPUT_HOME);
	for (unsigned i = 0; i < n; i++) {
		seen[marked() - view->numbers] = true;
		view_key(view, INPUT_RIGHT);
	}
	for (unsigned i = 0; i < n; i++)
		reached += seen[i];
	assert_int_equal(reached, n);
	view_key(view, INPUT_HOME);
	for (int y = marked()->r.y; y < 39;) {
		view_key(view, INPUT_DOWN);
		if (marked()->r.y == y)
			break;
		assert_true(marked()->r.y > y);
		y = marked()->r.y;
	}
	for (int y = marked()->r.y; y > 0;) {
		view_key(view, INPUT_UP);
		if (marked()->r.y == y)
			break;
		assert_true(marked()->r.y < y);
		y = marked()->r.y;
	}
}

static void test_the_panel_never_hides_its_number(void **state)
{
	(void)state;
	for (int w = 40; w <= 200; w += 16)
		for (int h = 12; h <= 60; h += 4) {
			view_resize(view, w, h);
			view->panel = PANEL_EXPLAIN;
			view->focus.placed = false;
			drawn();
			for (unsigned i = 0; i < view->n_numbers; i += 3) {
				const struct number n = view->numbers[i];

				view->focus =
					(struct focus){ true, n.r.x, n.r.y };
				view_draw(view);
				assert_int_equal(
					grid_cell(&view->grid, n.r.x, n.r.y)
						->style,
					STYLE_CURSOR);
			}
		}
}

static void test_a_right_click_explains(void **state)
{
	const struct number *n;

	(void)state;
	find(METRIC_MFU);
	n = marked();
	view_key(view, 'e');
	drawn();
	assert_int_equal(view_mouse(view, MOUSE_RIGHT, n->r.x, n->r.y),
			 TUI_REDRAW);
	assert_true(shows("MFU · mfu_ratio"));
	assert_int_equal(view_mouse(view, MOUSE_RIGHT, 0, 0), TUI_NONE);
	view_key(view, INPUT_ESCAPE);
	assert_int_equal(view_mouse(view, MOUSE_RIGHT, -1, 500), TUI_NONE);
}

static void test_a_screen_without_numbers_says_so(void **state)
{
	(void)state;
	view->have = false;
	view_key(view, 'e');
	assert_true(shows("no number here that could be explained"));
	view_key(view, INPUT_DOWN);
	assert_true(shows("no number here that could be explained"));
}

static void test_the_panel_takes_the_clicks_on_it(void **state)
{
	const struct number *n;

	(void)state;
	view_key(view, '2');
	view_key(view, INPUT_HOME);
	view_key(view, 'e');
	n = marked();
	assert_true(n->r.y < 20 && shows("good?"));
	for (int y = view->grid.h - 6; y < view->grid.h - 1; y++)
		assert_int_equal(view_click(view, 5, y), TUI_NONE);
	assert_int_equal(screen_state(view)->cursor, 0);
	assert_int_equal(view_click(view, 5, n->r.y + 1), TUI_REDRAW);
	assert_int_equal(screen_state(view)->cursor, 1);
}

static void test_numbers_that_changed_are_marked_once(void **state)
{
	unsigned marks = 0, others = 0;

	(void)state;
	view->highlight = true;
	shot->time += 1;
	shot->metrics[METRIC_FRAGMENTATION].v *= 1.5;
	view_add(view, shot);
	for (unsigned again = 0; again < 2; again++) {
		drawn();
		marks = others = 0;
		for (int i = 0; i < view->grid.w * view->grid.h; i++) {
			const struct cell *c = &view->grid.cells[i];

			marks += c->changed;
			others += c->changed &&
				  c->about !=
					  EXPLAIN_METRIC + METRIC_FRAGMENTATION;
		}
		assert_true(marks > 0);
		assert_int_equal(others, 0);
	}
	shot->time += 1;
	view_add(view, shot);
	drawn();
	for (int i = 0; i < view->grid.w * view->grid.h; i++)
		assert_false(view->grid.cells[i].changed);
}

/* ---- set-up -------------------------------------------------------------- */

static struct tui_option options[3];
static char saved[TUI_VALUE_BYTES];

static int set(void *arg, unsigned i, const char *value, char *why,
	       size_t bytes)
{
	(void)arg;
	if (!strcmp(value, "bad")) {
		snprintf(why, bytes, "--%s: 'bad' is bad", options[i].name);
		return -EINVAL;
	}
	snprintf(options[i].value, sizeof(options[i].value), "%s", value);
	return 0;
}

static int save(void *arg, char *why, size_t bytes)
{
	(void)arg;
	snprintf(saved, sizeof(saved), "%s", options[0].value);
	snprintf(why, bytes, "saved to here");
	return 0;
}

static void test_options_are_chosen_typed_and_saved(void **state)
{
	struct tui_setup from = {
		.options = options, .n = 3, .set = set, .save = save
	};
	struct tui_options o = { .setup = &from };

	(void)state;
	options[0] = (struct tui_option){ "theme",   "colours", "a|!b|c",
					  "default", true,      "a" };
	options[1] = (struct tui_option){ "ascii",   "plain", NULL,
					  "default", true,    "" };
	options[2] = (struct tui_option){ "interval", "seconds", "",
					  "default",  false,     "1" };
	view_options(view, &o, true);
	view_key(view, 'S');
	assert_true(shows("set up") && shows("interval"));
	view_key(view, INPUT_RIGHT);
	assert_string_equal(options[0].value, "c");
	view_key(view, INPUT_RIGHT);
	assert_string_equal(options[0].value, "a");
	view_key(view, INPUT_LEFT);
	assert_string_equal(options[0].value, "c");
	view_key(view, INPUT_DOWN);
	view_key(view, ' ');
	assert_string_equal(options[1].value, "true");
	view_key(view, INPUT_DOWN);
	view_key(view, '\r');
	assert_true(shows(" interval = 1"));
	view_key(view, 127);
	view_key(view, '5'); /* no screen now */
	assert_int_equal(view->screen, 0);
	view_key(view, '\r');
	assert_string_equal(options[2].value, "5");
	assert_true(shows("from the next start on"));
	view_key(view, '\r');
	for (const char *c = "\x7f"
			     "bad\r";
	     *c; c++)
		view_key(view, *c);
	assert_true(shows("--interval: 'bad' is bad"));
	assert_string_equal(options[2].value, "5");
	view_key(view, 'w');
	assert_true(shows("saved to here"));
	assert_string_equal(saved, "c");
	/* a click marks, another one changes */
	view_click(view, 5, view->grid.h - 30);
	for (unsigned i = 0; i < view->n_zones; i++)
		if (view->zones[i].kind == ZONE_ROW &&
		    view->zones[i].value == 1) {
			view_click(view, 5, view->zones[i].r.y);
			view_click(view, 5, view->zones[i].r.y);
			break;
		}
	assert_string_equal(options[1].value, "");
	/* a click on a key gives up what is typed */
	view_key(view, INPUT_DOWN);
	view_key(view, '\r');
	view_key(view, '7');
	drawn();
	view_click(view, 2, view->grid.h - 1);
	assert_int_equal(view->panel, PANEL_NONE);
	view_key(view, 'S');
	assert_true(shows("Enter changes"));
	view_key(view, '2');
	assert_int_equal(view->screen, 1);
	assert_string_equal(options[2].value, "5");
	view_key(view, 't');
	assert_string_equal(options[0].value, "dark");
}

static void test_without_options_there_is_no_set_up(void **state)
{
	(void)state;
	view_key(view, 'S');
	assert_int_equal(view->panel, PANEL_NONE);
	assert_true(shows("there is nothing to set up here"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_number_is_explained_whole),
		T(test_unknown_and_stale_are_said),
		T(test_every_screen_has_numbers_that_are_explained),
		T(test_arrows_reach_every_number),
		T(test_the_panel_never_hides_its_number),
		T(test_a_right_click_explains),
		T(test_a_screen_without_numbers_says_so),
		T(test_the_panel_takes_the_clicks_on_it),
		T(test_numbers_that_changed_are_marked_once),
		T(test_options_are_chosen_typed_and_saved),
		T(test_without_options_there_is_no_set_up),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
