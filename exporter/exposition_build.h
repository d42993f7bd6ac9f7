/*
 * exposition_build.h - how families are filled; internal to exposition.c and
 * families*.c
 */
#ifndef MOETOP_EXPORTER_EXPOSITION_BUILD_H
#define MOETOP_EXPORTER_EXPOSITION_BUILD_H

#include <stdint.h>

#include "exporter/exposition.h"
#include "exporter/text.h"

/* One server while its families are filled. */
struct builder_server {
	const struct snapshot *s;
	const double *stale_since;
	double begun;               /* unix seconds, of its counts; 0 unknown */
	unsigned base, base_no_gpu; /* label bases: all, all but gpu */
	bool hide_stale;            /* of the tables */
	bool gone;                  /* only its end is told */
	unsigned series, left_out;
};

struct builder {
	struct exposition *x;
	const struct exposition_options *options;
	unsigned n_servers, first;     /* series of the family and server */
	struct builder_server *server; /* the present one */
};

/*
 * One series of the present family and server: begin, its labels, then a value
 * or a histogram.  Beyond the server's limit it is counted and left out.
 */
void series_begin(struct builder *b);
void series_begin_gpu(struct builder *b); /* it has a label gpu of its own */
void series_label(struct builder *b, const char *name, const char *value);
/* value may go after the call */
void series_label_copy(struct builder *b, const char *name, const char *value);
void series_label_number(struct builder *b, const char *name, uint64_t n);
/* "" is left out: nothing is known */
void series_label_known(struct builder *b, const char *name, uint64_t n);
void series_label_source(struct builder *b, struct value x);
void series_end(struct builder *b, double v);
void series_end_hist(struct builder *b, const struct snapshot_hist_total *t,
		     enum histogram_id id);

/* Whether a value of a table has a series now. */
bool series_shown(const struct builder *b, struct value x);

/* One family: how it is called, and what fills it for the present server. */
struct family_spec {
	struct family_info info;
	void (*fill)(struct builder *b, const struct family_spec *f);
	size_t offset; /* for fill: of a value in a row */
	bool whole;    /* of the exporter, not of a server */
	bool always;   /* also of a server that has ended */
};

/* families.c, families_tables.c: the parts of the table, in order, each with
 * its length. */
extern const struct family_spec families_server[], families_tables[],
	families_last[];
extern const unsigned n_families_server, n_families_tables, n_families_last;

#endif
