/* Numbers as text: three digits, units, marks, and what is no number. */
#include "tui/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	double v;
	enum number_form form;
	const char *text;
} cases[] = {
	{ 0, NUMBER_COUNT, "0" },
	{ 14, NUMBER_COUNT, "14" },
	{ 61.34, NUMBER_COUNT, "61.3" },
	{ 0.031, NUMBER_COUNT, "0.03" },
	{ 1234, NUMBER_COUNT, "1234" },
	{ 12345, NUMBER_COUNT, "12.3 k" },
	{ 9994, NUMBER_COUNT, "9994" },
	{ 9996, NUMBER_COUNT, "10.0 k" },
	{ 999600, NUMBER_COUNT, "1.00 M" },
	{ 5e12, NUMBER_COUNT, "5.00 T" },
	{ 1e300, NUMBER_COUNT, "1.0e+300" },
	{ -3.5, NUMBER_COUNT, "-3.5" },
	{ 0.637, NUMBER_RATIO, "0.64" },
	{ 1.5675, NUMBER_RATIO, "1.57" },
	{ 88.25, NUMBER_RATIO, "88.2" },
	{ 0.614, NUMBER_PERCENT, "61 %" },
	{ 0.0184, NUMBER_PERCENT, "1.8 %" },
	{ 0.0996, NUMBER_PERCENT, "10 %" },
	{ 0.0001, NUMBER_PERCENT, "<0.1 %" },
	{ -0.0001, NUMBER_PERCENT, ">-0.1 %" },
	{ 0, NUMBER_PERCENT, "0 %" },
	{ 0.0184, NUMBER_PERCENT_WHOLE, "2 %" },
	{ 0.001, NUMBER_PERCENT_WHOLE, "<1 %" },
	{ 0.0168, NUMBER_SECONDS, "16.8 ms" },
	{ 0.00099999, NUMBER_SECONDS, "1.00 ms" },
	{ 178.2e-6, NUMBER_SECONDS, "178 µs" },
	{ 3e-9, NUMBER_SECONDS, "3.00 ns" },
	{ 0, NUMBER_SECONDS, "0 ns" },
	{ 1.25, NUMBER_SECONDS, "1.25 s" },
	{ 99.9, NUMBER_SECONDS, "99.9 s" },
	{ 150, NUMBER_SECONDS, "2.50 min" },
	{ 7200, NUMBER_SECONDS, "2.00 h" },
	{ 178.24e-6, NUMBER_MICROS, "178.2" },
	{ 0.0121, NUMBER_MICROS, "12100" },
	{ 999.96e-6, NUMBER_MICROS, "1000" },
	{ 1.17e9, NUMBER_BYTES, "1.17 GB" },
	{ 999.9e6, NUMBER_BYTES, "1.00 GB" },
	{ 512, NUMBER_BYTES, "512 B" },
	{ 4.8e12, NUMBER_BYTES_RATE, "4.80 TB/s" },
	{ 3.1, NUMBER_RATE, "3.1/s" },
	{ 4.1, NUMBER_USD, "$4.10" },
	{ 0.0123, NUMBER_USD, "$0.0123" },
	{ 123.4, NUMBER_USD, "$123" },
	{ 0, NUMBER_USD, "$0.00" },
	{ NAN, NUMBER_RATIO, "-" },
	{ INFINITY, NUMBER_SECONDS, "-" },
};

static void test_numbers_have_three_digits_and_a_unit(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[NUMBER_TEXT];
		format_number(text, cases[i].v, cases[i].form);
		assert_string_equal(text, cases[i].text);
	}
}

static void test_any_number_fits(void **state)
{
	static const double extremes[] = { DBL_MAX, -DBL_MAX, DBL_MIN, -DBL_MIN,
					   9.99e17, -9.99e17, 5e-324,  1e18 };

	(void)state;
	for (int form = NUMBER_COUNT; form <= NUMBER_USD; form++)
		for (size_t i = 0; i < 8; i++) {
			char text[NUMBER_TEXT];
			struct value v =
				value_make(extremes[i], SOURCE_MODELLED);
			v.state = VALUE_STALE;
			format_column(text, v, (enum number_form)form);
			assert_true(strlen(text) > 0);
			assert_true(strlen(text) < NUMBER_TEXT);
		}
}

static void check_shown(struct value v, const char *plain, const char *column)
{
	char text[NUMBER_TEXT];

	format_value(text, v, NUMBER_PERCENT);
	assert_string_equal(text, plain);
	format_column(text, v, NUMBER_PERCENT);
	assert_string_equal(text, column);
}

static void test_a_value_shows_its_source_and_state(void **state)
{
	struct value v = value_make(0.61, SOURCE_MEASURED);

	(void)state;
	check_shown(v, "61 %", "61 %");
	v.source = SOURCE_INFERRED;
	check_shown(v, "61 %~", "61 %~");
	v.source = SOURCE_MODELLED;
	check_shown(v, "61 %≈", "61 %≈");
	v.source = SOURCE_SCRAPED;
	check_shown(v, "61 %§", "61 %§");
	v.state = VALUE_STALE;
	check_shown(v, "61 %§", "(61 %§)");
	v.state = VALUE_WARMING;
	check_shown(v, "…", "…");
	v.state = VALUE_NO_DATA;
	check_shown(v, "-", "-");
}

static void test_an_ok_value_that_is_no_number_is_unknown(void **state)
{
	struct value v = { .v = NAN, .state = VALUE_OK };

	(void)state;
	check_shown(v, "-", "-");
}

static void test_elapsed_time(void **state)
{
	char text[NUMBER_TEXT];

	(void)state;
	format_elapsed(text, 751);
	assert_string_equal(text, "00:12:31");
	format_elapsed(text, 3 * 86400 + 4 * 3600 + 5);
	assert_string_equal(text, "3d 04:00:05");
	format_elapsed(text, -1);
	assert_string_equal(text, "-");
	format_elapsed(text, NAN);
	assert_string_equal(text, "-");
	format_elapsed(text, 1e300);
	assert_string_equal(text, "-");
}

static void test_clock(void **state)
{
	char text[NUMBER_TEXT];

	(void)state;
	format_clock(text, 1786000000.0);
	assert_string_equal(text, "07:06:40");
	format_clock(text, NAN);
	assert_string_equal(text, "--:--:--");
	format_clock(text, 1e300);
	assert_string_equal(text, "--:--:--");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_have_three_digits_and_a_unit),
		cmocka_unit_test(test_any_number_fits),
		cmocka_unit_test(test_a_value_shows_its_source_and_state),
		cmocka_unit_test(test_an_ok_value_that_is_no_number_is_unknown),
		cmocka_unit_test(test_elapsed_time),
		cmocka_unit_test(test_clock),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
