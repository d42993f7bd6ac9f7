/*
 * widgets.h - what screens are put together from
 *
 * All of them draw into a rectangle and never outside it; an empty rectangle
 * draws nothing.  On an ASCII grid they choose glyphs that mean the same.
 */
#ifndef MOETOP_TUI_WIDGETS_H
#define MOETOP_TUI_WIDGETS_H

#include <stddef.h>

#include "model/explain.h"
#include "model/snapshot.h"
#include "tui/format.h"
#include "tui/grid.h"

/* ---- bars ---------------------------------------------------------------- */

/* Cells of an w-wide bar in eighths: round(8 w ratio), 0..8w; 0 for NAN. */
int bar_eighths(double ratio, int w);

/*
 * A horizontal bar of a ratio of 0..1 in row 0 of r.  From `useful` on (NAN:
 * nothing to tell apart) the filled part is drawn as waste.  Above 1.02 the
 * bar ends in '>': the number cannot be right.
 */
void bar_draw(struct grid *g, struct rect r, double ratio, double useful,
	      enum style s);

/*
 * Divide w cells among n shares, each with a share above zero at least one
 * cell while there are enough, the rest by largest remainder.  The cells add
 * up to w, or to 0 when no share is above zero.
 */
void parts_divide(const double *share, unsigned n, int w, int *cells);

/* The parts of a whole, each with its own glyph; part_glyph names it. */
#define PARTS_MAX 7u
void parts_draw(struct grid *g, struct rect r, const double *share, unsigned n);
uint32_t part_glyph(const struct grid *g, unsigned i);

/* ---- graphs -------------------------------------------------------------- */

/* Samples that a graph of w cells shows: 2 per cell in braille, else 1. */
unsigned graph_samples(const struct grid *g, int w);

/* Area graph of n samples (oldest first, NAN leaves a gap) on a scale from 0
 * to top, filling r.  A known value shows at least its lowest dot. */
void graph_draw(struct grid *g, struct rect r, const double *v, unsigned n,
		double top, enum style s);

/* ---- text ---------------------------------------------------------------- */

/* Text, cut to w columns with an ellipsis; returns the columns taken. */
int text_cut(struct grid *g, struct rect clip, int x, int y, int w,
	     enum style s, const char *utf8);
/* Right-aligned so that it ends before column x + w. */
void text_right(struct grid *g, struct rect clip, int x, int y, int w,
		enum style s, const char *utf8);

/* Rows that a text takes when it is wrapped at blanks to w columns. */
int wrap_rows(const struct grid *g, const char *utf8, int w);
/* Draw it from row y of r on; the first strong_bytes bytes in STYLE_STRONG.
 * What does not fit ends in an ellipsis.  Returns the rows used. */
int wrap_draw(struct grid *g, struct rect r, int y, const char *utf8,
	      size_t strong_bytes);

/* A rule through row 0 of r with a title, and a note at its right end. */
void rule_draw(struct grid *g, struct rect r, const char *title,
	       const char *note);

/* ---- lines of fields ----------------------------------------------------- */

#define FIELDS_MAX 16u

struct field {
	char label[32]; /* dim, before the text; may be empty */
	char text[192];
	enum style style;
	unsigned rank;  /* the highest is dropped first; 0 never */
	unsigned about; /* enum explain_id of the text */
	bool gone;
};

/* One line of fields; those of least rank go when the line is too long. */
struct fields {
	unsigned n;
	struct field *last; /* added last; NULL: there was no room */
	struct field f[FIELDS_MAX];
};

/* printf-like; beyond FIELDS_MAX nothing is added. */
void fields_add(struct fields *fs, unsigned rank, enum style style,
		const char *label, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* "label value" in the style of the value's state. */
void fields_value(struct fields *fs, unsigned rank, const char *label,
		  struct value v, enum number_form form);

/* The same with the metric's value, and the number can be explained. */
void fields_metric(struct fields *fs, unsigned rank, const char *label,
		   const struct snapshot *s, enum metric_id id,
		   enum number_form form);

/* What the field that was added last tells of, enum explain_id. */
void fields_about(struct fields *fs, unsigned about);

/* Draw in row y of r with the separator between fields; right (or NULL) is
 * set flush right in the same row, and competes by rank for the room. */
void fields_draw(struct grid *g, struct rect r, int y, const char *separator,
		 struct fields *left, struct fields *right);

#endif
