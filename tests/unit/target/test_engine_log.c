/*
 * Logs of engines, each with what it says.  MOETOP_CASES may name another
 * folder of the same form, or one that has it as logs/.
 */
#include "target/engine_log.h"

#include "tests/unit/target/case_dir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HERE "tests/data/logs"

static unsigned bad;

static const char *yes_no(enum engine_log_known k)
{
	static const char *const words[] = { "", "no", "yes" };

	return words[k];
}

static const char *text_of(const struct engine_log *l, const char *key)
{
	const struct {
		const char *key, *value;
	} all[] = {
		{ "engine", l->engine },
		{ "version", l->version },
		{ "model", l->model },
		{ "architecture", l->architecture },
		{ "dtype", l->dtype },
		{ "device", l->device },
		{ "moe_backend", l->moe_backend },
		{ "tuned_config", l->tuned_config },
		{ "captured", yes_no(l->captured) },
		{ "capture_sizes", l->capture_sizes },
		{ "capture_cut", l->capture_cut ? "yes" : "no" },
		{ "cuda_graph", yes_no(l->cuda_graph) },
		{ "trusted", l->balancedness_trusted ? "yes" : "no" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].key, key))
			return all[i].value;
	return NULL;
}

static double number_of(const struct engine_log *l, const char *key)
{
	const struct {
		const char *key;
		double value;
	} all[] = {
		{ "experts", l->experts },
		{ "capture_max", l->capture_max },
		{ "running", l->running },
		{ "waiting", l->waiting },
		{ "tokens_per_s", l->tokens_per_s },
		{ "kv_share", l->kv_share },
		{ "balancedness", l->balancedness },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].key, key))
			return all[i].value;
	fail_msg("no such key: %s", key);
	return NAN;
}

static void show(const char *file, const char *key, const char *got,
		 const char *want)
{
	print_message("# %s: %s is %s, not %s\n", file, key, got, want);
	bad++;
}

static void check(const char *file, const struct engine_log *l, char *word)
{
	char *want = strchr(word, '='), text[512];
	const char *got;
	double n;

	assert_non_null(want);
	*want++ = '\0';
	got = text_of(l, word);
	if (got) {
		snprintf(text, sizeof(text), "%s", got[0] ? got : "-");
		for (char *p = text; *p; p++)
			if (*p == ' ')
				*p = '_';
		if (strcmp(text, want) != 0)
			show(file, word, text, want);
		return;
	}
	n = number_of(l, word);
	snprintf(text, sizeof(text), "%g", n);
	if (!strcmp(want, "-") ? !isnan(n) : n != strtod(want, NULL))
		show(file, word, text, want);
}

static int read_log(const char *dir, const char *file, struct engine_log *l)
{
	static char text[1 << 16];
	char path[1024];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	engine_log_init(l);
	engine_log_add(l, text, n);
	return 0;
}

static void every_answer(void **state)
{
	char line[2048], path[1024], dir[512];
	unsigned logs = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/ANSWERS.txt",
		 case_dir("logs", dir, sizeof(dir)));
	f = fopen(path, "re");
	if (!f)
		f = fopen(HERE "/ANSWERS.txt", "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *save, *file = strtok_r(line, " \n", &save), *word;
		struct engine_log l;

		if (!file || file[0] == '#')
			continue;
		if (read_log(dir, file, &l)) {
			assert_non_null(getenv("MOETOP_CASES"));
			continue; /* another folder has others */
		}
		logs++;
		while ((word = strtok_r(NULL, " \n", &save)) != NULL)
			check(file, &l, word);
	}
	fclose(f);
	assert_true(logs >= 8);
	assert_int_equal(bad, 0);
}

static void nothing_is_read_into_other_text(void **state)
{
	static const char text[] =
		"a new version is out; the model is loaded\n"
		"Decode batch of letters\nbalancedness is good\n"
		"Using the MoE backends of others\rUsing  MoE backend\n"
		"Capture cuda graph bs\nmodel=\n\0\n";
	struct engine_log l;

	(void)state;
	engine_log_init(&l);
	engine_log_add(&l, text, sizeof(text) - 1);
	assert_string_equal(l.engine, "");
	assert_string_equal(l.version, "");
	assert_string_equal(l.model, "");
	assert_string_equal(l.capture_sizes, "");
	assert_string_equal(l.moe_backend, "");
	assert_true(isnan(l.running));
	assert_true(isnan(l.balancedness));
}

static void a_list_that_is_too_long_is_cut_at_a_number(void **state)
{
	char text[4096];
	size_t n =
		(size_t)snprintf(text, sizeof(text), "Capture cuda graph bs [");
	struct engine_log l;

	(void)state;
	for (int i = 0; i < 300; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%d, ",
				      100 + i);
	snprintf(text + n, sizeof(text) - n, "400]\n");
	engine_log_init(&l);
	engine_log_add(&l, text, strlen(text));
	assert_true(l.capture_cut);
	assert_true(l.capture_max >= 100 && l.capture_max < 400);
	assert_int_equal(l.capture_sizes[strlen(l.capture_sizes) - 1],
			 '0' + l.capture_max % 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_answer),
		cmocka_unit_test(nothing_is_read_into_other_text),
		cmocka_unit_test(a_list_that_is_too_long_is_cut_at_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
