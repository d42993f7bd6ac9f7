/*
 * model_config.h - config.json to the shape of a model
 *
 * Knows the families and the quantisation schemes; see model/arch.h for what
 * comes out.  The JSON is read by jansson; input is hostile (size, depth and
 * every number are bounded).
 */
#ifndef MOETOP_TARGET_MODEL_CONFIG_H
#define MOETOP_TARGET_MODEL_CONFIG_H

#include <stddef.h>

#include "model/arch.h"

#define MODEL_CONFIG_BYTES_MAX (32u << 20)

/*
 * Read path, or config.json or params.json in it when it is a folder, and
 * hf_quant_config.json beside that if there is one (of
 * "NAME_config.json": NAME_hf_quant_config.json).  Where neither says how the
 * weights are stored but the file or its folder is named so ("...-NVFP4"), the
 * name counts, and arch.quant says " by its name".  A dense model succeeds with
 * experts == 0.  -ENOENT, -EFBIG, -EINVAL (not JSON, or a
 * number that makes no sense), -ENOTSUP (a family whose experts were not
 * found); why gets one line in every error.  *out is unchanged on error.
 */
int model_config_read(const char *path, struct arch *out, char *why,
		      size_t why_bytes);

/* The same on text in memory; quant may be NULL.  For tests and fuzzing. */
int model_config_parse(const char *json, size_t bytes, const char *quant,
		       size_t quant_bytes, struct arch *out, char *why,
		       size_t why_bytes);

#endif
