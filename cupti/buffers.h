/*
 * buffers.h - memory that CUPTI writes its records into
 *
 * A pool of equal buffers, made and touched before the first window.  CUPTI
 * asks for a buffer on the application's thread and returns it on any thread;
 * both sides are lock-free.  The agent takes the returned buffers in order,
 * reads them and gives them back.  When the pool is empty, CUPTI gets a shared
 * buffer whose contents are thrown away: NULL would crash releases before 12.9.
 * Whatever is thrown away or makes no sense is counted.
 */
#ifndef MOETOP_CUPTI_BUFFERS_H
#define MOETOP_CUPTI_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFERS_MAX 256u

struct buffers {
	uint8_t *memory;
	size_t bytes; /* of one buffer */
	uint32_t count;
	uint8_t *discard;
	/* Stacks of indices: 32 bits of tag, 32 bits of index + 1. */
	_Atomic uint64_t free, done;
	_Atomic uint32_t next[BUFFERS_MAX];
	_Atomic size_t valid[BUFFERS_MAX];
	_Atomic bool out[BUFFERS_MAX]; /* CUPTI has it */
	_Atomic uint64_t discarded_bytes;
	_Atomic uint64_t refused;    /* returns of no buffer that CUPTI had, or
				   * with more in it than it holds */
	uint32_t order[BUFFERS_MAX]; /* taken, oldest first: agent only */
	uint32_t taken, given;
};

/* 0, -EINVAL, -ENOMEM (*b is then zero). */
int buffers_init(struct buffers *b, uint32_t count, size_t bytes);
void buffers_fini(struct buffers *b);

/* For CUPTI: a buffer, never NULL after init. */
uint8_t *buffers_request(struct buffers *b, size_t *bytes);
/* For CUPTI: `valid` bytes of records are in it.  One that it did not have is
 * refused, and one with an impossible length counts as empty. */
void buffers_complete(struct buffers *b, uint8_t *buffer, size_t valid);

/* For the agent: the oldest returned buffer, or NULL.  Give each back once. */
uint8_t *buffers_take(struct buffers *b, size_t *valid);
void buffers_give(struct buffers *b, uint8_t *buffer);

#endif
