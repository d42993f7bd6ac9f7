/*
 * given_model.h - the file of --model
 *
 * Read once, by the rights of the user who named it and before ours are raised;
 * whoever has more works with what was read, and never with the path.
 */
#ifndef MOETOP_CORE_GIVEN_MODEL_H
#define MOETOP_CORE_GIVEN_MODEL_H

#include "core/settings.h"
#include "target/target.h"

/* STATUS_OK and *out, whose path is NULL where none was named; or the status of
 * an error, which has been said. */
int given_model_read(const struct settings *s, struct target_model *out);

#endif
