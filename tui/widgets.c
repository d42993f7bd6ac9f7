#include "tui/widgets.h"

#include <stdarg.h>
#include <string.h>

#include "model/explain.h"

#define ELLIPSIS "…"

int text_cut(struct grid *g, struct rect clip, int x, int y, int w,
	     enum style s, const char *utf8)
{
	int full = grid_width(g, utf8, strlen(utf8));
	int dots = grid_width(g, ELLIPSIS, strlen(ELLIPSIS)), used = 0;

	if (w <= 0)
		return 0;
	if (full <= w)
		return grid_text(g, clip, x, y, s, utf8);
	if (dots > w)
		dots = 0;
	for (const char *p = utf8; *p;) {
		const char *start = p;
		uint32_t c = utf8_next(&p);
		int cols = grid_width(g, start, (size_t)(p - start));
		if (used + cols > w - dots)
			break;
		used += grid_put(g, clip, x + used, y, s, c);
	}
	if (dots)
		used += grid_text(g, clip, x + used, y, s, ELLIPSIS);
	return used;
}

void text_right(struct grid *g, struct rect clip, int x, int y, int w,
		enum style s, const char *utf8)
{
	int cols = grid_width(g, utf8, strlen(utf8));

	text_cut(g, clip, cols < w ? x + w - cols : x, y, w, s, utf8);
}

/* Bytes of the first line of a text wrapped to w columns; *next skips the
 * blanks that the break swallows.  "59 %" stays together. */
static size_t line_bytes(const struct grid *g, const char *s, int w,
			 const char **next)
{
	const char *p = s, *fit = NULL;
	int cols = 0;

	while (*p) {
		const char *start = p;
		utf8_next(&p);
		cols += grid_width(g, start, (size_t)(p - start));
		if (*start == ' ' && start[1] != '%')
			fit = start;
		if (cols > w && *start != ' ') {
			if (!fit)
				fit = start > s ? start : p;
			break;
		}
	}
	if (cols <= w || !fit)
		fit = p;
	*next = fit;
	while (**next == ' ')
		++*next;
	return (size_t)(fit - s);
}

int wrap_rows(const struct grid *g, const char *utf8, int w)
{
	int rows = 0;

	for (; *utf8 && w > 0; rows++)
		line_bytes(g, utf8, w, &utf8);
	return rows;
}

int wrap_draw(struct grid *g, struct rect r, int y, const char *utf8,
	      size_t strong_bytes)
{
	const char *strong = utf8 + strong_bytes;
	int rows = 0;

	for (; *utf8 && y + rows < r.h && r.w > 0; rows++) {
		const char *next, *p = utf8;
		const char *end = p + line_bytes(g, p, r.w, &next);
		bool last = y + rows == r.h - 1;
		int x = 0;

		if (last && *next) {
			text_cut(g, r, 0, y + rows, r.w,
				 p < strong ? STYLE_STRONG : STYLE_NORMAL, p);
			return rows + 1;
		}
		while (p < end) {
			enum style s = p < strong ? STYLE_STRONG : STYLE_NORMAL;
			uint32_t c = utf8_next(&p);
			x += grid_put(g, r, x, y + rows, s, c);
		}
		utf8 = next;
	}
	return rows;
}

void rule_draw(struct grid *g, struct rect r, const char *title,
	       const char *note)
{
	int title_cols = grid_width(g, title, strlen(title));
	int note_cols = grid_width(g, note, strlen(note));

	grid_line(g, r, 0, STYLE_FRAME);
	grid_put(g, r, 1, 0, STYLE_TITLE, ' ');
	grid_text(g, r, 2, 0, STYLE_TITLE, title);
	grid_put(g, r, 2 + title_cols, 0, STYLE_TITLE, ' ');
	if (!note_cols || title_cols + note_cols + 10 > r.w)
		return;
	grid_put(g, r, r.w - note_cols - 3, 0, STYLE_DIM, ' ');
	grid_text(g, r, r.w - note_cols - 2, 0, STYLE_DIM, note);
	grid_put(g, r, r.w - 2, 0, STYLE_DIM, ' ');
}

