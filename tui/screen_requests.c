#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/buckets.h"
#include "tui/screen.h"
#include "tui/tables.h"
#include "tui/widgets.h"

#define GAP "   "
#define LATENCY_ROWS 4
#define HIST_COLUMNS 25 /* of one histogram, at least */
#define HIST_ROWS 5     /* for it to be worth it */
#define HIST_SHARE 3    /* one part in so many of what is left */
#define GRAPH_ROWS 3
#define SPACED_ROWS 25 /* screens this tall have blank rows between parts */

static struct rect take(struct rect *from, int rows)
{
	struct rect r = *from;

	rows = rows < from->h ? rows : from->h;
	r.h = rows > 0 ? rows : 0;
	from->y += r.h;
	from->h -= r.h;
	return r;
}

/* ---- counts --------------------------------------------------------------- */

static void draw_now(struct view *v, struct rect r)
{
	const struct snapshot *s = &v->shot;
	struct fields now = { 0 };

	fields_metric(&now, 0, "in flight", s, METRIC_IN_FLIGHT, NUMBER_COUNT);
	fields_metric(&now, 1, "waiting", s, METRIC_WAITING, NUMBER_COUNT);
	fields_metric(&now, 0, "arriving", s, METRIC_ARRIVALS, NUMBER_RATE);
	fields_metric(&now, 2, "events", s, METRIC_EVENTS, NUMBER_RATE);
	check_field(&now, 1, s);
	fields_metric(&now, 3, "engine running", s, METRIC_SCRAPED_RUNNING,
		      NUMBER_COUNT);
	fields_metric(&now, 4, "engine queued", s, METRIC_SCRAPED_WAITING,
		      NUMBER_COUNT);
	fields_draw(&v->grid, r, 0, GAP, &now, NULL);
}

static void draw_totals(struct view *v, struct rect r)
{
	const struct snapshot *s = &v->shot;
	struct fields total = { 0 };

	fields_metric(&total, 0, "started", s, METRIC_STARTED, NUMBER_COUNT);
	fields_metric(&total, 0, "completed", s, METRIC_COMPLETED,
		      NUMBER_COUNT);
	fields_metric(&total, 0, "aborted", s, METRIC_ABORTED, NUMBER_COUNT);
	fields_add(&total, 1, STYLE_DIM, "", "since attach");
	if (s->health.rung[0])
		fields_add(&total, 2, STYLE_NORMAL, "source", "%s",
			   s->requests.tls_inferred ? REQUESTS_TLS_INFERRED
						    : s->health.rung);
	fields_draw(&v->grid, r, 0, GAP, &total, NULL);
}

/* Where requests wait before the server knows of them. */
static void draw_queues(struct view *v, struct rect r)
{
	const struct snapshot_requests *q = &v->shot.requests;
	char text[NUMBER_TEXT];
	struct fields fs = { 0 };

	format_number(text, q->known ? q->oldest_seconds : (double)NAN,
		      NUMBER_SECONDS);
	fields_add(&fs, 0, STYLE_STRONG, "oldest in flight", "%s", text);
	format_number(text,
		      q->have_queues ? (double)q->not_accepted : (double)NAN,
		      NUMBER_COUNT);
	fields_add(&fs, 1,
		   q->have_queues && q->not_accepted ? STYLE_WARN
						     : STYLE_STRONG,
		   "connections not accepted", "%s", text);
	format_number(text,
		      q->have_queues ? (double)q->unread_bytes : (double)NAN,
		      NUMBER_BYTES);
	fields_add(&fs, 2, STYLE_STRONG, "sent and not read", "%s", text);
	fields_draw(&v->grid, r, 0, GAP, &fs, NULL);
}

/* ---- tables --------------------------------------------------------------- */

static void draw_endpoints(struct view *v, struct rect *rest, bool spaced)
{
	struct endpoint_order o;
	struct table t;

	if (!v->shot.requests.known) {
		text_cut(
			&v->grid, take(rest, 1 + spaced), 0, 0, rest->w,
			STYLE_DIM,
			"by endpoint and status: only T1 counts that, requests "
			"from the kernel");
		return;
	}
	endpoint_table(&v->shot, &o, &t);
	if (t.rows > rest->h - LATENCY_ROWS - 1)
		t.rows = rest->h > LATENCY_ROWS + 2 ? rest->h - LATENCY_ROWS - 1
						    : 1;
	table_draw(&v->grid, take(rest, t.rows + 1 + spaced), &t);
}

static void draw_latencies(struct view *v, struct rect *rest, bool spaced)
{
	struct table t;

	latency_table(&v->shot, &t);
	table_draw(&v->grid, take(rest, t.rows + 1 + spaced), &t);
}

static void draw_checks(struct view *v, struct rect *rest, bool spaced)
{
	struct table t;

	check_table(&v->shot, &t);
	if (!t.rows || rest->h < t.rows + 1 + HIST_ROWS + GRAPH_ROWS)
		return;
	table_draw(&v->grid, take(rest, t.rows + 1 + spaced), &t);
}

