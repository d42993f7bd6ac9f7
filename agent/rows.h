/*
 * rows.h - from copies of a top-k output to rows per expert of a layer
 *
 * PyTorch reuses one buffer for the ids of all layers, so a copy taken at any
 * moment holds those of the layer that was running.  Which one is decided
 * afterwards: the copy's own record says when it ran, and if all of it lies
 * between the end of a layer's top-k kernel and the end of that layer's block
 * (struct reduce_cell), it can hold nothing else.  Two microseconds at both ends are not trusted.
 *
 * A copy counts for its cell (step, layer) if the ids make sense: all in [0, E)
 * or -1 for whole tokens at the end (padding), no expert twice in a token.
 * All layers of a step must have the same number of tokens.  Two copies of one
 * cell must be equal, or neither counts.
 *
 * Memory is made by rows_new.  rows_add is called by one thread (the sampler),
 * everything else by one other while the first is idle.
 */
#ifndef MOETOP_AGENT_ROWS_H
#define MOETOP_AGENT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/adapters.h"
#include "cupti/decode.h"
#include "cupti/reduce.h"
#include "wire/record.h"

#define ROW_COPIES_MAX 8192u

/* What one copy held. */
struct row_sums {
	uint32_t tokens, padded_rows;
	uint64_t rows, active, single, twice, sum_squares, max_rows;
};

struct row_copy {
	struct moe_launch launch; /* that the copy was made for */
	uint32_t correlation;
	bool valid;
	uint64_t start, end; /* 0 until its record is known */
	uint64_t hash;       /* of the ids */
	struct row_sums sums;
};

/* Row sums of one (phase, layer), and of one step. */
struct layer_rows {
	uint32_t cells, experts;
	uint64_t rows, active, single, twice, sum_squares, max_rows, tokens,
		padded_rows;
};
struct step_rows {
	uint32_t cells, tokens;
	uint64_t mask[2];
	uint64_t rows, active, single;
};

struct rows_result {
	uint32_t rejected, lost;
	uint64_t rows_hist_rows;          /* sum of the values in rows_hist */
	uint32_t rows_hist[ROWS_BUCKETS]; /* active experts of decode cells */
	struct layer_rows layer[PHASES][LAYERS_MAX];
	uint32_t expert[PHASES][LAYERS_MAX][EXPERTS_MAX];
	struct step_rows step[STEPS_MAX];
};

struct rows;

struct rows *rows_new(void); /* NULL: no memory */
void rows_free(struct rows *r);
void rows_begin(struct rows *r);

/*
 * Check and count ids, int[rows][k] of launch->id_bytes each.  counts gets
 * launch->experts numbers.  0, or -EINVAL when they cannot be the ids of this
 * launch (out and counts are then undefined).
 */
int rows_count(const void *ids, const struct moe_launch *launch,
	       struct row_sums *out, uint16_t *counts);

/* Keep what one copy holds.  0 or -ENOSPC. */
int rows_add(struct rows *r, const void *ids, const struct moe_launch *launch,
	     uint32_t correlation);

/* Match copies with their times and the window's cells. */
const struct rows_result *rows_end(struct rows *r, const struct copy_time *time,
				   size_t times,
				   const struct reduce_result *window);

#endif
