#include "tui/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/widgets.h"

#define LABEL_COLUMNS 9
#define PARAGRAPHS 5
#define PARAGRAPH_BYTES 400

/* ---- the numbers of a picture -------------------------------------------- */

static void find_numbers(struct view *v)
{
	const struct grid *g = &v->grid;

	v->n_numbers = 0;
	for (int y = 0; y < g->h; y++) {
		for (int x = 0; x < g->w && v->n_numbers < NUMBERS_MAX; x++) {
			unsigned about = grid_cell(g, x, y)->about;
			int start = x;

			if (!about)
				continue;
			while (x + 1 < g->w &&
			       grid_cell(g, x + 1, y)->about == about)
				x++;
			v->numbers[v->n_numbers++] = (struct number){
				.r = { start, y, x + 1 - start, 1 },
				.about = about,
			};
		}
	}
}

static int apart(const struct number *n, int x)
{
	return x < n->r.x             ? n->r.x - x
	       : x >= n->r.x + n->r.w ? x - (n->r.x + n->r.w - 1)
				      : 0;
}

/* The nearest to x in the row that is nearest to y, going only in direction
 * step (0: in any); NULL: there is none. */
static const struct number *nearest(const struct view *v, int x, int y,
				    int step)
{
	const struct number *best = NULL;

	for (unsigned i = 0; i < v->n_numbers; i++) {
		const struct number *n = &v->numbers[i];
		int rows = abs(n->r.y - y);
		int best_rows = best ? abs(best->r.y - y) : 0;

		if (step && (n->r.y - y) * step <= 0)
			continue;
		if (!best || rows < best_rows ||
		    (rows == best_rows && apart(n, x) < apart(best, x)))
			best = n;
	}
	return best;
}

/* Where the mark of a table is, else the first one of the body. */
static const struct number *first(const struct view *v, struct rect body)
{
	const struct number *in_body = NULL;

	for (unsigned i = 0; i < v->n_numbers; i++) {
		const struct number *n = &v->numbers[i];

		if (grid_cell(&v->grid, n->r.x, n->r.y)->style == STYLE_CURSOR)
			return n;
		if (!in_body && n->r.y >= body.y)
			in_body = n;
	}
	return in_body ? in_body : v->n_numbers ? v->numbers : NULL;
}

static const struct number *under_cursor(const struct view *v)
{
	return nearest(v, v->focus.x, v->focus.y, 0);
}

static void put_cursor(struct view *v, const struct number *n)
{
	if (n)
		v->focus = (struct focus){ true, n->r.x, n->r.y };
}

bool explain_key(struct view *v, int key)
{
	const struct number *n = under_cursor(v), *to = NULL;

	if (!n)
		return false;
	switch (key) {
	case INPUT_LEFT:
		to = n > v->numbers ? n - 1 : n;
		break;
	case INPUT_RIGHT:
		to = n + 1 < v->numbers + v->n_numbers ? n + 1 : n;
		break;
	case INPUT_UP:
		to = nearest(v, v->focus.x, n->r.y, -1);
		break;
	case INPUT_DOWN:
		to = nearest(v, v->focus.x, n->r.y, 1);
		break;
	case INPUT_HOME:
		to = v->numbers;
		break;
	case INPUT_END:
		to = v->numbers + v->n_numbers - 1;
		break;
	default:
		return false;
	}
	put_cursor(v, to);
	return true;
}

bool explain_click(struct view *v, int x, int y)
{
	if (x < 0 || y < 0 || x >= v->grid.w || y >= v->grid.h ||
	    !grid_cell(&v->grid, x, y)->about)
		return false;
	v->focus = (struct focus){ true, x, y };
	return true;
}

/* ---- words --------------------------------------------------------------- */

static enum number_form form_of(enum metric_unit u)
{
	static const enum number_form forms[] = {
		[UNIT_NONE] = NUMBER_COUNT,
		[UNIT_SECONDS] = NUMBER_SECONDS,
		[UNIT_BYTES] = NUMBER_BYTES,
		[UNIT_BYTES_PER_SECOND] = NUMBER_BYTES_RATE,
		[UNIT_RATIO] = NUMBER_RATIO,
		[UNIT_PER_SECOND] = NUMBER_RATE,
		[UNIT_COUNT] = NUMBER_COUNT,
		[UNIT_USD] = NUMBER_USD,
	};

	return forms[u];
}

/* As it stands on the screen. */
static void shown_text(const struct grid *g, struct rect r, char *out,
		       size_t bytes)
{
	size_t used = 0;

	for (int x = r.x; x < r.x + r.w && used + 5 < bytes; x++) {
		uint32_t glyph = grid_cell(g, x, r.y)->glyph;

		if (glyph && (glyph != ' ' || used))
			used += utf8_encode(glyph, out + used);
	}
	while (used && out[used - 1] == ' ')
		used--;
	out[used] = '\0';
}

/* The signs of format.h, in words. */
static const char *origin_of(const struct grid *g, const char *text)
{
	static const struct {
		const char *sign, *ascii, *words;
	} signs[] = {
		{ "(", "(", "stale: its source is silent or the load changed" },
		{ "…", "...", "still being gathered" },
		{ "≈", "^", "modelled: a formula with an assumption" },
		{ "~", "~", "inferred from other measurements" },
		{ "§", "@", "scraped: the engine's own claim" },
	};

	if (!strcmp(text, "-"))
		return "unknown: nothing that it is computed from is there";
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (strstr(text, g->ascii ? signs[i].ascii : signs[i].sign))
			return signs[i].words;
	return "measured";
}

