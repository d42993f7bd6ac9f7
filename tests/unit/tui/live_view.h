/*
 * live_view.h - a view on a server near the valley, and what it draws
 */
#ifndef MOETOP_TESTS_UNIT_TUI_LIVE_VIEW_H
#define MOETOP_TESTS_UNIT_TUI_LIVE_VIEW_H

#include "tests/unit/tui/scenes.h"
#include "tui/view.h"

#include <stdio.h>
#include <stdlib.h>

static struct view *view;
static struct snapshot *shot;
static char *text;

/* The snapshot is there to be changed before it is shown (view_add). */
static inline int live_view_open(int columns, int rows)
{
	view = view_new(false);
	shot = calloc(1, sizeof(*shot));
	if (!view || !shot || view_resize(view, columns, rows))
		return -1;
	scene_fill(shot, SCENE_NEAR);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	view_free(view);
	free(shot);
	free(text);
	text = NULL;
	return 0;
}

static inline const char *drawn(void)
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

#endif
