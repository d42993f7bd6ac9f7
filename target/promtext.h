/*
 * promtext.h - Prometheus' text exposition, read as it arrives
 *
 * Format 0.0.4 and OpenMetrics 1.0: escapes in label values, timestamps,
 * exemplars, counters with _total and _created, NaN and infinities in any
 * spelling, names in quotes, families without samples, lines that end in CR LF,
 * tabs, a byte order mark.  A line that makes no sense is counted and skipped;
 * nothing before or after it is lost.
 *
 * The reader knows no metric: it hands over one sample after the other.  Memory
 * is bounded by PROMTEXT_LINE_MAX; a longer line is counted and skipped.  One
 * thread; no I/O.
 */
#ifndef MOETOP_TARGET_PROMTEXT_H
#define MOETOP_TARGET_PROMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROMTEXT_LINE_MAX (64u << 10)
#define PROMTEXT_LABELS_MAX 64u
#define PROMTEXT_NAME_MAX 256u

enum promtext_type {
	PROMTEXT_UNTYPED, /* no TYPE line, or "unknown" */
	PROMTEXT_COUNTER,
	PROMTEXT_GAUGE,
	PROMTEXT_HISTOGRAM,
	PROMTEXT_GAUGE_HISTOGRAM,
	PROMTEXT_SUMMARY,
	PROMTEXT_INFO,
	PROMTEXT_STATESET
};

/* Escapes are resolved; both end in NUL and hold none. */
struct promtext_label {
	const char *name, *value;
};

struct promtext_sample {
	const char *name;        /* with its suffix: "x_bucket" */
	enum promtext_type type; /* of the TYPE line that it follows */
	unsigned n_labels;
	struct promtext_label labels[PROMTEXT_LABELS_MAX];
	double value;     /* may be NAN or infinite */
	double timestamp; /* as written; NAN none */
	bool exemplar;    /* one follows; it is not read */
};

/* What is handed over is borrowed for the call.  NULL: not wanted. */
struct promtext_handler {
	void (*sample)(void *arg, const struct promtext_sample *s);
	/* A HELP or TYPE line: the family may have no samples. */
	void (*family)(void *arg, const char *name, enum promtext_type type);
};

struct promtext_stats {
	uint64_t samples, families; /* handed over */
	uint64_t bad_lines;         /* made no sense */
	uint64_t long_lines;        /* longer than PROMTEXT_LINE_MAX */
	bool ended;                 /* "# EOF" was seen */
};

struct promtext;

/* handler is copied.  0 and *out, or -ENOMEM. */
int promtext_new(struct promtext **out, const struct promtext_handler *handler,
		 void *arg);
/* The next bytes, cut anywhere. */
void promtext_feed(struct promtext *x, const char *bytes, size_t n);
/* What is left of a last line without an end. */
void promtext_finish(struct promtext *x);
const struct promtext_stats *promtext_stats(const struct promtext *x);
void promtext_free(struct promtext *x); /* NULL is legal */

/* The value of a label, or NULL. */
const char *promtext_label(const struct promtext_sample *s, const char *name);

#endif
