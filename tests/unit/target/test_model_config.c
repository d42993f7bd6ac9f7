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

static char *slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "re");
	char *text;
	size_t room = 1 << 20;

	if (!f)
		return NULL;
	text = malloc(room);
	assert_non_null(text);
	*n = fread(text, 1, room, f);
	fclose(f);
	return text;
}

/* NAME_config.json may have NAME_hf_quant_config.json beside it. */
static int parse_case(const char *name, struct arch *a, char *why)
{
	char path[512], quant[512];
	const char *tail = strstr(name, "_config.json");
	size_t n = 0, qn = 0;
	char *json, *q = NULL;
	int err;

	snprintf(path, sizeof(path), "%s/%s", case_dir(), name);
	json = slurp(path, &n);
	if (!json)
		return -ENOENT;
	if (tail) {
		snprintf(quant, sizeof(quant), "%s/%.*s_hf_quant_config.json",
			 case_dir(), (int)(tail - name), name);
		q = slurp(quant, &qn);
	}
	err = model_config_parse(json, n, q, qn, a, why, 160);
	free(json);
	free(q);
	return err;
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
 * Two rows have a figure that their file does not support: Laguna's says block
 * scales for every Linear where the figure has per-channel ones, 0.4 % more; the
 * other is bf16 without the hf_quant_config.json that was not collected with it,
 * and a name that ends in NVFP4 is no evidence: GLM-4.7-FP8's file is bf16 too,
 * and so is its row.
 */
static bool is_doubtful(const struct answer *r)
{
	return strstr(r->field[FILE_NAME], "Laguna-XS.2-FP8") ||
	       strstr(r->field[FILE_NAME], "Nemotron-3.5-Lightning");
}

static unsigned check_row(const struct answer *r)
{
	const char *file = r->field[FILE_NAME];
	struct arch a;
	char why[160] = "";
	unsigned bad = 0;
	int err = parse_case(file, &a, why);

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
	if (!is_doubtful(r))
		bad += differs(file, "bytes", a.expert_bytes, r->field[BYTES]);
	bad += differs(file, "KV bytes", a.kv_bytes_per_token, r->field[KV]);
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
