/* A server of our own: its start, its words, its end. */
#include "core/child.h"
#include "wire/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct child child;

/* Run these commands of a shell. */
static void start(const char *commands)
{
	char *argv[] = { "/bin/sh", "-c", (char *)commands, NULL };

	assert_int_equal(child_start(&child, argv, "/x/agent.so"), 0);
}

static void a_program_that_is_not_there_is_an_error_at_once(void **state)
{
	char *argv[] = { "/nonexistent/program", NULL };

	(void)state;
	assert_int_equal(child_start(&child, argv, "a"), -ENOENT);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void it_has_the_agent_and_tells_its_port(void **state)
{
	uint16_t port = 0;

	(void)state;
	/* the overruling of what was there is told by nobody: it is ours */
	setenv("CUDA_INJECTION64_PATH", "/other.so", 1);
	start("[ \"$CUDA_INJECTION64_PATH\" = /x/agent.so ] || exit 1;"
	      "printf 'sim listening on '; echo 127.0.0.1:8123; read x");
	unsetenv("CUDA_INJECTION64_PATH");
	/* standard input is empty: it does not wait for the terminal's */
	assert_int_equal(child_wait_port(&child, 60000, &port), 0);
	assert_int_equal(port, 8123);
	child_end(&child);
	assert_int_equal(child.pid, 0);
}

static void what_is_no_port_is_refused(void **state)
{
	static const struct {
		const char *commands;
		int want;
	} cases[] = {
		{ "echo listening on :0", -EPROTO },
		{ "echo listening on 127.0.0.1:65536", -EPROTO },
		{ "echo ready: 80", -EPROTO },
		{ "exit 3", -ECHILD },
		{ "exec sleep 600", -ETIMEDOUT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint16_t port = 7;
		/* the last one shall run into it */
		unsigned ms = cases[i].want == -ETIMEDOUT ? 50 : 60000;

		start(cases[i].commands);
		assert_int_equal(child_wait_port(&child, ms, &port),
				 cases[i].want);
		assert_int_equal(port, 7);
		child_end(&child);
	}
}

static void its_last_words_are_the_last_line(void **state)
{
	char words[64];
	uint16_t port;

	(void)state;
	start("echo first >&2; printf 'no such model\\n\\n' >&2; exit 1");
	assert_int_equal(child_wait_port(&child, 60000, &port), -ECHILD);
	child_last_words(&child, words, sizeof(words));
	assert_string_equal(words, "no such model");
	child_end(&child);

	start("exit 1");
	assert_int_equal(child_wait_port(&child, 60000, &port), -ECHILD);
	child_last_words(&child, words, sizeof(words));
	assert_string_equal(words, "");
	child_end(&child);
}

/* Whoever made it is killed in the middle of the watch. */
static void it_dies_with_its_parent(void **state)
{
	pid_t parent, orphan = 0;
	int told[2], status;

	(void)state;
	/* so that the end of a grandchild is ours to see */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(told), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (!parent) {
		start("exec sleep 600");
		if (write(told[1], &child.pid, sizeof(child.pid)) < 0)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(told[0], &orphan, sizeof(orphan)),
			 sizeof(orphan));
	close(told[0]);
	close(told[1]);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_int_equal(waitpid(orphan, &status, 0), orphan);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_program_that_is_not_there_is_an_error_at_once),
		cmocka_unit_test(it_has_the_agent_and_tells_its_port),
		cmocka_unit_test(what_is_no_port_is_refused),
		cmocka_unit_test(its_last_words_are_the_last_line),
		cmocka_unit_test(it_dies_with_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
