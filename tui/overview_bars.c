#include <math.h>
#include <string.h>

#include "tui/overview.h"
#include "tui/tables.h"
#include "tui/widgets.h"

#define GAP "   "

static const struct value *metric(const struct view *v, enum metric_id id)
{
	return &v->shot.metrics[id];
}

/* ---- bars ---------------------------------------------------------------- */

struct bar_line {
	const char *label;
	enum metric_id id;
	enum number_form form;
	enum style style;
	double useful; /* NAN: no part is waste */
};

static void draw_line_ends(struct view *v, struct rect r, int y,
			   const struct bar_layout *b, const char *label,
			   enum metric_id id, enum number_form form)
{
	struct value x = *metric(v, id);
	char text[NUMBER_TEXT];

	format_column(text, x, form);
	grid_text(&v->grid, r, b->label, y, STYLE_DIM, label);
	grid_about(&v->grid, EXPLAIN_METRIC + id);
	text_right(&v->grid, r, b->value, y, b->value_w,
		   format_style(x, STYLE_STRONG), text);
	grid_about(&v->grid, 0);
}

static void draw_details(struct view *v, struct rect r, int y,
			 const struct bar_layout *b, struct fields *fs)
{
	struct rect detail = { r.x + b->detail, r.y + y, b->detail_w, 1 };

	if (b->detail_w > 0 && y < r.h)
		fields_draw(&v->grid, detail, 0, GAP, fs, NULL);
}

static void draw_bar_line(struct view *v, struct rect r, int y,
			  const struct bar_line *l, struct fields *fs)
{
	struct bar_layout b;

	if (y >= r.h)
		return;
	layout_bar(r.w, &b);
	draw_line_ends(v, r, y, &b, l->label, l->id, l->form);
	bar_draw(&v->grid, (struct rect){ r.x + b.bar, r.y + y, b.bar_w, 1 },
		 known_or_nan(*metric(v, l->id)), l->useful, l->style);
	draw_details(v, r, y, &b, fs);
}

/* Without counters the useful part is what can be shown. */
static void draw_mbu(struct view *v, struct rect r)
{
	struct value mbu = *metric(v, METRIC_MBU);
	struct value useful = *metric(v, METRIC_USEFUL_MBU);
	bool counted = value_known(mbu) || !value_known(useful);
	struct fields fs = { 0 };
	struct bar_line line = {
		.label = counted ? "MBU" : "S-MBU",
		.id = counted ? METRIC_MBU : METRIC_USEFUL_MBU,
		.form = NUMBER_PERCENT,
		.style = STYLE_BAR,
		.useful = counted ? known_or_nan(useful) : NAN,
	};

	if (check_differs(&v->shot, "mbu_ratio"))
		fields_add(&fs, 0, STYLE_WARN, "", "≠ engine");
	if (counted) {
		fields_metric(&fs, 0, "useful (S-MBU)", &v->shot,
			      METRIC_USEFUL_MBU, NUMBER_PERCENT);
		fields_metric(&fs, 1, "read amplification", &v->shot,
			      METRIC_READ_AMPLIFICATION, NUMBER_RATIO);
		fields_metric(&fs, 2, "DRAM read", &v->shot, METRIC_DRAM_READ,
			      NUMBER_BYTES_RATE);
	} else {
		fields_add(&fs, 0, STYLE_NORMAL, "",
			   "useful reads; MBU needs DRAM counters");
	}
	draw_bar_line(v, r, 0, &line, &fs);
}

