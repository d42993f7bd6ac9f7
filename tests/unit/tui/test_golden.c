/*
 * The screens as text, against tests/golden/.  UPDATE=1 rewrites the files.
 */
#include "tests/unit/tui/scenes.h"
#include "tui/tui.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#define POINTS 301u

static struct snapshot *shots;
static const struct snapshot *history[POINTS];

static int setup(void **state)
{
	(void)state;
	shots = calloc(POINTS, sizeof(*shots));
	for (unsigned i = 0; i < POINTS; i++)
		history[i] = &shots[i];
	return shots ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(shots);
	return 0;
}

static char *read_all(FILE *f)
{
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	text[fread(text, 1, (1 << 20) - 1, f)] = 0;
	fclose(f);
	return text;
}

static char *print(enum scene scene, unsigned w, unsigned h, unsigned screen,
		   bool ascii)
{
	const struct tui_options o = { .ascii = ascii };
	FILE *f = tmpfile();

	assert_non_null(f);
	for (unsigned i = 0; i < POINTS; i++)
		scene_at(&shots[i], scene, i);
	assert_int_equal(tui_print(f, history, POINTS, w, h, screen, &o), 0);
	rewind(f);
	return read_all(f);
}

/* The lines that differ, as a unified diff without context. */
static void show_difference(const char *want, const char *got)
{
	for (unsigned line = 1; *want || *got; line++) {
		size_t w = strcspn(want, "\n"), g = strcspn(got, "\n");
		if (w != g || memcmp(want, got, w))
			printf("# line %u\n# -%.*s\n# +%.*s\n", line, (int)w,
			       want, (int)g, got);
		want += w + (want[w] != 0);
		got += g + (got[g] != 0);
	}
}

static void compare(const char *name, char *got)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/%s.txt", name);
	if (getenv("UPDATE")) {
		f = fopen(path, "w");
		assert_non_null(f);
		assert_true(fputs(got, f) >= 0);
		assert_int_equal(fclose(f), 0);
	}
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s is not there: run from the top with UPDATE=1",
			 path);
	char *want = read_all(f);
	if (strcmp(want, got)) {
		show_difference(want, got);
		fail_msg("%s differs", path);
	}
	free(want);
	free(got);
}

static void overview(enum scene scene)
{
	static const unsigned sizes[][2] = { { 80, 24 },
					     { 100, 30 },
					     { 120, 40 } };
	char name[64];

	for (unsigned i = 0; i < 3; i++) {
		unsigned w = sizes[i][0], h = sizes[i][1];
		snprintf(name, sizeof(name), "overview-%s-%ux%u",
			 scene_names[scene], w, h);
		compare(name, print(scene, w, h, 0, false));
	}
}

static void test_idle(void **state)
{
	(void)state;
	overview(SCENE_IDLE);
}

static void test_solo(void **state)
{
	(void)state;
	overview(SCENE_SOLO);
}

static void test_valley_near(void **state)
{
	(void)state;
	overview(SCENE_NEAR);
}

static void test_shared(void **state)
{
	(void)state;
	overview(SCENE_SHARED);
}

static void test_target_gone(void **state)
{
	(void)state;
	overview(SCENE_GONE);
}

static void test_tiers_missing(void **state)
{
	(void)state;
	overview(SCENE_TIERS_MISSING);
}

static void test_other_screens(void **state)
{
	static const struct {
		unsigned screen, w, h;
		const char *name;
	} others[] = {
		{ 1, 100, 30, "layers-100x30" },
		{ 2, 80, 24, "experts-80x24" },
		{ 3, 100, 30, "requests-100x30" },
		{ 4, 100, 30, "kernels-100x30" },
		{ 5, 80, 24, "valley-80x24" },
		{ 6, 100, 30, "help-100x30" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
		compare(others[i].name,
			print(SCENE_NEAR, others[i].w, others[i].h,
			      others[i].screen, false));
}

static void test_smallest_widest_and_ascii(void **state)
{
	(void)state;
	compare("overview-near-40x12", print(SCENE_NEAR, 40, 12, 0, false));
	compare("overview-near-200x60", print(SCENE_NEAR, 200, 60, 0, false));
	compare("overview-near-80x24-ascii",
		print(SCENE_NEAR, 80, 24, 0, true));
	compare("overview-near-39x12", print(SCENE_NEAR, 39, 12, 0, false));
}

static void test_before_the_first_snapshot(void **state)
{
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	assert_int_equal(tui_print(f, NULL, 0, 80, 24, 0, NULL), 0);
	rewind(f);
	compare("overview-waiting-80x24", read_all(f));
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
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_target_gone),
		cmocka_unit_test(test_tiers_missing),
		cmocka_unit_test(test_other_screens),
		cmocka_unit_test(test_smallest_widest_and_ascii),
		cmocka_unit_test(test_before_the_first_snapshot),
		cmocka_unit_test(test_print_refuses_what_it_cannot_draw),
	};

	setlocale(LC_ALL, "C.UTF-8");
	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, setup, teardown);
}
