#include <errno.h>

#include "tui/paint.h"
#include "tui/tui.h"
#include "tui/view.h"

static int write(const struct view *v, const struct tui_options *o, FILE *f)
{
	unsigned theme = o && o->theme ? theme_find(o->theme) : THEME_DEFAULT;

	if (!o || !o->color || o->depth == TUI_DEPTH_AUTO)
		return grid_write(&v->grid, f);
	return paint_write(&v->grid, theme < THEMES ? theme : THEME_DEFAULT,
			   (enum color_depth)(o->depth - TUI_DEPTH_MONO), f);
}

const char *tui_theme_names(void)
{
	static char names[256];
	size_t n = 0;

	if (names[0])
		return names;
	for (unsigned i = 0; i < THEMES && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
				      i ? "|" : "", theme_names[i].name);
	return names;
}

int tui_print(FILE *f, const struct snapshot *const *history, unsigned n,
	      unsigned columns, unsigned rows, unsigned screen,
	      const struct tui_options *o)
{
	struct view *v;
	int err;

	if (screen >= SCREENS || !columns || columns > GRID_COLUMNS_MAX ||
	    !rows || rows > GRID_ROWS_MAX)
		return -EINVAL;
	v = view_new(o && o->ascii);
	if (!v)
		return -ENOMEM;
	err = view_resize(v, (int)columns, (int)rows);
	if (!err) {
		for (unsigned i = 0; i < n; i++)
			view_add(v, history[i]);
		v->screen = screen;
		view_draw(v);
		err = write(v, o, f);
	}
	view_free(v);
	return err;
}
