/*
 * golden.h - pictures of scenes, compared with tests/golden/
 *
 * UPDATE=1 in the environment rewrites the files.  A test that includes this
 * runs from the top of the sources, in a UTF-8 locale.
 */
#ifndef MOETOP_TESTS_GOLDEN_H
#define MOETOP_TESTS_GOLDEN_H

#include "tests/unit/tui/scenes.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>

#define GOLDEN_SECONDS 300u

static struct snapshot golden_shot;

static inline int golden_setup(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	return setlocale(LC_ALL, "C.UTF-8") ? 0 : -1;
}

/* A view of a scene after five minutes of it. */
static inline struct view *golden_view(enum scene scene, bool ascii)
{
	struct view *v = view_new(ascii);
	struct value metrics[METRICS];

	assert_non_null(v);
	scene_fill(&golden_shot, scene);
	memcpy(metrics, golden_shot.metrics, sizeof(metrics));
	for (unsigned i = 0; i < GOLDEN_SECONDS; i++) {
		scene_move(&golden_shot, metrics, i);
		history_add(&v->history, &golden_shot);
	}
	scene_move(&golden_shot, metrics, GOLDEN_SECONDS);
	view_add(v, &golden_shot);
	return v;
}

static inline void golden_draw(struct view *v, int w, int h, unsigned screen)
{
	assert_int_equal(view_resize(v, w, h), 0);
	v->screen = screen;
	view_draw(v);
}

static inline char *golden_read(FILE *f)
{
	size_t room = 1u << 20;
	char *text = malloc(room);

	assert_non_null(text);
	text[fread(text, 1, room - 1, f)] = 0;
	fclose(f);
	return text;
}

/* The lines that differ. */
static inline void golden_difference(const char *want, const char *got)
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

/* got against tests/golden/NAME.txt. */
static inline void golden_compare(const char *name, const char *got)
{
	char path[128], *want;
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
	want = golden_read(f);
	if (strcmp(want, got)) {
		golden_difference(want, got);
		fail_msg("%s differs", path);
	}
	free(want);
}

#endif
