#include "tui/paint.h"

#include <curses.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>

/* Unchanged cells that are cheaper to write again than to jump over. */
#define JUMP_COLUMNS 4

static const struct look plain = { -1, -1, 0 };

const struct paint_caps *paint_caps_ansi(enum color_depth d)
{
#define ANSI                                                                   \
	.at = "\033[%i%p1%d;%p2%dH", .clear = "\033[H\033[2J",                 \
	.normal = "\033[m", .bold = "\033[1m", .dim = "\033[2m",               \
	.reverse = "\033[7m", .underline = "\033[4m", .delete_cell = "\033[P", \
	.insert_cell = "\033[@"
	static const struct paint_caps mono = { ANSI };
	static const struct paint_caps eight = { ANSI, .fg = "\033[3%p1%dm",
						 .bg = "\033[4%p1%dm" };
	static const struct paint_caps many = { ANSI, .fg = "\033[38;5;%p1%dm",
						.bg = "\033[48;5;%p1%dm" };
#undef ANSI

	return d == DEPTH_MONO ? &mono : d == DEPTH_8 ? &eight : &many;
}

/* ---- bytes --------------------------------------------------------------- */

static void put(struct paint *p, const char *s, size_t n)
{
	if (p->n + n > p->room) {
		size_t room = 2 * (p->room + n) + 4096;
		char *bytes = realloc(p->bytes, room);

		if (!bytes) {
			p->failed = true;
			return;
		}
		p->bytes = bytes;
		p->room = room;
	}
	memcpy(p->bytes + p->n, s, n);
	p->n += n;
}

/* tputs takes a function without context, and leaves out the padding. */
static struct paint *padding_to;

static int put_byte(int c)
{
	char byte = (char)c;

	put(padding_to, &byte, 1);
	return c;
}

static void put_cap(struct paint *p, const char *cap)
{
	if (cap && strstr(cap, "$<")) {
		padding_to = p;
		tputs(cap, 1, put_byte);
		padding_to = NULL;
	} else if (cap) {
		put(p, cap, strlen(cap));
	}
}

static void put_color(struct paint *p, const char *cap, int kind, int color)
{
	char text[32];

	if (color < 0)
		return;
	if (p->depth != DEPTH_TRUE) {
		put_cap(p, cap ? tparm(cap, (long)color) : NULL);
		return;
	}
	snprintf(text, sizeof(text), "\033[%d;2;%d;%d;%dm", kind,
		 color >> 16 & 0xff, color >> 8 & 0xff, color & 0xff);
	put(p, text, strlen(text));
}

static bool same_look(struct look a, struct look b)
{
	return a.fg == b.fg && a.bg == b.bg && a.attributes == b.attributes;
}

static void put_attributes(struct paint *p, unsigned a)
{
	put_cap(p, a & LOOK_BOLD ? p->caps.bold : NULL);
	put_cap(p, a & LOOK_DIM ? p->caps.dim : NULL);
	put_cap(p, a & LOOK_REVERSE ? p->caps.reverse : NULL);
	put_cap(p, a & LOOK_UNDERLINE ? p->caps.underline : NULL);
}

static void put_look(struct paint *p, struct look l)
{
	bool add;

	if (same_look(l, p->now))
		return;
	add = (l.attributes & p->now.attributes) == p->now.attributes &&
	      (l.fg >= 0 || p->now.fg < 0) && (l.bg >= 0 || p->now.bg < 0);
	if (!add) {
		put_cap(p, p->caps.normal);
		p->now = plain;
	}
	put_attributes(p, l.attributes & ~p->now.attributes);
	if (l.fg != p->now.fg)
		put_color(p, p->caps.fg, 38, l.fg);
	if (l.bg != p->now.bg)
		put_color(p, p->caps.bg, 48, l.bg);
	p->now = l;
}

static void put_glyph(struct paint *p, uint32_t glyph)
{
	char bytes[4];

	put(p, bytes, utf8_encode(glyph, bytes));
}

/* ---- cells --------------------------------------------------------------- */

static struct look look_of(const struct paint *p, const struct cell *c)
{
	unsigned s = c->style < STYLES ? c->style : STYLE_NORMAL;

	return c->changed ? p->changed[s] : p->looks[s];
}

/* One whose width every terminal agrees on. */
static bool simple(const struct cell *c)
{
	return c->glyph >= ' ' && c->glyph < 0x7f && !c->marks[0];
}

static void put_cell(struct paint *p, const struct grid *g, int x, int y)
{
	const struct cell *c = grid_cell(g, x, y);
	bool wide = x + 1 < g->w && !grid_cell(g, x + 1, y)->glyph;

	put_look(p, look_of(p, c));
	put_glyph(p, c->glyph);
	for (unsigned i = 0; i < CELL_MARKS && c->marks[i]; i++)
		put_glyph(p, c->marks[i]);
	p->x = x + 1;
	/* what a terminal makes of these, and of the margin, is its own */
	if (wide || c->marks[0] || p->x == g->w)
		p->x = -1;
}

static bool can_rewrite(const struct paint *p, const struct grid *g, int x,
			int y)
{
	if (p->y != y || p->x < 0 || x < p->x || x - p->x > JUMP_COLUMNS)
		return false;
	for (int i = p->x; i < x; i++)
		if (!simple(grid_cell(g, i, y)) ||
		    !same_look(look_of(p, grid_cell(g, i, y)), p->now))
			return false;
	return true;
}

