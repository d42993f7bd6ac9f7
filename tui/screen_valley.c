#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/curve_plot.h"
#include "tui/screen.h"
#include "tui/tables.h"
#include "tui/widgets.h"

#define GAP "   "
#define ROWS_BESIDE 4 /* title, axis, marks, legend */
#define PLOT_LEAST 3
#define PLOT_GOOD 10
#define TABLE_LEAST 3
#define STEP_OCTAVES 0.125
#define HERE 0x25cf
#define THERE 0x25cb

static double octaves_now(const struct view *v)
{
	return log2(known_or_nan(v->shot.metrics[METRIC_TOKENS_PER_STEP]));
}

/* ---- nothing to draw ------------------------------------------------------ */

static void draw_nothing(struct view *v, struct rect r)
{
	const struct snapshot_target *t = &v->shot.target;
	const char *why =
		!t->experts ? "The shape of the model is not known: no "
			      "config.json was found.  Name the model with "
			      "--model, or its folder."
		: !t->gpu[0]
			? "The GPU is not known, and so neither is what its "
			  "memory can read.  Name it with --gpu."
			: "The model's experts or the GPU's memory bandwidth "
			  "are not known; moetop doctor says what is missing.";
	char floor[NUMBER_TEXT], text[160];
	int y = wrap_draw(&v->grid, r, 0, "No curve can be drawn.", 64);

	y += 1 + wrap_draw(&v->grid, r, y + 1, why, 0);
	if (!value_known(v->shot.metrics[METRIC_VALLEY_FLOOR]))
		return;
	format_value(floor, v->shot.metrics[METRIC_VALLEY_FLOOR], NUMBER_COUNT);
	snprintf(text, sizeof(text),
		 "The floor of the valley, were all experts equally popular, "
		 "is at B = %s tokens per step.",
		 floor);
	wrap_draw(&v->grid, r, y + 1, text, 0);
}

/* ---- title ---------------------------------------------------------------- */

static const char *basis_words(const struct curve *c)
{
	switch (c->basis) {
	case CURVE_ROWS:
		return "this model, the rows measured";
	case CURVE_SKEW:
		return "this model, the experts counted ~";
	case CURVE_UNIFORM:
		return "this model, uniform routing ≈";
	case CURVE_TABLE:
		return "as recorded";
	case CURVE_NONE:
		break;
	}
	return "";
}

static void draw_title(struct view *v, struct rect r)
{
	const struct curve *c = &v->valley.curve;
	char title[96];

	snprintf(title, sizeof(title), "gain η against tokens per step B%s%s",
		 r.w >= 76 ? ": " : "", r.w >= 76 ? basis_words(c) : "");
	rule_draw(&v->grid, r, title, r.w >= 96 ? "c what-if cursor" : "c");
}

/* ---- marks ---------------------------------------------------------------- */

struct mark {
	const char *name;
	double batch;
};

static void find_marks(const struct curve *c, struct mark out[3])
{
	out[0] = (struct mark){ "exit", c->exit };
	out[1] = (struct mark){ "floor", c->floor };
	out[2] = (struct mark){ "enter", c->enter };
}

/* All of a row's cells from x on are blank, and one to each side. */
static bool room_for(const struct view *v, struct rect r, int x, int w)
{
	if (x < 0 || x + w > r.w)
		return false;
	for (int i = x > 0 ? x - 1 : x; i <= x + w && i < r.w; i++)
		if (grid_cell(&v->grid, r.x + i, r.y)->glyph != ' ')
			return false;
	return true;
}

/* Below the axis, the words on that side of the sign where there is room. */
static void draw_marks(struct view *v, struct rect r, const struct plot *p)
{
	struct mark m[3];

	find_marks(&v->valley.curve, m);
	for (unsigned i = 0; i < 3; i++) {
		char number[NUMBER_TEXT], text[NUMBER_TEXT + 16];
		int x = plot_x(p, log2(m[i].batch)), w;

		if (x < 0)
			continue;
		format_number(number, m[i].batch, NUMBER_COUNT);
		snprintf(text, sizeof(text), "▲ %s %s", m[i].name, number);
		w = grid_width(&v->grid, text, strlen(text));
		if (!room_for(v, r, x, w)) {
			snprintf(text, sizeof(text), "%s %s ▲", m[i].name,
				 number);
			x = x + 1 - w;
		}
		if (room_for(v, r, x, w))
			grid_text(&v->grid, r, x, 0, STYLE_NORMAL, text);
	}
}

