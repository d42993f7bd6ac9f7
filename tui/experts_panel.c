#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/experts.h"
#include "tui/widgets.h"

#define GAP "   "
#define CELL_LEAST 20 /* columns for the words on a cell of the map */

/* ---- words -------------------------------------------------------------- */

static void share_text(char out[NUMBER_TEXT], double part, double whole)
{
	format_number(out, whole > 0 ? part / whole : NAN, NUMBER_PERCENT);
}

static void rank_text(char out[48], const struct experts_view *x)
{
	int rank = experts_rank(x->routed, x->ep, x->expert);

	if (rank < 0)
		snprintf(out, 48, "unknown");
	else
		snprintf(out, 48, "%d of %u", rank, x->ep);
}

/* ---- under the cursor ----------------------------------------------------- */

void experts_cursor(struct view *v, struct rect r, const struct experts_view *x)
{
	uint32_t rows =
		x->e->rows[(size_t)x->layer * x->e->n_experts + x->expert];
	double share = x->here.rows ? rows / (double)x->here.rows : NAN;
	char text[NUMBER_TEXT], over[NUMBER_TEXT], rank[48];
	struct fields fs = { 0 };

	fields_add(&fs, 0, STYLE_STRONG, "layer", "%u", x->layer);
	fields_add(&fs, 0, STYLE_STRONG, "expert", "%u", x->expert);
	if (x->here.rows) {
		format_number(text, rows, NUMBER_COUNT);
		fields_add(&fs, 0, STYLE_STRONG, "rows", "%s", text);
		fields_about(&fs, EXPLAIN_EXPERT_ROWS);
		format_number(text, share, NUMBER_PERCENT);
		fields_add(&fs, 1, STYLE_STRONG, "of the layer", "%s", text);
		format_number(over, share * x->routed, NUMBER_RATIO);
		fields_add(&fs, 2, STYLE_STRONG, "", "%s × the mean", over);
	} else {
		fields_add(&fs, 0, STYLE_DIM, "", "layer not sampled");
	}
	rank_text(rank, x);
	fields_add(&fs, 1, x->ep ? STYLE_STRONG : STYLE_DIM, "EP rank", "%s",
		   rank);
	fields_draw(&v->grid, r, 0, GAP, &fs, NULL);
}

/* ---- legend --------------------------------------------------------------- */

static void cell_text(char out[64], const struct heat *m)
{
	unsigned layers = (m->layers + (unsigned)m->h - 1) / (unsigned)m->h;

	if (layers > 1 || m->per_col > 1)
		snprintf(out, 64, "mean of %u layer%s × %u", layers,
			 layers > 1 ? "s" : "", m->per_col);
	else
		snprintf(out, 64, "a cell for each expert");
}

/* "rows  · 0  ░ 19 ░▒▒▓▓█ █ 91" */
void experts_legend(struct view *v, struct rect r, const struct experts_view *x)
{
	struct grid *g = &v->grid;
	char low[NUMBER_TEXT], top[NUMBER_TEXT], cell[64];
	int at = grid_text(g, r, 0, 0, STYLE_DIM, "rows ");

	at += grid_put(g, r, at, 0, heat_style(0), heat_glyph(g, 0));
	at += grid_text(g, r, at, 0, STYLE_NORMAL, "0 ");
	format_number(low, x->map.range.low, NUMBER_COUNT);
	format_number(top, x->map.range.top, NUMBER_COUNT);
	at += grid_text(g, r, at, 0, STYLE_NORMAL,
			x->map.by_layer ? "least" : low);
	at += grid_text(g, r, at, 0, STYLE_NORMAL, " ");
	for (unsigned level = 1; level <= HEAT_LEVELS; level++)
		at += grid_put(g, r, at, 0, heat_style(level),
			       heat_glyph(g, level));
	at += grid_text(g, r, at, 0, STYLE_NORMAL, " ");
	at += grid_text(g, r, at, 0, STYLE_NORMAL,
			x->map.by_layer ? "most" : top);
	cell_text(cell, &x->map);
	at += 3;
	if (r.w - at < CELL_LEAST)
		return;
	text_cut(g, r, at, 0, r.w - at, STYLE_DIM, cell);
}

/* ---- lines below the map -------------------------------------------------- */

