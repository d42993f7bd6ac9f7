/*
 * The framing core: exchanges, cut into calls in every way, must always give
 * the same account.
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
/* A body full of what framing looks like. */
#define TRAP "\r\n0\r\n\r\nPOST / HTTP/1.1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
#define TRAP_BYTES "45"

struct exchange {
	const char *name;
	const char *request;
	const char *response;
	unsigned started[ENDPOINTS];
	unsigned completed;
	unsigned failed;
	unsigned events;
	unsigned body_bytes; /* of all responses */
	unsigned status;     /* of the last */
	bool closes;         /* the response ends when the server closes */
};

#define ONE_GENERATION .started[ENDPOINT_GENERATION] = 1, .completed = 1
#define ONE_OTHER .started[ENDPOINT_OTHER] = 1, .completed = 1

static const struct exchange exchanges[] = {
	{ "json by length", GEN "Host: x\r\ncontent-length: 2\r\n\r\n{}",
	  JSON "Content-Length: 5\r\n\r\nhello", ONE_GENERATION,
	  .body_bytes = 5, .status = 200 },
	{ "event stream: one event a chunk, end marker apart",
	  GEN "Content-Length: 0\r\n\r\n",
	  SSE "9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n" DONE END,
	  ONE_GENERATION, .events = 2, .body_bytes = 32, .status = 200 },
	{ "comments are no events", GEN "Content-Length: 0\r\n\r\n",
	  SSE "8\r\n: ping\n\n\r\n9\r\ndata: a\n\n\r\n8\r\n: ping\n\n\r\n" END,
	  ONE_GENERATION, .events = 1, .body_bytes = 25, .status = 200 },
	{ "named events; chunks that only resemble the end marker", GEN "\r\n",
	  SSE "10\r\nevent: x\ndata: y\r\n7\r\ndata: [\r\n5\r\ndata:\r\n" END,
	  ONE_GENERATION, .events = 3, .body_bytes = 28, .status = 200 },
	{ "chunk extensions and trailers, both ways",
	  GEN "Transfer-Encoding: chunked\r\n\r\n"
	      "4;a=b\r\nabcd\r\n0A ; x=\"y\"\r\n0123456789\r\n"
	      "0;last\r\nX-Sum: 1\r\nX: \r\n\r\n",
	  JSON "transfer-encoding: gzip, chunked\r\n\r\n"
	       "3;ext=1234567890123456789012345678901234567890\r\nabc\r\n"
	       "0\r\nX-Trailer: 0\r\n\r\n",
	  ONE_GENERATION, .events = 1, .body_bytes = 3, .status = 200 },
	{ "a body that looks like framing, by length",
	  GEN "Content-Length: " TRAP_BYTES "\r\n\r\n" TRAP,
	  JSON "Content-Length: " TRAP_BYTES "\r\n\r\n" TRAP, ONE_GENERATION,
	  .body_bytes = 45, .status = 200 },
	{ "a body that looks like framing, in chunks",
	  GEN "Transfer-Encoding: chunked\r\n\r\n2d\r\n" TRAP "\r\n" END,
	  JSON "Transfer-Encoding: chunked\r\n\r\n2d\r\n" TRAP "\r\n" END,
	  ONE_GENERATION, .events = 1, .body_bytes = 45, .status = 200 },
	{ "100-continue is not the response",
	  GEN "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
	  "Link: x\r\n\r\n" JSON "Content-Length: 1\r\n\r\n1",
	  ONE_GENERATION, .body_bytes = 1, .status = 200 },
	{ "HEAD has a length but no body",
	  "HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /health "
	  "HTTP/1.1\r\n\r\n",
	  JSON "Content-Length: 1234\r\n\r\n" JSON
	       "Content-Length: 2\r\n\r\n{}",
	  .started[ENDPOINT_IGNORED] = 2, .completed = 2, .body_bytes = 2,
	  .status = 200 },
	{ "204 and 304 have no body",
	  "GET /health HTTP/1.1\r\n\r\nGET /ping HTTP/1.1\r\n\r\n",
	  "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"
	  "HTTP/1.1 204 No Content\r\n\r\n",
	  .started[ENDPOINT_IGNORED] = 2, .completed = 2, .status = 204 },
	{ "three requests in a pipeline",
	  GEN "Content-Length: 2\r\n\r\n{}" GEN "Content-Length: 2\r\n\r\n{}"
	      "POST /v1/embeddings?x=/generate HTTP/1.1\r\n\r\n",
	  SSE "9\r\ndata: a\n\n\r\n" DONE END SSE DONE END JSON
	      "Content-Length: 3\r\n\r\nabc",
	  .started[ENDPOINT_GENERATION] = 2, .started[ENDPOINT_POOLING] = 1,
	  .completed = 3, .events = 1, .body_bytes = 40, .status = 200 },
	{ "body until close", "GET /nowhere HTTP/1.0\r\n\r\n",
	  "HTTP/1.0 200 OK\r\n\r\nsome\r\n\r\nbytes", ONE_OTHER,
	  .body_bytes = 13, .status = 200, .closes = true },
	{ "a coding that is not chunked lasts until close", GEN "\r\n",
	  JSON "Content-Length: 3\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"
	       "abcdef",
	  ONE_GENERATION, .body_bytes = 6, .status = 200, .closes = true },
	{ "an event stream makes any path a generation",
	  "POST /my/own/path HTTP/1.1\r\n\r\n", SSE "9\r\ndata: a\n\n\r\n" END,
	  ONE_GENERATION, .events = 1, .body_bytes = 9, .status = 200 },
	{ "errors are completed and failed", GEN "Content-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
	  ONE_GENERATION, .failed = 1, .status = 503 },
	{ "names in values and values in names",
	  GEN
	  "X-content-length: 7\r\nUser-Agent: transfer-encoding: chunked\r\n"
	  "Content-Lengthy: 9\r\nContent: 1\r\nCONTENT-LENGTH:\t 2 \r\n\r\n{}",
	  JSON "server: content-length: 9\r\nContent-length: 1\r\n\r\n.",
	  ONE_GENERATION, .body_bytes = 1, .status = 200 },
	{ "bare line feeds and empty lines between messages",
	  "\r\n\r\nPOST /generate HTTP/1.1\nContent-Length: 1\n\n.\r\n",
	  "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\n.\r\n0\n\n",
	  ONE_GENERATION, .events = 1, .body_bytes = 1, .status = 200 },
	{ "chunked and a length: chunked wins",
	  GEN "Content-Length: 999\r\nTransfer-Encoding: chunked\r\n\r\n" END,
	  JSON "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n" END,
	  ONE_GENERATION, .status = 200 },
};