static void draw_mfu(struct view *v, struct rect r)
{
	char ridge[NUMBER_TEXT];
	struct fields fs = { 0 };
	struct bar_line line = {
		.label = "MFU",
		.id = METRIC_MFU,
		.form = NUMBER_PERCENT,
		.style = STYLE_BAR,
		.useful = NAN,
	};

	if (check_differs(&v->shot, "mfu_ratio"))
		fields_add(&fs, 0, STYLE_WARN, "", "≠ engine");
	fields_add(&fs, 2, STYLE_DIM, "", "of the dense %s%speak",
		   v->shot.compute_type, v->shot.compute_type[0] ? " " : "");
	if (value_known(*metric(v, METRIC_TENSOR_ACTIVE)))
		fields_metric(&fs, 1, "tensor active", &v->shot,
			      METRIC_TENSOR_ACTIVE, NUMBER_PERCENT);
	format_value(ridge, *metric(v, METRIC_RIDGE_ROWS), NUMBER_COUNT);
	fields_add(&fs, 3,
		   format_style(*metric(v, METRIC_RIDGE_ROWS), STYLE_STRONG),
		   "ridge", "%s rows/expert", ridge);
	fields_about(&fs, EXPLAIN_METRIC + METRIC_RIDGE_ROWS);
	fields_metric(&fs, 4, "GPU busy", &v->shot, METRIC_BUSY,
		      NUMBER_PERCENT);
	draw_bar_line(v, r, 1, &line, &fs);
}

static void draw_phi(struct view *v, struct rect r)
{
	char active[NUMBER_TEXT];
	struct value u = *metric(v, METRIC_ACTIVE_EXPERTS);
	struct fields fs = { 0 };
	struct bar_line line = {
		.label = "φ",
		.id = METRIC_FRAGMENTATION,
		.form = NUMBER_RATIO,
		.style = STYLE_BAR_COST,
		.useful = NAN,
	};

	fields_metric(&fs, 0, "rows/active expert", &v->shot,
		      METRIC_ROWS_PER_ACTIVE, NUMBER_RATIO);
	fields_metric(&fs, 1, "single-row", &v->shot, METRIC_SINGLE_ROW,
		      NUMBER_PERCENT);
	format_value(active, u, NUMBER_COUNT);
	if (v->shot.target.experts) {
		fields_add(&fs, 2, format_style(u, STYLE_STRONG), "active",
			   "%s of %u", active, v->shot.target.experts);
		fields_about(&fs, EXPLAIN_METRIC + METRIC_ACTIVE_EXPERTS);
	}
	fields_metric(&fs, 3, "V", &v->shot, METRIC_VALLEY_INDEX, NUMBER_RATIO);
	draw_bar_line(v, r, 2, &line, &fs);
}

static void draw_eta(struct view *v, struct rect r)
{
	struct fields fs = { 0 };
	struct bar_line line = {
		.label = "η",
		.id = METRIC_MARGINAL_GAIN,
		.form = NUMBER_RATIO,
		.style = STYLE_BAR_GAIN,
		.useful = NAN,
	};

	fields_metric(&fs, 0, "expert reads", &v->shot, METRIC_EXPERT_SHARE,
		      NUMBER_RATIO);
	fields_metric(&fs, 1, "KV", &v->shot, METRIC_KV_SHARE, NUMBER_RATIO);
	fields_metric(&fs, 2, "compute", &v->shot, METRIC_COMPUTE_SHARE,
		      NUMBER_RATIO);
	if (value_known(*metric(v, METRIC_PREFILL_SHARE)))
		fields_metric(&fs, 3, "prefill", &v->shot, METRIC_PREFILL_SHARE,
			      NUMBER_RATIO);
	draw_bar_line(v, r, 3, &line, &fs);
}

/* "808 tok/s": number, then what it counts. */
static void add_counted(struct fields *fs, unsigned rank, const struct view *v,
			enum metric_id id, enum number_form form,
			const char *what)
{
	struct value x = *metric(v, id);
	char text[NUMBER_TEXT];

	format_value(text, x, form);
	fields_add(fs, rank, format_style(x, STYLE_STRONG), "", "%s%s %s", text,
		   x.state == VALUE_STALE ? " (stale)" : "", what);
	fields_about(fs, EXPLAIN_METRIC + id);
}

/* ---- step ---------------------------------------------------------------- */

/* The larger a part, the longer it stays in a legend that is too wide. */
static unsigned legend_rank(const double *share, unsigned i)
{
	unsigned larger = 0;

	for (unsigned k = 0; k < PARTS_MAX; k++)
		larger +=
			share[k] > share[i] || (k < i && share[k] == share[i]);
	return larger;
}

