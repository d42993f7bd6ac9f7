#include <math.h>

#include "tui/widgets.h"

#define FULL_BLOCK 0x2588u
#define OVERFULL_RATIO 1.02

/* Glyphs that tell the parts apart without colour. */
static const uint32_t part_glyphs[PARTS_MAX] = {
	0x2588, 0x2593, 0x2592, 0x2591, 0x25a4, 0x25a1, 0x00b7,
};
static const char part_letters[PARTS_MAX] = {
	'#', 'R', 'A', 'D', 'C', 'o', '.'
};

int bar_eighths(double ratio, int w)
{
	if (!(ratio > 0) || w <= 0)
		return 0;
	return ratio >= 1 ? 8 * w : (int)lround(ratio * 8 * w);
}

static uint32_t partial_block(int eighths)
{
	return 0x2590u - (unsigned)eighths;
}

void bar_draw(struct grid *g, struct rect r, double ratio, double useful,
	      enum style s)
{
	int filled = bar_eighths(ratio, r.w), cells = filled / 8;
	int useful_cells = useful < ratio ? bar_eighths(useful, r.w) / 8 : r.w;

	if (g->ascii)
		cells = (filled + 4) / 8;
	for (int x = 0; x < r.w; x++) {
		bool waste = x >= useful_cells;
		if (x < cells)
			grid_put(g, r, x, 0, waste ? STYLE_BAR_WASTE : s,
				 waste      ? g->ascii ? '%' : 0x2592
				 : g->ascii ? '#'
					    : FULL_BLOCK);
		else if (x == cells && filled % 8 && !g->ascii)
			grid_put(g, r, x, 0, waste ? STYLE_BAR_WASTE : s,
				 partial_block(filled % 8));
		else
			grid_put(g, r, x, 0, STYLE_BAR_EMPTY, 0xb7);
	}
	if (ratio > OVERFULL_RATIO)
		grid_put(g, r, r.w - 1, 0, STYLE_BAD, '>');
}

static double positive(double x)
{
	return x > 0 && isfinite(x) ? x : 0;
}

/* The part with the largest claim on one more cell. */
static unsigned neediest(const double *share, unsigned n, double per_cell,
			 const int *cells)
{
	unsigned best = 0;
	double most = -INFINITY;

	for (unsigned i = 0; i < n; i++) {
		double claim = positive(share[i]) / per_cell - cells[i];
		if (positive(share[i]) > 0 && claim > most) {
			most = claim;
			best = i;
		}
	}
	return best;
}

void parts_divide(const double *share, unsigned n, int w, int *cells)
{
	double sum = 0;
	int left = w > 0 ? w : 0;

	for (unsigned i = 0; i < n; i++) {
		cells[i] = 0;
		sum += positive(share[i]);
	}
	if (n == 0 || !(sum > 0) || !isfinite(sum))
		return;
	for (unsigned i = 0; i < n && left > 0; i++) {
		if (positive(share[i]) > 0) {
			cells[i] = 1;
			left--;
		}
	}
	while (left-- > 0)
		cells[neediest(share, n, sum / w, cells)]++;
}

uint32_t part_glyph(const struct grid *g, unsigned i)
{
	i = i < PARTS_MAX ? i : PARTS_MAX - 1;
	return g->ascii ? (unsigned char)part_letters[i] : part_glyphs[i];
}

void parts_draw(struct grid *g, struct rect r, const double *share, unsigned n)
{
	int cells[PARTS_MAX], x = 0;

	n = n < PARTS_MAX ? n : PARTS_MAX;
	parts_divide(share, n, r.w, cells);
	for (unsigned i = 0; i < n; i++)
		for (int k = 0; k < cells[i]; k++, x++)
			grid_put(g, r, x, 0, STYLE_GROUP + i, part_glyph(g, i));
	for (; x < r.w; x++)
		grid_put(g, r, x, 0, STYLE_BAR_EMPTY, 0xb7);
}
