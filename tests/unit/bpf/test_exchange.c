/*
 * Requests and responses of a connection: gauges, times, ends, and what happens
 * when the framing is lost or was never known.
 */
#include "tests/unit/bpf/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define GEN "POST /v1/chat/completions HTTP/1.1\r\n"
#define JSON "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
#define SSE                                                  \
	"HTTP/1.1 200 OK\r\ndate: x\r\n"                     \
	"content-type: text/event-stream; charset=utf-8\r\n" \
	"Transfer-Encoding: chunked\r\n\r\n"
#define DONE "e\r\ndata: [DONE]\n\n\r\n"
#define END "0\r\n\r\n"
static struct conn connection;

static void begin(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
}

static void ask(const char *request)
{
	harness_bytes(&connection, false, request, strlen(request));
}

static void answer(const char *response)
{
	harness_bytes(&connection, true, response, strlen(response));
}

static void gauges_follow_a_stream(void **state)
{
	(void)state;
	begin();
	ask(GEN "Content-Length: 0\r\n\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer(SSE); /* the early head says nothing */
	answer("8\r\n: ping\n\n\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer("9\r\ndata: a\n\n\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 0);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	answer(DONE);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	answer(END);
	assert_int_equal(harness_in_flight(), 0);
	assert_true(harness_balanced());
}

static void times_are_of_the_calls(void **state)
{
	const uint64_t us = 1000;

	(void)state;
	begin();
	ask(GEN "\r\n");
	answer(SSE);
	answer("9\r\ndata: a\n\n\r\n");
	harness_ns += 6 * us;
	answer("9\r\ndata: b\n\n\r\n9\r\ndata: c\n\n\r\n");
	answer(END);
	assert_int_equal(records[0].first_body_ns - records[0].start_ns,
			 2 * us);
	assert_int_equal(records[0].max_gap_ns, 7 * us);
	assert_int_equal(records[0].end_ns - records[0].start_ns, 10 * us);
	assert_int_equal(histograms[EXCHANGE_TTFT].count, 1);
	assert_int_equal(histograms[EXCHANGE_TTFT].sum_ns, 2 * us);
	assert_int_equal(histograms[EXCHANGE_GAP].count, 2);
	assert_int_equal(histograms[EXCHANGE_GAP].sum_ns, 7 * us);
	assert_int_equal(histograms[EXCHANGE_DURATION].sum_ns, 10 * us);
}

static void next_response_starts_from_nothing(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 2; i++) {
		ask(GEN "\r\n");
		answer(SSE "9\r\ndata: a\n\n\r\n");
		answer("9\r\ndata: b\n\n\r\n" END);
	}
	assert_true(records[1].first_body_ns > records[1].start_ns);
	assert_int_equal(records[1].max_gap_ns, records[0].max_gap_ns);
	assert_int_equal(records[1].events, 2);
	assert_int_equal(histograms[EXCHANGE_TTFT].count, 2);
	assert_int_equal(histograms[EXCHANGE_GAP].count, 2);
}