static void move_to(struct paint *p, const struct grid *g, int x, int y)
{
	if (can_rewrite(p, g, x, y)) {
		while (p->x < x)
			put_cell(p, g, p->x, y);
		return;
	}
	put_cap(p, p->caps.at ? tparm(p->caps.at, (long)y, (long)x) : NULL);
	p->x = x;
	p->y = y;
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
	return a->glyph == b->glyph && a->style == b->style &&
	       a->changed == b->changed && a->marks[0] == b->marks[0] &&
	       a->marks[1] == b->marks[1];
}

/* What a screen that was just cleared shows there already. */
static bool is_clear(const struct paint *p, const struct cell *c)
{
	struct look l = look_of(p, c);

	return c->glyph == ' ' && !c->marks[0] && l.bg < 0 &&
	       !(l.attributes & (LOOK_REVERSE | LOOK_UNDERLINE));
}

/* ---- rows that move on --------------------------------------------------- */

/* Cells that a move by one must save, for its two jumps. */
#define MOVE_GAIN_MIN 8

static const struct cell *row_of(const struct grid *g, int y)
{
	return g ? grid_cell(g, 0, y) : NULL;
}

/* Between `from` and `to`, which differ, everything one to the left is closer
 * to what is wanted. */
static bool better_moved(const struct cell *was, const struct cell *want,
			 int from, int to)
{
	int stay = 0, move = 1;

	for (int x = from; x <= to; x++)
		stay += !same_cell(&was[x], &want[x]);
	for (int x = from; x < to; x++)
		move += !same_cell(&was[x + 1], &want[x]);
	return move + MOVE_GAIN_MIN < stay;
}

static bool differing(const struct cell *was, const struct cell *want, int w,
		      int *from, int *to)
{
	*from = 0;
	*to = w - 1;
	while (*from < w && same_cell(&was[*from], &want[*from]))
		++*from;
	while (*to > *from && same_cell(&was[*to], &want[*to]))
		--*to;
	return *from < *to;
}

static bool keep_row(struct paint *p, int w)
{
	struct cell *row;

	if (p->row_w >= w)
		return true;
	row = realloc(p->row, sizeof(*row) * (size_t)w);
	if (!row)
		return false;
	p->row = row;
	p->row_w = w;
	return true;
}

/* Take a cell out at `from` and put one in at `to`: the ends of the row stay.
 * Returns what the terminal shows then. */
static const struct cell *move_row(struct paint *p, const struct cell *was,
				   const struct grid *g, int y)
{
	int from, to;

	if (!p->caps.delete_cell || !p->caps.insert_cell ||
	    !differing(was, row_of(g, y), g->w, &from, &to) ||
	    !better_moved(was, row_of(g, y), from, to) || !was[from].glyph ||
	    (to + 1 < g->w && !was[to + 1].glyph) || !keep_row(p, g->w))
		return was;
	put_look(p, p->looks[STYLE_NORMAL]);
	move_to(p, g, from, y);
	put_cap(p, p->caps.delete_cell);
	p->x = -1;
	move_to(p, g, to, y);
	put_cap(p, p->caps.insert_cell);
	memcpy(p->row, was, sizeof(*was) * (size_t)g->w);
	memmove(p->row + from, p->row + from + 1,
		sizeof(*was) * (size_t)(to - from));
	/* some terminals blank it in another colour */
	p->row[to] = (struct cell){ .glyph = UINT32_MAX };
	return p->row;
}

static void paint_row(struct paint *p, const struct cell *was,
		      const struct grid *g, int y)
{
	if (was)
		was = move_row(p, was, g, y);
	for (int x = 0; x < g->w; x++) {
		const struct cell *c = grid_cell(g, x, y);

		if (!c->glyph || (was ? same_cell(c, &was[x]) : is_clear(p, c)))
			continue;
		if (p->caps.scrolls && x == g->w - 1 && y == g->h - 1)
			continue;
		move_to(p, g, x, y);
		put_cell(p, g, x, y);
	}
}

/* ---- the whole ----------------------------------------------------------- */

void paint_theme(struct paint *p, unsigned theme)
{
	for (unsigned s = 0; s < STYLES; s++) {
		p->looks[s] = theme_look(theme, (enum style)s, p->depth);
		p->changed[s] =
			theme_look_changed(theme, (enum style)s, p->depth);
	}
}

void paint_init(struct paint *p, const struct paint_caps *caps, unsigned theme,
		enum color_depth d)
{
	*p = (struct paint){ .caps = *caps, .depth = d, .x = -1, .y = -1 };
	p->now = plain;
	paint_theme(p, theme);
}

void paint_fini(struct paint *p)
{
	free(p->bytes);
	free(p->row);
	p->bytes = NULL;
	p->row = NULL;
	p->room = p->n = 0;
	p->row_w = 0;
}

int paint_diff(struct paint *p, const struct grid *shown, const struct grid *g)
{
	p->n = 0;
	p->failed = false;
	p->x = p->y = -1;
	if (!shown) {
		put_cap(p, p->caps.normal);
		p->now = plain;
		put_cap(p, p->caps.clear);
	}
	for (int y = 0; y < g->h; y++)
		paint_row(p, row_of(shown, y), g, y);
	return p->failed ? -ENOMEM : 0;
}

int paint_write(const struct grid *g, unsigned theme, enum color_depth d,
		FILE *f)
{
	struct paint p;
	int err;

	paint_init(&p, paint_caps_ansi(d), theme, d);
	for (int y = 0; y < g->h; y++) {
		for (int x = 0; x < g->w; x++)
			if (grid_cell(g, x, y)->glyph)
				put_cell(&p, g, x, y);
		put_look(&p, plain);
		put(&p, "\n", 1);
	}
	fwrite(p.bytes, 1, p.n, f);
	err = p.failed ? -ENOMEM : fflush(f) || ferror(f) ? -EIO : 0;
	paint_fini(&p);
	return err;
}
