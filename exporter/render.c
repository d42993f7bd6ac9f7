#include "exporter/render.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void render_snapshot(struct text *t, const struct snapshot *s,
		     void (*render)(struct text *t, const struct exposition *x))
{
	const struct exposed_server server = { .snapshot = s };
	const struct exposition_options options = { 0 };
	struct exposition x;
	struct c_locale l;

	c_locale_enter(&l);
	exposition_build(&x, &server, 1, &options);
	if (x.error)
		t->error = x.error;
	else
		render(t, &x);
	exposition_free(&x);
	c_locale_leave(&l);
}

/* ---- lines -------------------------------------------------------------- */

static void write_labels(struct text *t, const struct series_label *labels,
			 unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (t->bytes && t->data[t->bytes - 1] != '{')
			text_write(t, ",", 1);
		text_write(t, labels[i].name, strlen(labels[i].name));
		text_write(t, "=\"", 2);
		text_label(t, labels[i].value);
		text_write(t, "\"", 1);
	}
}

int lines_begin(struct lines *l, struct text *t, const struct exposition *x)
{
	*l = (struct lines){ .t = t, .x = x };
	l->bases = calloc(x->n_bases, sizeof(*l->bases));
	if (!l->bases) {
		t->error = -ENOMEM;
		return -ENOMEM;
	}
	for (unsigned i = 0; i < x->n_bases; i++)
		write_labels(&l->bases[i], x->bases[i].labels, x->bases[i].n);
	return 0;
}

void lines_end(struct lines *l)
{
	for (unsigned i = 0; i < l->x->n_bases; i++) {
		if (l->bases[i].error)
			l->t->error = l->bases[i].error;
		text_free(&l->bases[i]);
	}
	free(l->bases);
}

/* Name and labels, and le where it is not NULL. */
static void begin_line(struct lines *l, const char *name, const char *suffix,
		       const struct series *s, const char *le)
{
	const struct text *base = &l->bases[s->base];
	const struct series_label bound = { "le", le };
	struct text *t = l->t;

	text_write(t, "moetop_", 7);
	text_write(t, name, strlen(name));
	text_write(t, suffix, strlen(suffix));
	if (!base->bytes && !s->n && !le)
		return;
	text_write(t, "{", 1);
	if (base->bytes)
		text_write(t, base->data, base->bytes);
	write_labels(t, l->x->labels + s->first_label, s->n);
	if (le)
		write_labels(t, &bound, 1);
	text_write(t, "}", 1);
}

void lines_value(struct lines *l, const char *name, const char *suffix,
		 const struct series *s, double v)
{
	begin_line(l, name, suffix, s, NULL);
	text_write(l->t, " ", 1);
	text_number(l->t, v);
	text_write(l->t, "\n", 1);
}

static void bucket(struct lines *l, const char *name, const struct series *s,
		   const char *le, uint64_t n)
{
	begin_line(l, name, "_bucket", s, le);
	text_printf(l->t, " %" PRIu64 "\n", n);
}

void lines_hist(struct lines *l, const char *name, const struct series *s)
{
	const struct hist_buckets *h = s->hist;
	char le[32];

	for (unsigned i = 0; i < h->n_bounds; i++) {
		double bound = h->bounds[i];

		snprintf(le, sizeof(le),
			 l->float_bounds && bound == trunc(bound) ? "%.1f"
								  : "%.15g",
			 bound);
		bucket(l, name, s, le, h->cumulative[i]);
	}
	bucket(l, name, s, "+Inf", h->count);
	lines_value(l, name, "_sum", s, h->sum);
	begin_line(l, name, "_count", s, NULL);
	text_printf(l->t, " %" PRIu64 "\n", h->count);
}
