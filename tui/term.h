/*
 * term.h - the terminal: the only user of curses
 *
 * Takes the terminal over, copies grids to it (only cells that changed), reads
 * keys, and gives it back as it was: at term_close, at exit, on fatal signals,
 * and while the process is stopped.  One terminal at a time.
 *
 * Signals: see guard.h for those that are handled.  A caller that blocks some
 * of them for a signalfd must call term_close itself; SIGTSTP and SIGCONT are
 * unblocked for the calling thread.  SIGWINCH is left to the caller.
 */
#ifndef MOETOP_TUI_TERM_H
#define MOETOP_TUI_TERM_H

#include <stdbool.h>

#include "tui/grid.h"

struct terminal;

/* -ENOTTY: stdin or stdout is no terminal; -ENOTSUP: TERM names no terminal
 * that can place its cursor; -errno. */
int term_open(struct terminal **out, bool color);
void term_close(struct terminal *t); /* NULL legal */

/* Readable when term_key has something to say. */
int term_fd(const struct terminal *t);

/* Nothing beyond ASCII can be shown in this locale. */
bool term_ascii(const struct terminal *t);

/* The size now; call again after SIGWINCH. */
void term_size(struct terminal *t, int *w, int *h);

/* Show the grid, which should have the size of the terminal. */
void term_copy(struct terminal *t, const struct grid *g);

struct term_event {
	enum term_event_kind {
		TERM_NONE,
		TERM_KEY,     /* a character or enum input */
		TERM_CLICK,   /* left button at x, y */
		TERM_CHANGED, /* resized, or resumed: draw again */
		TERM_LOST,    /* the terminal is gone */
	} kind;
	int key, x, y;
};

/* What happened next; TERM_NONE: nothing more for now. */
struct term_event term_next(struct terminal *t);

#endif
