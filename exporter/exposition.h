/*
 * exposition.h - what a scrape says, before it has a format
 *
 * Families of series with labels, computed once from the snapshots of all
 * watched servers; prometheus.c, openmetrics.c and protobuf.c only write them
 * down.  What is unknown has no series.  A value whose source stopped stays for
 * STALE_SHOWN_S, then it goes too; meanwhile moetop_metric_stale_seconds tells
 * its age.  Of a server that has ended there is no more than that.
 *
 * An exposition borrows the snapshots it was built from.  One thread.
 */
#ifndef MOETOP_EXPORTER_EXPOSITION_H
#define MOETOP_EXPORTER_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/hist_buckets.h"
#include "model/snapshot.h"

#define STALE_SHOWN_S 300.0
#define EXPOSITION_SERVERS_MAX 16u
#define SERIES_MAX_DEFAULT 5000u

enum family_type {
	FAMILY_GAUGE,
	FAMILY_COUNTER,
	FAMILY_INFO,
	FAMILY_HISTOGRAM
};

/* One line of the table of families; docs/METRICS.md is made from it. */
struct family_info {
	const char *name; /* after "moetop_"; a counter's ends with _total, an
			   * info's with _info */
	enum family_type type;
	const char *labels; /* names for the document, "" none */
	const char *help;
};

struct series_label {
	const char *name, *value; /* value is valid UTF-8 */
};

/* Labels that many series share, in front of their own. */
#define BASE_LABELS_MAX 6u
struct label_base {
	unsigned n;
	struct series_label labels[BASE_LABELS_MAX];
};

struct series {
	unsigned base;                   /* index of its label_base */
	unsigned first_label, n;         /* its own, in exposition.labels */
	double value;                    /* not of a histogram */
	const struct hist_buckets *hist; /* of a histogram */
	double created; /* unix seconds, of counters and histograms; 0 unknown */
};

struct family {
	const struct family_info *info;
	unsigned first, n; /* series; n > 0 */
};

/* What an exporter knows of itself; all since its start. */
struct exporter_stats {
	double render_seconds; /* the newest page; NAN: none yet */
	unsigned connections;
	unsigned long requests, unauthorized, refused, slow;
	double cpu_seconds, resident_bytes; /* NAN unknown */
};

/* One watched server. */
struct exposed_server {
	const struct snapshot *snapshot;
	/* unix seconds when each metric became stale, 0: it is not; or NULL */
	const double *stale_since;
	double begun; /* as exposition_begun; 0: by this snapshot */
};

struct exposition_options {
	bool experts;        /* rows of every expert, too */
	unsigned series_max; /* of one server; 0: SERIES_MAX_DEFAULT */
	double now;          /* unix seconds, for ages; 0: no ages */
	const struct exporter_stats *stats; /* or NULL */
	unsigned servers_left_out; /* that there are, and nobody watches */
};

struct exposition {
	struct family *families;
	unsigned n_families;
	struct series *series;
	unsigned n_series;
	struct series_label *labels;
	struct label_base *bases;
	unsigned n_bases;
	int error; /* -ENOMEM; the rest is then good but not whole */
	struct exposition_parts *parts; /* exposition.c's own */
};

/* Free with exposition_free, also after an error. */
void exposition_build(struct exposition *x,
		      const struct exposed_server *servers, unsigned n,
		      const struct exposition_options *options);
void exposition_free(struct exposition *x);

/* When the counts of s began, unix seconds, 0 unknown.  Made of two clocks: it
 * is not quite the same for the next snapshot. */
double exposition_begun(const struct snapshot *s);

/* All families that there can be, in the order they are written: for i from 0
 * until NULL. */
const struct family_info *exposition_family(unsigned i);

#endif
