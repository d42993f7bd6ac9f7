/*
 * curve_plot.h - a plot of the gain, 0 to 1, against B on a log axis
 *
 * Lines are drawn one above the other, in the order of the calls.
 */
#ifndef MOETOP_TUI_CURVE_PLOT_H
#define MOETOP_TUI_CURVE_PLOT_H

#include "tui/curve.h"
#include "tui/grid.h"
#include "tui/history.h"

#define PLOT_LEFT 6 /* columns of the axis, left of r */

struct plot {
	struct rect r;
	double end; /* the last octave; the first is 0 */
};

/* log2 B of a column, and back; -1 outside. */
double plot_octaves(const struct plot *p, int x);
int plot_x(const struct plot *p, double octaves);
int plot_y(const struct plot *p, double gain);

/* Dotted, what is predicted; in full, what was seen in the history. */
void plot_predicted(struct grid *g, const struct plot *p,
		    const struct curve *c);
void plot_measured(struct grid *g, const struct plot *p,
		   const struct history *h);

/* A line from top to bottom, and a single place. */
void plot_upright(struct grid *g, const struct plot *p, double octaves,
		  enum style s, uint32_t glyph);
void plot_point(struct grid *g, const struct plot *p, double octaves,
		double gain, enum style s, uint32_t glyph);

/* The axes, left of r and in the row below it. */
void plot_left(struct grid *g, const struct plot *p);
void plot_bottom(struct grid *g, const struct plot *p);

#endif
