#include <errno.h>

#include "tui/tui.h"
#include "tui/view.h"

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
		err = grid_write(&v->grid, f);
	}
	view_free(v);
	return err;
}
