/* The Prometheus text format 0.0.4. */
#include "exporter/render.h"

#include <string.h>

static const char *type_name(enum family_type t)
{
	static const char *const names[] = {
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_COUNTER] = "counter",
		[FAMILY_INFO] = "gauge",
		[FAMILY_HISTOGRAM] = "histogram",
	};

	return names[t];
}

void render_prometheus(struct text *t, const struct exposition *x)
{
	struct lines l;

	if (lines_begin(&l, t, x))
		return;
	for (unsigned i = 0; i < x->n_families; i++) {
		const struct family *f = &x->families[i];

		text_printf(t, "# HELP moetop_%s ", f->info->name);
		text_label(t, f->info->help);
		text_printf(t, "\n# TYPE moetop_%s %s\n", f->info->name,
			    type_name(f->info->type));
		for (unsigned k = f->first; k < f->first + f->n; k++)
			if (f->info->type == FAMILY_HISTOGRAM)
				lines_hist(&l, f->info->name, &x->series[k]);
			else
				lines_value(&l, f->info->name, "",
					    &x->series[k], x->series[k].value);
	}
	lines_end(&l);
}

static void prometheus_write(struct text *t, const struct snapshot *s)
{
	render_snapshot(t, s, render_prometheus);
}

const struct format format_prometheus = {
	.name = "prometheus",
	.content_type = "text/plain; version=0.0.4; charset=utf-8",
	.write = prometheus_write,
};
