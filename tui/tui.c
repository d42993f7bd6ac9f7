#include "tui/tui.h"

#include <errno.h>
#include <stdlib.h>

#include "tui/term.h"
#include "tui/view.h"

struct tui {
	struct terminal *term;
	struct view *view;
	struct term_options look; /* of the terminal, at the moment */
};

static void draw(struct tui *t)
{
	if (t->view->theme != t->look.theme) {
		t->look.theme = t->view->theme;
		term_change(t->term, &t->look);
	}
	if (t->view->repaint)
		term_repaint(t->term);
	t->view->repaint = false;
	view_draw(t->view);
	term_copy(t->term, &t->view->grid);
}

static int fit(struct tui *t)
{
	int columns, rows;

	term_size(t->term, &columns, &rows);
	return view_resize(t->view, columns, rows);
}

struct term_options tui_look(const struct tui_options *o)
{
	unsigned theme = o->theme ? theme_find(o->theme) : THEME_DEFAULT;

	return (struct term_options){
		.theme = theme < THEMES ? theme : THEME_DEFAULT,
		.depth = !o->color ? DEPTH_MONO : (int)o->depth - 1,
		.mouse = !o->no_mouse,
	};
}

/* Nothing beyond ASCII where the locale has nothing beyond. */
static struct tui_options allowed(const struct tui *t,
				  const struct tui_options *o)
{
	struct tui_options out = *o;

	out.ascii |= term_ascii(t->term);
	return out;
}

int tui_open(struct tui **out, const struct tui_options *o)
{
	static const struct tui_options plain = { .color = true };
	struct tui *t = calloc(1, sizeof(*t));
	struct tui_options options;
	int err;

	if (!t)
		return -ENOMEM;
	o = o ? o : &plain;
	t->look = tui_look(o);
	err = term_open(&t->term, &t->look);
	if (err)
		goto fail;
	options = allowed(t, o);
	t->view = view_new(options.ascii);
	err = t->view ? fit(t) : -ENOMEM;
	if (err)
		goto fail;
	view_options(t->view, &options, true);
	draw(t);
	*out = t;
	return 0;
fail:
	tui_close(t);
	return err;
}

void tui_change(struct tui *t, const struct tui_options *o)
{
	struct tui_options options = allowed(t, o);

	view_options(t->view, &options, false);
	t->look = tui_look(o);
	term_change(t->term, &t->look);
}

void tui_say(struct tui *t, const char *text)
{
	view_say(t->view, text);
	draw(t);
}

int tui_fd(const struct tui *t)
{
	return term_fd(t->term);
}

bool tui_shown(const struct tui *t)
{
	return term_shown(t->term);
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
		if (e.kind == TERM_MOUSE) {
			wishes |= view_mouse(t->view, e.mouse, e.x, e.y);
			/* the next one may be about what this one drew */
			if (wishes & TUI_REDRAW && e.mouse != MOUSE_DRAG)
				view_draw(t->view);
		}
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
