/*
 * picture.c - one screen of a made-up server as text with colours
 *
 *	picture SCENE SCREEN COLUMNS ROWS THEME
 *
 * SCENE near, shared, ...; SCREEN its number; THEME its name.  24 bits, with
 * five minutes of history; tools/screenshot.py makes an image of it.
 */
#include <locale.h>
#include <stdlib.h>

#include "tests/unit/tui/scenes.h"
#include "tui/paint.h"
#include "tui/view.h"

#define SECONDS 300u

static struct snapshot shot;

static int usage(void)
{
	fprintf(stderr, "usage: picture SCENE SCREEN COLUMNS ROWS THEME\n");
	return 2;
}

static void live(struct view *v, enum scene scene)
{
	struct value metrics[METRICS];

	scene_fill(&shot, scene);
	memcpy(metrics, shot.metrics, sizeof(metrics));
	for (unsigned i = 0; i < SECONDS; i++) {
		scene_move(&shot, metrics, i);
		history_add(&v->history, &shot);
	}
	scene_move(&shot, metrics, SECONDS);
	view_add(v, &shot);
}

int main(int argc, char **argv)
{
	unsigned scene = 0, screen, theme;
	struct view *v = view_new(false);
	int err;

	setlocale(LC_ALL, "C.UTF-8");
	setenv("TZ", "UTC", 1);
	if (argc != 6 || !v)
		return usage();
	while (scene < SCENES && strcmp(argv[1], scene_names[scene]))
		scene++;
	screen = (unsigned)atoi(argv[2]) - 1;
	theme = theme_find(argv[5]);
	if (scene == SCENES || screen >= SCREENS || theme == THEMES ||
	    view_resize(v, atoi(argv[3]), atoi(argv[4])))
		return usage();
	live(v, (enum scene)scene);
	v->screen = screen;
	view_draw(v);
	err = paint_write(&v->grid, theme, DEPTH_TRUE, stdout);
	view_free(v);
	return err ? 1 : 0;
}
