/*
 * Every screen with random snapshots at many sizes: nothing is drawn outside,
 * no text of a foreign process reaches the terminal as a command, and the
 * frame is always there.  THOROUGH=1 takes every size up to 300x120.
 */
#include "tests/unit/tui/scenes.h"
#include "tui/layout.h"
#include "tui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>

static struct snapshot *shot;
static uint64_t seed = 88172645463325252u;

static uint64_t draw64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static unsigned below(unsigned n)
{
	return (unsigned)(draw64() >> 33) % n;
}

static struct value any_value(void)
{
	static const double odd[] = { 0,     -0.0, 1,   -1,  1e-300,
				      1e300, 0.5,  1.5, 1e9, 12345.678 };
	double v = below(3) ? below(2000) / 1000.0 : odd[below(10)];

	if (below(20) == 0)
		v = below(2) ? (double)NAN : (double)INFINITY;
	return (struct value){ .v = v,
			       .state = (enum value_state)below(4),
			       .source = (enum value_source)below(SOURCES) };
}

static void any_values(void *from, size_t bytes)
{
	struct value *v = from;

	for (size_t i = 0; i < bytes / sizeof(*v); i++)
		v[i] = any_value();
}

static void any_text(char *out, size_t bytes)
{
	static const char *const parts[] = { "漢字", "e\xcc\x81",    "\033[2J",
					     "\xff", "word ",        "a",
					     " ",    "\xe2\x80\xae", "/" };
	size_t used = 0, most = below((unsigned)bytes);

	memset(out, 0, bytes);
	while (used < most) {
		const char *part = parts[below(9)];
		size_t n = strlen(part);
		if (used + n >= bytes)
			break;
		memcpy(out + used, part, n);
		used += n;
	}
}

static void any_health(struct snapshot_health *h)
{
	static const char *const names[] = { "T0", "T1", "T2", "T3", "C" };

	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++) {
		snprintf(h->tiers[i].name, 4, "%s", names[i]);
		h->tiers[i].state = (enum tier_state)below(3);
		any_text(h->tiers[i].what, sizeof(h->tiers[i].what));
		any_text(h->tiers[i].remedy, sizeof(h->tiers[i].remedy));
	}
	h->lost_ring = draw64();
	h->desyncs = below(2);
	h->bad_steps = below(2);
	h->window_age_seconds = any_value();
	any_text(h->rows_method, sizeof(h->rows_method));
	any_text(h->rung, sizeof(h->rung));
	any_text(h->message, below(2) ? sizeof(h->message) : 1);
	h->target_gone = below(5) == 0;
	h->target_gone_seconds = any_value().v;
}

static void any_tables(struct snapshot *s)
{
	s->n_layers = below(SNAPSHOT_LAYERS_MAX + 40);
	for (unsigned i = 0; i < SNAPSHOT_LAYERS_MAX; i++) {
		struct snapshot_layer *l = &s->layers[i];
		any_values(l, offsetof(struct snapshot_layer, backend));
		any_text(l->backend, sizeof(l->backend));
	}
	s->n_classes = below(SNAPSHOT_CLASSES_MAX + 40);
	for (unsigned i = 0; i < SNAPSHOT_CLASSES_MAX; i++) {
		struct snapshot_class *c = &s->classes[i];
		any_text(c->name, sizeof(c->name));
		c->group = below(9);
		c->calls_per_step = any_value();
		c->seconds_per_step = any_value();
		c->share = any_value();
	}
}

static void any_what_ifs(struct snapshot *s)
{
	struct whatif *w = &s->what_if_base;
	double *v = &w->gpu_bw;

	s->n_what_if = below(SNAPSHOT_WHAT_IF_MAX + 4);
	for (unsigned i = 0; i < SNAPSHOT_WHAT_IF_MAX; i++) {
		struct snapshot_what_if *r = &s->what_if[i];

		r->kind = (enum what_if_kind)below(WHAT_IF_KINDS);
		r->amount = any_value().v;
		any_text(r->name, sizeof(r->name));
		r->limit = (enum whatif_limit)below(5);
		any_values(&r->tokens_per_step,
			   sizeof(*r) - offsetof(struct snapshot_what_if,
						 tokens_per_step));
	}
	if (below(3) == 0)
		return;
	w->valid = below(2);
	w->known = true;
	w->arch.experts = below(600);
	w->arch.top_k = below(16);
	w->arch.moe_layers = below(100);
	w->arch.expert_bytes = any_value().v;
	w->calibration.bw = any_value().v;
	for (; v <= &w->usd_per_gpu_hour; v++)
		*v = any_value().v;
	traffic_uniform(&w->traffic, w->arch.experts, w->arch.top_k);
	w->traffic.batch = below(2) ? any_value().v : 0;
	w->traffic.active = any_value().v;
	w->traffic.basis = (enum traffic_basis)below(3);
}