static void draw_legend(struct view *v, struct rect r, int x,
			const double *share)
{
	struct fields fs = { 0 };
	int w = 0;

	for (unsigned i = 0; i < PARTS_MAX; i++) {
		char glyph[5] = { 0 }, text[NUMBER_TEXT];
		if (!(share[i] > 0))
			continue;
		utf8_encode(part_glyph(&v->grid, i), glyph);
		format_column(text, v->shot.group_share[i],
			      NUMBER_PERCENT_WHOLE);
		fields_add(&fs, legend_rank(share, i), STYLE_GROUP + i, "",
			   "%s %s %s", glyph, group_name(i), text);
		fields_about(&fs, EXPLAIN_GROUP_SHARE);
		w += grid_width(&v->grid, fs.f[fs.n - 1].text,
				sizeof(fs.f[0].text)) +
		     2;
	}
	if (!fs.n)
		fields_add(&fs, 0, STYLE_DIM, "",
			   "where the time goes is not known yet");
	x = x + w <= r.w ? x : 1;
	r.w -= x + 1;
	r.x += x;
	fields_draw(&v->grid, r, 0, "  ", &fs, NULL);
}

void overview_step(struct view *v, struct rect r)
{
	const struct snapshot_hist *h = &v->shot.hists[HISTOGRAM_STEP];
	struct fields fs = { 0 };
	struct bar_layout b;
	double share[PARTS_MAX];

	if (r.h < 1)
		return;
	for (unsigned i = 0; i < PARTS_MAX; i++)
		share[i] = known_or_nan(v->shot.group_share[i]);
	layout_bar(r.w, &b);
	draw_line_ends(v, r, 0, &b, "step", METRIC_STEP_SECONDS,
		       NUMBER_SECONDS);
	parts_draw(&v->grid, (struct rect){ r.x + b.bar, r.y, b.bar_w, 1 },
		   share, PARTS_MAX);
	fields_value(&fs, 0, "p50", h->p50, NUMBER_SECONDS);
	fields_about(&fs, EXPLAIN_HISTOGRAM + HISTOGRAM_STEP);
	fields_value(&fs, 0, "p99", h->p99, NUMBER_SECONDS);
	fields_about(&fs, EXPLAIN_HISTOGRAM + HISTOGRAM_STEP);
	add_counted(&fs, 1, v, METRIC_STEPS, NUMBER_COUNT, "steps/s");
	draw_details(v, r, 0, &b, &fs);
	if (r.h > 1)
		draw_legend(v, (struct rect){ r.x, r.y + 1, r.w, 1 }, b.bar,
			    share);
}

/* ---- requests ------------------------------------------------------------ */

static void draw_fields(struct view *v, struct rect r, int y, const char *label,
			struct fields *fs)
{
	struct bar_layout b;

	if (y >= r.h)
		return;
	layout_bar(r.w, &b);
	grid_text(&v->grid, r, b.label, y, STYLE_DIM, label);
	fields_draw(&v->grid,
		    (struct rect){ r.x + b.bar, r.y + y, r.w - b.bar - 1, 1 },
		    0, GAP, fs, NULL);
}

/* The engine has another number than ours: a sign behind the one that was
 * added last. */
static void mark_check(struct fields *fs, const struct snapshot *s,
		       const char *name)
{
	size_t n;

	if (!fs->last || !check_differs(s, name))
		return;
	n = strlen(fs->last->text);
	snprintf(fs->last->text + n, sizeof(fs->last->text) - n, " ≠");
	fs->last->style = STYLE_WARN;
}

static void draw_in_flight(struct view *v, struct rect r)
{
	struct fields fs = { 0 };

	fields_metric(&fs, 0, "in flight", &v->shot, METRIC_IN_FLIGHT,
		      NUMBER_COUNT);
	mark_check(&fs, &v->shot, "in_flight");
	fields_metric(&fs, 2, "waiting", &v->shot, METRIC_WAITING,
		      NUMBER_COUNT);
	mark_check(&fs, &v->shot, "waiting");
	if (value_known(*metric(v, METRIC_SCRAPED_RUNNING))) {
		fields_metric(&fs, 3, "running", &v->shot,
			      METRIC_SCRAPED_RUNNING, NUMBER_COUNT);
		mark_check(&fs, &v->shot, "running");
	}
	if (value_known(*metric(v, METRIC_SCRAPED_WAITING)))
		fields_metric(&fs, 4, "queued", &v->shot,
			      METRIC_SCRAPED_WAITING, NUMBER_COUNT);
	fields_metric(&fs, 1, "arriving", &v->shot, METRIC_ARRIVALS,
		      NUMBER_RATE);
	fields_metric(&fs, 6, "done", &v->shot, METRIC_COMPLETED, NUMBER_COUNT);
	fields_metric(&fs, 5, "aborted", &v->shot, METRIC_ABORTED,
		      NUMBER_COUNT);
	draw_fields(v, r, 0, "requests", &fs);
}

