/* The command line: every option, its range, and what is said of bad ones. */
#include "core/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARGS_MAX 16

/* The words of line as arguments of `moetop`. */
static int parse(struct settings *s, const char *line, char why[static 256])
{
	static char text[512];
	static char *argv[ARGS_MAX + 2];
	int argc = 1;
	char *save = NULL;

	snprintf(text, sizeof(text), "%s", line);
	argv[0] = "moetop";
	for (char *w = strtok_r(text, " ", &save); w && argc < ARGS_MAX;
	     w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	why[0] = '\0';
	return settings_parse(s, argc, argv, why, 256);
}

static struct settings good(const char *line)
{
	struct settings s;
	char why[256];

	if (parse(&s, line, why))
		fail_msg("%s: %s", line, why);
	return s;
}

static void bad(const char *line, const char *want)
{
	struct settings s;
	char why[256];

	if (!parse(&s, line, why))
		fail_msg("accepted: %s", line);
	if (!strstr(why, want))
		fail_msg("%s: said '%s', not '%s'", line, why, want);
	if (strchr(why, '\n') || !strstr(why, ": ") || !strstr(why, "; "))
		fail_msg("not `what: why; what to do`: %s", why);
}

static void defaults_come_from_the_table(void **state)
{
	struct settings s = good("-p 7");

	(void)state;
	assert_int_equal(s.command, COMMAND_VIEW);
	assert_int_equal(s.pid, 7);
	assert_true(s.interval == 1 && s.budget == 1 && s.gpu_price == 0);
	assert_int_equal(s.rows, ROWS_SAMPLED);
	assert_int_equal(s.counters, COUNTERS_AUTO);
	assert_false(s.json || s.headless || s.no_bpf || s.once);
	assert_null(s.listen);
	assert_int_equal(s.count, 0);
}

static void every_option_reaches_its_member(void **state)
{
	struct settings s =
		good("--pid=12 --listen 9100 --headless --json -i0.5 "
		     "--count 3 --no-inject --no-bpf --rows off "
		     "--counters=gpm --budget 2.5");

	(void)state;
	assert_int_equal(s.pid, 12);
	assert_string_equal(s.listen, "9100");
	assert_true(s.headless && s.json && s.no_inject && s.no_bpf);
	assert_true(s.interval == 0.5 && s.budget == 2.5);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.rows, ROWS_OFF);
	assert_int_equal(s.counters, COUNTERS_GPM);

	s = good("-p 1 --gpu-price 2.25 --model m.json --sampled-steps f "
		 "--ascii --no-color");
	assert_true(s.gpu_price == 2.25 && s.ascii && s.no_color);
	assert_string_equal(s.model, "m.json");
	assert_string_equal(s.sampled_steps, "f");
	s = good("demo --once --agent a.so");
	assert_true(s.once);
	assert_string_equal(s.agent, "a.so");
	s = good("record -p 3 -o out.rec");
	assert_string_equal(s.output, "out.rec");
}

static void run_keeps_the_command_as_it_is(void **state)
{
	struct settings s = good("run --agent x.so -- vllm serve --json");

	(void)state;
	assert_int_equal(s.command, COMMAND_RUN);
	assert_int_equal(s.n_rest, 3);
	assert_string_equal(s.rest[0], "vllm");
	assert_string_equal(s.rest[2], "--json");
	assert_null(s.rest[3]);
	assert_false(s.json);
	s = good("run vllm --port 1");
	assert_int_equal(s.n_rest, 3);
}

static void replay_takes_its_file_anywhere(void **state)
{
	struct settings s = good("replay --json a.rec --count 2");

	(void)state;
	assert_int_equal(s.n_rest, 1);
	assert_string_equal(s.rest[0], "a.rec");
	assert_int_equal(s.count, 2);
	bad("replay a b", "b: a second file");
	bad("replay a -- b", "b: a second file");
	bad("replay -- a b", "b: a second file");
	s = good("replay --json -- a.rec");
	assert_string_equal(s.rest[0], "a.rec");
	bad("replay", "no recording");
}

static void bad_values_are_named(void **state)
{
	(void)state;
	bad("-p 1 --interval 0", "--interval: 0 is out of range");
	bad("-p 1 --interval nan", "not a number");
	bad("-p 1 --interval 1s", "'1s' is not a number");
	bad("-p 0", "--pid: 0 is out of range");
	bad("-p 1.5", "not a whole number");
	bad("-p x", "'x' is not a whole number");
	bad("-p 99999999999999999999", "out of range");
	bad("-p 1 --count -1", "--count: -1 is out of range");
	bad("-p 1 --budget 51", "--budget: 51 is out of range");
	bad("-p 1 --gpu-price -3", "out of range");
	bad("-p 1 --rows=all",
	    "'all' is not a choice; give one of off|sampled");
	bad("-p 1 --rows=sample", "not a choice");
	bad("-p 1 --model=", "--model: empty");
	bad("-p", "--pid: no value");
	bad("-p 1 --json=yes", "takes no value");
	bad("-p 1 --jsn", "--jsn: no such option");
	bad("-p 1 -x", "-x: no such option");
	bad("-p 1 extra", "extra: not understood");
	bad("frobnicate", "frobnicate: no such command");
	bad("-p 1 --headless", "--headless: nobody could see anything");
	bad("record -p 1", "record: nothing to record");
	bad("run", "run: no command");
	bad("help nothing", "nothing: no such command");
}

