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

/* What a snapshot may leave out because it is as in the one before.  All-zero
 * is that of an empty snapshot. */
struct recording_kept {
	struct snapshot_experts experts;
	unsigned n_layers;
	unsigned n_classes[SNAPSHOT_LAYERS_MAX];
	struct snapshot_layer_class classes[SNAPSHOT_LAYERS_MAX]
					   [SNAPSHOT_LAYER_CLASSES_MAX];
};
void recording_keep(struct recording_kept *k, const struct snapshot *s);

/* Left out is what is as `before` has it; NULL: nothing is.  *out is owned by
 * the caller (free).  0 or -ENOMEM. */
int recording_pack(const struct recording_kept *before,
		   const struct snapshot *s, uint8_t **out, size_t *bytes);

/*
 * What was left out comes from `before`; NULL: it stays empty.  data is
 * hostile.  0, -EBADMSG, -ENOMEM; *s is unchanged on error.  Strings
 * that are too long are cut, metrics of unknown id are left out, a number that
 * is not finite becomes NO_DATA.
 */
int recording_unpack(const struct recording_kept *before, const uint8_t *data,
		     size_t bytes, struct snapshot *s);

#endif
