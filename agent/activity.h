/*
 * activity.h - launches to counters: what goes on without kernel records
 *
 * The agent's thread takes the launch log, counts steps and their padded
 * batches, keeps the launches of eager routing kernels for the records that
 * will name them, and feeds step times to the budget.
 */
#ifndef MOETOP_AGENT_ACTIVITY_H
#define MOETOP_AGENT_ACTIVITY_H

#include <stdint.h>

#include "cupti/adapters.h"
#include "cupti/reduce.h"

/* For one life; 0 or -ENOMEM. */
int activity_init(void);
void activity_fini(void);

/* Take all that has been logged. */
void activity_drain(void);

/* The launch behind an anchor's kernel record: struct reduce_params. */
int activity_find_launch(void *arg, const struct reduce_event *anchor,
			 struct moe_launch *out);

/* The model's MoE layers, as learnt from graphs or from a window. */
void activity_set_layers(uint32_t layers);

#endif
