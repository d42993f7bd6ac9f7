/*
 * The real tracker on real connections of this process; needs root.
 */
#include "tests/unit/bpf/live.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct record_sum {
	unsigned records, completed, events;
	bool in_order;
};

static void add_record(const struct request_record *r, void *arg)
{
	struct record_sum *s = arg;

	s->records++;
	s->completed += !r->how;
	s->events += r->events;
	if (r->port != port || r->end_ns < r->start_ns ||
	    (r->first_body_ns &&
	     (r->first_body_ns < r->start_ns || r->first_body_ns > r->end_ns)))
		s->in_order = false;
}

static void random_exchanges_are_counted_exactly(void **state)
{
	struct traffic sum = { 0 };
	struct record_sum records = { .in_order = true };
	struct pair p;
	int drained;

	(void)state;
	srand(7);
	connect_pair(&p);
	for (int i = 0; i < 300; i++) {
		assert_true(traffic_exchange(&p, &sum));
		look();
		assert_int_equal(since(started[GEN]), sum.requests);
		assert_int_equal(since(completed[GEN]), sum.requests);
		assert_int_equal(since(events[GEN]), sum.events);
		assert_int_equal(in_flight(), 0);
		if (i % 30)
			continue;
		close(p.client);
		close(p.server);
		connect_pair(&p);
	}
	close(p.client);
	close(p.server);
	assert_int_equal(now.desyncs, 0);
	drained = tracker_drain(tracker, add_record, &records);
	assert_int_equal(drained, sum.requests);
	assert_int_equal(records.records, sum.requests);
	assert_int_equal(records.completed, sum.requests);
	assert_int_equal(records.events, sum.events);
	assert_true(records.in_order);
}

static void waiting_then_streaming_then_nothing(void **state)
{
	struct pair p;

	(void)state;
	connect_pair(&p);
	say(p.client, POST);
	hear(p.server, POST);
	look();
	assert_int_equal(gauges.waiting[GEN], 1);
	say(p.server, SSE);
	say(p.server, EVENT);
	look();
	assert_int_equal(gauges.waiting[GEN], 0);
	assert_int_equal(gauges.streaming[GEN], 1);
	say(p.server, EVENT EVENT END);
	look();
	assert_int_equal(in_flight(), 0);
	close(p.client);
	close(p.server);
}

static void abort_all(struct pair *p, unsigned n, bool reset)
{
	for (unsigned i = 0; i < n; i++)
		if (reset)
			traffic_reset(p[i].client);
		else
			close(p[i].client);
	for (unsigned i = 0; i < n; i++) {
		char b[64];

		while (read(p[i].server, b, sizeof(b)) > 0)
			;
		close(p[i].server);
	}
}

static void client_aborts_are_counted_exactly(void **state)
{
	struct pair p[20];

	(void)state;
	for (unsigned reset = 0; reset < 2; reset++) {
		for (unsigned i = 0; i < 20; i++) {
			connect_pair(&p[i]);
			begin_stream(&p[i]);
		}
		look();
		assert_int_equal(gauges.streaming[GEN], 20);
		abort_all(p, 20, reset);
		assert_true(comes_to_rest(20 * (reset + 1)));
		assert_int_equal(since(client_aborted[GEN]), 20 * (reset + 1));
	}
	assert_int_equal(since(completed[GEN]), 0);
	assert_int_equal(since(server_aborted[GEN]), 0);
}

/* Many at once, and at addresses of sockets that others had before. */
static void crowds_are_counted_exactly(void **state)
{
	enum { CROWD = 400, ROUNDS = 4 };
	static struct pair p[CROWD];

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < CROWD; i++) {
			connect_pair(&p[i]);
			begin_stream(&p[i]);
		}
		for (unsigned i = 0; i < CROWD; i++) {
			say(p[i].server, EVENT);
			hear(p[i].client, EVENT);
		}
		look();
		assert_int_equal(gauges.streaming[GEN], CROWD);
		for (unsigned i = 0; i < CROWD; i += 2) {
			say(p[i].server, END);
			hear(p[i].client, END);
		}
		abort_all(p, CROWD, round & 1);
		assert_true(comes_to_rest((round + 1) * CROWD));
		assert_int_equal(since(completed[GEN]),
				 (round + 1) * CROWD / 2);
		assert_int_equal(since(client_aborted[GEN]),
				 (round + 1) * CROWD / 2);
	}
	assert_int_equal(since(server_aborted[GEN]), 0);
	assert_int_equal(now.desyncs, 0);
	assert_int_equal(now.overflows, 0);
}

static void server_aborts_are_counted_exactly(void **state)
{
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		connect_pair(&p);
		begin_stream(&p);
		close(p.server);
		close(p.client);
	}
	assert_true(comes_to_rest(10));
	assert_int_equal(since(server_aborted[GEN]), 10);
	assert_int_equal(since(client_aborted[GEN]), 0);
}

