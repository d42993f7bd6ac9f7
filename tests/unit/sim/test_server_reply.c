/* The load generator's reading of responses, whole and byte by byte. */
#include "sim/server/reply.h"
#include "tests/unit/sim/server_test.h"

struct seen {
	unsigned heads, chunks, ends, bad, status, bytes;
};

/* Feed text in pieces; stops at the end of the response or an error.  Returns
 * how much was left over. */
static size_t feed(struct reply *r, const char *text, size_t piece,
		   struct seen *s)
{
	size_t left = strlen(text);

	while (left) {
		size_t n = piece < left ? piece : left;
		const char *p = text;
		enum reply_event e;

		text += n;
		left -= n;
		while ((e = reply_next(r, &p, &n)) != REPLY_MORE) {
			s->heads += e == REPLY_HEAD;
			s->chunks += e == REPLY_CHUNK;
			if (e == REPLY_CHUNK)
				s->bytes += (unsigned)r->chunk_bytes;
			s->ends += e == REPLY_END;
			s->bad = e == REPLY_BAD;
			s->status = r->status;
			if (e == REPLY_END || e == REPLY_BAD)
				return left + n;
		}
	}
	return 0;
}

static struct seen read_all(const char *text)
{
	struct seen first = { 0 };

	for (size_t piece = 1; piece <= strlen(text); piece++) {
		struct seen s = { 0 };
		struct reply r;

		reply_start(&r);
		assert_false(reply_begun(&r));
		feed(&r, text, piece, &s);
		if (piece == 1)
			first = s;
		assert_memory_equal(&s, &first, sizeof(s));
	}
	return first;
}

static void chunked_bodies_are_framed(void **state)
{
	struct seen s = read_all("HTTP/1.1 200 OK\r\n"
				 "transfer-encoding: chunked\r\n\r\n"
				 "8\r\ndata: x\n\r\n"
				 "00000A;ext=1\r\n0123456789\r\n"
				 "0\r\n\r\n");

	(void)state;
	assert_false(s.bad);
	assert_int_equal(s.status, 200);
	assert_int_equal(s.heads, 1);
	assert_int_equal(s.chunks, 2);
	assert_int_equal(s.bytes, 18);
	assert_int_equal(s.ends, 1);
}

static void trailers_are_passed_over(void **state)
{
	struct seen s = read_all("HTTP/1.1 200 OK\r\n"
				 "Transfer-Encoding: chunked\r\n\r\n"
				 "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n");

	(void)state;
	assert_int_equal(s.ends, 1);
	assert_false(s.bad);
}

static void lengths_are_framed(void **state)
{
	struct seen s = read_all("HTTP/1.1 400 Bad Request\r\n"
				 "Content-Length: 5\r\n\r\nhello");

	(void)state;
	assert_int_equal(s.status, 400);
	assert_int_equal(s.ends, 1);
	s = read_all("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
	assert_int_equal(s.ends, 1);
	s = read_all("HTTP/1.1 204 No Content\r\n\r\n");
	assert_int_equal(s.ends, 1);
}

static void next_response_is_left_alone(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
				   "\r\nokHTTP/1.1 ";
	struct seen s = { 0 };
	struct reply r;

	(void)state;
	reply_start(&r);
	assert_int_equal(feed(&r, text, sizeof(text), &s), 9);
	assert_int_equal(s.ends, 1);
}

static void connection_close_is_noticed(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
				   "Content-Length: 0\r\n\r\n";
	struct seen s = { 0 };
	struct reply r;

	(void)state;
	reply_start(&r);
	feed(&r, text, 7, &s);
	assert_true(r.close);
	assert_true(reply_has_head(&r));
}

static void nonsense_is_refused(void **state)
{
	static const char *const bad[] = {
		"SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/1.1 abc\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n", /* no framing */
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"fffffffff\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"1\r\nxyz",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(read_all(bad[i]).bad);
}

static void endless_heads_are_refused(void **state)
{
	struct reply r;
	enum reply_event e = REPLY_MORE;
	unsigned n = 0;

	(void)state;
	reply_start(&r);
	while (e == REPLY_MORE && n++ < 2 * REPLY_HEAD_BYTES) {
		const char *p = "x";
		size_t one = 1;

		e = reply_next(&r, &p, &one);
	}
	assert_int_equal(e, REPLY_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunked_bodies_are_framed),
		cmocka_unit_test(trailers_are_passed_over),
		cmocka_unit_test(lengths_are_framed),
		cmocka_unit_test(next_response_is_left_alone),
		cmocka_unit_test(connection_close_is_noticed),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(endless_heads_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
