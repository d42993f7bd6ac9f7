/*
 * ranks.h - a group of worker processes, one GPU each, in lockstep
 *
 * The front process holds the server and the scheduler and has no GPU.  Each
 * worker gets the front's own arguments, a GPU by CUDA_VISIBLE_DEVICES, and the
 * title that vLLM and SGLang give theirs.  A step goes to all of them and is
 * done when all have done it.  A worker that dies is started again, at once when
 * the server is busy and within a second when it is not; a step that it had not
 * done is then done by it.
 */
#ifndef MOETOP_SIM_SERVER_RANKS_H
#define MOETOP_SIM_SERVER_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/kernels.h"
#include "sim/server/sched.h"

struct ranks;

struct ranks_options {
	unsigned n; /* 2 .. RANKS_MAX */
	bool expert;
	enum kernel_flavour flavour;
	unsigned max_seqs;
	int argc; /* of the front process, borrowed until ranks_close */
	char **argv;
	double dies_s; /* the last worker is killed after this; 0: never */
};

/* Start them and wait until all are ready.  0, or -errno and one line in why. */
int ranks_open(struct ranks **out, const struct ranks_options *o, char *why,
	       size_t why_bytes);

/* Run a step on all.  0, or -EIO: a GPU failed, ranks_error says why. */
int ranks_step(struct ranks *r, const struct sched_step *step);
const char *ranks_error(const struct ranks *r);

/* Look after the workers; any thread, once a second. */
void ranks_tick(struct ranks *r);

/* As runner_kv_tokens. */
uint64_t ranks_kv_tokens(const struct ranks *r);

/* End the workers; NULL is legal. */
void ranks_close(struct ranks *r);

#endif
