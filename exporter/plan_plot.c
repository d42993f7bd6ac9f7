#include "exporter/plan_text.h"
#include "exporter/text.h"

#include <math.h>
#include <string.h>

#define COLUMNS_MIN 40u
#define COLUMNS_MAX 200u
#define MARGIN 10u /* columns of the labels of an axis */
#define ROWS 8u
#define DOTS 4u /* of a cell, upwards; two sideways */
#define BOTTOM (ROWS * DOTS - 1)

/* Values under a logarithm spread over a factor of at least this. */
#define SPREAD_MIN 2.0

struct chart {
	const struct model_plan *const *plans;
	unsigned n, columns; /* of the canvas */
	bool ascii;
	double ln_first, ln_last; /* of B */
	double low, high;         /* of the value; logarithms if is_log */
	bool is_log;
	double (*value)(const struct plan_point *);
	uint8_t dots[ROWS][COLUMNS_MAX]; /* one plan: a bit for each dot */
	char letters[ROWS][COLUMNS_MAX];
};

/* ---- values ------------------------------------------------------------ */

static double gain(const struct plan_point *x)
{
	return x->shares.gain;
}

static double megabytes(const struct plan_point *x)
{
	return x->bytes_per_token / 1e6;
}

static double cost(const struct plan_point *x)
{
	return x->usd_per_mtok;
}

static double speed(const struct plan_point *x)
{
	return x->tokens_per_s;
}

/* B at a place from 0 to 1. */
static double batch_at(const struct chart *c, double place)
{
	return exp(c->ln_first + (c->ln_last - c->ln_first) * place);
}

/* NAN: not known. */
static double value_at(const struct chart *c, unsigned i, double place)
{
	struct plan_point x;
	double v;

	plan_point_at(&c->plans[i]->in, batch_at(c, place), &x);
	v = c->value(&x);
	if (!c->is_log)
		return v;
	return v > 0 ? log(v) : NAN;
}

static void find_range(struct chart *c)
{
	double first = INFINITY, last = -INFINITY, missing;

	for (unsigned i = 0; i < c->n; i++) {
		for (unsigned x = 0; x <= 32; x++) {
			double v = value_at(c, i, x / 32.0);

			if (v < first)
				first = v;
			if (v > last)
				last = v;
		}
	}
	if (!(first <= last))
		first = last = 0;
	missing = log(SPREAD_MIN) - (last - first);
	if (missing > 0) {
		first -= missing / 2;
		last += missing / 2;
	}
	c->low = first;
	c->high = last;
}

/* ---- drawing ----------------------------------------------------------- */

static int dot_of(const struct chart *c, double v)
{
	double height = (v - c->low) / (c->high - c->low);

	if (!isfinite(height))
		return -1;
	return (int)BOTTOM - (int)lround(fmin(fmax(height, 0), 1) * BOTTOM);
}

static void put_dot(struct chart *c, unsigned x, unsigned y)
{
	static const uint8_t bits[DOTS][2] = {
		{ 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
	};

	c->dots[y / DOTS][x / 2] |= bits[y % DOTS][x % 2];
}

/* One curve in dots, without gaps where it is steep. */
static void draw_dots(struct chart *c)
{
	unsigned width = c->columns * 2;
	int before = -1;

	for (unsigned x = 0; x < width; x++) {
		int y = dot_of(c, value_at(c, 0, x / (width - 1.0)));
		int from = y;

		if (y >= 0 && before >= 0)
			from = before < y   ? before + 1
			       : before > y ? before - 1
					    : y;
		for (int at = y; y >= 0; at += from > y ? 1 : -1) {
			put_dot(c, x, (unsigned)at);
			if (at == from)
				break;
		}
		before = y;
	}
}

/* Curves in letters: the plan's, or * where several meet. */
static void draw_letters(struct chart *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		for (unsigned x = 0; x < c->columns; x++) {
			int y = dot_of(c,
				       value_at(c, i, x / (c->columns - 1.0)));
			char *cell =
				y < 0 ? NULL : &c->letters[y / (int)DOTS][x];

			if (cell && (*cell || c->n == 1))
				*cell = '*';
			else if (cell)
				*cell = (char)('A' + i);
		}
	}
}

static void put_braille(struct text *t, unsigned bits)
{
	const char utf8[] = { (char)0xe2, (char)(0xa0 | bits >> 6),
			      (char)(0x80 | (bits & 0x3f)) };

	text_write(t, utf8, sizeof(utf8));
}

/* A column's place on the axis, rounded. */
static long column_of(const struct chart *c, double b)
{
	double place = (log(b) - c->ln_first) / (c->ln_last - c->ln_first);

	return lround(place * (c->columns - 1));
}

/* What is in an empty cell: the valley shows through, its floor as a line. */
static const char *ground(const struct chart *c, unsigned x)
{
	const struct plan_valley *v = &c->plans[0]->valley;

	if (c->n > 1 || !(v->floor > 0))
		return " ";
	if (column_of(c, v->floor) == (long)x)
		return c->ascii ? ":" : "┊";
	if (column_of(c, v->enter) <= (long)x &&
	    column_of(c, v->exit) >= (long)x)
		return c->ascii ? "." : "·";
	return " ";
}

static void write_label(struct text *t, const struct chart *c, unsigned row)
{
	double at = c->high - (c->high - c->low) * row / (ROWS - 1.0);
	double v = c->is_log ? exp(at) : at;
	bool told =
		row == 0 || row == ROWS - 1 || (row == ROWS / 2 && c->is_log);

	if (!told)
		text_printf(t, "%8s %s", "", c->ascii ? "|" : "│");
	else if (v > 0 && (v < 0.001 || v >= 1e7))
		text_printf(t, "%8.1e %s", v, c->ascii ? "+" : "┤");
	else
		text_printf(t, "%8.*f %s",
			    v >= 100 ? 0
			    : v >= 1 ? 2
				     : 3,
			    v, c->ascii ? "+" : "┤");
}

