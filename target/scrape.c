#include "target/scrape.h"

#include "target/promtext.h"
#include "target/promtext_json.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 1024u

/* Of one family: one entry for each series that is not a repetition. */
struct series {
	uint64_t key;
	uint64_t model; /* hash of its name, of gauges; 0 none */
	double bound;   /* of a bucket */
	double value;
};

struct total {
	struct series *list;
	unsigned n, room;
	bool overflow;
};

enum hist_part { BUCKETS, SUM, COUNT, HIST_PARTS };

/* What is known of one engine. */
struct tally {
	/* SGLang splits its gauges by priority and repeats the total with an
	 * empty priority; the split counts only where the total is missing. */
	struct total whole[ENGINE_VALUES], split[ENGINE_VALUES];
	struct total hists[ENGINE_HISTS][HIST_PARTS];
	char model[96];
	uint64_t first_model; /* hash of its name */
	bool several_models;
	char kv_dtype[16];
	double block_tokens;
};

struct reading {
	struct tally *tallies[ENGINES]; /* NULL: no such family on the page */
	bool no_memory;
};

/* What the labels of one series say. */
struct labels {
	uint64_t part; /* hash of those that name an engine */
	uint64_t rest; /* hash of all but copies, priority and bounds */
	uint64_t model;
	uint64_t priority;
	bool has_priority;
	double bound; /* le */
};

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
	return (h ^ '=') * 0x100000001b3ull;
}

static struct labels read_labels(const struct promtext_sample *s)
{
	struct labels out = { .bound = NAN };

	for (unsigned i = 0; i < s->n_labels; i++) {
		const struct promtext_label *l = &s->labels[i];
		uint64_t h = hash_text(0xcbf29ce484222325ull, l->name);

		h = hash_text(h, l->value);
		if (!strcmp(l->name, "priority")) {
			out.has_priority = l->value[0] != '\0';
			out.priority = h;
		} else if (!strcmp(l->name, "le")) {
			out.bound = !strcmp(l->value, "+Inf")
					    ? INFINITY
					    : strtod(l->value, NULL);
		} else if (!engine_label_is_copy(l->name)) {
			if (engine_label_is_part(l->name))
				out.part += h;
			if (!strcmp(l->name, "model_name") && l->value[0])
				out.model = h;
			out.rest += h;
		}
	}
	return out;
}

static bool make_room(struct total *t)
{
	unsigned room = t->room ? 2 * t->room : 4;
	struct series *list;

	if (t->n < t->room)
		return true;
	list = realloc(t->list, room * sizeof(*list));
	if (!list)
		return false;
	t->list = list;
	t->room = room;
	return true;
}

