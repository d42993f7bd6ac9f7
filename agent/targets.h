/*
 * targets.h - which buffers of ids the running work writes
 *
 * For every executable graph the distinct buffers of its routing kernels, for
 * eager work the last launch.  Written by the agent's thread, read by the
 * sampler's without a lock (a torn entry is noticed and not used).
 */
#ifndef MOETOP_AGENT_TARGETS_H
#define MOETOP_AGENT_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/adapters.h"

#define TARGETS_MAX 128u /* distinct buffers of one graph */

/* 0 or -ENOMEM.  Before the sampler runs, and after it. */
int targets_init(void);
void targets_fini(void);

/*
 * What the launches of a graph say, once their kernels are validated: fill the
 * targets of exec index i, and its rows and anchors in the graph map.  Returns
 * false while kernels are not validated yet: try again.
 */
bool targets_learn(uint32_t exec);

/* Remember the model's E and k where a launch tells them. */
void targets_note(const struct moe_launch *l);

/* Buffer to copy next: of the work that was launched last, at random among its
 * buffers.  False: none is known, or nothing runs. */
bool targets_choose(uint64_t random, struct moe_launch *out);

#endif
