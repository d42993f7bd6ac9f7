#include "tui/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/frame.h"
#include "tui/keys.h"
#include "tui/widgets.h"

#define SCROLL_END 1000000

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
	if (v)
		grid_fini(&v->grid);
	free(v);
}

int view_resize(struct view *v, int columns, int rows)
{
	return grid_resize(&v->grid, columns, rows);
}

void view_add(struct view *v, const struct snapshot *s)
{
	history_add(&v->history, s);
	if (s->health.target_gone)
		v->paused = false;
	if (v->paused && v->have)
		return;
	v->shot = *s;
	v->have = true;
}

/* ---- keys ---------------------------------------------------------------- */

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

static unsigned show(struct view *v, unsigned screen)
{
	v->screen = screen;
	return TUI_REDRAW;
}

static unsigned by_key(const struct view *v, int key)
{
	for (unsigned i = 0; i < SCREENS; i++)
		if (screens[i]->key == key)
			return i;
	return v->screen;
}

/* The next screen that exists, in either direction. */
static unsigned neighbour(const struct view *v, unsigned step)
{
	unsigned i = v->screen == SCREEN_HELP ? v->before_help : v->screen;

	do
		i = (i + step) % SCREEN_HELP;
	while (screens[i]->absent);
	return i;
}

static unsigned toggle_help(struct view *v)
{
	if (v->screen == SCREEN_HELP)
		return show(v, v->before_help);
	v->before_help = v->screen;
	return show(v, SCREEN_HELP);
}

unsigned view_key(struct view *v, int key)
{
	const struct binding *b = binding_find(key);

	if (!b) {
		const struct screen *s = screens[v->screen];
		return s->key_pressed && s->key_pressed(v, key) ? TUI_REDRAW
								: TUI_NONE;
	}
	switch (b->action) {
	case ACTION_SCREEN:
		return show(v, by_key(v, key));
	case ACTION_NEXT:
		return show(v, neighbour(v, 1));
	case ACTION_PREVIOUS:
		return show(v, neighbour(v, SCREEN_HELP - 1));
	case ACTION_HELP:
		return toggle_help(v);
	case ACTION_LEAVE_HELP:
		return v->screen == SCREEN_HELP ? toggle_help(v) : TUI_NONE;
	case ACTION_PAUSE:
		v->paused = v->have && !v->paused;
		return TUI_REDRAW;
	case ACTION_FASTER:
		return TUI_FASTER;
	case ACTION_SLOWER:
		return TUI_SLOWER;
	case ACTION_WINDOW:
		return TUI_WINDOW;
	case ACTION_QUIT:
		return TUI_QUIT;
	case ACTION_SORT:
		screen_state(v)->sort++;
		return screens[v->screen]->sorts ? TUI_REDRAW : TUI_NONE;
	case ACTION_SCREEN_KEY:
		break;
	}
	return TUI_NONE;
}

static unsigned click_zone(struct view *v, const struct zone *z, int x, int y)
{
	const struct screen *s = screens[v->screen];
	bool changed = false;

	switch (z->kind) {
	case ZONE_KEY:
		return view_key(v, z->value);
	case ZONE_ROW:
		screen_state(v)->cursor = z->value;
		screen_state(v)->selected = changed = true;
		break;
	case ZONE_COLUMN:
		changed = s->column_clicked &&
			  s->column_clicked(v, (unsigned)z->value);
		break;
	case ZONE_PICTURE:
		changed =
			s->clicked && s->clicked(v, z, x - z->r.x, y - z->r.y);
		break;
	}
	return changed ? TUI_REDRAW : TUI_NONE;
}

unsigned view_click(struct view *v, int x, int y)
{
	for (unsigned i = 0; i < v->n_zones; i++) {
		const struct rect *r = &v->zones[i].r;
		if (x >= r->x && x < r->x + r->w && y >= r->y &&
		    y < r->y + r->h)
			return click_zone(v, &v->zones[i], x, y);
	}
	return TUI_NONE;
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
}
