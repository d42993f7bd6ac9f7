/*
 * Two thousand frames of everything at once: scenes, keys, the mouse, sizes,
 * themes, set-up.  What is drawn goes all the way to the bytes of a terminal.
 */
#include "tests/unit/tui/scenes.h"
#include "tui/keys.h"
#include "tui/paint.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>

#define FRAMES 2000u

static uint32_t seed;

static unsigned chance(unsigned n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static int some_key(void)
{
	static const int special[] = {
		INPUT_UP,
		INPUT_DOWN,
		INPUT_LEFT,
		INPUT_RIGHT,
		INPUT_HOME,
		INPUT_END,
		INPUT_PAGE_DOWN,
		INPUT_PAGE_UP,
		INPUT_TAB,
		'\r',
		127,
		INPUT_ESCAPE,
	};
	const struct binding *b = &bindings[chance(BINDINGS)];

	if (chance(3) == 0)
		return special[chance(sizeof(special) / sizeof(*special))];
	if (chance(4) == 0)
		return (int)chance(0x300);
	return b->keys[0];
}

static void some_input(struct view *v)
{
	if (chance(3))
		view_key(v, some_key());
	else
		view_mouse(v, (enum mouse)chance(MOUSE_DOWN + 1),
			   (int)chance(220) - 5, (int)chance(70) - 3);
}

static int refuse(void *arg, unsigned i, const char *value, char *why,
		  size_t bytes)
{
	(void)arg;
	(void)i;
	snprintf(why, bytes, "no: %s", value);
	return -1;
}

static int save(void *arg, char *why, size_t bytes)
{
	(void)arg;
	snprintf(why, bytes, "kept");
	return 0;
}

static struct tui_option options[] = {
	{ .name = "theme", .help = "h", .words = "a|b", .origin = "default" },
	{ .name = "ascii", .help = "h", .origin = "default" },
	{ .name = "long", .help = "h", .words = "", .origin = "default" },
};
static struct tui_setup set_up = {
	.n = 3, .options = options, .set = refuse, .save = save
};

static void some_size(struct view *v, struct grid *shown)
{
	int w = (int)chance(chance(10) ? 130 : 500) + 1;
	int h = (int)chance(chance(10) ? 45 : 200) + 1;

	assert_int_equal(view_resize(v, w, h), 0);
	assert_int_equal(grid_resize(shown, w, h), 0);
}

static void frames(bool ascii)
{
	const struct tui_options o = { .setup = &set_up, .ascii = ascii };
	struct snapshot *s = calloc(1, sizeof(*s));
	struct view *v = view_new(ascii);
	struct grid shown = { 0 };
	struct paint p;

	assert_non_null(s);
	assert_non_null(v);
	paint_init(&p, paint_caps_ansi(DEPTH_TRUE), 1, DEPTH_TRUE);
	view_options(v, &o, true);
	for (unsigned i = 0; i < FRAMES / 2; i++) {
		bool whole = i % 20 == 0;

		if (whole)
			some_size(v, &shown);
		if (i % 4 == 0) {
			scene_at(s, (enum scene)(i / 8 % SCENES), i);
			view_add(v, s);
		}
		some_input(v);
		view_draw(v);
		assert_int_equal(
			paint_diff(&p, whole ? NULL : &shown, &v->grid), 0);
		memcpy(shown.cells, v->grid.cells,
		       sizeof(struct cell) * (size_t)shown.w * (size_t)shown.h);
		assert_true(v->n_zones <= ZONES_MAX);
		assert_true(v->n_numbers <= NUMBERS_MAX);
	}
	paint_fini(&p);
	grid_fini(&shown);
	view_free(v);
	free(s);
}

static void test_frames_of_everything(void **state)
{
	(void)state;
	seed = 11;
	frames(false);
}

static void test_the_same_in_ascii(void **state)
{
	(void)state;
	seed = 13;
	frames(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_of_everything),
		cmocka_unit_test(test_the_same_in_ascii),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
