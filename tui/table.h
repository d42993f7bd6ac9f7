/*
 * table.h - a table: fixed columns, one that stretches, rows by callback
 *
 * When the width is short, columns of the highest rank are left out.
 */
#ifndef MOETOP_TUI_TABLE_H
#define MOETOP_TUI_TABLE_H

#include "tui/format.h"
#include "tui/grid.h"

#define TABLE_COLUMNS_MAX 16u

struct view;

struct table_column {
	const char *title;
	int w;         /* of the text; the least for a bar */
	unsigned rank; /* the highest goes first; 0 stays */
	bool left;     /* left-aligned */
	bool bar; /* shows a ratio as a bar, and takes the room left over */
	unsigned explain; /* enum explain_id of its numbers; 0: none */
};

struct table_cell {
	char text[64];
	enum style style;
	double ratio; /* of a bar; NAN: none */
};

struct table {
	const struct table_column *columns;
	unsigned n_columns; /* at most TABLE_COLUMNS_MAX */
	int rows;           /* that scroll */
	int footer;         /* rows below them that stay, if there is room */
	int first;          /* first scrolled row shown */
	int sorted;         /* column with the mark of the order, -1: none */
	bool reverse;       /* that order the other way round */
	bool selected;      /* row `cursor` is marked */
	int cursor;
	/* row counts from 0, the footer's follow the last scrolled one */
	void (*cell)(const void *context, int row, unsigned column,
		     struct table_cell *out);
	const void *context;
};

/* Heading in row 0 of r, then the rows. */
void table_draw(struct grid *g, struct rect r, const struct table *t);

/* The same on a screen: the headings and the rows are zones for the mouse, and
 * the order, the first row and the cursor are those of the screen's state
 * (t->reverse, t->first, t->selected and t->cursor are set from it). */
void table_show(struct view *v, struct rect r, struct table *t);

/* Scrolled rows that fit in h rows of screen. */
int table_shown(const struct table *t, int h);

/* Fill a cell with a number, its mark and its style. */
void cell_value(struct table_cell *out, struct value v, enum number_form form);

#endif
