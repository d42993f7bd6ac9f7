#include "tui/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/widgets.h"

#define NAME_COLUMNS 15
#define VALUE_COLUMNS 17
#define ORIGIN_COLUMNS 10
#define MESSAGE_BYTES 200

struct setup {
	struct tui_setup *from;
	int cursor, scroll, page;
	bool editing;
	struct line line;
	bool refused; /* the message is no good news */
	char message[MESSAGE_BYTES];
};

struct setup *setup_new(struct tui_setup *from)
{
	struct setup *s = calloc(1, sizeof(*s));

	if (s)
		s->from = from;
	return s;
}

void setup_free(struct setup *s)
{
	free(s);
}

/* ---- changing ------------------------------------------------------------ */

static struct tui_option *marked(struct setup *s)
{
	return &s->from->options[s->cursor];
}

static void set(struct setup *s, const char *value)
{
	struct tui_option *o = marked(s);
	char why[MESSAGE_BYTES] = "";

	s->refused = s->from->set(s->from->arg, (unsigned)s->cursor, value, why,
				  sizeof(why)) != 0;
	if (s->refused)
		snprintf(s->message, sizeof(s->message), "%s", why);
	else
		snprintf(s->message, sizeof(s->message), "%s = %s%s", o->name,
			 o->value,
			 o->live ? "" : "; from the next start on, when saved");
}

/* The word `step` places from the one that the value is. */
static void choose(struct setup *s, int step)
{
	const struct tui_option *o = marked(s);
	const char *words[16], *p = o->words;
	size_t bytes[16];
	int n = 0, at = 0;
	char value[TUI_VALUE_BYTES];

	while (*p && n < 16) {
		bool absent = *p == '!';

		words[n] = p;
		bytes[n] = strcspn(p, "|");
		if (absent) {
			p += bytes[n] + (p[bytes[n]] == '|');
			continue;
		}
		if (strlen(o->value) == bytes[n] &&
		    !strncmp(o->value, p, bytes[n]))
			at = n;
		p += bytes[n] + (p[bytes[n]] == '|');
		n++;
	}
	if (!n)
		return;
	at = (at + step + n) % n;
	snprintf(value, sizeof(value), "%.*s", (int)bytes[at], words[at]);
	set(s, value);
}

static void change(struct setup *s, int step)
{
	const struct tui_option *o = marked(s);

	if (!o->words) {
		set(s, o->value[0] ? "" : "true");
	} else if (o->words[0]) {
		choose(s, step);
	} else {
		line_set(&s->line, o->value, sizeof(o->value) - 1);
		s->editing = true;
		s->message[0] = '\0';
	}
}

static void save(struct setup *s)
{
	char why[MESSAGE_BYTES] = "";

	s->refused = s->from->save(s->from->arg, why, sizeof(why)) != 0;
	snprintf(s->message, sizeof(s->message), "%s", why);
}

void setup_note(struct setup *s, const char *name, const char *value)
{
	char why[MESSAGE_BYTES];

	for (unsigned i = 0; s && i < s->from->n; i++)
		if (!strcmp(s->from->options[i].name, name))
			s->from->set(s->from->arg, i, value, why, sizeof(why));
}

/* ---- keys ---------------------------------------------------------------- */

static bool edit_key(struct setup *s, int key)
{
	if (key == INPUT_ESCAPE) {
		s->editing = false;
	} else if (key == INPUT_ENTER || key == '\n') {
		s->editing = false;
		set(s, s->line.text);
	} else {
		line_key(&s->line, key);
	}
	return true;
}

void setup_stop_typing(struct setup *s)
{
	if (s)
		s->editing = false;
}