static struct conn connection;

static void check(const struct exchange *x)
{
	uint64_t bytes = 0;

	if (x->closes)
		conn_event(&connection, CONN_SERVER_CLOSED, 0, ++harness_ns);
	for (unsigned e = 0; e < ENDPOINTS; e++)
		assert_int_equal(counters.started[e], x->started[e]);
	assert_int_equal(harness_sum(counters.completed), x->completed);
	assert_int_equal(harness_sum(counters.failed), x->failed);
	assert_int_equal(harness_sum(counters.events), x->events);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(n_records, x->completed);
	for (unsigned i = 0; i < n_records; i++) {
		bytes += records[i].body_bytes;
		assert_int_equal(records[i].how, 0);
	}
	assert_int_equal(bytes, x->body_bytes);
	assert_int_equal(records[n_records - 1].status, x->status);
}

static void begin(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
}

/* In two calls, cut before byte `cut`. */
static void in_two(bool sent, const char *bytes, size_t cut)
{
	harness_bytes(&connection, sent, bytes, cut);
	harness_bytes(&connection, sent, bytes + cut, strlen(bytes) - cut);
}

static void every_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++) {
		const struct exchange *x = &exchanges[i];

		print_message("# %s\n", x->name);
		for (size_t cut = 0; cut <= strlen(x->request); cut++) {
			begin();
			in_two(false, x->request, cut);
			in_two(true, x->response, 0);
			check(x);
		}
		for (size_t cut = 0; cut <= strlen(x->response); cut++) {
			begin();
			in_two(false, x->request, 0);
			in_two(true, x->response, cut);
			check(x);
		}
	}
}

static void byte_by_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++) {
		const struct exchange *x = &exchanges[i];

		begin();
		for (const char *p = x->request; *p; p++)
			harness_bytes(&connection, false, p, 1);
		for (const char *p = x->response; *p; p++)
			harness_bytes(&connection, true, p, 1);
		check(x);
	}
}

/* Random calls of random pieces, some of them empty. */
static void in_pieces(bool sent, const char *bytes, int largest)
{
	size_t left = strlen(bytes);

	while (left) {
		struct iovec v[8];
		unsigned n = 1 + (unsigned)rand() % 8;

		for (unsigned i = 0; i < n; i++) {
			size_t k = (size_t)(rand() % largest);

			v[i].iov_len = k < left ? k : left;
			v[i].iov_base = (void *)(uintptr_t)bytes;
			bytes += v[i].iov_len;
			left -= v[i].iov_len;
		}
		harness_call(&connection, sent, v, n);
	}
}

static void random_pieces(void **state)
{
	(void)state;
	srand(1);
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		for (int round = 0; round < 200; round++) {
			int largest = round % 2 ? 3 : 60;

			begin();
			in_pieces(false, exchanges[i].request, largest);
			in_pieces(true, exchanges[i].response, largest);
			check(&exchanges[i]);
		}
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
	assert_int_equal(harness_in_flight(), 1);
	answer(JSON "Content-Length: 2\r\n\r\n{}");
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 21);
	assert_true(harness_balanced());
}

static void foreign_protocols_are_left_alone(void **state)
{
	static const char *const bytes[] = {
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x16\x03\x01\x02\x01\x01",
		"GET\r\n",
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin();
		ask(bytes[i]);
		ask("\x01\x02\x03\x04");
		answer("\x17\x03\x03\x04\r\n");
		assert_int_equal(harness_sum(counters.started), 0);
		assert_true(counters.desyncs >= 1);
		assert_true(harness_balanced());
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split),
		cmocka_unit_test(byte_by_byte),
		cmocka_unit_test(random_pieces),
		cmocka_unit_test(gauges_follow_a_stream),
		cmocka_unit_test(times_are_of_the_calls),
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
		cmocka_unit_test(websocket_ends_the_request),
		cmocka_unit_test(unreadable_bytes_of_a_body_are_skipped),
		cmocka_unit_test(too_many_pieces_are_a_counted_loss),
		cmocka_unit_test(unknown_paths_are_reported),
		cmocka_unit_test(lost_records_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
