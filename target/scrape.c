#include "target/scrape.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 512u
#define NUMBER_BYTES 64u

enum field {
	RUNNING,
	WAITING,
	TOKENS,
	KV_SHARE, /* of the cache in use */
	KV_ROOM,  /* tokens that it has room for */
	KV_USED,  /* tokens in it */
	KV_READ,  /* tokens that a decode step reads */
	FIELDS
};

static const struct metric_name {
	const char *engine, *name;
	enum field field;
} names[] = {
	{ "vllm", "num_requests_running", RUNNING },
	{ "vllm", "num_requests_waiting", WAITING },
	{ "vllm", "generation_tokens_total", TOKENS },
	{ "vllm", "kv_cache_usage_perc", KV_SHARE },
	{ "vllm", "gpu_cache_usage_perc", KV_SHARE },
	{ "vllm", "cache_config_info", KV_ROOM },
	{ "sglang", "num_running_reqs", RUNNING },
	{ "sglang", "num_queue_reqs", WAITING },
	{ "sglang", "generation_tokens_total", TOKENS },
	{ "sglang", "token_usage", KV_SHARE },
	{ "sglang", "max_total_num_tokens", KV_ROOM },
	{ "sglang", "num_used_tokens", KV_USED },
	{ "sglang", "decode_sum_seq_lens", KV_READ },
};

/* Labels that tell engines of one server apart: their gauges are added. */
static const char *const part_labels[] = { "engine", "engine_index",
					   "dp_rank" };

/* Labels of ranks that all report the same number. */
static const char *const copy_labels[] = { "tp_rank", "pp_rank", "moe_ep_rank",
					   "attn_cp_rank", "moe_dp_rank" };

struct span {
	const char *p, *end;
};

/* Series of one metric: one entry for each part of the server. */
struct total {
	struct {
		uint64_t key;
		double value;
	} series[SERIES_MAX];
	unsigned n;
	bool overflow;
};

/*
 * SGLang splits its gauges by priority and repeats the total with an empty
 * priority; the split counts only where the total is missing.
 */
struct totals {
	struct total whole[FIELDS], split[FIELDS];
	const char *engine;
};

struct labels {
	uint64_t part; /* hash of the labels that name a part */
	uint64_t rest; /* hash of all but the copies and the priority */
	uint64_t priority;
	bool has_priority;
	double blocks, block_tokens; /* of the KV cache; 0 not said */
};

static bool span_is(struct span s, const char *word)
{
	size_t n = (size_t)(s.end - s.p);

	return n == strlen(word) && memcmp(s.p, word, n) == 0;
}

static bool span_in(struct span s, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (span_is(s, words[i]))
			return true;
	return false;
}

static void skip_blanks(struct span *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == ':';
}

static struct span take_name(struct span *s)
{
	struct span name = { .p = s->p };

	while (s->p < s->end && is_name(*s->p))
		s->p++;
	name.end = s->p;
	return name;
}

static uint64_t hash_span(uint64_t h, struct span s)
{
	for (; s.p < s.end; s.p++)
		h = (h ^ (unsigned char)*s.p) * 0x100000001b3ull;
	return h;
}

/* The text between quotes, escapes left in. */
static bool take_quoted(struct span *s, struct span *out)
{
	if (s->p == s->end || *s->p != '"')
		return false;
	out->p = ++s->p;
	for (; s->p < s->end && *s->p != '"'; s->p++)
		if (*s->p == '\\' && s->p + 1 < s->end)
			s->p++;
	if (s->p == s->end)
		return false;
	out->end = s->p++;
	return true;
}

/* A whole number of 1 to 10^12; else 0. */
static double span_count(struct span s)
{
	double n = 0;

	for (; s.p < s.end; s.p++) {
		if (*s.p < '0' || *s.p > '9' || n > 1e11)
			return 0;
		n = 10 * n + (*s.p - '0');
	}
	return n;
}

static void labels_add(struct labels *l, struct span name, struct span value)
{
	uint64_t h = hash_span(hash_span(0xcbf29ce484222325ull, name), value);

	if (span_is(name, "priority")) {
		l->has_priority = value.p != value.end;
		l->priority = h;
		return;
	}
	if (span_is(name, "num_gpu_blocks"))
		l->blocks = span_count(value);
	if (span_is(name, "block_size"))
		l->block_tokens = span_count(value);
	if (span_in(name, copy_labels,
		    sizeof(copy_labels) / sizeof(copy_labels[0])))
		return;
	if (span_in(name, part_labels,
		    sizeof(part_labels) / sizeof(part_labels[0])))
		l->part += h;
	l->rest += h;
}

/* {a="b",...}; false when the line makes no sense. */
static bool take_labels(struct span *s, struct labels *l)
{
	struct span name, value;

	if (s->p == s->end || *s->p != '{')
		return true;
	s->p++;
	for (;;) {
		skip_blanks(s);
		if (s->p < s->end && *s->p == '}')
			break;
		name = take_name(s);
		skip_blanks(s);
		if (name.p == name.end || s->p == s->end || *s->p++ != '=')
			return false;
		skip_blanks(s);
		if (!take_quoted(s, &value))
			return false;
		labels_add(l, name, value);
		skip_blanks(s);
		if (s->p < s->end && *s->p == ',')
			s->p++;
		else if (s->p == s->end || *s->p != '}')
			return false;
	}
	s->p++;
	return true;
}

