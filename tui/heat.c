#include "tui/heat.h"

#include <math.h>

static const uint32_t glyphs[HEAT_LEVELS + 1] = {
	0xb7, 0x2591, 0x2591, 0x2592, 0x2592, 0x2593, 0x2593, 0x2588, 0x2588,
};
static const char letters[] = ".:-=+oxO@";

unsigned heat_level(double mean, double top)
{
	double level;

	if (!(mean > 0) || !(top > 0))
		return 0;
	level = ceil(sqrt(mean / top) * HEAT_LEVELS);
	return level >= HEAT_LEVELS ? HEAT_LEVELS : (unsigned)level;
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

static unsigned part_columns(const struct heat *m)
{
	return (part_experts(m) + m->per_col - 1) / m->per_col;
}

/* Columns of a part with the gap behind it. */
static unsigned part_w(const struct heat *m)
{
	return part_columns(m) * (unsigned)m->cell_w + 1;
}

/* First layer of a row of the picture. */
static unsigned row_layer(const struct heat *m, unsigned y)
{
	return y * m->layers / (unsigned)m->h;
}

/* Mean of the layers of a row and of so many experts from one on. */
static double mean(const struct heat *m, unsigned y, unsigned expert)
{
	unsigned first = row_layer(m, y), last = row_layer(m, y + 1);
	unsigned end = expert - expert % part_experts(m) + part_experts(m);
	double sum = 0, n = 0;

	if (end > expert + m->per_col)
		end = expert + m->per_col;
	for (unsigned l = first; l < last; l++)
		for (unsigned e = expert; e < end; e++) {
			sum += m->rows[(size_t)l * m->stride + e];
			n++;
		}
	return n > 0 ? sum / n : 0;
}

static double row_top(const struct heat *m, unsigned y)
{
	double top = 0;

	for (unsigned p = 0; p < parts(m); p++)
		for (unsigned c = 0; c < part_columns(m); c++)
			top = fmax(top,
				   mean(m, y,
					p * part_experts(m) + c * m->per_col));
	return top;
}

void heat_fit(struct heat *m, int w, int h)
{
	unsigned room = w > 1 ? (unsigned)w : 1, each;

	if (m->ranks > HEAT_RANKS_MAX || (m->ranks && m->experts % m->ranks) ||
	    room + 1 < 3 * m->ranks)
		m->ranks = 0;
	each = (room + 1) / parts(m) - (parts(m) > 1);
	each = each ? each : 1;
	m->per_col = (part_experts(m) + each - 1) / each;
	m->per_col = m->per_col ? m->per_col : 1;
	m->cell_w = 1;
	m->cell_w = (int)(each / (part_columns(m) ? part_columns(m) : 1));
	m->cell_w = m->cell_w < 1 ? 1 : m->cell_w > 3 ? 3 : m->cell_w;
	m->h = h < 1 ? 1 : h;
	if ((unsigned)m->h > m->layers)
		m->h = (int)m->layers;
	m->w = (int)(parts(m) * part_w(m)) - 1;
	m->top = 0;
	for (unsigned y = 0; (int)y < m->h; y++)
		m->top = fmax(m->top, row_top(m, y));
}

int heat_column(const struct heat *m, unsigned expert)
{
	unsigned part = expert / part_experts(m);
	unsigned within = expert % part_experts(m);

	return (int)(part * part_w(m) +
		     within / m->per_col * (unsigned)m->cell_w);
}

int heat_row(const struct heat *m, unsigned layer)
{
	unsigned y = layer * (unsigned)m->h / (m->layers ? m->layers : 1);

	while (y + 1 < (unsigned)m->h && row_layer(m, y + 1) <= layer)
		y++;
	return (int)y;
}

int heat_expert_at(const struct heat *m, int x)
{
	unsigned part, within;

	if (x < 0 || x >= m->w)
		return -1;
	part = (unsigned)x / part_w(m);
	within = (unsigned)x % part_w(m) / (unsigned)m->cell_w;
	if (within >= part_columns(m))
		return -1;
	return (int)(part * part_experts(m) + within * m->per_col);
}

int heat_layer_at(const struct heat *m, int y)
{
	return y < 0 || y >= m->h ? -1 : (int)row_layer(m, (unsigned)y);
}

/* ---- drawing ------------------------------------------------------------- */

void heat_draw(struct grid *g, struct rect r, const struct heat *m)
{
	for (int y = 0; y < m->h && y < r.h; y++) {
		double own = row_top(m, (unsigned)y);

		for (int x = 0; own > 0 && x < m->w && x < r.w; x++) {
			int e = heat_expert_at(m, x);
			unsigned level;

			if (e < 0)
				continue;
			level = heat_level(mean(m, (unsigned)y, (unsigned)e),
					   m->by_layer ? own : m->top);
			grid_put(g, r, x, y, heat_style(level),
				 heat_glyph(g, level));
		}
	}
}
