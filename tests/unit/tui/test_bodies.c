/*
 * Every screen of every scene from 40x12 to 200x60: it keeps to its body, and
 * what a reader needs first is always there.  THOROUGH=1 takes every size.
 */
#include "tests/unit/tui/golden.h"

#include "tui/layout.h"

static const struct size {
	int w, h;
} sizes[] = {
	{ 40, 12 },  { 40, 60 },  { 200, 12 }, { 80, 24 }, { 61, 17 },
	{ 100, 30 }, { 133, 14 }, { 120, 40 }, { 99, 51 }, { 200, 60 },
};

/* Every size to try, one after the other; false after the last. */
static bool next_size(unsigned *i, struct size *out)
{
	unsigned n = sizeof(sizes) / sizeof(*sizes);

	if (getenv("THOROUGH")) {
		*out = (struct size){ 40 + (int)(*i % 161),
				      12 + (int)(*i / 161) };
		return (*i)++ < 161 * 49;
	}
	*out = sizes[*i < n ? *i : 0];
	return (*i)++ < n;
}

static char *picture;

/* The picture as text. */
static const char *written(const struct grid *g)
{
	size_t bytes;
	FILE *f;

	free(picture);
	picture = NULL;
	f = open_memstream(&picture, &bytes);
	assert_non_null(f);
	assert_int_equal(grid_write(g, f), 0);
	fclose(f);
	return picture;
}

static bool outside(struct rect r, int x, int y)
{
	return x < r.x || x >= r.x + r.w || y < r.y || y >= r.y + r.h;
}

/* Draw in the middle of a picture of crosses: they must stay around it. */
static void check_body(struct view *v, struct rect body)
{
	struct grid *g = &v->grid;

	for (int y = 0; y < g->h; y++)
		for (int x = 0; x < g->w; x++)
			grid_put(g, grid_rect(g), x, y, STYLE_NORMAL,
				 outside(body, x, y) ? '+' : ' ');
	v->n_zones = 0;
	screens[v->screen]->draw(v, body);
	for (int y = 0; y < g->h; y++)
		for (int x = 0; x < g->w; x++)
			if (outside(body, x, y) &&
			    grid_cell(g, x, y)->glyph != '+')
				fail_msg("%s leaves %dx%d at %d,%d:\n%s",
					 screens[v->screen]->title, body.w,
					 body.h, x, y, written(g));
	for (unsigned i = 0; i < v->n_zones; i++) {
		const struct rect *z = &v->zones[i].r;

		assert_false(outside(body, z->x, z->y));
		assert_false(outside(body, z->x + z->w - 1, z->y + z->h - 1));
	}
}

static void check_scene_bodies(enum scene scene, bool ascii)
{
	struct view *v = golden_view(scene, ascii);
	unsigned at = 0;
	struct size s;

	v->valley.what_if = scene % 2;
	v->experts.by_rank = scene % 2;
	while (next_size(&at, &s)) {
		assert_int_equal(view_resize(v, s.w + 3, s.h), 0);
		for (unsigned i = 0; i < SCREENS; i++) {
			v->screen = i;
			check_body(v, (struct rect){ 2, 1, s.w, s.h - 3 });
		}
	}
	view_free(v);
}

static void test_no_screen_leaves_its_body(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SCENES; i++)
		check_scene_bodies((enum scene)i, i % 3 == 0);
}

/* ---- what must be there --------------------------------------------------- */

static const char *verdict_word(enum scene scene)
{
	static const char *const words[SCENES] = {
		[SCENE_IDLE] = "IDLE.",
		[SCENE_SOLO] = "SOLO.",
		[SCENE_NEAR] = "IN THE VALLEY, near side.",
		[SCENE_FAR] = "IN THE VALLEY, far side.",
		[SCENE_SHARED] = "SHARED.",
		[SCENE_KV] = "KV-BOUND.",
		[SCENE_PREFILL] = "PREFILL.",
		[SCENE_GONE] = "IN THE VALLEY, near side.",
		[SCENE_TIERS_MISSING] = "IN THE VALLEY, near side.",
		[SCENE_RANKS] = "IN THE VALLEY, far side.",
		[SCENE_LARGE] = "IN THE VALLEY, near side.",
	};

	return words[scene];
}

static void must_show(struct view *v, const char *what)
{
	if (!strstr(picture, what))
		fail_msg("'%s' is not on %s of %dx%d:\n%s", what,
			 screens[v->screen]->title, v->grid.w, v->grid.h,
			 picture);
}

/* Numbers of the first screen, and the one line that each other is for. */
static void check_needed(struct view *v, enum scene scene)
{
	bool rows = v->shot.experts.n_layers;

	switch (v->screen) {
	case 0:
		must_show(v, verdict_word(scene));
		must_show(v, "MBU");
		must_show(v, "MFU");
		must_show(v, "φ");
		must_show(v, "η");
		must_show(v, "in flight");
		break;
	case 1:
		must_show(v, v->shot.n_layers ? "µs/step" : "no MoE layer");
		break;
	case 2:
		must_show(v, rows ? "effective experts" : "No rows per expert");
		must_show(v, rows ? "layer 0" : "No rows per expert");
		break;
	case 3:
		must_show(v, "in flight");
		must_show(v, "TTFT");
		break;
	case 4:
		must_show(v, v->shot.n_classes ? "kernel class" : "no kernel");
		break;
	case 5:
		must_show(v, "what if");
		must_show(v, "1.0│");
		break;
	default:
		break;
	}
	if (v->shot.health.target_gone)
		must_show(v, "target gone at 07:05:39");
}

static void test_nothing_needed_is_lost(void **state)
{
	(void)state;
	for (unsigned s = 0; s < SCENES; s++) {
		struct view *v = golden_view((enum scene)s, false);
		unsigned at = 0;
		struct size size;

		while (next_size(&at, &size))
			for (unsigned i = 0; i < SCREENS; i++) {
				golden_draw(v, size.w, size.h, i);
				written(&v->grid);
				check_needed(v, (enum scene)s);
			}
		view_free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_screen_leaves_its_body),
		cmocka_unit_test(test_nothing_needed_is_lost),
	};
	int failed = cmocka_run_group_tests(tests, golden_setup, NULL);

	free(picture);
	return failed;
}
