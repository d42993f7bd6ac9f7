#include "tui/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen.h"
#include "tui/widgets.h"

#define GAP 1
#define BAR_MOST 40

/* Width of every column, 0 for those left out. */
static void measure(const struct table *t, int room, int *w)
{
	int used = 0, bar = -1;

	for (unsigned i = 0; i < t->n_columns; i++) {
		w[i] = t->columns[i].w;
		used += w[i] + GAP;
	}
	while (used > room) {
		int worst = -1;
		for (unsigned i = 0; i < t->n_columns; i++)
			if (w[i] && t->columns[i].rank &&
			    (worst < 0 ||
			     t->columns[i].rank >= t->columns[worst].rank))
				worst = (int)i;
		if (worst < 0)
			break;
		used -= w[worst] + GAP;
		w[worst] = 0;
	}
	for (unsigned i = 0; i < t->n_columns; i++)
		if (w[i] && t->columns[i].bar)
			bar = (int)i;
	if (bar >= 0 && used < room)
		w[bar] += room - used < BAR_MOST ? room - used : BAR_MOST;
}

static void draw_text(struct grid *g, struct rect r, int x, int y, int w,
		      bool left, enum style s, const char *text)
{
	if (left)
		text_cut(g, r, x, y, w, s, text);
	else
		text_right(g, r, x, y, w, s, text);
}

static void draw_heading(struct grid *g, struct rect r, const struct table *t,
			 const int *w)
{
	int x = 0;

	for (unsigned i = 0; i < t->n_columns; i++) {
		char title[40];
		if (!w[i])
			continue;
		snprintf(title, sizeof(title), "%s%s", t->columns[i].title,
			 t->sorted != (int)i ? ""
			 : t->reverse        ? "▲"
					     : "▼");
		draw_text(g, r, x, 0, w[i], t->columns[i].left,
			  t->sorted == (int)i ? STYLE_STRONG : STYLE_DIM,
			  title);
		x += w[i] + GAP;
	}
}

static void draw_row(struct grid *g, struct rect r, const struct table *t,
		     const int *w, int y, int place, int row)
{
	int x = 0;

	for (unsigned i = 0; i < t->n_columns; i++) {
		struct table_cell c = { .ratio = NAN };
		if (!w[i])
			continue;
		t->cell(t->context, row, i, &c);
		grid_about(g, t->columns[i].explain);
		if (!t->columns[i].bar)
			draw_text(g, r, x, y, w[i], t->columns[i].left, c.style,
				  c.text);
		else if (y < r.h && isfinite(c.ratio))
			bar_draw(g, (struct rect){ r.x + x, r.y + y, w[i], 1 },
				 c.ratio, NAN, STYLE_BAR);
		grid_about(g, 0);
		x += w[i] + GAP;
	}
	if (t->selected && place == t->cursor && y < r.h)
		grid_paint(g, (struct rect){ r.x, r.y + y, r.w, 1 },
			   STYLE_CURSOR);
}

/* Of those that scroll, after the filter. */
static int rows_of(const struct table *t)
{
	return t->order ? t->shown_rows : t->rows;
}

int table_shown(const struct table *t, int h)
{
	int room = h - 1;

	if (room > t->footer + 2)
		room -= t->footer;
	room = room < rows_of(t) ? room : rows_of(t);
	return room > 0 ? room : 0;
}

void table_draw(struct grid *g, struct rect r, const struct table *t)
{
	int w[TABLE_COLUMNS_MAX], shown = table_shown(t, r.h), first = t->first;

	if (r.w <= 0 || r.h <= 0)
		return;
	measure(t, r.w, w);
	draw_heading(g, r, t, w);
	if (first > rows_of(t) - shown)
		first = rows_of(t) - shown;
	first = first < 0 ? 0 : first;
	for (int i = 0; i < shown; i++)
		draw_row(g, r, t, w, 1 + i, first + i,
			 t->order ? t->order[first + i] : first + i);
	for (int i = 0; i < t->footer && 1 + shown + i < r.h; i++)
		draw_row(g, r, t, w, 1 + shown + i, -1, t->rows + i);
}

/* ---- on a screen --------------------------------------------------------- */

struct key {
	double number; /* NAN: none */
	char text[64];
};

static void read_cell(const struct table *t, int row, unsigned column,
		      struct table_cell *out)
{
	*out = (struct table_cell){ .ratio = NAN };
	t->cell(t->context, row, column, out);
}

static bool passes(const struct view *v, const struct table *t, int row)
{
	struct table_cell c;

	for (unsigned i = 0; i < t->n_columns; i++) {
		if (t->columns[i].bar)
			continue;
		read_cell(t, row, i, &c);
		if (screen_passes(v, c.text))
			return true;
	}
	return false;
}

