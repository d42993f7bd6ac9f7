/*
 * Streams of an HTTP/2 connection: their ends, their bounds, and what happens
 * when frames are lost or were never known.
 */
#include "tests/unit/bpf/harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/bpf/frames_cases.h"

static struct conn connection;
static struct wire w;

static void hear(bool sent)
{
	harness_bytes(&connection, sent, w.b, w.n);
	w.n = 0;
}

static void begin(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
	memset(&w, 0, sizeof(w));
	wire_preface(&w);
	hear(false);
	wire_settings(&w);
	hear(true);
}

/* The connection was there before the tracker. */
static void begin_in_the_middle(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	memset(&w, 0, sizeof(w));
}

static void ask(uint32_t id)
{
	wire_request(&w, id, FLAG_END_STREAM, PATH_GEN);
	hear(false);
}

static void event(uint32_t id, unsigned flags)
{
	wire_data(&w, id, flags, "data: a\n\n");
	hear(true);
}

static void begin_stream(uint32_t id)
{
	ask(id);
	wire_response(&w, id, 0, SSE_TYPE);
	hear(true);
	event(id, 0);
}

static void gauges_follow_a_stream(void **state)
{
	(void)state;
	begin();
	ask(1);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	wire_response(&w, 1, 0, SSE_TYPE);
	wire_data(&w, 1, 0, ": ping\n\n");
	hear(true);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	event(1, 0);
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	assert_int_equal(h2_oldest(&connection),
			 harness_h2.streams[0].slot.start_ns);
	event(1, FLAG_END_STREAM);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(h2_oldest(&connection), 0);
	assert_int_equal(records[0].events, 2);
	assert_int_equal(records[0].status, 200);
	assert_int_equal(histograms[EXCHANGE_TTFT].count, 1);
	assert_int_equal(histograms[EXCHANGE_TTFT].sum_ns, 2000);
	assert_int_equal(histograms[EXCHANGE_GAP].count, 1);
	assert_int_equal(histograms[EXCHANGE_DURATION].count, 1);
}

static void server_may_speak_first(void **state)
{
	(void)state;
	for (size_t cut = 1; cut < 20; cut++) {
		harness_reset();
		memset(&connection, 0, sizeof(connection));
		conn_fresh(&connection);
		wire_settings(&w);
		harness_bytes(&connection, true, w.b, cut < w.n ? cut : w.n);
		if (cut < w.n)
			harness_bytes(&connection, true, w.b + cut, w.n - cut);
		w.n = 0;
		wire_preface(&w);
		hear(false);
		begin_stream(1);
		event(1, FLAG_END_STREAM);
		assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
		assert_int_equal(counters.events[ENDPOINT_GENERATION], 2);
		assert_int_equal(counters.desyncs, 0);
	}
}

static void ends_have_an_author(void **state)
{
	static const struct {
		enum conn_event first, then;
		int error;
		unsigned how;
	} cases[] = {
		{ CONN_CLIENT_CLOSED, CONN_SERVER_CLOSED, 0, ENDED_BY_CLIENT },
		{ CONN_GONE, CONN_GONE, 104, ENDED_BY_CLIENT },
		{ CONN_SERVER_CLOSED, CONN_GONE, 0, ENDED_BY_SERVER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		begin_stream(1);
		ask(3);
		conn_event(&connection, cases[i].first, cases[i].error, 5);
		conn_event(&connection, cases[i].then, cases[i].error, 5);
		assert_int_equal(harness_in_flight(), 0);
		assert_int_equal(n_records, 2);
		assert_int_equal(records[0].how, cases[i].how);
		assert_int_equal(records[1].how, cases[i].how);
		assert_true(harness_balanced());
	}
}

static void request_read_after_a_reset_is_aborted(void **state)
{
	(void)state;
	begin();
	conn_event(&connection, CONN_GONE, 104, 5);
	ask(1);
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_in_flight(), 0);
}

static void streams_beyond_the_table_are_told_and_leave_nothing(void **state)
{
	const uint32_t more = 5;

	(void)state;
	begin();
	for (uint32_t i = 0; i < STREAMS_MAX + more; i++)
		ask(2 * i + 1);
	assert_int_equal(harness_in_flight(), STREAMS_MAX);
	assert_int_equal(counters.desyncs, more);
	for (uint32_t i = 0; i < STREAMS_MAX + more; i++) {
		wire_response(&w, 2 * i + 1, 0, SSE_TYPE);
		hear(true);
		event(2 * i + 1, FLAG_END_STREAM);
	}
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], STREAMS_MAX);
	begin_stream(2 * (STREAMS_MAX + more) + 1);
	assert_int_equal(harness_in_flight(), 1);
	assert_int_equal(counters.desyncs, more);
}

