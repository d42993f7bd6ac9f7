/*
 * The plain text of TLS, by real OpenSSL in this process; needs root.
 *
 * Client and server are objects of the same library in the same process, and
 * only the server's may count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "bpf/tracker.h"
#include "core/tls_follow.h"
#include "tests/unit/core/tls_ends.h"

#define GEN ENDPOINT_GENERATION
#define POST "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
#define SSE                                                      \
	"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" \
	"transfer-encoding: chunked\r\n\r\n"
#define EVENT "9\r\ndata: a\n\n\r\n"
#define END "0\r\n\r\n"

static struct tracker *tracker;
static int listener;
static uint16_t port;
static struct request_counters before, now;
static struct request_gauges gauges;

#define since(field) (now.field - before.field)

static void look(void)
{
	tracker_drain(tracker, NULL, NULL);
	tracker_read(tracker, &gauges, &now);
}

static int open_tracker(void **state)
{
	char why[200] = "";
	struct tracker_config config = { .ports = &port, .n_ports = 1 };
	int err;

	(void)state;
	srand(1);
	listener = traffic_listen(AF_INET, &port);
	if (!ends_init())
		return -1;
	err = tracker_open(&tracker, &config, why, sizeof(why));
	if (err)
		print_error("# tracker_open: %s\n", why);
	return err;
}

static int close_tracker(void **state)
{
	(void)state;
	tracker_close(tracker);
	close(listener);
	SSL_CTX_free(ends_client_context);
	SSL_CTX_free(ends_server_context);
	return 0;
}

static void follow(void)
{
	struct tls_follow f = { 0 };
	pid_t self = getpid();

	tls_follow(&f, tracker, &self, 1, &port, 1, 1);
	assert_string_equal(tls_follow_why(&f), "");
	assert_true(f.libraries >= 1);
	assert_int_equal(tracker_tls_processes(tracker), 1);
}

static int remember(void **state)
{
	(void)state;
	look();
	before = now;
	return 0;
}

static int64_t in_flight(void)
{
	int64_t sum = 0;

	for (unsigned e = 0; e < ENDPOINTS; e++)
		sum += gauges.waiting[e] + gauges.streaming[e];
	return sum;
}

/* What happens to a socket takes a moment to reach the other end. */
static bool comes_to_rest(uint64_t ended)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0; i < 2000; i++) {
		look();
		if (!in_flight() &&
		    since(completed[GEN]) + since(client_aborted[GEN]) +
				    since(server_aborted[GEN]) >=
			    ended)
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

static void say(struct end *from, struct end *to, const char *text)
{
	assert_true(ends_move(from, to, text, strlen(text), 1 << 15));
}

static void close_both(struct ends *x)
{
	end_close(&x->client);
	end_close(&x->server);
}

/* ---- exchanges ----------------------------------------------------------- */

/* More than a record holds. */
static void exchange_large(struct text *ask, struct text *answer)
{
	traffic_add(ask, "POST /v1/completions HTTP/1.1\r\n"
			 "Content-Length: 40000\r\n\r\n");
	traffic_body(ask, 40000);
	traffic_add(answer, "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n");
	traffic_body(answer, 50000);
}

static bool exchange(struct ends *x, struct traffic *sum)
{
	static struct text ask, answer;
	unsigned n = 1 + traffic_below(TRAFFIC_PIPELINE), largest;

	ask.n = 0;
	answer.n = 0;
	for (unsigned i = 0; i < n; i++)
		traffic_response(&answer, traffic_request(&ask), &sum->events);
	sum->requests += n;
	if (!traffic_below(3)) {
		exchange_large(&ask, &answer);
		sum->requests++;
	}
	largest = traffic_below(3) ? 40000 : 300;
	return ends_move(&x->client, &x->server, ask.bytes, ask.n, largest) &&
	       ends_move(&x->server, &x->client, answer.bytes, answer.n,
			 largest);
}

/* New keys on a connection that goes on. */
static void change_keys(struct ends *x, int version)
{
	if (version == TLS1_3_VERSION) {
		SSL_key_update(x->server.ssl, SSL_KEY_UPDATE_REQUESTED);
		SSL_key_update(x->client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
		return;
	}
	SSL_renegotiate(x->client.ssl);
	for (int i = 0; i < 100000 && SSL_renegotiate_pending(x->client.ssl);
	     i++) {
		end_shake(&x->client);
		end_read(&x->server);
	}
}

/* Both kinds of BIO, both versions, whole and partial writes. */
static void exchanges_are_counted_exactly(void **state)
{
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct traffic sum = { 0 };
	uint64_t objects = 0;

	(void)state;
	for (unsigned kind = 0; kind < 16; kind++) {
		int version = versions[kind & 1];
		struct ends x;

		assert_true(
			ends_open(&x, listener, kind & 2, version, kind & 4));
		if (kind & 8)
			SSL_set_mode(x.server.ssl,
				     SSL_MODE_ENABLE_PARTIAL_WRITE);
		for (int i = 0; i < 6; i++) {
			assert_true(exchange(&x, &sum));
			if (i == 3)
				change_keys(&x, version);
		}
		close_both(&x);
		objects++;
	}
	assert_true(comes_to_rest(sum.requests));
	assert_int_equal(since(started[GEN]), sum.requests);
	assert_int_equal(since(completed[GEN]), sum.requests);
	assert_int_equal(since(events[GEN]), sum.events);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(since(tls_connections), objects);
	assert_int_equal(since(tls_read), objects);
	assert_int_equal(since(tls_inferred), 0);
	assert_int_equal(since(overflows), 0);
}

static void begin_stream(struct ends *x)
{
	say(&x->client, &x->server, POST);
	say(&x->server, &x->client, SSE EVENT);
}

/* Though the server keeps its object. */
static void aborts_show_on_the_socket(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		struct ends x;

		assert_true(ends_open(&x, listener, kind & 1, TLS1_3_VERSION,
				      false));
		begin_stream(&x);
		look();
		assert_int_equal(in_flight(), 1);
		if (kind & 2)
			traffic_reset(x.client.fd);
		else
			close(x.client.fd);
		if (!(kind & 2))
			close(x.server.fd);
		assert_true(comes_to_rest(kind + 1));
		SSL_free(x.client.ssl);
		SSL_free(x.server.ssl);
		if (kind & 2)
			close(x.server.fd);
	}
	assert_int_equal(since(client_aborted[GEN]), 4);
	assert_int_equal(since(started[GEN]), 4);
}

static void object_that_is_freed_ends_its_requests(void **state)
{
	struct ends x;

	(void)state;
	assert_true(ends_open(&x, listener, true, TLS1_3_VERSION, false));
	begin_stream(&x);
	SSL_free(x.server.ssl);
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(server_aborted[GEN]), 1);
	SSL_free(x.client.ssl);
	close(x.client.fd);
	close(x.server.fd);
}