static const char *describe(struct value x)
{
	static const char *const sources[SOURCES] = {
		[SOURCE_MEASURED] = "measured",
		[SOURCE_INFERRED] = "inferred from other measurements",
		[SOURCE_MODELLED] = "modelled: a formula with an assumption",
		[SOURCE_SCRAPED] = "scraped: the engine's own claim",
	};

	switch (x.state) {
	case VALUE_WARMING:
		return "still being gathered";
	case VALUE_STALE:
		return "stale: its source is silent or the load changed";
	case VALUE_OK:
		return sources[x.source];
	case VALUE_NO_DATA:
		break;
	}
	return "unknown: nothing that it is computed from is there";
}

static void inputs_text(const struct view *v, const struct explanation *e,
			char out[PARAGRAPH_BYTES])
{
	size_t used = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < e->n_inputs && used < PARAGRAPH_BYTES; i++) {
		const struct metric_info *m = &metric_info[e->inputs[i]];
		struct value x = v->shot.metrics[e->inputs[i]];
		char text[NUMBER_TEXT];

		format_value(text, x, form_of(m->unit));
		used += (size_t)snprintf(
			out + used, PARAGRAPH_BYTES - used, "%s%s %s%s",
			used ? ", " : "", m->title, text,
			x.state == VALUE_STALE ? " (stale)" : "");
	}
}

/* "phi = U / R: reads per row" without the formula, which has a line. */
static const char *without_formula(const char *meaning)
{
	const char *colon = strstr(meaning, ": "), *equal;

	equal = strstr(meaning, " = ");
	return colon && equal && equal < colon ? colon + 2 : meaning;
}

struct paragraph {
	const char *label;
	char text[PARAGRAPH_BYTES];
};

static void words(const struct view *v, const struct number *n,
		  struct paragraph p[PARAGRAPHS])
{
	enum metric_id metric = explain_metric(n->about);
	struct explanation e;
	char shown[64];

	memset(p, 0, sizeof(*p) * PARAGRAPHS);
	if (!explain(n->about, &e))
		return;
	shown_text(&v->grid, n->r, shown, sizeof(shown));
	p[0].label = "value";
	snprintf(p[0].text, PARAGRAPH_BYTES, "%s, %s", shown,
		 metric < METRICS ? describe(v->shot.metrics[metric])
				  : origin_of(&v->grid, shown));
	p[1].label = "means";
	snprintf(p[1].text, PARAGRAPH_BYTES, "%s", without_formula(e.meaning));
	p[2].label = "formula";
	snprintf(p[2].text, PARAGRAPH_BYTES, "%s", e.formula);
	p[3].label = "from";
	inputs_text(v, &e, p[3].text);
	p[4].label = "good?";
	snprintf(p[4].text, PARAGRAPH_BYTES, "%s", e.judgement);
}

/* ---- the panel ----------------------------------------------------------- */

static int label_columns(int w)
{
	return w >= 60 ? LABEL_COLUMNS : 0;
}

static int rows_needed(const struct grid *g, int w, const struct paragraph *p)
{
	int rows = 0;

	for (int i = 0; i < PARAGRAPHS; i++)
		rows += wrap_rows(g, p[i].text, w - label_columns(w));
	return rows;
}

/* Below the number where there is room, else above, else where there is more;
 * never over it. */
static struct rect panel_rect(struct rect body, int rows, int y)
{
	int above = y - body.y, below = body.y + body.h - 1 - y;
	struct rect r = body;

	above = above > body.h ? body.h : above;
	below = below > body.h ? body.h : below;
	if (rows <= below || below >= above) {
		r.h = rows < below ? rows : below;
		r.y = body.y + body.h - r.h;
	} else {
		r.h = rows < above ? rows : above;
	}
	return r;
}

static void draw_words(struct grid *g, struct rect r, const struct paragraph *p)
{
	int label = label_columns(r.w), y = 0;
	struct rect text = { r.x + label, r.y, r.w - label, r.h };

	for (int i = 0; i < PARAGRAPHS; i++) {
		if (!p[i].text[0])
			continue;
		if (label)
			grid_text(g, r, 0, y, STYLE_DIM, p[i].label);
		y += wrap_draw(g, text, y, p[i].text,
			       i == 0 ? strlen(p[i].text) : 0);
	}
}

static void draw_panel(struct view *v, struct rect r, const char *title,
		       const struct paragraph *p)
{
	struct rect in = { r.x + 2, r.y + 1, r.w - 4, r.h - 2 };

	grid_blank(&v->grid, r);
	screen_zone(v, r, ZONE_COVER, 0);
	grid_box(&v->grid, r, STYLE_FRAME);
	text_cut(&v->grid, r, 2, 0, r.w - 4, STYLE_TITLE, title);
	if (r.w >= 70)
		text_right(&v->grid, r, r.w - 36, r.h - 1, 34, STYLE_DIM,
			   " arrows: other numbers, e: end ");
	draw_words(&v->grid, in, p);
}

void explain_draw(struct view *v, struct rect body)
{
	struct paragraph p[PARAGRAPHS];
	struct explanation e;
	const struct number *n;
	char title[120];

	find_numbers(v);
	n = v->focus.placed ? under_cursor(v) : first(v, body);
	if (!n || !explain(n->about, &e)) {
		grid_text(&v->grid, body, 1, body.h - 1, STYLE_MESSAGE,
			  " no number here that could be explained ");
		return;
	}
	put_cursor(v, n);
	words(v, n, p);
	snprintf(title, sizeof(title), " %s · %s ", e.title, e.key);
	grid_paint(&v->grid, n->r, STYLE_CURSOR);
	draw_panel(v,
		   panel_rect(body, rows_needed(&v->grid, body.w - 4, p) + 2,
			      n->r.y),
		   title, p);
}
