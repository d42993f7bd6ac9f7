/*
 * row_counts.h - from what a kernel left in device memory to rows per expert
 *
 * Nothing is taken on trust: a copy that was torn, or of the wrong address,
 * must not become rows.  At least one row, and ids: all in [0, wide), an expert
 * once per token at most, padding (-1) in whole tokens at the end.  counts and offsets: no more
 * rows than there are (token, expert) pairs, a whole number of tokens.  blocks:
 * experts in order, every block but an expert's last one full.
 *
 * Ids from `experts` up to `wide` are of shared experts that are fused into the
 * routed ones, or of experts without weights: they are dropped and counted.
 *
 * Pure; any thread.
 */
#ifndef MOETOP_CUPTI_ROW_COUNTS_H
#define MOETOP_CUPTI_ROW_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_PARTS 3u
#define ROW_K_MAX 64u
#define ROW_TOKENS_MAX 65535u /* of one launch, whose counts are kept */

enum row_what {
	ROWS_NONE,
	ROWS_IDS,     /* int[rows][k]: the experts of each token */
	ROWS_COUNTS,  /* int[experts x stride]: rows of each expert */
	ROWS_OFFSETS, /* int[experts + 1]: where the rows of each begin */
	ROWS_BLOCKS,  /* int32 n; int32 expert[n]; int32 end[n]: TRT-LLM-gen */
};

/* Rows per expert in device memory. */
struct moe_launch {
	uint64_t data[ROW_PARTS]; /* addresses; 0: not used */
	uint32_t rows;            /* M, padding included; 0 unknown */
	uint32_t k;               /* per token, fused ones too; 0 unknown */
	uint32_t experts;         /* E; of counts and offsets: their number */
	uint32_t wide;            /* ids are below this */
	uint16_t tile;            /* ROWS_BLOCKS */
	uint8_t what;             /* enum row_what */
	uint8_t bytes;            /* of one number */
	uint8_t stride;           /* ROWS_COUNTS: numbers apart */
	uint8_t fused; /* of k: ids that are `experts` or more, in each token */
	bool part;     /* of this rank's experts only: any number of rows */
};

/* What one copy held. */
struct row_sums {
	uint32_t tokens; /* 0 unknown */
	uint32_t padded_rows, dropped;
	uint64_t rows, active, single, twice, sum_squares, max_rows;
	bool ordered; /* like an index: nothing routes so, but by chance */
	int32_t last; /* of ids, the last real one; -1 there is none */
};

/* Bytes of part i of such data; 0: there is no such part. */
size_t row_part_bytes(const struct moe_launch *l, unsigned i);
/* Where part i begins in a copy of all parts, and the size of all (i =
 * ROW_PARTS).  Parts begin at multiples of 16. */
size_t row_part_offset(const struct moe_launch *l, unsigned i);

/* Can there be such data at all? */
bool row_shape_fits(const struct moe_launch *l);

/*
 * Check and count a copy of all parts.  counts gets l->experts numbers.  0, or
 * -EINVAL when it cannot be the rows of this launch (*out and counts are
 * undefined then).
 */
int row_counts_read(const void *copy, const struct moe_launch *l,
		    struct row_sums *out, uint16_t *counts);

/* Of the same bytes the same number. */
uint64_t row_copy_hash(const void *copy, const struct moe_launch *l);

/*
 * What a wrong buffer gives away over many cells: most look like an index, are
 * alike in all layers, or are no rows.  No router does that, but lists of rows, of
 * blocks and of weights do.  First row_doubt_add for every cell and
 * row_doubt_invalid for every copy that was refused, then row_doubt_again for
 * every cell.
 */
struct row_doubt {
	uint32_t cells, invalid, ordered, layers;
	uint64_t seen[2];
	/* What most cells may have in common, and how many have it. */
	struct {
		uint64_t value;
		uint32_t votes, count;
	} hash, last;
};
void row_doubt_add(struct row_doubt *d, const struct row_sums *s, uint64_t hash,
		   unsigned layer);
void row_doubt_invalid(struct row_doubt *d);
void row_doubt_again(struct row_doubt *d, const struct row_sums *s,
		     uint64_t hash);
bool row_is_doubtful(const struct row_doubt *d);

bool moe_launch_same(const struct moe_launch *a, const struct moe_launch *b);

#endif
