/*
 * explain.h - the panel that explains the number under the cursor
 *
 * Cells say what they tell of (grid_about); the cursor moves over the numbers
 * that are in the picture, and the panel keeps out of its way.
 */
#ifndef MOETOP_TUI_EXPLAIN_H
#define MOETOP_TUI_EXPLAIN_H

#include "tui/screen.h"

/* Over a picture that is complete: finds its numbers, marks the one under the
 * cursor and draws the panel in a part of the body. */
void explain_draw(struct view *v, struct rect body);

/* Arrows, Home and End move the cursor; true when key is one of them. */
bool explain_key(struct view *v, int key);

/* True when there is a number at x, y of the grid: the cursor goes there. */
bool explain_click(struct view *v, int x, int y);

#endif
