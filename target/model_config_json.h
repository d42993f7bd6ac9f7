/*
 * model_config_json.h - bounded look-ups in a config.json
 *
 * Internal to target/model_config*.c.  Keys are given as a list of words: the
 * first that is there and not null wins, and a dot descends one object.  Each
 * is looked for in the text part of the config first, then in its root, as
 * the engines do; where none is there, not even as null, the family's own
 * default counts.
 *
 * A value of the wrong type or out of range is remembered in `bad` (first one
 * only) and reads as absent, so that callers can check once at the end.
 */
#ifndef MOETOP_TARGET_MODEL_CONFIG_JSON_H
#define MOETOP_TARGET_MODEL_CONFIG_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define CONFIG_NUMBER_MAX (1u << 26)
#define CONFIG_LIST_MAX 4096u /* entries of a list that are looked at */

struct config {
	const json_t *root, *text; /* borrowed; text may be root */
	json_t *defaults;          /* owned; NULL: none are known */
	char bad[48];              /* key of a senseless value, "" none */
};

/* Parse, with Python's Infinity and NaN accepted; NULL and *error on failure.
 * The caller owns the reference. */
json_t *config_load(const char *json, size_t bytes, json_error_t *error);

/* Point at root and at the part that describes the language model. */
void config_init(struct config *c, const json_t *root);
void config_done(struct config *c);

/* The keys that a family may leave out, with what they are then; NULL: none
 * are known.  The caller owns the reference. */
json_t *config_defaults(const char *model_type);

/* The value, or NULL when absent or null. */
const json_t *config_get(const struct config *c, const char *keys);

/* A whole number in 0..CONFIG_NUMBER_MAX, or the largest of a list of at most
 * CONFIG_LIST_MAX of them; fallback when absent. */
uint32_t config_u32(struct config *c, const char *keys, uint32_t fallback);

/* As config_u32, but -1, which means "none" in some families, is absent. */
uint32_t config_limit(struct config *c, const char *keys, uint32_t fallback);

/* Entry i of a list under keys; fallback when absent or not a list. */
uint32_t config_u32_at(struct config *c, const char *keys, uint32_t i,
		       uint32_t fallback);

/* A true boolean or a number that is not 0; fallback when absent. */
bool config_flag(const struct config *c, const char *keys, bool fallback);

/* The string, or "" when absent. */
const char *config_string(const struct config *c, const char *keys);

/* Entry i of a list of strings, or "" . */
const char *config_string_at(const struct config *c, const char *keys,
			     uint32_t i);

/* Whether a list of numbers holds x. */
bool config_list_has(const struct config *c, const char *keys, uint32_t x);

#endif
