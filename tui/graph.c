#include <math.h>
#include <string.h>

#include "tui/widgets.h"

#define BRAILLE 0x2800u
#define BRAILLE_ROWS 4

/* Dots of a braille cell from the bottom up, left and right column. */
static const unsigned char dots[2][BRAILLE_ROWS] = {
	{ 0x40, 0x04, 0x02, 0x01 },
	{ 0x80, 0x20, 0x10, 0x08 },
};
static const char levels[] = "_.-=*#";
#define LEVELS ((int)sizeof(levels) - 1)

unsigned graph_samples(const struct grid *g, int w)
{
	if (w <= 0)
		return 0;
	return (unsigned)w * (g->ascii ? 1u : 2u);
}

/* Steps of a column that has `most` of them; at least 1 for a known value. */
static int height(double v, double top, int most)
{
	if (!isfinite(v))
		return 0;
	if (!(top > 0) || v <= 0)
		return 1;
	if (v >= top)
		return most;
	int steps = (int)lround(v / top * most);
	return steps > 0 ? steps : 1;
}

static uint32_t braille_cell(const int heights[2], int base)
{
	unsigned bits = 0;

	for (int side = 0; side < 2; side++)
		for (int k = 0; k < BRAILLE_ROWS; k++)
			if (heights[side] > base + k)
				bits |= dots[side][k];
	return bits ? BRAILLE + bits : ' ';
}

static void draw_braille(struct grid *g, struct rect r, const double *v,
			 unsigned n, double top, enum style s)
{
	int most = r.h * BRAILLE_ROWS;

	for (int x = 0; x < r.w; x++) {
		unsigned i = 2u * (unsigned)x;
		int heights[2] = {
			i < n ? height(v[i], top, most) : 0,
			i + 1 < n ? height(v[i + 1], top, most) : 0,
		};
		for (int y = 0; y < r.h; y++)
			grid_put(g, r, x, r.h - 1 - y, s,
				 braille_cell(heights, y * BRAILLE_ROWS));
	}
}

static void draw_ascii(struct grid *g, struct rect r, const double *v,
		       unsigned n, double top, enum style s)
{
	for (int x = 0; x < r.w && (unsigned)x < n; x++) {
		int steps = height(v[x], top, r.h * LEVELS);
		for (int y = 0; y < r.h; y++, steps -= LEVELS)
			if (steps > 0)
				grid_put(g, r, x, r.h - 1 - y, s,
					 (unsigned char)
						 levels[steps < LEVELS
								? steps - 1
								: LEVELS - 1]);
	}
}

void graph_draw(struct grid *g, struct rect r, const double *v, unsigned n,
		double top, enum style s)
{
	if (g->ascii)
		draw_ascii(g, r, v, n, top, s);
	else
		draw_braille(g, r, v, n, top, s);
}
