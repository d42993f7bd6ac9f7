/* The thread for what may block. */
#include "core/worker.h"
#include "wire/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static atomic_int steps, ended, freed, stuck;

static void step(void *arg)
{
	(void)arg;
	atomic_fetch_add(&steps, 1);
	while (atomic_load(&stuck))
		usleep(1000);
}

static void end(void *arg)
{
	(void)arg;
	atomic_fetch_add(&ended, 1);
}

static void let_go(void *arg)
{
	(void)arg;
	assert_int_equal(atomic_load(&ended), 1);
	atomic_fetch_add(&freed, 1);
}

static const struct worker_job job = { .step = step,
				       .end = end,
				       .free = let_go };

static int setup(void **state)
{
	(void)state;
	atomic_store(&steps, 0);
	atomic_store(&ended, 0);
	atomic_store(&freed, 0);
	atomic_store(&stuck, 0);
	return 0;
}

static void wait_until(atomic_int *what, int value)
{
	for (int i = 0; i < 60000 && atomic_load(what) < value; i++)
		usleep(1000);
	assert_true(atomic_load(what) >= value);
}

static void it_works_at_once_and_again(void **state)
{
	struct worker *w;

	(void)state;
	assert_int_equal(worker_start(&w, NS_PER_MS, &job, NULL), 0);
	wait_until(&steps, 3);
	worker_stop(w);
	assert_int_equal(atomic_load(&ended), 1);
	assert_int_equal(atomic_load(&freed), 1);
}

static void stopping_does_not_wait_for_the_period(void **state)
{
	uint64_t start = clock_now_ns();
	struct worker *w;

	(void)state;
	assert_int_equal(worker_start(&w, 3600 * NS_PER_S, &job, NULL), 0);
	wait_until(&steps, 1);
	worker_stop(w);
	assert_int_equal(atomic_load(&freed), 1);
	assert_true(clock_now_ns() - start < 600 * NS_PER_S);
}

static void a_stuck_step_is_left_behind(void **state)
{
	struct worker *w;

	(void)state;
	atomic_store(&stuck, 1);
	assert_int_equal(worker_start(&w, NS_PER_MS, &job, NULL), 0);
	wait_until(&steps, 1);
	worker_stop(w); /* comes back, though the step does not */
	assert_int_equal(atomic_load(&freed), 0);
	atomic_store(&stuck, 0); /* it comes back and cleans up */
	wait_until(&freed, 1);
	assert_int_equal(atomic_load(&steps), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(it_works_at_once_and_again),
		TEST(stopping_does_not_wait_for_the_period),
		TEST(a_stuck_step_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