static bool move(struct setup *s, int key)
{
	switch (key) {
	case INPUT_UP:
		s->cursor--;
		break;
	case INPUT_DOWN:
		s->cursor++;
		break;
	case INPUT_PAGE_UP:
		s->cursor -= s->page;
		break;
	case INPUT_PAGE_DOWN:
		s->cursor += s->page;
		break;
	case INPUT_HOME:
		s->cursor = 0;
		break;
	case INPUT_END:
		s->cursor = (int)s->from->n;
		break;
	default:
		return false;
	}
	if (s->cursor >= (int)s->from->n)
		s->cursor = (int)s->from->n - 1;
	if (s->cursor < 0)
		s->cursor = 0;
	return true;
}

bool setup_key(struct view *v, int key)
{
	struct setup *s = v->setup;

	if (!s->from->n)
		return false;
	if (s->editing)
		return edit_key(s, key);
	if (move(s, key))
		return true;
	switch (key) {
	case INPUT_ENTER:
	case '\n':
	case ' ':
	case INPUT_RIGHT:
		change(s, 1);
		return true;
	case INPUT_LEFT:
		change(s, -1);
		return true;
	case 'w':
		save(s);
		return true;
	default:
		return false;
	}
}

bool setup_click(struct view *v, int row)
{
	struct setup *s = v->setup;

	if (s->editing || row < 0 || row >= (int)s->from->n)
		return false;
	if (row == s->cursor)
		change(s, 1);
	s->cursor = row;
	return true;
}

/* ---- drawing ------------------------------------------------------------- */

static void draw_row(struct view *v, struct rect r, int row, bool is_marked)
{
	const struct tui_option *o = &v->setup->from->options[row];
	const char *value = o->value[0] ? o->value : o->words ? "-" : "false";
	int x = 1;

	text_cut(&v->grid, r, x, 0, NAME_COLUMNS, STYLE_STRONG, o->name);
	x += NAME_COLUMNS + 1;
	text_cut(&v->grid, r, x, 0, VALUE_COLUMNS, STYLE_NORMAL, value);
	x += VALUE_COLUMNS + 1;
	if (r.w >= 60) {
		text_cut(&v->grid, r, x, 0, ORIGIN_COLUMNS, STYLE_DIM,
			 o->origin);
		x += ORIGIN_COLUMNS + 1;
	}
	text_cut(&v->grid, r, x, 0, r.w - x - 1, STYLE_DIM, o->help);
	if (is_marked)
		grid_paint(&v->grid, r, STYLE_CURSOR);
	screen_zone(v, r, ZONE_ROW, row);
}

static void draw_last(struct view *v, struct rect r)
{
	struct setup *s = v->setup;

	if (s->editing) {
		int x = 1;

		x += grid_text(&v->grid, r, x, 0, STYLE_STRONG,
			       marked(s)->name);
		x += grid_text(&v->grid, r, x, 0, STYLE_DIM, " = ");
		line_draw(&v->grid,
			  (struct rect){ r.x + x, r.y, r.w - x - 1, 1 },
			  &s->line, STYLE_NORMAL);
		return;
	}
	text_cut(&v->grid, r, 1, 0, r.w - 2,
		 s->refused ? STYLE_BAD : STYLE_NORMAL,
		 s->message[0] ? s->message
			       : "Enter changes, w saves, Esc leaves");
}

void setup_draw(struct view *v, struct rect body)
{
	struct setup *s = v->setup;
	int n = (int)s->from->n, room = body.h - 2;

	s->page = room > 1 ? room - 1 : 1;
	if (s->scroll > s->cursor)
		s->scroll = s->cursor;
	if (s->scroll <= s->cursor - room)
		s->scroll = s->cursor - room + 1;
	if (s->scroll < 0)
		s->scroll = 0;
	rule_draw(&v->grid, (struct rect){ body.x, body.y, body.w, 1 },
		  "set up", "Enter changes, w saves, Esc leaves");
	for (int i = 0; i < room && s->scroll + i < n; i++)
		draw_row(v, (struct rect){ body.x, body.y + 1 + i, body.w, 1 },
			 s->scroll + i, s->scroll + i == s->cursor);
	draw_last(v, (struct rect){ body.x, body.y + body.h - 1, body.w, 1 });
}
