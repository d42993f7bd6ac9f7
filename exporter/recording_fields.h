/*
 * recording_fields.h - which member of a struct is which field of its message
 *
 * The tables are in recording_fields.c; recording.c and recording_unpack.c walk
 * them in the two directions.
 */
#ifndef MOETOP_EXPORTER_RECORDING_FIELDS_H
#define MOETOP_EXPORTER_RECORDING_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "model/snapshot.h"
#include "wire/snapshot.pb-c.h"

enum type {
	TEXT,
	VALUE,
	DOUBLE,
	BOOL,
	U16,
	U32, /* also enumerations */
	U64,
	I32,
	LIST,
};

struct shape;

/* A member of a struct and of its message. */
struct field {
	enum type type;
	size_t at, bytes; /* in the struct */
	size_t message_at;
	uint32_t max; /* U32: largest legal; LIST: rows */
	/* LIST: the counters, and what a row is */
	size_t n_at, message_n_at;
	const struct shape *row;
};

struct shape {
	const ProtobufCMessageDescriptor *message;
	const struct field *fields;
	unsigned n;
	size_t bytes; /* of the struct */
};

extern const struct shape snapshot_shape, target_shape, health_shape,
	tier_shape;

#define GROUP_SHARES \
	(sizeof(((struct snapshot *)0)->group_share) / sizeof(struct value))
#define VERDICTS 3u

#endif