static bool same_bound(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

static void total_add(struct reading *r, struct total *t, struct series add)
{
	for (unsigned i = 0; i < t->n; i++) {
		struct series *s = &t->list[i];

		if (s->key != add.key || s->model != add.model ||
		    !same_bound(s->bound, add.bound))
			continue;
		/* copies may be a moment apart; a count that fell is rarer */
		s->value = fmax(s->value, add.value);
		return;
	}
	if (t->n == SERIES_MAX)
		t->overflow = true;
	else if (make_room(t))
		t->list[t->n++] = add;
	else
		r->no_memory = true;
}

/* A whole number of 1 to 10^12 in a label; else 0. */
static double label_count(const struct promtext_sample *s, const char *name)
{
	const char *text = promtext_label(s, name);
	double n = 0;

	for (; text && *text; text++) {
		if (*text < '0' || *text > '9' || n > 1e11)
			return 0;
		n = 10 * n + (*text - '0');
	}
	return n;
}

/* vLLM says the room by the labels of a metric that is always 1. */
static double cache_room(struct tally *t, const struct promtext_sample *s)
{
	double block = label_count(s, "block_size");
	const char *type = promtext_label(s, "cache_dtype");

	if (block > 0)
		t->block_tokens = block;
	if (type && !t->kv_dtype[0])
		snprintf(t->kv_dtype, sizeof(t->kv_dtype), "%s", type);
	return s->value * block * label_count(s, "num_gpu_blocks");
}

static void take_value(struct reading *r, struct tally *t,
		       const struct engine_family *f, const struct labels *l,
		       const struct promtext_sample *s)
{
	struct series add = { .bound = NAN, .value = s->value };
	const char *is = f->label ? promtext_label(s, f->label) : NULL;
	struct total *to = &t->whole[f->value];

	if (f->label && (!is || strcmp(is, f->is) != 0))
		return;
	if (!strcmp(f->name, "cache_config_info")) {
		add.value = cache_room(t, s);
		if (!(add.value > 0))
			return;
	}
	add.key = l->rest;
	if (engine_value_merge(f->value) != ENGINE_SUM) {
		add.key = l->part;
		add.model = l->model;
	}
	if (f->split)
		add.key = l->rest;
	else if (l->has_priority)
		add.key += l->priority;
	if (f->split || l->has_priority)
		to = &t->split[f->value];
	total_add(r, to, add);
}

static void take_hist(struct reading *r, struct tally *t,
		      const struct engine_hist_family *f, const char *suffix,
		      const struct labels *l, double value)
{
	struct series add = { .key = l->rest, .bound = NAN, .value = value };
	enum hist_part part = BUCKETS;

	if (!strcmp(suffix, "_sum"))
		part = SUM;
	else if (!strcmp(suffix, "_count"))
		part = COUNT;
	else if (isnan(l->bound))
		return;
	else
		add.bound = l->bound;
	total_add(r, &t->hists[f->hist][part], add);
}

static struct tally *tally_of(struct reading *r, const char *name,
			      unsigned *engine, const char **rest)
{
	int e = engine_of_name(name, rest);

	if (e < 0)
		return NULL;
	*engine = (unsigned)e;
	if (!r->tallies[e]) {
		r->tallies[e] = calloc(1, sizeof(*r->tallies[e]));
		r->no_memory = r->no_memory || !r->tallies[e];
	}
	return r->tallies[e];
}

static void on_family(void *arg, const char *name, enum promtext_type type)
{
	const char *rest;
	unsigned engine;

	(void)type;
	(void)tally_of(arg, name, &engine, &rest);
}

static void on_sample(void *arg, const struct promtext_sample *s)
{
	const struct engine_family *f = NULL;
	const struct engine_hist_family *h;
	const char *rest, *suffix, *model;
	struct reading *r = arg;
	struct labels l;
	unsigned engine;
	struct tally *t = tally_of(r, s->name, &engine, &rest);

	if (!t)
		return;
	model = promtext_label(s, "model_name");
	if (!model)
		model = promtext_label(s, "model");
	if (model && !t->model[0])
		snprintf(t->model, sizeof(t->model), "%s", model);
	if (!isfinite(s->value) || s->value < 0)
		return;
	l = read_labels(s);
	if (l.model && !t->first_model)
		t->first_model = l.model;
	t->several_models =
		t->several_models || (l.model && l.model != t->first_model);
	while ((f = engine_family_find(engine, rest, f)) != NULL)
		take_value(r, t, f, &l, s);
	h = engine_hist_find(engine, rest, &suffix);
	if (h)
		take_hist(r, t, h, suffix, &l, s->value);
}

/* ---- the result --------------------------------------------------------- */

static double total_sum(const struct total *t)
{
	double sum = 0;

	if (t->n == 0 || t->overflow)
		return NAN;
	for (unsigned i = 0; i < t->n; i++)
		sum += t->list[i].value;
	return sum;
}

/* Without and with the name of the only model: the same series. */
static void unite(struct total *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++) {
		unsigned at = 0;

		while (at < n && t->list[at].key != t->list[i].key)
			at++;
		if (at < n)
			t->list[at].value =
				fmax(t->list[at].value, t->list[i].value);
		else
			t->list[n++] = t->list[i];
	}
	t->n = n;
}

static double value_of(struct tally *t, enum engine_value v, struct scrape *s)
{
	struct total *from = t->whole[v].n ? &t->whole[v] : &t->split[v];
	double sum;

	if (!t->several_models)
		unite(from);
	sum = total_sum(from);

	if (from->overflow)
		s->overflow++;
	if (engine_value_merge(v) == ENGINE_MEAN && from->n)
		sum /= from->n;
	return sum;
}

/* Every label set has the same bounds, so equal bounds add up. */
static void add_bucket(struct scrape_hist *h, const struct series *b)
{
	unsigned at = 0;

	while (at < h->n && h->buckets[at].upper < b->bound)
		at++;
	if (at == h->n || h->buckets[at].upper != b->bound) {
		if (h->n == SCRAPE_BUCKETS_MAX)
			return;
		memmove(&h->buckets[at + 1], &h->buckets[at],
			(h->n - at) * sizeof(h->buckets[0]));
		h->buckets[at].upper = b->bound;
		h->buckets[at].count = 0;
		h->n++;
	}
	h->buckets[at].count += b->value;
}

static void find_hist(const struct total parts[HIST_PARTS],
		      struct scrape_hist *h)
{
	h->count = total_sum(&parts[COUNT]);
	h->sum = total_sum(&parts[SUM]);
	for (unsigned i = 0; !parts[BUCKETS].overflow && i < parts[BUCKETS].n;
	     i++)
		add_bucket(h, &parts[BUCKETS].list[i]);
	if (isnan(h->count) && h->n && isinf(h->buckets[h->n - 1].upper))
		h->count = h->buckets[h->n - 1].count;
}

