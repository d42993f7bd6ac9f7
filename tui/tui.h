/*
 * tui.h - the screen
 *
 * Draws snapshots and nothing else: it asks no source, so a slow one cannot
 * stall it.  Layout is arithmetic (numbers in, rectangles out), a screen draws
 * to an off-screen grid, and only tui/term.c copies the grid to curses.
 */
#ifndef MOETOP_TUI_TUI_H
#define MOETOP_TUI_TUI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/snapshot.h"

struct tui;

struct tui_options {
	bool ascii; /* no UTF-8 beyond what the locale allows */
	bool color; /* false: attributes only (NO_COLOR, mono) */
};

/* What a key asks of the caller, or-ed. */
enum tui_wish {
	TUI_NONE = 0,
	TUI_REDRAW = 1, /* the picture changed, and has been drawn */
	TUI_QUIT = 2,
	TUI_FASTER = 4, /* halve the interval */
	TUI_SLOWER = 8,
	TUI_WINDOW = 16, /* a kernel window now, please */
};

/* Take the terminal.  -ENOTTY when stdin or stdout is none, -ENOTSUP when TERM
 * names none that can be drawn on, -errno.  From here on the terminal is
 * restored by tui_close, at exit and on fatal signals. */
int tui_open(struct tui **out, const struct tui_options *o);

/* Descriptor to poll for keys. */
int tui_fd(const struct tui *t);

/* Read the keys that are there; enum tui_wish or-ed. */
unsigned tui_input(struct tui *t);

/* SIGWINCH arrived. */
void tui_resized(struct tui *t);

/* Remember a snapshot (history) and draw it. */
void tui_show(struct tui *t, const struct snapshot *s);

void tui_close(struct tui *t);

/*
 * Draw one screen to text, without a terminal: what the golden tests compare.
 * history: n snapshots, oldest first, the last one is shown.
 */
int tui_print(FILE *f, const struct snapshot *const *history, unsigned n,
	      unsigned columns, unsigned rows, unsigned screen,
	      const struct tui_options *o);

#endif
