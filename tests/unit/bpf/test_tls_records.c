/*
 * What the records of TLS tell of requests, where nobody reads the text; every
 * exchange is cut at every byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/bpf/harness.h"

#define MS 1000000ull
#define HANDSHAKE 22
#define CIPHER 20
#define DATA 23

static struct conn conn;
static size_t cut; /* calls end after so many bytes of a record; 0: whole */

static void begin(bool fresh, size_t at)
{
	harness_reset();
	memset(&conn, 0, sizeof(conn));
	tls_where = TLS_NOWHERE;
	cut = at;
	if (fresh)
		conn_fresh(&conn);
}

static void record(bool sent, unsigned type, unsigned bytes)
{
	static uint8_t b[5 + 20000];
	size_t n = 5 + bytes, first = cut && cut < n ? cut : n;

	memset(b, 'x', sizeof(b));
	b[0] = (uint8_t)type;
	b[1] = 3;
	b[2] = 3;
	b[3] = (uint8_t)(bytes >> 8);
	b[4] = (uint8_t)bytes;
	harness_bytes(&conn, sent, b, first);
	if (first < n)
		harness_bytes(&conn, sent, b + first, n - first);
}

static void later(uint64_t ns)
{
	harness_ns += ns;
}

static void expect(int64_t waiting, int64_t streaming)
{
	assert_int_equal(gauges.inferred_waiting, waiting);
	assert_int_equal(gauges.inferred_streaming, streaming);
	assert_int_equal(harness_in_flight(), 0);
}

static void handshake_of_1_3(void)
{
	record(false, HANDSHAKE, 512);
	record(true, HANDSHAKE, 120);
	record(true, CIPHER, 1);
	record(true, DATA, 900); /* certificate */
	record(false, CIPHER, 1);
	record(false, DATA, 53); /* finished */
	record(true, DATA, 250); /* tickets */
	record(true, DATA, 250);
}

static void handshake_of_1_2(void)
{
	record(false, HANDSHAKE, 200);
	record(true, HANDSHAKE, 1100);
	record(false, HANDSHAKE, 70);
	record(false, CIPHER, 1);
	record(false, HANDSHAKE, 40);
	record(true, CIPHER, 1);
	record(true, HANDSHAKE, 40);
}

static void stream_is_seen(void)
{
	record(false, DATA, 300);
	expect(1, 0);
	record(true, DATA, 150); /* the head, at once */
	expect(1, 0);
	later(80 * MS);
	for (int i = 0; i < 3; i++) {
		record(true, DATA, 60);
		expect(0, 1);
		later(20 * MS);
		conn_sweep(&conn, harness_ns);
	}
}

static void requests_wait_stream_and_end(void **state)
{
	(void)state;
	for (size_t at = 0; at < 12; at++) {
		for (int version = 2; version <= 3; version++) {
			begin(true, at);
			(version == 2 ? handshake_of_1_2 : handshake_of_1_3)();
			expect(0, 0);
			stream_is_seen();
			later(2100 * MS);
			conn_sweep(&conn, harness_ns);
			expect(0, 0);
			stream_is_seen();
			stream_is_seen(); /* at once after the former */
			conn_event(&conn, CONN_GONE, 0, harness_ns);
			expect(0, 0);
			assert_int_equal(counters.tls_connections, 1);
			assert_int_equal(counters.tls_inferred, 1);
			assert_int_equal(gauges.tls_unpaired, 0);
			assert_int_equal(harness_sum(counters.started), 0);
			assert_int_equal(counters.desyncs, 0);
			assert_int_equal(n_records, 0);
		}
	}
}

static void quick_answer_is_over_after_a_while(void **state)
{
	(void)state;
	begin(true, 0);
	handshake_of_1_3();
	record(false, DATA, 100);
	record(true, DATA, 200);
	expect(1, 0);
	later(4000 * MS);
	conn_sweep(&conn, harness_ns);
	expect(1, 0); /* or the head of a stream, and a long prompt */
	later(1100 * MS);
	conn_sweep(&conn, harness_ns);
	expect(0, 0);
}