static void client_that_leaves_with_the_last_byte_aborts_nothing(void **state)
{
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		connect_pair(&p);
		begin_stream(&p);
		say(p.server, END);
		close(p.client);
		close(p.server);
	}
	assert_true(comes_to_rest(50));
	assert_int_equal(since(completed[GEN]), 50);
	assert_int_equal(since(client_aborted[GEN]), 0);
}

static void stream_older_than_the_tracker_is_recognised(void **state)
{
	uint16_t other_port;
	int other = traffic_listen(AF_INET, &other_port);
	const uint16_t both[2] = { port, other_port };
	struct pair p;

	(void)state;
	assert_true(traffic_connect(&p, other));
	begin_stream(&p);
	look();
	assert_int_equal(since(started[GEN]), 0);
	assert_int_equal(tracker_set_ports(tracker, both, 2), 0);
	say(p.server, EVENT);
	look();
	assert_int_equal(gauges.streaming[GEN], 1);
	/* A server that closes its listener still finishes its requests. */
	assert_int_equal(tracker_set_ports(tracker, &port, 1), 0);
	say(p.server, EVENT END);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(completed[GEN]), 1);
	assert_int_equal(since(events[GEN]), 2);
	close(p.client);
	close(p.server);
	close(other);
}

/* Its client had left before the tracker came: the abort is the client's. */
static void
older_stream_without_a_client_is_an_abort_of_the_client(void **state)
{
	uint16_t other_port;
	int other = traffic_listen(AF_INET, &other_port);
	const uint16_t both[2] = { port, other_port };
	struct pair p;

	(void)state;
	assert_true(traffic_connect(&p, other));
	begin_stream(&p);
	assert_int_equal(shutdown(p.client, SHUT_WR), 0);
	assert_int_equal(read(p.server, &(char){ 0 }, 1), 0);
	assert_int_equal(tracker_set_ports(tracker, both, 2), 0);
	say(p.server, EVENT);
	look();
	assert_int_equal(gauges.streaming[GEN], 1);
	close(p.server);
	assert_true(comes_to_rest(1));
	assert_int_equal(since(client_aborted[GEN]), 1);
	assert_int_equal(tracker_set_ports(tracker, &port, 1), 0);
	close(p.client);
	close(other);
}

static void ipv6_is_counted_like_ipv4(void **state)
{
	uint16_t six_port;
	int six = traffic_listen(AF_INET6, &six_port);
	struct traffic sum = { 0 };
	struct pair p;

	(void)state;
	if (six < 0) {
		print_message("# no IPv6 here\n");
		skip();
	}
	assert_int_equal(tracker_set_ports(tracker, &six_port, 1), 0);
	assert_true(traffic_connect(&p, six));
	assert_true(traffic_exchange(&p, &sum));
	assert_int_equal(tracker_set_ports(tracker, &port, 1), 0);
	look();
	assert_int_equal(since(completed[GEN]), sum.requests);
	close(p.client);
	close(p.server);
	close(six);
}

static void unknown_path_is_classified_by_its_end(void **state)
{
	static const char ask[] =
		"POST /deployment/of/some/company/with/a/very/long/prefix/"
		"v1/completions HTTP/1.1\r\n\r\n";
	static const char answer[] =
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	struct pair p;

	(void)state;
	connect_pair(&p);
	for (unsigned i = 0; i < 2; i++) {
		say(p.client, ask);
		hear(p.server, ask);
		say(p.server, answer);
		hear(p.client, answer);
		assert_int_equal(tracker_drain(tracker, NULL, NULL), 1);
	}
	look();
	assert_int_equal(since(completed[ENDPOINT_OTHER]), 1);
	assert_int_equal(since(completed[GEN]), 1);
	close(p.client);
	close(p.server);
}

