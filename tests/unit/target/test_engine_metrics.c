/*
 * Recorded pages of many engines and versions, each with what it says.
 * MOETOP_CASES may name another folder of the same form, or one that has it as
 * metrics/; pages without an answer there are shown and must only be read.
 */
#include "target/scrape.h"

#include "tests/unit/target/case_dir.h"
#include "tests/unit/target/metrics_page.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define HERE "tests/data/metrics"

static unsigned bad;

static double hist_key(const struct scrape_hist *h, const char *key)
{
	if (!strcmp(key, "count"))
		return h->count;
	if (!strcmp(key, "sum"))
		return h->sum;
	if (!strcmp(key, "buckets"))
		return h->n;
	for (unsigned i = 0; !strncmp(key, "le_", 3) && i < h->n; i++)
		if (h->buckets[i].upper == strtod(key + 3, NULL))
			return h->buckets[i].count;
	return NAN;
}

static double number_of(const struct scrape *s, const char *key)
{
	for (unsigned v = 0; v < ENGINE_VALUES; v++)
		if (!strcmp(key, engine_value_name(v)))
			return s->values[v];
	for (unsigned h = 0; h < ENGINE_HISTS; h++) {
		const char *name = engine_hist_name(h);

		if (!strncmp(key, name, strlen(name)) &&
		    key[strlen(name)] == '.')
			return hist_key(&s->hists[h], key + strlen(name) + 1);
	}
	fail_msg("no such key: %s", key);
	return NAN;
}

static const char *text_of(const struct scrape *s, const char *key)
{
	static char text[96];

	if (!strcmp(key, "engine"))
		return s->engine[0] ? s->engine : "-";
	if (strcmp(key, "model") != 0)
		return NULL;
	snprintf(text, sizeof(text), "%s", s->model[0] ? s->model : "-");
	for (char *p = text; *p; p++)
		if (*p == ' ')
			*p = '_';
	return text;
}

static void check(const char *file, const struct scrape *s, char *word)
{
	char *want = strchr(word, '=');
	const char *text;
	double got;

	assert_non_null(want);
	*want++ = '\0';
	text = text_of(s, word);
	if (text) {
		if (strcmp(text, want) != 0) {
			print_message("# %s: %s is %s, not %s\n", file, word,
				      text, want);
			bad++;
		}
		return;
	}
	got = number_of(s, word);
	if (!strcmp(want, "-") ? !isnan(got) : got != strtod(want, NULL)) {
		print_message("# %s: %s is %.17g, not %s\n", file, word, got,
			      want);
		bad++;
	}
}

static int read_page(const char *dir, const char *file, struct scrape *s)
{
	char path[512];
	size_t bytes;
	char *text;
	int err;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	text = page_read(path, &bytes);
	if (!text)
		return -ENOENT;
	*s = (struct scrape){ .engine = "" };
	err = scrape_parse(text, bytes, s);
	free(text);
	return err;
}

static void every_answer(void **state)
{
	char line[2048], path[1024], dir[512];
	unsigned pages = 0;
	struct scrape s;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/ANSWERS.txt",
		 case_dir("metrics", dir, sizeof(dir)));
	f = fopen(path, "re");
	if (!f)
		f = fopen(HERE "/ANSWERS.txt", "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *save, *file = strtok_r(line, " \n", &save), *word;
		int err;

		if (!file || file[0] == '#')
			continue;
		err = read_page(dir, file, &s);
		if (err == -ENOENT && getenv("MOETOP_CASES"))
			continue; /* another folder has others */
		assert_true(err == 0 || err == -ENODATA);
		pages++;
		while ((word = strtok_r(NULL, " \n", &save)) != NULL)
			check(file, &s, word);
	}
	fclose(f);
	assert_true(pages >= 8);
	assert_int_equal(bad, 0);
}

static void every_page_is_read(void **state)
{
	struct dirent *e;
	char dir[512];
	DIR *d = opendir(case_dir("metrics", dir, sizeof(dir)));

	(void)state;
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		struct scrape s;
		int err;

		if (e->d_name[0] == '.' || strstr(e->d_name, "ANSWERS"))
			continue;
		err = read_page(dir, e->d_name, &s);
		assert_true(err == 0 || err == -ENODATA);
		print_message("# %s: %s running %g waiting %g tokens %g\n",
			      e->d_name, err ? "no engine" : s.engine,
			      err ? NAN : s.running, err ? NAN : s.waiting,
			      err ? NAN : s.generation_tokens_total);
	}
	closedir(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_answer),
		cmocka_unit_test(every_page_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
