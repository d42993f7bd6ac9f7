/*
 * line.h - one line of text that is typed and changed, in UTF-8
 */
#ifndef MOETOP_TUI_LINE_H
#define MOETOP_TUI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "tui/grid.h"

#define LINE_BYTES 160u

struct line {
	char text[LINE_BYTES];
	size_t at;   /* of the cursor, in bytes; never inside a character */
	size_t most; /* bytes that the text may have; 0: LINE_BYTES - 1 */
};

/* Begin with this text, the cursor behind it. */
void line_set(struct line *l, const char *text, size_t most);

/*
 * Characters, arrows, Home, End, Backspace, Delete, Ctrl-A -E -B -F -U -K -W.
 * True when the key is one of these; what there is no room for is ignored.
 */
bool line_key(struct line *l, int key);

/* Draw it in row 0 of r with its cursor, which is always in sight. */
void line_draw(struct grid *g, struct rect r, const struct line *l,
	       enum style s);

#endif
