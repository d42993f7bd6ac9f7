/*
 * rank.h - the part of a model that one GPU holds, and what runs it
 *
 * With --tp N every rank holds 1/N of each matrix; with --ep N attention and
 * shared experts are split the same way, and each rank holds E/N whole experts
 * (the experts' parts of all ranks add up to the model's).  All ranks see all
 * tokens and route them alike, as vLLM's do without data parallelism.
 */
#ifndef MOETOP_SIM_SERVER_RANK_H
#define MOETOP_SIM_SERVER_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/options.h"
#include "sim/server/routing.h"
#include "sim/server/runner.h"
#include "sim/server/shape.h"
#include "sim/server/truth.h"

struct rank_part {
	unsigned rank, ranks; /* rank < ranks */
	bool expert;          /* --ep */
};

/* Cut a whole model's shape down to one part. */
void rank_cut(struct shape *s, const struct rank_part *part);

struct rank_model {
	struct shape shape; /* whole until rank_model_start */
	struct routing *routing;
	struct truth *truth;
	struct runner *runner; /* NULL without a GPU of its own */
};

/* Shape, routing and, unless path is empty, the truth log.  0 or -errno and one
 * line in why; *m then holds what rank_model_close needs. */
int rank_model_open(struct rank_model *m, const struct sim_options *o,
		    const char *truth_path, char *why, size_t why_bytes);
/* The part goes onto the GPU; in the thread that will run it. */
int rank_model_start(struct rank_model *m, const struct sim_options *o,
		     const struct rank_part *part, char *why, size_t why_bytes);
/* 0, or -errno of the truth log. */
int rank_model_close(struct rank_model *m);

#endif
