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
		     const int *w, int y, int row)
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
	if (t->selected && row == t->cursor && y < r.h)
		grid_paint(g, (struct rect){ r.x, r.y + y, r.w, 1 },
			   STYLE_CURSOR);
}

int table_shown(const struct table *t, int h)
{
	int room = h - 1;

	if (room > t->footer + 2)
		room -= t->footer;
	room = room < t->rows ? room : t->rows;
	return room > 0 ? room : 0;
}

void table_draw(struct grid *g, struct rect r, const struct table *t)
{
	int w[TABLE_COLUMNS_MAX], shown = table_shown(t, r.h), first = t->first;

	if (r.w <= 0 || r.h <= 0)
		return;
	measure(t, r.w, w);
	draw_heading(g, r, t, w);
	if (first > t->rows - shown)
		first = t->rows - shown;
	first = first < 0 ? 0 : first;
	for (int i = 0; i < shown; i++)
		draw_row(g, r, t, w, 1 + i, first + i);
	for (int i = 0; i < t->footer && 1 + shown + i < r.h; i++)
		draw_row(g, r, t, w, 1 + shown + i, t->rows + i);
}

void table_show(struct view *v, struct rect r, struct table *t)
{
	const struct screen_state *s = screen_state(v);
	int w[TABLE_COLUMNS_MAX], x = r.x, shown = table_shown(t, r.h);

	t->first = screen_first(v, t->rows, shown);
	t->reverse = s->reverse;
	t->selected = s->selected && t->rows > 0;
	t->cursor = s->cursor;
	table_draw(&v->grid, r, t);
	if (r.w <= 0 || r.h <= 0)
		return;
	measure(t, r.w, w);
	for (unsigned i = 0; i < t->n_columns; i++) {
		if (!w[i])
			continue;
		screen_zone(v, (struct rect){ x, r.y, w[i], 1 }, ZONE_COLUMN,
			    (int)i);
		x += w[i] + GAP;
	}
	for (int i = 0; i < shown; i++)
		screen_zone(v, (struct rect){ r.x, r.y + 1 + i, r.w, 1 },
			    ZONE_ROW, t->first + i);
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
