/* The command line: every option, its range, and what is said of bad ones. */
#include "core/settings_parts.h"
#include "tui/tui.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
	bad("-p 1 --listen nonsense", "nonsense");
	bad("-p 1 --listen 70000", "70000");
	bad("config", "config: nothing to do");
	bad("config show x", "config: x: too much");
	bad("config check a b", "config: b: too much");
	bad("-p 1 --theme=pink", "'pink' is not a choice");
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
		{ "json = maybe\n",
		  "line 1: --json: 'maybe' is neither true nor false" },
		{ "config = y\n", "line 1: 'config' is no option" },
		{ "rows = most\n", "line 1: --rows: 'most'" },
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

/* A home of its own with this in moetop/config; NULL: nothing. */
static void make_home(char home[static 64], const char *text)
{
	char path[128];
	FILE *f;

	snprintf(home, 64, "/tmp/moetop-home-XXXXXX");
	assert_non_null(mkdtemp(home));
	setenv("XDG_CONFIG_HOME", home, 1);
	if (!text)
		return;
	snprintf(path, sizeof(path), "%s/moetop", home);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/moetop/config", home);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void drop_home(const char *home)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -r %s", home);
	assert_int_equal(system(line), 0);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

static void check_text(const char *home, const char *want)
{
	char path[128], text[1024] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/moetop/config", home);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) < sizeof(text));
	fclose(f);
	assert_string_equal(text, want);
}

static const struct option *named(const char *name)
{
	const struct option *o = settings_find(name, strlen(name));

	assert_non_null(o);
	return o;
}

static void the_users_file_is_overruled_by_all_others(void **state)
{
	char *path = config_file("interval = 3\ntheme = amber\n");
	char home[64], line[256];
	struct settings s;

	(void)state;
	make_home(home, "interval = 2\ntheme = dark\ngpu-price = 9\n");
	snprintf(line, sizeof(line), "-p 1 --config %s --theme mono", path);
	s = good(line);
	assert_true(s.interval == 3 && s.gpu_price == 9);
	assert_int_equal(s.theme, 10);
	assert_int_equal(s.origin[settings_index(named("interval"))],
			 ORIGIN_FILE);
	assert_int_equal(s.origin[settings_index(named("gpu-price"))],
			 ORIGIN_USER);
	assert_int_equal(s.origin[settings_index(named("theme"))],
			 ORIGIN_ARGUMENT);
	assert_int_equal(s.origin[settings_index(named("budget"))],
			 ORIGIN_DEFAULT);
	settings_fini(&s);
	unlink(path);
	drop_home(home);
}

static void bad_lines_of_the_users_file_are_left_out(void **state)
{
	struct settings s;
	char home[64];

	(void)state;
	make_home(home, "speed = 1\ninterval = 4\ntheme = pink\n");
	s = good("-p 1");
	assert_true(s.interval == 4);
	assert_int_equal(s.bad_lines, 2);
	assert_non_null(strstr(s.first_bad, "line 1: 'speed' is no option"));
	assert_non_null(strstr(s.first_bad, "; left out"));
	settings_fini(&s);
	drop_home(home);
}

static void saving_keeps_comments_and_what_it_does_not_know(void **state)
{
	bool which[SETTINGS_OPTIONS_MAX] = { false };
	struct settings s = good("-p 1 --theme dark --interval 0.5 --ascii");
	char home[64], path[128];

	(void)state;
	make_home(home, "# mine\n theme=light\nfuture = 7\n\n"
			"theme = amber\nbudget = 2");
	snprintf(path, sizeof(path), "%s/moetop/config", home);
	which[settings_index(named("theme"))] = true;
	which[settings_index(named("interval"))] = true;
	which[settings_index(named("ascii"))] = true;
	which[settings_index(named("gpu-price"))] = true; /* no value */
	assert_int_equal(settings_save(&s, which, path), 0);
	check_text(home, "# mine\n theme=light\nfuture = 7\n\n"
			 "theme = dark\nbudget = 2\n"
			 "interval = 0.5\nascii = true\n");
	/* again, and it stays as it is */
	assert_int_equal(settings_save(&s, which, path), 0);
	check_text(home, "# mine\n theme=light\nfuture = 7\n\n"
			 "theme = dark\nbudget = 2\n"
			 "interval = 0.5\nascii = true\n");
	settings_fini(&s);
	drop_home(home);
}

