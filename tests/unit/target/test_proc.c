#include "target/proc.h"

#include "wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(const char *line, struct proc_stat *out)
{
	return proc_stat_parse(line, strlen(line), out);
}

static void odd_command_names(void **state)
{
	static const struct {
		const char *line, *comm;
		int pid, ppid;
	} cases[] = {
		{ "14687 (VLLM::EngineCore) S 14001 14001 14001 0 -1 4194304 "
		  "0 0 0 0 0 0 0 0 20 0 1 0 4711",
		  "VLLM::EngineCore", 14687, 14001 },
		{ "7 (a) S 1 (b: c) R 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711",
		  "a) S 1 (b: c", 7, 5 },
		{ "8 ()) Z 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711", ")", 8,
		  0 },
	};
	struct proc_stat s;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line, &s), 0);
		assert_string_equal(s.comm, cases[i].comm);
		assert_int_equal(s.pid, cases[i].pid);
		assert_int_equal(s.ppid, cases[i].ppid);
		assert_int_equal(s.start_ticks, 4711);
	}
}

static void stat_nonsense(void **state)
{
	static const char *const lines[] = {
		"",      "1",       "1 (a",     "1 a) S 2", ")(", "x (a) S 1 2",
		"1 (a)", "1 (a) S", "1 (a) S x"
	};
	struct proc_stat s = { .pid = 42 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(parse(lines[i], &s), -EINVAL);
	assert_int_equal(s.pid, 42);
}

/* A child that waits on a pipe until the parent closes it. */
static pid_t spawn(int hold, void (*setup)(void), bool *ready)
{
	pid_t pid = fork();
	char c;

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setup)
			setup();
		*ready = true;
		_exit((int)read(hold, &c, 1));
	}
	return pid;
}

static bool *shared_flag(void)
{
	bool *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void wait_flag(volatile bool *flag)
{
	for (int i = 0; i < 60000 && !*flag; i++)
		usleep(1000);
	assert_true(*flag);
}

static void rename_oddly(void)
{
	prctl(PR_SET_NAME, "x) R 1 (y: z");
}

static void tree_of_odd_children(void **state)
{
	bool *ready = shared_flag();
	pid_t child, pids[8] = { 0 };
	int hold[2], n;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	child = spawn(hold[0], rename_oddly, ready);
	wait_flag(ready);
	n = proc_tree(getpid(), pids, 8);
	assert_int_equal(n, 2);
	assert_int_equal(pids[0], getpid());
	assert_int_equal(pids[1], child);
	assert_int_equal(proc_tree(getpid(), pids, 1), 1);
	assert_int_equal(write(hold[1], "x", 1), 1);
	waitpid(child, NULL, 0);
	close(hold[0]);
	close(hold[1]);
	assert_int_equal(proc_tree(child, pids, 8), -ESRCH);
	munmap(ready, sizeof(*ready));
}

static void gone_processes(void **state)
{
	struct proc_stat s;
	struct proc_fds fds;
	char buf[16];

	(void)state;
	assert_int_equal(proc_stat_read(0x7ffffffe, &s), -ESRCH);
	assert_int_equal(proc_read(0x7ffffffe, "cmdline", buf, 16), -ESRCH);
	assert_int_equal(proc_maps_find(0x7ffffffe, "x"), -ESRCH);
	assert_int_equal(proc_fds_read(0x7ffffffe, &fds, NULL, NULL), -ESRCH);
	assert_int_equal(proc_netns(0x7ffffffe), 0);
	assert_int_equal(proc_tgid(0x7ffffffe), 0x7ffffffe);
}

static void maps_of_this_program(void **state)
{
	char long_needle[80];

	(void)state;
	assert_int_equal(proc_maps_find(getpid(), "/libcmocka.so"), 1);
	assert_int_equal(proc_maps_find(getpid(), "/libcuda.so"), 0);
	assert_int_equal(proc_maps_find(getpid(), ""), -EINVAL);
	memset(long_needle, 'x', sizeof(long_needle) - 1);
	long_needle[sizeof(long_needle) - 1] = '\0';
	assert_int_equal(proc_maps_find(getpid(), long_needle), -EINVAL);
}

static void count_socket(void *cls, uint64_t inode)
{
	unsigned *n = cls;

	*n += inode != 0;
}

static void descriptors_of_this_program(void **state)
{
	struct proc_fds fds = { 0 };
	unsigned before = 0, after = 0;
	char want[64];
	int pair[2], ring;

	(void)state;
	assert_int_equal(proc_fds_read(getpid(), &fds, count_socket, &before),
			 0);
	assert_string_equal(fds.ring, "");
	assert_false(fds.nvidia);
	ring = memfd_create(RING_NAME, MFD_CLOEXEC);
	assert_true(ring >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(proc_fds_read(getpid(), &fds, count_socket, &after),
			 0);
	snprintf(want, sizeof(want), "/proc/%d/fd/%d", (int)getpid(), ring);
	assert_string_equal(fds.ring, want);
	assert_int_equal(after, before + 2);
	close(ring);
	close(pair[0]);
	close(pair[1]);
}

static void long_files_are_cut(void **state)
{
	char buf[8];

	(void)state;
	assert_int_equal(proc_read(getpid(), "status", buf, sizeof(buf)), 7);
	assert_int_equal(buf[7], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(odd_command_names),
		cmocka_unit_test(stat_nonsense),
		cmocka_unit_test(tree_of_odd_children),
		cmocka_unit_test(gone_processes),
		cmocka_unit_test(maps_of_this_program),
		cmocka_unit_test(descriptors_of_this_program),
		cmocka_unit_test(long_files_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
