/* The history: five minutes, bounded, gaps where nothing is known. */
#include "tui/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define START 1786000000.0

static struct snapshot *shot;
static struct history *history;

static int setup(void **state)
{
	(void)state;
	shot = calloc(1, sizeof(*shot));
	history = calloc(1, sizeof(*history));
	return shot && history ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(shot);
	free(history);
	return 0;
}

static void add(double t, double interval, struct value v)
{
	shot->time = START + t;
	shot->interval_s = interval;
	shot->metrics[METRIC_IN_FLIGHT] = v;
	history_add(history, shot);
}

static struct value known(double v)
{
	return value_make(v, SOURCE_MEASURED);
}

static void test_a_series_ends_with_the_newest_value(void **state)
{
	double v[300];

	(void)state;
	for (int i = 0; i <= 300; i++)
		add(i, 1, known(i));
	history_series(history, HISTORY_IN_FLIGHT, 300, v);
	for (int i = 0; i < 300; i++)
		assert_true(fabs(v[i] - (i + 1)) <= 1e-9);
}

static void test_fast_snapshots_still_cover_five_minutes(void **state)
{
	double v[10], last;

	(void)state;
	for (int i = 0; i <= 4000; i++)
		add(i * 0.1, 0.1, known(i * 0.1));
	assert_true(history->n <= HISTORY_POINTS);
	history_series(history, HISTORY_IN_FLIGHT, 10, v);
	/* slots end at multiples of 30 s, the newest one at one of 60 s */
	last = ceil((START + 400) / 60) * 60 - START;
	for (int i = 0; i < 10; i++)
		assert_true(fabs(v[i] - fmin(400, last - 30.0 * (9 - i))) <=
			    0.6);
}

/* Once it is older than the newest slots, a value stands where it stood, or
 * two slots to the left. */
static void test_what_was_drawn_only_moves(void **state)
{
	double before[100], v[100];
	unsigned moves = 0;

	(void)state;
	for (int i = 0; i < 700; i++) {
		memcpy(before, v, sizeof(v));
		add(i * 1.1, 1.1, known(i));
		history_series(history, HISTORY_IN_FLIGHT, 100, v);
		if (i < 400)
			continue;
		bool moved = v[80] != before[80];
		moves += moved;
		for (int k = 0; k < 90; k++)
			assert_true(v[k] == before[k + 2 * moved]);
	}
	/* 330 s of 6 s each */
	assert_in_range(moves, 53, 57);
}

static void test_slow_snapshots_leave_no_holes(void **state)
{
	double v[100];

	(void)state;
	for (int i = 0; i <= 30; i++)
		add(i * 10, 10, known(i));
	history_series(history, HISTORY_IN_FLIGHT, 100, v);
	for (int i = 10; i < 100; i++)
		assert_true(isfinite(v[i]));
}

static void test_unknown_and_silence_are_gaps(void **state)
{
	double v[300];

	(void)state;
	add(0, 1, known(1));
	add(100, 1, known(2));
	add(101, 1, (struct value){ 0 });
	add(102, 1, known(3));
	history_series(history, HISTORY_IN_FLIGHT, 300, v);
	assert_true(fabs(v[299] - (3)) <= 0);
	assert_true(isnan(v[298]));
	assert_true(fabs(v[297] - (2)) <= 0);
	assert_true(isnan(v[250]));
	assert_true(isnan(v[0]));
}

static void test_the_same_snapshot_again_changes_nothing(void **state)
{
	(void)state;
	add(0, 1, known(1));
	add(1, 1, known(2));
	unsigned n = history->n;
	add(1, 1, known(2));
	assert_int_equal(history->n, n);
}

static void test_time_that_runs_back_starts_again(void **state)
{
	double v[300];

	(void)state;
	for (int i = 0; i < 50; i++)
		add(i, 1, known(i));
	add(-1000, 1, known(7));
	assert_int_equal(history->n, 1);
	history_series(history, HISTORY_IN_FLIGHT, 300, v);
	assert_true(fabs(v[299] - (7)) <= 0);
	assert_true(isnan(v[200]));
}

static void test_hostile_times_are_ignored(void **state)
{
	double v[300];

	(void)state;
	add(NAN, 1, known(1));
	add(INFINITY, 1, known(1));
	assert_int_equal(history->n, 0);
	add(0, NAN, known(1));
	add(1, -5, known(1));
	history_series(history, HISTORY_IN_FLIGHT, 300, v);
	assert_true(fabs(v[299] - (1)) <= 0);
}

static void test_an_empty_history_is_all_unknown(void **state)
{
	double v[20];

	(void)state;
	history_series(history, HISTORY_MFU, 20, v);
	for (int i = 0; i < 20; i++)
		assert_true(isnan(v[i]));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_series_ends_with_the_newest_value),
		T(test_fast_snapshots_still_cover_five_minutes),
		T(test_what_was_drawn_only_moves),
		T(test_slow_snapshots_leave_no_holes),
		T(test_unknown_and_silence_are_gaps),
		T(test_the_same_snapshot_again_changes_nothing),
		T(test_time_that_runs_back_starts_again),
		T(test_hostile_times_are_ignored),
		T(test_an_empty_history_is_all_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
