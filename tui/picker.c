#include "tui/picker.h"

#include <stdio.h>
#include <string.h>

#include "tui/layout.h"
#include "tui/screen.h"
#include "tui/table.h"
#include "tui/widgets.h"

#define LIST_ROW 2 /* below the title and the heading */

enum column { PID, ENGINE, MODEL, GPUS, PORT, FLIGHT, AGE, NOTE, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[PID] = { .title = "pid", .w = 8 },
	[ENGINE] = { .title = "engine", .w = 16, .rank = 3, .left = true },
	[MODEL] = { .title = "model", .w = 22, .left = true },
	[GPUS] = { .title = "GPUs", .w = 10, .rank = 4, .left = true },
	[PORT] = { .title = "port", .w = 6, .rank = 1 },
	[FLIGHT] = { .title = "in flight", .w = 10, .rank = 2 },
	[AGE] = { .title = "up", .w = 12, .rank = 5 },
	[NOTE] = { .title = "  where", .w = 34, .rank = 6, .left = true },
};

/* ---- the rows ------------------------------------------------------------ */

static void server_cell(const void *context, int row, unsigned column,
			struct table_cell *out)
{
	const struct server *s = &((const struct servers *)context)->list[row];
	char text[NUMBER_TEXT];

	if (s->left_over || s->note[0])
		out->style = STYLE_DIM;
	switch ((enum column)column) {
	case PID:
		snprintf(out->text, sizeof(out->text), "%d", (int)s->pid);
		break;
	case ENGINE:
		snprintf(out->text, sizeof(out->text), "%s %s", s->engine,
			 s->engine_version);
		break;
	case MODEL:
		snprintf(out->text, sizeof(out->text), "%.60s",
			 s->model[0] ? s->model : "-");
		break;
	case GPUS:
		snprintf(out->text, sizeof(out->text), "%s",
			 s->gpus[0] ? s->gpus : "-");
		break;
	case PORT:
		snprintf(out->text, sizeof(out->text), s->port ? "%u" : "-",
			 s->port);
		break;
	case FLIGHT:
		cell_value(out, value_make(s->in_flight, SOURCE_SCRAPED),
			   NUMBER_COUNT);
		break;
	case AGE:
		format_elapsed(text, s->age_s);
		snprintf(out->text, sizeof(out->text), "%s", text);
		break;
	case NOTE:
		snprintf(out->text, sizeof(out->text), "  %.20s%s%.36s",
			 s->container,
			 s->container[0] && s->note[0] ? ": " : "", s->note);
		break;
	case COLUMNS:
		break;
	}
}

static bool passes(const struct picker *p, int row)
{
	struct table_cell c;

	for (unsigned i = 0; i < COLUMNS; i++) {
		c = (struct table_cell){ .ratio = NAN };
		server_cell(&p->servers, row, i, &c);
		if (strcasestr(c.text, p->filter.text))
			return true;
	}
	return false;
}

/* Rows that pass; returns how many. */
static int list(const struct picker *p, short *order)
{
	int n = 0;

	for (unsigned i = 0; i < p->servers.n && i < SERVERS_MAX; i++)
		if (passes(p, (int)i))
			order[n++] = (short)i;
	return n;
}

/* Place of the cursor among them: its server, else the one that came after. */
static int place(const struct picker *p, const short *order, int n)
{
	int at = 0;

	while (at < n && p->servers.list[order[at]].pid < p->pid)
		at++;
	return at < n ? at : n > 0 ? n - 1 : 0;
}

/* ---- keys ---------------------------------------------------------------- */

static enum picked choose(struct picker *p)
{
	short order[SERVERS_MAX];
	int n = list(p, order);
	const struct server *s;

	if (!n)
		return PICKED_NOTHING;
	s = &p->servers.list[order[place(p, order, n)]];
	p->pid = s->pid;
	if (!s->left_over)
		return PICKED_SERVER;
	snprintf(p->message, sizeof(p->message), "pid %d: %s", (int)s->pid,
		 s->note[0] ? s->note : "left over, it serves nobody");
	return PICKED_NOTHING;
}

static void move(struct picker *p, int by)
{
	short order[SERVERS_MAX];
	int n = list(p, order), at = place(p, order, n) + by;

	at = at >= n ? n - 1 : at < 0 ? 0 : at;
	if (n)
		p->pid = p->servers.list[order[at]].pid;
}

static enum picked type(struct picker *p, int key)
{
	if (key == INPUT_ESCAPE) {
		line_set(&p->filter, p->before, 0);
		p->filtering = false;
	} else if (key == INPUT_ENTER || key == '\n') {
		p->filtering = false;
	} else {
		line_key(&p->filter, key);
	}
	return PICKED_NOTHING;
}

enum picked picker_key(struct picker *p, int key)
{
	int page = p->shown > 1 ? p->shown - 1 : 1;

