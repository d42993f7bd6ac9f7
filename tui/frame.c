#include "tui/frame.h"

#include <string.h>

#include "tui/keys.h"
#include "tui/widgets.h"

#define SEPARATOR " · "

/* A blank at either end. */
static struct rect inner(struct rect r)
{
	return (struct rect){ r.x + 1, r.y, r.w - 2, r.h };
}

/* ---- header -------------------------------------------------------------- */

static const char *after(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) ? s : s + n;
}

/* "org/model" and paths say the same without what is before the last '/'. */
static const char *model_name(const struct snapshot_target *t)
{
	const char *slash = strrchr(t->model, '/');

	if (!t->model[0])
		return "model unknown";
	return slash && slash[1] ? slash + 1 : t->model;
}

static void add_gpus(struct fields *fs, const struct snapshot_target *t)
{
	char split[32] = "";
	int used = 0;

	if (!t->gpu[0])
		return;
	if (t->tp > 1)
		used = snprintf(split, sizeof(split), " TP%u", t->tp);
	if (t->ep > 1)
		snprintf(split + used, sizeof(split) - (size_t)used, " EP%u",
			 t->ep);
	fields_add(fs, 3, STYLE_NORMAL, "", "%u×%s%s",
		   t->n_gpus ? t->n_gpus : 1, after(t->gpu, "NVIDIA "), split);
}

static void add_shape(struct fields *fs, const struct snapshot_target *t)
{
	if (t->moe_layers)
		fields_add(fs, 6, STYLE_NORMAL, "", "%u MoE layers",
			   t->moe_layers);
	if (t->experts)
		fields_add(fs, 4, STYLE_NORMAL, "", "E=%u k=%u", t->experts,
			   t->top_k);
}

static void draw_header(struct view *v, struct rect r)
{
	const struct snapshot_target *t = &v->shot.target;
	struct fields left = { 0 }, right = { 0 };
	char text[NUMBER_TEXT];

	fields_add(&left, 1, STYLE_TITLE, "", "moetop");
	if (v->have) {
		if (t->engine[0])
			fields_add(&left, 7, STYLE_NORMAL, "", "%s %s",
				   t->engine, t->engine_version);
		fields_add(&left, 0, STYLE_STRONG, "", "%s", model_name(t));
		add_shape(&left, t);
		add_gpus(&left, t);
		if (v->paused)
			fields_add(&right, 0, STYLE_ALERT, "", " PAUSED ");
		if (screen_state(v)->filter[0] && !v->filtering)
			fields_add(&right, 0, STYLE_MESSAGE, "", " only %s ",
				   screen_state(v)->filter);
		if (t->host[0])
			fields_add(&right, 8, STYLE_DIM, "", "%s", t->host);
		fields_add(&right, 2, STYLE_NORMAL, "pid", "%d", (int)t->pid);
		format_elapsed(text, v->shot.uptime_s);
		fields_add(&right, 5, STYLE_DIM, "", "%s", text);
	}
	fields_draw(&v->grid, inner(r), 0, SEPARATOR, &left, &right);
}

/* ---- tiers --------------------------------------------------------------- */

static const struct snapshot_tier *tier(const struct snapshot_health *h,
					const char *name)
{
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++)
		if (!strcmp(h->tiers[i].name, name))
			return &h->tiers[i];
	return NULL;
}

static bool tier_ok(const struct snapshot_health *h, const char *name)
{
	const struct snapshot_tier *t = tier(h, name);

	return t && t->state == TIER_OK;
}

static void add_presence(struct fields *fs, unsigned rank, const char *label,
			 bool present, const char *otherwise)
{
	fields_add(fs, rank, present ? STYLE_GOOD : STYLE_DIM, label, "%s",
		   present ? "✓" : otherwise);
}

static void add_kernels(struct fields *fs, const struct snapshot_health *h)
{
	char age[NUMBER_TEXT];

	if (!value_known(h->window_age_seconds)) {
		add_presence(fs, 3, "kernels", false, "-");
		return;
	}
	format_number(age, floor(h->window_age_seconds.v), NUMBER_SECONDS);
	if (h->window_age_seconds.v < 99)
		snprintf(age, sizeof(age), "%.0f s", h->window_age_seconds.v);
	fields_add(fs, 3, format_style(h->window_age_seconds, STYLE_NORMAL),
		   "kernels", "%s ago", age);
}

