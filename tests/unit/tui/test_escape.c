/* Reports of the mouse and keys that arrive in pieces. */
#include "tui/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define EVENTS_MAX 64u

static struct escape escape;
static struct escape_event events[EVENTS_MAX];
static unsigned n;

static int setup(void **state)
{
	(void)state;
	memset(&escape, 0, sizeof(escape));
	n = 0;
	return 0;
}

static void feed(const char *bytes)
{
	for (; *bytes; bytes++) {
		struct escape_event out[2];
		unsigned made =
			escape_feed(&escape, (unsigned char)*bytes, out);

		assert_true(made <= 2 && n + made <= EVENTS_MAX);
		memcpy(&events[n], out, made * sizeof(*out));
		n += made;
	}
}

static void flush(void)
{
	if (escape_flush(&escape, &events[n]))
		n++;
}

static void check(unsigned i, enum mouse mouse, int x, int y)
{
	assert_true(i < n);
	assert_int_equal(events[i].mouse, mouse);
	assert_int_equal(events[i].x, x);
	assert_int_equal(events[i].y, y);
}

static void check_key(unsigned i, int key)
{
	assert_true(i < n);
	assert_int_equal(events[i].mouse, MOUSE_NONE);
	assert_int_equal(events[i].key, key);
}

static void test_reports_of_1006(void **state)
{
	(void)state;
	feed("\033[<0;25;30M\033[<32;26;30M\033[<0;26;30m");
	feed("\033[<2;1;1M\033[<64;5;6M\033[<65;500;200M");
	assert_int_equal(n, 6);
	check(0, MOUSE_PRESS, 24, 29);
	check(1, MOUSE_DRAG, 25, 29);
	check(2, MOUSE_RELEASE, 25, 29);
	check(3, MOUSE_RIGHT, 0, 0);
	check(4, MOUSE_UP, 4, 5);
	check(5, MOUSE_DOWN, 499, 199);
}

static void test_shift_and_control_do_not_matter(void **state)
{
	(void)state;
	feed("\033[<4;3;3M\033[<16;3;3M\033[<80;3;3M");
	check(0, MOUSE_PRESS, 2, 2);
	check(1, MOUSE_PRESS, 2, 2);
	check(2, MOUSE_UP, 2, 2);
}

static void test_reports_of_three_bytes(void **state)
{
	(void)state;
	feed("\033[M 9>\033[M#9>\033[M`!!");
	assert_int_equal(n, 3);
	check(0, MOUSE_PRESS, 24, 29);
	check(1, MOUSE_RELEASE, 24, 29);
	check(2, MOUSE_UP, 0, 0);
}

static void test_other_buttons_are_nothing(void **state)
{
	(void)state;
	feed("\033[<1;3;3M\033[<35;3;3M\033[<128;3;3M\033[<66;3;3M");
	assert_int_equal(n, 0);
	feed("q");
	check_key(0, 'q');
}

static void test_an_escape_alone_is_a_key(void **state)
{
	(void)state;
	feed("\033");
	assert_int_equal(n, 0);
	flush();
	check_key(0, 27);
	feed("\033\033");
	check_key(1, 27);
	flush();
	check_key(2, 27);
	feed("\033q");
	check_key(3, 27);
	check_key(4, 'q');
	flush();
	assert_int_equal(n, 5);
}

static void test_pieces_make_a_whole(void **state)
{
	static const char report[] = "\033[<0;25;30M";

	(void)state;
	for (const char *c = report; *c; c++) {
		const char one[2] = { *c, 0 };

		feed(one);
		if (c > report)
			flush(); /* a pause in the middle */
	}
	assert_int_equal(n, 1);
	check(0, MOUSE_PRESS, 24, 29);
}

static void test_unknown_sequences_are_swallowed(void **state)
{
	(void)state;
	feed("\033[200~\033[1;5D\033OX\033[?1;2c\033[<;;M\033[<0;0;0M");
	feed("\033[<1:1;2;3M\033[<0;5M\033[99999999999999999999999999;3R");
	assert_int_equal(n, 0);
	feed("2");
	assert_int_equal(n, 1);
	check_key(0, '2');
}

static void test_what_is_broken_off_does_not_stick(void **state)
{
	(void)state;
	feed("\033[<0;25\033[<0;2;3M");
	assert_int_equal(n, 1);
	check(0, MOUSE_PRESS, 1, 2);
}

static void test_huge_numbers_stay_in_range(void **state)
{
	(void)state;
	feed("\033[<0;99999999999;99999999999M");
	assert_true(n <= 1);
	if (n)
		assert_true(events[0].x >= 0 && events[0].x < 10000000);
}

/* Nothing that a terminal may send is out of bounds. */
static void test_any_bytes(void **state)
{
	uint32_t seed = 7;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		struct escape_event out[2];
		static const char likely[] = "\033[<0123456789;;MmO";

		seed = seed * 1664525 + 1013904223;
		int c = seed >> 31 ? likely[(seed >> 16) % 18]
				   : (int)(seed >> 16 & 0xff);
		assert_true(escape_feed(&escape, c, out) <= 2);
		assert_true(escape.n <= ESCAPE_BYTES);
	}
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_reports_of_1006),
		T(test_shift_and_control_do_not_matter),
		T(test_reports_of_three_bytes),
		T(test_other_buttons_are_nothing),
		T(test_an_escape_alone_is_a_key),
		T(test_pieces_make_a_whole),
		T(test_unknown_sequences_are_swallowed),
		T(test_what_is_broken_off_does_not_stick),
		T(test_huge_numbers_stay_in_range),
		T(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
