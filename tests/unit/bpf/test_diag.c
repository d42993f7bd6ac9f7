/*
 * Requests by the times of sockets, with no privilege.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "bpf/diag.h"
#include "bpf/tracker.h"
#include "tests/unit/bpf/traffic.h"

static void times_tell_the_kind(void **state)
{
	const struct {
		uint32_t received_ms, sent_ms;
		int nothing;
		enum diag_kind kind;
	} c[] = {
		{ 0, 0, 1, DIAG_IDLE }, /* connected, and nothing more */
		{ 10, 20, 0, DIAG_WAITING },
		{ 60000, 60001, 0, DIAG_WAITING },
		{ 100, 60, 0, DIAG_WAITING }, /* a head followed at once */
		{ 9000, 8990, 0, DIAG_IDLE }, /* and nothing since */
		{ 1000, 10, 0, DIAG_STREAMING },
		{ 1000, DIAG_STREAM_MS, 0, DIAG_IDLE },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		assert_int_equal(diag_judge(c[i].received_ms, c[i].sent_ms,
					    c[i].nothing),
				 c[i].kind);
}

#define ASK "POST /v1/completions HTTP/1.1\r\n\r\n"

/* As nobody; the exit status says what was wrong. */
static int estimate(uint16_t port)
{
	struct tracker_config config = { .ports = &port, .n_ports = 1 };
	uint64_t unread = 0, backlog = 0;
	struct request_counters c;
	struct request_gauges g;
	struct tracker *t;
	char why[200];

	if (setgid(65534) || setuid(65534))
		return 1;
	if (tracker_open(&t, &config, why, sizeof(why)))
		return 2;
	if (!tracker_estimates(t) || !strstr(tracker_refused(t), "K, F, P"))
		return 3;
	tracker_read(t, &g, &c);
	if (g.waiting[ENDPOINT_GENERATION] != 5 ||
	    g.streaming[ENDPOINT_GENERATION] != 0)
		return 4;
	if (tracker_queues(t, &unread, &backlog))
		return 5;
	if (unread != strlen(ASK) || backlog != 1)
		return 6;
	tracker_close(t);
	return 0;
}

static void without_privilege_requests_are_estimated(void **state)
{
	uint16_t port;
	int listener = traffic_listen(AF_INET, &port), status;
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int queued = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pair p[7];
	pid_t child;

	(void)state;
	for (unsigned i = 0; i < 7; i++) {
		assert_true(traffic_connect(&p[i], listener));
		if (i < 5)
			assert_int_equal(write(p[i].client, ASK, strlen(ASK)),
					 strlen(ASK));
		if (i < 4)
			assert_true(traffic_recv(p[i].server, strlen(ASK)));
	}
	assert_int_equal(connect(queued, (struct sockaddr *)&a, sizeof(a)), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(estimate(port));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	for (unsigned i = 0; i < 7; i++) {
		close(p[i].client);
		close(p[i].server);
	}
	close(queued);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_tell_the_kind),
		cmocka_unit_test(without_privilege_requests_are_estimated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
