/*
 * render.h - what the formats of an exposition share; internal to exporter/
 */
#ifndef MOETOP_EXPORTER_RENDER_H
#define MOETOP_EXPORTER_RENDER_H

#include "exporter/exposition.h"
#include "exporter/text.h"

/* Append; out->error tells whether it fitted. */
void render_prometheus(struct text *t, const struct exposition *x);
void render_openmetrics(struct text *t, const struct exposition *x);
void render_protobuf(struct text *t, const struct exposition *x);

/* One snapshot by one of them, with the default options and no ages. */
void render_snapshot(struct text *t, const struct snapshot *s,
		     void (*render)(struct text *t,
				    const struct exposition *x));

/* The unit that a family's name ends with, or NULL. */
const char *openmetrics_unit(const char *family);

/* ---- lines of the two text formats -------------------------------------- */

struct lines {
	struct text *t;
	const struct exposition *x;
	struct text *bases; /* the labels of each base, written once */
	bool float_bounds;  /* le="1.0", not "1" */
};

/* 0, or -ENOMEM which is also t->error. */
int lines_begin(struct lines *l, struct text *t, const struct exposition *x);
void lines_value(struct lines *l, const char *name, const char *suffix,
		 const struct series *s, double v);
/* _bucket, _sum and _count */
void lines_hist(struct lines *l, const char *name, const struct series *s);
void lines_end(struct lines *l);

#endif