static void unanswered_request_waits_as_long_as_it_takes(void **state)
{
	(void)state;
	begin(true, 0);
	handshake_of_1_3();
	record(false, DATA, 16384); /* a large prompt */
	record(false, DATA, 9000);
	later(100000 * MS);
	conn_sweep(&conn, harness_ns);
	expect(1, 0);
	conn_event(&conn, CONN_GONE, 1, harness_ns);
	expect(0, 0);
}

static void small_records_are_no_requests(void **state)
{
	(void)state;
	begin(true, 0);
	handshake_of_1_3();
	record(false, DATA, 22); /* key update */
	record(true, DATA, 22);
	record(false, DATA, 19); /* close */
	expect(0, 0);
	assert_int_equal(counters.tls_inferred, 0);
}

static void older_connection_is_known_by_a_record(void **state)
{
	(void)state;
	begin(false, 0);
	record(true, DATA, 60);
	expect(0, 1);
	record(false, DATA, 300);
	expect(1, 0);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(counters.tls_connections, 1);
}

/* Whatever was thought of it before it was known to be TLS. */
static void guess_becomes_one_of_timing(void **state)
{
	(void)state;
	begin(false, 0);
	slot_move(&conn.adopted, SLOT_FREE,
		  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
	record(true, DATA, 60);
	assert_int_equal(gauges.guessed[ENDPOINT_GENERATION], 0);
	expect(0, 1);
	begin(false, 0);
	slot_move(&conn.adopted, SLOT_FREE,
		  slot_word(SLOT_WAITING, ENDPOINT_GENERATION));
	counters.started[ENDPOINT_GENERATION] = 1;
	tls_where = TLS_SOMEWHERE;
	record(true, DATA, 60);
	expect(0, 0);
	assert_int_equal(counters.started[ENDPOINT_GENERATION], 0);
}

static void what_is_read_elsewhere_is_not_inferred(void **state)
{
	(void)state;
	for (int where = TLS_SOMEWHERE; where <= TLS_PAIRED; where++) {
		begin(true, 0);
		handshake_of_1_3();
		stream_is_seen();
		tls_where = where;
		record(true, DATA, 60);
		expect(0, 0);
		record(false, DATA, 300);
		expect(0, 0);
		assert_int_equal(counters.tls_inferred, 0);
		assert_int_equal(gauges.tls_unpaired, where != TLS_PAIRED);
		conn_event(&conn, CONN_GONE, 0, harness_ns);
		assert_int_equal(gauges.tls_unpaired, 0);
	}
}

static void nonsense_is_passed_over_until_a_record_begins(void **state)
{
	(void)state;
	begin(true, 0);
	handshake_of_1_3();
	harness_bytes(&conn, true, "\x17\x03\x03\xff\xff", 5);
	harness_bytes(&conn, true, "nonsense", 8);
	record(true, DATA, 60);
	stream_is_seen();
	assert_int_equal(counters.desyncs, 1);
}

/* However it is cut: what began as a record and is none is said to be lost. */
static void begin_of_a_record_and_no_more_is_a_desync(void **state)
{
	static const char bytes[] = "\x16\x03POST / HTTP/1.1\r\n\r\n";

	(void)state;
	for (size_t at = 1; at < sizeof(bytes); at++) {
		begin(true, 0);
		harness_bytes(&conn, true, bytes, at);
		harness_bytes(&conn, true, bytes + at, sizeof(bytes) - 1 - at);
		assert_true(counters.desyncs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_wait_stream_and_end),
		cmocka_unit_test(quick_answer_is_over_after_a_while),
		cmocka_unit_test(unanswered_request_waits_as_long_as_it_takes),
		cmocka_unit_test(small_records_are_no_requests),
		cmocka_unit_test(older_connection_is_known_by_a_record),
		cmocka_unit_test(guess_becomes_one_of_timing),
		cmocka_unit_test(what_is_read_elsewhere_is_not_inferred),
		cmocka_unit_test(nonsense_is_passed_over_until_a_record_begins),
		cmocka_unit_test(begin_of_a_record_and_no_more_is_a_desync),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
