#include "target/model_config_json.h"

#include <stdlib.h>
#include <string.h>

/* Python writes Infinity and NaN, which JSON does not have.  Blank them out
 * in place, outside strings: the fields that hold them mean nothing here. */
static void replace_nonfinite(char *s, size_t n)
{
	bool in_string = false;

	for (size_t i = 0; i < n; i++) {
		if (in_string && s[i] == '\\') {
			i++;
		} else if (s[i] == '"') {
			in_string = !in_string;
		} else if (!in_string && n - i >= 8 &&
			   memcmp(s + i, "Infinity", 8) == 0) {
			bool negative = i > 0 && s[i - 1] == '-';

			memcpy(s + i, negative ? "1       " : "null    ", 8);
			i += 7;
		} else if (!in_string && n - i >= 3 &&
			   memcmp(s + i, "NaN", 3) == 0) {
			memcpy(s + i, "0  ", 3);
			i += 2;
		}
	}
}

json_t *config_load(const char *json, size_t bytes, json_error_t *error)
{
	char *copy = malloc(bytes + 1);
	json_t *root;

	if (!copy) {
		memset(error, 0, sizeof(*error));
		return NULL;
	}
	memcpy(copy, json, bytes);
	copy[bytes] = '\0';
	replace_nonfinite(copy, bytes);
	root = json_loadb(copy, bytes, 0, error);
	free(copy);
	return root;
}

static const json_t *text_part(const json_t *root)
{
	static const char *const parts[] = { "text_config", "llm_config",
					     "language_config",
					     "language_model_config" };
	const json_t *thinker = json_object_get(root, "thinker_config");

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const json_t *part = json_object_get(root, parts[i]);

		if (!json_is_object(part))
			part = json_object_get(thinker, parts[i]);
		if (json_is_object(part))
			return part;
	}
	return root;
}

void config_init(struct config *c, const json_t *root)
{
	*c = (struct config){ .root = root, .text = text_part(root) };
	c->defaults = config_defaults(config_string(c, "model_type"));
}

void config_done(struct config *c)
{
	json_decref(c->defaults);
	c->defaults = NULL;
}

/* The value at a path of n characters; json null as such. */
static const json_t *descend(const json_t *from, const char *path, size_t n)
{
	while (n > 0) {
		const char *dot = memchr(path, '.', n);
		size_t step = dot ? (size_t)(dot - path) : n;
		char key[64];

		if (step >= sizeof(key))
			return NULL;
		memcpy(key, path, step);
		key[step] = '\0';
		from = json_object_get(from, key);
		if (!dot)
			break;
		path = dot + 1;
		n -= step + 1;
	}
	return from;
}

static bool is_value(const json_t *v)
{
	return v && !json_is_null(v);
}

static const json_t *get_default(const struct config *c, const char *keys)
{
	while (c->defaults && *keys) {
		size_t n = strcspn(keys, " ");
		const json_t *v = descend(c->defaults, keys, n);

		if (v && !descend(c->text, keys, n) &&
		    !descend(c->root, keys, n))
			return v;
		keys += n;
		keys += strspn(keys, " ");
	}
	return NULL;
}

const json_t *config_get(const struct config *c, const char *keys)
{
	for (const char *k = keys; *k;) {
		size_t n = strcspn(k, " ");
		const json_t *v = descend(c->text, k, n);

		if (!is_value(v) && c->text != c->root)
			v = descend(c->root, k, n);
		if (is_value(v))
			return v;
		k += n;
		k += strspn(k, " ");
	}
	return get_default(c, keys);
}

static void mark_bad(struct config *c, const char *keys)
{
	size_t n = strcspn(keys, " ");

	if (c->bad[0])
		return;
	if (n >= sizeof(c->bad))
		n = sizeof(c->bad) - 1;
	memcpy(c->bad, keys, n);
	c->bad[n] = '\0';
}

static bool whole_number(const json_t *v, uint32_t *out)
{
	double x = json_is_number(v) ? json_number_value(v) : -1;

	if (!(x >= 0 && x <= CONFIG_NUMBER_MAX) || x != (double)(uint32_t)x)
		return false;
	*out = (uint32_t)x;
	return true;
}

uint32_t config_u32(struct config *c, const char *keys, uint32_t fallback)
{
	const json_t *v = config_get(c, keys);
	uint32_t best = 0, x;

	if (!v || json_is_false(v))
		return fallback;
	if (!json_is_array(v)) {
		if (whole_number(v, &x))
			return x;
		mark_bad(c, keys);
		return fallback;
	}
	if (json_array_size(v) == 0)
		return fallback;
	if (json_array_size(v) > CONFIG_LIST_MAX) {
		mark_bad(c, keys);
		return fallback;
	}
	for (size_t i = 0; i < json_array_size(v); i++) {
		if (!whole_number(json_array_get(v, i), &x)) {
			mark_bad(c, keys);
			return fallback;
		}
		best = x > best ? x : best;
	}
	return best;
}

uint32_t config_limit(struct config *c, const char *keys, uint32_t fallback)
{
	const json_t *v = config_get(c, keys);

	if (json_is_number(v) && json_number_value(v) < 0)
		return fallback;
	return config_u32(c, keys, fallback);
}

uint32_t config_u32_at(struct config *c, const char *keys, uint32_t i,
		       uint32_t fallback)
{
	const json_t *v = json_array_get(config_get(c, keys), i);
	uint32_t x;

	if (!v || json_is_null(v))
		return fallback;
	if (json_is_boolean(v))
		return json_is_true(v);
	if (whole_number(v, &x))
		return x;
	mark_bad(c, keys);
	return fallback;
}

bool config_flag(const struct config *c, const char *keys, bool fallback)
{
	const json_t *v = config_get(c, keys);

	if (json_is_number(v))
		return json_number_value(v) != 0;
	return json_is_boolean(v) ? json_is_true(v) : fallback;
}

const char *config_string(const struct config *c, const char *keys)
{
	const char *s = json_string_value(config_get(c, keys));

	return s ? s : "";
}

const char *config_string_at(const struct config *c, const char *keys,
			     uint32_t i)
{
	const char *s =
		json_string_value(json_array_get(config_get(c, keys), i));

	return s ? s : "";
}

bool config_list_has(const struct config *c, const char *keys, uint32_t x)
{
	const json_t *v = config_get(c, keys);

	for (size_t i = 0; i < json_array_size(v) && i < CONFIG_LIST_MAX; i++) {
		const json_t *e = json_array_get(v, i);

		if (json_is_number(e) && json_number_value(e) == (double)x)
			return true;
	}
	return false;
}
