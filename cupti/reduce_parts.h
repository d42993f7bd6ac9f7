/*
 * reduce_parts.h - shared by the parts of reduce.c; nobody else's business
 *
 * Order of work: sort by start; find replays and anchors; find the steps of the
 * eager stream; add up what lies in whole steps.
 */
#ifndef MOETOP_CUPTI_REDUCE_PARTS_H
#define MOETOP_CUPTI_REDUCE_PARTS_H

#include "cupti/reduce.h"

#define REPLAYS_MAX 8192u
#define REPLAY_SLOTS (4 * REPLAYS_MAX)
#define GRAPHS_KNOWN 2048u
#define STRETCHES_MAX CELLS_MAX

#define NO_EVENT UINT32_MAX
#define NO_REPLAY UINT32_MAX
#define DRAFT_LAYERS_MAX 8u /* anchors of a speculative decoder's own layers */

/*
 * Finds the one anchor of each layer among the kernels of a stream.  A routing
 * kernel opens a layer at once.  torch.topk does so when an expert GEMM follows,
 * as it serves samplers too.  Where routing kernels are not known at all, what
 * comes first of a block does: the routing or expert kernel after attention or
 * a norm.
 */
struct anchor_state {
	uint8_t last;       /* class of the last routing kernel; 0 none */
	bool adjacent;      /* no other work since then */
	bool experts;       /* an expert GEMM since the last anchor */
	bool outside;       /* attention or a norm since the last expert GEMM */
	uint32_t candidate; /* event + 1 of a layer to be confirmed; 0 none */
};

enum replay_state { REPLAY_PIECE, REPLAY_WHOLE, REPLAY_BROKEN };

struct replay {
	uint32_t correlation, graph;
	uint32_t kernels, anchors;
	uint32_t first, last; /* event indices */
	struct anchor_state anchor;
	enum replay_state state;
};

struct known_graph { /* open addressing by id, kept over windows */
	uint32_t id, kernels, anchors;
	uint32_t seen; /* replays */
};

/* Eager events from one anchor, or from the start of a segment, to the next
 * anchor. */
struct stretch {
	uint32_t anchor; /* event index of the anchor that ends it */
	uint32_t lead;   /* first event after the last block */
	uint64_t names;  /* hash of the kernel names in it, in order */
	bool marked;     /* holds a kernel that comes once per step */
};

/* The eager stream between two whole replays. */
struct segment {
	uint32_t first_stretch, stretches;
	uint32_t begin;    /* event index of its first eager event */
	uint32_t replay;   /* that ends it; NO_REPLAY: the window's end */
	bool after_replay; /* starts after a replay, not with the window */
};

/* How a name returns within a segment, counted in anchors. */
struct name_stat {
	uint32_t last, segment, count;
	uint32_t spacing, votes; /* the most frequent distance, by majority */
	uint32_t hits, misses;   /* distances that are whole steps, or not */
};

struct bound { /* where a step begins */
	uint32_t event;
	bool replay, good;
};

struct reduce {
	struct kernel_names *names;
	size_t max, n;
	struct reduce_event *ev, *spare;
	uint32_t *owner; /* replay index + 1, 0 outside replays */
	struct known_graph graph[GRAPHS_KNOWN];
	uint32_t graph_layers; /* most anchors of a graph that is in use */
	uint32_t smaller;      /* windows in a row whose graphs had fewer */
	uint32_t eager_layers; /* learnt from the eager stream */
	uint32_t layers;       /* what this window uses */
	uint32_t draft;        /* anchors of a draft model after these */
	uint32_t draft_votes[DRAFT_LAYERS_MAX + 1];
	uint64_t short_step_ns; /* kernel time of most eager steps */
	uint32_t inner_lead;    /* kernels that lead up to an inner layer */
	uint32_t first_name;    /* of most eager steps; UINT32_MAX unknown */
	uint32_t first_votes[NAMES_MAX + 1];
	uint32_t replays, segments, stretches, bounds;
	struct replay replay[REPLAYS_MAX];
	uint32_t replay_slot[REPLAY_SLOTS]; /* index + 1 */
	struct segment segment[REPLAYS_MAX + 1];
	struct stretch stretch[STRETCHES_MAX];
	struct name_stat stat[NAMES_MAX + 1];
	struct bound bound[STEPS_MAX];
	struct reduce_result result;
};

static inline uint64_t event_end(const struct reduce_event *e)
{
	return e->start + e->length;
}

/* Take the next kernel of a stream, event i.  Returns the event that opens a
 * layer, as far as can be told now: i, one before it, or NO_EVENT. */
uint32_t anchor_step(struct anchor_state *s, unsigned klass, uint32_t i);

/* What never runs between two kernels of a block's own stream once its expert
 * GEMMs have begun. */
static inline bool is_outside(unsigned klass)
{
	return klass == CLASS_NORM || klass == CLASS_INDUCTOR ||
	       kernel_class_group(klass) == GROUP_ATTENTION;
}

static inline bool is_expert_gemm(unsigned klass)
{
	return kernel_class_group(klass) == GROUP_EXPERT &&
	       klass != CLASS_ACT_MOE;
}

/* reduce_replays.c: fill replay[], owner[], anchor flags, graph_layers. */
void reduce_find_replays(struct reduce *r);
/* Say of each replay what it is, once `layers` is known. */
void reduce_judge_replays(struct reduce *r);

/* reduce_stretches.c: segments and stretches; `layers` and `draft` from them. */
void reduce_find_stretches(struct reduce *r);
uint32_t reduce_learn_layers(struct reduce *r);
void reduce_find_draft(struct reduce *r);

/* reduce_eager.c: where steps begin. */
void reduce_find_bounds(struct reduce *r);

/* reduce_sum.c: add up the steps between bounds. */
void reduce_sum_steps(struct reduce *r, const struct reduce_params *p);

#endif