/* A stream that outlives many others keeps its place. */
static void long_stream_among_many_short_ones(void **state)
{
	(void)state;
	begin();
	begin_stream(1);
	for (uint32_t id = 3; id < 2000; id += 2) {
		begin_stream(id);
		event(id, FLAG_END_STREAM);
		event(1, 0);
	}
	event(1, FLAG_END_STREAM);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1000);
	assert_int_equal(counters.events[ENDPOINT_GENERATION], 2 * 999 + 1001);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(harness_in_flight(), 0);
}

static void without_room_the_connection_is_left_alone(void **state)
{
	(void)state;
	harness_reset();
	harness_no_room = true;
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
	wire_preface(&w);
	wire_request(&w, 1, FLAG_END_STREAM, PATH_GEN);
	hear(false);
	wire_settings(&w);
	hear(true);
	assert_int_equal(counters.overflows, 1);
	assert_int_equal(harness_sum(counters.started), 0);
	assert_int_equal(counters.desyncs, 0);
}

/* ---- in the middle, and out of step -------------------------------------- */

/* Both sides open a stream, and each begins where the other has not ended. */
static void both_sides_open_streams_at_once(void **state)
{
	const __u32 id = 1 + 2 * STREAMS_MAX; /* the place of 1, too */
	int at;

	(void)state;
	begin();
	harness_h2.adopts = 1;
	at = stream_take(&harness_h2, 1);
	assert_int_equal(at, 0);
	assert_int_equal(stream_find(&harness_h2, 0), STREAMS_MAX);
	event(id, 0);
	assert_int_equal(stream_find(&harness_h2, id), 1);
	assert_int_equal(harness_in_flight(), 1);
	assert_int_equal(harness_h2.streams[0].slot.state, SLOT_TAKEN);
	streams_end(&connection, &harness_h2, 0, ENDED_COMPLETED, 1);
	assert_int_equal(harness_h2.streams[0].slot.state, SLOT_TAKEN);
	assert_int_equal(harness_in_flight(), 0);
}

static void older_connection_is_known_by_its_frames(void **state)
{
	(void)state;
	begin_in_the_middle();
	event(7, 0);
	assert_int_equal(harness_in_flight(), 0);
	event(7, 0); /* the second call that is one frame */
	assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
	assert_int_equal(counters.resyncs, 1);
	ask(9);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	event(7, FLAG_END_STREAM);
	assert_int_equal(counters.completed[ENDPOINT_GENERATION], 1);
	assert_int_equal(records[0].start_ns, 0);
	assert_int_equal(records[0].events, 2);
	wire_data(&w, 11, 0, "{\"no\": \"event\"}");
	hear(true);
	assert_int_equal(gauges.streaming[ENDPOINT_OTHER], 1);
	conn_event(&connection, CONN_GONE, 0, 5);
	assert_int_equal(harness_in_flight(), 0);
	assert_true(harness_balanced());
}

static void table_of_older_fields_is_not_guessed_at(void **state)
{
	(void)state;
	begin_in_the_middle();
	for (int i = 0; i < 2; i++) {
		wire_frame(&w, FRAME_PING, 0, 0, "12345678", 8);
		hear(false);
	}
	wire_open(&w, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 9);
	wire_indexed(&w, 3);
	wire_indexed(&w, WIRE_FIRST);
	wire_close(&w);
	hear(false);
	assert_int_equal(gauges.waiting[ENDPOINT_OTHER], 1);
	assert_int_equal(n_paths, 0);
	ask(11); /* inserts its path */
	wire_open(&w, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 13);
	wire_indexed(&w, WIRE_FIRST);
	wire_close(&w);
	hear(false);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 2);
}

static void stream_reset_by_the_client_is_not_taken_up_again(void **state)
{
	(void)state;
	begin_in_the_middle();
	event(7, 0);
	event(7, 0);
	wire_reset(&w, 7);
	hear(false);
	event(7, FLAG_END_STREAM);
	assert_int_equal(counters.client_aborted[ENDPOINT_GENERATION], 1);
	assert_int_equal(harness_in_flight(), 0);
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 1);
}

static void what_is_no_frame_is_not_taken_for_one(void **state)
{
	static const char *const calls[] = {
		"\x17\x03\x03\x01\x00ciphertext",
		"\x81\x05hello, hello",
		"{\"a\": \"b\"}",
		"\0\0\x08\x06\0\0\0\0\1bad ping",
	};

	(void)state;
	begin_in_the_middle();
	for (unsigned i = 0; i < 40; i++)
		harness_bytes(&connection, i & 1, calls[i / 2 % 4], 11);
	assert_int_equal(connection.out.state == HTTP_FRAMES, 0);
	assert_int_equal(connection.in.state == HTTP_FRAMES, 0);
	assert_int_equal(harness_sum(counters.started), 0);
}