/* A finite number that is not negative. */
static bool take_number(struct span *s, locale_t c, double *out)
{
	char text[NUMBER_BYTES], *end;
	size_t n = 0;
	double v;

	skip_blanks(s);
	while (s->p < s->end && *s->p != ' ' && *s->p != '\t') {
		if (n + 1 == sizeof(text))
			return false;
		text[n++] = *s->p++;
	}
	text[n] = '\0';
	v = strtod_l(text, &end, c);
	if (n == 0 || *end || !isfinite(v) || v < 0)
		return false;
	*out = v;
	return true;
}

static void total_add(struct total *t, uint64_t key, double value)
{
	for (unsigned i = 0; i < t->n; i++) {
		if (t->series[i].key != key)
			continue;
		/* copies may be a moment apart; a count that fell is rarer */
		if (value > t->series[i].value)
			t->series[i].value = value;
		return;
	}
	if (t->n == SERIES_MAX) {
		t->overflow = true;
		return;
	}
	t->series[t->n].key = key;
	t->series[t->n++].value = value;
}

/* "vllm:num_requests_running", or with '_' where a proxy renamed it. */
static const struct metric_name *find_metric(struct span name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i].engine);

		if ((size_t)(name.end - name.p) <= n + 1 ||
		    memcmp(name.p, names[i].engine, n) != 0 ||
		    (name.p[n] != ':' && name.p[n] != '_'))
			continue;
		if (span_is((struct span){ name.p + n + 1, name.end },
			    names[i].name))
			return &names[i];
	}
	return NULL;
}

static void take_line(struct totals *t, struct span line, locale_t c)
{
	struct labels l = { 0 };
	const struct metric_name *m;
	double value;
	uint64_t key;

	skip_blanks(&line);
	m = find_metric(take_name(&line));
	if (!m || (t->engine && strcmp(t->engine, m->engine) != 0))
		return;
	skip_blanks(&line);
	if (!take_labels(&line, &l) || !take_number(&line, c, &value))
		return;
	t->engine = m->engine;
	/* vLLM says it by the labels of a metric that is always 1 */
	if (m->field == KV_ROOM && l.blocks * l.block_tokens > 0)
		value *= l.blocks * l.block_tokens;
	else if (m->field == KV_ROOM && !strcmp(m->engine, "vllm"))
		return;
	key = m->field == TOKENS ? l.rest : l.part;
	if (l.has_priority)
		total_add(&t->split[m->field], key + l.priority, value);
	else
		total_add(&t->whole[m->field], key, value);
}

static double totals_sum(const struct totals *t, enum field f)
{
	const struct total *from = t->whole[f].n ? &t->whole[f] : &t->split[f];
	double sum = 0;

	if (from->n == 0 || from->overflow)
		return NAN;
	for (unsigned i = 0; i < from->n; i++)
		sum += from->series[i].value;
	return sum;
}

/* Of what decode steps read, of what is in the cache, or of the share of it
 * that is in use, the first that is known. */
static void find_kv(const struct totals *t, struct scrape *s)
{
	double share = totals_sum(t, KV_SHARE), used = totals_sum(t, KV_USED);
	const struct total *shares = t->whole[KV_SHARE].n ? &t->whole[KV_SHARE]
							  : &t->split[KV_SHARE];

	if (shares->n)
		share /= shares->n;
	s->kv_capacity_tokens = totals_sum(t, KV_ROOM);
	if (isnan(s->kv_capacity_tokens) && used > 0 && share > 0)
		s->kv_capacity_tokens = used / share;
	s->kv_tokens = totals_sum(t, KV_READ);
	if (!(s->kv_tokens > 0))
		s->kv_tokens = used;
	if (isnan(s->kv_tokens) && share <= 1)
		s->kv_tokens = share * s->kv_capacity_tokens;
}

static void take_text(struct totals *t, const char *text, size_t bytes)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", NULL);
	const char *end = text + bytes;

	while (text < end && c) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		struct span line = { text, eol ? eol : end };

		text = eol ? eol + 1 : end;
		if (line.end > line.p && line.end[-1] == '\r')
			line.end--;
		take_line(t, line, c);
	}
	if (c)
		freelocale(c);
}

int scrape_parse(const char *text, size_t bytes, struct scrape *out)
{
	struct totals *t;
	struct scrape s = { 0 };
	int err = -ENODATA;

	if (bytes > SCRAPE_BYTES_MAX)
		return -EFBIG;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	if (bytes)
		take_text(t, text, bytes);
	s.running = totals_sum(t, RUNNING);
	s.waiting = totals_sum(t, WAITING);
	s.generation_tokens_total = totals_sum(t, TOKENS);
	find_kv(t, &s);
	if (t->engine && !(isnan(s.running) && isnan(s.waiting) &&
			   isnan(s.generation_tokens_total))) {
		strncpy(s.engine, t->engine, sizeof(s.engine) - 1);
		*out = s;
		err = 0;
	}
	free(t);
	return err;
}
