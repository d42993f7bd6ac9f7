/*
 * rank_peek.h - what lies in an agent's ring, without being its reader
 *
 * The ring's records are copied out of its memory; nothing is taken or written,
 * so it works beside the collector that reads them and after it has ended.
 */
#ifndef MOETOP_CORE_RANK_PEEK_H
#define MOETOP_CORE_RANK_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/kernel_class.h"
#include "wire/record.h"

struct rank_peek {
	bool have_status;
	struct rec_status status; /* the newest */
	uint32_t windows;         /* whose layers are still there */
	double class_ns[CLASSES]; /* of kernels, over these windows */
	double class_calls[CLASSES];
};

/* 0, -ENOENT no record is left (the agent sleeps), -EPROTO no ring of ours,
 * -EPROTONOSUPPORT of another version, -ENOMEM, -errno. */
int rank_peek(const char *path, struct rank_peek *out);

/* Share of the kernel time whose class is known, 0..1; NAN without any. */
double rank_peek_known(const struct rank_peek *p);

#endif
