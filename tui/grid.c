#include "tui/grid.h"

#include <errno.h>
#include <stdlib.h>
#include <wchar.h>

/* How a glyph is spelled where only ASCII can be shown. */
static const struct spelling {
	uint32_t glyph;
	const char *ascii;
} spellings[] = {
	{ 0x00a0, " " },  { 0x00a7, "@" },   { 0x00b0, "deg" },
	{ 0x00b1, "+-" }, { 0x00b5, "u" },   { 0x00b7, "." },
	{ 0x00d7, "x" },  { 0x03a3, "Sum" }, { 0x03b7, "eta" },
	{ 0x03bc, "u" },  { 0x03c3, "sig" }, { 0x03c6, "phi" },
	{ 0x2013, "-" },  { 0x2014, "-" },   { 0x2018, "'" },
	{ 0x2019, "'" },  { 0x201c, "\"" },  { 0x201d, "\"" },
	{ 0x2022, "*" },  { 0x2026, "..." }, { 0x2190, "<-" },
	{ 0x2191, "^" },  { 0x2192, "->" },  { 0x2193, "v" },
	{ 0x2248, "^" },  { 0x2260, "!=" },  { 0x2264, "<=" },
	{ 0x2265, ">=" }, { 0x2500, "-" },   { 0x2502, "|" },
	{ 0x250c, "+" },  { 0x2510, "+" },   { 0x2514, "+" },
	{ 0x2518, "+" },  { 0x25b2, "^" },   { 0x25bc, "v" },
	{ 0x25cf, "*" },  { 0x2713, "ok" },
};

static const char *spell(uint32_t glyph)
{
	for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
		if (spellings[i].glyph == glyph)
			return spellings[i].ascii;
	return "?";
}

static int glyph_width(uint32_t glyph)
{
	int w = glyph < 0x7f ? 1 : wcwidth((wchar_t)glyph);

	return w < 0 ? 1 : w;
}

int grid_resize(struct grid *g, int w, int h)
{
	w = w < 1 ? 1 : w > GRID_COLUMNS_MAX ? GRID_COLUMNS_MAX : w;
	h = h < 1 ? 1 : h > GRID_ROWS_MAX ? GRID_ROWS_MAX : h;
	if (!g->cells || w != g->w || h != g->h) {
		struct cell *cells =
			calloc((size_t)w * (size_t)h, sizeof(*cells));
		if (!cells)
			return -ENOMEM;
		free(g->cells);
		g->cells = cells;
		g->w = w;
		g->h = h;
	}
	grid_clear(g);
	return 0;
}

void grid_fini(struct grid *g)
{
	free(g->cells);
	*g = (struct grid){ .ascii = g->ascii };
}

void grid_clear(struct grid *g)
{
	size_t n = (size_t)g->w * (size_t)g->h;

	for (size_t i = 0; i < n; i++)
		g->cells[i] = (struct cell){ .glyph = ' ' };
}

static struct cell *cell_at(struct grid *g, int x, int y)
{
	return &g->cells[(size_t)y * (size_t)g->w + (size_t)x];
}

static struct rect inside(const struct grid *g, struct rect r)
{
	int right = r.x + r.w, bottom = r.y + r.h;

	if (r.x < 0)
		r.x = 0;
	if (r.y < 0)
		r.y = 0;
	if (right > g->w)
		right = g->w;
	if (bottom > g->h)
		bottom = g->h;
	r.w = right - r.x;
	r.h = bottom - r.y;
	return r;
}

/* Blank the other half of a wide glyph that is about to lose one half. */
static void split_wide(struct grid *g, int x, int y)
{
	struct cell *c = cell_at(g, x, y);

	if (c->glyph == 0 && x > 0)
		*cell_at(g, x - 1, y) =
			(struct cell){ .glyph = ' ', .style = c->style };
	if (x + 1 < g->w && cell_at(g, x + 1, y)->glyph == 0)
		*cell_at(g, x + 1, y) =
			(struct cell){ .glyph = ' ', .style = c->style };
}

static void combine(struct cell *c, uint32_t mark)
{
	for (unsigned i = 0; i < CELL_MARKS; i++) {
		if (!c->marks[i]) {
			c->marks[i] = mark;
			return;
		}
	}
}

/* x and y count from the grid; clip is inside it. */
static void set_glyph(struct grid *g, struct rect clip, int x, int y,
		      enum style s, uint32_t glyph, int width)
{
	int left = clip.x, right = clip.x + clip.w;