static void failures_are_in_no_histogram(void **state)
{
	(void)state;
	begin();
	ask(GEN "\r\n");
	answer("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n");
	answer("1\r\nx\r\n1\r\ny\r\n" END);
	assert_int_equal(counters.failed[ENDPOINT_GENERATION], 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(histograms[i].count, 0);
}

/* The kernel took less than was offered; the rest is offered again. */
static void only_accepted_bytes_count(void **state)
{
	static char text[] = JSON "Content-Length: 4\r\n\r\nabcd";
	struct iovec v = { text, sizeof(text) - 1 };
	struct reader r = { .iov = (uintptr_t)&v, .iovs = 1 };

	(void)state;
	begin();
	ask(GEN "\r\n");
	r.rest = (__u32)v.iov_len - 2;
	conn_sent(&connection, &r, ++harness_ns);
	assert_int_equal(harness_in_flight(), 1);
	answer("cd");
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(records[0].body_bytes, 4);
}

static void json_has_no_first_token(void **state)
{
	(void)state;
	begin();
	ask(GEN "\r\n");
	answer(JSON "Content-Length: 2\r\n\r\n{}");
	assert_int_equal(histograms[EXCHANGE_TTFT].count, 0);
	assert_int_equal(histograms[EXCHANGE_DURATION].count, 1);
	assert_int_not_equal(records[0].first_body_ns, 0);
}

static void aborts_have_an_author(void **state)
{
	static const struct {
		enum conn_event first, then;
		int error;
		unsigned how;
	} cases[] = {
		{ CONN_CLIENT_CLOSED, CONN_SERVER_CLOSED, 0, ENDED_BY_CLIENT },
		{ CONN_CLIENT_CLOSED, CONN_GONE, 32, ENDED_BY_CLIENT },
		{ CONN_GONE, CONN_GONE, 104, ENDED_BY_CLIENT },
		{ CONN_GONE, CONN_GONE, 110, ENDED_BY_CLIENT },
		{ CONN_GONE, CONN_GONE, 0, ENDED_BY_SERVER },
		{ CONN_SERVER_CLOSED, CONN_GONE, 0, ENDED_BY_SERVER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		ask(GEN "\r\n" GEN "\r\n");
		answer(SSE "9\r\ndata: a\n\n\r\n");
		conn_event(&connection, cases[i].first, cases[i].error, 5);
		conn_event(&connection, cases[i].then, cases[i].error, 5);
		assert_int_equal(harness_in_flight(), 0);
		assert_int_equal(n_records, 2);
		assert_int_equal(records[0].how, cases[i].how);
		assert_int_equal(records[0].events, 1);
		assert_int_equal(records[1].how, cases[i].how);
		assert_int_equal(records[1].events, 0);
		assert_true(harness_balanced());
	}
}

static void half_closed_client_is_still_answered(void **state)
{
	(void)state;
	begin();
	ask(GEN "\r\n");
	conn_event(&connection, CONN_CLIENT_CLOSED, 0, 5);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer(JSON "Content-Length: 2\r\n\r\n{}");
	conn_event(&connection, CONN_SERVER_CLOSED, 0, 6);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_sum(counters.client_aborted), 0);
}

static void request_read_after_a_reset_is_aborted(void **state)
{
	(void)state;
	begin();
	conn_event(&connection, CONN_GONE, 104, 5);
	ask(GEN "\r\n");
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_in_flight(), 0);
}

static void closed_server_takes_no_request(void **state)
{
	(void)state;
	begin();
	conn_event(&connection, CONN_SERVER_CLOSED, 0, 5);
	ask(GEN "\r\n");
	assert_int_equal(harness_sum(counters.started), 0);
	assert_int_equal(harness_in_flight(), 0);
}

static void response_may_come_before_the_request_body(void **state)
{
	(void)state;
	begin();
	ask(GEN "Content-Length: 3\r\n\r\n{");
	answer("HTTP/1.1 413 Too Large\r\nContent-Length: 1\r\n\r\n!");
	assert_int_equal(counters.failed[ENDPOINT_GENERATION], 1);
	ask(" }" GEN "\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer(JSON "Content-Length: 2\r\n\r\n{}");
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 2);
	assert_int_equal(counters.desyncs, 0);
}

static void deep_pipeline_is_counted_and_survives(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 11; i++)
		ask(GEN "\r\n");
	assert_int_equal(harness_in_flight(), EXCHANGE_SLOTS);
	assert_int_equal(counters.desyncs, 3);
	for (int i = 0; i < 11; i++)
		answer(JSON "Content-Length: 2\r\n\r\n{}");
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 8);
	ask(GEN "\r\n");
	answer(SSE "9\r\ndata: a\n\n\r\n" END);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 9);
	assert_int_equal(counters.events[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.desyncs, 3);
}

/* The connection was there before the tracker. */
static void begin_in_the_middle(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
}

static void live_stream_is_recognised_at_its_next_write(void **state)
{
	static const char *const writes[] = {
		"9\r\ndata: a\n\n\r\n",
		"9\r\n",
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin_in_the_middle();
		answer("the rest of something\r\n");
		assert_int_equal(harness_in_flight(), 0);
		answer(writes[i]);
		if (i)
			answer("data: a\n\n\r\n");
		assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
		answer("9\r\ndata: b\n\n\r\n");
		answer(DONE END);
		assert_int_equal(harness_in_flight(), 0);
		assert_int_equal(counters.events[ENDPOINT_GENERATION], 2);
		assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
		assert_int_equal(records[0].start_ns, 0);
		assert_int_equal(histograms[EXCHANGE_TTFT].count, 0);
		assert_int_equal(histograms[EXCHANGE_DURATION].count, 0);
		ask(GEN "\r\n");
		answer(SSE "9\r\ndata: a\n\n\r\n" END);
		assert_int_equal(counters.completed[ENDPOINT_GENERATION], 2);
		assert_true(harness_balanced());
	}
}

static void hex_that_is_no_stream_is_not_adopted(void **state)
{
	(void)state;
	begin_in_the_middle();
	answer("a\r\nxyz");
	answer("beef\r\n");
	answer("0\r\n\r\n");
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(harness_sum(counters.started), 0);
}

