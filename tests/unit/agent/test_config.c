#include "agent/config.h"

#include "tests/unit/agent/check.h"

static int setup(void **state)
{
	(void)state;
	unsetenv("MOETOP_WINDOW_MS");
	unsetenv("MOETOP_RECORD_CAP");
	return 0;
}

static void defaults_hold_without_environment(void **state)
{
	struct config c;
	const char *wrong = "x";

	(void)state;
	config_read(&c, &wrong);
	assert_null(wrong);
	assert_int_equal(c.budget_ppm, 10000);
	assert_int_equal(c.window_ms, 500);
	assert_int_equal(c.period_ms, 20000);
	assert_int_equal(c.record_cap, 5000000);
}

static void environment_overrules(void **state)
{
	struct config c;
	const char *wrong;

	(void)state;
	setenv("MOETOP_WINDOW_MS", "250", 1);
	config_read(&c, &wrong);
	assert_null(wrong);
	assert_int_equal(c.window_ms, 250);
}

static void nonsense_is_named_and_ignored(void **state)
{
	const char *const bad[] = {
		"",   "x",    "12x", "-5",
		"19", "5001", "1e3", "99999999999999999999"
	};
	struct config c;
	const char *wrong;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("MOETOP_WINDOW_MS", bad[i], 1);
		config_read(&c, &wrong);
		assert_string_equal(wrong, "MOETOP_WINDOW_MS");
		assert_int_equal(c.window_ms, 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(defaults_hold_without_environment,
				       setup),
		cmocka_unit_test_setup(environment_overrules, setup),
		cmocka_unit_test_setup(nonsense_is_named_and_ignored, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
