/*
 * The exchanges of exchanges.h over real connections, cut in every way, through
 * every system call that moves bytes; needs root.
 */
#include "tests/unit/bpf/live.h"

#include "tests/unit/bpf/exchanges.h"
#include "tests/unit/bpf/frames_cases.h"

#define ROUNDS 20
#define CUT_STEP 6 /* of connections that end in the middle */

static struct pair pair;
static unsigned n_exchanges, n_ends;

/* Bytes in one call; vectors get three pieces, one of them empty. */
static void send_by(unsigned call, int fd, const char *bytes, size_t n)
{
	char *b = (char *)(uintptr_t)bytes;
	struct iovec v[3] = { { b, n / 2 },
			      { b, 0 },
			      { b + n / 2, n - n / 2 } };
	const struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	ssize_t done = 0;

	if (!n)
		return;
	switch (call % 4) {
	case 0:
		done = write(fd, b, n);
		break;
	case 1:
		done = send(fd, b, n, MSG_NOSIGNAL);
		break;
	case 2:
		done = writev(fd, v, 3);
		break;
	case 3:
		done = sendmsg(fd, &m, MSG_NOSIGNAL);
		break;
	}
	assert_int_equal(done, n);
}

static ssize_t receive_once(unsigned call, int fd, char *b, size_t n)
{
	struct iovec v[3] = { { b, n / 2 },
			      { b, 0 },
			      { b + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };

	switch (call % 4) {
	case 0:
		return read(fd, b, n);
	case 1:
		return recv(fd, b, n, 0);
	case 2:
		return readv(fd, v, 3);
	default:
		return recvmsg(fd, &m, 0);
	}
}

static void receive_by(unsigned call, int fd, size_t n)
{
	static char b[WIRE_BYTES];

	assert_true(n <= sizeof(b));
	while (n) {
		ssize_t done = receive_once(call, fd, b, n);

		assert_true(done > 0);
		n -= (size_t)done;
	}
}

/* The server has closed. */
static void hear_the_end(void)
{
	char b[512];

	while (read(pair.client, b, sizeof(b)) > 0)
		;
}

static void check(const struct exchange *x)
{
	uint64_t completed = 0, failed = 0, events = 0;

	if (x->closes) {
		close(pair.server);
		hear_the_end();
		close(pair.client);
		for (unsigned i = 0; i < 300000; i++) {
			look();
			if (!in_flight())
				break;
			usleep(100);
		}
		connect_pair(&pair);
	}
	look();
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		assert_int_equal(since(started[e]), x->started[e]);
		completed += since(completed[e]);
		failed += since(failed[e]);
		events += since(events[e]);
		assert_int_equal(since(client_aborted[e]), 0);
		assert_int_equal(since(server_aborted[e]), 0);
	}
	assert_int_equal(completed, x->completed);
	assert_int_equal(failed, x->failed);
	assert_int_equal(events, x->events);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(in_flight(), 0);
	tracker_drain(tracker, NULL, NULL);
	before = now;
	n_exchanges++;
}

/* Both directions in two calls each. */
static void exchange(const struct exchange *x, size_t ask, size_t answer,
		     unsigned call)
{
	size_t asked = strlen(x->request), answered = strlen(x->response);

	send_by(call, pair.client, x->request, ask);
	receive_by(call, pair.server, ask);
	send_by(call / 2, pair.client, x->request + ask, asked - ask);
	receive_by(call / 2, pair.server, asked - ask);
	send_by(call, pair.server, x->response, answer);
	send_by(call / 2, pair.server, x->response + answer, answered - answer);
	receive_by(call, pair.client, answered);
	check(x);
}

static void every_split_by_every_call(void **state)
{
	(void)state;
	connect_pair(&pair);
	for (size_t i = 0; i < N_EXCHANGES; i++) {
		const struct exchange *x = &exchanges[i];
		size_t asked = strlen(x->request);
		size_t answered = strlen(x->response);

		for (size_t cut = 0; cut <= asked; cut++)
			exchange(x, cut, answered, (unsigned)cut);
		for (size_t cut = 0; cut <= answered; cut++)
			exchange(x, asked, cut, (unsigned)cut);
	}
	close(pair.client);
	close(pair.server);
	print_message("# %u exchanges\n", n_exchanges);
}

