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

static double known_or_nan(struct value x)
{
	return value_known(x) ? x.v : NAN;
}

/* ---- bars ---------------------------------------------------------------- */

struct bar_line {
	const char *label;
	struct value v;
	enum number_form form;
	enum style style;
	double useful; /* NAN: no part is waste */
};

static void draw_line_ends(struct view *v, struct rect r, int y,
			   const struct bar_layout *b, const char *label,
			   struct value x, enum number_form form)
{
	char text[NUMBER_TEXT];

	format_column(text, x, form);
	grid_text(&v->grid, r, b->label, y, STYLE_DIM, label);
	text_right(&v->grid, r, b->value, y, b->value_w,
		   format_style(x, STYLE_STRONG), text);
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
	draw_line_ends(v, r, y, &b, l->label, l->v, l->form);
	bar_draw(&v->grid, (struct rect){ r.x + b.bar, r.y + y, b.bar_w, 1 },
		 known_or_nan(l->v), l->useful, l->style);
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
		.v = counted ? mbu : useful,
		.form = NUMBER_PERCENT,
		.style = STYLE_BAR,
		.useful = counted ? known_or_nan(useful) : NAN,
	};

	if (counted) {
		fields_value(&fs, 0, "useful (S-MBU)", useful, NUMBER_PERCENT);
		fields_value(&fs, 1, "read amplification",
			     *metric(v, METRIC_READ_AMPLIFICATION),
			     NUMBER_RATIO);
		fields_value(&fs, 2, "DRAM read", *metric(v, METRIC_DRAM_READ),
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
		.v = *metric(v, METRIC_MFU),
		.form = NUMBER_PERCENT,
		.style = STYLE_BAR,
		.useful = NAN,
	};

	fields_add(&fs, 2, STYLE_DIM, "", "of the dense %s%speak",
		   v->shot.compute_type, v->shot.compute_type[0] ? " " : "");
	if (value_known(*metric(v, METRIC_TENSOR_ACTIVE)))
		fields_value(&fs, 1, "tensor active",
			     *metric(v, METRIC_TENSOR_ACTIVE), NUMBER_PERCENT);
	format_value(ridge, *metric(v, METRIC_RIDGE_ROWS), NUMBER_COUNT);
	fields_add(&fs, 3,
		   format_style(*metric(v, METRIC_RIDGE_ROWS), STYLE_STRONG),
		   "ridge", "%s rows/expert", ridge);
	fields_value(&fs, 4, "GPU busy", *metric(v, METRIC_BUSY),
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
		.v = *metric(v, METRIC_FRAGMENTATION),
		.form = NUMBER_RATIO,
		.style = STYLE_BAR_COST,
		.useful = NAN,
	};

	fields_value(&fs, 0, "rows/active expert",
		     *metric(v, METRIC_ROWS_PER_ACTIVE), NUMBER_RATIO);
	fields_value(&fs, 1, "single-row", *metric(v, METRIC_SINGLE_ROW),
		     NUMBER_PERCENT);
	format_value(active, u, NUMBER_COUNT);
	if (v->shot.target.experts)
		fields_add(&fs, 2, format_style(u, STYLE_STRONG), "active",
			   "%s of %u", active, v->shot.target.experts);
	fields_value(&fs, 3, "V", *metric(v, METRIC_VALLEY_INDEX),
		     NUMBER_RATIO);
	draw_bar_line(v, r, 2, &line, &fs);
}

static void draw_eta(struct view *v, struct rect r)
{
	struct fields fs = { 0 };
	struct bar_line line = {
		.label = "η",
		.v = *metric(v, METRIC_MARGINAL_GAIN),
		.form = NUMBER_RATIO,
		.style = STYLE_BAR_GAIN,
		.useful = NAN,
	};

	fields_value(&fs, 0, "expert reads", *metric(v, METRIC_EXPERT_SHARE),
		     NUMBER_RATIO);
	fields_value(&fs, 1, "KV", *metric(v, METRIC_KV_SHARE), NUMBER_RATIO);
	fields_value(&fs, 2, "compute", *metric(v, METRIC_COMPUTE_SHARE),
		     NUMBER_RATIO);
	if (value_known(*metric(v, METRIC_PREFILL_SHARE)))
		fields_value(&fs, 3, "prefill",
			     *metric(v, METRIC_PREFILL_SHARE), NUMBER_RATIO);
	draw_bar_line(v, r, 3, &line, &fs);
}