static void histograms_hold_every_generation(void **state)
{
	struct request_histogram h[3][2];
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(tracker_histogram(tracker, i, &h[i][0]), 0);
	connect_pair(&p);
	for (unsigned i = 0; i < 5; i++) {
		begin_stream(&p);
		say(p.server, EVENT EVENT END);
		hear(p.client, EVENT EVENT END);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(tracker_histogram(tracker, i, &h[i][1]), 0);
	assert_int_equal(h[TRACKER_TTFT][1].count - h[TRACKER_TTFT][0].count,
			 5);
	assert_int_equal(h[TRACKER_GAP][1].count - h[TRACKER_GAP][0].count, 10);
	assert_int_equal(
		h[TRACKER_DURATION][1].count - h[TRACKER_DURATION][0].count, 5);
	assert_true(h[TRACKER_TTFT][1].sum_ns - h[TRACKER_TTFT][0].sum_ns <
		    h[TRACKER_DURATION][1].sum_ns -
			    h[TRACKER_DURATION][0].sum_ns);
	close(p.client);
	close(p.server);
}

/* How many gaps are at least so long. */
static uint64_t gaps_from(uint64_t ns)
{
	struct request_histogram h;
	uint64_t n = 0;

	assert_int_equal(tracker_histogram(tracker, TRACKER_GAP, &h), 0);
	for (uint32_t i = 0; i < HIST_BUCKETS; i++)
		n += hist_bucket_low_ns(i + 1) > ns ? h.buckets[i] : 0;
	return n;
}

/* TCP's own time of its last sending is not that of what it holds back.  Packets
 * show no more than what it sends. */
static void gaps_are_those_of_the_calls_whenever_tcp_sends(void **state)
{
	enum { EVENTS = 5, GAP_NS = 15000000 };
	const struct timespec gap = { .tv_nsec = GAP_NS };
	const char *rung = RUNG;
	bool packets = rung && !strcmp(rung, "C");

	(void)state;
	for (int cork = 0; cork < 2 - packets; cork++) {
		uint64_t was = gaps_from(GAP_NS), all = gaps_from(0);
		struct pair p;

		connect_pair(&p);
		begin_stream(&p);
		assert_int_equal(setsockopt(p.server, IPPROTO_TCP, TCP_CORK,
					    &cork, sizeof(cork)),
				 0);
		for (int i = 0; i < EVENTS; i++) {
			nanosleep(&gap, NULL);
			say(p.server, EVENT);
		}
		assert_int_equal(gaps_from(0) - all, EVENTS);
		assert_int_equal(gaps_from(GAP_NS) - was, EVENTS);
		abort_all(&p, 1, false);
		assert_true(comes_to_rest((uint64_t)cork + 1));
	}
}

/* ---- opening ------------------------------------------------------------- */

static void other_network_namespace_is_not_counted(void **state)
{
	struct tracker_config config = { .ports = &port,
					 .n_ports = 1,
					 .netns = 1 };
	struct request_counters c;
	struct request_gauges g;
	struct tracker *t;
	struct timespec a, b;
	char why[200];
	struct pair p;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(tracker_open(&t, &config, why, sizeof(why)), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	print_message("# opened in %lld ms\n",
		      ((long long)(b.tv_sec - a.tv_sec) * 1000000000 +
		       b.tv_nsec - a.tv_nsec) /
			      1000000);
	connect_pair(&p);
	begin_stream(&p);
	tracker_read(t, &g, &c);
	tracker_close(t);
	assert_int_equal(c.started[GEN], 0);
	assert_int_equal(c.connections, 0);
	close(p.client);
	close(p.server);
	assert_true(comes_to_rest(1));
}

/* Root of a container, as a rule: uid 0 and none of the capabilities. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	const struct __user_cap_data_struct none[2] = { 0 };

	return (int)syscall(SYS_capset, &head, none);
}

static int become_nobody(void)
{
	return setgid(65534) || setuid(65534);
}

static void without_privilege_the_reason_is_said(void **state)
{
	int (*const ways[])(void) = { become_nobody, drop_capabilities };
	struct tracker_config config = { .ports = &port,
					 .n_ports = 1,
					 .rung = "K" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct tracker *t;
		char why[200] = "";
		int status;
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child) {
			if (ways[i]())
				_exit(2);
			status = tracker_open(&t, &config, why, sizeof(why));
			_exit(status != -EPERM || !strstr(why, "CAP_BPF"));
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void bad_ports_are_refused(void **state)
{
	struct tracker_config config = { .ports = &port, .n_ports = 0 };
	const uint16_t zero = 0;
	struct tracker *t = NULL;
	char why[200] = "";

	(void)state;
	assert_int_equal(tracker_open(&t, &config, why, sizeof(why)), -EINVAL);
	assert_null(t);
	assert_string_not_equal(why, "");
	assert_int_equal(tracker_set_ports(tracker, &zero, 1), -EINVAL);
	assert_int_equal(tracker_set_ports(tracker, &port, 65), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(random_exchanges_are_counted_exactly),
		test_on(waiting_then_streaming_then_nothing),
		test_on(client_aborts_are_counted_exactly),
		test_on(crowds_are_counted_exactly),
		test_on(server_aborts_are_counted_exactly),
		test_on(client_that_leaves_with_the_last_byte_aborts_nothing),
		test_on(stream_older_than_the_tracker_is_recognised),
		test_on(older_stream_without_a_client_is_an_abort_of_the_client),
		test_on(ipv6_is_counted_like_ipv4),
		test_on(unknown_path_is_classified_by_its_end),
		test_on(histograms_hold_every_generation),
		test_on(gaps_are_those_of_the_calls_whenever_tcp_sends),
		test_on(other_network_namespace_is_not_counted),
		test_on(without_privilege_the_reason_is_said),
		test_on(bad_ports_are_refused),
	};

	if (RUNG && refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