static void idle_connection_recovers_at_its_next_request(void **state)
{
	(void)state;
	begin_in_the_middle();
	ask("the rest of a body");
	ask(GEN "\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer(SSE);
	answer("9\r\ndata: a\n\n\r\n");
	answer(END);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_in_flight(), 0);
}

static void adopted_stream_leaves_with_its_connection(void **state)
{
	(void)state;
	begin_in_the_middle();
	answer("9\r\ndata: a\n\n\r\n");
	conn_event(&connection, CONN_GONE, 104, 5);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	assert_true(harness_balanced());
}

static void lost_framing_is_found_again(void **state)
{
	(void)state;
	begin();
	ask(GEN "\r\n");
	answer(SSE "9\r\ndata: a\n\n\r\nzz\r\n");
	assert_int_equal(counters.desyncs, 1);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	answer("9\r\ndata: b\n\n\r\n");
	assert_int_equal(counters.resyncs, 1);
	answer(END);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.events[ENDPOINT_GENERATION], 2);
	assert_true(harness_balanced());
}

static void unseen_responses_end_with_the_next_request(void **state)
{
	(void)state;
	begin();
	ask(GEN "\r\n");
	answer(SSE "zz\r\n");
	for (int i = 0; i < 20; i++)
		ask(GEN "\r\n");
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	answer(SSE "9\r\ndata: a\n\n\r\n");
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	answer(END);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 21);
	assert_true(harness_balanced());
}

static void foreign_protocols_are_left_alone(void **state)
{
	static const char *const bytes[] = {
		"\x16\x02\x01\x02\x01\x01\r\n",
		"GET\r\n",
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		ask(bytes[i]);
		assert_int_equal(counters.desyncs, 1);
		ask("\x01\x02\x03\x04");
		answer("\x17\x03\x03\x04\r\n");
		assert_int_equal(harness_sum(counters.started), 0);
		assert_true(harness_balanced());
	}
}

static void status_line_needs_a_status(void **state)
{
	static const char *const lines[] = { "HTTP/1.1 \r\n", "HTTP/1.1 20\r\n",
					     "HTTP/1.1 2000\r\n",
					     "http/1.1 200\r\n" };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		begin();
		ask(GEN "\r\n");
		answer(lines[i]);
		assert_int_equal(counters.desyncs, 1);
	}
}

static void websocket_ends_the_request(void **state)
{
	(void)state;
	begin();
	ask("GET /v1/realtime HTTP/1.1\r\nUpgrade: websocket\r\n\r\n");
	answer("HTTP/1.1 101 Switching Protocols\r\n\r\n");
	ask("\x81\x05hello");
	answer("\x81\x05hello");
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(harness_in_flight(), 0);
}

/* Bytes that cannot be seen are no matter inside a body. */
static void unreadable_bytes_of_a_body_are_skipped(void **state)
{
	struct reader r = { .piece = 1000, .opaque = 1 };

	(void)state;
	begin();
	ask("GET /file HTTP/1.1\r\n\r\n");
	answer("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
	conn_sent(&connection, &r, ++harness_ns);
	assert_int_equal(counters.completed[ENDPOINT_OTHER], 1);
	assert_int_equal(counters.desyncs, 0);
	r = (struct reader){ .piece = 10, .opaque = 1 };
	conn_received(&connection, &r, ++harness_ns);
	assert_int_equal(counters.desyncs, 1);
}

static void too_many_pieces_are_a_counted_loss(void **state)
{
	static char chunks[7 * 2 * EXCHANGE_STEPS];

	(void)state;
	begin();
	for (size_t i = 0; i < sizeof(chunks); i += 7)
		memcpy(chunks + i, "2\r\nxy\r\n", 7);
	ask(GEN "\r\n");
	answer(JSON "Transfer-Encoding: chunked\r\n\r\n");
	harness_bytes(&connection, true, chunks, sizeof(chunks));
	assert_int_equal(counters.desyncs, 1);
	assert_int_equal(harness_in_flight(), 1);
	conn_event(&connection, CONN_GONE, 0, 5);
	assert_int_equal(harness_in_flight(), 0);
}

static void unknown_paths_are_reported(void **state)
{
	(void)state;
	begin();
	ask("GET /v1/models HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\n");
	assert_int_equal(n_paths, 1);
	answer(JSON "Content-Length: 0\r\n\r\n" SSE END);
	assert_int_equal(learnt, endpoints_hash("/x", 2));
}

static void lost_records_are_counted(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < HARNESS_RECORDS + 3; i++) {
		ask(GEN "\r\n");
		answer(JSON "Content-Length: 0\r\n\r\n");
	}
	assert_int_equal(counters.records_lost, 3);
}

/* ---- guesses and forgotten requests -------------------------------------- */

