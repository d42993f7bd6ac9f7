#include <math.h>
#include <stdio.h>

#include "tui/overview.h"
#include "tui/widgets.h"

static const struct overview_graph {
	const char *label;
	enum history_series series;
	enum metric_id metric;
	enum number_form form;
	double top; /* 0: the largest value shown */
} graphs[OVERVIEW_GRAPHS] = {
	{ "B", HISTORY_TOKENS_PER_STEP, METRIC_TOKENS_PER_STEP, NUMBER_COUNT,
	  0 },
	{ "φ", HISTORY_FRAGMENTATION, METRIC_FRAGMENTATION, NUMBER_RATIO, 1 },
	{ "η", HISTORY_MARGINAL_GAIN, METRIC_MARGINAL_GAIN, NUMBER_RATIO, 1 },
	{ "MBU", HISTORY_MBU, METRIC_MBU, NUMBER_PERCENT, 1 },
	{ "in flight", HISTORY_IN_FLIGHT, METRIC_IN_FLIGHT, NUMBER_COUNT, 0 },
	{ "tok/s", HISTORY_TOKENS, METRIC_TOKENS, NUMBER_COUNT, 0 },
	{ "step", HISTORY_STEP_SECONDS, METRIC_STEP_SECONDS, NUMBER_SECONDS,
	  0 },
	{ "arriving", HISTORY_ARRIVALS, METRIC_ARRIVALS, NUMBER_RATE, 0 },
};

static struct overview_graph graph_of(const struct view *v, int i)
{
	struct overview_graph g = graphs[i];

	if (g.series == HISTORY_MBU &&
	    !value_known(v->shot.metrics[METRIC_MBU]) &&
	    value_known(v->shot.metrics[METRIC_USEFUL_MBU])) {
		g.label = "S-MBU";
		g.series = HISTORY_USEFUL_MBU;
		g.metric = METRIC_USEFUL_MBU;
	}
	return g;
}

static double largest(const double *v, unsigned n)
{
	double top = 0;

	for (unsigned i = 0; i < n; i++)
		if (v[i] > top)
			top = v[i];
	return top;
}

static bool all_unknown(const double *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (isfinite(v[i]))
			return false;
	return true;
}

static void draw_graph(struct view *v, struct rect r,
		       const struct overview_graph *o)
{
	double samples[2 * GRID_COLUMNS_MAX];
	char text[NUMBER_TEXT];
	struct rect graph = { r.x + 10, r.y, r.w - 21, r.h };
	unsigned n = graph_samples(&v->grid, graph.w);
	double top = o->top;

	if (n == 0 || n > 2 * GRID_COLUMNS_MAX)
		return;
	history_series(&v->history, o->series, n, samples);
	top = top > 0 ? top : largest(samples, n);
	graph_draw(&v->grid, graph, samples, n, top, STYLE_SPARK);
	if (all_unknown(samples, n))
		grid_text(&v->grid, graph, 0, graph.h - 1, STYLE_DIM,
			  "no data");
	grid_text(&v->grid, r, 0, r.h - 1, STYLE_DIM, o->label);
	format_column(text, v->shot.metrics[o->metric], o->form);
	grid_about(&v->grid, EXPLAIN_METRIC + o->metric);
	text_right(&v->grid, r, r.w - 10, r.h - 1, 9,
		   format_style(v->shot.metrics[o->metric], STYLE_STRONG),
		   text);
	grid_about(&v->grid, 0);
	if (r.h < 2 || !(top > 0))
		return;
	format_number(text, top, o->form);
	text_right(&v->grid, r, r.w - 10, 0, 9, STYLE_DIM, text);
}

void overview_history(struct view *v, struct rect r,
		      const struct overview_layout *l)
{
	int columns = l->graph_columns, w = (r.w - 1) / columns;
	int rule = r.h - l->graph_rows * l->graph_height;
	char note[24];

	if (r.h < 1)
		return;
	if (rule) {
		snprintf(note, sizeof(note), "last %s",
			 history_span_name(&v->history));
		rule_draw(&v->grid, (struct rect){ r.x, r.y, r.w, 1 },
			  "history", note);
	}
	for (int i = 0; i < OVERVIEW_GRAPHS && i < columns * l->graph_rows;
	     i++) {
		struct overview_graph g = graph_of(v, i);
		int gap = i % columns ? 1 : 0;
		draw_graph(v,
			   (struct rect){ r.x + 1 + i % columns * w + gap,
					  r.y + rule +
						  i / columns * l->graph_height,
					  w - gap, l->graph_height },
			   &g);
	}
}
