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

#include "tests/unit/bpf/exchanges.h"

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
	for (size_t i = 0; i < N_EXCHANGES; i++) {
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
	for (size_t i = 0; i < N_EXCHANGES; i++) {
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
	for (size_t i = 0; i < N_EXCHANGES; i++)
		for (int round = 0; round < 200; round++) {
			int largest = round % 2 ? 3 : 60;

			begin();
			in_pieces(false, exchanges[i].request, largest);
			in_pieces(true, exchanges[i].response, largest);
			check(&exchanges[i]);
		}
}

static uint32_t glance(const char *bytes, uint64_t n)
{
	struct http_glance g;

	memcpy(&g, bytes, sizeof(g));
	return http_glance(&g, n);
}

static void glance_tells_a_chunk_that_is_an_event(void **state)
{
	const char *const data[] = { "data: {a", "event: x" };
	char b[64];

	(void)state;
	for (uint32_t size = 10; size < 70000; size++) {
		uint32_t line = (uint32_t)snprintf(
			b, sizeof(b), size & 1 ? "%x\r\n" : "%X\r\n", size);
		uint32_t n = line + size + 2;

		snprintf(b + line, sizeof(b) - line, "%s12345678",
			 data[size / 2 % 2]);
		assert_int_equal(glance(b, n), size < 0x10000 ? line : 0);
		assert_int_equal(glance(b, n - 1), 0);
		assert_int_equal(glance(b, n + 1), 0);
	}
	assert_int_equal(glance("0ff\r\ndata: {abcde", 262), 0);
	assert_int_equal(glance("100\r\ndata: [DONE]", 263), 0);
	assert_int_equal(glance("100\r\n: a comment.", 263), 0);
	assert_int_equal(glance("100;x\r\ndata: {ab", 265), 0);
}

/* Whatever the bytes are: what is certain at a glance, reading says as well. */
static void glance_is_never_wrong(void **state)
{
	struct http_stream s = { 0 };
	struct http_window w = { 0 };
	char *b = (char *)w.b;
	uint32_t certain = 0;

	(void)state;
	srand(1);
	for (unsigned round = 0; round < 300000; round++) {
		uint32_t size = 10 + (uint32_t)rand() % (16u << rand() % 13);
		uint32_t line = (uint32_t)snprintf(b, 32, "%x\r\n", size), got;

		memcpy(b + line, "data: {abcdefghij", 17);
		for (int i = rand() % 3; i; i--)
			b[rand() % 12] = (char)rand();
		got = glance(b, line + size + 2);
		if (!got)
			continue;
		certain++;
		http_begin_size(&s);
		assert_int_equal(http_size(&s, &w, 32), got | HTTP_GOT_SIZE);
		assert_int_equal(s.left, size + 2);
	}
	assert_true(certain > 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split),
		cmocka_unit_test(byte_by_byte),
		cmocka_unit_test(random_pieces),
		cmocka_unit_test(glance_tells_a_chunk_that_is_an_event),
		cmocka_unit_test(glance_is_never_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