/* Cells without rows are no loss: rows are sampled. */
static uint64_t lost(const struct snapshot_health *h)
{
	return h->lost_ring + h->lost_records + h->lost_requests +
	       h->lost_connections + h->lost_calls + h->lost_listeners;
}

static bool one_of(const char *state, const char *const *states)
{
	while (*states && strcmp(state, *states))
		states++;
	return *states != NULL;
}

/* "idle", or of several ranks "3 idle, 1 window"; the style says whether that is
 * well. */
static enum style agent_states(const struct snapshot_target *t, char *out,
			       size_t bytes)
{
	static const char *const bad[] = { "disabled", "yielded", "refused",
					   "silent",   "gone",    NULL };
	unsigned n = t->n_ranks < SNAPSHOT_RANKS_MAX ? t->n_ranks
						     : SNAPSHOT_RANKS_MAX;
	enum style style = STYLE_NORMAL;
	size_t used = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		const char *state = t->ranks[i].agent;
		unsigned same = 0, before = 0;

		for (unsigned j = 0; j < n; j++) {
			bool equal = !strcmp(t->ranks[j].agent, state);

			same += equal;
			before += equal && j < i;
		}
		if (one_of(state, bad))
			style = STYLE_WARN;
		if (before || used >= bytes)
			continue;
		if (n > 1)
			used += (size_t)snprintf(out + used, bytes - used,
						 "%s%u ", used ? ", " : "",
						 same);
		if (used < bytes)
			used += (size_t)snprintf(out + used, bytes - used, "%s",
						 state);
	}
	return style;
}

static void draw_tiers(struct view *v, struct rect r)
{
	const struct snapshot_health *h = &v->shot.health;
	struct value cost = v->shot.metrics[METRIC_OVERHEAD];
	bool scraped = value_known(v->shot.metrics[METRIC_SCRAPED_RUNNING]);
	bool rows = h->rows_method[0] && strcmp(h->rows_method, "off");
	struct fields left = { 0 }, right = { 0 };
	char text[NUMBER_TEXT], states[48];
	enum style state_style =
		agent_states(&v->shot.target, states, sizeof(states));

	fields_add(&left, 1, rows ? STYLE_NORMAL : STYLE_DIM, "rows", "%s",
		   h->rows_method[0] ? h->rows_method : "-");
	add_kernels(&left, h);
	add_presence(&left, 2, "requests", tier_ok(h, "T1"),
		     scraped ? "§" : "-");
	add_presence(&left, 2, "DRAM", tier_ok(h, "C"), "-");
	if (states[0])
		fields_add(&left, 4, state_style,
			   v->shot.target.n_ranks > 1 ? "agents" : "agent",
			   "%s", states);
	format_value(text, cost, NUMBER_PERCENT);
	fields_add(&right, 4, format_style(cost, STYLE_NORMAL),
		   r.w < 84 ? "agent" : "agent costs", "%s", text);
	fields_about(&right, EXPLAIN_METRIC + METRIC_OVERHEAD);
	if (h->desyncs)
		fields_add(&right, 5, STYLE_WARN, "desyncs", "%llu",
			   (unsigned long long)h->desyncs);
	if (h->bad_steps)
		fields_add(&right, 6, STYLE_WARN, "bad steps", "%llu",
			   (unsigned long long)h->bad_steps);
	fields_add(&right, 0, lost(h) ? STYLE_WARN : STYLE_NORMAL, "lost",
		   "%llu", (unsigned long long)lost(h));
	fields_draw(&v->grid, inner(r), 0, SEPARATOR, &left, &right);
}

/* ---- what is missing ----------------------------------------------------- */