static void add_quantiles(struct fields *fs, unsigned rank, const char *label,
			  const struct view *v, enum histogram_id id)
{
	const struct snapshot_hist *h = &v->shot.hists[id];
	char p50[NUMBER_TEXT], p99[NUMBER_TEXT];

	format_value(p50, h->p50, NUMBER_SECONDS);
	format_value(p99, h->p99, NUMBER_SECONDS);
	fields_add(fs, rank, format_style(h->p50, STYLE_STRONG), label,
		   "p50 %s p99 %s", p50, p99);
	fields_about(fs, EXPLAIN_HISTOGRAM + id);
}

static void draw_latency(struct view *v, struct rect r)
{
	struct fields fs = { 0 };

	add_quantiles(&fs, 0, "TTFT", v, HISTOGRAM_TTFT);
	mark_check(&fs, &v->shot, "ttft_seconds");
	add_quantiles(&fs, 1, "gap", v, HISTOGRAM_EVENT_GAP);
	add_quantiles(&fs, 2, "duration", v, HISTOGRAM_DURATION);
	draw_fields(v, r, 1, "latency", &fs);
}

/* Of this traffic, as screen 6 has it; of any, as long as that is unknown. */
static void add_floor(struct fields *fs, unsigned rank, const struct view *v)
{
	bool own = value_known(*metric(v, METRIC_TRAFFIC_FLOOR));

	fields_metric(fs, rank, "valley floor B =", &v->shot,
		      own ? METRIC_TRAFFIC_FLOOR : METRIC_VALLEY_FLOOR,
		      NUMBER_COUNT);
}

static void draw_tokens(struct view *v, struct rect r)
{
	struct fields fs = { 0 };

	add_counted(&fs, 0, v, METRIC_TOKENS, NUMBER_COUNT, "tok/s");
	mark_check(&fs, &v->shot, "tokens_per_second");
	fields_metric(&fs, 1, "per step B =", &v->shot, METRIC_TOKENS_PER_STEP,
		      NUMBER_COUNT);
	add_counted(&fs, 2, v, METRIC_COST, NUMBER_USD, "per M tokens");
	add_floor(&fs, 3, v);
	add_counted(&fs, 4, v, METRIC_EVENTS, NUMBER_COUNT, "events/s");
	draw_fields(v, r, 2, "tokens", &fs);
}

/* ---- server --------------------------------------------------------------- */

static unsigned options_of(const struct snapshot *s)
{
	return s->target.n_options < SNAPSHOT_OPTIONS_MAX
		       ? s->target.n_options
		       : SNAPSHOT_OPTIONS_MAX;
}

bool overview_has_server(const struct snapshot *s)
{
	return s->target.container[0] || options_of(s);
}

/* The first options are the last to go. */
static void draw_server(struct view *v, struct rect r)
{
	const struct snapshot_target *t = &v->shot.target;
	struct fields fs = { 0 };

	if (!overview_has_server(&v->shot))
		return;
	if (t->container[0])
		fields_add(&fs, 1, STYLE_NORMAL, "in", "%s", t->container);
	for (unsigned i = 0; i < options_of(&v->shot); i++)
		fields_add(&fs, i + 2, STYLE_NORMAL, t->options[i].name, "%s",
			   t->options[i].value);
	draw_fields(v, r, 3, "server", &fs);
}

void overview_bars(struct view *v, struct rect r)
{
	draw_mbu(v, r);
	draw_mfu(v, r);
	draw_phi(v, r);
	draw_eta(v, r);
}

void overview_requests(struct view *v, struct rect r)
{
	draw_in_flight(v, r);
	draw_latency(v, r);
	draw_tokens(v, r);
	draw_server(v, r);
}
