#include "exporter/text.h"

#include <errno.h>
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void grows_and_ends_with_nul(void **state)
{
	struct text t = { 0 };
	size_t want = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		text_printf(&t, "%d,", i);
		want += (size_t)snprintf(NULL, 0, "%d,", i);
	}
	assert_int_equal(t.error, 0);
	assert_int_equal(t.bytes, want);
	assert_int_equal(strlen(t.data), want);
	text_write(&t, NULL, 0);
	assert_int_equal(t.bytes, want);
	text_free(&t);
	assert_null(t.data);
}

static void a_long_piece_fits(void **state)
{
	struct text t = { 0 };
	char *long_piece = malloc(100001);

	(void)state;
	memset(long_piece, 'x', 100000);
	long_piece[100000] = '\0';
	text_printf(&t, "<%s>", long_piece);
	assert_int_equal(t.bytes, 100002);
	assert_int_equal(t.data[100001], '>');
	free(long_piece);
	text_free(&t);
}

static void too_much_is_an_error_that_sticks(void **state)
{
	struct text t = { 0 };

	(void)state;
	text_write(&t, "a", 1);
	text_write(&t, "b", (64u << 20));
	assert_int_equal(t.error, -EFBIG);
	text_write(&t, "c", 1);
	text_printf(&t, "d");
	assert_string_equal(t.data, "a");
	assert_int_equal(t.error, -EFBIG);
	text_free(&t);
}

static void numbers_read_back(void **state)
{
	static const double numbers[] = { 0,         -0.0,      1,
					  0.1,       0.1 + 0.2, 1 / 3.,
					  48 / 81.,  1e300,     DBL_MIN,
					  DBL_MAX,   -1e-7,     1700000000.25,
					  123456789, 1e15 + 1 };
	struct text t = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		t.bytes = 0;
		text_number(&t, numbers[i]);
		assert_true(strtod(t.data, NULL) == numbers[i]);
		assert_true(strlen(t.data) <= 24);
	}
	t.bytes = 0;
	text_number(&t, 0.1);
	assert_string_equal(t.data, "0.1");
	text_free(&t);
}

static void strings_are_escaped(void **state)
{
	static const struct {
		const char *in, *json, *label;
	} cases[] = {
		{ "plain", "plain", "plain" },
		{ "a\"b\\c\nd\te", "a\\\"b\\\\c\\nd\\te",
		  "a\\\"b\\\\c\\nd\te" },
		{ "\x01\x1f\x7f", "\\u0001\\u001f\\u007f", "\x01\x1f\x7f" },
		{ "\xce\xb7 \xe2\x82\xac \xf0\x9f\x98\x80",
		  "\xce\xb7 \xe2\x82\xac \xf0\x9f\x98\x80",
		  "\xce\xb7 \xe2\x82\xac \xf0\x9f\x98\x80" },
#define BAD "\xef\xbf\xbd"
		{ "\xff", BAD, BAD },
		{ "a\x80z", "a" BAD "z", "a" BAD "z" },
		{ "\xc0\xaf", BAD BAD, BAD BAD },
		{ "\xed\xa0\x80", BAD BAD BAD, BAD BAD BAD },
		{ "\xf5\x80\x80\x80", BAD BAD BAD BAD, BAD BAD BAD BAD },
		{ "\xe2\x82", BAD BAD, BAD BAD },
		{ "\xf0\x9f\x98", BAD BAD BAD, BAD BAD BAD },
		{ "\xe0\x9f\xbf", BAD BAD BAD, BAD BAD BAD },
		{ "\xf4\x90\x80\x80", BAD BAD BAD BAD, BAD BAD BAD BAD },
	};
	struct text t = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *exact = strdup(cases[i].in);

		t.bytes = 0;
		text_json(&t, exact);
		assert_string_equal(t.data, cases[i].json);
		t.bytes = 0;
		text_label(&t, exact);
		assert_string_equal(t.data, cases[i].label);
		free(exact);
	}
	text_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_ends_with_nul),
		cmocka_unit_test(a_long_piece_fits),
		cmocka_unit_test(too_much_is_an_error_that_sticks),
		cmocka_unit_test(numbers_read_back),
		cmocka_unit_test(strings_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
