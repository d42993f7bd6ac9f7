/*
 * What is particular to UNIX sockets: how connections are found, and how their
 * ends are noticed.  Needs root.
 */
#define OVER_UNIX
#include "tests/unit/bpf/live.h"

#include <sys/un.h>

static const char path[] = "/tmp/moetop-test-unix.sock";

/* A second listener; the tracker follows both, or the first one again. */
static void follow(const int *other)
{
	const uint64_t inodes[2] = { inode_of(listener),
				     other ? inode_of(*other) : 0 };

	assert_int_equal(tracker_set_unix(tracker, inodes, other ? 2 : 1), 0);
}

static int listen_at(const char *where)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, where);
	unlink(where);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void older_connections_are_guesses_until_they_are_proved(void **state)
{
	int other = traffic_listen(AF_UNIX, &(uint16_t){ 0 });
	struct pair streams, idle, fresh;

	(void)state;
	assert_true(traffic_connect(&streams, other));
	assert_true(traffic_connect(&idle, other));
	begin_stream(&streams);
	follow(&other);
	look();
	assert_int_equal(gauges.guessed[GEN], 2);
	assert_int_equal(since(started[GEN]), 0);
	say(streams.server, EVENT);
	look();
	assert_int_equal(gauges.guessed[GEN], 1);
	assert_int_equal(gauges.streaming[GEN], 1);
	say(streams.server, EVENT END);
	assert_true(traffic_connect(&fresh, other));
	begin_stream(&fresh);
	say(fresh.server, END);
	close(idle.client);
	assert_int_equal(read(idle.server, &(char){ 0 }, 1), 0);
	look();
	assert_int_equal(gauges.guessed[GEN], 0);
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 2);
	assert_int_equal(since(events[GEN]), 3);
	assert_int_equal(since(desyncs), 0);
	close(idle.server);
	close(streams.server);
	close(streams.client);
	close(fresh.server);
	close(fresh.client);
	close(other);
	follow(NULL);
}

/* A server that starts again at the same path, and its old connections. */
static void listener_by_path_that_is_bound_again(void **state)
{
	int first = listen_at(path), second;
	struct pair old, new;

	(void)state;
	follow(&first);
	assert_true(traffic_connect(&old, first));
	begin_stream(&old);
	close(first);
	second = listen_at(path);
	follow(&second);
	assert_true(traffic_connect(&new, second));
	begin_stream(&new);
	look();
	assert_int_equal(gauges.streaming[GEN], 2);
	say(old.server, END);
	say(new.server, END);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 2);
	close(old.server);
	close(old.client);
	close(new.server);
	close(new.client);
	close(second);
	unlink(path);
	follow(NULL);
}

static void other_unix_sockets_are_not_followed(void **state)
{
	int other = traffic_listen(AF_UNIX, &(uint16_t){ 0 });
	struct pair p;

	(void)state;
	assert_true(traffic_connect(&p, other));
	begin_stream(&p);
	look();
	assert_int_equal(since(connections), 0);
	assert_int_equal(since(started[GEN]), 0);
	close(p.client);
	close(p.server);
	close(other);
}

static void client_that_closes_half_is_answered(void **state)
{
	struct pair p;

	(void)state;
	connect_pair(&p);
	begin_stream(&p);
	assert_int_equal(shutdown(p.client, SHUT_WR), 0);
	assert_int_equal(read(p.server, &(char){ 0 }, 1), 0);
	look();
	assert_int_equal(gauges.streaming[GEN], 1);
	say(p.server, EVENT END);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 1);
	close(p.server);
	close(p.client);
}

static void server_that_does_not_read_learns_it_when_it_writes(void **state)
{
	struct pair p;

	(void)state;
	connect_pair(&p);
	begin_stream(&p);
	close(p.client);
	assert_int_equal(send(p.server, EVENT, strlen(EVENT), MSG_NOSIGNAL),
			 -1);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(client_aborted[GEN]), 1);
	close(p.server);
}

static void ends_that_nobody_reads_are_found_by_looking(void **state)
{
	struct pair p[10];

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		connect_pair(&p[i]);
		begin_stream(&p[i]);
	}
	for (unsigned i = 0; i < 10; i++) {
		close(p[i].server);
		close(p[i].client);
	}
	look();
	assert_int_equal(gauges.streaming[GEN], 10);
	follow(NULL); /* looks twice, as it does within two seconds */
	assert_true(comes_to_rest(10));
	assert_int_equal(since(server_aborted[GEN]), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(older_connections_are_guesses_until_they_are_proved),
		test_on(listener_by_path_that_is_bound_again),
		test_on(other_unix_sockets_are_not_followed),
		test_on(client_that_closes_half_is_answered),
		test_on(server_that_does_not_read_learns_it_when_it_writes),
		test_on(ends_that_nobody_reads_are_found_by_looking),
	};

	if (RUNG && refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
