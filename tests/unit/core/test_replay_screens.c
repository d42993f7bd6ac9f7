/*
 * A recording draws every screen as the snapshots did that it was made from:
 * recorder, player and screens put together, for every scene.
 */
#include "exporter/exporter.h"
#include "tests/unit/tui/golden.h"

#include <unistd.h>

#define SHOTS 12u

static char path[64], why[256];

static int make_path(void **state)
{
	int fd;

	strcpy(path, "/tmp/moetop-test-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 || close(fd) ? -1 : golden_setup(state);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

/* Record a few seconds of a scene, and show them to a view as they come. */
static struct view *record(enum scene scene)
{
	struct view *live = view_new(false);
	struct value metrics[METRICS];
	struct recorder *r;

	assert_non_null(live);
	assert_int_equal(recorder_open(&r, path, why, sizeof(why)), 0);
	scene_fill(&golden_shot, scene);
	memcpy(metrics, golden_shot.metrics, sizeof(metrics));
	for (unsigned i = 0; i < SHOTS; i++) {
		scene_move(&golden_shot, metrics, 301 - SHOTS + i);
		assert_int_equal(recorder_write(r, &golden_shot), 0);
		view_add(live, &golden_shot);
	}
	assert_int_equal(recorder_close(r), 0);
	return live;
}

static struct view *play(void)
{
	struct view *played = view_new(false);
	struct player *p;
	unsigned n = 0;

	assert_non_null(played);
	assert_int_equal(player_open(&p, path, why, sizeof(why)), 0);
	while (player_next(p, &golden_shot) == 1) {
		view_add(played, &golden_shot);
		n++;
	}
	player_close(p);
	assert_int_equal(n, SHOTS);
	return played;
}

static char *drawn(struct view *v, unsigned screen)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	golden_draw(v, 160, 50, screen);
	assert_int_equal(grid_write(&v->grid, f), 0);
	fclose(f);
	return text;
}

static void check_scene(enum scene scene)
{
	struct view *live = record(scene), *played = play();

	for (unsigned v = 0; v < 2; v++) {
		for (unsigned i = 0; i < SCREEN_HELP; i++) {
			char *want = drawn(live, i), *got = drawn(played, i);

			if (strcmp(want, got)) {
				golden_difference(want, got);
				fail_msg("%s of %s", screens[i]->title,
					 scene_names[scene]);
			}
			free(want);
			free(got);
		}
		/* and the what-if cursor asks the same of both */
		live->valley.what_if = played->valley.what_if = true;
		live->valley.octaves = played->valley.octaves = 6.3;
	}
	view_free(live);
	view_free(played);
}

static void test_every_scene(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SCENES; i++)
		check_scene((enum scene)i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_scene),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