void fields_add(struct fields *fs, unsigned rank, enum style style,
		const char *label, const char *format, ...)
{
	va_list args;

	fs->last = NULL;
	if (fs->n == FIELDS_MAX)
		return;
	struct field *f = fs->last = &fs->f[fs->n++];
	*f = (struct field){ .style = style, .rank = rank };
	snprintf(f->label, sizeof(f->label), "%s", label);
	va_start(args, format);
	vsnprintf(f->text, sizeof(f->text), format, args);
	va_end(args);
}

void fields_value(struct fields *fs, unsigned rank, const char *label,
		  struct value v, enum number_form form)
{
	char text[NUMBER_TEXT];

	format_value(text, v, form);
	fields_add(fs, rank, format_style(v, STYLE_STRONG), label, "%s%s", text,
		   v.state == VALUE_STALE ? " (stale)" : "");
}

void fields_about(struct fields *fs, unsigned about)
{
	if (fs->last)
		fs->last->about = about;
}

void fields_metric(struct fields *fs, unsigned rank, const char *label,
		   const struct snapshot *s, enum metric_id id,
		   enum number_form form)
{
	fields_value(fs, rank, label, s->metrics[id], form);
	fields_about(fs, EXPLAIN_METRIC + id);
}

static int field_width(const struct grid *g, const struct field *f)
{
	int label = grid_width(g, f->label, sizeof(f->label));
	int text = grid_width(g, f->text, sizeof(f->text));

	return label + (label && text) + text;
}

static int fields_width(const struct grid *g, const struct fields *fs,
			int separator)
{
	int width = 0;

	for (unsigned i = 0; i < fs->n; i++)
		if (!fs->f[i].gone)
			width += field_width(g, &fs->f[i]) +
				 (width ? separator : 0);
	return width;
}

/* The last field of the highest rank above 0 that is still there. */
static struct field *least_wanted(struct fields *fs)
{
	struct field *worst = NULL;

	for (unsigned i = 0; fs && i < fs->n; i++) {
		struct field *f = &fs->f[i];
		if (f->rank && !f->gone && (!worst || f->rank >= worst->rank))
			worst = f;
	}
	return worst;
}

static bool drop_one(struct fields *left, struct fields *right)
{
	struct field *l = least_wanted(left), *r = least_wanted(right);

	if (!l || (r && r->rank > l->rank))
		l = r;
	if (l)
		l->gone = true;
	return l;
}

static void draw_at(struct grid *g, struct rect r, int x, int y,
		    const char *separator, const struct fields *fs)
{
	bool first = true;

	for (unsigned i = 0; i < fs->n; i++) {
		const struct field *f = &fs->f[i];
		if (f->gone)
			continue;
		if (!first)
			x += grid_text(g, r, x, y, STYLE_DIM, separator);
		first = false;
		x += text_cut(g, r, x, y, r.w - x, STYLE_DIM, f->label);
		if (f->label[0] && f->text[0])
			x++;
		grid_about(g, f->about);
		x += text_cut(g, r, x, y, r.w - x, f->style, f->text);
		grid_about(g, 0);
	}
}

void fields_draw(struct grid *g, struct rect r, int y, const char *separator,
		 struct fields *left, struct fields *right)
{
	int gap = grid_width(g, separator, strlen(separator));
	int right_width = 0;

	for (;;) {
		int width = fields_width(g, left, gap);
		right_width = right ? fields_width(g, right, gap) : 0;
		if (width + right_width + (right_width ? 2 : 0) <= r.w)
			break;
		if (!drop_one(left, right))
			break;
	}
	draw_at(g, r, 0, y, separator, left);
	if (right_width)
		draw_at(g, r, r.w - right_width, y, separator, right);
}
