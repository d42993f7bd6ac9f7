/*
 * decode.h - CUPTI's activity records to reduce_event and copy times
 *
 * Records are read by the prefix that all versions share (cupti/abi.h) and
 * stepped with cuptiActivityGetNextRecord.  A record with a zero or inverted
 * timestamp is dropped and counted.  The first kernel record of a CUPTI life is
 * looked at closely, so that a version with another layout is found out before
 * its numbers are believed.  One thread.
 */
#ifndef MOETOP_CUPTI_DECODE_H
#define MOETOP_CUPTI_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/library.h"
#include "cupti/reduce.h"

#define COPIES_MAX 16384u /* device-to-host copies of one window */

struct copy_time {
	uint32_t correlation;
	uint64_t start, end; /* CUPTI's clock */
};

struct decode {
	const struct cupti_api *cupti;
	struct kernel_names *names;
	struct reduce *reduce;
	bool checked; /* a kernel record has passed the layout test */
	bool bad_layout;
	/* Only ever grow. */
	uint64_t kernels;    /* kernel records seen */
	uint64_t bad_stamps; /* of these, dropped for their times */
	uint64_t no_room;    /* dropped since a table was full */
	uint32_t stride;     /* bytes from one kernel record to the next, 0 ? */
	/* Since decode_begin. */
	uint32_t copies;
	struct copy_time copy[COPIES_MAX];
};

void decode_begin(struct decode *d);

/* Read the records of one buffer. 0, or -EPROTO: the layout is not ours, and
 * nothing of it was used. */
int decode_buffer(struct decode *d, uint8_t *buffer, size_t valid);

#endif
