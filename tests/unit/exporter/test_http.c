/* The server runs on threads of its own; clients are sockets of this one. */
#include "exporter/exporter.h"
#include "tests/unit/exporter/snapshots.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define DEADLINE_MS 60000

static struct snapshot s;
static char why[256];

struct client {
	int fd;
	bool ended;
	size_t n;
	char got[1 << 18];
};

static struct http *serve(void)
{
	const struct http_config config = { .listen = "0" };
	struct http *h = NULL;

	if (http_open(&h, &config, why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(http_port(h) > 0);
	return h;
}

static void publish(struct http *h)
{
	const struct snapshot *list[] = { &s };

	http_publish(h, list, 1, 0);
}

static struct client *dial(const struct http *h)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(http_port(h)),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct client *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(c->fd >= 0);
	assert_int_equal(connect(c->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	return c;
}

static void hang_up(struct client *c)
{
	close(c->fd);
	free(c);
}

static void say(struct client *c, const char *text)
{
	assert_int_equal(send(c->fd, text, strlen(text), MSG_NOSIGNAL),
			 strlen(text));
}

static void receive(struct client *c)
{
	ssize_t n = read(c->fd, c->got + c->n, sizeof(c->got) - 1 - c->n);

	if (n > 0)
		c->n += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		c->ended = true;
	c->got[c->n] = '\0';
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until the server has said something, or for a moment. */
static void turn(const struct client *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	poll(&p, 1, 20);
}

/* Wait until c's answer has ended, by closing. */
static void finish(struct client *c)
{
	long end = now_ms() + DEADLINE_MS;

	while (!c->ended && now_ms() < end) {
		turn(c);
		receive(c);
	}
	assert_true(c->ended);
}

/* Wait until c has got this text. */
static void wait_for(struct client *c, const char *text)
{
	long end = now_ms() + DEADLINE_MS;

	while (!strstr(c->got, text) && now_ms() < end) {
		turn(c);
		receive(c);
	}
	if (!strstr(c->got, text))
		fail_msg("never got %s but %s", text, c->got);
}

static struct client *ask(struct http *h, const char *request)
{
	struct client *c = dial(h);

	say(c, request);
	finish(c);
	return c;
}

#define GET(path) \
	"GET " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static const char *body(const struct client *c)
{
	const char *p = strstr(c->got, "\r\n\r\n");

	assert_non_null(p);
	return p + 4;
}

static void check(struct http *h, const char *request, const char *status,
		  const char *has)
{
	struct client *c = ask(h, request);

	if (strncmp(c->got, status, strlen(status)) != 0 ||
	    !strstr(c->got, has))
		fail_msg("want %s and %s, got %s", status, has, c->got);
	hang_up(c);
}

static void pages(void **state)
{
	struct http *h = serve();
	struct text want = { 0 };
	struct client *c;

	(void)state;
	check(h, GET("/metrics"), "HTTP/1.1 503 ", "no snapshot yet");
	check(h, GET("/healthz"), "HTTP/1.1 200 ", "ok");
	snapshot_full(&s);
	publish(h);
	check(h, GET("/"), "HTTP/1.1 200 ", "/metrics");
	check(h, GET("/metrics"), "HTTP/1.1 200 ",
	      "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	check(h, GET("/metrics?x=1"), "HTTP/1.1 200 ", "moetop_regime");
	check(h, GET("/snapshot.json"), "HTTP/1.1 200 ",
	      "Content-Type: application/json\r\n");
	c = ask(h, GET("/metrics"));
	assert_non_null(strstr(body(c), "\nmoetop_snapshot_age_seconds{"));
	hang_up(c);
	format_json.write(&want, &s);
	c = ask(h, GET("/snapshot.json"));
	assert_string_equal(body(c), want.data);
	hang_up(c);
	text_free(&want);
	http_close(h);
}

static void other_paths_and_methods(void **state)
{
	struct http *h = serve();

	(void)state;
	check(h, GET("/nothing"), "HTTP/1.1 404 ", "try /metrics");
	check(h, GET("/metrics/"), "HTTP/1.1 404 ", "");
	check(h, "DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	      "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n");
	check(h,
	      "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	      "Content-Length: 5\r\n\r\nhello",
	      "HTTP/1.1 405 ", "only GET and HEAD");
	http_close(h);
}

static void head_has_no_body(void **state)
{
	struct http *h = serve();
	struct client *c;

	(void)state;
	snapshot_full(&s);
	publish(h);
	c = ask(h, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n"
		   "Connection: close\r\n\r\n");
	assert_memory_equal(c->got, "HTTP/1.1 200 ", 13);
	assert_non_null(strstr(c->got, "Content-Length: "));
	assert_string_equal(body(c), "");
	hang_up(c);
	http_close(h);
}

static void keep_alive(void **state)
{
	struct http *h = serve();
	struct client *c = dial(h);

	(void)state;
	for (int i = 0; i < 3; i++) {
		c->n = 0;
		c->got[0] = '\0';
		say(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
		wait_for(c, "\r\n\r\nok\n");
	}
	hang_up(c);
	http_close(h);
}

static void nonsense_gets_an_error_or_is_dropped(void **state)
{
	static char long_head[100000];
	static const char *const requests[] = {
		"\r\n\r\n\r\n",
		"GET\r\n\r\n",
		"GET /metrics HTTP/9.9\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x01\x01\n\n",
		"GET / HTTP/1.1\r\nContent-Length: -1\r\nHost: x\r\n\r\n",
		"GET /%zz%00 HTTP/1.1\r\nHost: x\r\nConnection: "
		"close\r\n\r\n",
	};
	struct http *h = serve();

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct client *c = dial(h);

		say(c, requests[i]);
		for (int k = 0; k < 5 && !c->ended; k++) {
			turn(c);
			receive(c);
		}
		assert_null(strstr(c->got, " 200 "));
		hang_up(c);
	}
	memset(long_head, 'a', sizeof(long_head) - 1);
	memcpy(long_head, "GET /", 5);
	check(h, long_head, "HTTP/1.", " 4");
	check(h, GET("/healthz"), "HTTP/1.1 200 ", "ok");
	http_close(h);
}

static void a_slow_client_holds_up_nobody(void **state)
{
	struct http *h = serve();
	struct client *slow = dial(h);

	(void)state;
	snapshot_full(&s);
	publish(h);
	say(slow, "GET /metr");
	turn(slow);
	for (int i = 0; i < 5; i++)
		check(h, GET("/metrics"), "HTTP/1.1 200 ", "moetop_regime");
	say(slow, "ics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	finish(slow);
	assert_memory_equal(slow->got, "HTTP/1.1 200 ", 13);
	hang_up(slow);
	http_close(h);
}

/* A client that has begun to read gets the page that it was given. */
static void a_page_outlives_the_next_publish(void **state)
{
	struct http *h = serve();
	struct client *c = dial(h);
	int small = 32768;
	char *end;

	(void)state;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	snapshot_large(&s, SNAPSHOT_LAYERS_MAX);
	strcpy(s.target.model, "old-one");
	publish(h);
	say(c, GET("/metrics"));
	wait_for(c, "model=\"old-one\"");
	strcpy(s.target.model, "new-one");
	for (int i = 0; i < 3; i++)
		publish(h);
	finish(c);
	assert_null(strstr(c->got, "new-one"));
	end = strstr(c->got, "moetop_snapshot_age_seconds{");
	assert_non_null(end);
	hang_up(c);
	check(h, GET("/metrics"), "HTTP/1.1 200 ", "model=\"new-one\"");
	http_close(h);
}

static void many_at_once(void **state)
{
	enum { N = 40 };
	struct http *h = serve();
	struct client *c[N];

	(void)state;
	snapshot_full(&s);
	publish(h);
	for (int i = 0; i < N; i++) {
		c[i] = dial(h);
		say(c[i], GET("/metrics"));
	}
	for (int i = 0; i < N; i++) {
		finish(c[i]);
		assert_memory_equal(c[i]->got, "HTTP/1.1 200 ", 13);
		hang_up(c[i]);
	}
	http_close(h);
}

/* Those above the limit are closed at once, and the rest keeps its place. */
static void connections_are_limited(void **state)
{
	enum { N = 1400, PER_ADDRESS = 1280 };
	static struct client *c[N];
	struct http *h = serve();
	long end = now_ms() + DEADLINE_MS;
	int refused = 0;

	(void)state;
	for (int i = 0; i < N; i++)
		c[i] = dial(h);
	while (refused < N - PER_ADDRESS && now_ms() < end) {
		refused = 0;
		for (int i = 0; i < N; i++) {
			receive(c[i]);
			refused += c[i]->ended;
		}
	}
	assert_int_equal(refused, N - PER_ADDRESS);
	say(c[0], GET("/healthz"));
	finish(c[0]);
	assert_memory_equal(c[0]->got, "HTTP/1.1 200 ", 13);
	for (int i = 0; i < N; i++)
		hang_up(c[i]);
	http_close(h);
}

static void a_client_that_vanishes(void **state)
{
	struct http *h = serve();

	(void)state;
	snapshot_large(&s, SNAPSHOT_LAYERS_MAX);
	publish(h);
	for (int i = 0; i < 10; i++) {
		struct linger l = { 1, 0 };
		struct client *c = dial(h);

		say(c, GET("/metrics"));
		if (i % 2)
			turn(c);
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		hang_up(c);
	}
	check(h, GET("/healthz"), "HTTP/1.1 200 ", "ok");
	http_close(h);
}

static struct client *ask_for(struct http *h, const char *path,
			      const char *headers)
{
	char request[512];

	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
		 path, headers);
	return ask(h, request);
}

static void the_format_is_negotiated(void **state)
{
	static const struct {
		const char *accept, *type;
	} cases[] = {
		{ "", "text/plain; version=0.0.4" },
		{ "Accept: application/openmetrics-text; version=1.0.0\r\n",
		  "application/openmetrics-text; version=1.0.0" },
		{ "Accept: application/vnd.google.protobuf;proto=io.prometheus."
		  "client.MetricFamily;encoding=delimited\r\n",
		  "application/vnd.google.protobuf; "
		  "proto=io.prometheus.client.MetricFamily; "
		  "encoding=delimited\r\n" },
		{ "Accept: text/plain;version=0.0.4;escaping=underscores\r\n",
		  "text/plain; version=0.0.4; charset=utf-8; "
		  "escaping=underscores\r\n" },
	};
	struct http *h = serve();
	char want[256];

	(void)state;
	snapshot_full(&s);
	publish(h);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct client *c = ask_for(h, "/metrics", cases[i].accept);

		snprintf(want, sizeof(want), "Content-Type: %s", cases[i].type);
		if (!strstr(c->got, want))
			fail_msg("no %s in %s", want, c->got);
		hang_up(c);
	}
	http_close(h);
}

static size_t length_of(const struct client *c)
{
	const char *p = strstr(c->got, "Content-Length: ");

	assert_non_null(p);
	return strtoul(p + 16, NULL, 10);
}

static void gzip_is_smaller_and_the_same(void **state)
{
	static char plain[1 << 19];
	struct http *h = serve();
	struct client *a, *b;
	z_stream z = { 0 };

	(void)state;
	snapshot_full(&s);
	publish(h);
	a = ask_for(h, "/snapshot.json", "");
	b = ask_for(h, "/snapshot.json", "Accept-Encoding: gzip\r\n");
	assert_null(strstr(a->got, "Content-Encoding"));
	assert_non_null(strstr(b->got, "Content-Encoding: gzip\r\n"));
	assert_true(length_of(b) * 3 < length_of(a));
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)body(b);
	z.avail_in = (uInt)length_of(b);
	z.next_out = (Bytef *)plain;
	z.avail_out = sizeof(plain);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.total_out, length_of(a));
	assert_memory_equal(plain, body(a), length_of(a));
	inflateEnd(&z);
	hang_up(a);
	hang_up(b);
	http_close(h);
}

static void ready_is_more_than_alive(void **state)
{
	struct http *h = serve();

	(void)state;
	check(h, GET("/readyz"), "HTTP/1.1 503 ", "no snapshot");
	snapshot_full(&s);
	publish(h);
	check(h, GET("/readyz"), "HTTP/1.1 200 ", "ready");
	http_close(h);
}

/* A loop that hangs leaves the threads of HTTP alone, who go on to answer. */
static void alive_is_more_than_answering(void **state)
{
	const struct http_config config = { .listen = "0", .silence_s = 0.2 };
	struct http *h = NULL;
	struct client *c;
	bool sick = false;

	(void)state;
	assert_int_equal(http_open(&h, &config, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 3000 && !sick; i++) {
		c = ask(h, GET("/healthz"));
		sick = strstr(c->got, " 503 ") && strstr(c->got, "hangs");
		hang_up(c);
		usleep(20000);
	}
	assert_true(sick);
	check(h, GET("/metrics"), "HTTP/1.1 503 ", "");
	for (unsigned i = 0; i < 3000 && sick; i++) {
		http_turned(h);
		c = ask(h, GET("/healthz"));
		sick = !strstr(c->got, "HTTP/1.1 200 ");
		hang_up(c);
	}
	assert_false(sick);
	http_close(h);
}

static void a_large_body_is_cut_off(void **state)
{
	static char request[64 + 40000];
	struct http *h = serve();
	struct client *c = dial(h);
	size_t n;

	(void)state;
	n = (size_t)snprintf(request, sizeof(request),
			     "POST / HTTP/1.1\r\nHost: x\r\n"
			     "Content-Length: 40000\r\n\r\n");
	memset(request + n, 'x', 40000);
	send(c->fd, request, n + 40000, MSG_NOSIGNAL);
	finish(c);
	assert_null(strstr(c->got, " 200 "));
	hang_up(c);
	check(h, GET("/healthz"), "HTTP/1.1 200 ", "ok");
	http_close(h);
}

static void a_port_in_use(void **state)
{
	struct http *h = serve(), *second = NULL;
	char listen[16];
	const struct http_config config = { .listen = listen };

	(void)state;
	snprintf(listen, sizeof(listen), "%u", http_port(h));
	assert_int_equal(http_open(&second, &config, why, sizeof(why)),
			 -EADDRINUSE);
	assert_null(second);
	assert_non_null(strstr(why, "in use"));
	assert_non_null(strstr(why, "choose another port"));
	http_close(h);
	assert_int_equal(http_open(&second, &config, why, sizeof(why)), 0);
	http_close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages),
		cmocka_unit_test(other_paths_and_methods),
		cmocka_unit_test(head_has_no_body),
		cmocka_unit_test(keep_alive),
		cmocka_unit_test(nonsense_gets_an_error_or_is_dropped),
		cmocka_unit_test(a_slow_client_holds_up_nobody),
		cmocka_unit_test(a_page_outlives_the_next_publish),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(connections_are_limited),
		cmocka_unit_test(a_client_that_vanishes),
		cmocka_unit_test(the_format_is_negotiated),
		cmocka_unit_test(gzip_is_smaller_and_the_same),
		cmocka_unit_test(ready_is_more_than_alive),
		cmocka_unit_test(alive_is_more_than_answering),
		cmocka_unit_test(a_large_body_is_cut_off),
		cmocka_unit_test(a_port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