/* Missing tiers in the order of what they would add to the verdict. */
static const struct snapshot_tier *missing_tier(const struct snapshot_health *h,
						unsigned *others)
{
	static const char *const order[] = { "T2", "T1", "T3", "C", "T0" };
	const struct snapshot_tier *first = NULL;

	*others = 0;
	for (unsigned i = 0; i < sizeof(order) / sizeof(*order); i++) {
		const struct snapshot_tier *t = tier(h, order[i]);
		if (!t || t->state != TIER_MISSING)
			continue;
		if (first)
			++*others;
		else
			first = t;
	}
	return first;
}

static const struct snapshot_rank *
agent_that_is(const struct snapshot_target *t, const char *const *states)
{
	for (unsigned i = 0; i < t->n_ranks && i < SNAPSHOT_RANKS_MAX; i++)
		if (one_of(t->ranks[i].agent, states))
			return &t->ranks[i];
	return NULL;
}

/* An agent that does not work.  Where none does, T2 says why. */
static const struct snapshot_rank *bad_agent(const struct snapshot *s)
{
	static const char *const disabled[] = { "disabled", NULL };
	static const char *const others[] = { "yielded", "refused", "silent",
					      NULL };
	const struct snapshot_rank *r = agent_that_is(&s->target, disabled);

	if (!r && tier_ok(&s->health, "T2"))
		r = agent_that_is(&s->target, others);
	return r;
}

bool frame_has_remedy(const struct snapshot *s)
{
	unsigned others;

	return missing_tier(&s->health, &others) || bad_agent(s);
}

static void draw_remedy(struct view *v, struct rect r)
{
	const struct snapshot_rank *agent = bad_agent(&v->shot);
	struct fields fs = { 0 };
	unsigned others;
	const struct snapshot_tier *t = missing_tier(&v->shot.health, &others);

	if (agent) {
		fields_add(&fs, 0, STYLE_WARN, "", "! agent of pid %d is %s",
			   (int)agent->pid, agent->agent);
		fields_add(&fs, 0, STYLE_NORMAL, "", "%s", agent->reason);
	} else if (t) {
		fields_add(&fs, 0, STYLE_WARN, "", "! %s missing", t->name);
		if (t->what[0])
			fields_add(&fs, 1, STYLE_NORMAL, "", "%s", t->what);
		if (t->remedy[0])
			fields_add(&fs, 0, STYLE_STRONG, "", "%s", t->remedy);
		if (others)
			fields_add(&fs, 2, STYLE_DIM, "",
				   "%u more: moetop doctor", others);
	}
	fields_draw(&v->grid, inner(r), 0, SEPARATOR, &fs, NULL);
}

/* ---- message and keys ---------------------------------------------------- */

bool frame_has_message(const struct view *v)
{
	return v->filtering || v->notice[0] ||
	       (v->have &&
		(v->shot.health.target_gone || v->shot.health.message[0]));
}

static void draw_filter(struct view *v, struct rect r)
{
	int x = grid_text(&v->grid, r, 1, 0, STYLE_STRONG, "filter ") + 1;
	struct rect line = { r.x + x, r.y, r.w - x - 1, 1 };

	if (r.w >= 70) {
		line.w -= 32;
		text_right(&v->grid, r, r.w - 31, 0, 30, STYLE_DIM,
			   "Enter keeps it, Esc takes back");
	}
	line_draw(&v->grid, line, &v->filter, STYLE_NORMAL);
}

static void draw_message(struct view *v, struct rect r)
{
	const struct snapshot_health *h = &v->shot.health;
	char text[200], clock[NUMBER_TEXT];
	enum style s = h->target_gone ? STYLE_ALERT : STYLE_MESSAGE;

	if (v->filtering) {
		draw_filter(v, r);
		return;
	}
	format_clock(clock, h->target_gone_seconds);
	if (v->notice[0])
		snprintf(text, sizeof(text), " %s", v->notice);
	else if (h->target_gone)
		snprintf(text, sizeof(text),
			 " target gone at %s - the last state is kept", clock);
	else
		snprintf(text, sizeof(text), " %s", h->message);
	text_cut(&v->grid, r, 0, 0, r.w, s, text);
	grid_paint(&v->grid, r, s);
}

#define KEY_GAP 2

