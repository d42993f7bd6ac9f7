/*
 * A server that leaks its sockets in CLOSE_WAIT: the requests on them are in
 * flight for half a minute, and then the client's aborts.  Needs root.
 */
#include "tests/unit/bpf/live.h"

#define LEAKED 50
#define SECONDS 40

static void leaked_sockets_keep_no_request_for_good(void **state)
{
	const struct timespec pause = { .tv_nsec = 500000000 };
	struct pair p[LEAKED];

	(void)state;
	for (unsigned i = 0; i < LEAKED; i++) {
		connect_pair(&p[i]);
		begin_stream(&p[i]);
		close(p[i].client);
	}
	look();
	assert_int_equal(gauges.streaming[GEN], LEAKED);
	for (unsigned i = 0; in_flight() && i < 2 * SECONDS; i++) {
		nanosleep(&pause, NULL);
		tracker_drain(tracker, NULL, NULL);
		look();
	}
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(client_aborted[GEN]), LEAKED);
	for (unsigned i = 0; i < LEAKED; i++)
		close(p[i].server);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(client_aborted[GEN]), LEAKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(leaked_sockets_keep_no_request_for_good),
	};

	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
