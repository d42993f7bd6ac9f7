/*
 * targets.h - what the running work leaves of its rows, and where
 *
 * For every executable graph the distinct places that its routing writes, and
 * the stages where it keeps copies of them (agent/exact.h); for eager work the
 * last launch and the places of the last layers.  Written by the agent's thread,
 * read by the sampler's without a lock (a torn entry is noticed and not used).
 */
#ifndef MOETOP_AGENT_TARGETS_H
#define MOETOP_AGENT_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/adapters.h"

#define TARGETS_MAX 128u /* distinct places of one graph */
#define STAGES_MAX 256u  /* layers of one graph that have a stage */

/* What the sampler copies next: one place, or a run of stages. */
struct target_stage {
	struct moe_launch launch;
	uint64_t stage;
};
struct target_pick {
	struct moe_launch launch; /* what 0: the stages */
	uint32_t stages;
	uint64_t from, bytes; /* of all of them */
	struct target_stage stage[STAGES_MAX];
};

/* 0 or -ENOMEM.  Before the sampler runs, and after it. */
int targets_init(void);
void targets_fini(void);

/*
 * What the launches of a graph say, once their kernels are validated: fill the
 * targets of exec index i, and its rows and anchors in the graph map.  Returns
 * false while kernels are not validated yet: try again.
 */
bool targets_learn(uint32_t exec);

/* An eager layer was launched, with its rows there. */
void targets_note(const struct layer_rows_at *at, uint64_t time_ns);

/*
 * Choose what to copy: of the work that was launched last, at random among its
 * places; its stages instead, if it has any and `stages` is set.  False: nothing
 * is known, or nothing runs.  *out is the caller's to reuse.
 */
bool targets_choose(uint64_t random, bool stages, struct target_pick *out);

#endif
