/*
 * view.h - the view as a whole: takes snapshots and keys, draws its grid
 *
 * No terminal and no curses: tui.c puts a terminal around it, print.c a file.
 */
#ifndef MOETOP_TUI_VIEW_H
#define MOETOP_TUI_VIEW_H

#include "tui/escape.h"
#include "tui/screen.h"
#include "tui/tui.h"

/* NULL: no memory. */
struct view *view_new(bool ascii);
void view_free(struct view *v);

/* Take what concerns the view: ascii, theme, highlight; set-up and the first
 * screen where `all`. */
void view_options(struct view *v, const struct tui_options *o, bool all);

/* 0 or -ENOMEM, which keeps the old size. */
int view_resize(struct view *v, int columns, int rows);

/* Remember a snapshot and show it, unless the view is paused; the loss of the
 * target ends a pause. */
void view_add(struct view *v, const struct snapshot *s);

/* A line for the message bar, for a few snapshots, and for the log. */
void view_say(struct view *v, const char *text);

/* enum tui_wish or-ed; TUI_REDRAW when the picture has to be drawn again. */
unsigned view_key(struct view *v, int key);
unsigned view_mouse(struct view *v, enum mouse what, int x, int y);

/* Pressed and let go. */
unsigned view_click(struct view *v, int x, int y);

/* Draw everything to v->grid. */
void view_draw(struct view *v);

#endif