static void random_pieces(void **state)
{
	(void)state;
	srand(3);
	n_exchanges = 0;
	connect_pair(&pair);
	for (size_t i = 0; i < N_EXCHANGES; i++)
		for (unsigned round = 0; round < ROUNDS; round++) {
			const struct exchange *x = &exchanges[i];
			unsigned largest = round % 2 ? 3 : 60;
			char *ask = (char *)(uintptr_t)x->request;
			char *answer = (char *)(uintptr_t)x->response;

			assert_true(traffic_send(pair.client, ask, strlen(ask),
						 largest));
			assert_true(traffic_recv(pair.server, strlen(ask)));
			assert_true(traffic_send(pair.server, answer,
						 strlen(answer), largest));
			assert_true(traffic_recv(pair.client, strlen(answer)));
			check(x);
		}
	close(pair.client);
	close(pair.server);
	print_message("# %u exchanges\n", n_exchanges);
}

/* ---- HTTP/2 -------------------------------------------------------------- */

#define EDGE 130u /* every split is tried so far from either end */

static struct talk talk;

static void check_talk(const struct frames_case *x)
{
	uint64_t completed = 0, client = 0, server = 0, failed = 0, events = 0;

	look();
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		assert_int_equal(since(started[e]), x->started[e]);
		completed += since(completed[e]);
		client += since(client_aborted[e]);
		server += since(server_aborted[e]);
		failed += since(failed[e]);
		events += since(events[e]);
	}
	assert_int_equal(completed, x->completed);
	assert_int_equal(client, x->client_aborted);
	assert_int_equal(server, x->server_aborted);
	assert_int_equal(failed, x->failed);
	assert_int_equal(events, x->events);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(since(overflows), 0);
	assert_int_equal(in_flight(), 0);
	tracker_drain(tracker, NULL, NULL);
	before = now;
	n_exchanges++;
}

/* In two calls, of kinds that depend on where they are cut. */
static void say_frames(int from, int to, const struct wire *w, size_t cut)
{
	const char *b = (const char *)w->b;
	unsigned call = (unsigned)cut;

	cut = cut < w->n ? cut : w->n;
	send_by(call, from, b, cut);
	receive_by(call, to, cut);
	send_by(call / 2, from, b + cut, w->n - cut);
	receive_by(call / 2, to, w->n - cut);
}

static void exchange_frames(const struct frames_case *x, size_t ask,
			    size_t answer)
{
	connect_pair(&pair);
	say_frames(pair.client, pair.server, &talk.ask, ask);
	say_frames(pair.server, pair.client, &talk.answer, answer);
	say_frames(pair.client, pair.server, &talk.ask_again, ask);
	say_frames(pair.server, pair.client, &talk.answer_again, answer);
	check_talk(x);
	close(pair.client);
	close(pair.server);
}

static void every_split_of_frames(void **state)
{
	(void)state;
	n_exchanges = 0;
	for (size_t i = 0; i < N_FRAMES_CASES; i++) {
		talk_begin(&talk);
		frames_cases[i].write(&talk);
		for (size_t cut = 0; cut <= talk.ask.n; cut++)
			if (cut < EDGE || talk.ask.n - cut < EDGE)
				exchange_frames(&frames_cases[i], cut, 0);
		for (size_t cut = 0; cut <= talk.answer.n; cut++)
			if (cut < EDGE || talk.answer.n - cut < EDGE)
				exchange_frames(&frames_cases[i], 0, cut);
	}
	print_message("# %u exchanges\n", n_exchanges);
}

/* A UNIX socket holds some hundred pieces, of any size. */
static unsigned frames_largest(const struct wire *w, unsigned round)
{
	if (w->n > 4096)
		return 4096;
	return round % 2 ? 7 : 300;
}

static void random_pieces_of_frames(void **state)
{
	(void)state;
	srand(4);
	n_exchanges = 0;
	for (size_t i = 0; i < N_FRAMES_CASES; i++)
		for (unsigned round = 0; round < ROUNDS; round++) {
			struct wire *w[] = { &talk.ask, &talk.answer,
					     &talk.ask_again,
					     &talk.answer_again };

			talk_begin(&talk);
			frames_cases[i].write(&talk);
			connect_pair(&pair);
			for (unsigned k = 0; k < 4; k++) {
				assert_true(traffic_send(
					k % 2 ? pair.server : pair.client,
					(char *)w[k]->b, w[k]->n,
					frames_largest(w[k], round)));
				assert_true(traffic_recv(k % 2 ? pair.client
							       : pair.server,
							 w[k]->n));
			}
			check_talk(&frames_cases[i]);
			close(pair.client);
			close(pair.server);
		}
	print_message("# %u exchanges\n", n_exchanges);
}

