/*
 * heat.h - a table of numbers as a picture: layers down, experts across
 *
 * A cell of the screen stands for a few layers and experts, and shows their
 * mean.  Its level is 0 for none, else goes with the square root of the way
 * from the least to the most of all cells, which spreads what is small.  The
 * glyph tells as much as the colour, so that a terminal without colours shows
 * the same.  Pure arithmetic but for heat_draw.
 */
#ifndef MOETOP_TUI_HEAT_H
#define MOETOP_TUI_HEAT_H

#include <stdint.h>

#include "tui/grid.h"

#define HEAT_RANKS_MAX 64u

/* What is drawn, and how it is cut into cells. */
struct heat {
	const uint32_t *rows; /* [layer * stride + expert] */
	unsigned stride, layers, experts;
	unsigned ranks; /* a gap between so many parts; 0 or 1: none */
	bool by_layer;  /* every row of the screen on a scale of its own */
	/* set by heat_fit */
	int w, h;         /* of the picture */
	unsigned columns; /* of cells, of one part */
	unsigned per_col; /* experts of a cell, or one less */
	int cell_w;       /* columns of a cell */
	struct heat_range {
		double low, top; /* least above 0, and most, of the cells */
	} range;
};

/* Cut to fit w x h, both at least 1; gaps are left out where they would cost
 * the picture its experts (ranks becomes 0).  Finds the range. */
void heat_fit(struct heat *m, int w, int h);

/* The column and the row of the picture that show an expert of a layer. */
int heat_column(const struct heat *m, unsigned expert);
int heat_row(const struct heat *m, unsigned layer);

/* What a place in the picture shows first; -1: nothing (a gap). */
int heat_expert_at(const struct heat *m, int x);
int heat_layer_at(const struct heat *m, int y);

/* 0 (none) to HEAT_LEVELS; the middle one when all are alike. */
unsigned heat_level(double mean, struct heat_range range);
/* Glyph and style of a level; of 0 it is a dim dot. */
uint32_t heat_glyph(const struct grid *g, unsigned level);
enum style heat_style(unsigned level);

/* Layers that have no row at all stay blank: they were not sampled. */
void heat_draw(struct grid *g, struct rect r, const struct heat *m);

#endif
