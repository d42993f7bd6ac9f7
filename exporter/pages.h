/*
 * pages.h - snapshots in, pages out
 *
 * pages_publish may be called by any one thread; all else belongs to the one
 * that serves.  A page is made when it is first asked for, from one set of
 * snapshots, and never changes; it is made anew when there is a newer set, or
 * after a second, for the ages in it.
 */
#ifndef MOETOP_EXPORTER_PAGES_H
#define MOETOP_EXPORTER_PAGES_H

#include <stdbool.h>

#include "exporter/exposition.h"
#include "exporter/negotiate.h"
#include "exporter/text.h"

enum page_kind {
	PAGE_METRICS, /* one for each wire_format */
	PAGE_JSON = PAGE_METRICS + WIRE_FORMATS,
	PAGE_KINDS
};

struct page {
	unsigned references;
	struct text text;
};

struct pages_config {
	bool all;     /* JSON is of a list of servers */
	bool experts; /* as in exposition_options */
	unsigned series_max;
};

struct pages;

/* -ENOMEM */
int pages_new(struct pages **out, const struct pages_config *config);
void pages_free(struct pages *p); /* NULL legal */

/* From now on these, and left_out others that are not watched; keeps no
 * reference.  Without memory the old ones stay,
 * and their age grows. */
void pages_publish(struct pages *p, const struct snapshot *const *list,
		   unsigned n, unsigned left_out);

/* Whether there is a set, not older than three of its intervals. */
bool pages_ready(struct pages *p);
bool pages_any(struct pages *p);

/*
 * The page, as of now; give it back with page_release.  NULL: nothing was
 * published yet, or no memory.  stats (its render_seconds is filled in) goes
 * into metrics.
 */
struct page *pages_get(struct pages *p, enum page_kind kind, bool gzip,
		       struct exporter_stats *stats);
void page_release(struct page *p); /* NULL legal */

#endif
