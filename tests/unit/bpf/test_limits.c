/*
 * More than the tracker has room for: it is counted, it passes, and nothing of
 * it stays in the gauges.  Needs root.
 */
#include "tests/unit/bpf/live.h"

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

static void answer(const struct pair *p, const char *path)
{
	char ask[128];

	snprintf(ask, sizeof(ask), "POST %s HTTP/1.1\r\n\r\n", path);
	say(p->client, ask);
	hear(p->server, ask);
	say(p->server, ANSWER);
	hear(p->client, ANSWER);
}

static void records_that_find_the_ring_full(void **state)
{
	const unsigned n = 16000; /* 1 MB of 72 bytes each: 14563 */
	struct pair p;
	int drained;

	(void)state;
	connect_pair(&p);
	for (unsigned i = 0; i < n; i++)
		answer(&p, "/v1/completions");
	look();
	assert_int_equal(since(completed[GEN]), n);
	assert_true(since(records_lost) > 0);
	drained = tracker_drain(tracker, NULL, NULL);
	assert_int_equal(drained + (int)since(records_lost), n);
	before = now;
	answer(&p, "/v1/completions");
	look();
	assert_int_equal(since(records_lost), 0);
	assert_int_equal(tracker_drain(tracker, NULL, NULL), 1);
	assert_int_equal(in_flight(), 0);
	close(p.client);
	close(p.server);
}

/* Clients that try paths: known ones are still known. */
static void paths_that_find_no_room(void **state)
{
	const unsigned n = 700; /* 512 are learnt, with those of the table */
	struct pair p;
	char path[32];

	(void)state;
	connect_pair(&p);
	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/try/%u", i);
		answer(&p, path);
		tracker_drain(tracker, NULL, NULL);
	}
	look();
	assert_int_equal(since(completed[ENDPOINT_OTHER]), n);
	assert_in_range(since(paths_lost), n - 512, n - 1);
	answer(&p, "/v1/completions");
	look();
	assert_int_equal(since(completed[GEN]), 1);
	assert_int_equal(in_flight(), 0);
	close(p.client);
	close(p.server);
}

/* As many pieces as the kernel takes, an event in each, and the end. */
static void a_call_of_as_many_pieces_as_there_may_be(void **state)
{
	static char event[] = EVENT, end[] = END;
	struct iovec v[1024];
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < 1024; i++)
		v[i] = (struct iovec){ event, strlen(event) };
	v[1023] = (struct iovec){ end, strlen(end) };
	connect_pair(&p);
	begin_stream(&p);
	assert_int_equal(writev(p.server, v, 1024),
			 1023 * strlen(event) + strlen(end));
	look();
	assert_int_equal(since(events[GEN]), 1024);
	assert_int_equal(since(completed[GEN]), 1);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(in_flight(), 0);
	close(p.client);
	close(p.server);
}

/* A call of more events than are looked at: the rest of the call is lost, and
 * the next request finds the connection as good as new. */
static void a_call_with_more_steps_than_are_taken(void **state)
{
	static char many[6000 * sizeof(EVENT)];
	struct pair p;
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < 6000; i++)
		n += (size_t)sprintf(many + n, EVENT);
	n += (size_t)sprintf(many + n, END);
	connect_pair(&p);
	begin_stream(&p);
	assert_int_equal(write(p.server, many, n), n);
	look();
	assert_in_range(since(events[GEN]), 1000, 6000);
	assert_int_equal(since(desyncs), 1);
	assert_true(traffic_recv(p.client, n));
	before = now;
	answer(&p, "/v1/completions");
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 2);
	assert_int_equal(since(desyncs), 0);
	close(p.client);
	close(p.server);
}

static void many_pipelined_requests(void **state)
{
	struct pair p;

	(void)state;
	connect_pair(&p);
	for (unsigned i = 0; i < 20; i++)
		say(p.client, POST);
	assert_true(traffic_recv(p.server, 20 * strlen(POST)));
	look();
	assert_int_equal(in_flight(), 8);
	assert_int_equal(since(desyncs), 12);
	for (unsigned i = 0; i < 20; i++)
		say(p.server, ANSWER);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 8);
	answer(&p, "/v1/completions");
	look();
	assert_int_equal(since(completed[GEN]), 9);
	close(p.client);
	close(p.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(records_that_find_the_ring_full),
		test_on(paths_that_find_no_room),
		test_on(a_call_of_as_many_pieces_as_there_may_be),
		test_on(a_call_with_more_steps_than_are_taken),
		test_on(many_pipelined_requests),
	};

	if (RUNG && refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
