/*
 * engine_dump metrics|log|load FILE... - what moetop reads in a recorded metrics
 * page, a log or a load snapshot, one line of JSON for each file
 */
#include "target/engine_log.h"
#include "target/load_snapshot.h"
#include "target/scrape.h"
#include "tests/unit/target/metrics_page.h"

#include <jansson.h>
#include <math.h>

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *word(const char *s)
{
	json_t *v = s[0] ? json_string(s) : NULL;

	return v ? v : json_null();
}

static json_t *of_hist(const struct scrape_hist *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; i < h->n; i++)
		json_array_append_new(
			buckets, json_pack("[o,f]", number(h->buckets[i].upper),
					   h->buckets[i].count));
	return json_pack("{s:o,s:o,s:o}", "count", number(h->count), "sum",
			 number(h->sum), "buckets", buckets);
}

static json_t *of_metrics(const char *text, size_t bytes)
{
	json_t *out = json_object(), *hists = json_object();
	struct scrape s = { .known = 0 };
	int err = scrape_parse(text, bytes, &s);

	json_object_set_new(out, "engine", word(s.engine));
	json_object_set_new(out, "model", word(s.model));
	for (unsigned v = 0; !err && v < ENGINE_VALUES; v++)
		json_object_set_new(out, engine_value_name(v),
				    number(s.values[v]));
	for (unsigned h = 0; !err && h < ENGINE_HISTS; h++)
		json_object_set_new(hists, engine_hist_name(h),
				    of_hist(&s.hists[h]));
	json_object_set_new(out, "histograms", hists);
	return out;
}

static json_t *known(enum engine_log_known k)
{
	return k == ENGINE_LOG_UNKNOWN ? json_null()
				       : json_boolean(k == ENGINE_LOG_YES);
}

static json_t *of_log(const char *text, size_t bytes)
{
	struct engine_log l;

	engine_log_init(&l);
	engine_log_add(&l, text, bytes);
	return json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:b,s:I,s:o,s:o,s:o,"
		"s:o,s:o,s:o,s:b}",
		"engine", word(l.engine), "version", word(l.version), "model",
		word(l.model), "architecture", word(l.architecture), "dtype",
		word(l.dtype), "moe_backend", word(l.moe_backend),
		"tuned_config", word(l.tuned_config), "experts",
		(json_int_t)l.experts, "captured", known(l.captured),
		"capture_sizes", word(l.capture_sizes), "capture_cut",
		l.capture_cut, "capture_max", (json_int_t)l.capture_max,
		"running", number(l.running), "waiting", number(l.waiting),
		"tokens_per_s", number(l.tokens_per_s), "kv_share",
		number(l.kv_share), "cuda_graph", known(l.cuda_graph),
		"balancedness", number(l.balancedness), "balancedness_trusted",
		l.balancedness_trusted);
}

static json_t *of_load(const char *bytes, size_t n)
{
	struct load_snapshot s = { .ranks = 0 };

	if (load_snapshot_parse(bytes, n, &s))
		return json_null();
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "ranks",
			 (json_int_t)s.ranks, "running", s.running, "waiting",
			 s.waiting, "used_tokens", s.used_tokens,
			 "capacity_tokens", s.capacity_tokens, "tokens_per_s",
			 s.tokens_per_s);
}

static json_t *dump(const char *what, const char *path)
{
	size_t n = 0;
	char *text = page_read(path, &n);
	json_t *out = NULL;

	if (text && !strcmp(what, "metrics"))
		out = of_metrics(text, n);
	else if (text && !strcmp(what, "log"))
		out = of_log(text, n);
	else if (text && !strcmp(what, "load"))
		out = of_load(text, n);
	free(text);
	return out;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr,
			"usage: engine_dump metrics|log|load FILE...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		json_t *out = dump(argv[1], argv[i]);

		if (!out) {
			fprintf(stderr, "engine_dump: %s: not read\n", argv[i]);
			return 1;
		}
		json_dumpf(out, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
		printf("\n");
		json_decref(out);
	}
	return 0;
}
