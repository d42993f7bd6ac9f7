/*
 * paint.h - a grid as bytes for a terminal: only what changed
 *
 * Knows what the terminal shows, where its cursor is and how it draws at the
 * moment, and says no more than needed.  Colours of 24 bits are written
 * directly (ISO 8613-6), everything else by the terminal's own capabilities,
 * strings as terminfo(5) has them; NULL for one that it lacks.
 */
#ifndef MOETOP_TUI_PAINT_H
#define MOETOP_TUI_PAINT_H

#include <stddef.h>

#include "tui/grid.h"
#include "tui/theme.h"

struct paint_caps {
	const char *at;     /* cup */
	const char *clear;  /* clear */
	const char *normal; /* sgr0; must be there when any of the next is */
	const char *bold, *dim, *reverse, *underline;
	const char *fg, *bg; /* setaf, setab */
	/* dch1, ich1: for graphs, whose cells all move on by one */
	const char *delete_cell, *insert_cell;
	bool scrolls; /* when its last cell is written: that one is left out */
};

/* Those of a terminal like xterm with so many colours. */
const struct paint_caps *paint_caps_ansi(enum color_depth d);

struct paint {
	struct paint_caps caps; /* the strings are borrowed */
	enum color_depth depth;
	struct look looks[STYLES], changed[STYLES];
	char *bytes; /* of the last paint, n of them */
	size_t n, room;
	bool failed;      /* no memory for bytes */
	int x, y;         /* of the cursor; -1: not known */
	struct look now;  /* how the terminal draws */
	struct cell *row; /* what it shows in a row that has moved, row_w */
	int row_w;
};

/* Nothing is allocated before the first paint. */
void paint_init(struct paint *p, const struct paint_caps *caps, unsigned theme,
		enum color_depth d);
void paint_fini(struct paint *p);

/* Another theme; the next picture must be a whole one. */
void paint_theme(struct paint *p, unsigned theme);

/*
 * Fill p->bytes with what makes the terminal show g: it shows `shown`, which
 * has the same size, or anything at all (NULL): then it is cleared first.
 * 0 or -ENOMEM.
 */
int paint_diff(struct paint *p, const struct grid *shown, const struct grid *g);

/* The grid as lines of text with colours, each of them complete in itself: for
 * files.  0, -ENOMEM or -EIO. */
int paint_write(const struct grid *g, unsigned theme, enum color_depth d,
		FILE *f);

#endif
