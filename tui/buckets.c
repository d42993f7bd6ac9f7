#include "tui/buckets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/widgets.h"

#define BUCKET_OCTAVES (1 / 16.0)
#define OCTAVES_LEAST 1.0 /* of the axis */

static unsigned buckets_of(const struct snapshot_hist *h)
{
	return h->n_buckets < SNAPSHOT_BUCKETS_MAX ? h->n_buckets
						   : SNAPSHOT_BUCKETS_MAX;
}

/* Both ends of a bucket, in octaves; false for one that is no use. */
static bool ends_of(const struct snapshot_hist *h, unsigned i, double *lo,
		    double *hi)
{
	double below = i ? h->buckets[i - 1].upper : 0;
	double upper = h->buckets[i].upper;

	if (!(upper > 0) || !isfinite(upper) || !h->buckets[i].count)
		return false;
	*hi = log2(upper);
	*lo = *hi - BUCKET_OCTAVES;
	if (below > 0 && log2(below) > *lo && below < upper)
		*lo = log2(below);
	return true;
}

static void spread(double count, double lo, double hi, unsigned n, double *out)
{
	for (unsigned i = lo > 0 ? (unsigned)lo : 0; i < n && i < hi; i++) {
		double from = fmax(lo, i), to = fmin(hi, i + 1.0);

		if (to > from)
			out[i] += count * (to - from) / (hi - lo);
	}
}

bool buckets_spread(const struct snapshot_hist *h, unsigned n, double *out,
		    double *from, double *to)
{
	double first = INFINITY, last = -INFINITY, lo, hi;

	for (unsigned i = 0; i < buckets_of(h); i++)
		if (ends_of(h, i, &lo, &hi)) {
			first = fmin(first, lo);
			last = fmax(last, hi);
		}
	if (!(last > first) || !n)
		return false;
	if (last - first < OCTAVES_LEAST) {
		double more = (OCTAVES_LEAST - (last - first)) / 2;

		first -= more;
		last += more;
	}
	for (unsigned i = 0; i < n; i++)
		out[i] = 0;
	for (unsigned i = 0; i < buckets_of(h); i++)
		if (ends_of(h, i, &lo, &hi))
			spread((double)h->buckets[i].count,
			       (lo - first) / (last - first) * n,
			       (hi - first) / (last - first) * n, n, out);
	*from = exp2(first);
	*to = exp2(last);
	return true;
}

/* ---- drawing -------------------------------------------------------------- */

static void draw_title(struct grid *g, struct rect r, const char *title,
		       const struct snapshot_hist *h, enum number_form form,
		       unsigned about)
{
	static const char *const labels[] = { "p50", "p90", "p99" };
	const struct value values[] = { h->p50, h->p90, h->p99 };
	struct fields fs = { 0 };

	fields_add(&fs, 0, STYLE_TITLE, "", "%s", title);
	for (unsigned i = 0; i < 3; i++) {
		fields_value(&fs, i == 1 ? 2 : i / 2, labels[i], values[i],
			     form);
		fields_about(&fs, about);
	}
	fields_draw(g, r, 0, " ", &fs, NULL);
}

/* Both ends of the axis, and the quantiles between them where there is room. */
static void draw_axis(struct grid *g, struct rect r,
		      const struct snapshot_hist *h, double from, double to,
		      enum number_form form)
{
	static const char *const names[] = { "▲50", "▲90", "▲99" };
	const struct value values[] = { h->p50, h->p90, h->p99 };
	char left[NUMBER_TEXT], right[NUMBER_TEXT];
	int room, last;

	format_number(left, from, form);
	format_number(right, to, form);
	grid_line(g, r, 0, STYLE_FRAME);
	last = grid_text(g, r, 0, 0, STYLE_DIM, left);
	room = r.w - grid_width(g, right, strlen(right));
	grid_text(g, r, room, 0, STYLE_DIM, right);
	for (unsigned i = 0; i < 3; i++) {
		double at = log2(values[i].v / from) / log2(to / from);
		int x = (int)lround(at * (r.w - 1));

		if (!value_known(values[i]) || !(at >= 0 && at <= 1) ||
		    x < last || x + 1 >= room)
			continue;
		last = x + 1;
		if (x + 4 <= room)
			last = x +
			       grid_text(g, r, x, 0, STYLE_STRONG, names[i]);
		else
			grid_put(g, r, x, 0, STYLE_STRONG, 0x25b2);
	}
}

void buckets_draw(struct grid *g, struct rect r, const char *title,
		  const struct snapshot_hist *h, enum number_form form,
		  unsigned about)
{
	double counts[2 * GRID_COLUMNS_MAX], from, to, top = 0;
	struct rect bars = { r.x, r.y + 1, r.w, r.h - 2 };
	unsigned n = graph_samples(g, r.w);

	if (r.h < BUCKETS_ROWS_LEAST || !n || n > 2 * GRID_COLUMNS_MAX)
		return;
	draw_title(g, r, title, h, form, about);
	if (!buckets_spread(h, n, counts, &from, &to)) {
		grid_text(g, bars, 0, bars.h - 1, STYLE_DIM, "no data");
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		top = fmax(top, counts[i]);
		if (!(counts[i] > 0))
			counts[i] = NAN;
	}
	graph_draw(g, bars, counts, n, top, STYLE_SPARK);
	draw_axis(g, (struct rect){ r.x, r.y + r.h - 1, r.w, 1 }, h, from, to,
		  form);
}