/* ---- connections that are older ------------------------------------------ */

static struct ends older[2];

/* Before the library is followed. */
static void older_ones_are_not_counted_yet(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_true(ends_open(&older[i], listener, i, TLS1_3_VERSION,
				      false));
		begin_stream(&older[i]);
	}
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(since(tls_connections), 2);
	follow();
}

static void older_ones_are_known_by_their_next_event(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		say(&older[i].server, &older[i].client, EVENT);
	look();
	assert_int_equal(in_flight(), 2);
	assert_int_equal(since(started[GEN]), 2);
	assert_int_equal(since(events[GEN]), 2);
	for (unsigned i = 0; i < 4; i++) /* which socket is whose */
		say(&older[i % 2].server, &older[i % 2].client, EVENT);
	look();
	assert_int_equal(since(tls_read), 2);
	say(&older[0].server, &older[0].client, END);
	traffic_reset(older[1].client.fd);
	assert_true(comes_to_rest(2));
	assert_int_equal(since(completed[GEN]), 1);
	assert_int_equal(since(client_aborted[GEN]), 1);
	close_both(&older[0]);
	SSL_free(older[1].client.ssl);
	end_close(&older[1].server);
}

#define test_on(f) cmocka_unit_test_setup(f, remember)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(older_ones_are_not_counted_yet),
		test_on(older_ones_are_known_by_their_next_event),
		test_on(exchanges_are_counted_exactly),
		test_on(aborts_show_on_the_socket),
		test_on(object_that_is_freed_ends_its_requests),
	};

	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
