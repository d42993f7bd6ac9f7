/*
 * expert_rows.h - rows per (layer, expert) over the last minute
 *
 * Seven buckets of ten seconds; the total is the sum of those that are not
 * older than a minute.  Memory is bounded by the shape: 8 x layers x experts
 * x 4 bytes, 4 MiB for the largest shape that the wire can carry.
 */
#ifndef MOETOP_CORE_EXPERT_ROWS_H
#define MOETOP_CORE_EXPERT_ROWS_H

#include <stdint.h>

#include "wire/record.h"

struct expert_rows;

/* layers 1..LAYERS_MAX, experts 1..EXPERTS_MAX.  NULL: no memory. */
struct expert_rows *expert_rows_new(unsigned layers, unsigned experts);
void expert_rows_free(struct expert_rows *e); /* NULL is legal */

/* Add one record; decode steps only.  -EBADMSG when it does not fit the shape
 * (nothing is added), else 0. */
int expert_rows_add(struct expert_rows *e, const struct rec_experts *r,
		    uint64_t now_ns);

/* Totals of the last minute, [layers][experts], valid until the next call;
 * NULL when there are none. */
const uint32_t *expert_rows_total(struct expert_rows *e, uint64_t now_ns);

#endif
