/*
 * tables.h - the tables of the screens
 *
 * `struct table` points into the order, which must outlive it, and into the
 * snapshot.
 */
#ifndef MOETOP_TUI_TABLES_H
#define MOETOP_TUI_TABLES_H

#include "model/snapshot.h"
#include "tui/table.h"
#include "tui/widgets.h"

struct layer_order {
	const struct snapshot *s;
	unsigned n;
	unsigned char row[SNAPSHOT_LAYERS_MAX]; /* index into s->layers */
	double largest_share;
	double chance; /* fullest over mean expert, by chance; NAN unknown */
	double imbalance[SNAPSHOT_LAYERS_MAX]; /* NAN unknown */
	double imbalance_mean;
	struct snapshot_layer sum, mean; /* footer; ratios are ratios of sums */
};

/* First to last, or the slowest first.  The footer holds a row of sums and one
 * of means. */
void layer_table(const struct snapshot *s, bool slowest, struct layer_order *o,
		 struct table *t);

struct class_order {
	const struct snapshot *s;
	unsigned n;
	unsigned char row[SNAPSHOT_CLASSES_MAX];
	double largest_share;
	unsigned expert_classes;   /* of the group of experts */
	struct value expert_bytes; /* per step, of all their kernels */
	struct snapshot_class sum;
};

/* Most expensive first; the footer holds the sums. */
void class_table(const struct snapshot *s, struct class_order *o,
		 struct table *t);

/* What-ifs, a line each: now, the cursor, more load, other layouts and GPUs. */
#define WHAT_IF_LINES_MAX 48u
#define WHAT_IF_NAME_BYTES 40u
struct what_if_line {
	char name[WHAT_IF_NAME_BYTES];
	bool strong; /* now, or the cursor */
	struct snapshot_what_if w;
	struct value active_low, active_high;
};

struct what_if_order {
	unsigned n;
	struct what_if_line line[WHAT_IF_LINES_MAX];
};

/* batch: tokens per step under the cursor; 0: there is none. */
void what_if_table(const struct snapshot *s, double batch,
		   struct what_if_order *o, struct table *t);

/* Requests by what their path is for; those that were never seen are left
 * out. */
struct endpoint_order {
	const struct snapshot *s;
	unsigned n;
	unsigned char row[SNAPSHOT_ENDPOINTS];
};
void endpoint_table(const struct snapshot *s, struct endpoint_order *o,
		    struct table *t);

/* TTFT, gap and duration; the numbers that are checked against the engine's. */
void latency_table(const struct snapshot *s, struct table *t);
void check_table(const struct snapshot *s, struct table *t);

/* The check of that name differs. */
bool check_differs(const struct snapshot *s, const char *name);
/* A field that names the checks that differ; none when all agree. */
void check_field(struct fields *fs, unsigned rank, const struct snapshot *s);

/* "experts", "route", ...; the last of the 7 is "idle". */
const char *group_name(unsigned group);

#endif
