/*
 * activity.h - launches to counters: what goes on without kernel records
 *
 * The agent's thread takes the launch log, counts steps and their padded
 * batches, keeps the launches of eager kernels that the adapters know for the
 * records that will name them, and feeds step times to the budget.
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

/* Where the rows of a layer are, by its kernel records: struct reduce_params. */
int activity_find_rows(void *arg, const struct reduce_event *ev, uint32_t n,
		       struct layer_rows_at *out);
/* What was found is asked anew: a window begins. */
void activity_forget_rows(void);

/* E and k of the model: the collector's word, else what launches told.  Any
 * thread. */
void activity_hint(struct model_hint *out);
/* Launches told them. */
void activity_learn(const struct layer_rows_at *at);

/* The model's MoE layers, as learnt from graphs or from a window. */
void activity_set_layers(uint32_t layers);

#endif
