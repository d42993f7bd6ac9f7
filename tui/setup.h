/*
 * setup.h - the set-up screen: every option, to look at, to change, to keep
 *
 * Knows no option by itself: they and what changing them means are the
 * caller's (struct tui_setup).
 */
#ifndef MOETOP_TUI_SETUP_H
#define MOETOP_TUI_SETUP_H

#include "tui/screen.h"
#include "tui/tui.h"

struct setup;

/* NULL: no memory.  `from` is borrowed. */
struct setup *setup_new(struct tui_setup *from);
void setup_free(struct setup *s); /* NULL is legal */

/* Give the option of that name a value; NULL and unknown names do nothing. */
void setup_note(struct setup *s, const char *name, const char *value);

/* The line that is typed is given up, its option stays.  NULL is legal. */
void setup_stop_typing(struct setup *s);

/* Both for v->setup, which is there. */
void setup_draw(struct view *v, struct rect body);
bool setup_key(struct view *v, int key); /* true when it took the key */

/* The row of an option was clicked: mark it, or change it when it is. */
bool setup_click(struct view *v, int row);

#endif
