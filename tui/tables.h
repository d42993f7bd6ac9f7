/*
 * tables.h - the tables of layers and of kernel classes
 *
 * Shown whole on screens of their own, and the top of them on the overview.
 * `struct table` points into the order, which must outlive it, and into the
 * snapshot.
 */
#ifndef MOETOP_TUI_TABLES_H
#define MOETOP_TUI_TABLES_H

#include "model/snapshot.h"
#include "tui/table.h"

enum layer_sort {
	LAYERS_BY_NUMBER,
	LAYERS_BY_TIME,
	LAYERS_BY_ACTIVE,
	LAYERS_BY_FRAGMENTATION,
	LAYER_SORTS
};

struct layer_order {
	const struct snapshot *s;
	unsigned n;
	unsigned char row[SNAPSHOT_LAYERS_MAX]; /* index into s->layers */
	double largest_share;
	struct snapshot_layer sum, mean; /* footer; ratios are ratios of sums */
};

/* Unknown values go last.  The footer holds a row of sums and one of means. */
void layer_table(const struct snapshot *s, enum layer_sort by,
		 struct layer_order *o, struct table *t);

struct class_order {
	const struct snapshot *s;
	unsigned n;
	unsigned char row[SNAPSHOT_CLASSES_MAX];
	double largest_share;
	struct snapshot_class sum;
};

/* Most expensive first; the footer holds the sums. */
void class_table(const struct snapshot *s, struct class_order *o,
		 struct table *t);

/* What-ifs, a line each: now, the cursor, more load, other layouts and GPUs. */
#define WHAT_IF_LINES_MAX 48u
#define WHAT_IF_NAME_BYTES 40u
struct what_if_line {
	char name[WHAT_IF_NAME_BYTES]; /* "": now */
	struct snapshot_what_if w;
	struct value active_low, active_high;
};

struct what_if_order {
	unsigned n;
	int cursor; /* the cursor's line; 0: there is none */
	struct what_if_line line[WHAT_IF_LINES_MAX];
};

/* batch: tokens per step under the cursor; 0: there is none. */
void what_if_table(const struct snapshot *s, double batch,
		   struct what_if_order *o, struct table *t);

/* "experts", "route", ...; the last of the 7 is "idle". */
const char *group_name(unsigned group);

#endif
