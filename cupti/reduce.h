/*
 * reduce.h - kernel records of one window to sums per (phase, layer, class)
 *
 * Steps.  A replay of an executable graph with all MoE anchors of the model is
 * one decode step; kernels outside it that run before the next step (LM head,
 * token sampler) belong to it.  Everything else, eager launches and graphs that
 * hold only a piece of the model, is cut at the anchors: `layers` of them make
 * a step.  Its first anchor is known from a replay before or after it, or from
 * kernels that come once per step (the embedding, the LM head: names that recur
 * every `layers` anchors).  Between the last block of a step and the first
 * anchor of the next, the cut is the widest idle gap, no later than where the
 * kernels leading up to an inner layer would begin.
 *
 * Only whole steps count: a step counts if the next one begins in the window.
 * A step of another number of anchors, or a replay with fewer kernels than the
 * same graph had before, is left out and counted in bad_steps, unless it is cut
 * by the window's edge.  Every record is in a counted step, in a bad one, or at
 * an edge:
 *
 *	records = kernels[] + bad_kernels + edge_kernels
 *
 * A draft model (multi-token prediction) that runs after each replay, in graphs
 * of its own or eager, has its anchors apart: draft_layers.  Where its layers
 * are in the same graph they cannot be told from the main ones here.
 *
 * Step time is start to next start when the next step begins within three times
 * this step's own span; otherwise the server had nothing to do, and the step
 * takes its own span.
 *
 * Time covered: when kernels overlap, an instant belongs to the kernel that
 * started first.  So union_ns adds up over classes, parts and layers to busy_ns.
 *
 * No allocation after reduce_new; one thread.
 */
#ifndef MOETOP_CUPTI_REDUCE_H
#define MOETOP_CUPTI_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/adapters.h"
#include "cupti/classify.h"
#include "wire/record.h"
#include "wire/requests.h"

#define STEPS_MAX 8192u
#define CELLS_MAX 131072u
#define REDUCE_SPANS_MAX 32768u

struct reduce_event { /* one kernel record, 32 bytes */
	uint64_t start;
	uint64_t graph_node;
	uint32_t length; /* ns, at most 4.29 s */
	uint32_t correlation;
	uint32_t graph;
	uint16_t name; /* kernel_names id */
	uint8_t klass;
	uint8_t flags; /* EVENT_ANCHOR */
};
enum { EVENT_ANCHOR = 1, EVENT_REPLAY = 2 };

struct reduce_step {
	uint64_t start; /* of the first kernel, CUPTI's clock */
	uint64_t next;  /* start of what follows, whether it counts or not */
	uint32_t first_cell, cells;
	uint32_t tokens; /* rows of the top-k kernel; 0 unknown */
	uint8_t phase;
};

/* One (step, layer): when its rows can be read, and where. */
struct reduce_cell {
	uint64_t from, until; /* end of top-k .. end of its last reader */
	/* Start of the first expert GEMM .. end of the last; 0: there is none.
	 * What routing leaves for them is final meanwhile. */
	uint64_t gemm_from, gemm_until;
	struct layer_rows_at at; /* at.rows.what 0: unknown */
	uint32_t step;
	uint16_t layer;
};

/* When kernels ran, as struct rec_spans has it; CUPTI's clock. */
struct reduce_span {
	uint64_t start;
	uint32_t length;
	uint16_t layer;
	uint16_t group;
};

struct reduce_sum {
	uint64_t calls, sum_ns, union_ns;
};

struct reduce_result {
	uint32_t phase_steps[PHASES];
	uint64_t step_ns[PHASES], busy_ns[PHASES], tokens[PHASES];
	uint64_t span_ns[PHASES];  /* first start to last end, of each step */
	uint64_t kernels[PHASES];  /* records in these steps: calls of sum[] */
	uint64_t launches[PHASES]; /* by the host: eager kernels and replays */
	uint32_t layers;           /* anchors of one step; 0 none seen */
	uint32_t draft_layers;     /* anchors of a draft model after these */
	uint32_t bad_steps;
	uint32_t bad_kernels; /* records in bad steps */
	/* Before the first whole step and after the last; all records of a
	 * window without one. */
	uint32_t edge_kernels, edge_steps;
	uint32_t lost; /* steps and cells beyond STEPS_MAX, CELLS_MAX */
	uint32_t steps, cells;
	uint32_t spans; /* the window's first ones, where there are more */
	uint64_t step_hist_ns;            /* sum of the values in step_hist */
	uint32_t step_hist[HIST_BUCKETS]; /* decode step times */
	struct reduce_step step[STEPS_MAX];
	struct reduce_cell cell[CELLS_MAX];
	struct reduce_span span[REDUCE_SPANS_MAX];
	/* Draft layers follow the main ones.  Index LAYERS_MAX is LAYER_NONE,
	 * with part PART_BLOCK. */
	struct reduce_sum sum[PHASES][LAYERS_MAX + 1][2][CLASSES];
};

struct reduce_params {
	uint32_t layers;      /* MoE layers if the caller knows, else 0 */
	uint32_t decode_hint; /* streams being decoded; 0 unknown */
	bool graphs_used;     /* a graph with MoE anchors was ever launched */
	bool spans;           /* fill span[] */
	/* Where the rows of a layer are, by its kernels: events 0 (its anchor)
	 * .. n - 1, among which may be others'.  0 or -errno.  May be NULL. */
	int (*find_rows)(void *arg, const struct reduce_event *ev, uint32_t n,
			 struct layer_rows_at *out);
	void *arg;
};

struct reduce;

/* Room for `events` records a window.  names is borrowed.  NULL: no memory. */
struct reduce *reduce_new(size_t events, struct kernel_names *names);
void reduce_free(struct reduce *r);

/* A new window: forget the events, keep what was learned about graphs. */
void reduce_begin(struct reduce *r);

/* Add one record with a sane time.  0 or -ENOSPC.  Any order. */
int reduce_add(struct reduce *r, const struct reduce_event *e);
size_t reduce_events(const struct reduce *r);

/* MoE anchors of a graph, from the records of all windows so far; 0 unknown. */
uint32_t reduce_graph_anchors(const struct reduce *r, uint32_t graph);

/* Reduce the window; the result is valid until the next reduce_begin. */
const struct reduce_result *reduce_end(struct reduce *r,
				       const struct reduce_params *p);

#endif
