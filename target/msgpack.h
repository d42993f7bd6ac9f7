/*
 * msgpack.h - the numbers of a MessagePack map
 *
 * Only what a reader of a flat map needs: strings as keys, numbers and booleans
 * as values; anything else is skipped, however deep.  Bounded by the input: no
 * recursion, no allocation.
 */
#ifndef MOETOP_TARGET_MSGPACK_H
#define MOETOP_TARGET_MSGPACK_H

#include <stddef.h>
#include <stdint.h>

/* Calls entry for each key (not NUL-terminated) whose value is a number.  0, or
 * -EPROTO when the bytes are not one whole map; entries may have been called. */
int msgpack_map(const uint8_t *p, size_t n,
		void (*entry)(void *arg, const char *key, size_t key_bytes,
			      double value),
		void *arg);

#endif
