/*
 * runner.h - the model runner: one step of the batch on the GPU
 *
 * Plays the part of vLLM's GPU model runner on the CUDA driver API.  Pure
 * decode steps replay a graph that was captured for the next larger batch size;
 * everything else is launched kernel by kernel.  All layers write their top-k
 * ids to one buffer, as the private pool of a captured graph makes it.
 *
 * Used by one thread, the one that opened it.
 */
#ifndef MOETOP_SIM_SERVER_RUNNER_H
#define MOETOP_SIM_SERVER_RUNNER_H

#include <stddef.h>

#include "sim/server/kernels.h"
#include "sim/server/routing.h"
#include "sim/server/sched.h"
#include "sim/server/shape.h"
#include "sim/server/truth.h"

struct runner_options {
	const struct shape *shape;     /* borrowed until runner_close */
	const struct routing *routing; /* likewise */
	struct truth *truth;           /* likewise; NULL: no log */
	const char *gpu;               /* for simgpu_select */
	enum kernel_flavour flavour;
	const char
		*backend; /* a sequence of kernels; NULL, "": the flavour's */
	struct sched_limits limits;
	bool graphs;
	uint64_t seed;
};

struct runner;

/*
 * In the order of a real start: CUPTI is loaded from the folder of libcuda (as
 * PyTorch does), then cuInit, context and buffers; one eager step to warm up;
 * then the graphs, largest first.  0 or -errno; why gets one line.
 */
int runner_open(struct runner **out, const struct runner_options *o, char *why,
		size_t why_bytes);
void runner_close(struct runner *r);

/* Run a step and wait for it.  0, or -EIO: the GPU failed, runner_error says
 * which call. */
int runner_step(struct runner *r, const struct sched_step *step);
const char *runner_error(const struct runner *r);

/* Tokens of KV memory that 0.9 of the GPU's memory leaves room for beside the
 * weights; 0 when the weights do not fit. */
uint64_t runner_kv_tokens(const struct runner *r);

#endif
