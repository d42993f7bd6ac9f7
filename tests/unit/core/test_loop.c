/* The loop: order of timers, descriptors that end, signals. */
#include "core/loop.h"
#include "wire/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop *loop;
static char seen[64];

static int setup(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(seen));
	return loop_new(&loop);
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static void note(char c)
{
	size_t n = strlen(seen);

	if (n + 1 < sizeof(seen))
		seen[n] = c;
}

static void tick(void *arg)
{
	note(*(const char *)arg);
}

static void end(void *arg)
{
	note('e');
	loop_stop(loop, *(const int *)arg);
}

static void run_returns_what_stop_was_given(void **state)
{
	int result = 42;

	(void)state;
	assert_true(loop_every(loop, NS_PER_MS, end, &result) >= 0);
	assert_int_equal(loop_run(loop), 42);
	assert_string_equal(seen, "e");
}

static void timers_due_together_run_in_the_order_made(void **state)
{
	int result = 0;

	(void)state;
	/* one period, made one after the other: the deadlines differ by less
	 * than the sleep that makes all of them late */
	loop_every(loop, 5 * NS_PER_MS, tick, "a");
	loop_every(loop, 5 * NS_PER_MS, tick, "b");
	loop_every(loop, 5 * NS_PER_MS, end, &result);
	usleep(20000);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(seen, "abe");
}

static void an_earlier_deadline_runs_first_whoever_made_it(void **state)
{
	int result = 0;

	(void)state;
	loop_every(loop, 300 * NS_PER_MS, end, &result);
	loop_every(loop, 2 * NS_PER_MS, tick, "s");
	usleep(310000);
	loop_run(loop);
	assert_string_equal(seen, "se");
}

static void missed_periods_are_left_out(void **state)
{
	int result = 0;

	(void)state;
	loop_every(loop, NS_PER_MS, tick, "t");
	loop_every(loop, 30 * NS_PER_MS, end, &result);
	usleep(60000);
	loop_run(loop);
	assert_string_equal(seen, "te"); /* not sixty times t */
}

static int timer;
static void slow_down(void *arg)
{
	note(*(const char *)arg);
	loop_set_period(loop, timer, 3600 * NS_PER_S);
}

static void a_period_can_change_from_its_own_callback(void **state)
{
	int result = 0;

	(void)state;
	timer = loop_every(loop, NS_PER_MS, slow_down, "x");
	loop_every(loop, 20 * NS_PER_MS, end, &result);
	loop_run(loop);
	assert_string_equal(seen, "xe");
}

static void timers_run_out(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LOOP_TIMERS_MAX; i++)
		assert_true(loop_every(loop, NS_PER_S, tick, "t") >= 0);
	assert_int_equal(loop_every(loop, NS_PER_S, tick, "t"), -ENOSPC);
}

static int ends[2];
static void on_data(void *arg)
{
	char c;

	(void)arg;
	if (read(ends[0], &c, 1) == 1) {
		note(c);
		return;
	}
	note('.');
	loop_unwatch(loop, ends[0]);
	loop_stop(loop, 7);
}

static void a_descriptor_is_read_until_it_ends(void **state)
{
	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(loop_watch(loop, ends[0], on_data, NULL), 0);
	assert_int_equal(loop_watch(loop, ends[0], on_data, NULL), -EEXIST);
	assert_int_equal(write(ends[1], "hi", 2), 2);
	close(ends[1]);
	assert_int_equal(loop_run(loop), 7);
	assert_string_equal(seen, "hi.");
	close(ends[0]);
	loop_unwatch(loop, -1);
}

static void on_signal(void *arg, int signo)
{
	assert_ptr_equal(arg, seen);
	note(signo == SIGUSR1 ? '1' : '?');
	loop_stop(loop, signo);
}

static void a_signal_ends_the_wait(void **state)
{
	static const int signals[] = { SIGUSR1, SIGTERM, 0 };
	sigset_t mask;

	(void)state;
	assert_int_equal(loop_signals(loop, signals, on_signal, seen), 0);
	kill(getpid(), SIGUSR1);
	assert_int_equal(loop_run(loop), SIGUSR1);
	assert_string_equal(seen, "1");
	loop_free(loop);
	loop = NULL;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	assert_false(sigismember(&mask, SIGTERM));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(run_returns_what_stop_was_given),
		TEST(timers_due_together_run_in_the_order_made),
		TEST(an_earlier_deadline_runs_first_whoever_made_it),
		TEST(missed_periods_are_left_out),
		TEST(a_period_can_change_from_its_own_callback),
		TEST(timers_run_out),
		TEST(a_descriptor_is_read_until_it_ends),
		TEST(a_signal_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
