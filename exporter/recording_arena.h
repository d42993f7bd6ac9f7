/*
 * recording_arena.h - where the messages of one snapshot live until they are
 * packed; running out is noticed at the end
 */
#ifndef MOETOP_EXPORTER_RECORDING_ARENA_H
#define MOETOP_EXPORTER_RECORDING_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "model/value.h"
#include "wire/snapshot.pb-c.h"

#define ARENA_BYTES (2u << 20)

struct arena {
	char *data; /* ARENA_BYTES */
	size_t used;
	bool full;
};

/* Zeroed, or NULL: full is true from now on. */
void *arena_take(struct arena *a, size_t bytes);
/* An empty message of that kind. */
void *arena_message(struct arena *a, const ProtobufCMessageDescriptor *d);

/* NULL, which is not written, for what is unknown. */
Moetop__Value *value_pack(struct arena *a, struct value x);

#endif
