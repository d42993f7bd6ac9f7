#include <stdio.h>
#include <string.h>

#include "tui/experts.h"
#include "tui/widgets.h"

#define GUTTER 6       /* layer numbers and the cursor's sign */
#define HEAD 2         /* rule and expert numbers */
#define PANEL_BODY 100 /* columns from which on there is a panel */
#define TICK_LEAST 6   /* columns between two expert numbers */

/* ---- nothing to draw ------------------------------------------------------ */

static const struct snapshot_tier *rows_tier(const struct snapshot *s)
{
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++)
		if (!strcmp(s->health.tiers[i].name, "T3"))
			return &s->health.tiers[i];
	return NULL;
}

/* What is missing, and what brings it. */
static void draw_nothing(struct view *v, struct rect r)
{
	const struct snapshot_tier *t = rows_tier(&v->shot);
	char text[512];
	int y = wrap_draw(&v->grid, r, 0, "No rows per expert are known yet.",
			  64);

	if (t && t->state == TIER_OK && v->shot.health.rows_method[0] &&
	    strcmp(v->shot.health.rows_method, "off"))
		snprintf(text, sizeof(text),
			 "Rows are read by: %s.  The map fills as soon as a "
			 "decode step has been sampled.",
			 v->shot.health.rows_method);
	else if (t && t->remedy[0])
		snprintf(text, sizeof(text),
			 "T3 is missing: %s.  What enables it: %s",
			 t->what[0] ? t->what : "rows per expert", t->remedy);
	else
		snprintf(text, sizeof(text),
			 "T3 (rows per expert) %s.  They are read by the agent "
			 "in the server: start it with moetop run, or attach "
			 "as root, and keep --rows on.",
			 t && t->state == TIER_OFF ? "is switched off"
						   : "has nothing to show");
	wrap_draw(&v->grid, r, y + 1, text, 0);
}

/* ---- what is shown -------------------------------------------------------- */

static int within(int x, unsigned n)
{
	return x < 0 ? 0 : x >= (int)n ? (int)n - 1 : x;
}

static bool collect(struct view *v, struct experts_view *x)
{
	struct experts_state *c = &v->experts;
	const struct snapshot *s = &v->shot;

	*x = (struct experts_view){ .e = &s->experts,
				    .routed = experts_routed(s) };
	if (!x->routed || !x->e->n_layers)
		return false;
	experts_summary(x->e, x->routed, &x->all);
	if (!x->all.rows)
		return false;
	x->ep = s->target.ep;
	if (x->ep > HEAT_RANKS_MAX || experts_rank(x->routed, x->ep, 0) < 0)
		x->ep = 0;
	c->layer = within(c->layer, x->e->n_layers);
	c->expert = within(c->expert, x->routed);
	x->layer = (unsigned)c->layer;
	x->expert = (unsigned)c->expert;
	experts_layer(x->e, x->routed, x->layer, &x->here);
	x->map = (struct heat){ .rows = x->e->rows,
				.stride = x->e->n_experts,
				.layers = x->e->n_layers,
				.experts = x->routed,
				.ranks = c->by_rank ? x->ep : 0,
				.by_layer = c->by_layer };
	return true;
}

/* ---- the map and its edges ------------------------------------------------ */

static void draw_title(struct view *v, struct rect r,
		       const struct experts_view *x)
{
	const struct experts_state *c = &v->experts;
	const char *group = !c->by_rank     ? ""
			    : x->ep == 1    ? ", one EP rank"
			    : !x->ep        ? ", EP ranks unknown"
			    : !x->map.ranks ? ", too narrow for ranks"
					    : ", by EP rank";
	char title[96], note[64];

	snprintf(title, sizeof(title), "rows per expert%s%s",
		 c->by_layer ? ", each layer by itself" : "", group);
	snprintf(note, sizeof(note), "last min, decode%s",
		 r.w < 76 ? "" : "   n normalise  g group by rank");
	rule_draw(&v->grid, r, title, note);
}

/* Numbers of experts over the columns, and the cursor's sign. */
static void draw_top(struct view *v, struct rect r,
		     const struct experts_view *x)
{
	const struct heat *m = &x->map;
	int last = -TICK_LEAST, at = heat_column(m, x->expert);
	unsigned parts = m->ranks > 1 ? m->ranks : 1;

	text_cut(&v->grid, r, 0, 0, GUTTER, STYLE_DIM, "layer");
	r.x += GUTTER;
	for (unsigned e = 0; e < x->routed; e++) {
		unsigned each = x->routed / parts;
		int col = heat_column(m, e);
		char text[16];

		if (parts > 1 ? e % each : e % (8 * m->per_col))
			continue;
		snprintf(text, sizeof(text), "%u", e);
		if (col < last + TICK_LEAST || col + (int)strlen(text) > m->w ||
		    (at >= col && at < col + (int)strlen(text)))
			continue;
		grid_text(&v->grid, r, col, 0, STYLE_DIM, text);
		last = col;
	}
	grid_put(&v->grid, r, at, 0, STYLE_STRONG, 0x25bc);
}

