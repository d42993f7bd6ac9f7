#include "target/inject_thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static void a_line_of_proc(void **state)
{
	struct thread_call c = { .call = 77 };

	(void)state;
	assert_int_equal(thread_parse_call("7 0x10 0x2 0xffffffff 0x0 0x5 0x6 "
					   "0x7ffc1000 0x7f0012345678\n",
					   &c),
			 0);
	assert_int_equal(c.call, 7);
	assert_int_equal(c.args[0], 0x10);
	assert_int_equal(c.args[2], 0xffffffff);
	assert_int_equal(c.args[5], 6);
	assert_int_equal(c.sp, 0x7ffc1000);
	assert_int_equal(c.pc, 0x7f0012345678);
}

static void lines_of_no_use(void **state)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "running\n", -EAGAIN },
		{ "-1 0x7ffc1000 0x7f0012345678\n", -EINVAL },
		{ "7 0x1 0x2\n", -EINVAL },
		{ "", -EINVAL },
		{ "poll", -EINVAL },
	};
	struct thread_call c = { .call = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(thread_parse_call(cases[i].text, &c),
				 cases[i].err);
		assert_int_equal(c.call, 77);
	}
}

static int pidfd;

static int rank_of(long call, unsigned arg, uint64_t value, bool *endless)
{
	struct thread_call c = { .call = call };

	for (unsigned i = 0; i < 6; i++)
		c.args[i] = 1;
	c.args[arg] = value;
	return thread_rank(&c, pidfd, endless);
}

/* malloc, the loader, fork and every lock make these. */
static void calls_under_locks_are_never_chosen(void **state)
{
	static const long calls[] = {
		SYS_mmap,           SYS_mprotect, SYS_munmap, SYS_brk,
		SYS_madvise,        SYS_mremap,   SYS_futex,  SYS_clone,
		SYS_clone3,         SYS_openat,   SYS_read,   SYS_pread64,
		SYS_write,          SYS_close,    SYS_ioctl,  SYS_fcntl,
		SYS_exit,           SYS_wait4,    SYS_execve, -1,
		SYS_restart_syscall
	};
	bool endless;

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_int_equal(rank_of(calls[i], 0, 0, &endless), -1);
}

static void a_call_without_end_comes_first(void **state)
{
	bool endless;
	int best, timed;

	(void)state;
	best = rank_of(SYS_ppoll, 2, 0, &endless);
	assert_true(endless);
	timed = rank_of(SYS_ppoll, 2, 0x7ffc0000, &endless);
	assert_false(endless);
	assert_int_equal(best, 0);
	assert_true(best < timed);
	assert_true(timed < rank_of(SYS_epoll_pwait, 3, 0xffffffff, &endless));
	assert_true(endless);
	assert_true(rank_of(SYS_epoll_pwait, 3, 0xffffffff, &endless) <
		    rank_of(SYS_epoll_pwait, 3, 100, &endless));
	assert_false(endless);
}

/* What accept and recv do not say themselves. */
static void a_socket_is_asked_for_its_timeout(void **state)
{
	const struct timeval second = { .tv_sec = 1 };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), rank;
	bool endless;

	(void)state;
	assert_true(s >= 0);
	rank = rank_of(SYS_accept4, 0, (uint64_t)s, &endless);
	assert_true(endless);
	assert_true(rank < rank_of(SYS_epoll_pwait, 3, 0xffffffff, &endless));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	assert_true(rank < rank_of(SYS_accept4, 0, (uint64_t)s, &endless));
	assert_false(endless);
	close(s);
	assert_true(rank < rank_of(SYS_recvmsg, 0, (uint64_t)s, &endless));
	assert_false(endless);
}

static void a_timeout_of_zero_has_an_end(void **state)
{
	bool endless = true;

	(void)state;
	assert_true(rank_of(SYS_epoll_pwait, 3, 0, &endless) >= 0);
	assert_false(endless);
}

static void what_restart_syscall_waits_in(void **state)
{
	static const char *const yes[] = { "poll_schedule_timeout.constprop.0",
					   "do_sys_poll", "hrtimer_nanosleep",
					   "do_nanosleep" };
	static const char *const no[] = {
		"futex_wait_queue", "futex_wait", "do_poller", "0", "",
		"do_epoll_wait"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(thread_wchan_is_parked(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(thread_wchan_is_parked(no[i]));
}

static void sleepers_are_not_put_to_sleep_again(void **state)
{
	const struct thread_call sleeper = { .call = SYS_clock_nanosleep };

	(void)state;
	assert_false(thread_may_begin_again(&sleeper));
#ifdef SYS_poll
	const struct thread_call brief = { .call = SYS_poll,
					   .args = { 0, 0, 10000 } };
	const struct thread_call lengthy = { .call = SYS_poll,
					     .args = { 0, 0, 10001 } };

	assert_true(thread_may_begin_again(&brief));
	assert_false(thread_may_begin_again(&lengthy));
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_proc),
		cmocka_unit_test(lines_of_no_use),
		cmocka_unit_test(calls_under_locks_are_never_chosen),
		cmocka_unit_test(a_call_without_end_comes_first),
		cmocka_unit_test(a_socket_is_asked_for_its_timeout),
		cmocka_unit_test(a_timeout_of_zero_has_an_end),
		cmocka_unit_test(what_restart_syscall_waits_in),
		cmocka_unit_test(sleepers_are_not_put_to_sleep_again),
	};

	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
