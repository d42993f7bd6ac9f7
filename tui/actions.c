/*
 * What a key does: first to the line that is typed, then to what lies over the
 * screen, then by the table of bindings, then on the screen itself.
 */
#include <stdio.h>
#include <string.h>

#include "tui/explain.h"
#include "tui/keys.h"
#include "tui/setup.h"
#include "tui/view.h"

static unsigned redraw_if(bool changed)
{
	return changed ? TUI_REDRAW : TUI_NONE;
}

/* ---- screens ------------------------------------------------------------- */

static unsigned show(struct view *v, unsigned screen)
{
	v->screen = screen;
	v->panel = PANEL_NONE;
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

static unsigned pass_on(struct view *v, int key)
{
	const struct screen *s = screens[v->screen];

	return redraw_if(s->key_pressed && s->key_pressed(v, key));
}

static unsigned what_if(struct view *v)
{
	unsigned valley = by_key(v, '6');

	if (v->screen == valley)
		return pass_on(v, 'c');
	show(v, valley);
	v->valley.what_if = false;
	return pass_on(v, 'c') | TUI_REDRAW;
}

/* ---- the filter ---------------------------------------------------------- */

static unsigned begin_filter(struct view *v)
{
	struct screen_state *s = screen_state(v);

	if (!screens[v->screen]->filters) {
		view_say(v, "this screen has no rows to filter");
		return TUI_REDRAW;
	}
	v->panel = PANEL_NONE;
	v->filtering = true;
	memcpy(v->filter_before, s->filter, FILTER_BYTES);
	line_set(&v->filter, s->filter, FILTER_BYTES - 1);
	return TUI_REDRAW;
}

/* Live: the rows follow while it is typed. */
static unsigned type_filter(struct view *v, int key)
{
	struct screen_state *s = screen_state(v);

	if (key == INPUT_ESCAPE) {
		memcpy(s->filter, v->filter_before, FILTER_BYTES);
		v->filtering = false;
	} else if (key == INPUT_ENTER || key == '\n') {
		v->filtering = false;
	} else if (line_key(&v->filter, key)) {
		snprintf(s->filter, sizeof(s->filter), "%.*s",
			 (int)FILTER_BYTES - 1, v->filter.text);
	} else {
		screen_scroll(v, key);
	}
	return TUI_REDRAW;
}

/* ---- the rest ------------------------------------------------------------ */

static unsigned toggle_panel(struct view *v, enum panel p)
{
	v->panel = v->panel == p ? PANEL_NONE : p;
	v->log_scroll = 0;
	if (v->panel == PANEL_EXPLAIN)
		v->focus.placed = false;
	return TUI_REDRAW;
}

static unsigned open_setup(struct view *v)
{
	if (v->setup)
		return toggle_panel(v, PANEL_SETUP);
	view_say(v, "there is nothing to set up here");
	return TUI_REDRAW;
}

static unsigned leave(struct view *v)
{
	struct screen_state *s = screen_state(v);

	if (v->panel != PANEL_NONE)
		v->panel = PANEL_NONE;
	else if (v->screen == SCREEN_HELP)
		return toggle_help(v);
	else if (s->filter[0])
		s->filter[0] = '\0';
	else if (s->selected)
		s->selected = false;
	else
		return pass_on(v, INPUT_ESCAPE);
	return TUI_REDRAW;
}

static unsigned reset(struct view *v)
{
	*screen_state(v) = (struct screen_state){ 0 };
	v->experts = (struct experts_state){ 0 };
	v->valley = (struct valley_state){ 0 };
	v->history.span_s = 0;
	v->panel = PANEL_NONE;
	return TUI_REDRAW;
}

static unsigned next_theme(struct view *v)
{
	char text[80];

	v->theme = (v->theme + 1) % THEMES;
	snprintf(text, sizeof(text), "theme %s: %s", theme_names[v->theme].name,
		 theme_names[v->theme].help);
	view_say(v, text);
	setup_note(v->setup, "theme", theme_names[v->theme].name);
	return TUI_REDRAW;
}

static unsigned sort(struct view *v, bool reverse)
{
	struct screen_state *s = screen_state(v);

	if (!screens[v->screen]->sorts)
		return TUI_NONE;
	if (reverse) {
		s->reverse = !s->reverse;
	} else {
		s->sort++;
		s->clicked = false;
	}
	return TUI_REDRAW;
}

static unsigned act(struct view *v, enum action action, int key)
{
	switch (action) {
	case ACTION_SCREEN:
		return show(v, by_key(v, key));
	case ACTION_NEXT:
		return show(v, neighbour(v, 1));
	case ACTION_PREVIOUS:
		return show(v, neighbour(v, SCREEN_HELP - 1));
	case ACTION_HELP:
		return toggle_help(v);
	case ACTION_EXPLAIN:
		return toggle_panel(v, PANEL_EXPLAIN);
	case ACTION_LEAVE:
		return leave(v);
	case ACTION_FILTER:
		return begin_filter(v);
	case ACTION_SORT:
	case ACTION_REVERSE:
		return sort(v, action == ACTION_REVERSE);
	case ACTION_PAUSE:
		v->paused = v->have && !v->paused;
		return TUI_REDRAW;
	case ACTION_FASTER:
		return TUI_FASTER;
	case ACTION_SLOWER:
		return TUI_SLOWER;
	case ACTION_ZOOM:
		history_zoom(&v->history);
		return TUI_REDRAW;
	case ACTION_WHAT_IF:
		return what_if(v);
	case ACTION_WINDOW:
		return TUI_WINDOW;
	case ACTION_RESET:
		return reset(v);
	case ACTION_SETUP:
		return open_setup(v);
	case ACTION_THEME:
		return next_theme(v);
	case ACTION_LOG:
		return toggle_panel(v, PANEL_LOG);
	case ACTION_REDRAW:
		v->repaint = true;
		return TUI_REDRAW;
	case ACTION_QUIT:
		return TUI_QUIT;
	case ACTION_SCREEN_KEY:
		break;
	}
	return TUI_NONE;
}

static bool log_key(struct view *v, int key)
{
	int page = v->grid.h > 10 ? v->grid.h - 8 : 1;

	switch (key) {
	case INPUT_UP:
		v->log_scroll++;
		return true;
	case INPUT_DOWN:
		v->log_scroll--;
		return true;
	case INPUT_PAGE_UP:
		v->log_scroll += page;
		return true;
	case INPUT_PAGE_DOWN:
		v->log_scroll -= page;
		return true;
	case INPUT_HOME:
		v->log_scroll = (int)LOG_LINES;
		return true;
	case INPUT_END:
		v->log_scroll = 0;
		return true;
	default:
		return false;
	}
}

static bool panel_key(struct view *v, int key)
{
	switch (v->panel) {
	case PANEL_EXPLAIN:
		return explain_key(v, key);
	case PANEL_LOG:
		return log_key(v, key);
	case PANEL_SETUP:
		return setup_key(v, key);
	case PANEL_NONE:
		break;
	}
	return false;
}

unsigned view_key(struct view *v, int key)
{
	const struct binding *b;

	if (v->filtering)
		return type_filter(v, key);
	if (panel_key(v, key))
		return TUI_REDRAW;
	b = binding_find(key);
	return b ? act(v, b->action, key) : pass_on(v, key);
}
