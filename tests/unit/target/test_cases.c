/*
 * Lists of processes as people have posted them: the files of
 * tests/data/cases/procs, or of MOETOP_CASES/procs.  Which words are titles and
 * which lines start a server, and nothing else is; what is read in a file
 * without an answer here is printed.
 */
#include "target/cmdline.h"
#include "target/proc.h"
#include "target/title.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NAMES_MAX 256u
#define WORDS_MAX 64u

struct answer {
	const char *file, *found; /* in their order, ';' behind each */
};

static const struct answer procs[] = {
	/* left over by the table of processes: process_tables.txt */
	{ "p02_", "rank sglang dp0 tp0 ep0;rank sglang dp1 tp1 ep1;"
		  "rank sglang dp2 tp2 ep2;rank sglang dp3 tp3 ep3;"
		  "rank sglang dp0 tp0 ep0;" },
	{ "p04_", "rank vllm;rank vllm;rank vllm;rank vllm;rank vllm;" },
	{ "p06_", "core vllm;" },
	{ "p08_", "rank sglang;helper sglang;server sglang;rank sglang tp0;" },
	{ "p10_", "rank sglang tp0;" },
	{ "p12_", "server vllm;core vllm;rank vllm tp0;" },
	{ "p14_", "server sglang;helper sglang;rank sglang tp0;"
		  "rank sglang dp0 tp0 ep0;rank sglang tp0;helper sglang;"
		  "helper sglang;helper sglang;http sglang;" },
	{ "p16_", "core vllm;rank vllm;" },
	{ "p18_", "" },
	{ "p20_", "rank sglang tp0;" },
	{ "p22_", "" },
	{ "p24_", "server sglang;rank sglang tp0 gpu0;rank sglang tp1 gpu1;"
		  "helper sglang;" },
	{ "p26_", "server vllm;core vllm;" },
};

/* ---- files -------------------------------------------------------------- */

struct text {
	char out[4096];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t,
						      const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	t->n += (size_t)vsnprintf(t->out + t->n, sizeof(t->out) - t->n, format,
				  ap);
	va_end(ap);
	assert_true(t->n < sizeof(t->out));
}

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_file(const char *path, const char *name,
		       const struct answer *answers, size_t n,
		       void (*read_line)(char *line, struct text *found))
{
	struct text found = { .n = 0 };
	FILE *f = fopen(path, "r");
	char line[8192];

	assert_non_null(f);
	found.out[0] = '\0';
	while (fgets(line, sizeof(line), f))
		if (line[0] != '#')
			read_line(line, &found);
	fclose(f);
	print_message("# %s: %s\n", name, found.out);
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, answers[i].file, strlen(answers[i].file)) ==
		    0)
			assert_string_equal(found.out, answers[i].found);
}

static void check_files(const char *folder, const struct answer *answers,
			size_t n,
			void (*read_line)(char *line, struct text *found))
{
	const char *cases = getenv("MOETOP_CASES");
	char dir[512], path[1024], *names[NAMES_MAX];
	const struct dirent *e;
	unsigned count = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/%s", cases ? cases : "tests/data/cases",
		 folder);
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d)) && count < NAMES_MAX)
		if (e->d_name[0] != '.')
			names[count++] = strdup(e->d_name);
	closedir(d);
	qsort(names, count, sizeof(names[0]), name_order);
	for (unsigned i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		check_file(path, names[i], answers, n, read_line);
		free(names[i]);
	}
	assert_true(count >= n);
}

/* ---- processes ---------------------------------------------------------- */

static void say_title(const struct title *t, struct text *out)
{
	static const char *const roles[] = { [TITLE_RANK] = "rank",
					     [TITLE_CORE] = "core",
					     [TITLE_HTTP] = "http",
					     [TITLE_HELPER] = "helper",
					     [TITLE_UNKNOWN] = "unknown" };
	const struct {
		const char *name;
		int at;
	} places[] = { { "dp", t->dp },
		       { "pp", t->pp },
		       { "tp", t->tp },
		       { "ep", t->ep },
		       { "gpu", t->gpu } };

	say(out, "%s %s", roles[t->role], t->engine);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (places[i].at >= 0)
			say(out, " %s%d", places[i].name, places[i].at);
	say(out, ";");
}

/* Words from `at` as the arguments of one process. */
static bool starts_server(char *const *words, unsigned at, unsigned n,
			  struct cmdline *c)
{
	char args[8192];
	size_t bytes = 0;

	for (; at < n; at++) {
		size_t len = strlen(words[at]) + 1;

		memcpy(args + bytes, words[at], len);
		bytes += len;
	}
	return cmdline_parse(args, bytes, c) == 0;
}

/* A word of a list of processes is a title when all of it is one. */
static void read_process(char *line, struct text *found)
{
	struct cmdline c;
	struct title t;
	char *words[WORDS_MAX], *save = NULL;
	unsigned n = 0;
	bool served = false;

	for (char *w = strtok_r(line, " \t\n|,()", &save); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \t\n|,()", &save))
		words[n++] = w;
	for (unsigned i = 0; i < n; i++) {
		if (!served && starts_server(words, i, n, &c)) {
			say(found, "server %s;", c.engine);
			served = true;
		}
		if (strstr(words[i], "::")) /* "Worker_TP0/1" in prose */
			words[i][strcspn(words[i], "/")] = '\0';
		if (title_parse(words[i], strlen(words[i]), &t) == 0)
			say_title(&t, found);
	}
}

static void lists_of_processes(void **state)
{
	(void)state;
	check_files("procs", procs, sizeof(procs) / sizeof(procs[0]),
		    read_process);
}

/* The parent stands behind the last parenthesis. */
static void a_line_of_stat(void **state)
{
	static const char line[] = "14687 (VLLM::EngineCore) S 14001 14001 "
				   "14001 0 -1 4194304 0 0";
	static const char odd[] = "7 (a) R 9 (b:: c)) S 14001 3 4 0 -1";
	struct proc_stat s;

	(void)state;
	assert_int_equal(proc_stat_parse(line, sizeof(line) - 1, &s), 0);
	assert_int_equal(s.ppid, 14001);
	assert_string_equal(s.comm, "VLLM::EngineCore");
	assert_int_equal(proc_stat_parse(odd, sizeof(odd) - 1, &s), 0);
	assert_int_equal(s.ppid, 14001);
	assert_int_equal(s.pgrp, 3);
	assert_int_equal(s.session, 4);
	assert_string_equal(s.comm, "a) R 9 (b:: c)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_processes),
		cmocka_unit_test(a_line_of_stat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
