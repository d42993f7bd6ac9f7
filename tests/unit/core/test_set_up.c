/* The options on the set-up screen: changed, refused, kept in the file. */
#include "core/set_up.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct settings settings;
static struct set_up set_up;
static unsigned changes;
static double interval;

static void on_change(void *arg, const struct settings *now)
{
	assert_ptr_equal(arg, &changes);
	changes++;
	interval = now->interval;
}

static int setup(void **state)
{
	char *argv[] = { "moetop", "-p", "1", "--budget", "2", NULL };
	char why[256];

	(void)state;
	changes = 0;
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	if (settings_parse(&settings, 5, argv, why, sizeof(why)))
		return -1;
	set_up_init(&set_up, &settings, on_change, &changes);
	return 0;
}

static unsigned find(const char *name)
{
	for (unsigned i = 0; i < set_up.tui.n; i++)
		if (!strcmp(set_up.options[i].name, name))
			return i;
	fail_msg("no option %s", name);
	return 0;
}

static int set(const char *name, const char *value, char why[static 256])
{
	why[0] = '\0';
	return set_up.tui.set(&set_up, find(name), value, why, 256);
}

static const char *value(const char *name)
{
	return set_up.options[find(name)].value;
}

static void test_options_show_what_holds_and_why(void **state)
{
	(void)state;
	assert_string_equal(value("theme"), "default");
	assert_string_equal(value("budget"), "2");
	assert_string_equal(set_up.options[find("budget")].origin, "argument");
	assert_string_equal(set_up.options[find("theme")].origin, "default");
	assert_string_equal(value("gpu-price"), "");
	assert_string_equal(value("ascii"), "");
	for (unsigned i = 0; i < set_up.tui.n; i++) {
		assert_string_not_equal(set_up.options[i].name, "pid");
		assert_string_not_equal(set_up.options[i].name, "config");
	}
	assert_true(set_up.options[0].live);
}

static void test_a_change_is_told_at_once(void **state)
{
	char why[256];

	(void)state;
	assert_int_equal(set("interval", "0.5", why), 0);
	assert_int_equal(changes, 1);
	assert_true(interval == 0.5);
	assert_string_equal(value("interval"), "0.5");
	assert_string_equal(set_up.options[find("interval")].origin, "here");
	assert_int_equal(set("ascii", "true", why), 0);
	assert_string_equal(value("ascii"), "true");
	assert_true(set_up.now.ascii);
	assert_int_equal(set("ascii", "", why), 0);
	assert_false(set_up.now.ascii);
	set_up_interval(&set_up, 2);
	assert_string_equal(value("interval"), "2");
}

static void test_a_bad_value_changes_nothing(void **state)
{
	char why[256];

	(void)state;
	assert_int_not_equal(set("interval", "soon", why), 0);
	assert_non_null(strstr(why, "--interval: 'soon' is not a number"));
	assert_int_not_equal(set("theme", "pink", why), 0);
	assert_int_not_equal(set("budget", "99", why), 0);
	assert_int_equal(changes, 0);
	assert_string_equal(value("interval"), "1");
	assert_string_equal(value("budget"), "2");
	assert_true(set_up.now.budget == 2);
}

static void test_texts_are_kept_and_taken_away(void **state)
{
	char text[] = "config.json", why[256], longer[400];

	(void)state;
	assert_int_equal(set("model", text, why), 0);
	memset(text, 'x', sizeof(text) - 1); /* ours no longer */
	assert_string_equal(set_up.now.model, "config.json");
	assert_int_equal(set("model", "", why), 0);
	assert_null(set_up.now.model);
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_not_equal(set("model", longer, why), 0);
	assert_int_equal(set("gpu-price", "2.5", why), 0);
	assert_int_equal(set("gpu-price", "", why), 0);
	assert_true(set_up.now.gpu_price == 0);
}

static void test_saving_writes_what_was_changed_only(void **state)
{
	char home[] = "/tmp/moetop-setup-XXXXXX", path[64], text[256] = "";
	char why[256], line[80];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(home));
	setenv("XDG_CONFIG_HOME", home, 1);
	assert_int_not_equal(set_up.tui.save(&set_up, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "nothing was changed"));
	assert_int_equal(set("theme", "amber", why), 0);
	assert_int_equal(set_up.tui.save(&set_up, why, sizeof(why)), 0);
	snprintf(path, sizeof(path), "%s/moetop/config", home);
	assert_non_null(strstr(why, path));
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	assert_string_equal(text, "theme = amber\n");
	assert_string_equal(set_up.options[find("theme")].origin, "own file");
	snprintf(line, sizeof(line), "rm -r %s", home);
	assert_int_equal(system(line), 0);
}

static void test_without_a_place_nothing_is_saved(void **state)
{
	char why[256];

	(void)state;
	assert_int_equal(set("mouse", "off", why), 0);
	setenv("XDG_CONFIG_HOME", "/proc/nothing", 1);
	assert_int_not_equal(set_up.tui.save(&set_up, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "nothing is saved"));
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("HOME");
	assert_int_not_equal(set_up.tui.save(&set_up, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "set XDG_CONFIG_HOME"));
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_options_show_what_holds_and_why),
		T(test_a_change_is_told_at_once),
		T(test_a_bad_value_changes_nothing),
		T(test_texts_are_kept_and_taken_away),
		T(test_saving_writes_what_was_changed_only),
		T(test_without_a_place_nothing_is_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