	if (y < clip.y || y >= clip.y + clip.h)
		return;
	if (width == 0) {
		if (x > left && x <= right) {
			x--;
			if (cell_at(g, x, y)->glyph == 0 && x > left)
				x--;
			combine(cell_at(g, x, y), glyph);
		}
		return;
	}
	bool whole = x >= left && x + width <= right;
	for (int i = 0; i < width; i++) {
		if (x + i < left || x + i >= right)
			continue;
		split_wide(g, x + i, y);
		*cell_at(g, x + i, y) = (struct cell){
			.glyph = !whole   ? ' '
				 : i == 0 ? glyph
					  : 0,
			.style = (uint8_t)s,
			.about = g->about,
		};
	}
}

int grid_put(struct grid *g, struct rect clip, int x, int y, enum style s,
	     uint32_t glyph)
{
	struct rect in = inside(g, clip);
	int gx = clip.x + x, gy = clip.y + y, width = 0;

	if (!g->ascii || glyph < 0x7f) {
		width = glyph_width(glyph);
		set_glyph(g, in, gx, gy, s, glyph, width);
		return width;
	}
	if (glyph_width(glyph) == 0)
		return 0;
	for (const char *p = spell(glyph); *p; p++, width++)
		set_glyph(g, in, gx + width, gy, s, (unsigned char)*p, 1);
	return width;
}

int grid_text(struct grid *g, struct rect clip, int x, int y, enum style s,
	      const char *utf8)
{
	int at = x;

	for (uint32_t c; (c = utf8_next(&utf8));)
		at += grid_put(g, clip, at, y, s, c);
	return at - x;
}

int grid_width(const struct grid *g, const char *utf8, size_t n)
{
	const char *end = utf8 + n;
	int width = 0;

	for (uint32_t c; utf8 < end && (c = utf8_next(&utf8));) {
		if (!g->ascii || c < 0x7f)
			width += glyph_width(c);
		else if (glyph_width(c))
			for (const char *p = spell(c); *p; p++)
				width++;
	}
	return width;
}

void grid_paint(struct grid *g, struct rect r, enum style s)
{
	r = inside(g, r);
	for (int y = r.y; y < r.y + r.h; y++)
		for (int x = r.x; x < r.x + r.w; x++)
			cell_at(g, x, y)->style = (uint8_t)s;
}

void grid_blank(struct grid *g, struct rect r)
{
	for (int y = 0; y < r.h; y++)
		for (int x = 0; x < r.w; x++)
			grid_put(g, r, x, y, STYLE_NORMAL, ' ');
}

void grid_line(struct grid *g, struct rect clip, int y, enum style s)
{
	for (int x = 0; x < clip.w; x++)
		grid_put(g, clip, x, y, s, 0x2500);
}

void grid_box(struct grid *g, struct rect r, enum style s)
{
	if (r.w < 2 || r.h < 2)
		return;
	grid_line(g, r, 0, s);
	grid_line(g, r, r.h - 1, s);
	for (int y = 1; y < r.h - 1; y++) {
		grid_put(g, r, 0, y, s, 0x2502);
		grid_put(g, r, r.w - 1, y, s, 0x2502);
	}
	grid_put(g, r, 0, 0, s, 0x250c);
	grid_put(g, r, r.w - 1, 0, s, 0x2510);
	grid_put(g, r, 0, r.h - 1, s, 0x2514);
	grid_put(g, r, r.w - 1, r.h - 1, s, 0x2518);
}

static bool blank(const struct cell *c)
{
	return c->glyph == ' ' && !c->marks[0];
}

static void write_glyph(FILE *f, uint32_t glyph)
{
	char bytes[4] = { 0 };
	unsigned n = utf8_encode(glyph, bytes);

	fwrite(bytes, 1, n, f);
}

int grid_write(const struct grid *g, FILE *f)
{
	for (int y = 0; y < g->h; y++) {
		int end = g->w;
		while (end > 0 && blank(grid_cell(g, end - 1, y)))
			end--;
		for (int x = 0; x < end; x++) {
			const struct cell *c = grid_cell(g, x, y);
			if (c->glyph)
				write_glyph(f, c->glyph);
			for (unsigned i = 0; i < CELL_MARKS && c->marks[i]; i++)
				write_glyph(f, c->marks[i]);
		}
		fputc('\n', f);
	}
	return fflush(f) || ferror(f) ? -EIO : 0;
}
