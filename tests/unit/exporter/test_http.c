/* Clients are non-blocking sockets in this thread, as the server has none. */
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
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_MS 5000

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
	struct http *h = NULL;

	if (http_open(&h, "0", why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(http_port(h) > 0);
	return h;
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

/* One turn of a caller's loop, until one of the two has something to do. */
static void turn(struct http *h, const struct client *c)
{
	struct pollfd p[2] = { { .fd = http_fd(h), .events = POLLIN },
			       { .fd = c->fd, .events = POLLIN } };
	int wait = http_timeout_ms(h);

	poll(p, 2, wait >= 0 && wait < 20 ? wait : 20);
	http_run(h);
}

/* Serve until c's answer has ended, by closing. */
static void finish(struct http *h, struct client *c)
{
	long end = now_ms() + DEADLINE_MS;

	while (!c->ended && now_ms() < end) {
		turn(h, c);
		receive(c);
	}
	assert_true(c->ended);
}

/* Serve until c has got this text. */
static void wait_for(struct http *h, struct client *c, const char *text)
{
	long end = now_ms() + DEADLINE_MS;

	while (!strstr(c->got, text) && now_ms() < end) {
		turn(h, c);
		receive(c);
	}
	if (!strstr(c->got, text))
		fail_msg("never got %s but %s", text, c->got);
}

static struct client *ask(struct http *h, const char *request)
{
	struct client *c = dial(h);

	say(c, request);
	finish(h, c);
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
	http_publish(h, &s);
	check(h, GET("/"), "HTTP/1.1 200 ", "/metrics");
	check(h, GET("/metrics"), "HTTP/1.1 200 ",
	      "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	check(h, GET("/metrics?x=1"), "HTTP/1.1 200 ", "moetop_regime");
	check(h, GET("/snapshot.json"), "HTTP/1.1 200 ",
	      "Content-Type: application/json\r\n");
	format_prometheus.write(&want, &s);
	c = ask(h, GET("/metrics"));
	assert_memory_equal(body(c), want.data, want.bytes);
	assert_non_null(
		strstr(body(c) + want.bytes, "\nmoetop_snapshot_age_seconds "));
	hang_up(c);
	want.bytes = 0;
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
	http_publish(h, &s);
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
		wait_for(h, c, "\r\n\r\nok\n");
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
			turn(h, c);
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
	http_publish(h, &s);
	say(slow, "GET /metr");
	turn(h, slow);
	for (int i = 0; i < 5; i++)
		check(h, GET("/metrics"), "HTTP/1.1 200 ", "moetop_regime");
	say(slow, "ics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	finish(h, slow);
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
	http_publish(h, &s);
	say(c, GET("/metrics"));
	wait_for(h, c, "model=\"old-one\"");
	strcpy(s.target.model, "new-one");
	for (int i = 0; i < 3; i++)
		http_publish(h, &s);
	finish(h, c);
	assert_null(strstr(c->got, "new-one"));
	end = strstr(c->got, "moetop_snapshot_age_seconds ");
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
	http_publish(h, &s);
	for (int i = 0; i < N; i++) {
		c[i] = dial(h);
		say(c[i], GET("/metrics"));
	}
	for (int i = 0; i < N; i++) {
		finish(h, c[i]);
		assert_memory_equal(c[i]->got, "HTTP/1.1 200 ", 13);
		hang_up(c[i]);
	}
	http_close(h);
}

/* Those above the limit are closed at once, and the rest keeps its place. */
static void connections_are_limited(void **state)
{
	enum { N = 100 };
	struct http *h = serve();
	struct client *c[N];
	int refused = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		c[i] = dial(h);
		turn(h, c[i]);
	}
	for (int i = 0; i < N; i++) {
		receive(c[i]);
		refused += c[i]->ended;
	}
	assert_true(refused >= N - 64 && refused < N);
	say(c[0], GET("/healthz"));
	finish(h, c[0]);
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
	http_publish(h, &s);
	for (int i = 0; i < 10; i++) {
		struct linger l = { 1, 0 };
		struct client *c = dial(h);

		say(c, GET("/metrics"));
		if (i % 2)
			turn(h, c);
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		hang_up(c);
		http_run(h);
	}
	check(h, GET("/healthz"), "HTTP/1.1 200 ", "ok");
	http_close(h);
}

static void the_descriptor_works_in_an_epoll(void **state)
{
	struct http *h = serve();
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct client *c;
	long end = now_ms() + DEADLINE_MS;

	(void)state;
	assert_true(ep >= 0);
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, http_fd(h), &e), 0);
	assert_int_equal(epoll_wait(ep, &e, 1, 0), 0);
	c = dial(h);
	say(c, GET("/healthz"));
	while (!c->ended && now_ms() < end) {
		if (epoll_wait(ep, &e, 1, 50) == 1)
			http_run(h);
		receive(c);
	}
	assert_memory_equal(c->got, "HTTP/1.1 200 ", 13);
	hang_up(c);
	close(ep);
	http_close(h);
}

static void addresses(void **state)
{
	static const struct {
		const char *listen;
		int err;
	} cases[] = {
		{ "127.0.0.1:0", 0 },   { "localhost:0", 0 },
		{ "0.0.0.0:0", 0 },     { "", -EINVAL },
		{ ":0", -EINVAL },      { "x", -EINVAL },
		{ "65536", -EINVAL },   { "-1", -EINVAL },
		{ "80x", -EINVAL },     { "1.2.3:80", -EINVAL },
		{ "::1:80", -EINVAL },  { "[::1]", -EINVAL },
		{ "[::1:80", -EINVAL }, { "example.org:80", -EINVAL },
		{ "[]:80", -EINVAL },   { "192.0.2.1:0", -EADDRNOTAVAIL },
	};
	struct http *h;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = http_open(&h, cases[i].listen, why, sizeof(why));

		if (err != cases[i].err)
			fail_msg("%s gave %d", cases[i].listen, err);
		if (!err)
			http_close(h);
		else
			assert_non_null(strstr(why, cases[i].listen));
	}
	http_close(NULL);
	/* a machine may have no IPv6, but never a bad address here */
	switch (http_open(&h, "[::1]:0", why, sizeof(why))) {
	case 0:
		assert_true(http_port(h) > 0);
		http_close(h);
		break;
	case -EADDRNOTAVAIL:
	case -EAFNOSUPPORT:
		break;
	default:
		fail_msg("%s", why);
	}
}

static void a_port_in_use(void **state)
{
	struct http *h = serve(), *second = NULL;
	char listen[16];

	(void)state;
	snprintf(listen, sizeof(listen), "%u", http_port(h));
	assert_int_equal(http_open(&second, listen, why, sizeof(why)),
			 -EADDRINUSE);
	assert_null(second);
	assert_non_null(strstr(why, "in use"));
	assert_non_null(strstr(why, "choose another port"));
	http_close(h);
	assert_int_equal(http_open(&second, listen, why, sizeof(why)), 0);
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
		cmocka_unit_test(the_descriptor_works_in_an_epoll),
		cmocka_unit_test(addresses),
		cmocka_unit_test(a_port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