	p->message[0] = '\0';
	if (p->filtering)
		return type(p, key);
	switch (key) {
	case INPUT_UP:
	case 'k':
		move(p, -1);
		break;
	case INPUT_DOWN:
	case 'j':
		move(p, 1);
		break;
	case INPUT_PAGE_UP:
		move(p, -page);
		break;
	case INPUT_PAGE_DOWN:
		move(p, page);
		break;
	case INPUT_HOME:
		move(p, -(int)SERVERS_MAX);
		break;
	case INPUT_END:
		move(p, SERVERS_MAX);
		break;
	case INPUT_ENTER:
	case '\n':
	case ' ':
		return choose(p);
	case '/':
		p->filtering = true;
		memcpy(p->before, p->filter.text, sizeof(p->before));
		line_set(&p->filter, p->before, 0);
		break;
	case INPUT_ESCAPE:
		if (!p->filter.text[0])
			return PICKED_LEAVE;
		line_set(&p->filter, "", 0);
		break;
	case 'q':
	case 'Q':
		return PICKED_LEAVE;
	default:
		break;
	}
	return PICKED_NOTHING;
}

enum picked picker_mouse(struct picker *p, enum mouse what, int x, int y)
{
	short order[SERVERS_MAX];
	int n = list(p, order), row = y - LIST_ROW + p->first;

	(void)x;
	if (what == MOUSE_UP || what == MOUSE_DOWN) {
		move(p, what == MOUSE_UP ? -1 : 1);
		return PICKED_NOTHING;
	}
	if (what != MOUSE_PRESS || y < LIST_ROW || y >= LIST_ROW + p->shown ||
	    row >= n)
		return PICKED_NOTHING;
	p->message[0] = '\0';
	if (row == place(p, order, n))
		return choose(p);
	p->pid = p->servers.list[order[row]].pid;
	return PICKED_NOTHING;
}

/* ---- drawing ------------------------------------------------------------- */

static void draw_title(struct picker *p, struct rect r, int n)
{
	struct fields left = { 0 }, right = { 0 };

	fields_add(&left, 0, STYLE_TITLE, "", "moetop");
	fields_add(&left, 1, STYLE_STRONG, "", "which server?");
	fields_add(&right, 2, STYLE_DIM, "", "%d of %u", n,
		   p->servers.n + p->servers.more);
	if (p->filter.text[0] && !p->filtering)
		fields_add(&right, 1, STYLE_MESSAGE, "", " only %s ",
			   p->filter.text);
	fields_draw(&p->grid, r, 0, " · ", &left, &right);
}

static void draw_last(struct picker *p, struct rect r)
{
	int x;

	if (p->filtering) {
		x = grid_text(&p->grid, r, 0, 0, STYLE_STRONG, "filter ");
		line_draw(&p->grid, (struct rect){ r.x + x, r.y, r.w - x, 1 },
			  &p->filter, STYLE_NORMAL);
		return;
	}
	text_cut(&p->grid, r, 0, 0, r.w,
		 p->message[0] ? STYLE_WARN : STYLE_KEY_TEXT,
		 p->message[0] ? p->message
			       : "Enter watch it   arrows choose   / filter   "
				 "q quit");
}

static void draw_list(struct picker *p, struct rect r, short *order, int n)
{
	struct table t = {
		.columns = columns,
		.n_columns = COLUMNS,
		.rows = (int)p->servers.n,
		.sorted = -1,
		.cell = server_cell,
		.context = &p->servers,
		.order = order,
		.shown_rows = n,
		.selected = n > 0,
		.cursor = place(p, order, n),
	};

	p->shown = table_shown(&t, r.h);
	if (p->first > t.cursor)
		p->first = t.cursor;
	if (p->first <= t.cursor - p->shown)
		p->first = t.cursor - p->shown + 1;
	t.first = p->first;
	table_draw(&p->grid, r, &t);
	if (n)
		return;
	p->first = 0;
	wrap_draw(&p->grid, (struct rect){ r.x, r.y + 1, r.w, r.h - 1 }, 0,
		  !p->looked     ? "looking for servers …"
		  : p->servers.n ? "no server has that word in it"
				 : "no LLM server found on this machine: start "
				   "one and it appears here, or try moetop "
				   "demo",
		  0);
}

void picker_draw(struct picker *p)
{
	struct grid *g = &p->grid;
	short order[SERVERS_MAX];
	int n = list(p, order);

	grid_clear(g);
	if (!layout_fits(g->w, g->h)) {
		text_cut(g, grid_rect(g), 0, 0, g->w, STYLE_STRONG,
			 "moetop needs 40x12");
		p->shown = 0;
		return;
	}
	draw_title(p, (struct rect){ 1, 0, g->w - 2, 1 }, n);
	draw_list(p, (struct rect){ 1, 1, g->w - 2, g->h - 2 }, order, n);
	draw_last(p, (struct rect){ 1, g->h - 1, g->w - 2, 1 });
}
