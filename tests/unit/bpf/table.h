/*
 * More connections than there is room for: they are counted, they pass, and
 * nothing of them stays in the gauges.  Needs root.  The includer defines TABLE,
 * the connections that there is room for.
 */
#ifndef MOETOP_TESTS_UNIT_BPF_TABLE_H
#define MOETOP_TESTS_UNIT_BPF_TABLE_H

#include "tests/unit/bpf/live.h"

#include <sys/wait.h>

#define BEYOND 600
#define CONNECTIONS (TABLE + BEYOND)

/* Clients, in a process of their own for the number of its descriptors. */
static void be_clients(int hold, unsigned n)
{
	struct sockaddr_storage a;
	socklen_t bytes = sizeof(a);

	if (getsockname(listener, (struct sockaddr *)&a, &bytes))
		_exit(1);
	for (unsigned i = 0; i < n; i++) {
		int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&a, bytes) ||
		    write(fd, POST, strlen(POST)) < 0 ||
		    (i % 500 == 499 && read(fd, &(char){ 0 }, 1) < 1))
			_exit(1);
	}
	_exit((int)read(hold, &(char){ 0 }, 1));
}

/* Begin to stream to n clients; they leave when *hold is closed. */
static pid_t open_all(int *servers, unsigned n, int *hold)
{
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(ends[1]);
		be_clients(ends[0], n);
	}
	close(ends[0]);
	*hold = ends[1];
	for (unsigned i = 0; i < n; i++) {
		servers[i] = accept(listener, NULL, NULL);
		assert_true(servers[i] >= 0);
		hear(servers[i], POST);
		say(servers[i], SSE);
		say(servers[i], EVENT);
	}
	return child;
}

static void close_all(const int *servers, unsigned n, int hold, pid_t child)
{
	int status;

	close(hold);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	for (unsigned i = 0; i < n; i++) {
		recv(servers[i], &(char){ 0 }, 1, 0);
		close(servers[i]);
	}
}

/* Over a UNIX socket what is gone makes room after two looks. */
static void wait_for_room(void)
{
	const uint64_t inode = inode_of(listener);

	assert_true(comes_to_rest(0));
	if (FAMILY == AF_UNIX)
		assert_int_equal(tracker_set_unix(tracker, &inode, 1), 0);
}

static void connections_that_find_no_room(void **state)
{
	static int servers[CONNECTIONS];
	struct pair more;
	pid_t child;
	int hold;

	(void)state;
	child = open_all(servers, CONNECTIONS, &hold);
	look();
	assert_int_equal(gauges.streaming[GEN], TABLE);
	assert_true(since(overflows) >= BEYOND);
	close_all(servers, CONNECTIONS, hold, child);
	wait_for_room();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(client_aborted[GEN]), since(started[GEN]));
	before = now;
	connect_pair(&more);
	begin_stream(&more);
	say(more.server, END);
	look();
	assert_int_equal(since(completed[GEN]), 1);
	assert_int_equal(since(overflows), 0);
	close(more.client);
	close(more.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(connections_that_find_no_room),
	};

	if (refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}

#endif
