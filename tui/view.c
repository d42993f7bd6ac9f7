#include "tui/view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/explain.h"
#include "tui/frame.h"
#include "tui/setup.h"
#include "tui/widgets.h"

#define SCROLL_END 1000000
#define NOTICE_SNAPSHOTS 3

const struct screen *const screens[SCREENS] = {
	&screen_overview, &screen_layers, &screen_experts, &screen_requests,
	&screen_kernels,  &screen_valley, &screen_help,
};

struct view *view_new(bool ascii)
{
	struct view *v = calloc(1, sizeof(*v));

	if (v)
		v->grid.ascii = ascii;
	return v;
}

void view_free(struct view *v)
{
	if (!v)
		return;
	grid_fini(&v->grid);
	setup_free(v->setup);
	free(v);
}

void view_options(struct view *v, const struct tui_options *o, bool all)
{
	unsigned theme = o->theme ? theme_find(o->theme) : THEME_DEFAULT;

	v->theme = theme < THEMES ? theme : THEME_DEFAULT;
	v->highlight = !o->no_highlight;
	v->grid.ascii = o->ascii;
	if (!all)
		return;
	if (o->setup)
		v->setup = setup_new(o->setup);
	if (o->screen < SCREEN_HELP && !screens[o->screen]->absent)
		v->screen = o->screen;
}

int view_resize(struct view *v, int columns, int rows)
{
	return grid_resize(&v->grid, columns, rows);
}

/* ---- snapshots ----------------------------------------------------------- */

/* Whether it reads differently, in the three digits that are shown. */
static bool differs(struct value a, struct value b)
{
	char old[32], new[32];

	if (value_known(a) != value_known(b))
		return true;
	if (!value_known(a))
		return false;
	snprintf(old, sizeof(old), "%.3g", a.v);
	snprintf(new, sizeof(new), "%.3g", b.v);
	return strcmp(old, new) != 0;
}

static void find_changes(struct view *v, const struct snapshot *s)
{
	bool *c = v->changed;

	for (unsigned i = 0; i < METRICS; i++)
		c[EXPLAIN_METRIC + i] =
			differs(v->shot.metrics[i], s->metrics[i]);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		c[EXPLAIN_HISTOGRAM + i] =
			differs(v->shot.hists[i].p50, s->hists[i].p50) ||
			differs(v->shot.hists[i].p99, s->hists[i].p99);
}

static void log_events(struct view *v, const struct snapshot *s)
{
	log_add(&v->log, s->time, s->health.message);
	if (s->health.target_gone && !v->shot.health.target_gone)
		log_add(&v->log, s->health.target_gone_seconds,
			"the target is gone");
}

void view_add(struct view *v, const struct snapshot *s)
{
	history_add(&v->history, s);
	log_events(v, s);
	if (v->notice_left && !--v->notice_left)
		v->notice[0] = '\0';
	if (s->health.target_gone)
		v->paused = false;
	if (v->paused && v->have)
		return;
	if (v->have)
		find_changes(v, s);
	v->shot = *s;
	v->have = true;
}

void view_say(struct view *v, const char *text)
{
	snprintf(v->notice, sizeof(v->notice), "%s", text);
	v->notice_left = NOTICE_SNAPSHOTS;
	log_add(&v->log, v->have ? v->shot.time : NAN, text);
}

/* ---- for the screens ----------------------------------------------------- */

bool screen_scroll(struct view *v, int key)
{
	int *scroll = &screen_state(v)->scroll;
	int page = v->grid.h > 10 ? v->grid.h - 8 : 1;

	switch (key) {
	case INPUT_UP:
		*scroll -= 1;
		break;
	case INPUT_DOWN:
		*scroll += 1;
		break;
	case INPUT_PAGE_UP:
		*scroll -= page;
		break;
	case INPUT_PAGE_DOWN:
		*scroll += page;
		break;
	case INPUT_HOME:
		*scroll = 0;
		break;
	case INPUT_END:
		*scroll = SCROLL_END;
		break;
	default:
		return false;
	}
	return true;
}

