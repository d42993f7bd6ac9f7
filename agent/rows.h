/*
 * rows.h - from copies of what routing left on the device to rows per expert
 *
 * PyTorch reuses one buffer for the ids of all layers, so a copy taken at any
 * moment holds those of the layer that was running.  Which one is decided
 * afterwards: the copy's own record says when it ran, and if all of it lies
 * between the end of a layer's top-k kernel and the end of that layer's block
 * (struct reduce_cell), it can hold nothing else.  Counts, offsets and blocks are
 * written later than ids and are read between the layer's first expert GEMM and
 * its last.  Two microseconds at both ends are not trusted.
 *
 * A graph that keeps its rows itself (agent/exact.h) has a place, a stage, for
 * each layer, that is written again only with the next replay: a copy holds the
 * rows of the last layer that has written there.
 *
 * A copy counts for its cell (step, layer) if row_counts_read takes it.  All
 * layers of a step must have the same number of tokens, or none counts.  Two
 * copies of one cell must be equal, or neither counts.  A window in which most cells look like an
 * index, or are the same in all layers, gives none: such are other buffers.
 *
 * Memory is made by rows_new.  rows_add and rows_add_stage are called by one
 * thread (the sampler), everything else by one other while the first is idle.
 */
#ifndef MOETOP_AGENT_ROWS_H
#define MOETOP_AGENT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/decode.h"
#include "cupti/reduce.h"
#include "cupti/row_counts.h"
#include "wire/record.h"

#define ROW_COPIES_MAX 32768u
#define STAGE_ALIGN 256u
#define STAGE_BYTES ((size_t)8 << 20) /* of all stages, in one piece */

/* The calls that made a copy: one, or the first and the last of several. */
struct row_calls {
	uint32_t first, last; /* correlation ids; 0: not seen */
};

/* Row sums of one (phase, layer), and of one step. */
struct layer_rows {
	uint32_t cells, experts, direct_cells, exact_cells;
	uint64_t rows, active, single, twice, sum_squares, max_rows, tokens,
		padded_rows, blocks, dropped;
	/* Of the experts that do the work, where these are others. */
	uint32_t placed_cells, placed_experts;
	uint64_t placed_rows, placed_active;
};
struct step_rows {
	uint32_t cells, exact_cells, tokens;
	bool known, torn; /* tokens are; not the same in all layers */
	uint64_t mask[2];
	uint64_t rows, active, single;
};

struct rows_result {
	uint32_t rejected, lost;
	uint32_t exact, sampled; /* cells, by where their copy is from */
	/* Copies of stages that were matched, and those that held no rows. */
	uint32_t stages, bad_stages;
	/* Those of cells of which the buffer itself was copied, too. */
	uint32_t agree, differ;
	bool doubtful;           /* most cells cannot be rows: none is given */
	uint64_t rows_hist_rows; /* sum of the values in rows_hist */
	uint32_t rows_hist[ROWS_BUCKETS]; /* active experts of decode cells */
	struct layer_rows layer[PHASES][LAYERS_MAX];
	uint32_t expert[PHASES][LAYERS_MAX][EXPERTS_MAX];
	struct step_rows step[STEPS_MAX];
};

struct rows;

struct rows *rows_new(void); /* NULL: no memory */
void rows_free(struct rows *r);
void rows_begin(struct rows *r);

/* Keep what one copy of all parts holds.  0 or -ENOSPC. */
int rows_add(struct rows *r, const void *copy, const struct moe_launch *launch,
	     struct row_calls calls);

/* The same of a stage. */
int rows_add_stage(struct rows *r, const void *copy,
		   const struct moe_launch *launch, uint64_t stage,
		   struct row_calls calls);

/* Match copies with their times and the window's cells.  use_stages: count
 * stages, too; else they are only compared. */
const struct rows_result *rows_end(struct rows *r, const struct copy_time *time,
				   size_t times,
				   const struct reduce_result *window,
				   bool use_stages);

#endif
