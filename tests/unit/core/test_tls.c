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

	for (int i = 0; i < 60000; i++) {
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

/* Objects that write before any of their records is sent. */
enum { SLOW = 2, CROWD = 3 };
static struct ends slow[SLOW], crowd[CROWD];

/* Before the library is followed. */
static void older_ones_are_not_counted_yet(void **state)
{
	struct ends *all[] = { &older[0], &older[1], &slow[0], &slow[1],
			       &crowd[0], &crowd[1], &crowd[2] };
	const unsigned n = sizeof(all) / sizeof(all[0]);

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		assert_true(ends_open(all[i], listener, i > 0, TLS1_3_VERSION,
				      false));
		begin_stream(all[i]);
	}
	look();
	assert_int_equal(in_flight(), 0);
	assert_int_equal(since(desyncs), 0);
	assert_int_equal(since(tls_connections), n);
}

/*
 * A connection whose handshake was over, by this thread, just before handshakes
 * were probed is not that of the next object.
 */
static void first_new_one_has_its_own_socket(void **state)
{
	const struct tracker_tls none = { .pid = getpid() };
	struct ends old, new;

	(void)state;
	/* the programs are there, so that it is soon after */
	assert_int_equal(tracker_tls_attach(tracker, &none), 0);
	assert_true(ends_open(&old, listener, true, TLS1_3_VERSION, false));
	follow();
	assert_true(ends_open(&new, listener, true, TLS1_3_VERSION, false));
	begin_stream(&new);
	look();
	assert_int_equal(in_flight(), 1);
	assert_int_equal(since(tls_read), 1);
	close_both(&old);
	look();
	assert_int_equal(in_flight(), 1);
	say(&new.server, &new.client, END);
	assert_true(comes_to_rest(1));
	assert_int_equal(since(completed[GEN]), 1);
	close_both(&new);
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

/* The server's half of an event: plain text is written, or its record sent. */
static void event_write(struct ends *x)
{
	assert_int_equal(SSL_write(x->server.ssl, EVENT, sizeof(EVENT) - 1),
			 sizeof(EVENT) - 1);
}

static void event_send(struct ends *x)
{
	size_t read = 0;

	end_flush(&x->server);
	for (int i = 0; i < 100000 && read < sizeof(EVENT) - 1; i++)
		read += end_read(&x->client);
	assert_int_equal(read, sizeof(EVENT) - 1);
}

static void leaves(struct ends *x)
{
	traffic_reset(x->client.fd);
	SSL_free(x->client.ssl);
	end_close(&x->server);
}

/* A write that waited long for its send is not taken for sent. */
static void slow_server_ties_nothing_wrongly(void **state)
{
	const struct timespec pause = { .tv_nsec = 60000000 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		event_write(&slow[0]);
		nanosleep(&pause, NULL);
		event_write(&slow[1]);
		event_send(&slow[0]);
		event_send(&slow[1]);
	}
	look();
	assert_int_equal(in_flight(), SLOW);
	assert_int_equal(since(tls_read), 0);
	traffic_reset(slow[0].client.fd);
	SSL_free(slow[0].client.ssl);
	close(slow[0].server.fd);
	event_write(&slow[1]);
	event_send(&slow[1]);
	look();
	assert_int_equal(in_flight(), SLOW); /* whose it was is not known */
	SSL_free(slow[0].server.ssl);
	look();
	assert_int_equal(in_flight(), 1);
	leaves(&slow[1]);
	assert_true(comes_to_rest(SLOW));
	assert_int_equal(since(client_aborted[GEN]), SLOW);
}

/* Nor is one whose record is outstanding while others are sent. */
static void crowd_ties_nothing_wrongly(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		event_write(&crowd[0]);
		event_write(&crowd[1]);
		event_send(&crowd[0]);
		event_write(&crowd[2]);
		event_send(&crowd[1]);
		event_send(&crowd[2]);
	}
	look();
	assert_int_equal(in_flight(), CROWD);
	assert_int_equal(since(tls_read), 0);
	for (int i = 0; i < 4; i++) /* one at a time tells */
		for (unsigned k = 0; k < CROWD; k++)
			say(&crowd[k].server, &crowd[k].client, EVENT);
	look();
	assert_int_equal(since(tls_read), CROWD);
	for (unsigned k = 0; k < CROWD; k++)
		leaves(&crowd[k]);
	assert_true(comes_to_rest(CROWD));
	assert_int_equal(since(client_aborted[GEN]), CROWD);
}

#define test_on(f) cmocka_unit_test_setup(f, remember)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_on(older_ones_are_not_counted_yet),
		test_on(first_new_one_has_its_own_socket),
		test_on(older_ones_are_known_by_their_next_event),
		test_on(slow_server_ties_nothing_wrongly),
		test_on(crowd_ties_nothing_wrongly),
		test_on(exchanges_are_counted_exactly),
		test_on(aborts_show_on_the_socket),
		test_on(object_that_is_freed_ends_its_requests),
	};

	return cmocka_run_group_tests(tests, open_tracker, close_tracker);
}