/* "808 tok/s": number, then what it counts. */
static void add_counted(struct fields *fs, unsigned rank, struct value x,
			enum number_form form, const char *what)
{
	char text[NUMBER_TEXT];

	format_value(text, x, form);
	fields_add(fs, rank, format_style(x, STYLE_STRONG), "", "%s%s %s", text,
		   x.state == VALUE_STALE ? " (stale)" : "", what);
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
	draw_line_ends(v, r, 0, &b, "step", *metric(v, METRIC_STEP_SECONDS),
		       NUMBER_SECONDS);
	parts_draw(&v->grid, (struct rect){ r.x + b.bar, r.y, b.bar_w, 1 },
		   share, PARTS_MAX);
	fields_value(&fs, 0, "p50", h->p50, NUMBER_SECONDS);
	fields_value(&fs, 0, "p99", h->p99, NUMBER_SECONDS);
	add_counted(&fs, 1, *metric(v, METRIC_STEPS), NUMBER_COUNT, "steps/s");
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

static void draw_in_flight(struct view *v, struct rect r)
{
	struct fields fs = { 0 };

	fields_value(&fs, 0, "in flight", *metric(v, METRIC_IN_FLIGHT),
		     NUMBER_COUNT);
	fields_value(&fs, 2, "waiting", *metric(v, METRIC_WAITING),
		     NUMBER_COUNT);
	if (value_known(*metric(v, METRIC_SCRAPED_RUNNING)))
		fields_value(&fs, 3, "running",
			     *metric(v, METRIC_SCRAPED_RUNNING), NUMBER_COUNT);
	if (value_known(*metric(v, METRIC_SCRAPED_WAITING)))
		fields_value(&fs, 4, "queued",
			     *metric(v, METRIC_SCRAPED_WAITING), NUMBER_COUNT);
	fields_value(&fs, 1, "arriving", *metric(v, METRIC_ARRIVALS),
		     NUMBER_RATE);
	fields_value(&fs, 6, "done", *metric(v, METRIC_COMPLETED),
		     NUMBER_COUNT);
	fields_value(&fs, 5, "aborted", *metric(v, METRIC_ABORTED),
		     NUMBER_COUNT);
	draw_fields(v, r, 0, "requests", &fs);
}

static void add_quantiles(struct fields *fs, unsigned rank, const char *label,
			  const struct snapshot_hist *h)
{
	char p50[NUMBER_TEXT], p99[NUMBER_TEXT];

	format_value(p50, h->p50, NUMBER_SECONDS);
	format_value(p99, h->p99, NUMBER_SECONDS);
	fields_add(fs, rank, format_style(h->p50, STYLE_STRONG), label,
		   "p50 %s p99 %s", p50, p99);
}

static void draw_latency(struct view *v, struct rect r)
{
	const struct snapshot_hist *h = v->shot.hists;
	struct fields fs = { 0 };

	add_quantiles(&fs, 0, "TTFT", &h[HISTOGRAM_TTFT]);
	add_quantiles(&fs, 1, "gap", &h[HISTOGRAM_EVENT_GAP]);
	add_quantiles(&fs, 2, "duration", &h[HISTOGRAM_DURATION]);
	draw_fields(v, r, 1, "latency", &fs);
}

static void draw_tokens(struct view *v, struct rect r)
{
	struct fields fs = { 0 };

	add_counted(&fs, 0, *metric(v, METRIC_TOKENS), NUMBER_COUNT, "tok/s");
	fields_value(&fs, 1, "per step B =", *metric(v, METRIC_TOKENS_PER_STEP),
		     NUMBER_COUNT);
	add_counted(&fs, 2, *metric(v, METRIC_COST), NUMBER_USD,
		    "per M tokens");
	fields_value(&fs, 3,
		     "valley floor B =", *metric(v, METRIC_VALLEY_FLOOR),
		     NUMBER_COUNT);
	add_counted(&fs, 4, *metric(v, METRIC_EVENTS), NUMBER_COUNT,
		    "events/s");
	draw_fields(v, r, 2, "tokens", &fs);
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
}
