#include "tui/layout.h"

#include <string.h>

#define TIERS_ROWS_MIN 14
#define REMEDY_ROWS_MIN 18
#define BOX_ROWS 2
#define VERDICT_TEXT_MAX 6
#define TALL_GRAPH 3 /* before tables get more than a few rows */
#define TALLEST_GRAPH 8
#define WIDE_COLUMNS 150 /* classes beside layers */

static struct rect take_rows(struct rect *from, int n)
{
	struct rect r = { from->x, from->y, from->w, n };

	from->y += n;
	from->h -= n;
	return r;
}

void layout_frame(int columns, int rows, bool remedy, bool message,
		  struct frame_layout *out)
{
	struct rect rest = { 0, 0, columns, rows };

	*out = (struct frame_layout){
		.header = take_rows(&rest, 1),
		.tiers = take_rows(&rest, rows >= TIERS_ROWS_MIN),
		.remedy = take_rows(&rest, remedy && rows >= REMEDY_ROWS_MIN),
	};
	out->keys = (struct rect){ 0, rows - 1, columns, 1 };
	rest.h--;
	if (message) {
		out->message = (struct rect){ 0, rows - 2, columns, 1 };
		rest.h--;
	}
	out->body = rest;
}

int layout_verdict_width(int columns)
{
	return columns - 4;
}

/* Give up to `want` of the rows that are left. */
static int grant(int *left, int want)
{
	int n = want < *left ? want : *left;

	n = n > 0 ? n : 0;
	*left -= n;
	return n;
}

/* All of it or nothing. */
static int grant_whole(int *left, int want)
{
	return want <= *left ? grant(left, want) : 0;
}

/* A section under a rule: worth it from `least` rows below the rule on. */
static int grant_section(int *left, int least, int most)
{
	if (most <= 0 || *left < least + 1)
		return 0;
	return grant(left, most + 1);
}

static int graph_columns(int columns)
{
	return columns >= 160 ? 4 : columns >= 120 ? 3 : columns >= 60 ? 2 : 1;
}

/* Rows of graphs, the first one granted before anything optional. */
static void place_history(int *left, int *rows, bool first,
			  const struct overview_needs *needs,
			  struct overview_layout *out)
{
	int all = (needs->graphs + out->graph_columns - 1) / out->graph_columns;

	if (first) {
		out->graph_height = 1;
		out->graph_rows = grant(left, all < 2 ? all : 2);
		rows[PART_HISTORY] = out->graph_rows;
		return;
	}
	if (out->graph_rows && grant_whole(left, 1))
		rows[PART_HISTORY]++;
	else
		return;
	int more = grant(left, all - out->graph_rows);
	out->graph_rows += more;
	rows[PART_HISTORY] += more;
}

/* Make the graphs taller, all of them alike. */
static void grow_graphs(int *left, int *rows, int height,
			struct overview_layout *out)
{
	while (out->graph_rows && out->graph_height < height &&
	       grant_whole(left, out->graph_rows)) {
		out->graph_height++;
		rows[PART_HISTORY] += out->graph_rows;
	}
}

static int table_rows(const struct overview_needs *needs, bool wide)
{
	int layers = needs->layers, classes = wide ? needs->classes : 0;
	int most = layers > classes ? layers : classes;

	return most > 0 ? most + 1 : 0;
}

static void hand_out(int left, const struct overview_needs *needs, bool wide,
		     int rows[OVERVIEW_PARTS], struct overview_layout *out)
{
	int need = needs->verdict_rows < 1 ? 1 : needs->verdict_rows;
	int verdict = grant(&left, 1);

	need = need < VERDICT_TEXT_MAX ? need : VERDICT_TEXT_MAX;
	rows[PART_BARS] = grant(&left, 4);
	rows[PART_REQUESTS] = grant(&left, 1);
	rows[PART_STEP] = grant(&left, 1);
	verdict += grant(&left, need - verdict < 2 ? need - verdict : 2);
	rows[PART_STEP] += grant(&left, 1);
	rows[PART_REQUESTS] += grant(&left, 2);
	out->boxed = grant_whole(&left, BOX_ROWS);
	verdict += grant(&left, need - verdict);
	rows[PART_VERDICT] = verdict + (out->boxed ? BOX_ROWS : 0);
	place_history(&left, rows, true, needs, out);
	rows[PART_FINDINGS] = grant_section(
		&left, 1, needs->findings < 2 ? needs->findings : 2);
	place_history(&left, rows, false, needs, out);
	if (rows[PART_FINDINGS])
		rows[PART_FINDINGS] +=
			grant(&left, needs->findings + 1 - rows[PART_FINDINGS]);
	if (rows[PART_REQUESTS] == 3)
		rows[PART_REQUESTS] += grant(&left, needs->server);
	rows[PART_STRIPS] = grant_section(&left, 1, needs->strips);
	int table = table_rows(needs, wide);
	rows[PART_LAYERS] = grant_section(&left, 3, table < 9 ? table : 9);
	grow_graphs(&left, rows, TALL_GRAPH, out);
	if (rows[PART_LAYERS])
		rows[PART_LAYERS] +=
			grant(&left, table + 1 - rows[PART_LAYERS]);
	grow_graphs(&left, rows, TALLEST_GRAPH, out);
}

void layout_overview(struct rect body, const struct overview_needs *needs,
		     struct overview_layout *out)
{
	int rows[OVERVIEW_PARTS] = { 0 };
	bool wide = body.w >= WIDE_COLUMNS && needs->classes > 0;

	memset(out, 0, sizeof(*out));
	out->graph_columns = graph_columns(body.w);
	hand_out(body.h, needs, wide, rows, out);
	for (int i = 0; i < OVERVIEW_PARTS; i++)
		out->part[i] = take_rows(&body, rows[i]);
	struct rect *layers = &out->part[PART_LAYERS];
	if (wide && layers->h) {
		struct rect *classes = &out->part[PART_CLASSES];
		*classes = *layers;
		layers->w = needs->layers > 0 ? layers->w * 3 / 5 : 0;
		classes->x += layers->w;
		classes->w -= layers->w;
	}
}

void layout_bar(int columns, struct bar_layout *out)
{
	bool narrow = columns < 70;
	int label_w = narrow ? 10 : 11, value_w = 10;
	int bar_w = narrow          ? columns - label_w - value_w - 1
		    : columns < 100 ? 22
				    : columns * 2 / 5 - 11;

	bar_w = bar_w < 60 ? bar_w : 60;
	*out = (struct bar_layout){
		.label = 1,
		.bar = label_w,
		.bar_w = bar_w,
		.value = label_w + bar_w,
		.value_w = value_w,
		.detail = label_w + bar_w + value_w + 2,
	};
	out->detail_w = narrow ? 0 : columns - out->detail - 1;
}
