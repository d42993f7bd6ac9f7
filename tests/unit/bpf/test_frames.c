/*
 * Framing of HTTP/2: exchanges, cut into calls in every way, must always give
 * the same account.
 */
#include "tests/unit/bpf/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/bpf/frames_cases.h"

#define EDGE 300u /* every split is tried so far from either end */

static struct conn connection;
static struct talk talk;

static void begin(void)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	conn_fresh(&connection);
}

static void check(const struct frames_case *x)
{
	uint64_t bytes = 0;

	for (unsigned e = 0; e < ENDPOINTS; e++)
		assert_int_equal(counters.started[e], x->started[e]);
	assert_int_equal(harness_sum(counters.completed), x->completed);
	assert_int_equal(harness_sum(counters.client_aborted),
			 x->client_aborted);
	assert_int_equal(harness_sum(counters.server_aborted),
			 x->server_aborted);
	assert_int_equal(harness_sum(counters.failed), x->failed);
	assert_int_equal(harness_sum(counters.events), x->events);
	assert_int_equal(counters.desyncs, 0);
	assert_int_equal(harness_in_flight(), 0);
	for (unsigned i = 0; i < n_records; i++)
		bytes += records[i].how ? 0 : records[i].body_bytes;
	assert_int_equal(bytes, x->body_bytes);
}

static void in_two(bool sent, const struct wire *w, size_t cut)
{
	cut = cut < w->n ? cut : w->n;
	harness_bytes(&connection, sent, w->b, cut);
	harness_bytes(&connection, sent, w->b + cut, w->n - cut);
}

static void split(const struct frames_case *x, size_t ask, size_t answer)
{
	begin();
	in_two(false, &talk.ask, ask);
	in_two(true, &talk.answer, answer);
	in_two(false, &talk.ask_again, ask);
	in_two(true, &talk.answer_again, answer);
	check(x);
}

static void every_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_FRAMES_CASES; i++) {
		const struct frames_case *x = &frames_cases[i];

		print_message("# %s\n", x->name);
		talk_begin(&talk);
		x->write(&talk);
		for (size_t cut = 0; cut <= talk.ask.n; cut++)
			if (cut < EDGE || talk.ask.n - cut < EDGE)
				split(x, cut, 0);
		for (size_t cut = 0; cut <= talk.answer.n; cut++)
			if (cut < EDGE || talk.answer.n - cut < EDGE)
				split(x, 0, cut);
	}
}

/* Random calls of random pieces, some of them empty. */
static void in_pieces(bool sent, const struct wire *w, unsigned largest)
{
	size_t at = 0;

	while (at < w->n) {
		struct iovec v[8];
		unsigned n = 1 + (unsigned)rand() % 8;

		for (unsigned i = 0; i < n; i++) {
			size_t k = (size_t)rand() % largest;

			v[i].iov_len = k < w->n - at ? k : w->n - at;
			v[i].iov_base = (void *)(uintptr_t)(w->b + at);
			at += v[i].iov_len;
		}
		harness_call(&connection, sent, v, n);
	}
}

static void random_pieces(void **state)
{
	static const unsigned largest[] = { 2, 5, 60, 700 };

	(void)state;
	srand(1);
	for (size_t i = 0; i < N_FRAMES_CASES; i++)
		for (unsigned round = 0; round < 60; round++) {
			unsigned most = largest[round % 4];

			talk_begin(&talk);
			frames_cases[i].write(&talk);
			begin();
			in_pieces(false, &talk.ask, most);
			in_pieces(true, &talk.answer, most);
			in_pieces(false, &talk.ask_again, most);
			in_pieces(true, &talk.answer_again, most);
			check(&frames_cases[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split),
		cmocka_unit_test(random_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
