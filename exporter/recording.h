/*
 * recording.h - a snapshot as one protobuf message (wire/snapshot.proto)
 *
 * One table row per field serves both directions, so that a field cannot be
 * written and not read.
 */
#ifndef MOETOP_EXPORTER_RECORDING_H
#define MOETOP_EXPORTER_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "model/snapshot.h"

#define RECORDING_MAGIC "MOETOPR1" /* 8 bytes at the start of a file */
#define RECORDING_MAGIC_BYTES 8u
#define RECORDING_MESSAGE_MAX (1u << 20) /* bytes of one snapshot */

/* *out is owned by the caller (free).  0 or -ENOMEM. */
int recording_pack(const struct snapshot *s, uint8_t **out, size_t *bytes);

/*
 * data is hostile.  0, -EBADMSG, -ENOMEM; *s is unchanged on error.  Strings
 * that are too long are cut, metrics of unknown id are left out, a number that
 * is not finite becomes NO_DATA.
 */
int recording_unpack(const uint8_t *data, size_t bytes, struct snapshot *s);

#endif
