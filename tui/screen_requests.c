#include <math.h>
#include <stdio.h>

#include "tui/screen.h"
#include "tui/table.h"
#include "tui/widgets.h"

#define GAP "   "

/* ---- latencies ----------------------------------------------------------- */

static const struct latency {
	const char *name;
	enum histogram_id id;
	const char *help;
} latencies[] = {
	{ "TTFT", HISTOGRAM_TTFT, "head complete to first body byte" },
	{ "gap", HISTOGRAM_EVENT_GAP, "between two chunks of a stream" },
	{ "duration", HISTOGRAM_DURATION, "head complete to end of response" },
};
#define LATENCIES ((int)(sizeof(latencies) / sizeof(*latencies)))

enum latency_column { NAME, COUNT, MEAN, P50, P90, P99, HELP, COLUMNS };

static const struct table_column columns[COLUMNS] = {
	[NAME] = { .title = "latency", .w = 9, .left = true },
	[COUNT] = { .title = "count", .w = 8, .rank = 3 },
	[MEAN] = { .title = "mean", .w = 9, .rank = 2 },
	[P50] = { .title = "p50", .w = 9 },
	[P90] = { .title = "p90", .w = 9, .rank = 1 },
	[P99] = { .title = "p99", .w = 9 },
	[HELP] = { .title = "  is the time", .w = 36, .rank = 4, .left = true },
};

static struct value mean(const struct snapshot_hist *h)
{
	if (!value_known(h->sum) || !value_known(h->count))
		return (struct value){ 0 };
	return value_ratio(h->sum.v, h->count.v, h->sum.source);
}

static void latency_cell(const void *context, int row, unsigned column,
			 struct table_cell *out)
{
	const struct snapshot *s = context;
	const struct latency *l = &latencies[row];
	const struct snapshot_hist *h = &s->hists[l->id];

	switch ((enum latency_column)column) {
	case NAME:
		snprintf(out->text, sizeof(out->text), "%s", l->name);
		break;
	case COUNT:
		cell_value(out, h->count, NUMBER_COUNT);
		break;
	case MEAN:
		cell_value(out, mean(h), NUMBER_SECONDS);
		break;
	case P50:
		cell_value(out, h->p50, NUMBER_SECONDS);
		break;
	case P90:
		cell_value(out, h->p90, NUMBER_SECONDS);
		break;
	case P99:
		cell_value(out, h->p99, NUMBER_SECONDS);
		break;
	case HELP:
		snprintf(out->text, sizeof(out->text), "  %s", l->help);
		out->style = STYLE_DIM;
		break;
	case COLUMNS:
		break;
	}
}

/* ---- counters and graphs ------------------------------------------------- */

static void draw_counts(struct view *v, struct rect r, int y)
{
	const struct snapshot *s = &v->shot;
	struct fields now = { 0 }, total = { 0 };

	fields_metric(&now, 0, "in flight", s, METRIC_IN_FLIGHT, NUMBER_COUNT);
	fields_metric(&now, 1, "waiting", s, METRIC_WAITING, NUMBER_COUNT);
	fields_metric(&now, 0, "arriving", s, METRIC_ARRIVALS, NUMBER_RATE);
	fields_metric(&now, 2, "events", s, METRIC_EVENTS, NUMBER_RATE);
	fields_metric(&now, 3, "engine running", s, METRIC_SCRAPED_RUNNING,
		      NUMBER_COUNT);
	fields_metric(&now, 4, "engine queued", s, METRIC_SCRAPED_WAITING,
		      NUMBER_COUNT);
	fields_draw(&v->grid, r, y, GAP, &now, NULL);
	fields_metric(&total, 0, "started", s, METRIC_STARTED, NUMBER_COUNT);
	fields_metric(&total, 0, "completed", s, METRIC_COMPLETED,
		      NUMBER_COUNT);
	fields_metric(&total, 0, "aborted", s, METRIC_ABORTED, NUMBER_COUNT);
	fields_add(&total, 1, STYLE_DIM, "", "since attach");
	if (v->shot.health.rung[0])
		fields_add(&total, 2, STYLE_NORMAL, "source", "%s",
			   v->shot.health.rung);
	fields_draw(&v->grid, r, y + 1, GAP, &total, NULL);
}

static const struct request_graph {
	const char *title;
	enum history_series series;
	enum metric_id metric;
	enum number_form form;
} graphs[] = {
	{ "in flight", HISTORY_IN_FLIGHT, METRIC_IN_FLIGHT, NUMBER_COUNT },
	{ "arriving", HISTORY_ARRIVALS, METRIC_ARRIVALS, NUMBER_RATE },
	{ "events", HISTORY_EVENTS, METRIC_EVENTS, NUMBER_RATE },
};
#define GRAPHS ((int)(sizeof(graphs) / sizeof(*graphs)))

static void draw_graph(struct view *v, struct rect r,
		       const struct request_graph *o)
{
	double samples[2 * GRID_COLUMNS_MAX], top = 0;
	char title[32], text[NUMBER_TEXT], note[NUMBER_TEXT + 16];
	struct rect graph = { r.x + 1, r.y + 1, r.w - 2, r.h - 1 };
	unsigned n = graph_samples(&v->grid, graph.w);

	if (n == 0 || n > 2 * GRID_COLUMNS_MAX || r.h < 2)
		return;
	history_series(&v->history, o->series, n, samples);
	for (unsigned i = 0; i < n; i++)
		top = samples[i] > top ? samples[i] : top;
	graph_draw(&v->grid, graph, samples, n, top, STYLE_SPARK);
	format_value(text, v->shot.metrics[o->metric], o->form);
	snprintf(title, sizeof(title), "%s %.12s", o->title, text);
	format_number(text, top, o->form);
	snprintf(note, sizeof(note), "%s, top %s",
		 history_span_name(&v->history), text);
	rule_draw(&v->grid, r, title, note);
}

static void requests_draw(struct view *v, struct rect body)
{
	struct rect r = { body.x + 1, body.y, body.w - 2, body.h };
	struct table t = {
		.columns = columns,
		.n_columns = COLUMNS,
		.rows = LATENCIES,
		.sorted = -1,
		.cell = latency_cell,
		.context = &v->shot,
	};
	int top = 3 + LATENCIES + 2, graphs_shown = GRAPHS, h;

	draw_counts(v, r, 0);
	table_draw(&v->grid,
		   (struct rect){ r.x, r.y + 3, r.w, r.h < 3 ? 0 : r.h - 3 },
		   &t);
	while (graphs_shown > 0 && (body.h - top) / graphs_shown < 3)
		graphs_shown--;
	if (!graphs_shown)
		return;
	h = (body.h - top) / graphs_shown;
	for (int i = 0; i < graphs_shown; i++)
		draw_graph(v,
			   (struct rect){ body.x, body.y + top + i * h, body.w,
					  h },
			   &graphs[i]);
}

const struct screen screen_requests = {
	.title = "requests",
	.key = '4',
	.draw = requests_draw,
};