/* ---- ends ---------------------------------------------------------------- */

/* Close one end, or both, in one of four ways. */
static void end(unsigned way)
{
	char b[512];

	if (way & 1)
		traffic_reset(way & 2 ? pair.server : pair.client);
	else
		close(way & 2 ? pair.server : pair.client);
	if (way & 2) {
		hear_the_end();
		close(pair.client);
		return;
	}
	while (read(pair.server, b, sizeof(b)) > 0)
		;
	close(pair.server);
}

static void nothing_is_left(void)
{
	int64_t open = 0;

	for (unsigned i = 0; i < 300000; i++) {
		look();
		open = in_flight();
		for (unsigned e = 0; e < ENDPOINTS; e++) {
			open += gauges.guessed[e];
			assert_true(gauges.guessed[e] >= 0);
		}
		if (!open)
			break;
		usleep(100);
	}
	assert_int_equal(open, 0);
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		assert_int_equal(gauges.waiting[e], 0);
		assert_int_equal(gauges.streaming[e], 0);
	}
}

/* The connection ends before byte `cut` of the answer. */
static void end_early(const struct exchange *x, size_t cut, unsigned way)
{
	uint64_t started = 0, ended = 0;

	connect_pair(&pair);
	send_by(way, pair.client, x->request, strlen(x->request));
	receive_by(way, pair.server, strlen(x->request));
	send_by(way / 2, pair.server, x->response, cut);
	receive_by(way, pair.client, cut);
	end(way);
	nothing_is_left();
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		started += since(started[e]);
		ended += since(completed[e]) + since(client_aborted[e]) +
			 since(server_aborted[e]);
	}
	assert_int_equal(started, x->completed);
	assert_int_equal(ended, started);
	tracker_drain(tracker, NULL, NULL);
	before = now;
	n_ends++;
}

static void an_end_at_any_byte_leaves_nothing(void **state)
{
	unsigned way = 0;

	(void)state;
	for (size_t i = 0; i < N_EXCHANGES; i++) {
		size_t answered = strlen(exchanges[i].response);

		for (size_t cut = 0; cut < answered; cut += CUT_STEP)
			end_early(&exchanges[i], cut, way++);
	}
	print_message("# %u connections\n", n_ends);
}

/* The connection ends before byte `cut` of an answer in frames. */
static void end_frames_early(const struct frames_case *x, size_t cut,
			     unsigned way)
{
	uint64_t started = 0, ended = 0, expected = 0;

	connect_pair(&pair);
	say_frames(pair.client, pair.server, &talk.ask, way);
	send_by(way / 2, pair.server, (char *)talk.answer.b, cut);
	receive_by(way, pair.client, cut);
	end(way);
	nothing_is_left();
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		started += since(started[e]);
		expected += x->started[e];
		ended += since(completed[e]) + since(client_aborted[e]) +
			 since(server_aborted[e]);
	}
	assert_int_equal(started, expected - x->later);
	assert_int_equal(ended, started);
	tracker_drain(tracker, NULL, NULL);
	before = now;
	n_ends++;
}

static void an_end_at_any_byte_of_frames_leaves_nothing(void **state)
{
	unsigned way = 0;

	(void)state;
	n_ends = 0;
	for (size_t i = 0; i < N_FRAMES_CASES; i++) {
		talk_begin(&talk);
		frames_cases[i].write(&talk);
		for (size_t cut = 0; cut < talk.answer.n; cut += CUT_STEP)
			if (cut < EDGE || talk.answer.n - cut < EDGE)
				end_frames_early(&frames_cases[i], cut, way++);
	}
	print_message("# %u connections\n", n_ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(every_split_by_every_call),
		test_on(random_pieces),
		test_on(every_split_of_frames),
		test_on(random_pieces_of_frames),
		test_on(an_end_at_any_byte_leaves_nothing),
		test_on(an_end_at_any_byte_of_frames_leaves_nothing),
	};

	if (RUNG && refused())
		return 0;
	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
