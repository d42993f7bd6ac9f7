/*
 * recording_fields.h - which member of a struct is which field of its message
 *
 * The tables are in recording_fields.c and recording_whatif.c; recording.c and
 * recording_unpack.c walk them in the two directions.  recording_large.c has
 * what is no such field: arrays of numbers.
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
	MAYBE, /* a double that may be NAN, a Value in the message */
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
	tier_shape, requests_shape, bytes_shape, whatif_shape;

/* A member of struct s, or one of a struct in it, in message m as name. */
#define FIELD_AS(kind, s, member, m, name)                         \
	{                                                          \
		.type = kind, .at = offsetof(s, member),           \
		.bytes = sizeof(((s *)0)->member),                 \
		.message_at = offsetof(m, name), .max = UINT32_MAX \
	}
#define FIELD(kind, s, m, name) FIELD_AS(kind, s, name, m, name)
#define LIMITED_AS(s, member, m, name, limit)                 \
	{                                                     \
		.type = U32, .at = offsetof(s, member),       \
		.bytes = sizeof(((s *)0)->member),            \
		.message_at = offsetof(m, name), .max = limit \
	}
#define LIMITED(s, m, name, limit) LIMITED_AS(s, name, m, name, limit)
#define ROWS(s, m, member, n_member, message_name, limit, shape)            \
	{                                                                   \
		.type = LIST, .at = offsetof(s, member),                    \
		.message_at = offsetof(m, message_name), .max = limit,      \
		.n_at = offsetof(s, n_member),                              \
		.message_n_at = offsetof(m, n_##message_name), .row = shape \
	}
#define SHAPE(descriptor, table, s)                                 \
	{                                                           \
		&moetop__##descriptor##__descriptor, table,         \
			sizeof(table) / sizeof(table[0]), sizeof(s) \
	}

#define GROUP_SHARES \
	(sizeof(((struct snapshot *)0)->group_share) / sizeof(struct value))
#define VERDICTS 3u

#endif
