/* What the mouse does: wherever a key does something, a click does it too. */
#include "tui/explain.h"
#include "tui/setup.h"
#include "tui/view.h"

static bool inside(const struct rect *r, int x, int y)
{
	return x >= r->x && x < r->x + r->w && y >= r->y && y < r->y + r->h;
}

static const struct zone *zone_at(const struct view *v, int x, int y)
{
	/* what was drawn last lies on top */
	for (unsigned i = v->n_zones; i-- > 0;)
		if (inside(&v->zones[i].r, x, y))
			return &v->zones[i];
	return NULL;
}

static bool click_screen(struct view *v, const struct zone *z, int x, int y)
{
	const struct screen *s = screens[v->screen];

	switch (z->kind) {
	case ZONE_ROW:
		if (v->panel == PANEL_SETUP)
			return setup_click(v, z->value);
		screen_state(v)->cursor = z->value;
		screen_state(v)->selected = true;
		return true;
	case ZONE_COLUMN:
		return s->column_clicked &&
		       s->column_clicked(v, (unsigned)z->value);
	case ZONE_PICTURE:
		return s->clicked && s->clicked(v, z, x - z->r.x, y - z->r.y);
	case ZONE_KEY:
	case ZONE_COVER:
		break;
	}
	return false;
}

/* A click on a key is that key, and no letter of the line that is typed. */
static unsigned press_key(struct view *v, int key)
{
	v->filtering = false;
	setup_stop_typing(v->setup);
	return view_key(v, key);
}

static unsigned press(struct view *v, int x, int y)
{
	const struct zone *z = zone_at(v, x, y);

	v->dragging = false;
	if (z && z->kind == ZONE_KEY)
		return press_key(v, z->value);
	if (v->panel == PANEL_EXPLAIN && explain_click(v, x, y))
		return TUI_REDRAW;
	if (!z)
		return TUI_NONE;
	v->dragged = *z;
	v->dragging = z->kind == ZONE_PICTURE;
	return click_screen(v, z, x, y) ? TUI_REDRAW : TUI_NONE;
}

unsigned view_mouse(struct view *v, enum mouse what, int x, int y)
{
	struct zone z = v->dragged;

	switch (what) {
	case MOUSE_PRESS:
		return press(v, x, y);
	case MOUSE_DRAG:
		return v->dragging && click_screen(v, &z, x, y) ? TUI_REDRAW
								: TUI_NONE;
	case MOUSE_RELEASE:
		v->dragging = false;
		return TUI_NONE;
	case MOUSE_RIGHT:
		if (!explain_click(v, x, y))
			return TUI_NONE;
		v->panel = PANEL_EXPLAIN;
		return TUI_REDRAW;
	case MOUSE_UP:
		return view_key(v, INPUT_UP);
	case MOUSE_DOWN:
		return view_key(v, INPUT_DOWN);
	case MOUSE_NONE:
		break;
	}
	return TUI_NONE;
}

unsigned view_click(struct view *v, int x, int y)
{
	return view_mouse(v, MOUSE_PRESS, x, y) |
	       view_mouse(v, MOUSE_RELEASE, x, y);
}