/* The first layer of each row; the cursor's own in its row. */
static void draw_left(struct view *v, struct rect r,
		      const struct experts_view *x)
{
	int at = heat_row(&x->map, x->layer);

	for (int y = 0; y < x->map.h && y < r.h; y++) {
		char text[16];

		snprintf(text, sizeof(text), "%4u",
			 y == at ? x->layer
				 : (unsigned)heat_layer_at(&x->map, y));
		grid_text(&v->grid, r, 0, y, y == at ? STYLE_STRONG : STYLE_DIM,
			  text);
		if (y == at)
			grid_put(&v->grid, r, 4, y, STYLE_STRONG, '>');
	}
}

static void draw_map(struct view *v, struct rect r,
		     const struct experts_view *x)
{
	struct rect map = { r.x + GUTTER, r.y + 1, x->map.w, x->map.h };
	int col = heat_column(&x->map, x->expert);
	int row = heat_row(&x->map, x->layer);

	draw_top(v, r, x);
	r.y++;
	r.h--;
	draw_left(v, r, x);
	if (map.h > r.h)
		map.h = r.h;
	if (map.w > r.w - GUTTER)
		map.w = r.w - GUTTER;
	if (map.h < 1 || map.w < 1)
		return;
	grid_about(&v->grid, EXPLAIN_EXPERT_ROWS);
	heat_draw(&v->grid, map, &x->map);
	grid_about(&v->grid, 0);
	screen_zone(v, map, ZONE_PICTURE, 0);
	if (row < map.h && col + x->map.cell_w <= map.w)
		grid_paint(&v->grid,
			   (struct rect){ map.x + col, map.y + row,
					  x->map.cell_w, 1 },
			   STYLE_CURSOR);
}

/* ---- the screen ----------------------------------------------------------- */

static struct rect cut_bottom(struct rect *r, int rows)
{
	rows = rows < r->h ? rows : r->h;
	r->h -= rows;
	return (struct rect){ r->x, r->y + r->h, r->w, rows };
}

static void experts_draw(struct view *v, struct rect body)
{
	struct rect r = { body.x + 1, body.y, body.w - 2, body.h }, below;
	struct rect panel = { 0 };
	struct experts_view x;

	if (!collect(v, &x)) {
		draw_nothing(v, (struct rect){ r.x, r.y + 1, r.w, r.h - 1 });
		return;
	}
	if (body.w >= PANEL_BODY) {
		heat_fit(&x.map, r.w - EXPERTS_PANEL_W - 2 - GUTTER, 1);
		panel = r;
		panel.x += GUTTER + x.map.w + 3;
		panel.w -= GUTTER + x.map.w + 3;
		panel.w = panel.w < 48 ? panel.w : 48;
		r.w = GUTTER + x.map.w;
	}
	below = cut_bottom(&r, panel.w ? 1 : r.h > 12 ? 4 : 3);
	heat_fit(&x.map, r.w - GUTTER, r.h - HEAD);
	draw_title(v, (struct rect){ body.x, r.y, body.w, 1 }, &x);
	draw_map(v, (struct rect){ r.x, r.y + 1, r.w, r.h - 1 }, &x);
	below.y = r.y + HEAD + x.map.h;
	experts_legend(v, (struct rect){ below.x, below.y, below.w, 1 }, &x);
	if (panel.w) {
		experts_panel(v,
			      (struct rect){ panel.x, panel.y + 1, panel.w,
					     panel.h - 1 },
			      &x);
		return;
	}
	experts_cursor(v, (struct rect){ below.x, below.y + 1, below.w, 1 },
		       &x);
	experts_lines(
		v, (struct rect){ below.x, below.y + 2, below.w, below.h - 2 },
		&x);
}

static bool experts_key(struct view *v, int key)
{
	struct experts_state *c = &v->experts;
	int page = (int)v->shot.experts.n_layers / 8 + 1;

	switch (key) {
	case INPUT_UP:
		c->layer--;
		break;
	case INPUT_DOWN:
		c->layer++;
		break;
	case INPUT_LEFT:
		c->expert--;
		break;
	case INPUT_RIGHT:
		c->expert++;
		break;
	case INPUT_PAGE_UP:
		c->layer -= page;
		break;
	case INPUT_PAGE_DOWN:
		c->layer += page;
		break;
	case INPUT_HOME:
		c->expert = 0;
		break;
	case INPUT_END:
		c->expert = (int)SNAPSHOT_EXPERT_CELLS_MAX;
		break;
	case 'n':
		c->by_layer = !c->by_layer;
		break;
	case 'g':
		c->by_rank = !c->by_rank;
		break;
	default:
		return false;
	}
	return true;
}

/* The map is cut as it was drawn: from the zone's own size. */
static bool experts_clicked(struct view *v, const struct zone *z, int x, int y)
{
	struct experts_view e;
	int expert, layer;

	if (!collect(v, &e))
		return false;
	heat_fit(&e.map, z->r.w, z->r.h);
	expert = heat_expert_at(&e.map, x);
	layer = heat_layer_at(&e.map, y);
	if (expert >= 0)
		v->experts.expert = expert;
	if (layer >= 0)
		v->experts.layer = layer;
	return expert >= 0 || layer >= 0;
}

const struct screen screen_experts = {
	.title = "experts",
	.key = '3',
	.draw = experts_draw,
	.key_pressed = experts_key,
	.clicked = experts_clicked,
};
