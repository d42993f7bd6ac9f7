/* Whose network an engine is asked in: never one that only may be it. */
#include "core/fetch.h"
#include "target/proc.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static bool is_root(void)
{
	if (!geteuid())
		return true;
	print_message("# not root: no other network can be made\n");
	return false;
}

/* A process that only is there, in a network of its own if asked. */
static pid_t bystander(bool apart)
{
	int ready[2];
	pid_t pid;
	char c = 0;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = !apart || !unshare(CLONE_NEWNET);
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(c, 1);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What f says in a process that may look at nothing of root's, plus 100. */
static int as_nobody(int (*f)(pid_t pid), pid_t pid)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		struct stat st;
		char path[64];

		if (setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
		_exit(stat(path, &st) ? 100 + f(pid) : 2);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int try_to_open(pid_t pid)
{
	struct fetch *f = NULL;
	int err = fetch_open(&f, pid);

	fetch_close(f);
	return err;
}

static int netns_is_known(pid_t pid)
{
	return proc_netns(pid) && proc_netns(pid) == proc_netns(getpid());
}

static void our_own_network_is_known_without_rights(void **state)
{
	pid_t pid = bystander(false);

	(void)state;
	assert_int_equal(proc_same_network(pid), 1);
	if (is_root()) {
		assert_int_equal(as_nobody(proc_same_network, pid), 101);
		assert_int_equal(as_nobody(netns_is_known, pid), 101);
		assert_int_equal(as_nobody(try_to_open, pid), 100);
	}
	end(pid);
}

static void another_network_is_not_taken_for_ours(void **state)
{
	pid_t pid;

	(void)state;
	if (!is_root())
		return;
	pid = bystander(true);
	assert_int_equal(proc_same_network(pid), 0);
	assert_int_not_equal(proc_netns(pid), proc_netns(getpid()));
	assert_int_equal(as_nobody(proc_same_network, pid), 100);
	assert_int_equal(as_nobody(netns_is_known, pid), 100);
	assert_int_equal(as_nobody(try_to_open, pid), 100 - EPERM);
	end(pid);
}

static void nor_is_that_of_nobody(void **state)
{
	pid_t pid = bystander(false);

	(void)state;
	end(pid);
	assert_int_equal(proc_same_network(pid), -ESRCH);
	assert_int_equal(proc_netns(pid), 0);
	assert_int_equal(try_to_open(pid), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_network_is_known_without_rights),
		cmocka_unit_test(another_network_is_not_taken_for_ours),
		cmocka_unit_test(nor_is_that_of_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
