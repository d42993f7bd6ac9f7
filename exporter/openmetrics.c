/*
 * openmetrics.c - OpenMetrics 1.0
 *
 * As the text format, but families are named without _total and _info, units
 * are told, counters and histograms say since when they count, and the end is
 * marked.  The regime stays a gauge: a StateSet would rename its label.
 */
#include "exporter/render.h"

#include <string.h>

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && strcmp(s + n - m, end) == 0;
}

static const char *type_name(enum family_type t)
{
	static const char *const names[] = {
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_COUNTER] = "counter",
		[FAMILY_INFO] = "info",
		[FAMILY_HISTOGRAM] = "histogram",
	};

	return names[t];
}

/* The suffix that only samples have. */
static const char *suffix_of(const struct family_info *f)
{
	switch (f->type) {
	case FAMILY_COUNTER:
		return "_total";
	case FAMILY_INFO:
		return "_info";
	case FAMILY_GAUGE:
	case FAMILY_HISTOGRAM:
		break;
	}
	return "";
}

const char *openmetrics_unit(const char *family)
{
	static const char *const units[] = { "seconds", "bytes", "ratio" };

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		char end[16];

		snprintf(end, sizeof(end), "_%s", units[i]);
		if (ends_with(family, end))
			return units[i];
	}
	return NULL;
}

static void write_head(struct text *t, const struct family_info *f,
		       const char *name)
{
	const char *unit = openmetrics_unit(name);

	text_printf(t, "# TYPE moetop_%s %s\n", name, type_name(f->type));
	if (unit && f->type != FAMILY_INFO)
		text_printf(t, "# UNIT moetop_%s %s\n", name, unit);
	text_printf(t, "# HELP moetop_%s ", name);
	text_label(t, f->help);
	text_write(t, "\n", 1);
}

static void write_family(struct lines *l, const struct family *f)
{
	const struct exposition *x = l->x;
	const char *suffix = suffix_of(f->info);
	char name[80];

	snprintf(name, sizeof(name), "%.*s",
		 (int)(strlen(f->info->name) - strlen(suffix)), f->info->name);
	write_head(l->t, f->info, name);
	for (unsigned i = f->first; i < f->first + f->n; i++) {
		const struct series *s = &x->series[i];

		if (f->info->type == FAMILY_HISTOGRAM)
			lines_hist(l, name, s);
		else
			lines_value(l, name, suffix, s, s->value);
		if (s->created > 0 && (f->info->type == FAMILY_COUNTER ||
				       f->info->type == FAMILY_HISTOGRAM))
			lines_value(l, name, "_created", s, s->created);
	}
}

void render_openmetrics(struct text *t, const struct exposition *x)
{
	struct lines l;

	if (lines_begin(&l, t, x))
		return;
	l.float_bounds = true;
	for (unsigned i = 0; i < x->n_families; i++)
		write_family(&l, &x->families[i]);
	text_printf(t, "# EOF\n");
	lines_end(&l);
}

static void openmetrics_write(struct text *t, const struct snapshot *s)
{
	render_snapshot(t, s, render_openmetrics);
}

const struct format format_openmetrics = {
	.name = "openmetrics",
	.content_type =
		"application/openmetrics-text; version=1.0.0; charset=utf-8",
	.write = openmetrics_write,
};
