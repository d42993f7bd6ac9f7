/* Shapes from config.json, against published figures.  MOETOP_CASES may name
 * a larger directory of the same form as tests/data/configs. */
#include "target/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS 19

/* One row of ANSWERS.csv. */
struct answer {
	char line[1024];
	char *field[FIELDS];
};

enum {
	FILE_NAME,
	TYPE,
	NESTED,
	EXPERTS,
	TOP_K,
	LAYERS,
	MOE_LAYERS,
	EXPERT_IN,
	EXPERT_INTER,
	MATRICES,
	PARAMS,
	QUANT,
	BYTES,
	ROUTED,
	PUBLISHED,
	KV,
	KV_NOTE,
	NOTE,
	VERDICT
};

static const char *case_dir(void)
{
	const char *dir = getenv("MOETOP_CASES");

	return dir ? dir : "tests/data/configs";
}

/* Split at commas outside quotes, in place. */
static void split(struct answer *a)
{
	bool quoted = false;
	unsigned n = 0;

	a->line[strcspn(a->line, "\r\n")] = '\0';
	for (unsigned i = 0; i < FIELDS; i++)
		a->field[i] = a->line + strlen(a->line);
	a->field[n++] = a->line;
	for (char *p = a->line; *p; p++) {
		if (*p == '"')
			quoted = !quoted;
		if (*p != ',' || quoted)
			continue;
		*p = '\0';
		if (n < FIELDS)
			a->field[n++] = p + 1;
	}
}

static unsigned differs(const char *file, const char *what, double got,
			const char *want)
{
	double w = strtod(want, NULL);

	if (want[0] == '\0' || (got >= w - 0.5 && got <= w + 0.5))
		return 0;
	print_error("%s: %s is %.1f, should be %s\n", file, what, got, want);
	return 1;
}

/*
 * One row has a figure that its file contradicts: Laguna-XS.2-FP8's only group
 * of weights has "strategy": "block" and "block_structure": [128, 128] for every
 * Linear, experts too, so an expert's 3 x 2048 x 512 weights have 192 scales of
 * 4 bytes, where the row counts one for each of 3072 output rows.
 */
#define LAGUNA_BYTES (3 * 2048 * 512 + 192 * 4.0)

static unsigned check_bytes(const struct answer *r, const struct arch *a)
{
	if (strstr(r->field[FILE_NAME], "Laguna-XS.2-FP8"))
		return a->expert_bytes != LAGUNA_BYTES;
	return differs(r->field[FILE_NAME], "bytes", a->expert_bytes,
		       r->field[BYTES]);
}

/* "... add X B/token up to window W", "... capped at W tokens: X B/token ...",
 * "+ indexer X B". */
static unsigned check_cache(const struct answer *r, const struct arch *a)
{
	const char *note = r->field[KV_NOTE], *p;
	double bytes = 0, index = 0;
	unsigned window = 0;

	p = strstr(note, " add ");
	if (p &&
	    sscanf(p, " add %lf B/token up to window %u", &bytes, &window) != 2)
		return 1;
	p = strstr(note, " capped at ");
	if (p && sscanf(p, " capped at %u tokens: %lf", &window, &bytes) != 2)
		return 1;
	p = strstr(note, "+ indexer ");
	if (p && sscanf(p, "+ indexer %lf B", &index) != 1)
		return 1;
	if (bytes == a->kv_window_bytes_per_token &&
	    (window == a->kv_window_tokens || bytes == 0) &&
	    index == a->kv_index_bytes_per_token)
		return 0;
	print_error("%s: window %u with %.0f, index %.0f; note: %s\n",
		    r->field[FILE_NAME], a->kv_window_tokens,
		    a->kv_window_bytes_per_token, a->kv_index_bytes_per_token,
		    note);
	return 1;
}

static unsigned check_row(const struct answer *r)
{
	const char *file = r->field[FILE_NAME];
	char path[512], why[160] = "";
	struct arch a;
	unsigned bad = 0;
	int err;

	snprintf(path, sizeof(path), "%s/%s", case_dir(), file);
	err = model_config_read(path, &a, why, sizeof(why));

	if (err) {
		print_error("%s: %d %s\n", file, err, why);
		return 1;
	}
	if (strstr(r->field[VERDICT], "dense"))
		return differs(file, "experts", a.experts, "0");
	bad += differs(file, "experts", a.experts, r->field[EXPERTS]);
	bad += differs(file, "top_k", a.top_k, r->field[TOP_K]);
	bad += differs(file, "layers", a.layers, r->field[LAYERS]);
	bad += differs(file, "moe_layers", a.moe_layers, r->field[MOE_LAYERS]);
	bad += differs(file, "expert_in", a.expert_in, r->field[EXPERT_IN]);
	bad += differs(file, "expert_inter", a.expert_inter,
		       r->field[EXPERT_INTER]);
	bad += differs(file, "matrices", a.expert_matrices, r->field[MATRICES]);
	bad += differs(file, "params", a.expert_params, r->field[PARAMS]);
	bad += check_bytes(r, &a);
	bad += differs(file, "KV bytes", a.kv_bytes_per_token, r->field[KV]);
	bad += check_cache(r, &a);
	return bad;
}

static void test_published_shapes(void **state)
{
	char path[512];
	unsigned rows = 0, bad = 0;
	struct answer r;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/ANSWERS.csv", case_dir());
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(r.line, sizeof(r.line), f));
	while (fgets(r.line, sizeof(r.line), f)) {
		char config[512];

		split(&r);
		snprintf(config, sizeof(config), "%s/%s", case_dir(),
			 r.field[FILE_NAME]);
		if (!strstr(r.field[FILE_NAME], ".json") ||
		    (!getenv("MOETOP_CASES") && access(config, R_OK) != 0))
			continue; /* the largest are not kept here */
		rows++;
		bad += check_row(&r);
	}
	fclose(f);
	assert_true(rows >= 50);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
