#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/curve_plot.h"
#include "tui/widgets.h"

#define BRAILLE 0x2800u
#define DOTS 4 /* of a cell, one above the other */
#define UNKNOWN (-1)

/* Dots of a braille cell from the top down, left and right column. */
static const unsigned char dots[2][DOTS] = {
	{ 0x01, 0x02, 0x04, 0x40 },
	{ 0x08, 0x10, 0x20, 0x80 },
};

/* ---- places --------------------------------------------------------------- */

double plot_octaves(const struct plot *p, int x)
{
	return p->r.w > 1 ? p->end * x / (p->r.w - 1) : 0;
}

int plot_x(const struct plot *p, double octaves)
{
	if (!isfinite(octaves) || octaves < 0 || octaves > p->end)
		return UNKNOWN;
	return (int)lround(octaves / p->end * (p->r.w - 1));
}

int plot_y(const struct plot *p, double gain)
{
	if (!isfinite(gain))
		return UNKNOWN;
	gain = gain < 0 ? 0 : gain > 1 ? 1 : gain;
	return (int)lround((1 - gain) * (p->r.h - 1));
}

/* ---- lines ---------------------------------------------------------------- */

/* Two columns of dots to each cell, or one where there is no braille. */
struct column {
	int top,
		bottom; /* dots from above, both included; top > bottom: none */
};

static int per_cell(const struct grid *g)
{
	return g->ascii ? 1 : 2;
}

static int dot_rows(const struct grid *g, const struct plot *p)
{
	return p->r.h * (g->ascii ? 1 : DOTS);
}

static int dot_of(double gain, int rows)
{
	gain = gain < 0 ? 0 : gain > 1 ? 1 : gain;
	return (int)lround((1 - gain) * (rows - 1));
}

static void widen(struct column *c, int dot)
{
	if (c->top > c->bottom) {
		c->top = c->bottom = dot;
		return;
	}
	c->top = dot < c->top ? dot : c->top;
	c->bottom = dot > c->bottom ? dot : c->bottom;
}

/* The dots of column i (0 left, 1 right) of a cell. */
static unsigned column_bits(const struct column *c, int y, int i)
{
	unsigned bits = 0;

	for (int d = 0; d < DOTS; d++)
		if (y * DOTS + d >= c->top && y * DOTS + d <= c->bottom)
			bits |= dots[i][d];
	return bits;
}

static void draw_columns(struct grid *g, const struct plot *p,
			 const struct column *c, enum style s, char letter)
{
	for (int x = 0; x < p->r.w; x++)
		for (int y = 0; y < p->r.h; y++) {
			unsigned bits;

			if (g->ascii) {
				if (y >= c[x].top && y <= c[x].bottom)
					grid_put(g, p->r, x, y, s,
						 (unsigned char)letter);
				continue;
			}
			bits = column_bits(&c[2 * x], y, 0) |
			       column_bits(&c[2 * x + 1], y, 1);
			if (bits)
				grid_put(g, p->r, x, y, s, BRAILLE + bits);
		}
}

#define COLUMNS_MAX (2 * GRID_COLUMNS_MAX)

/* Columns of a plot, none of them with a dot. */
static int clear(const struct grid *g, const struct plot *p,
		 struct column c[COLUMNS_MAX])
{
	int n = p->r.w * per_cell(g);

	for (int i = 0; i < COLUMNS_MAX; i++)
		c[i] = (struct column){ 1, 0 };
	return n < COLUMNS_MAX ? n : COLUMNS_MAX;
}

/* Dotted: every other column, so that it does not pass for a measurement. */
void plot_predicted(struct grid *g, const struct plot *p, const struct curve *c)
{
	struct column columns[COLUMNS_MAX];
	int n = clear(g, p, columns), rows = dot_rows(g, p);

	for (int i = 0; i < n; i += g->ascii ? 1 : 2) {
		double octaves = n > 1 ? p->end * i / (n - 1) : 0;
		double gain = curve_gain(c, octaves);

		if (isfinite(gain))
			widen(&columns[i], dot_of(gain, rows));
	}
	draw_columns(g, p, columns, STYLE_DIM, '.');
}

/* Points of the last minutes, and the way between those that are neighbours in
 * time. */
void plot_measured(struct grid *g, const struct plot *p,
		   const struct history *h)
{
	struct column columns[COLUMNS_MAX];
	int n = clear(g, p, columns), rows = dot_rows(g, p);

	for (unsigned i = 0; i < h->n; i++) {
		const double *v = h->points[i].v;
		double octaves = log2(v[HISTORY_TOKENS_PER_STEP]);
		double gain = v[HISTORY_MARGINAL_GAIN];
		int at;

		if (!isfinite(octaves) || !isfinite(gain) || octaves < 0 ||
		    octaves > p->end)
			continue;
		at = (int)lround(octaves / p->end * (n - 1));
		widen(&columns[at], dot_of(gain, rows));
	}
	draw_columns(g, p, columns, STYLE_SPARK, '#');
}

/* ---- marks ---------------------------------------------------------------- */

void plot_upright(struct grid *g, const struct plot *p, double octaves,
		  enum style s, uint32_t glyph)
{
	int x = plot_x(p, octaves);

	for (int y = 0; x >= 0 && y < p->r.h; y++)
		grid_put(g, p->r, x, y, s, glyph);
}

void plot_point(struct grid *g, const struct plot *p, double octaves,
		double gain, enum style s, uint32_t glyph)
{
	int x = plot_x(p, octaves), y = plot_y(p, gain);

	if (x >= 0 && y >= 0)
		grid_put(g, p->r, x, y, s, glyph);
}

/* ---- axes ----------------------------------------------------------------- */

void plot_left(struct grid *g, const struct plot *p)
{
	static const struct {
		double gain;
		const char *text;
	} ticks[] = { { 1, "1.0" },
		      { 0, "0.0" },
		      { 0.5, "0.5" },
		      { 0.75, "0.75" },
		      { 0.25, "0.25" } };
	struct rect r = { p->r.x - PLOT_LEFT, p->r.y, PLOT_LEFT, p->r.h };
	unsigned n = p->r.h >= 9 ? 5 : p->r.h >= 3 ? 3 : 2;

	for (int y = 0; y < r.h; y++)
		grid_put(g, r, PLOT_LEFT - 1, y, STYLE_FRAME, 0x2502);
	for (unsigned i = 0; i < n; i++) {
		text_right(g, r, 0, plot_y(p, ticks[i].gain), PLOT_LEFT - 1,
			   STYLE_DIM, ticks[i].text);
	}
}

/* Numbers of B below the plot, as many as have room. */
void plot_bottom(struct grid *g, const struct plot *p)
{
	struct rect r = { p->r.x, p->r.y + p->r.h, p->r.w, 1 };
	int last = -1;

	grid_line(g, r, 0, STYLE_FRAME);
	grid_put(g, (struct rect){ r.x - 1, r.y, 1, 1 }, 0, 0, STYLE_FRAME,
		 0x2514);
	for (int octave = 0; octave <= p->end; octave++) {
		char text[16];
		int at = plot_x(p, octave), n;

		n = snprintf(text, sizeof(text), "%d", 1 << octave);
		at = at + n > r.w ? r.w - n : at;
		if (at <= last)
			continue;
		grid_text(g, r, at, 0, STYLE_NORMAL, text);
		last = at + n;
	}
}
