/*
 * Events of event streams, and when a chunk is read to its end.
 */
#include "tests/unit/bpf/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define GEN "POST /v1/chat/completions HTTP/1.1\r\n"
#define SSE                                                  \
	"HTTP/1.1 200 OK\r\ndate: x\r\n"                     \
	"content-type: text/event-stream; charset=utf-8\r\n" \
	"Transfer-Encoding: chunked\r\n\r\n"
#define TEN "a\r\ndata: ab\n\n\r\n" /* an event of ten bytes */

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

/* What a whole chunk in one call leaves, and the same in two calls. */
static void chunk_in_one_call_is_chunk_in_two(void **state)
{
	static const char *const chunks[] = {
		"11\r\ndata: {\"a\":\"b\"}\n\n\r\n",
		"0011\r\ndata: {\"a\":\"b\"}\n\n\r\n",
		"00011\r\ndata: {\"a\":\"b\"}\n\n\r\n",
		"1B\r\nevent: x\ndata: 0123456789\n\n\r\n",
		"1b;x=y\r\nevent: x\ndata: 0123456789\n\n\r\n",
		"11\ndata: {\"a\":\"b\"}\n\n\r\n",
		"15\r\n: keep-alive, a ping\n\r\n",
		"11\r\ndata: [DONE]     \r\n",
		"11\r\ndata: [DONT]     \r\n",
		"b\r\ndata: [DONE\r\n",
		"5\r\ndata:\r\n6\r\ndata: \r\n",
		"9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n",
		"14\r\ndata: {\"a\":\"b\"}\n\n\r\n\n\r\n",
		"11\r\ndata: {\"a\":\"b\"}\n\n\r\n0\r\n",
		"12\r\ndata: {\"a\":\"b\"}\n",
		"0\r\nX-Trailer: abcd\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		size_t n = strlen(chunks[i]);
		struct conn whole = { 0 };
		uint64_t events = 0;

		for (size_t cut = n; cut; cut--) {
			begin();
			ask(GEN "\r\n");
			answer(SSE "9\r\ndata: a\n\n\r\n");
			harness_bytes(&connection, true, chunks[i], cut);
			harness_bytes(&connection, true, chunks[i] + cut,
				      n - cut);
			if (cut == n) {
				whole = connection;
				events = counters.events[ENDPOINT_GENERATION];
			}
			assert_memory_equal(&connection.out, &whole.out,
					    sizeof(whole.out));
			assert_int_equal(connection.answer.events,
					 whole.answer.events);
			assert_int_equal(connection.answer.body_bytes,
					 whole.answer.body_bytes);
			assert_int_equal(counters.events[ENDPOINT_GENERATION],
					 events);
		}
	}
}

static uint64_t events_after(const char *chunks)
{
	begin();
	ask(GEN "\r\n");
	answer(SSE TEN);
	answer(chunks);
	return counters.events[ENDPOINT_GENERATION] - 1;
}

/* 12 bytes are a quarter more than the 10 that an event has. */
static void a_quarter_longer_is_read_to_its_end(void **state)
{
	(void)state;
	assert_int_equal(events_after("b\r\ndata:\n\nev\n\n\r\n"), 1);
	assert_int_equal(events_after("c\r\ndata:\n\nev:\n\n\r\n"), 2);
}

static void first_chunk_of_an_answer_is_read_to_its_end(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 2; i++) {
		ask(GEN "\r\n");
		answer(SSE "b\r\ndata:\n\nev\n\n\r\n0\r\n\r\n");
	}
	assert_int_equal(counters.events[ENDPOINT_GENERATION], 4);
}

/* A chunk that does not begin as an event does: all are read from then on. */
static void uneven_chunks_are_read_to_their_end(void **state)
{
	(void)state;
	assert_int_equal(events_after("a\r\ndata: abcd\r\n4\r\nef\n\n\r\n"
				      "b\r\ndata:\n\nev\n\n\r\n"),
			 3);
}

/* Only so much of a chunk is read; what follows it is in step. */
static void reading_of_a_chunk_is_bounded(void **state)
{
	static char text[3 * SSE_READ_MAX];
	size_t n;

	(void)state;
	n = (size_t)sprintf(text, "%x\r\n", 2 * SSE_READ_MAX + 2);
	memset(text + n, 'x', 2 * SSE_READ_MAX);
	memcpy(text + n, "data: ", 6);
	strcpy(text + n + 2 * SSE_READ_MAX, "\n\n\r\n" TEN);
	assert_int_equal(events_after(text), 2);
	assert_int_equal(counters.desyncs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunk_in_one_call_is_chunk_in_two),
		cmocka_unit_test(a_quarter_longer_is_read_to_its_end),
		cmocka_unit_test(first_chunk_of_an_answer_is_read_to_its_end),
		cmocka_unit_test(uneven_chunks_are_read_to_their_end),
		cmocka_unit_test(reading_of_a_chunk_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