static void saving_makes_the_directory(void **state)
{
	bool which[SETTINGS_OPTIONS_MAX] = { false };
	struct settings s = good("-p 1 --mouse off");
	char home[64], path[128];

	(void)state;
	make_home(home, NULL);
	snprintf(path, sizeof(path), "%s/moetop/config", home);
	which[settings_index(named("mouse"))] = true;
	assert_int_equal(settings_save(&s, which, path), 0);
	check_text(home, "mouse = off\n");
	assert_int_equal(settings_save(&s, which, "/proc/moetop/config"),
			 -ENOENT);
	settings_fini(&s);
	drop_home(home);
}

/* As root, too: the file of a user stays the user's. */
static void saving_keeps_owner_and_mode(void **state)
{
	bool which[SETTINGS_OPTIONS_MAX] = { false };
	struct settings s = good("-p 1 --mouse off");
	char home[64], path[128];
	mode_t mask = umask(077);
	struct stat st;

	(void)state;
	make_home(home, "mouse = on\n");
	snprintf(path, sizeof(path), "%s/moetop/config", home);
	assert_int_equal(chmod(path, 0644), 0);
	if (!geteuid())
		assert_int_equal(chown(path, 65534, 65533), 0);
	which[settings_index(named("mouse"))] = true;
	assert_int_equal(settings_save(&s, which, path), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(st.st_uid, geteuid() ? geteuid() : 65534);
	check_text(home, "mouse = off\n");
	umask(mask);
	settings_fini(&s);
	drop_home(home);
}

/* Texts must outlive the settings: here until the test ends. */
static const char *kept_text(const char *value)
{
	static char texts[SETTINGS_OPTIONS_MAX][256];
	static unsigned n;

	assert_true(n < SETTINGS_OPTIONS_MAX);
	snprintf(texts[n], sizeof(texts[n]), "%s", value);
	return texts[n++];
}

/* The set-up screen edits values as text. */
static void every_value_survives_being_a_text(void **state)
{
	struct settings s, back;
	char value[256], why[256];

	(void)state;
	s = good("-p 1 --theme amber --budget 2.5 --rows off --model x.json "
		 "--screen valley --no-bpf");
	back = good("-p 2");
	for (size_t i = 0; i < settings_n_options; i++) {
		const struct option *o = &settings_options[i];

		settings_get(&s, o, value, sizeof(value));
		if (!settings_kept(o) || !value[0])
			continue;
		if (settings_put(&back, o, kept_text(value), why, sizeof(why)))
			fail_msg("%s = %s: %s", o->name, value, why);
	}
	assert_true(back.budget == 2.5 && back.no_bpf && !back.ascii);
	assert_int_equal(back.rows, ROWS_OFF);
	assert_int_equal(back.theme, s.theme);
	assert_int_equal(back.screen, 5);
	assert_string_equal(back.model, "x.json");
}

static void the_themes_are_those_of_the_screen(void **state)
{
	(void)state;
	assert_string_equal(named("theme")->arg, tui_theme_names());
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
		cmocka_unit_test(the_users_file_is_overruled_by_all_others),
		cmocka_unit_test(bad_lines_of_the_users_file_are_left_out),
		cmocka_unit_test(
			saving_keeps_comments_and_what_it_does_not_know),
		cmocka_unit_test(saving_makes_the_directory),
		cmocka_unit_test(saving_keeps_owner_and_mode),
		cmocka_unit_test(every_value_survives_being_a_text),
		cmocka_unit_test(the_themes_are_those_of_the_screen),
		cmocka_unit_test(help_lists_what_the_command_takes),
		cmocka_unit_test(help_and_version_need_no_server),
	};

	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
