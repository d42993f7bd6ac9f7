/*
 * decode.h - CUPTI's activity records to reduce_event and copy times
 *
 * Records are read by the prefix that all versions share (cupti/abi.h) and
 * stepped with cuptiActivityGetNextRecord.  A record with a zero or inverted
 * timestamp is dropped and counted.  One thread.
 *
 * The first kernel records of a CUPTI life are looked at closely, so that a
 * layout that is not ours is found out before its numbers are believed: name
 * readable, grid and block of possible sizes, and in a release that the table
 * does not know also times in order, a device and correlation id that can be,
 * and a distance between records that holds what is read of them.
 */
#ifndef MOETOP_CUPTI_DECODE_H
#define MOETOP_CUPTI_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/library.h"
#include "cupti/reduce.h"

#define COPIES_MAX 16384u /* device-to-host copies of one window */
#define DECODE_NAMES 256u /* a power of two */

struct copy_time {
	uint32_t correlation;
	uint64_t start, end; /* CUPTI's clock */
};

/* Names by pointer, for as long as one buffer is read: names that CUPTI has given
 * up may come back with other text. */
struct decode_name {
	const char *pointer;
	struct kernel_name *name;
	uint32_t turn; /* of the buffer */
};

struct decode {
	const struct cupti_api *cupti;
	struct kernel_names *names;
	struct reduce *reduce;
	uint32_t checked; /* kernel records that passed the layout test */
	bool bad_layout;  /* one did not */
	uint32_t
		kernel_bytes; /* of a kernel record, as CUPTI says; 0 unknown */
	bool unknown;         /* a release that the table does not know */
	/* Only ever grow. */
	uint64_t kernels;    /* kernel records seen */
	uint64_t bad_stamps; /* of these, dropped for their times */
	uint64_t no_room;    /* dropped since a table was full */
	uint64_t cut_bytes;  /* from the last record before nonsense on */
	uint32_t turn;       /* buffers read */
	uint32_t stride;     /* bytes from one kernel record to the next, 0 ? */
	struct decode_name seen[DECODE_NAMES];
	/* Since decode_begin. */
	uint32_t copies;
	struct copy_time copy[COPIES_MAX];
};

/* A new CUPTI life: what is known of its records is asked and looked at anew.
 * `version` as cuptiGetVersion says it. */
void decode_meet(struct decode *d, uint32_t version);

void decode_begin(struct decode *d);

/* Read the records of one buffer.  0, or -EPROTO: the layout is not ours, and
 * nothing of this record and those after it was used. */
int decode_buffer(struct decode *d, uint8_t *buffer, size_t valid);

#endif