/* Seldom as many as there can be: they take their time to draw. */
static void any_experts(struct snapshot *s)
{
	struct snapshot_experts *e = &s->experts;
	uint32_t x = (uint32_t)draw64(), shift = below(32);

	e->n_layers = below(3) ? below(below(8) ? 12 : 129) : 0;
	e->n_experts = below(8) ? below(65) : below(513);
	for (unsigned i = 0; i < e->n_layers * e->n_experts; i++) {
		x = x * 1664525u + 1013904223u;
		e->rows[i] = x >> shift;
	}
	if (below(6) == 0)
		memset(e->rows, 0, sizeof(e->rows));
}

static void any_hists(struct snapshot *s)
{
	for (unsigned h = 0; h < HISTOGRAMS; h++) {
		struct snapshot_hist *x = &s->hists[h];
		double upper = below(2) ? 1e-9 : -1;

		any_values(x, offsetof(struct snapshot_hist, n_buckets));
		x->n_buckets = below(SNAPSHOT_BUCKETS_MAX + 3);
		for (unsigned i = 0; i < SNAPSHOT_BUCKETS_MAX; i++) {
			upper += below(100) / 1000.0;
			x->buckets[i].upper = below(50) ? upper : any_value().v;
			x->buckets[i].count = below(5) ? below(1000) : draw64();
		}
	}
}

static void any_requests(struct snapshot *s)
{
	struct snapshot_requests *r = &s->requests;

	r->known = below(2);
	r->have_queues = below(2);
	r->unread_bytes = draw64();
	r->not_accepted = below(2) ? draw64() : 0;
	r->oldest_seconds = any_value().v;
	for (unsigned e = 0; e < SNAPSHOT_ENDPOINTS; e++)
		for (unsigned i = 0; i < REQUEST_COUNTS; i++)
			r->counts[e][i] = below(3) ? below(100) : draw64();
	s->n_checks = below(SNAPSHOT_CHECKS_MAX + 3);
	for (unsigned i = 0; i < SNAPSHOT_CHECKS_MAX; i++) {
		struct snapshot_check *c = &s->checks[i];

		any_text(c->name, sizeof(c->name));
		c->state = (enum check_state)below(4);
		c->ours = any_value().v;
		c->theirs = any_value().v;
		any_text(c->why, sizeof(c->why));
	}
}

static void any_words(struct snapshot *s)
{
	s->n_findings = below(SNAPSHOT_FINDINGS_MAX + 4);
	for (unsigned i = 0; i < SNAPSHOT_FINDINGS_MAX; i++) {
		struct finding *f = &s->findings[i];
		f->severity = (enum severity)below(3);
		f->gain = any_value();
		any_text(f->text, sizeof(f->text));
	}
	for (unsigned i = 0; i < 3; i++)
		any_text(s->verdict[i], below(2) ? sizeof(s->verdict[i]) : 1);
}

static void any_target(struct snapshot_target *t)
{
	t->pid = (int32_t)draw64();
	any_text(t->engine, sizeof(t->engine));
	any_text(t->engine_version, sizeof(t->engine_version));
	any_text(t->model, sizeof(t->model));
	any_text(t->gpu, sizeof(t->gpu));
	any_text(t->host, sizeof(t->host));
	t->experts = below(2) ? below(2048) : 0;
	t->top_k = below(64);
	t->moe_layers = (uint32_t)draw64();
	t->n_gpus = t->tp = t->ep = (uint32_t)draw64();
	t->n_ranks = below(SNAPSHOT_RANKS_MAX + 4);
	for (unsigned i = 0; i < SNAPSHOT_RANKS_MAX; i++) {
		snprintf(t->ranks[i].agent, sizeof(t->ranks[i].agent), "%s",
			 below(30) ? "idle" : "disabled");
		any_text(t->ranks[i].reason, sizeof(t->ranks[i].reason));
	}
	any_text(t->container, sizeof(t->container));
	t->n_options = below(SNAPSHOT_OPTIONS_MAX + 4);
	for (unsigned i = 0; i < SNAPSHOT_OPTIONS_MAX; i++) {
		snprintf(t->options[i].name, sizeof(t->options[i].name), "%s",
			 below(5) ? "tp" : "capture_sizes");
		any_text(t->options[i].value, sizeof(t->options[i].value));
	}
}

static void any_snapshot(struct snapshot *s)
{
	memset(s, 0, sizeof(*s));
	s->time = SCENE_START + below(1000);
	s->interval_s = any_value().v;
	s->uptime_s = any_value().v;
	any_target(&s->target);
	s->regime = (enum regime)below(REGIMES);
	s->side = (enum side)below(3);
	s->regime_source = (enum value_source)below(SOURCES);
	any_values(s->metrics, sizeof(s->metrics));
	any_values(s->group_share, sizeof(s->group_share));
	any_tables(s);
	any_words(s);
	any_health(&s->health);
	any_what_ifs(s);
	any_experts(s);
	any_hists(s);
	any_requests(s);
}