static void draw_uprights(struct view *v, const struct plot *p)
{
	struct mark m[3];

	find_marks(&v->valley.curve, m);
	for (unsigned i = 0; i < 3; i++)
		plot_upright(&v->grid, p, log2(m[i].batch), STYLE_FRAME,
			     v->grid.ascii ? ':' : 0x2506);
}

/* ---- captured sizes ------------------------------------------------------- */

static const char *captured(const struct snapshot *s)
{
	for (unsigned i = 0;
	     i < s->target.n_options && i < SNAPSHOT_OPTIONS_MAX; i++)
		if (strstr(s->target.options[i].name, "capture_sizes"))
			return s->target.options[i].value;
	return "";
}

/* On the axis: the numbers of a list, or all from end to end of "1..512 (67)". */
static void draw_captured(struct view *v, const struct plot *p)
{
	struct rect axis = { p->r.x, p->r.y + p->r.h, p->r.w, 1 };
	const char *text = captured(&v->shot);
	bool range = strstr(text, "..");
	int last = -1;

	for (const char *s = text; *s && *s != '(';) {
		char *end;
		unsigned long size = strtoul(s, &end, 10);
		int x = end == s ? -1 : plot_x(p, log2((double)size));

		s = end == s ? s + 1 : end;
		if (x < 0)
			continue;
		for (int i = range && last >= 0 ? last : x; i <= x; i++)
			if (grid_cell(&v->grid, axis.x + i, axis.y)->style ==
			    STYLE_FRAME)
				grid_put(&v->grid, axis, i, 0, STYLE_FRAME,
					 v->grid.ascii ? '=' : 0x2550);
		last = x;
	}
}

/* ---- legend --------------------------------------------------------------- */

static void add_place(struct fields *fs, unsigned rank, const char *name,
		      double batch, double gain, const char *mark)
{
	char b[NUMBER_TEXT], g[NUMBER_TEXT];

	if (!(batch > 0))
		return;
	format_number(b, batch, NUMBER_COUNT);
	format_number(g, gain, NUMBER_RATIO);
	fields_add(fs, rank, STYLE_STRONG, name, "B = %s η %s%s", b, g, mark);
}

static void draw_legend(struct view *v, struct rect r)
{
	const struct curve *c = &v->valley.curve;
	const struct value *m = v->shot.metrics;
	char low[NUMBER_TEXT], high[NUMBER_TEXT];
	struct fields fs = { 0 };

	add_place(&fs, 0, "● now", known_or_nan(m[METRIC_TOKENS_PER_STEP]),
		  known_or_nan(m[METRIC_MARGINAL_GAIN]),
		  format_mark(m[METRIC_MARGINAL_GAIN].source));
	fields_about(&fs, EXPLAIN_METRIC + METRIC_MARGINAL_GAIN);
	if (v->valley.what_if)
		add_place(&fs, 0, v->grid.ascii ? "o cursor" : "○ cursor",
			  exp2(v->valley.octaves),
			  curve_gain(c, v->valley.octaves), "≈");
	if (c->exit_low > 0 && c->exit_high > c->exit_low) {
		format_number(low, c->exit_low, NUMBER_COUNT);
		format_number(high, c->exit_high, NUMBER_COUNT);
		fields_add(&fs, 1, STYLE_NORMAL, "exit", "%s..%s, 9 of 10", low,
			   high);
		fields_about(&fs, EXPLAIN_METRIC + METRIC_TRAFFIC_EXIT);
	}
	fields_add(&fs, 2, STYLE_DIM, "", "%s",
		   v->grid.ascii ? "# measured  . predicted"
				 : "⠶ measured  ⠂ predicted");
	if (captured(&v->shot)[0])
		fields_add(&fs, 3, STYLE_NORMAL,
			   v->grid.ascii ? "= graphs captured"
					 : "═ graphs captured",
			   "%s", captured(&v->shot));
	fields_draw(&v->grid, r, 0, GAP, &fs, NULL);
}

/* ---- the screen ----------------------------------------------------------- */