/* However long a word is, what to do stays on the line. */
static void long_words_are_cut(void **state)
{
	static const char *const starts[] = { "-p ", "-p 1 --rows=", "--",
					      "-p 1 --model m extra", "x" };
	char line[400];

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		memset(line, '9', sizeof(line) - 1);
		line[sizeof(line) - 1] = '\0';
		memcpy(line, starts[i], strlen(starts[i]));
		bad(line, "; ");
	}
}

static void what_is_not_built_is_refused(void **state)
{
	(void)state;
	bad("report x", "report: not built into this version");
	bad("-p 1 --rows=exact", "--rows=exact: not built into this version");
	bad("-p 1 --counters=pm", "--counters=pm: not built into this version");
}

static void options_belong_to_commands(void **state)
{
	(void)state;
	bad("run --json -- x", "--json: not an option of `moetop run`");
	bad("-p 1 --once", "--once: not an option of `moetop`");
	bad("demo -p 1", "--pid: not an option of `moetop demo`");
	bad("replay x --budget 2",
	    "--budget: not an option of `moetop replay`");
}

static char *config_file(const char *text)
{
	static char path[] = "/tmp/moetop-test-XXXXXX";
	int fd;

	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

static void a_file_gives_options_and_arguments_overrule(void **state)
{
	char *path = config_file("# comment\n\n interval = 5 \njson\n"
				 "gpu-price=1.5\nonce\n");
	struct settings s;
	char line[256];

	(void)state;
	snprintf(line, sizeof(line), "-p 1 --config %s --interval 2", path);
	s = good(line);
	unlink(path);
	assert_true(s.interval == 2 && s.gpu_price == 1.5 && s.json);
	assert_false(s.once); /* an option of another command */
	settings_fini(&s);
}

static void a_bad_line_of_the_file_is_numbered(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "\n\nspeed = 1\n", "line 3: 'speed' is no option" },
		{ "interval = x\n", "line 1: --interval: 'x' is not a number" },
		{ "json = maybe\n", "line 1: 'json' is true or absent" },
		{ "config = y\n", "line 1: 'config' is no option" },
		{ "rows = exact\n", "line 1: --rows=exact: not built" },
	};
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path = config_file(cases[i].text);

		snprintf(line, sizeof(line), "-p 1 --config %s", path);
		bad(line, cases[i].want);
		unlink(path);
	}
	bad("-p 1 --config /nonexistent/x", "No such file");
}

static char *help_of(enum command c)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	settings_help(f, c);
	fclose(f);
	return text;
}

static void help_lists_what_the_command_takes(void **state)
{
	char *view = help_of(COMMAND_VIEW), *run = help_of(COMMAND_RUN);

	(void)state;
	assert_non_null(strstr(view, "-p, --pid PID"));
	assert_non_null(strstr(view, "--rows off|sampled"));
	assert_non_null(strstr(view, "(default sampled)"));
	assert_non_null(strstr(view, "(0.1..3600, default 1)"));
	assert_null(strstr(view, "--once"));
	assert_non_null(strstr(view, "moetop record"));
	assert_non_null(strstr(run, "--agent PATH"));
	assert_null(strstr(run, "--json"));
	free(view);
	free(run);
}

static void help_and_version_need_no_server(void **state)
{
	struct settings s = good("--help");

	(void)state;
	assert_true(s.help);
	s = good("record --help");
	assert_int_equal(s.command, COMMAND_RECORD);
	s = good("help demo");
	assert_int_equal(s.topic, COMMAND_DEMO);
	s = good("--version");
	assert_true(s.version);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_come_from_the_table),
		cmocka_unit_test(every_option_reaches_its_member),
		cmocka_unit_test(run_keeps_the_command_as_it_is),
		cmocka_unit_test(replay_takes_its_file_anywhere),
		cmocka_unit_test(bad_values_are_named),
		cmocka_unit_test(long_words_are_cut),
		cmocka_unit_test(what_is_not_built_is_refused),
		cmocka_unit_test(options_belong_to_commands),
		cmocka_unit_test(a_file_gives_options_and_arguments_overrule),
		cmocka_unit_test(a_bad_line_of_the_file_is_numbered),
		cmocka_unit_test(help_lists_what_the_command_takes),
		cmocka_unit_test(help_and_version_need_no_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