/* A glyph may be drawn; wide ones are followed by their right half. */
static void check_cells(const struct grid *g)
{
	for (int y = 0; y < g->h; y++)
		for (int x = 0; x < g->w; x++) {
			const struct cell *c = grid_cell(g, x, y);
			assert_true(c->style < STYLES);
			assert_true(c->glyph == 0 || c->glyph >= 0x20);
			assert_true(c->glyph != 0x7f && c->glyph != 0x202e);
			if (g->ascii)
				assert_true(c->glyph >= 0x20 &&
					    c->glyph < 0x7f);
			if (c->glyph == 0)
				assert_true(x > 0 &&
					    grid_cell(g, x - 1, y)->glyph >=
						    0x1100);
		}
}

static void check_zones(const struct view *v)
{
	assert_true(v->n_zones <= ZONES_MAX);
	for (unsigned i = 0; i < v->n_zones; i++) {
		const struct rect *r = &v->zones[i].r;
		assert_true(r->x >= 0 && r->x + r->w <= v->grid.w);
		assert_true(r->y >= 0 && r->y + r->h <= v->grid.h);
		assert_true(r->w > 0 && r->h > 0);
		if (v->zones[i].kind == ZONE_KEY) {
			assert_int_equal(r->y, v->grid.h - 1);
			assert_int_equal(r->h, 1);
		}
	}
}

/* Anywhere in it, and beyond, as a drag may end. */
static void click_picture(struct view *v)
{
	const struct screen *s = screens[v->screen];

	for (unsigned i = 0; i < v->n_zones; i++) {
		struct zone z = v->zones[i];

		if (z.kind != ZONE_PICTURE || !s->clicked)
			continue;
		s->clicked(v, &z, (int)below(400) - 100, (int)below(200) - 50);
		view_draw(v);
		return;
	}
}

static void check_size(struct view *v, int w, int h)
{
	static const int keys[] = {
		's',         INPUT_DOWN,    INPUT_PAGE_DOWN, INPUT_END,
		INPUT_UP,    INPUT_PAGE_UP, INPUT_HOME,      'n',
		INPUT_RIGHT, 'g',           INPUT_LEFT,      'c',
	};
	const unsigned n_keys = sizeof(keys) / sizeof(*keys);

	assert_int_equal(view_resize(v, w, h), 0);
	for (unsigned screen = 0; screen < SCREENS; screen++) {
		v->screen = screen;
		view_key(v, keys[below(n_keys)]);
		view_draw(v);
		click_picture(v);
		check_cells(&v->grid);
		check_zones(v);
		if (layout_fits(w, h))
			assert_true(v->n_zones >= 2);
	}
}

static void check_sizes(bool ascii, bool thorough)
{
	struct view *v = view_new(ascii);

	assert_non_null(v);
	for (int w = 1; w <= 300; w += ascii ? 7 : 2) {
		int from = thorough ? 1 : 1 + (int)below(120);
		int to = thorough ? 120 : from;
		any_snapshot(shot);
		view_add(v, shot);
		for (int h = from; h <= to; h++)
			check_size(v, w, h);
	}
	for (int h = 1; h <= 120; h += ascii ? 7 : 2)
		check_size(v, 1 + (int)below(300), h);
	view_free(v);
}

static void test_no_size_and_no_snapshot_leaves_the_grid(void **state)
{
	(void)state;
	check_sizes(false, getenv("THOROUGH"));
}

static void test_the_same_in_ascii(void **state)
{
	(void)state;
	check_sizes(true, false);
}

static void test_too_small_is_one_line_that_says_so(void **state)
{
	struct view *v = view_new(false);

	(void)state;
	assert_non_null(v);
	scene_fill(shot, SCENE_NEAR);
	view_add(v, shot);
	for (int w = 1; w < 40; w++) {
		assert_int_equal(view_resize(v, w, 11), 0);
		view_draw(v);
		assert_int_equal(grid_cell(&v->grid, 0, 0)->glyph,
				 w == 1 ? 0x2026 : 'm');
		for (int y = 1; y < 11; y++)
			assert_int_equal(grid_cell(&v->grid, 0, y)->glyph, ' ');
	}
	view_free(v);
}

static int setup(void **state)
{
	(void)state;
	shot = calloc(1, sizeof(*shot));
	return shot ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(shot);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_size_and_no_snapshot_leaves_the_grid),
		cmocka_unit_test(test_the_same_in_ascii),
		cmocka_unit_test(test_too_small_is_one_line_that_says_so),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, setup, teardown);
}
