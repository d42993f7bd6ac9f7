#include "tui/heat.h"

#include <math.h>

static const uint32_t glyphs[HEAT_LEVELS + 1] = {
	0xb7, 0x2591, 0x2591, 0x2592, 0x2592, 0x2593, 0x2593, 0x2588, 0x2588,
};
static const char letters[] = ".:-=+oxO@";

unsigned heat_level(double mean, struct heat_range r)
{
	double level;

	if (!(mean > 0) || !(r.top > 0))
		return 0;
	if (!(r.top > r.low))
		return HEAT_LEVELS / 2;
	level = ceil(sqrt((mean - r.low) / (r.top - r.low)) * HEAT_LEVELS);
	return level >= HEAT_LEVELS ? HEAT_LEVELS
	       : level > 1          ? (unsigned)level
				    : 1;
}

uint32_t heat_glyph(const struct grid *g, unsigned level)
{
	level = level < HEAT_LEVELS ? level : HEAT_LEVELS;
	return g->ascii ? (unsigned char)letters[level] : glyphs[level];
}

enum style heat_style(unsigned level)
{
	return level == 0
		       ? STYLE_DIM
		       : STYLE_HEAT +
				 (level < HEAT_LEVELS ? level : HEAT_LEVELS) -
				 1;
}

/* ---- cutting ------------------------------------------------------------- */

static unsigned parts(const struct heat *m)
{
	return m->ranks > 1 ? m->ranks : 1;
}

static unsigned part_experts(const struct heat *m)
{
	return m->experts / parts(m);
}

/* First expert of a cell, from the first of its part. */
static unsigned cell_expert(const struct heat *m, unsigned c)
{
	return (unsigned)((uint64_t)c * part_experts(m) / m->columns);
}

/* Columns of a part with the gap behind it. */
static unsigned part_w(const struct heat *m)
{
	return m->columns * (unsigned)m->cell_w + 1;
}

/* First layer of a row of the picture. */
static unsigned row_layer(const struct heat *m, unsigned y)
{
	return y * m->layers / (unsigned)m->h;
}

/* Mean of the layers of a row and of the experts of a cell. */
static double mean(const struct heat *m, unsigned y, unsigned part, unsigned c)
{
	unsigned base = part * part_experts(m);
	unsigned from = base + cell_expert(m, c);
	unsigned to = base + cell_expert(m, c + 1);
	double sum = 0, n = 0;

	for (unsigned l = row_layer(m, y); l < row_layer(m, y + 1); l++)
		for (unsigned e = from; e < to; e++) {
			sum += m->rows[(size_t)l * m->stride + e];
			n++;
		}
	return n > 0 ? sum / n : 0;
}

/* Widen a range by the cells of a row. */
static void row_range(const struct heat *m, unsigned y, struct heat_range *r)
{
	for (unsigned p = 0; p < parts(m); p++)
		for (unsigned c = 0; c < m->columns; c++) {
			double x = mean(m, y, p, c);

			r->top = fmax(r->top, x);
			if (x > 0 && (!(r->low > 0) || x < r->low))
				r->low = x;
		}
}

void heat_fit(struct heat *m, int w, int h)
{
	unsigned room = w > 1 ? (unsigned)w : 1, each;

	if (m->ranks > HEAT_RANKS_MAX || (m->ranks && m->experts % m->ranks) ||
	    room + 1 < 3 * m->ranks)
		m->ranks = 0;
	each = (room + 1) / parts(m) - 1;
	each = each ? each : 1;
	m->per_col = (part_experts(m) + each - 1) / each;
	m->per_col = m->per_col ? m->per_col : 1;
	m->columns = (part_experts(m) + m->per_col - 1) / m->per_col;
	m->columns = m->columns ? m->columns : 1;
	m->cell_w = (int)(each / m->columns);
	m->cell_w = m->cell_w < 1 ? 1 : m->cell_w > 3 ? 3 : m->cell_w;
	m->h = h < 1 ? 1 : h;
	if ((unsigned)m->h > m->layers)
		m->h = (int)m->layers;
	m->w = (int)(parts(m) * part_w(m)) - 1;
	m->range = (struct heat_range){ 0 };
	for (unsigned y = 0; (int)y < m->h; y++)
		row_range(m, y, &m->range);
}

int heat_column(const struct heat *m, unsigned expert)
{
	unsigned part = expert / part_experts(m);
	unsigned within = expert % part_experts(m);

	unsigned c = within / m->per_col;

	while (c + 1 < m->columns && cell_expert(m, c + 1) <= within)
		c++;
	return (int)(part * part_w(m) + c * (unsigned)m->cell_w);
}

int heat_row(const struct heat *m, unsigned layer)
{
	unsigned y = layer * (unsigned)m->h / (m->layers ? m->layers : 1);

	while (y + 1 < (unsigned)m->h && row_layer(m, y + 1) <= layer)
		y++;
	return (int)y;
}

/* False in a gap or outside. */
static bool cell_at(const struct heat *m, int x, unsigned *part, unsigned *c)
{
	if (x < 0 || x >= m->w)
		return false;
	*part = (unsigned)x / part_w(m);
	*c = (unsigned)x % part_w(m) / (unsigned)m->cell_w;
	return *c < m->columns;
}

int heat_expert_at(const struct heat *m, int x)
{
	unsigned part, c;

	if (!cell_at(m, x, &part, &c))
		return -1;
	return (int)(part * part_experts(m) + cell_expert(m, c));
}

int heat_layer_at(const struct heat *m, int y)
{
	return y < 0 || y >= m->h ? -1 : (int)row_layer(m, (unsigned)y);
}

/* ---- drawing ------------------------------------------------------------- */

void heat_draw(struct grid *g, struct rect r, const struct heat *m)
{
	for (int y = 0; y < m->h && y < r.h; y++) {
		struct heat_range own = { 0 };

		row_range(m, (unsigned)y, &own);
		for (int x = 0; own.top > 0 && x < m->w && x < r.w; x++) {
			unsigned part, c, level;

			if (!cell_at(m, x, &part, &c))
				continue;
			level = heat_level(mean(m, (unsigned)y, part, c),
					   m->by_layer ? own : m->range);
			grid_put(g, r, x, y, heat_style(level),
				 heat_glyph(g, level));
		}
	}
}
