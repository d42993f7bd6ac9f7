/* Servers that come and go; here they are children that only wait. */
#include "core/fleet.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct servers there;
static int failure;
static struct settings settings = { .no_bpf = true,
				    .no_inject = true,
				    .budget = 1 };
static struct fleet *f;
static unsigned n;

static int discover(struct servers *out)
{
	if (!failure)
		*out = there;
	return failure;
}

static void come(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	there.list[there.n++] = (struct server){ .pid = pid };
}

static void leave(unsigned i)
{
	kill(there.list[i].pid, SIGKILL);
	waitpid(there.list[i].pid, NULL, 0);
	there.n--;
	memmove(&there.list[i], &there.list[i + 1],
		(there.n - i) * sizeof(there.list[0]));
}

static const struct snapshot *const *look(void)
{
	fleet_look(f);
	fleet_tick(f);
	return fleet_snapshots(f, &n);
}

static int setup(void **state)
{
	(void)state;
	there = (struct servers){ 0 };
	failure = 0;
	/* what it says to the user is not TAP */
	return fleet_new(&f, &settings, NULL, discover);
}

static int teardown(void **state)
{
	(void)state;
	fleet_free(f);
	while (there.n)
		leave(0);
	return 0;
}

static void none(void **state)
{
	(void)state;
	look();
	assert_int_equal(n, 0);
	failure = -EACCES;
	look();
	assert_int_equal(n, 0);
}

static void each_is_watched_once(void **state)
{
	const struct snapshot *const *list;

	(void)state;
	come();
	come();
	look();
	list = look();
	assert_int_equal(n, 2);
	assert_int_equal(list[0]->target.pid, there.list[0].pid);
	assert_int_equal(list[1]->target.pid, there.list[1].pid);
	assert_string_not_equal(list[0]->target.server, list[1]->target.server);
}

/* The look at a server once a second tells that it is gone. */
static void one_ends_and_the_other_stays(void **state)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	const struct snapshot *const *list;
	unsigned gone = 0;

	(void)state;
	come();
	come();
	look();
	leave(0);
	for (int i = 0; i < 1200 && !gone; i++) {
		nanosleep(&pause, NULL);
		list = look();
		gone = list[0]->health.target_gone;
	}
	assert_int_equal(n, 2);
	assert_true(gone);
	assert_false(list[1]->health.target_gone);
}

static void those_that_are_too_many_are_counted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FLEET_MAX + 2; i++)
		come();
	there.more = 5;
	look();
	assert_int_equal(n, FLEET_MAX);
	assert_int_equal(fleet_left_out(f), 7);
}

static void what_serves_nobody_is_left_alone(void **state)
{
	(void)state;
	come();
	come();
	there.list[0].left_over = true;
	look();
	assert_int_equal(n, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(none),
		T(each_is_watched_once),
		T(one_ends_and_the_other_stays),
		T(those_that_are_too_many_are_counted),
		T(what_serves_nobody_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