/* What has no number goes last, whichever way. */
static bool before(const struct key *a, const struct key *b, bool reverse)
{
	bool has_a = isfinite(a->number), has_b = isfinite(b->number);

	if (has_a && has_b)
		return reverse ? a->number < b->number : a->number > b->number;
	if (has_a || has_b)
		return has_a;
	return reverse ? strverscmp(a->text, b->text) > 0
		       : strverscmp(a->text, b->text) < 0;
}

/* Insertion: stable, and the order hardly changes from frame to frame. */
static void order_by(const struct table *t, unsigned column, bool reverse,
		     short *order, int n)
{
	struct key keys[TABLE_ROWS_MAX];

	for (int i = 0; i < n; i++) {
		struct table_cell c;

		read_cell(t, order[i], column, &c);
		keys[order[i]].number = c.ratio;
		memcpy(keys[order[i]].text, c.text, sizeof(c.text));
	}
	for (int i = 1; i < n; i++) {
		short moving = order[i];
		int k = i;

		for (; k > 0 &&
		       before(&keys[moving], &keys[order[k - 1]], reverse);
		     k--)
			order[k] = order[k - 1];
		order[k] = moving;
	}
}

static void turn_round(short *order, int n)
{
	for (int i = 0; i < n / 2; i++) {
		short swap = order[i];

		order[i] = order[n - 1 - i];
		order[n - 1 - i] = swap;
	}
}

/* A column that the sort key stops at; state->sort is 1 more than it. */
static bool orders(const struct table *t, unsigned column)
{
	return !t->columns[column].bar && t->columns[column].title[0] &&
	       (int)column != t->sorted;
}

static void arrange(struct view *v, struct table *t, short *order)
{
	struct screen_state *s = screen_state(v);
	int n = 0;

	for (int i = 0; i < t->rows; i++)
		if (!s->filter[0] || passes(v, t, i))
			order[n++] = (short)i;
	t->order = order;
	while (s->sort && s->sort <= t->n_columns && !s->clicked &&
	       !orders(t, s->sort - 1))
		s->sort++;
	if (s->sort > t->n_columns)
		s->sort = 0;
	t->reverse = s->reverse;
	if (s->sort) {
		t->sorted = (int)s->sort - 1;
		order_by(t, s->sort - 1, s->reverse, order, n);
	} else if (s->reverse) {
		turn_round(order, n);
	}
	t->shown_rows = n;
}

static void add_zones(struct view *v, struct rect r, const struct table *t,
		      int shown)
{
	int w[TABLE_COLUMNS_MAX], x = r.x;

	measure(t, r.w, w);
	for (unsigned i = 0; i < t->n_columns; i++) {
		int room = r.x + r.w - x;

		if (!w[i])
			continue;
		if (room > 0)
			screen_zone(v,
				    (struct rect){ x, r.y,
						   w[i] < room ? w[i] : room,
						   1 },
				    ZONE_COLUMN, (int)i);
		x += w[i] + GAP;
	}
	for (int i = 0; i < shown; i++)
		screen_zone(v, (struct rect){ r.x, r.y + 1 + i, r.w, 1 },
			    ZONE_ROW, t->first + i);
}

void table_show(struct view *v, struct rect r, struct table *t)
{
	const struct screen_state *s = screen_state(v);
	short order[TABLE_ROWS_MAX];
	int shown;

	if (r.w <= 0 || r.h <= 0)
		return;
	if (t->rows <= TABLE_ROWS_MAX)
		arrange(v, t, order);
	shown = table_shown(t, r.h);
	t->first = screen_first(v, rows_of(t), shown);
	t->selected = s->selected && rows_of(t) > 0;
	t->cursor = s->cursor;
	table_draw(&v->grid, r, t);
	if (!rows_of(t))
		grid_text(&v->grid, r, 0, 1, STYLE_DIM,
			  "no row has that word in it");
	add_zones(v, r, t, shown);
	t->order = NULL;
}

bool table_clicked(struct view *v, unsigned column)
{
	struct screen_state *s = screen_state(v);

	if (s->sort == column + 1) {
		s->reverse = !s->reverse;
		return true;
	}
	s->sort = column + 1;
	s->clicked = true;
	s->reverse = false;
	return true;
}

void cell_value(struct table_cell *out, struct value v, enum number_form form)
{
	char text[NUMBER_TEXT];

	format_column(text, v, form);
	snprintf(out->text, sizeof(out->text), "%s", text);
	out->style = format_style(v, STYLE_NORMAL);
	if (value_known(v))
		out->ratio = v.v;
}

struct value cell_quotient(struct value num, struct value den)
{
	struct value q;

	if (!value_known(num) || !value_known(den))
		return (struct value){ 0 };
	q = value_ratio(num.v, den.v, source_weaker(num.source, den.source));
	if (q.state == VALUE_OK &&
	    (num.state == VALUE_STALE || den.state == VALUE_STALE))
		q.state = VALUE_STALE;
	return q;
}