/* Bytes that nobody can see, outside of what is skipped. */
static void unseen(bool sent)
{
	struct reader r = { .piece = 100, .opaque = 1 };

	if (sent)
		conn_sent(&connection, &r, ++harness_ns);
	else
		conn_received(&connection, &r, ++harness_ns);
}

static void lost_frames_are_found_again(void **state)
{
	(void)state;
	for (int sent = 0; sent < 2; sent++) {
		begin();
		begin_stream(1);
		unseen(sent);
		assert_int_equal(counters.desyncs, 1);
		wire_data(&w, 1, 0, "not at the beginning");
		harness_bytes(&connection, sent, w.b + 3, w.n - 3);
		w.n = 0;
		assert_int_equal(harness_in_flight(), 1);
		if (!sent) {
			wire_frame(&w, FRAME_PING, 0, 0, "12345678", 8);
			hear(false);
		}
		event(1, 0);
		assert_int_equal(counters.resyncs, 1);
		assert_int_equal(gauges.streaming[ENDPOINT_GENERATION], 1);
		event(1, FLAG_END_STREAM);
		assert_int_equal(harness_in_flight(), 0);
		assert_true(harness_balanced());
	}
}

static void bytes_unseen_in_what_is_skipped_are_no_matter(void **state)
{
	struct reader r = { .piece = 16000, .opaque = 1 };

	(void)state;
	begin();
	wire_request(&w, 1, 0, PATH_GEN);
	wire_open(&w, FRAME_DATA, 0, 1);
	w.b[w.frame + 1] = 16000 >> 8;
	w.b[w.frame + 2] = 16000 & 255;
	hear(false);
	conn_received(&connection, &r, ++harness_ns);
	ask(3);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(harness_in_flight(), 2);
}

static void first_frame_is_of_settings(void **state)
{
	(void)state;
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
	wire_preface(&w);
	hear(false);
	wire_text(&w, "HTTP/1.1 400 Bad Request\r\n\r\n");
	hear(true);
	assert_int_equal(counters.desyncs, 1);
	assert_int_equal(harness_sum(counters.started), 0);
}

static void header_blocks_that_are_none_are_told(void **state)
{
	static const struct {
		const char *block;
		size_t n;
	} cases[] = {
		{ "\x80", 1 },                     /* index 0 */
		{ "\xff\xff\xff\xff\xff\x7f", 6 }, /* of no table */
		{ "\x04\x7f\xff\xff\xff\xff", 6 }, /* a length without end */
		{ "\x04\x05/v1", 5 },              /* cut off */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		wire_frame(&w, FRAME_HEADERS, FLAG_END_HEADERS, 1,
			   cases[i].block, cases[i].n);
		hear(false);
		assert_int_equal(counters.desyncs, 1);
		assert_int_equal(harness_sum(counters.started), 0);
		ask(3);
		assert_int_equal(harness_in_flight(), 1);
	}
}

static void too_many_frames_are_a_counted_loss(void **state)
{
	(void)state;
	begin();
	begin_stream(1);
	for (unsigned i = 0; i < FRAMES_STEPS; i++)
		wire_data(&w, 1, 0, "data: a\n\n");
	hear(true);
	assert_int_equal(counters.desyncs, 1);
	assert_int_equal(harness_in_flight(), 1);
	event(1, FLAG_END_STREAM);
	assert_int_equal(harness_in_flight(), 0);
}

/* ---- strings ------------------------------------------------------------- */

static void unknown_coded_path_is_decoded_by_its_end(void **state)
{
	const char *const paths[] = {
		"/of/some/company/v1/completions?a=b&c=d",
		"/deployment/of/some/company/with/a/very/long/prefix/that/"
		"is/longer/than/what/is/kept/of/it/v1/completions",
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t tail[HTTP_PATH_TAIL];
		uint32_t whole, n;

		begin();
		w.coded = true;
		wire_request(&w, 1, FLAG_END_STREAM, paths[i]);
		hear(false);
		assert_int_equal(n_paths, 1);
		assert_true(path_coded);
		whole = connection.in.path_bytes;
		n = whole < HTTP_PATH_TAIL ? whole : HTTP_PATH_TAIL;
		for (uint32_t k = 0; k < n; k++)
			tail[k] = (uint8_t)
				path_tail[(whole - n + k) % HTTP_PATH_TAIL];
		assert_int_equal(endpoints_classify_coded(tail, n, n == whole),
				 ENDPOINT_GENERATION);
	}
}

