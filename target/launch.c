#include "target/launch.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES_MAX 1024u

static const char *const names[LAUNCH_IDS] = {
#define LAUNCH(id, name) name,
#include "target/launch.def"
};

const char *launch_name(enum launch_id id)
{
	return names[id];
}

const char *launch_find(const struct launch *l, enum launch_id id)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->list[i].id == id)
			return l->list[i].value;
	return NULL;
}

/* "$TP", "${TP}", "<port>": text of a script, not what a server was given. */
static bool is_placeholder(const char *v)
{
	return strchr(v, '$') || (v[0] == '<' && strchr(v, '>'));
}

static void put(struct launch_option *o, const char *value)
{
	size_t n = 0;

	for (const char *p = value; *p && n < sizeof(o->value) - 1; p++)
		o->value[n++] = isprint((unsigned char)*p) ? *p : '?';
	o->value[n] = '\0';
	if (strlen(value) > n) /* more than there is room for */
		memcpy(o->value + n - 2, "..", 2);
}

void launch_set(struct launch *l, enum launch_id id, const char *value)
{
	unsigned at = 0;

	if (is_placeholder(value))
		value = "unknown";
	while (at < l->n && l->list[at].id < id)
		at++;
	if (at < l->n && l->list[at].id == id) {
		put(&l->list[at], value);
		return;
	}
	if (l->n == LAUNCH_MAX) {
		l->more++;
		return;
	}
	memmove(&l->list[at + 1], &l->list[at],
		(l->n - at) * sizeof(l->list[0]));
	l->n++;
	l->list[at] = (struct launch_option){ .id = id };
	snprintf(l->list[at].name, sizeof(l->list[at].name), "%s", names[id]);
	put(&l->list[at], value);
}

/* ---- sizes -------------------------------------------------------------- */

static void set_sizes(struct launch *l, const uint32_t *sizes, unsigned n,
		      bool cut)
{
	uint32_t low = UINT32_MAX, high = 0;
	char text[48];

	for (unsigned i = 0; i < n; i++) {
		low = sizes[i] < low ? sizes[i] : low;
		high = sizes[i] > high ? sizes[i] : high;
	}
	if (n == 0)
		snprintf(text, sizeof(text), "unknown");
	else if (cut)
		snprintf(text, sizeof(text), "%u..%u and more", low, high);
	else if (n == 1)
		snprintf(text, sizeof(text), "%u", high);
	else
		snprintf(text, sizeof(text), "%u..%u (%u)", low, high, n);
	launch_set(l, LAUNCH_CAPTURE, text);
	l->capture_max = cut ? 0 : high;
}

void launch_set_sizes(struct launch *l, const char *numbers)
{
	uint32_t sizes[SIZES_MAX];
	unsigned n = 0;
	char *end;

	for (const char *p = numbers; *p && n < SIZES_MAX; p = end) {
		unsigned long v;

		p += strspn(p, "[]{}(), \t\"'");
		if (!isdigit((unsigned char)*p))
			break;
		v = strtoul(p, &end, 10);
		if (v == 0 || v > 1u << 20)
			break;
		sizes[n++] = (uint32_t)v;
	}
	set_sizes(l, sizes, n, strstr(numbers, "...") != NULL);
}

/* ---- JSON --------------------------------------------------------------- */

static const json_t *member(const json_t *o, const char *a, const char *b)
{
	const json_t *v = json_object_get(o, a);

	return v || !b ? v : json_object_get(o, b);
}

static uint32_t number(const json_t *v)
{
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n > 0 && n <= 65536 ? (uint32_t)n : 0;
}

static void set_number(struct launch *l, enum launch_id id, const json_t *v)
{
	char text[24];

	if (!number(v))
		return;
	snprintf(text, sizeof(text), "%u", number(v));
	launch_set(l, id, text);
}

static void set_word(struct launch *l, enum launch_id id, const json_t *v)
{
	if (json_is_string(v))
		launch_set(l, id, json_string_value(v));
	else
		set_number(l, id, v);
}

static void set_array(struct launch *l, const json_t *v)
{
	uint32_t sizes[SIZES_MAX];
	unsigned n = 0;
	const json_t *one;
	size_t i;

	json_array_foreach(v, i, one) if (n < SIZES_MAX && number(one))
		sizes[n++] = number(one);
	set_sizes(l, sizes, n, false);
}

/* Of a config that says nothing about graphs, the text. */
static void compilation(struct launch *l, const json_t *o, const char *text)
{
	unsigned n = l->n;

	const json_t *sizes = member(o, "cudagraph_capture_sizes", NULL);
	const json_t *most =
		member(o, "max_cudagraph_capture_size", "max_capture_size");

	if (json_is_array(sizes))
		set_array(l, sizes);
	else if (number(most))
		l->capture_max = number(most);
	if (!json_is_array(sizes))
		set_number(l, LAUNCH_CAPTURE, most);
	if (member(o, "cudagraph_mode", NULL))
		set_word(l, LAUNCH_GRAPH_MODE,
			 member(o, "cudagraph_mode", NULL));
	else if (json_is_true(member(o, "full_cuda_graph", NULL)))
		launch_set(l, LAUNCH_GRAPH_MODE, "FULL");
	if (l->n == n)
		launch_set(l, LAUNCH_COMPILATION, text);
}

static void speculative(struct launch *l, const json_t *o)
{
	const json_t *n = member(o, "num_speculative_tokens", NULL);

	set_word(l, LAUNCH_SPECULATIVE, member(o, "method", NULL));
	set_word(l, LAUNCH_DRAFT_MODEL, member(o, "model", NULL));
	set_number(l, LAUNCH_DRAFT_TOKENS, n);
	l->draft_tokens = number(n);
	if (!launch_find(l, LAUNCH_SPECULATIVE))
		launch_set(l, LAUNCH_SPECULATIVE, "on");
}

static void eplb(struct launch *l, const json_t *o)
{
	const json_t *n = member(o, "num_redundant_experts", NULL);

	set_number(l, LAUNCH_REDUNDANT, n);
	l->redundant_experts = number(n);
}

static void transfer(struct launch *l, const json_t *o)
{
	const json_t *name = member(o, "kv_connector", NULL);
	const json_t *role = member(o, "kv_role", NULL);
	char text[96];

	snprintf(text, sizeof(text), "kv-transfer %.40s %.40s",
		 json_is_string(name) ? json_string_value(name) : "?",
		 json_is_string(role) ? json_string_value(role) : "");
	launch_set(l, LAUNCH_DISAGGREGATION, text);
}

void launch_set_json(struct launch *l, enum launch_id id, const char *json)
{
	json_t *o = json_loads(json, JSON_DISABLE_EOF_CHECK, NULL);

	if (json_is_object(o) && id == LAUNCH_GRAPH_MODE)
		compilation(l, o, json);
	else if (json_is_object(o) && id == LAUNCH_SPECULATIVE)
		speculative(l, o);
	else if (json_is_object(o) && id == LAUNCH_REDUNDANT)
		eplb(l, o);
	else if (json_is_object(o) && id == LAUNCH_DISAGGREGATION)
		transfer(l, o);
	else if (json_is_object(o) && id == LAUNCH_ATTENTION)
		set_word(l, id, member(o, "backend", NULL));
	else if (id == LAUNCH_DISAGGREGATION)
		launch_set(l, id, "kv-transfer");
	else if (id != LAUNCH_REDUNDANT)
		launch_set(l, id, o || json[0] != '{' ? json : "unknown");
	json_decref(o);
}
