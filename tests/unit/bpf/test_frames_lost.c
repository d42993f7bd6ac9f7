/*
 * HTTP/2 that is hostile, that was lost, or that nobody saw begin: the account
 * must come right again, and nothing may be left of it.
 */
#include "tests/unit/bpf/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/bpf/frames_wire.h"

#define GEN "/v1/chat/completions"

static struct conn connection;
static struct wire ask, answer;

static void move(bool sent)
{
	struct wire *w = sent ? &answer : &ask;

	harness_bytes(&connection, sent, w->b, w->n);
	w->n = 0;
}

static void begin(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	ask.n = 0;
	answer.n = 0;
	conn_fresh(&connection);
	wire_preface(&ask);
	wire_settings(&answer);
	move(false);
	move(true);
}

static void request(uint32_t id)
{
	wire_request(&ask, id, FLAG_END_STREAM, GEN);
	move(false);
}

static void end(enum conn_event how)
{
	conn_event(&connection, how, 0, harness_ns);
	assert_int_equal(harness_in_flight(), 0);
	assert_true(harness_balanced());
}

/* A frame that no peer may send: one desync, and found again at the next. */
static void expect_recovery(void)
{
	move(false);
	assert_int_equal(counters.desyncs, 1);
	request(3);
	assert_int_equal(counters.resyncs, 1);
	assert_int_equal(harness_in_flight(), 1);
	wire_response(&answer, 3, FLAG_END_STREAM, "text/plain");
	move(true);
	end(CONN_SERVER_CLOSED);
	assert_int_equal(counters.server_aborted[ENDPOINT_GENERATION], 0);
}

static void more_padding_than_frame(void **state)
{
	(void)state;
	begin();
	wire_frame(&ask, FRAME_HEADERS, FLAG_PADDED | FLAG_END_HEADERS, 1,
		   "\4\x83\0\0", 4);
	expect_recovery();
}

static void priority_that_does_not_fit(void **state)
{
	(void)state;
	begin();
	wire_frame(&ask, FRAME_HEADERS, FLAG_PRIORITY | FLAG_END_HEADERS, 1,
		   "\0\0\0\0", 4);
	expect_recovery();
}

static void field_index_without_end(void **state)
{
	(void)state;
	begin();
	wire_frame(&ask, FRAME_HEADERS, FLAG_END_HEADERS, 1,
		   "\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
	expect_recovery();
}

static void string_longer_than_its_block(void **state)
{
	(void)state;
	begin();
	wire_frame(&ask, FRAME_HEADERS, FLAG_END_HEADERS, 1, "\x44\x7e/v1", 5);
	expect_recovery();
}

static void block_without_end(void **state)
{
	(void)state;
	begin();
	wire_frame(&ask, FRAME_HEADERS, 0, 1, "\x83", 1);
	for (unsigned i = 0; i < 1500; i++)
		wire_frame(&ask, FRAME_CONTINUATION, 0, 1, "\x83", 1);
	move(false); /* too many frames for one call are a loss, too */
	assert_int_equal(counters.desyncs, 1);
	assert_int_equal(harness_in_flight(), 0);
	end(CONN_GONE);
}

static void bytes_that_cannot_be_found(void **state)
{
	struct reader r = { .rest = 100 }; /* but no piece */

	(void)state;
	begin();
	conn_received(&connection, &r, ++harness_ns);
	expect_recovery();
}

/* 1 and 257 have the same place in the table. */
static void stream_reset_in_the_middle_of_its_answer(void **state)
{
	(void)state;
	begin();
	request(1);
	wire_response(&answer, 1, FLAG_END_STREAM, "text/plain");
	answer.n--;
	harness_bytes(&connection, true, answer.b, answer.n);
	wire_reset(&ask, 1);
	request(257);
	harness_bytes(&connection, true, answer.b + answer.n, 1);
	answer.n = 0;
	assert_int_equal(harness_in_flight(), 1);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 0);
	wire_response(&answer, 257, FLAG_END_STREAM, "text/plain");
	move(true);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	end(CONN_GONE);
}

