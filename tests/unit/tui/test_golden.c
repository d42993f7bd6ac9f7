/*
 * The screens as text, against tests/golden/: every view of every scene in four
 * sizes, one file for a scene and a size.  UPDATE=1 rewrites the files.
 */
#include "tests/unit/tui/golden.h"
#include "tui/tui.h"

#include <errno.h>

static const struct size {
	int w, h;
} sizes[] = { { 80, 24 }, { 100, 30 }, { 120, 40 }, { 200, 60 } };
#define SIZES (sizeof(sizes) / sizeof(*sizes))

/* A screen below its name. */
static void print(FILE *f, struct view *v, struct size s, unsigned screen)
{
	golden_draw(v, s.w, s.h, screen);
	fprintf(f, "==== %s %dx%d\n", screens[screen]->title, s.w, s.h);
	assert_int_equal(grid_write(&v->grid, f), 0);
}

static void compare_all(const char *name, struct view *v, struct size s,
			unsigned first, unsigned last)
{
	char path[64], *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	for (unsigned screen = first; screen <= last; screen++)
		print(f, v, s, screen);
	assert_int_equal(fclose(f), 0);
	snprintf(path, sizeof(path), "screens-%s-%dx%d", name, s.w, s.h);
	golden_compare(path, text);
	free(text);
}

static void check_scene(enum scene scene)
{
	struct view *v = golden_view(scene, false);

	for (unsigned i = 0; i < SIZES; i++)
		compare_all(scene_names[scene], v, sizes[i], 0,
			    SCREEN_HELP - 1);
	view_free(v);
}

#define SCENE_TEST(name, scene)               \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		check_scene(scene);           \
	}
SCENE_TEST(idle, SCENE_IDLE)
SCENE_TEST(solo, SCENE_SOLO)
SCENE_TEST(valley_near, SCENE_NEAR)
SCENE_TEST(valley_far, SCENE_FAR)
SCENE_TEST(shared, SCENE_SHARED)
SCENE_TEST(kv_bound, SCENE_KV)
SCENE_TEST(prefill, SCENE_PREFILL)
SCENE_TEST(target_gone, SCENE_GONE)
SCENE_TEST(tiers_missing, SCENE_TIERS_MISSING)
SCENE_TEST(eight_ranks, SCENE_RANKS)
SCENE_TEST(experts_512_in_94_layers, SCENE_LARGE)

static void test_help(void **state)
{
	struct view *v = golden_view(SCENE_NEAR, false);

	(void)state;
	for (unsigned i = 0; i < SIZES; i++)
		compare_all("help", v, sizes[i], SCREEN_HELP, SCREEN_HELP);
	view_free(v);
}

static void press(struct view *v, const int *keys)
{
	for (; *keys; keys++) {
		view_key(v, *keys);
		view_draw(v);
	}
}

/* What keys do to the two pictures: cursor, scale, groups; what-if. */
static void test_keys_of_the_pictures(void **state)
{
	static const int experts[] = {
		INPUT_PAGE_DOWN, INPUT_DOWN, INPUT_RIGHT, 'n', 'g', 0
	};
	static const int valley[] = { 'c', INPUT_RIGHT, INPUT_RIGHT, 0 };
	struct view *v = golden_view(SCENE_RANKS, false);
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	(void)state;
	golden_draw(v, 100, 30, 2);
	press(v, experts);
	print(f, v, (struct size){ 100, 30 }, 2);
	golden_draw(v, 100, 30, 5);
	press(v, valley);
	print(f, v, (struct size){ 100, 30 }, 5);
	assert_int_equal(fclose(f), 0);
	golden_compare("screens-keys-100x30", text);
	free(text);
	view_free(v);
}

/* The smallest one, one that is too small, and all of them in ASCII. */
static void test_smallest_and_ascii(void **state)
{
	struct view *v = golden_view(SCENE_NEAR, false);

	(void)state;
	compare_all("near", v, (struct size){ 40, 12 }, 0, SCREEN_HELP);
	compare_all("near", v, (struct size){ 39, 12 }, 0, 0);
	view_free(v);
	v = golden_view(SCENE_RANKS, true);
	compare_all("ascii", v, (struct size){ 80, 24 }, 0, SCREEN_HELP);
	view_free(v);
}

static void test_before_the_first_snapshot(void **state)
{
	FILE *f = tmpfile();
	char *text;

	(void)state;
	assert_non_null(f);
	assert_int_equal(tui_print(f, NULL, 0, 80, 24, 0, NULL), 0);
	rewind(f);
	text = golden_read(f);
	golden_compare("screens-waiting-80x24", text);
	free(text);
}

static void test_print_refuses_what_it_cannot_draw(void **state)
{
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	assert_int_equal(tui_print(f, NULL, 0, 80, 24, 7, NULL), -EINVAL);
	assert_int_equal(tui_print(f, NULL, 0, 0, 24, 0, NULL), -EINVAL);
	assert_int_equal(tui_print(f, NULL, 0, 80, 1u << 30, 0, NULL), -EINVAL);
	assert_int_equal(ftell(f), 0);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_solo),
		cmocka_unit_test(test_valley_near),
		cmocka_unit_test(test_valley_far),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_kv_bound),
		cmocka_unit_test(test_prefill),
		cmocka_unit_test(test_target_gone),
		cmocka_unit_test(test_tiers_missing),
		cmocka_unit_test(test_eight_ranks),
		cmocka_unit_test(test_experts_512_in_94_layers),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_keys_of_the_pictures),
		cmocka_unit_test(test_smallest_and_ascii),
		cmocka_unit_test(test_before_the_first_snapshot),
		cmocka_unit_test(test_print_refuses_what_it_cannot_draw),
	};

	return cmocka_run_group_tests(tests, golden_setup, NULL);
}
