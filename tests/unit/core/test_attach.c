/* The queue of injections, with stand-ins for the injection itself. */
#include "core/attach.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic unsigned calls;
static _Atomic pid_t caller;
static _Atomic unsigned callers; /* threads that injected */
static _Atomic bool go_on;
static uint64_t own_start;

static int setup(void **state)
{
	struct proc_stat s;

	(void)state;
	atomic_store(&calls, 0);
	atomic_store(&caller, 0);
	atomic_store(&callers, 0);
	if (proc_stat_read(getpid(), &s))
		return -1;
	own_start = s.start_ticks;
	return 0;
}

static int answer(struct inject_report *r, enum inject_refusal refusal)
{
	pid_t self = gettid();

	if (atomic_exchange(&caller, self) != self)
		atomic_fetch_add(&callers, 1);
	atomic_fetch_add(&calls, 1);
	*r = (struct inject_report){
		.refusal = refusal, .thread = 7, .stops = 4, .pause_ns = 300000
	};
	return refusal == INJECT_OK ? 0 : -EBUSY;
}

static int works(pid_t pid, const struct inject_image *image,
		 struct inject_report *r)
{
	assert_int_equal(pid, getpid());
	assert_true(image->bytes > 4);
	assert_memory_equal(image->data, "\177ELF", 4);
	return answer(r, INJECT_OK);
}

static int busy(pid_t pid, const struct inject_image *image,
		struct inject_report *r)
{
	(void)pid, (void)image;
	return answer(r, INJECT_BUSY);
}

static int refuses(pid_t pid, const struct inject_image *image,
		   struct inject_report *r)
{
	(void)pid, (void)image;
	return answer(r, INJECT_STATIC);
}

static int waits(pid_t pid, const struct inject_image *image,
		 struct inject_report *r)
{
	(void)pid, (void)image;
	while (!atomic_load(&go_on))
		usleep(1000);
	return answer(r, INJECT_OK);
}

static struct attach *new_attach(attach_fn *fn)
{
	struct attach *a = NULL;

	assert_int_equal(attach_new(&a, "/proc/self/exe", fn), 0);
	return a;
}

static void want(struct attach *a)
{
	attach_want(a, getpid(), own_start, clock_now_ns());
}

/* Until n injections have ended; asks all the while. */
static void wait_ended(struct attach *a, unsigned n, unsigned limit_ms)
{
	for (unsigned i = 0; i < limit_ms && attach_ended(a) < n; i++) {
		want(a);
		usleep(1000);
	}
	assert_true(attach_ended(a) >= n);
}

static struct attach_status look(const struct attach *a)
{
	struct attach_status s;

	attach_look(a, getpid(), own_start, &s);
	return s;
}

static void the_library_must_be_there(void **state)
{
	struct attach *a = NULL;

	(void)state;
	assert_int_equal(attach_new(&a, "/no/such", works), -ENOENT);
	assert_int_equal(attach_new(&a, "/tmp", works), -EINVAL);
	assert_null(a);
	attach_free(NULL);
}

static void it_is_done_once_and_reported(void **state)
{
	struct attach *a = new_attach(works);

	(void)state;
	assert_int_equal(look(a).state, ATTACH_NONE);
	wait_ended(a, 1, 2000);
	assert_int_equal(look(a).state, ATTACH_DONE);
	assert_int_equal(look(a).tries, 1);
	assert_int_equal(look(a).report.thread, 7);
	assert_int_equal(look(a).report.stops, 4);
	want(a);
	assert_int_equal(atomic_load(&calls), 1);
	attach_free(a);
}

static void who_asks_does_not_wait(void **state)
{
	struct attach *a = new_attach(waits);

	(void)state;
	want(a);
	want(a);
	assert_int_equal(attach_ended(a), 0);
	atomic_store(&go_on, true);
	wait_ended(a, 1, 2000);
	assert_int_equal(atomic_load(&callers), 1);
	attach_free(a);
}

static void a_passing_refusal_is_tried_again(void **state)
{
	struct attach *a = new_attach(busy);
	uint64_t start_ns = clock_now_ns();

	(void)state;
	wait_ended(a, 1, 2000);
	assert_int_equal(look(a).state, ATTACH_WAITING);
	assert_int_equal(look(a).report.refusal, INJECT_BUSY);
	wait_ended(a, 2, 4000);
	assert_true(clock_now_ns() - start_ns >= 900 * NS_PER_MS);
	assert_int_equal(atomic_load(&callers), 1);
	attach_free(a);
}

static void any_other_refusal_stands(void **state)
{
	struct attach *a = new_attach(refuses);

	(void)state;
	wait_ended(a, 1, 2000);
	want(a);
	assert_int_equal(look(a).state, ATTACH_REFUSED);
	assert_int_equal(look(a).report.refusal, INJECT_STATIC);
	attach_free(a);
	assert_int_equal(atomic_load(&calls), 1);
}

static void a_pid_that_is_used_again_is_left_alone(void **state)
{
	struct attach *a = new_attach(works);
	struct attach_status s;

	(void)state;
	attach_want(a, getpid(), own_start + 1, clock_now_ns());
	for (int i = 0; i < 60000 && !attach_ended(a); i++)
		usleep(1000);
	attach_look(a, getpid(), own_start + 1, &s);
	assert_int_equal(s.state, ATTACH_REFUSED);
	assert_int_equal(s.report.refusal, INJECT_NO_PROCESS);
	assert_int_equal(atomic_load(&calls), 0);
	attach_free(a);
}

static void there_is_room_for_those_that_came_last(void **state)
{
	struct attach *a = new_attach(refuses);
	struct attach_status s;
	uint64_t now_ns = clock_now_ns();

	(void)state;
	for (unsigned i = 0; i < 3 * ATTACH_PROCESSES_MAX; i++)
		attach_want(a, 0x7ffffff, i + 1, now_ns + i);
	attach_look(a, 0x7ffffff, 3 * ATTACH_PROCESSES_MAX, &s);
	assert_int_not_equal(s.state, ATTACH_NONE);
	attach_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_must_be_there),
		cmocka_unit_test_setup(it_is_done_once_and_reported, setup),
		cmocka_unit_test_setup(who_asks_does_not_wait, setup),
		cmocka_unit_test_setup(a_passing_refusal_is_tried_again, setup),
		cmocka_unit_test_setup(any_other_refusal_stands, setup),
		cmocka_unit_test_setup(a_pid_that_is_used_again_is_left_alone,
				       setup),
		cmocka_unit_test_setup(there_is_room_for_those_that_came_last,
				       setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
