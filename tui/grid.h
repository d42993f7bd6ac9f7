/*
 * grid.h - the off-screen picture: rows of cells, written with clipping
 *
 * Every screen draws here and nothing else; tui/term.c copies the grid to the
 * terminal and grid_write turns it into text.  All text is UTF-8.  Widths are
 * those of wcwidth: a wide glyph takes two cells, a combining one rides on the
 * cell before it.  Bytes that are no UTF-8 and control characters, which may
 * come from a foreign process, become a replacement glyph, so that nothing in
 * a name can reach the terminal as a command.
 *
 * Coordinates of the writing functions are relative to a clip rectangle and
 * may lie anywhere: what falls outside the clip or the grid is left out.
 */
#ifndef MOETOP_TUI_GRID_H
#define MOETOP_TUI_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tui/theme.h"

#define GRID_COLUMNS_MAX 1000
#define GRID_ROWS_MAX 500

struct rect {
	int x, y, w, h; /* empty when w or h is not positive */
};

#define CELL_MARKS 2u

struct cell {
	uint32_t glyph;             /* 0: right half of the glyph before */
	uint32_t marks[CELL_MARKS]; /* combining, 0: none */
	uint8_t style;              /* enum style */
	bool changed;               /* another number than a moment ago */
	uint16_t about;             /* enum explain_id: what it tells of */
};

struct grid {
	int w, h;
	bool ascii;     /* spell every glyph in ASCII */
	uint16_t about; /* given to every cell that is written, see below */
	struct cell *cells;
};

/* Size the grid and blank it; sizes are capped at the maxima above, anything
 * below 1 is 1.  Starts from an all-zero grid.  -ENOMEM keeps the old one. */
int grid_resize(struct grid *g, int w, int h);
void grid_fini(struct grid *g);
void grid_clear(struct grid *g);

static inline struct rect grid_rect(const struct grid *g)
{
	return (struct rect){ 0, 0, g->w, g->h };
}

static inline const struct cell *grid_cell(const struct grid *g, int x, int y)
{
	return &g->cells[(size_t)y * (size_t)g->w + (size_t)x];
}

/* Both return the columns that the text takes, shown or not. */
int grid_put(struct grid *g, struct rect clip, int x, int y, enum style s,
	     uint32_t glyph);
int grid_text(struct grid *g, struct rect clip, int x, int y, enum style s,
	      const char *utf8);

/*
 * What is written from now on tells of this (enum explain_id; 0: of nothing
 * that could be explained).  The neighbouring cells of a row that tell of the
 * same are one number: the explanation's cursor moves over them.
 */
static inline void grid_about(struct grid *g, unsigned about)
{
	g->about = (uint16_t)about;
}

/* Columns of a text on this grid; n bytes at most. */
int grid_width(const struct grid *g, const char *utf8, size_t n);

/* Give the cells of a rectangle (not clipped to anything but the grid) a
 * style, keeping their glyphs. */
void grid_paint(struct grid *g, struct rect r, enum style s);

/* Blanks, in the normal style. */
void grid_blank(struct grid *g, struct rect r);

/* A box along the edge of r; r is at least 2x2 or nothing is drawn. */
void grid_box(struct grid *g, struct rect r, enum style s);

/* A horizontal line through row y of the clip. */
void grid_line(struct grid *g, struct rect clip, int y, enum style s);

/* One line of UTF-8 per row, trailing blanks left out.  0 or -EIO. */
int grid_write(const struct grid *g, FILE *f);

/* The code point at s, 0 at the end, U+FFFD for what is no UTF-8 or must not
 * reach a terminal; returns the bytes it takes, 0 at the end. */
size_t utf8_decode(const char *s, uint32_t *glyph);

/* The same, moving on. */
static inline uint32_t utf8_next(const char **s)
{
	uint32_t glyph;

	*s += utf8_decode(*s, &glyph);
	return glyph;
}

/* Bytes written to out, 1..4. */
unsigned utf8_encode(uint32_t glyph, char out[4]);

#endif
