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
#define TABLE_ROWS_MAX 512 /* more are neither ordered nor filtered */

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
	const short *order; /* which row stands where; NULL: as they come */
	int shown_rows;     /* with an order: rows that passed the filter */
	/* row counts from 0, the footer's follow the last scrolled one */
	void (*cell)(const void *context, int row, unsigned column,
		     struct table_cell *out);
	const void *context;
};

/* Heading in row 0 of r, then the rows. */
void table_draw(struct grid *g, struct rect r, const struct table *t);

/*
 * The same on a screen: its state says the order, the filter, the first row and
 * the cursor; headings and rows are zones for the mouse.  state->sort 0 is the
 * order of the table itself, n that of column n - 1: numbers from the largest
 * down, unknown ones last, words from A on.  A filter lets rows through that
 * have it in one of their cells; the footer stays what it is.
 */
void table_show(struct view *v, struct rect r, struct table *t);

/* For struct screen: the order of that column, then the other way round. */
bool table_clicked(struct view *v, unsigned column);

/* Scrolled rows that fit in h rows of screen. */
int table_shown(const struct table *t, int h);

/* Fill a cell with a number, its mark and its style. */
void cell_value(struct table_cell *out, struct value v, enum number_form form);

/* num / den with the weaker source and the staler state; unknown where one of
 * them is. */
struct value cell_quotient(struct value num, struct value den);

#endif
