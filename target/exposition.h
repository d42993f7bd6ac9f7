/*
 * exposition.h - Prometheus' text exposition, read as it arrives
 *
 * Format 0.0.4 and OpenMetrics 1.0: escapes in label values, timestamps,
 * exemplars, counters with _total and _created, NaN and infinities in any
 * spelling, names in quotes, families without samples, lines that end in CR LF,
 * tabs, a byte order mark.  A line that makes no sense is counted and skipped;
 * nothing before or after it is lost.
 *
 * The reader knows no metric: it hands over one sample after the other.  Memory
 * is bounded by EXPOSITION_LINE_MAX; a longer line is counted and skipped.  One
 * thread; no I/O.
 */
#ifndef MOETOP_TARGET_EXPOSITION_H
#define MOETOP_TARGET_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPOSITION_LINE_MAX (64u << 10)
#define EXPOSITION_LABELS_MAX 64u
#define EXPOSITION_NAME_MAX 256u

enum exposition_type {
	EXPOSITION_UNTYPED, /* no TYPE line, or "unknown" */
	EXPOSITION_COUNTER,
	EXPOSITION_GAUGE,
	EXPOSITION_HISTOGRAM,
	EXPOSITION_GAUGE_HISTOGRAM,
	EXPOSITION_SUMMARY,
	EXPOSITION_INFO,
	EXPOSITION_STATESET
};

/* Escapes are resolved; both end in NUL and hold none. */
struct exposition_label {
	const char *name, *value;
};

struct exposition_sample {
	const char *name;          /* with its suffix: "x_bucket" */
	enum exposition_type type; /* of the TYPE line that it follows */
	unsigned n_labels;
	struct exposition_label labels[EXPOSITION_LABELS_MAX];
	double value;     /* may be NAN or infinite */
	double timestamp; /* as written; NAN none */
	bool exemplar;    /* one follows; it is not read */
};

/* What is handed over is borrowed for the call.  NULL: not wanted. */
struct exposition_handler {
	void (*sample)(void *arg, const struct exposition_sample *s);
	/* A HELP or TYPE line: the family may have no samples. */
	void (*family)(void *arg, const char *name, enum exposition_type type);
};

struct exposition_stats {
	uint64_t samples, families; /* handed over */
	uint64_t bad_lines;         /* made no sense */
	uint64_t long_lines;        /* longer than EXPOSITION_LINE_MAX */
	bool ended;                 /* "# EOF" was seen */
};

struct exposition;

/* handler is copied.  0 and *out, or -ENOMEM. */
int exposition_new(struct exposition **out,
		   const struct exposition_handler *handler, void *arg);
/* The next bytes, cut anywhere. */
void exposition_feed(struct exposition *x, const char *bytes, size_t n);
/* What is left of a last line without an end. */
void exposition_finish(struct exposition *x);
const struct exposition_stats *exposition_stats(const struct exposition *x);
void exposition_free(struct exposition *x); /* NULL is legal */

/* The value of a label, or NULL. */
const char *exposition_label(const struct exposition_sample *s,
			     const char *name);

#endif
