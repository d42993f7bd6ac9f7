/*
 * Fuzzer of the HTTP framing core (libFuzzer).
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu11 \
 *	    -D_GNU_SOURCE -iquote . tests/fuzz/fuzz_http.c bpf/endpoints.c
 *
 * The input is a script: calls that send or receive canned fragments or raw
 * bytes, and ends of the connection.  It runs twice, once as it stands and once
 * with every call cut into small ones.  Always: nothing is counted twice or
 * lost, no gauge is negative, and nothing is left when the connection is gone.
 * When the framing never got lost, both runs give the same account.
 */
#include "tests/unit/bpf/harness.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const fragments[] = {
	"POST /v1/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
	"GET /health HTTP/1.1\r\n\r\n",
	"HEAD /x?y HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
	("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	 "Transfer-Encoding: chunked\r\n\r\n"),
	"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
	"HTTP/1.1 100 Continue\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\n\r\n",
	"9\r\ndata: a\n\n\r\n",
	"11\r\ndata: {\"a\":\"b\"}\n\n\r\n",
	"8;x=y\r\n: ping\n\n\r\n",
	"e\r\ndata: [DONE]\n\n\r\n",
	"0\r\n\r\n",
	"0\r\nX: y\r\n\r\n",
	"Content-Length: ",
};
#define FRAGMENTS (sizeof(fragments) / sizeof(fragments[0]))

static struct conn connection;

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
	must(harness_in_flight() <= EXCHANGE_SLOTS + 1, "slots are bounded");
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

/* What the walk over open sockets does. */
static void look_around(bool sweeps)
{
	if (sweeps)
		conn_sweep(&connection, harness_ns + 2 * EXCHANGE_LEFT_NS);
	else if (!connection.closed && !connection.adopting)
		slot_move(&connection.adopted, SLOT_FREE,
			  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
	check_always();
}

static void run(const uint8_t *data, size_t n, bool cut)
{
	harness_reset();
	memset(&connection, 0, sizeof(connection));
	if (!n || !(data[0] & 1))
		conn_fresh(&connection);
	for (size_t i = 1; i < n;) {
		uint8_t op = data[i++];
		const char *f = fragments[(op >> 2) % FRAGMENTS];
		size_t raw = op >> 3 < n - i ? op >> 3 : n - i;

		switch (op & 3) {
		case 0:
			call(false, f, strlen(f), cut);
			break;
		case 1:
			call(true, f, strlen(f), cut);
			break;
		case 2:
			call(op & 4, data + i, raw, cut);
			i += raw;
			break;
		default:
			if (op & 0x80)
				break;
			if (op & 0x40) {
				look_around(op & 0x20);
				break;
			}
			conn_event(&connection, (op >> 2) % 3, op & 0x20, 9);
			check_always();
			break;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct request_counters whole;
	struct request_gauges whole_gauges;

	run(data, n, false);
	whole = counters;
	whole_gauges = gauges;
	run(data, n, true);
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