static void query_of_a_plain_path_is_left_out(void **state)
{
	(void)state;
	begin();
	wire_request(&w, 1, FLAG_END_STREAM, PATH_GEN "?a=b");
	hear(false);
	assert_int_equal(gauges.waiting[ENDPOINT_GENERATION], 1);
	assert_int_equal(n_paths, 0);
}

/* RFC 7541, C.4.1 and C.6.1. */
static void code_is_that_of_the_standard(void **state)
{
	static const char text[] = "www.example.com";
	static const uint8_t expected[] = {
		0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a,
		0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff
	};
	char all[256], back[256];
	uint8_t coded[1024];
	size_t n;

	(void)state;
	assert_int_equal(huffman_encode(text, sizeof(text) - 1, coded,
					sizeof(coded), &n),
			 0);
	assert_int_equal(n, sizeof(expected));
	assert_memory_equal(coded, expected, n);
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	assert_int_equal(huffman_encode(all, 256, coded, sizeof(coded), &n), 0);
	assert_int_equal(huffman_decode(coded, n, 0, back, 256, &n), 0);
	assert_int_equal(n, 256);
	assert_memory_equal(all, back, 256);
	assert_int_equal(huffman_encode(all, 256, coded, 9, &n), -ENOSPC);
	assert_int_equal(huffman_decode(expected, 11, 0, back, 3, &n), -ENOSPC);
	assert_int_equal(
		huffman_decode((const uint8_t *)"\0", 1, 0, back, 9, &n),
		-EILSEQ);
}

static void check_hash(const char *text, size_t coded_bytes, uint64_t plain,
		       uint64_t in_code)
{
	uint8_t coded[64];
	size_t n;

	assert_true(endpoints_hash(text, strlen(text)) == plain);
	assert_int_equal(
		huffman_encode(text, strlen(text), coded, sizeof(coded), &n),
		0);
	if (coded_bytes)
		n = coded_bytes;
	assert_true(endpoints_hash((const char *)coded, n) == in_code);
}

static void hashes_are_those_of_the_names(void **state)
{
	(void)state;
	check_hash(":path", 0, HPACK_PATH_PLAIN, HPACK_PATH_CODED);
	check_hash(":status", 0, HPACK_STATUS_PLAIN, HPACK_STATUS_CODED);
	check_hash("content-length", 0, HPACK_LENGTH_PLAIN, HPACK_LENGTH_CODED);
	check_hash("content-type", 0, HPACK_TYPE_PLAIN, HPACK_TYPE_CODED);
	check_hash("grpc-status", 0, HPACK_GRPC_PLAIN, HPACK_GRPC_CODED);
	check_hash("text/event-stream", HPACK_EVENTS_CODED_BYTES,
		   HPACK_EVENTS_PLAIN, HPACK_EVENTS_CODED);
	check_hash("application/grpc", HPACK_CALLS_CODED_BYTES,
		   HPACK_CALLS_PLAIN, HPACK_CALLS_CODED);
	assert_true(endpoints_hash("/", 1) == HPACK_ROOT);
	assert_true(endpoints_hash("/index.html", 11) == HPACK_INDEX_HTML);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gauges_follow_a_stream),
		cmocka_unit_test(server_may_speak_first),
		cmocka_unit_test(ends_have_an_author),
		cmocka_unit_test(request_read_after_a_reset_is_aborted),
		cmocka_unit_test(
			streams_beyond_the_table_are_told_and_leave_nothing),
		cmocka_unit_test(long_stream_among_many_short_ones),
		cmocka_unit_test(without_room_the_connection_is_left_alone),
		cmocka_unit_test(both_sides_open_streams_at_once),
		cmocka_unit_test(older_connection_is_known_by_its_frames),
		cmocka_unit_test(table_of_older_fields_is_not_guessed_at),
		cmocka_unit_test(
			stream_reset_by_the_client_is_not_taken_up_again),
		cmocka_unit_test(what_is_no_frame_is_not_taken_for_one),
		cmocka_unit_test(lost_frames_are_found_again),
		cmocka_unit_test(bytes_unseen_in_what_is_skipped_are_no_matter),
		cmocka_unit_test(first_frame_is_of_settings),
		cmocka_unit_test(header_blocks_that_are_none_are_told),
		cmocka_unit_test(too_many_frames_are_a_counted_loss),
		cmocka_unit_test(unknown_coded_path_is_decoded_by_its_end),
		cmocka_unit_test(query_of_a_plain_path_is_left_out),
		cmocka_unit_test(code_is_that_of_the_standard),
		cmocka_unit_test(hashes_are_those_of_the_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