static void add_effective(struct view *v, struct fields *fs,
			  const struct experts_view *x)
{
	char text[NUMBER_TEXT];
	struct value n2 = v->shot.metrics[METRIC_EFFECTIVE_EXPERTS];

	format_value(text, n2, NUMBER_COUNT);
	fields_add(fs, 0, format_style(n2, STYLE_STRONG), "effective experts",
		   "%s of %u", text, x->routed);
	fields_about(fs, EXPLAIN_METRIC + METRIC_EFFECTIVE_EXPERTS);
	format_number(text, x->here.effective, NUMBER_COUNT);
	fields_add(fs, 2, STYLE_NORMAL, "in this layer", "%s", text);
}

static void add_unused(struct fields *fs, const struct experts_view *x)
{
	char text[NUMBER_TEXT], share[NUMBER_TEXT];

	format_number(text, (double)x->all.unused, NUMBER_COUNT);
	share_text(share, (double)x->all.unused, (double)x->all.cells);
	fields_add(fs, 0, STYLE_STRONG, "never used", "%s (%s)", text, share);
	if (x->here.rows)
		fields_add(fs, 3, STYLE_NORMAL, "in this layer", "%u",
			   x->here.unused);
}

static void draw_hottest_line(struct view *v, struct rect r,
			      const struct experts_view *x)
{
	struct fields fs = { 0 };

	for (unsigned i = 0; i < x->all.n_hottest; i++) {
		const struct experts_hot *h = &x->all.hottest[i];
		char over[NUMBER_TEXT];

		format_number(over, h->over_mean_ratio, NUMBER_COUNT);
		fields_add(&fs, i ? i + 1 : 0, STYLE_NORMAL, i ? "" : "hottest",
			   "%u/%u %s×", h->layer, h->expert, over);
	}
	if (fs.n)
		fields_add(&fs, 1, STYLE_DIM, "", "layer/expert × mean");
	fields_draw(&v->grid, r, 0, "  ", &fs, NULL);
}

/* The fullest rank of all layers, and how uneven they are. */
static void add_ranks(struct view *v, struct fields *fs,
		      const struct experts_view *x)
{
	uint64_t rows[HEAT_RANKS_MAX], sum = 0;
	unsigned most = 0;
	char text[NUMBER_TEXT];

	(void)v;
	if (x->ep < 2 || !experts_rank_rows(x->e, x->routed, x->e->n_layers,
					    x->ep, rows, HEAT_RANKS_MAX))
		return;
	for (unsigned i = 0; i < x->ep; i++) {
		sum += rows[i];
		if (rows[i] > rows[most])
			most = i;
	}
	format_number(text, (double)rows[most] * x->ep / (double)sum,
		      NUMBER_RATIO);
	fields_add(fs, 1, STYLE_NORMAL, "fullest rank", "%u, %s × the mean",
		   most, text);
}

void experts_lines(struct view *v, struct rect r, const struct experts_view *x)
{
	struct fields fs = { 0 };

	if (r.h < 1)
		return;
	add_effective(v, &fs, x);
	add_unused(&fs, x);
	add_ranks(v, &fs, x);
	fields_draw(&v->grid, r, 0, GAP, &fs, NULL);
	if (r.h > 1)
		draw_hottest_line(v, (struct rect){ r.x, r.y + 1, r.w, 1 }, x);
}

/* ---- panel ---------------------------------------------------------------- */

/* "label   value" over the width of the panel. */
static void draw_pair(struct view *v, struct rect r, int *y, const char *label,
		      const char *text, unsigned about)
{
	if (*y >= r.h)
		return;
	text_cut(&v->grid, r, 0, *y, r.w, STYLE_DIM, label);
	grid_about(&v->grid, about);
	text_right(&v->grid, r, r.w - 18, *y, 18, STYLE_STRONG, text);
	grid_about(&v->grid, 0);
	++*y;
}

static void draw_effective(struct view *v, struct rect r, int *y,
			   const struct experts_view *x)
{
	char number[NUMBER_TEXT], text[2 * NUMBER_TEXT];

	format_value(number, v->shot.metrics[METRIC_EFFECTIVE_EXPERTS],
		     NUMBER_COUNT);
	snprintf(text, sizeof(text), "%s of %u", number, x->routed);
	draw_pair(v, r, y, "effective experts", text,
		  EXPLAIN_METRIC + METRIC_EFFECTIVE_EXPERTS);
	format_number(number, x->here.effective, NUMBER_COUNT);
	snprintf(text, sizeof(text), "%s of %u", number, x->routed);
	draw_pair(v, r, y, "  in this layer", text, 0);
	format_number(number, (double)x->all.unused, NUMBER_COUNT);
	snprintf(text, sizeof(text), "%s", number);
	share_text(number, (double)x->all.unused, (double)x->all.cells);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), " (%s)",
		 number);
	draw_pair(v, r, y, "never used", text, 0);
	snprintf(text, sizeof(text), "%u", x->here.unused);
	draw_pair(v, r, y, "  in this layer", x->here.rows ? text : "-", 0);
}

