#include "agent/launch_log.h"

#include <pthread.h>

#include "tests/unit/agent/check.h"

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct launch_log));
	return *state == NULL;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void entries_come_out_in_order(void **state)
{
	struct launch_log *log = *state;
	struct launch l = { .args = 1, .arg = { 42 } };
	struct launch_entry e;

	assert_false(launch_log_take(log, &e));
	launch_log_push(log, LAUNCH_GRAPH, 10, 3, NULL);
	launch_log_push(log, LAUNCH_OPENS, 11, 0, &l);
	assert_true(launch_log_take(log, &e));
	assert_int_equal(e.kind, LAUNCH_GRAPH);
	assert_int_equal(e.exec, 3);
	assert_true(launch_log_take(log, &e));
	assert_int_equal(e.launch.arg[0], 42);
	assert_int_equal(e.time_ns, 11);
	assert_false(launch_log_take(log, &e));
}

static void overwritten_entries_are_counted(void **state)
{
	struct launch_log *log = *state;
	struct launch_entry e;
	uint32_t n = 0;

	for (uint32_t i = 0; i < LAUNCH_LOG_SLOTS + 100; i++)
		launch_log_push(log, LAUNCH_GRAPH, i, i, NULL);
	assert_true(launch_log_take(log, &e));
	assert_int_equal(e.exec, 100);
	for (n = 1; launch_log_take(log, &e); n++)
		;
	assert_int_equal(n, LAUNCH_LOG_SLOTS);
	assert_int_equal(log->lost, 100);
}

static void
latest_passes_over_what_opens_nothing_and_takes_nothing(void **state)
{
	struct launch_log *log = *state;
	struct launch l = { 0 };
	struct launch_entry e;

	assert_false(launch_log_latest(log, &e));
	launch_log_push(log, LAUNCH_OTHER, 0, 0, &l);
	assert_true(launch_log_latest(log, &e));
	assert_int_equal(e.kind, LAUNCH_OTHER);
	launch_log_push(log, LAUNCH_OPENS, 1, 0, &l);
	launch_log_push(log, LAUNCH_OTHER, 2, 0, &l);
	assert_true(launch_log_latest(log, &e));
	assert_int_equal(e.time_ns, 1);
	assert_true(launch_log_take(log, &e));
	assert_int_equal(e.time_ns, 0);
}

#define TURNS 20000

static void *push_many(void *arg)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		struct launch l = { .args = i, .correlation = ~i };

		launch_log_push(arg, LAUNCH_OPENS, i, i, &l);
	}
	return NULL;
}

static void entries_of_two_threads_are_whole_or_lost(void **state)
{
	struct launch_log *log = *state;
	struct launch_entry e;
	pthread_t thread[2];
	uint64_t taken = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, push_many, log);
	while (taken + log->lost < 2 * TURNS) {
		if (!launch_log_take(log, &e))
			continue;
		assert_int_equal(e.launch.correlation, ~e.exec);
		assert_int_equal(e.launch.args, e.exec);
		taken++;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_false(launch_log_take(log, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(entries_come_out_in_order),
		T(overwritten_entries_are_counted),
		T(latest_passes_over_what_opens_nothing_and_takes_nothing),
		T(entries_of_two_threads_are_whole_or_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