static int within(int x, int n)
{
	return x >= n ? (n > 0 ? n - 1 : 0) : x < 0 ? 0 : x;
}

int screen_first(struct view *v, int n, int shown)
{
	struct screen_state *s = screen_state(v);

	s->cursor = within(s->cursor, n);
	if (s->selected && s->scroll > s->cursor)
		s->scroll = s->cursor;
	if (s->selected && s->scroll <= s->cursor - shown)
		s->scroll = s->cursor - shown + 1;
	if (s->scroll > n - shown)
		s->scroll = n - shown;
	if (s->scroll < 0)
		s->scroll = 0;
	return s->scroll;
}

bool screen_select(struct view *v, int key)
{
	struct screen_state *s = screen_state(v);
	int scroll = s->scroll;

	if (!screen_scroll(v, key))
		return false;
	if (s->selected)
		s->cursor += s->scroll - scroll;
	else
		s->cursor = scroll;
	if (key == INPUT_HOME)
		s->cursor = 0;
	if (key == INPUT_END)
		s->cursor = SCROLL_END;
	s->scroll = scroll;
	s->selected = true;
	if (s->cursor < 0)
		s->cursor = 0;
	return true;
}

bool screen_passes(const struct view *v, const char *text)
{
	const char *filter = v->state[v->screen].filter;

	return !filter[0] || strcasestr(text, filter);
}

void screen_zone(struct view *v, struct rect r, enum zone_kind kind, int value)
{
	if (v->n_zones < ZONES_MAX)
		v->zones[v->n_zones++] =
			(struct zone){ .r = r, .kind = kind, .value = value };
}

/* ---- drawing ------------------------------------------------------------- */

static void draw_too_small(struct view *v)
{
	struct grid *g = &v->grid;
	char text[80];

	snprintf(text, sizeof(text), "moetop needs %dx%d, this is %dx%d",
		 LAYOUT_COLUMNS_MIN, LAYOUT_ROWS_MIN, g->w, g->h);
	text_cut(g, grid_rect(g), 0, 0, g->w, STYLE_STRONG, text);
}

static void mark_changes(struct view *v)
{
	size_t n = (size_t)v->grid.w * (size_t)v->grid.h;

	for (size_t i = 0; v->highlight && i < n; i++) {
		struct cell *c = &v->grid.cells[i];

		c->changed = c->about < EXPLAINS && v->changed[c->about];
	}
}

/* What lies over the whole body takes its clicks too. */
static void cover(struct view *v, struct rect body)
{
	unsigned n = 0;

	for (unsigned i = 0; i < v->n_zones; i++)
		if (v->zones[i].kind == ZONE_KEY)
			v->zones[n++] = v->zones[i];
	v->n_zones = n;
	grid_blank(&v->grid, body);
}

static void draw_panel(struct view *v, struct rect body)
{
	switch (v->panel) {
	case PANEL_EXPLAIN:
		explain_draw(v, body);
		break;
	case PANEL_LOG:
		cover(v, body);
		log_draw(&v->grid, body, &v->log, &v->log_scroll);
		break;
	case PANEL_SETUP:
		cover(v, body);
		setup_draw(v, body);
		break;
	case PANEL_NONE:
		break;
	}
}

void view_draw(struct view *v)
{
	struct frame_layout l;
	const struct screen *s = screens[v->screen];

	grid_clear(&v->grid);
	v->n_zones = 0;
	if (!layout_fits(v->grid.w, v->grid.h)) {
		draw_too_small(v);
		return;
	}
	layout_frame(v->grid.w, v->grid.h,
		     v->have && frame_has_remedy(&v->shot),
		     frame_has_message(v), &l);
	frame_draw(v, &l);
	if (v->have || v->screen == SCREEN_HELP)
		s->draw(v, l.body);
	else
		grid_text(&v->grid, l.body, 1, 1, STYLE_NORMAL,
			  "waiting for the first measurement …");
	mark_changes(v);
	draw_panel(v, l.body);
}