/* ---- histograms ----------------------------------------------------------- */

static const struct {
	const char *title;
	enum histogram_id id;
} hists[] = {
	{ "TTFT", HISTOGRAM_TTFT },
	{ "gap", HISTOGRAM_EVENT_GAP },
	{ "duration", HISTOGRAM_DURATION },
};
#define HISTS ((int)(sizeof(hists) / sizeof(*hists)))

static void draw_hists(struct view *v, struct rect r)
{
	int n = r.w / HIST_COLUMNS < HISTS ? r.w / HIST_COLUMNS : HISTS, w;

	if (n < 1 || r.h < BUCKETS_ROWS_LEAST)
		return;
	w = (r.w + 2) / n;
	for (int i = 0; i < n; i++)
		buckets_draw(&v->grid,
			     (struct rect){ r.x + i * w, r.y, w - 2, r.h },
			     hists[i].title, &v->shot.hists[hists[i].id],
			     NUMBER_SECONDS, EXPLAIN_HISTOGRAM + hists[i].id);
}

/* ---- graphs --------------------------------------------------------------- */

static const struct request_graph {
	const char *title;
	enum history_series series;
	enum metric_id metric; /* METRICS: the newest of the series */
	enum number_form form;
} graphs[] = {
	{ "in flight", HISTORY_IN_FLIGHT, METRIC_IN_FLIGHT, NUMBER_COUNT },
	{ "arriving", HISTORY_ARRIVALS, METRIC_ARRIVALS, NUMBER_RATE },
	{ "completed", HISTORY_COMPLETED, METRICS, NUMBER_RATE },
	{ "aborted", HISTORY_ABORTED, METRICS, NUMBER_RATE },
	{ "events", HISTORY_EVENTS, METRIC_EVENTS, NUMBER_RATE },
	{ "TTFT p50", HISTORY_TTFT_P50, METRICS, NUMBER_SECONDS },
};
#define GRAPHS ((int)(sizeof(graphs) / sizeof(*graphs)))

static void draw_graph(struct view *v, struct rect r,
		       const struct request_graph *o)
{
	double samples[2 * GRID_COLUMNS_MAX], top = 0;
	char title[48], text[NUMBER_TEXT], note[NUMBER_TEXT + 16];
	struct rect graph = { r.x + 1, r.y + 1, r.w - 2, r.h - 1 };
	unsigned n = graph_samples(&v->grid, graph.w);
	bool known = false;

	if (n == 0 || n > 2 * GRID_COLUMNS_MAX || r.h < 2)
		return;
	history_series(&v->history, o->series, n, samples);
	for (unsigned i = 0; i < n; i++) {
		top = samples[i] > top ? samples[i] : top;
		known |= isfinite(samples[i]);
	}
	graph_draw(&v->grid, graph, samples, n, top, STYLE_SPARK);
	if (o->metric < METRICS)
		format_value(text, v->shot.metrics[o->metric], o->form);
	else
		format_number(text, samples[n - 1], o->form);
	snprintf(title, sizeof(title), "%s %s", o->title, text);
	format_number(text, top, o->form);
	snprintf(note, sizeof(note), "%s, top %s",
		 history_span_name(&v->history), text);
	if (!known)
		snprintf(note, sizeof(note), "no data");
	rule_draw(&v->grid, r, title, note);
}

/* As many rows of graphs as are worth it, in columns where it is wide. */
static void draw_graphs(struct view *v, struct rect r)
{
	int columns = r.w >= 150 ? 3 : r.w >= 70 ? 2 : 1;
	int rows = (GRAPHS + columns - 1) / columns, w = r.w / columns, h;

	if (rows > r.h / GRAPH_ROWS)
		rows = r.h / GRAPH_ROWS;
	if (rows < 1)
		return;
	h = r.h / rows;
	for (int i = 0; i < rows * columns && i < GRAPHS; i++)
		draw_graph(v,
			   (struct rect){ r.x + i % columns * w,
					  r.y + i / columns * h, w, h },
			   &graphs[i]);
}

/* ---- the screen ----------------------------------------------------------- */

static void requests_draw(struct view *v, struct rect body)
{
	struct rect rest = { body.x + 1, body.y, body.w - 2, body.h };
	bool spaced = body.h >= SPACED_ROWS;
	int hist = 0;

	draw_now(v, take(&rest, 1));
	draw_totals(v, take(&rest, 1));
	draw_queues(v, take(&rest, 1 + spaced));
	draw_endpoints(v, &rest, spaced);
	draw_latencies(v, &rest, spaced);
	draw_checks(v, &rest, spaced);
	if (rest.h >= HIST_ROWS)
		hist = rest.h / HIST_SHARE > HIST_ROWS ? rest.h / HIST_SHARE
						       : HIST_ROWS;
	draw_hists(v, take(&rest, hist));
	rest.x = body.x;
	rest.w = body.w;
	draw_graphs(v, rest);
}

const struct screen screen_requests = {
	.title = "requests",
	.key = '4',
	.draw = requests_draw,
};
