/*
 * rows_parts.h - shared by the parts of rows.c; nobody else's business
 */
#ifndef MOETOP_AGENT_ROWS_PARTS_H
#define MOETOP_AGENT_ROWS_PARTS_H

#include "agent/rows.h"

#define COPY_SLOTS (2 * ROW_COPIES_MAX)
#define COUNTS_MAX ((uint32_t)8 << 20)
#define STAGE_SLOTS ((uint32_t)(STAGE_BYTES / STAGE_ALIGN))
#define CELL_EMPTY 0u
#define CELL_KILLED UINT32_MAX

struct row_copy {
	struct moe_launch launch; /* that the copy was made for */
	uint64_t stage;           /* 0: of the buffer itself */
	struct row_calls calls;
	bool valid;
	uint32_t counts;     /* index of its counts */
	uint64_t start, end; /* 0 until its records are known */
	uint64_t hash;
	struct row_sums sums;
};

struct rows {
	uint32_t copies, counts_used;
	uint32_t invalid; /* copies of cells that held no rows */
	struct row_copy copy[ROW_COPIES_MAX];
	uint16_t counts[COUNTS_MAX];
	uint32_t slot[COPY_SLOTS]; /* index in time[] + 1, by correlation */
	/* Of each place in the stages: the newest copy + 1; the cell + 1 that
	 * wrote there last; when it is written next. */
	uint32_t newest[STAGE_SLOTS], writer[STAGE_SLOTS];
	uint64_t rewritten[STAGE_SLOTS];
	uint64_t kept[CELLS_MAX];   /* until when a cell's stage is its own */
	uint32_t cell[CELLS_MAX];   /* copy index + 1 */
	uint32_t placed[CELLS_MAX]; /* the same of the experts at work */
	struct rows_result result;
};

static inline uint32_t stage_slot(uint64_t stage)
{
	return (uint32_t)(stage / STAGE_ALIGN) % STAGE_SLOTS;
}

/* rows_match.c: fill cell[] and placed[], and what result says of copies. */
void rows_match(struct rows *r, const struct copy_time *time, size_t times,
		const struct reduce_result *window, bool use_stages);

#endif