static bool is_blank(const struct chart *c, unsigned row, unsigned x)
{
	return !c->letters[row][x] && !c->dots[row][x] &&
	       strcmp(ground(c, x), " ") == 0;
}

static void write_cell(struct text *t, const struct chart *c, unsigned row,
		       unsigned x)
{
	if (c->letters[row][x])
		text_write(t, &c->letters[row][x], 1);
	else if (c->dots[row][x])
		put_braille(t, c->dots[row][x]);
	else
		text_printf(t, "%s", ground(c, x));
}

static void write_canvas(struct text *t, const struct chart *c)
{
	for (unsigned row = 0; row < ROWS; row++) {
		unsigned end = c->columns;

		while (end > 0 && is_blank(c, row, end - 1))
			end--;
		write_label(t, c, row);
		for (unsigned x = 0; x < end; x++)
			write_cell(t, c, row, x);
		text_printf(t, "\n");
	}
}

/* ---- the axis of B ----------------------------------------------------- */

static void write_axis(struct text *t, const struct chart *c)
{
	char line[COLUMNS_MAX + 16];
	long free_from = 0, columns = (long)c->columns;

	text_printf(t, "%8s %s", "", c->ascii ? "+" : "└");
	for (unsigned x = 0; x < c->columns; x++)
		text_printf(t, "%s", c->ascii ? "-" : "─");
	memset(line, ' ', sizeof(line));
	for (double b = 1; b < PLAN_BATCH_MAX * 2; b *= 2) {
		char label[16];
		int n = snprintf(label, sizeof(label), "%.0f", b);
		long x = column_of(c, b);

		if (x >= columns || x < 0)
			continue;
		if (x + n > columns)
			x = columns - n;
		if (x < free_from)
			continue;
		memcpy(line + x, label, (size_t)n);
		free_from = x + n + 2;
	}
	line[free_from > 2 ? free_from - 2 : 0] = '\0';
	text_printf(t, "\n%8s  %s\n", "B", line);
}

static long clamp_column(const struct chart *c, double b)
{
	long x = column_of(c, b);

	return x < 0 ? 0 : x >= (long)c->columns ? (long)c->columns - 1 : x;
}

/* Where each plan's valley lies on the axis. */
static void write_valley(struct text *t, const struct chart *c, unsigned i)
{
	const struct plan_valley *v = &c->plans[i]->valley;
	long enter, floor_at, exit_at;

	text_printf(t, "%8s  ", i ? "" : "valley");
	if (!(v->floor > 0)) {
		text_printf(t, "none\n");
		return;
	}
	if (column_of(c, v->exit) < 0 ||
	    column_of(c, v->enter) >= (long)c->columns) {
		text_printf(t, "%s\n",
			    column_of(c, v->exit) < 0 ? "before these batches"
						      : "beyond these batches");
		return;
	}
	enter = clamp_column(c, v->enter);
	floor_at = clamp_column(c, v->floor);
	exit_at = clamp_column(c, v->exit);
	for (long x = 0; x <= exit_at; x++) {
		const char *sign = c->ascii ? "=" : "━";

		if (x < enter)
			sign = " ";
		else if (x == floor_at)
			sign = c->ascii ? "V" : "▼";
		text_printf(t, "%s", sign);
	}
	if (c->n > 1 && exit_at + 2 < (long)c->columns)
		text_printf(t, " %c", 'A' + (int)i);
	text_printf(t, "\n");
}

static void write_chart(struct text *t, struct chart *c, const char *title)
{
	memset(c->dots, 0, sizeof(c->dots));
	memset(c->letters, 0, sizeof(c->letters));
	if (c->is_log)
		find_range(c);
	if (c->n == 1 && !c->ascii)
		draw_dots(c);
	else
		draw_letters(c);
	text_printf(t, "\n%s\n", title);
	write_canvas(t, c);
	write_axis(t, c);
}

static void find_batches(struct chart *c)
{
	const struct model_plan *p = c->plans[0];
	double first = p->points[0].batch, last = first;

	for (unsigned i = 1; i < p->n_points; i++) {
		first = fmin(first, p->points[i].batch);
		last = fmax(last, p->points[i].batch);
	}
	if (last < 2 * first)
		last = 2 * first;
	c->ln_first = log(first);
	c->ln_last = log(last);
}

void plan_write_plot(struct text *out, const struct model_plan *const *plans,
		     unsigned n, unsigned columns, bool ascii)
{
	struct chart c = { .plans = plans, .n = n, .ascii = ascii };
	struct c_locale locale;
	bool priced = true;

	columns = columns < COLUMNS_MIN   ? COLUMNS_MIN
		  : columns > COLUMNS_MAX ? COLUMNS_MAX
					  : columns;
	c.columns = columns - MARGIN;
	for (unsigned i = 0; i < n; i++)
		priced &= plans[i]->in.usd_per_gpu_hour > 0;
	c_locale_enter(&locale);
	find_batches(&c);
	c.value = gain;
	c.high = 1;
	write_chart(out, &c, "eta: how free one more request is");
	for (unsigned i = 0; i < n; i++)
		write_valley(out, &c, i);
	c.is_log = true;
	c.value = megabytes;
	write_chart(out, &c, "MB read per token");
	c.value = priced ? cost : speed;
	write_chart(out, &c,
		    priced ? "$ per million tokens" : "tokens per second");
	c_locale_leave(&locale);
}
