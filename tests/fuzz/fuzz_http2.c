/*
 * Fuzzer of the framing of HTTP/2 (libFuzzer).
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu11 \
 *	    -D_GNU_SOURCE -iquote . tests/fuzz/fuzz_http2.c bpf/endpoints.c \
 *	    bpf/huffman.c
 *
 * The input is a script: calls that send or receive frames made of it, parts of
 * known exchanges or raw bytes, and ends of the connection.  It runs twice, once
 * as it stands and once with every call cut into small ones.  Always: nothing is
 * counted twice or lost, no gauge is negative, and nothing is left when the
 * connection is gone.  When the framing never got lost, both runs give the same
 * account.
 */
#include "tests/unit/bpf/harness.h"

#include <stdio.h>

#include "tests/unit/bpf/frames_cases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct conn connection;
static struct talk talk;
static struct wire w;

/* What is left of the script. */
struct script {
	const uint8_t *b;
	size_t n;
};

static uint8_t take(struct script *s)
{
	if (!s->n)
		return 0;
	s->n--;
	return *s->b++;
}

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

static void check_always(void)
{
	must(harness_balanced(), "started = ended + in flight");
	for (unsigned e = 0; e < ENDPOINTS; e++)
		must(gauges.waiting[e] >= 0 && gauges.streaming[e] >= 0 &&
			     gauges.guessed[e] >= 0,
		     "gauges are not negative");
	must(harness_in_flight() <= STREAMS_MAX + EXCHANGE_SLOTS + 1,
	     "streams are bounded");
}

static void call(bool sent, const void *bytes, size_t n, bool cut)
{
	const uint8_t *b = bytes;
	size_t size = cut ? 1 : n;

	while (n) {
		size_t k = size < n ? size : n;

		harness_bytes(&connection, sent, b, k);
		b += k;
		n -= k;
		size = size % 7 + 1;
	}
	check_always();
}

/* A frame of a script's type, flags and stream, with a fitting payload. */
static void frame(struct script *s, bool sent)
{
	uint8_t type = take(s) % 11, flags = take(s);
	uint32_t id = take(s) & 15;

	if (type == FRAME_HEADERS && sent) {
		wire_response(&w, id, flags & FLAG_END_STREAM,
			      flags & 2 ? SSE_TYPE : "application/grpc");
	} else if (type == FRAME_HEADERS) {
		w.coded = flags & 2;
		wire_request(&w, id, flags & FLAG_END_STREAM, PATH_GEN);
	} else if (type == FRAME_DATA && flags & 2) {
		wire_data(&w, id, flags & FLAG_END_STREAM, "data: a\n\n");
	} else {
		size_t n = take(s) % 32;

		n = n < s->n ? n : s->n;
		if (type == FRAME_RESET || type == FRAME_WINDOW)
			n = s->n < 4 ? s->n : 4;
		wire_frame(&w, type, flags, id, s->b, n);
		s->b += n;
		s->n -= n;
	}
}

static void part(struct script *s, bool sent)
{
	const struct frames_case *x = &frames_cases[take(s) % N_FRAMES_CASES];

	talk.ask.n = talk.answer.n = 0;
	talk.ask_again.n = talk.answer_again.n = 0;
	talk.ask.coded = talk.answer.coded = false;
	x->write(&talk);
	wire_bytes(&w, sent ? talk.answer.b : talk.ask.b,
		   sent ? talk.answer.n : talk.ask.n);
}

static void raw(struct script *s)
{
	size_t n = take(s) % 64;

	n = n < s->n ? n : s->n;
	wire_bytes(&w, s->b, n);
	s->b += n;
	s->n -= n;
}

static void step(struct script *s, bool cut)
{
	uint8_t op = take(s);
	bool sent = op & 0x80;

	w.n = 0;
	switch (op % 16) {
	case 0:
		conn_event(&connection, op / 16 % 3, op & 0x40, 9);
		break;
	case 1:
		if (op & 0x40)
			conn_sweep(&connection,
				   harness_ns + 2 * EXCHANGE_LEFT_NS);
		else
			conn_gap(&connection, sent);
		break;
	case 2:
		raw(s);
		break;
	case 3:
	case 4:
		part(s, sent);
		break;
	case 5:
		wire_preface(&w);
		sent = false;
		break;
	default:
		frame(s, sent);
		break;
	}
	call(sent, w.b, w.n, cut);
}

static void run(struct script s, bool cut)
{
	bool middle = take(&s) & 1;

	harness_reset();
	memset(&connection, 0, sizeof(connection));
	if (!middle) {
		conn_fresh(&connection);
		w.n = 0;
		wire_preface(&w);
		call(false, w.b, w.n, cut);
		w.n = 0;
		wire_settings(&w);
		call(true, w.b, w.n, cut);
	}
	while (s.n)
		step(&s, cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct script s = { data, n };
	struct request_counters whole;
	struct request_gauges whole_gauges;

	run(s, false);
	whole = counters;
	whole_gauges = gauges;
	run(s, true);
	if (!(n && data[0] & 1) && !whole.desyncs) {
		must(!memcmp(&whole, &counters, sizeof(whole)),
		     "cuts change no counter");
		must(!memcmp(&whole_gauges, &gauges, sizeof(gauges)),
		     "cuts change no gauge");
	}
	conn_event(&connection, CONN_GONE, 0, 9);
	must(!harness_in_flight() && !gauges.guessed[ENDPOINT_GENERATION],
	     "nothing is left");
	check_always();
	return 0;
}