static void more_streams_than_room(void **state)
{
	(void)state;
	begin();
	for (uint32_t i = 0; i < STREAMS_MAX + 2; i++)
		request(2 * i + 1);
	assert_int_equal(harness_in_flight(), STREAMS_MAX);
	assert_int_equal(counters.desyncs, 2);
	for (uint32_t i = 0; i < STREAMS_MAX + 2; i++)
		wire_reset(&ask, 2 * i + 1);
	move(false);
	assert_int_equal(harness_in_flight(), 0);
	request(0x7fffffff);
	assert_int_equal(harness_in_flight(), 1);
	end(CONN_GONE);
}

static void request_read_after_the_end(void **state)
{
	(void)state;
	begin();
	conn_event(&connection, CONN_GONE, 1, harness_ns);
	request(1);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	end(CONN_GONE);
}

/* Two calls that each are a frame tell the protocol; streams are those that
 * the server goes on with. */
static void begun_before_us(void **state)
{
	(void)state;
	begin();
	memset(&connection, 0, sizeof(connection));
	harness_reset();
	for (unsigned i = 0; i < 2; i++) {
		wire_data(&answer, 7, 0, "data: a\n\n");
		move(true);
	}
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	wire_data(&ask, 7, FLAG_END_STREAM, "");
	move(false);
	wire_data(&answer, 7, FLAG_END_STREAM, "");
	move(true);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	end(CONN_GONE);
}

/* The receiver comes to know the protocol while the sender does: one table. */
static void both_directions_make_one_table(void **state)
{
	struct h2 *h;

	(void)state;
	begin();
	request(1);
	h = h2_find(&connection);
	connection.out.state = HTTP_UNKNOWN; /* as it saw it */
	assert_ptr_equal(frames_make(&connection), h);
	assert_int_equal(harness_in_flight(), 1);
	end(CONN_GONE);
}

static void no_room_for_another(void **state)
{
	(void)state;
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
	harness_no_room = true;
	wire_preface(&ask);
	request(1);
	assert_int_equal(counters.overflows, 1);
	assert_int_equal(harness_in_flight(), 0);
	end(CONN_GONE);
}

/* ---- TLS ----------------------------------------------------------------- */

static void hello(void)
{
	harness_bytes(&connection, false, "\x16\3\1\0\1\1", 6);
}

static void hello_read_after_the_end(void **state)
{
	(void)state;
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
	conn_event(&connection, CONN_GONE, 1, harness_ns);
	hello();
	assert_int_equal(counters.tls_connections, 1);
	assert_int_equal(gauges.tls_unpaired, 0);
}

static void old_hello_read_after_the_end(void **state)
{
	(void)state;
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	slot_move(&connection.adopted, SLOT_FREE,
		  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
	connection.closed = 1 + ENDED_BY_CLIENT; /* right now */
	hello();
	assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 0);
	assert_int_equal(gauges.inferred_waiting, 0);
	assert_int_equal(gauges.tls_unpaired, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_padding_than_frame),
		cmocka_unit_test(priority_that_does_not_fit),
		cmocka_unit_test(field_index_without_end),
		cmocka_unit_test(string_longer_than_its_block),
		cmocka_unit_test(block_without_end),
		cmocka_unit_test(bytes_that_cannot_be_found),
		cmocka_unit_test(stream_reset_in_the_middle_of_its_answer),
		cmocka_unit_test(more_streams_than_room),
		cmocka_unit_test(request_read_after_the_end),
		cmocka_unit_test(begun_before_us),
		cmocka_unit_test(both_directions_make_one_table),
		cmocka_unit_test(no_room_for_another),
		cmocka_unit_test(hello_read_after_the_end),
		cmocka_unit_test(old_hello_read_after_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