/* One clickable entry, "key word"; returns the columns it takes. */
static int draw_key(struct view *v, struct rect r, int x, int key,
		    const char *text, bool active)
{
	enum style s = active ? STYLE_KEY_ACTIVE : STYLE_KEY;
	int start = x;

	for (const char *p = text; *p;) {
		uint32_t c = utf8_next(&p);
		if (c == ' ' && !active)
			s = STYLE_KEY_TEXT;
		x += grid_put(&v->grid, r, x, 0, s, c);
	}
	screen_zone(v, (struct rect){ r.x + start, r.y, x - start, 1 },
		    ZONE_KEY, key);
	return x - start;
}

static bool offered(const struct view *v, const struct binding *b)
{
	if (b->action == ACTION_SORT && !screens[v->screen]->sorts)
		return false;
	if (b->action == ACTION_FILTER && !screens[v->screen]->filters)
		return false;
	return b->bar;
}

static int bar_width(const struct grid *g, const struct binding *b)
{
	return grid_width(g, b->bar, strlen(b->bar)) + KEY_GAP;
}

/* The rank from which on actions are left out, so that the others fit. */
static unsigned least_rank_out(const struct view *v, int room)
{
	unsigned out = BINDINGS;

	for (int used = room + 1; used > room && out > 1;) {
		used = -KEY_GAP;
		for (unsigned i = 0; i < BINDINGS; i++)
			if (offered(v, &bindings[i]) && bindings[i].rank < out)
				used += bar_width(&v->grid, &bindings[i]);
		if (used > room)
			out--;
	}
	return out;
}

static bool is_active(const struct view *v, enum action a)
{
	return (a == ACTION_HELP && v->screen == SCREEN_HELP) ||
	       (a == ACTION_EXPLAIN && v->panel == PANEL_EXPLAIN) ||
	       (a == ACTION_SETUP && v->panel == PANEL_SETUP) ||
	       (a == ACTION_LOG && v->panel == PANEL_LOG) ||
	       (a == ACTION_PAUSE && v->paused);
}

/* From the right, leaving `left` columns to the screens.  Returns the column
 * at which they begin. */
static int draw_actions(struct view *v, struct rect r, int left)
{
	unsigned out = least_rank_out(v, r.w - 1 - left);
	int right = r.w - 1 + KEY_GAP;

	for (unsigned i = BINDINGS; i-- > 0;) {
		const struct binding *b = &bindings[i];
		if (!offered(v, b) || b->rank >= out)
			continue;
		right -= bar_width(&v->grid, b);
		draw_key(v, r, right, b->keys[0], b->bar,
			 is_active(v, b->action));
	}
	return right;
}

static void screen_label(const struct view *v, unsigned i, bool words,
			 char out[32])
{
	const struct screen *s = screens[i];

	if (words || i == v->screen)
		snprintf(out, 32, "%c %s", s->key, s->title);
	else
		snprintf(out, 32, "%c", s->key);
}

/* Draws the screens' keys, or, when not, says how wide they are, with a gap
 * behind. */
static int screen_keys(struct view *v, struct rect r, int right, bool words,
		       int gap, bool draw)
{
	int x = 1;

	for (unsigned i = 0; i < SCREEN_HELP; i++) {
		char text[32];
		if (screens[i]->absent && i != v->screen)
			continue;
		screen_label(v, i, words, text);
		int w = grid_width(&v->grid, text, strlen(text));
		if (draw && x + w > right)
			break;
		if (draw)
			draw_key(v, r, x, screens[i]->key, text,
				 i == v->screen);
		x += w + gap;
	}
	return x;
}

static void draw_keys(struct view *v, struct rect r)
{
	int all = screen_keys(v, r, 0, true, KEY_GAP, false);
	int right = draw_actions(v, r, all), gap = KEY_GAP;

	if (screen_keys(v, r, 0, false, gap, false) > right)
		gap = 1;
	screen_keys(v, r, right, all <= right, gap, true);
}

void frame_draw(struct view *v, const struct frame_layout *l)
{
	v->n_zones = 0;
	draw_header(v, l->header);
	if (v->have) {
		draw_tiers(v, l->tiers);
		draw_remedy(v, l->remedy);
	}
	if (frame_has_message(v))
		draw_message(v, l->message);
	draw_keys(v, l->keys);
}
