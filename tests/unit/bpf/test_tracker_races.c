/*
 * The real tracker where two sides of a connection act at once; needs root.
 */
#include "tests/unit/bpf/live.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define RACES 300

/* The client leaves at a random moment of a stream that is being written. */
static void *leave(void *arg)
{
	int fd = *(int *)arg;
	char b[256];
	unsigned looks = (unsigned)fd * 7 % 5;

	while (looks--)
		if (recv(fd, b, sizeof(b), MSG_DONTWAIT) < 0)
			sched_yield();
	traffic_reset(fd);
	return NULL;
}

static void races_leave_nothing_behind(void **state)
{
	uint64_t ended;

	(void)state;
	for (unsigned i = 0; i < RACES; i++) {
		pthread_t thread;
		struct pair p;

		connect_pair(&p);
		say(p.client, POST);
		hear(p.server, POST);
		say(p.server, SSE);
		assert_int_equal(
			pthread_create(&thread, NULL, leave, &p.client), 0);
		for (unsigned k = 0; k < 5; k++)
			if (send(p.server, EVENT, strlen(EVENT), MSG_NOSIGNAL) <
			    0)
				break;
		send(p.server, END, strlen(END), MSG_NOSIGNAL);
		pthread_join(thread, NULL);
		close(p.server);
	}
	assert_true(comes_to_rest(RACES));
	ended = since(completed[GEN]) + since(client_aborted[GEN]) +
		since(server_aborted[GEN]);
	assert_int_equal(since(started[GEN]), RACES);
	assert_int_equal(ended, RACES);
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		assert_int_equal(gauges.waiting[e], 0);
		assert_int_equal(gauges.streaming[e], 0);
	}
}

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define ROUNDS 300

/* A server whose one thread reads a connection while another one writes it. */
struct duplex {
	int fd;
	atomic_uint asked; /* requests read */
	atomic_bool ended;
};

static void *read_requests(void *arg)
{
	struct duplex *d = arg;
	size_t bytes = 0;
	char b[100]; /* cuts requests anywhere */
	ssize_t n;

	while ((n = read(d->fd, b, sizeof(b))) > 0) {
		bytes += (size_t)n;
		atomic_store(&d->asked, (unsigned)(bytes / strlen(POST)));
	}
	atomic_store(&d->ended, true);
	return NULL;
}

static void *write_answers(void *arg)
{
	struct duplex *d = arg;
	unsigned n = 0;

	while (!atomic_load(&d->ended) || n < atomic_load(&d->asked)) {
		if (n == atomic_load(&d->asked))
			sched_yield();
		else if (write(d->fd, ANSWER, strlen(ANSWER)) < 0)
			break;
		else
			n++;
	}
	return NULL;
}

/* Rounds of so many requests at once, over one connection. */
static void pipeline(unsigned at_once)
{
	struct duplex d = { 0 };
	pthread_t threads[2];
	struct pair p;

	connect_pair(&p);
	d.fd = p.server;
	assert_int_equal(pthread_create(&threads[0], NULL, read_requests, &d),
			 0);
	assert_int_equal(pthread_create(&threads[1], NULL, write_answers, &d),
			 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned k = 0; k < at_once; k++)
			say(p.client, POST);
		assert_true(traffic_recv(p.client, at_once * strlen(ANSWER)));
	}
	shutdown(p.client, SHUT_WR);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	close(p.server);
	close(p.client);
}

static void reader_and_writer_of_a_connection_may_be_two_threads(void **state)
{
	(void)state;
	pipeline(8);
	assert_true(comes_to_rest(8 * ROUNDS));
	assert_int_equal(since(started[GEN]), 8 * ROUNDS);
	assert_int_equal(since(completed[GEN]), 8 * ROUNDS);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(in_flight(), 0);
}

static void requests_beyond_the_slots_are_told_and_leave_nothing(void **state)
{
	(void)state;
	pipeline(30);
	assert_true(comes_to_rest(8 * ROUNDS));
	assert_true(since(desyncs) > 0);
	assert_int_equal(since(started[GEN]) + since(desyncs), 30 * ROUNDS);
	assert_int_equal(since(completed[GEN]), since(started[GEN]));
	assert_int_equal(in_flight(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(races_leave_nothing_behind),
		test_on(reader_and_writer_of_a_connection_may_be_two_threads),
		test_on(requests_beyond_the_slots_are_told_and_leave_nothing),
	};

	if (RUNG && refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