/* Of what decode steps read, of what is in the cache, or of the share of it
 * that is in use, the first that is known. */
static void find_kv(struct scrape *s)
{
	double share = s->values[ENGINE_KV_SHARE];
	double used = s->values[ENGINE_KV_USED];

	s->kv_capacity_tokens = s->values[ENGINE_KV_ROOM];
	if (isnan(s->kv_capacity_tokens) && used > 0 && share > 0)
		s->kv_capacity_tokens = used / share;
	s->kv_tokens = s->values[ENGINE_KV_READ];
	if (!(s->kv_tokens > 0))
		s->kv_tokens = used;
	if (isnan(s->kv_tokens) && share <= 1)
		s->kv_tokens = share * s->kv_capacity_tokens;
}

static void find_ratios(struct scrape *s)
{
	double *v = s->values;

	if (isnan(v[ENGINE_CACHE_HIT]) && v[ENGINE_CACHE_ASKED] > 0)
		v[ENGINE_CACHE_HIT] =
			v[ENGINE_CACHE_HITS] / v[ENGINE_CACHE_ASKED];
	if (isnan(v[ENGINE_SPEC_RATE]) && v[ENGINE_SPEC_DRAFTED] > 0)
		v[ENGINE_SPEC_RATE] =
			v[ENGINE_SPEC_ACCEPTED] / v[ENGINE_SPEC_DRAFTED];
	if (isnan(v[ENGINE_SPEC_LENGTH]) && v[ENGINE_SPEC_DRAFTS] > 0)
		v[ENGINE_SPEC_LENGTH] =
			1 + v[ENGINE_SPEC_ACCEPTED] / v[ENGINE_SPEC_DRAFTS];
}

static struct scrape result_of(struct tally *t, unsigned engine)
{
	struct scrape s = { .block_tokens = NAN };

	for (unsigned v = 0; v < ENGINE_VALUES; v++) {
		s.values[v] = value_of(t, v, &s);
		s.known += isnan(s.values[v]) ? 0 : 1;
	}
	for (unsigned h = 0; h < ENGINE_HISTS; h++) {
		find_hist(t->hists[h], &s.hists[h]);
		s.known += isnan(s.hists[h].count) ? 0 : 1;
	}
	find_kv(&s);
	find_ratios(&s);
	s.running = s.values[ENGINE_RUNNING];
	s.waiting = s.values[ENGINE_WAITING];
	s.generation_tokens_total = s.values[ENGINE_GENERATED];
	if (t->block_tokens > 0)
		s.block_tokens = t->block_tokens;
	snprintf(s.engine, sizeof(s.engine), "%s", engine_name(engine));
	memcpy(s.model, t->model, sizeof(s.model));
	memcpy(s.kv_dtype, t->kv_dtype, sizeof(s.kv_dtype));
	return s;
}

/* The surest engine that tells a number, else the surest that is there. */
static int choose(const struct reading *r, struct scrape *out)
{
	bool found = false;

	for (unsigned e = 0; e < ENGINES; e++) {
		struct scrape s;

		if (!r->tallies[e])
			continue;
		s = result_of(r->tallies[e], e);
		if (!found || s.known)
			*out = s;
		found = true;
		if (s.known)
			return 0;
	}
	return found ? 0 : -ENODATA;
}

static void reading_free(struct reading *r)
{
	for (unsigned e = 0; e < ENGINES; e++) {
		struct tally *t = r->tallies[e];

		if (!t)
			continue;
		for (unsigned v = 0; v < ENGINE_VALUES; v++) {
			free(t->whole[v].list);
			free(t->split[v].list);
		}
		for (unsigned h = 0; h < ENGINE_HISTS; h++)
			for (unsigned p = 0; p < HIST_PARTS; p++)
				free(t->hists[h][p].list);
		free(t);
	}
}

int scrape_parse(const char *text, size_t bytes, struct scrape *out)
{
	static const struct promtext_handler handler = {
		.sample = on_sample,
		.family = on_family,
	};
	struct reading r = { 0 };
	struct promtext *x;
	int err;

	if (bytes > SCRAPE_BYTES_MAX)
		return -EFBIG;
	err = promtext_new(&x, &handler, &r);
	if (err)
		return err;
	if (!promtext_json_feed(x, text, bytes))
		promtext_feed(x, text, bytes);
	promtext_finish(x);
	promtext_free(x);
	err = r.no_memory ? -ENOMEM : choose(&r, out);
	reading_free(&r);
	return err;
}
