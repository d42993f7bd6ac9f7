#include "target/promtext_json.h"

#include <jansson.h>
#include <string.h>

#define DEPTH_MAX 12u

static void feed(struct promtext *x, const char *s)
{
	promtext_feed(x, s, strlen(s));
}

static void feed_quoted(struct promtext *x, const char *s)
{
	promtext_feed(x, "\"", 1);
	for (; *s; s++) {
		if (*s == '\n') {
			feed(x, "\\n");
			continue;
		}
		if (*s == '"' || *s == '\\')
			promtext_feed(x, "\\", 1);
		promtext_feed(x, s, 1);
	}
	promtext_feed(x, "\"", 1);
}

/* A number, a number in a string, or [time, number]. */
static void feed_number(struct promtext *x, const json_t *v)
{
	char *text;

	if (json_is_array(v))
		v = json_array_get(v, json_array_size(v) - 1);
	if (json_is_string(v)) {
		feed(x, json_string_value(v));
	} else if (json_is_number(v)) {
		text = json_dumps(v, JSON_ENCODE_ANY);
		if (text)
			feed(x, text);
		free(text);
	}
}

/* One sample, written down again as the line that it was. */
static void feed_sample(struct promtext *x, const char *name, json_t *labels,
			const json_t *value)
{
	void *it = json_object_iter(labels);

	promtext_feed(x, "{", 1);
	feed_quoted(x, name);
	for (; it; it = json_object_iter_next(labels, it)) {
		const char *key = json_object_iter_key(it);
		const json_t *l = json_object_iter_value(it);

		if (!strcmp(key, "__name__") || !json_is_string(l))
			continue;
		promtext_feed(x, ",", 1);
		feed_quoted(x, key);
		promtext_feed(x, "=", 1);
		feed_quoted(x, json_string_value(l));
	}
	feed(x, "} ");
	feed_number(x, value);
	promtext_feed(x, "\n", 1);
}

static void feed_family(struct promtext *x, const char *name, json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *m = json_array_get(list, i);

		if (json_object_get(m, "value"))
			feed_sample(x, name, json_object_get(m, "labels"),
				    json_object_get(m, "value"));
	}
}

/* {"name": ..., "labels": ..., "value": ...} in one of its spellings. */
static bool feed_object(struct promtext *x, json_t *o)
{
	json_t *metric = json_object_get(o, "metric");
	json_t *value = json_object_get(o, "value");
	json_t *list = json_object_get(o, "metrics");
	const char *name =
		json_string_value(json_object_get(metric, "__name__"));

	if (name && value) {
		feed_sample(x, name, metric, value);
		return true;
	}
	name = json_string_value(
		json_is_string(metric) ? metric : json_object_get(o, "name"));
	if (name && value)
		feed_sample(x, name, json_object_get(o, "labels"), value);
	else if (name && json_is_array(list))
		feed_family(x, name, list);
	else
		return false;
	return true;
}

/* {"name": number} and {"name{label=\"value\"}": number}. */
static void feed_member(struct promtext *x, const char *key, const json_t *v)
{
	feed(x, key);
	promtext_feed(x, " ", 1);
	feed_number(x, v);
	promtext_feed(x, "\n", 1);
}

static void walk(struct promtext *x, json_t *v, unsigned depth)
{
	void *it;

	if (depth > DEPTH_MAX)
		return;
	if (json_is_string(v)) {
		feed(x, json_string_value(v));
		promtext_feed(x, "\n", 1);
		return;
	}
	for (size_t i = 0; i < json_array_size(v); i++)
		walk(x, json_array_get(v, i), depth + 1);
	if (!json_is_object(v) || feed_object(x, v))
		return;
	for (it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		json_t *child = json_object_iter_value(it);

		if (json_is_number(child))
			feed_member(x, json_object_iter_key(it), child);
		else
			walk(x, child, depth + 1);
	}
}

bool promtext_json_feed(struct promtext *x, const char *text, size_t bytes)
{
	size_t skip = 0;
	json_t *doc;

	while (skip < bytes && strchr(" \t\r\n", text[skip]) && text[skip])
		skip++;
	if (skip == bytes || !strchr("\"{[", text[skip]) || !text[skip])
		return false;
	doc = json_loadb(text + skip, bytes - skip,
			 JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	if (!doc)
		return false;
	walk(x, doc, 0);
	json_decref(doc);
	return true;
}
