/*
 * config_override.h - config.json as the command line changes it
 *
 * vLLM's --hf-overrides and SGLang's --json-model-override-args are objects
 * that are laid over config.json; objects within are merged.  No I/O.
 */
#ifndef MOETOP_TARGET_CONFIG_OVERRIDE_H
#define MOETOP_TARGET_CONFIG_OVERRIDE_H

#include <stddef.h>

/* *json, from malloc, is replaced.  0, -EINVAL when one of the two is no JSON
 * object, -ENOMEM; *json is unchanged on error. */
int config_override(char **json, size_t *bytes, const char *overrides);

#endif
