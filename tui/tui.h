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

#include "model/servers.h"
#include "model/snapshot.h"

struct tui;

/* Colours: as many as the terminal says it can, or these. */
enum tui_depth {
	TUI_DEPTH_AUTO,
	TUI_DEPTH_MONO,
	TUI_DEPTH_8,
	TUI_DEPTH_256,
	TUI_DEPTH_TRUE,
};

/*
 * An option as the set-up screen shows and changes it.  The words of a choice
 * are separated by |, and one that begins with ! cannot be chosen; words of a
 * flag are NULL and its value is "true" or "", a number and a text have words
 * "".
 */
#define TUI_VALUE_BYTES 128u
struct tui_option {
	const char *name, *help, *words;
	const char *origin; /* "default", "argument", "config", ... */
	bool live;          /* a change takes effect at once */
	char value[TUI_VALUE_BYTES];
};
#define TUI_OPTIONS_MAX 48u

/* What the set-up screen asks of the caller.  Both are called from tui_input;
 * 0, or -errno with one line in why. */
struct tui_setup {
	void *arg;
	unsigned n;
	struct tui_option *options; /* the caller's, at most TUI_OPTIONS_MAX */
	/* Give option i this value (and options[i].value, when it is good). */
	int (*set)(void *arg, unsigned i, const char *value, char *why,
		   size_t why_bytes);
	/* Keep them all; why says where when it worked. */
	int (*save)(void *arg, char *why, size_t why_bytes);
};

struct tui_options {
	bool ascii; /* no UTF-8 beyond what the locale allows */
	bool color; /* false: attributes only (NO_COLOR, mono) */
	enum tui_depth depth;
	const char *theme;       /* NULL or unknown: the default one */
	bool no_mouse;           /* the terminal keeps it, for selecting text */
	bool no_highlight;       /* numbers that changed look like the others */
	unsigned screen;         /* shown first, 0 to 5 */
	struct tui_setup *setup; /* borrowed until tui_close; NULL: none */
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

/* Descriptor to poll for keys, and for room where the terminal had none: drawing
 * never waits for a terminal that nobody reads. */
int tui_fd(const struct tui *t);

/* Read the keys that are there, go on with what was drawn; enum tui_wish
 * or-ed. */
unsigned tui_input(struct tui *t);

/* The terminal has taken all that was drawn. */
bool tui_shown(const struct tui *t);

/* SIGWINCH arrived. */
void tui_resized(struct tui *t);

/* Other options from now on; only what a running screen can change: ascii,
 * color, depth, theme, mouse, highlight.  No drawing. */
void tui_change(struct tui *t, const struct tui_options *o);

/* A line for the message bar and the log; it stays a few seconds. */
void tui_say(struct tui *t, const char *text);

/* Remember a snapshot (history) and draw it. */
void tui_show(struct tui *t, const struct snapshot *s);

void tui_close(struct tui *t);

/* ---- which server -------------------------------------------------------- */

struct tui_list {
	/* The servers of this moment; false: nothing is known yet, *out stays.
	 * Called once a second; must not block. */
	bool (*look)(void *arg, struct servers *out);
	void *arg;
};

/* Let the user pick one of them, on a terminal of its own.  0 with *pid;
 * -ECANCELED: left without; the errors of tui_open. */
int tui_pick(const struct tui_options *o, const struct tui_list *list,
	     int32_t *pid);

/* ---- as text ------------------------------------------------------------- */

/* The themes by name, separated by |. */
const char *tui_theme_names(void);

/*
 * Draw one screen to text, without a terminal: what the golden tests compare.
 * history: n snapshots, oldest first, the last one is shown.  With color and a
 * depth that is not auto, the colours are in it as escape sequences.
 */
int tui_print(FILE *f, const struct snapshot *const *history, unsigned n,
	      unsigned columns, unsigned rows, unsigned screen,
	      const struct tui_options *o);

#endif
