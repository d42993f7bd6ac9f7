#include "tui/tui.h"

#include <errno.h>
#include <stdlib.h>

#include "tui/term.h"
#include "tui/view.h"

struct tui {
	struct terminal *term;
	struct view *view;
};

static void draw(struct tui *t)
{
	view_draw(t->view);
	term_copy(t->term, &t->view->grid);
}

static int fit(struct tui *t)
{
	int columns, rows;

	term_size(t->term, &columns, &rows);
	return view_resize(t->view, columns, rows);
}

int tui_open(struct tui **out, const struct tui_options *o)
{
	struct tui *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	err = term_open(&t->term, !o || o->color);
	if (err)
		goto fail;
	t->view = view_new((o && o->ascii) || term_ascii(t->term));
	err = t->view ? fit(t) : -ENOMEM;
	if (err)
		goto fail;
	draw(t);
	*out = t;
	return 0;
fail:
	tui_close(t);
	return err;
}

int tui_fd(const struct tui *t)
{
	return term_fd(t->term);
}

unsigned tui_input(struct tui *t)
{
	unsigned wishes = TUI_NONE;

	for (;;) {
		struct term_event e = term_next(t->term);
		if (e.kind == TERM_NONE)
			break;
		if (e.kind == TERM_LOST)
			return wishes | TUI_QUIT;
		if (e.kind == TERM_KEY)
			wishes |= view_key(t->view, e.key);
		if (e.kind == TERM_CLICK)
			wishes |= view_click(t->view, e.x, e.y);
		if (e.kind == TERM_CHANGED) {
			fit(t);
			wishes |= TUI_REDRAW;
		}
	}
	if (wishes & TUI_REDRAW)
		draw(t);
	return wishes;
}

void tui_resized(struct tui *t)
{
	fit(t);
	draw(t);
}

void tui_show(struct tui *t, const struct snapshot *s)
{
	view_add(t->view, s);
	draw(t);
}

void tui_close(struct tui *t)
{
	if (!t)
		return;
	term_close(t->term);
	view_free(t->view);
	free(t);
}
