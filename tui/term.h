/*
 * term.h - the terminal: the only user of curses
 *
 * Takes the terminal over, copies grids to it (only what changed, see paint.h),
 * reads keys and the mouse, and gives it back as it was: at term_close, at exit, on fatal signals,
 * and while the process is stopped.  One terminal at a time.
 *
 * Signals: see guard.h for those that are handled.  A caller that blocks some
 * of them for a signalfd must call term_close itself; SIGTSTP and SIGCONT are
 * unblocked for the calling thread.  SIGWINCH is left to the caller.
 */
#ifndef MOETOP_TUI_TERM_H
#define MOETOP_TUI_TERM_H

#include <stdbool.h>

#include "tui/escape.h"
#include "tui/grid.h"
#include "tui/theme.h"

struct terminal;

struct term_options {
	unsigned theme;
	int depth;  /* enum color_depth, or -1: what the terminal can */
	bool mouse; /* ask for its reports; then it selects no text */
};

/* What a screen's options mean for its terminal. */
struct tui_options;
struct term_options tui_look(const struct tui_options *o);

/* -ENOTTY: stdin or stdout is no terminal; -ENOTSUP: TERM names no terminal
 * that can place its cursor; -errno. */
int term_open(struct terminal **out, const struct term_options *o);
void term_close(struct terminal *t); /* NULL legal */

/* Other options from now on; the next copy is a whole one. */
void term_change(struct terminal *t, const struct term_options *o);

/* What it shows: never more than the options say and TERM, COLORTERM allow. */
enum color_depth term_depth(const struct terminal *t);

/* Readable when term_next has something to say, or to do. */
int term_fd(const struct terminal *t);

/* Nothing beyond ASCII can be shown in this locale. */
bool term_ascii(const struct terminal *t);

/* The size now; call again after SIGWINCH. */
void term_size(struct terminal *t, int *w, int *h);

/*
 * Show the grid, which should have the size of the terminal.  Never waits: what a
 * terminal does not take at once goes when it does, and frames that come before
 * are dropped; then term_next says TERM_CHANGED.
 */
void term_copy(struct terminal *t, const struct grid *g);

/* The terminal has taken the newest copy. */
bool term_shown(const struct terminal *t);

/* The next copy draws everything again, whatever is believed to be there. */
void term_repaint(struct terminal *t);

struct term_event {
	enum term_event_kind {
		TERM_NONE,
		TERM_KEY,     /* a character or enum input */
		TERM_MOUSE,   /* at x, y */
		TERM_CHANGED, /* resumed, or frames were dropped: draw again */
		TERM_LOST,    /* the terminal is gone */
	} kind;
	enum mouse mouse;
	int key, x, y;
};

/* What happened next; TERM_NONE: nothing more for now. */
struct term_event term_next(struct terminal *t);

#endif
