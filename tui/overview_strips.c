#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "tui/overview.h"
#include "tui/widgets.h"

static const struct strip {
	const char *label;
	size_t offset;
	enum number_form form;
} strips[] = {
	{ "time/step", offsetof(struct snapshot_layer, seconds_per_step),
	  NUMBER_SECONDS },
	{ "active", offsetof(struct snapshot_layer, active_experts),
	  NUMBER_COUNT },
	{ "DRAM/step", offsetof(struct snapshot_layer, dram_bytes_per_step),
	  NUMBER_BYTES },
};
#define STRIPS ((int)(sizeof(strips) / sizeof(*strips)))

static unsigned layers(const struct snapshot *s)
{
	return s->n_layers < SNAPSHOT_LAYERS_MAX ? s->n_layers
						 : SNAPSHOT_LAYERS_MAX;
}

static double layer_value(const struct snapshot *s, unsigned i,
			  const struct strip *t)
{
	const struct value *v =
		(const void *)((const char *)&s->layers[i] + t->offset);

	return value_known(*v) ? v->v : NAN;
}

static bool strip_known(const struct snapshot *s, const struct strip *t)
{
	for (unsigned i = 0; i < layers(s); i++)
		if (isfinite(layer_value(s, i, t)))
			return true;
	return false;
}

int overview_strip_count(const struct snapshot *s)
{
	int n = 0;

	for (int i = 0; i < STRIPS; i++)
		n += strip_known(s, &strips[i]);
	return n;
}

/* Layers to samples, in proportion; where layers share a sample it shows the
 * largest of them. */
static void spread(const struct snapshot *s, const struct strip *t,
		   unsigned room, double *out)
{
	unsigned n = layers(s);

	for (unsigned i = 0; i < room; i++) {
		unsigned from = i * n / room, to = (i + 1) * n / room;
		out[i] = layer_value(s, from, t);
		for (unsigned k = from + 1; k < to; k++) {
			double x = layer_value(s, k, t);
			if (!(out[i] >= x))
				out[i] = x;
		}
	}
}

static void draw_strip(struct view *v, struct rect r, const struct strip *t)
{
	double samples[2 * GRID_COLUMNS_MAX], low = INFINITY, high = -INFINITY;
	char from[NUMBER_TEXT], to[NUMBER_TEXT], range[2 * NUMBER_TEXT + 8];
	struct rect graph = { r.x + 11, r.y, r.w - 11 - 20, 1 };
	unsigned room = graph_samples(&v->grid, graph.w);

	if (room == 0 || room > 2 * GRID_COLUMNS_MAX)
		return;
	for (unsigned i = 0; i < layers(&v->shot); i++) {
		double x = layer_value(&v->shot, i, t);
		low = x < low ? x : low;
		high = x > high ? x : high;
	}
	spread(&v->shot, t, room, samples);
	graph_draw(&v->grid, graph, samples, room, high, STYLE_SPARK);
	format_number(from, low, t->form);
	format_number(to, high, t->form);
	snprintf(range, sizeof(range), "%s..%s", from, to);
	grid_text(&v->grid, r, 1, 0, STYLE_DIM, t->label);
	text_right(&v->grid, r, r.w - 20, 0, 19, STYLE_NORMAL, range);
}

void overview_strips(struct view *v, struct rect r)
{
	char note[48];
	int y = 1;

	if (r.h < 2)
		return;
	snprintf(note, sizeof(note), "0 to %u, left to right",
		 layers(&v->shot) - 1);
	rule_draw(&v->grid, r, "by layer", note);
	for (int i = 0; i < STRIPS && y < r.h; i++)
		if (strip_known(&v->shot, &strips[i]))
			draw_strip(v, (struct rect){ r.x, r.y + y++, r.w, 1 },
				   &strips[i]);
}
