/*
 * merge_records.h - records of an agent for the tests of merge.c
 */
#ifndef MOETOP_TESTS_UNIT_CORE_MERGE_RECORDS_H
#define MOETOP_TESTS_UNIT_CORE_MERGE_RECORDS_H

#include "core/merge.h"
#include "wire/kernel_class.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct merge m;

static inline int setup(void **state)
{
	(void)state;
	merge_init(&m);
	return 0;
}

static inline struct record layer(uint32_t window, unsigned at, unsigned klass,
				  uint64_t ns)
{
	return (struct record){ .type = REC_LAYER,
				.time_ns = 1,
				.layer = { .window = window,
					   .layer = (uint16_t)at,
					   .klass = (uint16_t)klass,
					   .steps = 10,
					   .calls = 10,
					   .sum_ns = ns + 5,
					   .union_ns = ns } };
}

static inline struct record rows(uint32_t window, unsigned at)
{
	return (struct record){ .type = REC_ROWS,
				.time_ns = 2,
				.rows = { .window = window,
					  .layer = (uint16_t)at,
					  .cells = 2,
					  .experts = 8,
					  .rows = 10,
					  .active = 6,
					  .single = 4,
					  .twice = 1,
					  .sum_squares = 30,
					  .max_rows = 6,
					  .tokens = 5,
					  .padded_rows = 3 } };
}

static inline struct record window(uint32_t number)
{
	return (struct record){ .type = REC_WINDOW,
				.time_ns = 3,
				.window = { .window = number,
					    .phase_steps = { 10, 1 },
					    .start_ns = 1000,
					    .end_ns = 3000,
					    .step_ns = { 1500, 100 },
					    .busy_ns = { 1200, 90 },
					    .tokens = { 50, 7 },
					    .cells_rejected = 1,
					    .cells_lost = 2,
					    .bad_steps = 3,
					    .kernels = 40 } };
}

static inline void give(struct record r)
{
	assert_int_equal(merge_record(&m, &r), 0);
}

static inline void refuse(struct record r)
{
	uint64_t before = m.totals.refused;

	assert_int_equal(merge_record(&m, &r), -EBADMSG);
	assert_int_equal(m.totals.refused, before + 1);
}

#endif