static void draw_hottest(struct view *v, struct rect r, int *y,
			 const struct experts_view *x)
{
	char text[64], rows[NUMBER_TEXT], over[NUMBER_TEXT];

	if (*y + 2 >= r.h)
		return;
	rule_draw(&v->grid, (struct rect){ r.x, r.y + *y, r.w, 1 }, "hottest",
		  "");
	++*y;
	text_cut(&v->grid, r, 0, *y, r.w, STYLE_DIM,
		 "layer  expert       rows   × mean");
	++*y;
	for (unsigned i = 0; i < x->all.n_hottest && *y < r.h; i++, ++*y) {
		const struct experts_hot *h = &x->all.hottest[i];
		bool here = h->layer == x->layer && h->expert == x->expert;

		format_number(rows, h->rows, NUMBER_COUNT);
		format_number(over, h->over_mean_ratio, NUMBER_RATIO);
		snprintf(text, sizeof(text), "%5u %7u %10s %8s", h->layer,
			 h->expert, rows, over);
		text_cut(&v->grid, r, 0, *y, r.w,
			 here ? STYLE_CURSOR : STYLE_NORMAL, text);
	}
}

static void draw_rank(struct view *v, struct rect r, int y, unsigned rank,
		      double over)
{
	char label[16], text[NUMBER_TEXT];

	snprintf(label, sizeof(label), "%4u", rank);
	format_number(text, over, NUMBER_RATIO);
	grid_text(&v->grid, r, 0, y, STYLE_DIM, label);
	bar_draw(&v->grid, (struct rect){ r.x + 6, r.y + y, r.w - 15, 1 },
		 over / 2, NAN, over > 1 ? STYLE_BAR_COST : STYLE_BAR);
	text_right(&v->grid, r, r.w - 8, y, 8, STYLE_STRONG, text);
}

static void draw_ranks(struct view *v, struct rect r, int *y,
		       const struct experts_view *x)
{
	uint64_t rows[HEAT_RANKS_MAX], sum = 0;

	if (x->ep < 2 || *y + 3 >= r.h ||
	    !experts_rank_rows(x->e, x->routed, x->e->n_layers, x->ep, rows,
			       HEAT_RANKS_MAX))
		return;
	for (unsigned i = 0; i < x->ep; i++)
		sum += rows[i];
	rule_draw(&v->grid, (struct rect){ r.x, r.y + *y, r.w, 1 }, "EP ranks",
		  "rows × mean");
	++*y;
	for (unsigned i = 0; sum && i < x->ep && *y < r.h; i++, ++*y)
		draw_rank(v, r, *y, i, (double)rows[i] * x->ep / (double)sum);
}

static void draw_cursor(struct view *v, struct rect r, int *y,
			const struct experts_view *x)
{
	uint32_t rows =
		x->e->rows[(size_t)x->layer * x->e->n_experts + x->expert];
	double share = x->here.rows ? rows / (double)x->here.rows : NAN;
	char text[48], number[NUMBER_TEXT];

	snprintf(text, sizeof(text), "layer %u, expert %u", x->layer,
		 x->expert);
	text_cut(&v->grid, r, 0, (*y)++, r.w, STYLE_STRONG, text);
	format_number(number, x->here.rows ? (double)rows : (double)NAN,
		      NUMBER_COUNT);
	draw_pair(v, r, y, "  rows", number, EXPLAIN_EXPERT_ROWS);
	format_number(number, share, NUMBER_PERCENT);
	draw_pair(v, r, y, "  of the layer", number, 0);
	format_number(number, share * x->routed, NUMBER_RATIO);
	draw_pair(v, r, y, "  × the mean", number, 0);
	rank_text(text, x);
	draw_pair(v, r, y, "  EP rank", text, 0);
}

void experts_panel(struct view *v, struct rect r, const struct experts_view *x)
{
	int y = 0;

	draw_cursor(v, r, &y, x);
	draw_effective(v, r, &y, x);
	y++;
	draw_hottest(v, r, &y, x);
	y++;
	draw_ranks(v, r, &y, x);
}