/* A connection that is older than we, and is thought to have a request. */
static void begin_guess(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	slot_move(&connection.adopted, SLOT_FREE,
		  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
	assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_sum(counters.started), 0);
}

static void guess_is_proved_by_its_answer(void **state)
{
	const char *const answers[] = { JSON "Content-Length: 2\r\n\r\n{}",
					SSE "9\r\ndata: a\n\n\r\n" END,
					"9\r\ndata: a\n\n\r\n" END };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin_guess();
		answer(answers[i]);
		assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 0);
		assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
		assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
		assert_int_equal(harness_in_flight(), 0);
		assert_true(harness_balanced());
	}
}

static void guess_is_dropped_by_the_next_request(void **state)
{
	(void)state;
	begin_guess();
	ask(GEN "\r\n");
	assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 0);
	assert_int_equal(harness_in_flight(), 1);
	answer(JSON "Content-Length: 2\r\n\r\n{}");
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_in_flight(), 0);
}

static void guess_leaves_with_its_connection_uncounted(void **state)
{
	(void)state;
	begin_guess();
	conn_event(&connection, CONN_GONE, 104, 5);
	assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 0);
	assert_int_equal(harness_sum(counters.client_aborted), 0);
	assert_int_equal(n_records, 0);
}

static void request_forgotten_by_the_server_is_aborted(void **state)
{
	const uint64_t left_ns = 1000000000;

	(void)state;
	begin();
	ask(GEN "\r\n");
	conn_sweep(&connection, left_ns + 10 * EXCHANGE_LEFT_NS);
	assert_int_equal(harness_in_flight(), 1); /* its client waits */
	conn_event(&connection, CONN_CLIENT_CLOSED, 0, left_ns);
	conn_sweep(&connection, left_ns + EXCHANGE_LEFT_NS);
	assert_int_equal(harness_in_flight(), 1);
	conn_sweep(&connection, left_ns + EXCHANGE_LEFT_NS + 1);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	conn_event(&connection, CONN_SERVER_CLOSED, 0, 5 * left_ns);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
}

static void half_closed_stream_is_not_forgotten_while_it_is_sent(void **state)
{
	uint64_t event_ns;

	(void)state;
	begin();
	ask(GEN "\r\n");
	conn_event(&connection, CONN_CLIENT_CLOSED, 0, 1);
	answer(SSE "9\r\ndata: a\n\n\r\n");
	event_ns = harness_ns;
	conn_sweep(&connection, event_ns + EXCHANGE_LEFT_NS);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	conn_sweep(&connection, event_ns + EXCHANGE_LEFT_NS + 1);
	assert_int_equal(harness_in_flight(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gauges_follow_a_stream),
		cmocka_unit_test(times_are_of_the_calls),
		cmocka_unit_test(next_response_starts_from_nothing),
		cmocka_unit_test(failures_are_in_no_histogram),
		cmocka_unit_test(only_accepted_bytes_count),
		cmocka_unit_test(json_has_no_first_token),
		cmocka_unit_test(aborts_have_an_author),
		cmocka_unit_test(half_closed_client_is_still_answered),
		cmocka_unit_test(request_read_after_a_reset_is_aborted),
		cmocka_unit_test(closed_server_takes_no_request),
		cmocka_unit_test(response_may_come_before_the_request_body),
		cmocka_unit_test(deep_pipeline_is_counted_and_survives),
		cmocka_unit_test(live_stream_is_recognised_at_its_next_write),
		cmocka_unit_test(hex_that_is_no_stream_is_not_adopted),
		cmocka_unit_test(idle_connection_recovers_at_its_next_request),
		cmocka_unit_test(adopted_stream_leaves_with_its_connection),
		cmocka_unit_test(lost_framing_is_found_again),
		cmocka_unit_test(unseen_responses_end_with_the_next_request),
		cmocka_unit_test(foreign_protocols_are_left_alone),
		cmocka_unit_test(status_line_needs_a_status),
		cmocka_unit_test(websocket_ends_the_request),
		cmocka_unit_test(unreadable_bytes_of_a_body_are_skipped),
		cmocka_unit_test(too_many_pieces_are_a_counted_loss),
		cmocka_unit_test(unknown_paths_are_reported),
		cmocka_unit_test(lost_records_are_counted),
		cmocka_unit_test(guess_is_proved_by_its_answer),
		cmocka_unit_test(guess_is_dropped_by_the_next_request),
		cmocka_unit_test(guess_leaves_with_its_connection_uncounted),
		cmocka_unit_test(request_forgotten_by_the_server_is_aborted),
		cmocka_unit_test(
			half_closed_stream_is_not_forgotten_while_it_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