static void draw_plot(struct view *v, const struct plot *p)
{
	struct valley_state *s = &v->valley;
	double now = octaves_now(v);

	draw_uprights(v, p);
	plot_predicted(&v->grid, p, &s->curve);
	plot_measured(&v->grid, p, &v->history);
	if (s->what_if) {
		plot_upright(&v->grid, p, s->octaves, STYLE_STRONG, 0x2502);
		plot_point(&v->grid, p, s->octaves,
			   curve_gain(&s->curve, s->octaves), STYLE_STRONG,
			   v->grid.ascii ? 'o' : THERE);
	}
	grid_about(&v->grid, EXPLAIN_METRIC + METRIC_MARGINAL_GAIN);
	plot_point(&v->grid, p, now,
		   known_or_nan(v->shot.metrics[METRIC_MARGINAL_GAIN]),
		   STYLE_STRONG, HERE);
	grid_about(&v->grid, 0);
	plot_left(&v->grid, p);
	plot_bottom(&v->grid, p);
	draw_captured(v, p);
	screen_zone(v, p->r, ZONE_PICTURE, 0);
}

/* Rows of the plot: the table gets the rest, whole where there is room. */
static int plot_rows(int h, int table)
{
	int room = h - ROWS_BESIDE, rows = room - table - 1;

	if (rows < PLOT_GOOD)
		rows = PLOT_GOOD;
	if (rows > room - TABLE_LEAST)
		rows = room - TABLE_LEAST;
	if (rows < PLOT_LEAST)
		rows = PLOT_LEAST;
	return rows < room ? rows : room;
}

static void valley_draw(struct view *v, struct rect body)
{
	struct rect r = { body.x + 1, body.y, body.w - 2, body.h };
	struct valley_state *s = &v->valley;
	struct what_if_order o;
	struct table t;
	struct plot p;
	int y;

	curve_find(&s->curve, &v->shot);
	if (s->curve.basis == CURVE_NONE) {
		draw_nothing(v, (struct rect){ r.x, r.y + 1, r.w, r.h - 1 });
		return;
	}
	p.end = curve_end(&s->curve, &v->shot);
	s->octaves = fmin(fmax(s->octaves, 0), p.end);
	what_if_table(&v->shot, s->what_if ? exp2(s->octaves) : 0, &o, &t);
	p.r = (struct rect){ r.x + PLOT_LEFT, r.y + 1, r.w - PLOT_LEFT,
			     plot_rows(r.h, t.rows) };
	draw_title(v, (struct rect){ body.x, r.y, body.w, 1 });
	draw_plot(v, &p);
	y = r.y + 2 + p.r.h;
	draw_marks(v, (struct rect){ p.r.x, y, p.r.w, 1 }, &p);
	draw_legend(v, (struct rect){ r.x, y + 1, r.w, 1 });
	table_show(v, (struct rect){ r.x, y + 2, r.w, r.y + r.h - y - 2 }, &t);
}

/* ---- keys ----------------------------------------------------------------- */

static void start_cursor(struct view *v)
{
	double now = octaves_now(v);

	v->valley.what_if = !v->valley.what_if;
	if (v->valley.what_if && !(v->valley.octaves > 0))
		v->valley.octaves = isfinite(now) ? now + 1 : 5;
}

static bool move_cursor(struct valley_state *s, int key)
{
	switch (key) {
	case INPUT_LEFT:
		s->octaves -= STEP_OCTAVES;
		break;
	case INPUT_RIGHT:
		s->octaves += STEP_OCTAVES;
		break;
	case INPUT_HOME:
		s->octaves = 0;
		break;
	case INPUT_END:
		s->octaves = CURVE_OCTAVES;
		break;
	default:
		return false;
	}
	s->octaves = fmin(fmax(s->octaves, 0), CURVE_OCTAVES);
	return true;
}

static bool valley_key(struct view *v, int key)
{
	if (key == 'c') {
		start_cursor(v);
		return true;
	}
	if (v->valley.what_if && move_cursor(&v->valley, key))
		return true;
	return screen_select(v, key);
}

static bool valley_clicked(struct view *v, const struct zone *z, int x, int y)
{
	struct plot p = { z->r, curve_end(&v->valley.curve, &v->shot) };

	(void)y;
	v->valley.what_if = true;
	v->valley.octaves = fmin(fmax(plot_octaves(&p, x), 0), CURVE_OCTAVES);
	return true;
}

const struct screen screen_valley = {
	.title = "valley",
	.key = '6',
	.draw = valley_draw,
	.key_pressed = valley_key,
	.clicked = valley_clicked,
};
