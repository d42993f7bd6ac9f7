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
	{ "of two codings the last counts", GEN "\r\n",
	  JSON "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split),
		cmocka_unit_test(byte_by_byte),
		cmocka_unit_test(random_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
