/*
 * layout.h - where everything goes: numbers in, rectangles out
 *
 * Pure arithmetic.  Rectangles of one layout never overlap and never leave the
 * screen; what there is no room for has no rows.  Room is handed out in the
 * order of what a reader needs first, so a larger screen never loses a part.
 */
#ifndef MOETOP_TUI_LAYOUT_H
#define MOETOP_TUI_LAYOUT_H

#include <stdbool.h>

#include "tui/grid.h"

#define LAYOUT_COLUMNS_MIN 40
#define LAYOUT_ROWS_MIN 12

static inline bool layout_fits(int columns, int rows)
{
	return columns >= LAYOUT_COLUMNS_MIN && rows >= LAYOUT_ROWS_MIN;
}

/* What surrounds every screen. */
struct frame_layout {
	struct rect header; /* whom we watch; 1 row */
	struct rect tiers;  /* what we know it from; 1 row from 14 rows up */
	struct rect remedy; /* 1 row when asked for, from 18 rows up */
	struct rect body;
	struct rect message; /* 1 row when asked for */
	struct rect keys;    /* 1 row */
};

/* The size must fit (layout_fits). */
void layout_frame(int columns, int rows, bool remedy, bool message,
		  struct frame_layout *out);

enum overview_part {
	PART_VERDICT,  /* with its box when boxed */
	PART_BARS,     /* MBU, MFU, phi, eta; 4 rows */
	PART_STEP,     /* bar, then legend: 0 to 2 rows */
	PART_REQUESTS, /* 1 to 3 rows, and one of what the server is */
	PART_HISTORY,  /* rule, then history_rows x graph_height */
	PART_FINDINGS, /* rule, then one row each */
	PART_STRIPS,   /* rule, then a row per quantity, across the layers */
	PART_LAYERS,   /* rule, heading, one row each */
	PART_CLASSES,  /* beside the layers on wide screens */
	OVERVIEW_PARTS
};

struct overview_needs {
	int verdict_rows; /* wrapped to layout_verdict_width */
	int findings, strips, layers, classes;
	int graphs; /* how many there are */
	int server; /* 1: a row of what the server was started with */
};

struct overview_layout {
	struct rect part[OVERVIEW_PARTS];
	bool boxed;        /* the verdict has a box around it */
	int graph_columns; /* graphs side by side */
	int graph_rows;    /* one above the other */
	int graph_height;  /* rows of one graph */
};

/* Columns for the text of the verdict, whether boxed or not. */
int layout_verdict_width(int columns);

void layout_overview(struct rect body, const struct overview_needs *needs,
		     struct overview_layout *out);

/* One labelled bar: label, bar, value, and the rest for details. */
struct bar_layout {
	int label, bar, value, detail; /* columns at which they begin */
	int bar_w, value_w, detail_w;
};
void layout_bar(int columns, struct bar_layout *out);

#endif
