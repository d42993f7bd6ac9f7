/*
 * sse_load.c - clients that stream, probe and walk away, with exact times
 *
 *	sse_load PORT CLIENTS [NAME=NUMBER]...
 *
 * Each client keeps one connection as long as it lasts and sends one request
 * after the other: streams, some with a large prompt, JSON completions and
 * health checks.  Some streams are left, before their first event or after some,
 * by FIN or by RST.  Names: seconds, requests (whichever is reached first),
 * events (most a stream, at least a third), more (events of those that are left),
 * interval_us, ttft_us, think_us (at most), abort, large, health, json (percent),
 * seed.
 *
 * Prints what was done as one JSON object: counts, and percentiles of time to
 * first event and of gaps between events.  Exit status 1: a server answered
 * with what it must not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 1024
#define HEAD_MAX 2048
#define LARGE_MIN 50000
#define LARGE_MORE 400000
#define SMALL_BYTES 200
#define DRAIN_NS 120000000000ull

enum kind { STREAM, JSON, HEALTH };
enum part { IDLE, HEAD, LENGTH, SIZE, DATA, TRAILER };

struct client {
	int fd;
	enum kind kind;
	enum part part;
	uint64_t due_ns; /* idle: next request; else when to leave, 0: never */
	char *out;
	size_t out_bytes, out_done;
	char head[HEAD_MAX];
	size_t head_bytes;
	size_t left;       /* of the body or chunk */
	unsigned line;     /* bytes of a size line or trailer line */
	unsigned field;    /* bytes that agree with "data: {" */
	bool event, blank; /* in an event; at the start of a line */
	bool over;         /* the end marker of the chunks came */
	unsigned events, leave_at;
	uint64_t asked_ns, last_ns;
};

struct times {
	uint32_t *us;
	size_t n, room;
};

static struct options {
	uint64_t seconds, requests, events, interval_us, ttft_us, think_us;
	uint64_t abort, large, health, json, seed, more;
} o = { .seconds = 10,
	.requests = UINT64_MAX,
	.events = 60,
	.interval_us = 20000,
	.ttft_us = 100000,
	.think_us = 100000,
	.abort = 15,
	.large = 5,
	.health = 15,
	.json = 10,
	.seed = 1 };

static const struct option_name {
	const char *name;
	uint64_t *value;
} names[] = {
	{ "seconds", &o.seconds }, { "requests", &o.requests },
	{ "events", &o.events },   { "interval_us", &o.interval_us },
	{ "ttft_us", &o.ttft_us }, { "think_us", &o.think_us },
	{ "abort", &o.abort },     { "large", &o.large },
	{ "health", &o.health },   { "json", &o.json },
	{ "seed", &o.seed },       { "more", &o.more },
};

static struct client clients[CLIENTS_MAX];
static struct times ttft, gaps;
static uint64_t streams, completions, probes, fins, resets, early, large,
	events;
static uint64_t asked, errors, read_calls;
static int epoll_fd;
static uint16_t port;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t below(uint64_t n)
{
	return n ? (uint64_t)lrand48() % n : 0;
}

static bool percent(uint64_t share)
{
	return below(100) < share;
}

static void times_add(struct times *t, uint64_t ns)
{
	if (t->n == t->room) {
		t->room = t->room ? 2 * t->room : 4096;
		t->us = realloc(t->us, t->room * sizeof(*t->us));
		if (!t->us)
			abort();
	}
	t->us[t->n++] = (uint32_t)(ns / 1000);
}

/* ---- requests ------------------------------------------------------------ */

static void client_watch(struct client *c, int op)
{
	struct epoll_event e = { .data.ptr = c };

	e.events = EPOLLIN | (c->out_done < c->out_bytes ? EPOLLOUT : 0);
	epoll_ctl(epoll_fd, op, c->fd, &e);
}

static bool client_connect(struct client *c)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return false;
	if (connect(c->fd, (struct sockaddr *)&a, sizeof(a))) {
		close(c->fd);
		c->fd = -1;
		return false;
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	client_watch(c, EPOLL_CTL_ADD);
	return true;
}

static void client_close(struct client *c, bool reset)
{
	struct linger l = { .l_onoff = 1 };

	if (c->fd < 0)
		return;
	if (reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(c->fd);
	c->fd = -1;
}

static void client_rest(struct client *c, uint64_t now)
{
	c->part = IDLE;
	c->due_ns = now + below(o.think_us) * 1000;
}

static void client_flush(struct client *c)
{
	bool was_full = c->out_done < c->out_bytes;

	while (c->out_done < c->out_bytes) {
		ssize_t n = send(c->fd, c->out + c->out_done,
				 c->out_bytes - c->out_done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n <= 0)
			break;
		c->out_done += (size_t)n;
	}
	if (was_full && c->out_bytes > SMALL_BYTES * 4)
		client_watch(c, EPOLL_CTL_MOD);
}

static void prompt_write(struct client *c, unsigned n, size_t prompt)
{
	const char *begin = "{\"prompt\":\"";
	char rest[200];
	int rest_bytes = snprintf(
		rest, sizeof(rest),
		"\",\"stream\":%s,\"events\":%u,\"interval_us\":%llu,"
		"\"ttft_us\":%llu}",
		c->kind == STREAM ? "true" : "false", n,
		(unsigned long long)o.interval_us,
		(unsigned long long)(o.ttft_us / 4 + below(o.ttft_us)));
	size_t body = strlen(begin) + prompt + (size_t)rest_bytes;
	int head;

	c->out = realloc(c->out, body + 300);
	if (!c->out)
		abort();
	head = sprintf(c->out,
		       "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
		       "User-Agent: sse_load\r\nContent-Type: "
		       "application/json\r\nContent-Length: %zu\r\n\r\n%s",
		       body, begin);
	c->out_bytes = (size_t)head;
	memset(c->out + c->out_bytes, 'p', prompt);
	c->out_bytes += prompt;
	memcpy(c->out + c->out_bytes, rest, (size_t)rest_bytes);
	c->out_bytes += (size_t)rest_bytes;
}

static void client_ask(struct client *c, uint64_t now)
{
	unsigned n = (unsigned)(o.events / 3 + below(o.events * 2 / 3) + 1);
	bool is_large = percent(o.large), leaves;

	if (c->fd < 0 && !client_connect(c)) {
		c->due_ns = now + 10000000;
		return;
	}
	c->kind = percent(o.health) ? HEALTH : percent(o.json) ? JSON : STREAM;
	leaves = c->kind == STREAM && percent(o.abort);
	if (c->kind == HEALTH) {
		c->out = realloc(c->out, 300);
		c->out_bytes = (size_t)sprintf(
			c->out, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
	} else {
		size_t more = is_large ? LARGE_MIN + below(LARGE_MORE) : 0;

		prompt_write(c, n + (leaves ? (unsigned)o.more : 0),
			     SMALL_BYTES + more);
		large += is_large;
	}
	asked++;
	c->out_done = 0;
	c->part = HEAD;
	c->head_bytes = 0;
	c->events = 0;
	c->leave_at = 0;
	c->due_ns = 0;
	c->asked_ns = now;
	c->last_ns = 0;
	if (leaves) {
		c->leave_at = (unsigned)below(n / 2 + 1);
		if (!c->leave_at)
			c->due_ns = now + o.ttft_us / 8 * 1000 +
				    below(o.ttft_us / 8) * 1000;
	}
	client_flush(c);
}

/* ---- answers ------------------------------------------------------------- */

static void client_leave(struct client *c, uint64_t now)
{
	bool reset = percent(50);

	*(reset ? &resets : &fins) += 1;
	client_close(c, reset);
	client_rest(c, now);
}

static void client_failed(struct client *c, uint64_t now, const char *what)
{
	errors++;
	fprintf(stderr, "sse_load: %s (kind %d, part %d)\n", what, c->kind,
		c->part);
	client_close(c, true);
	client_rest(c, now);
}

static void client_done(struct client *c, uint64_t now)
{
	if (c->kind == STREAM)
		streams++;
	else if (c->kind == JSON)
		completions++;
	else
		probes++;
	client_rest(c, now);
}

static void client_event(struct client *c, uint64_t now)
{
	if (!c->events++)
		times_add(&ttft, now - c->asked_ns);
	else
		times_add(&gaps, now - c->last_ns);
	c->last_ns = now;
	events++;
}

/* A byte of an event stream. */
static void sse_byte(struct client *c, char b, uint64_t now)
{
	static const char field[] = "data: {";

	if (b == '\n') {
		if (c->blank && c->event) {
			client_event(c, now);
			c->event = false;
		}
		c->blank = true;
		c->field = 0;
		return;
	}
	c->blank = false;
	if (c->field < sizeof(field) - 1) {
		c->field = b == field[c->field] ? c->field + 1 : sizeof(field);
		c->event |= c->field == sizeof(field) - 1;
	}
}

/* 0: the head goes on; else it is whole, or wrong: -1. */
static int head_bytes(struct client *c, const char *b, size_t n, size_t *used)
{
	char *end, *length;

	*used = HEAD_MAX - 1 - c->head_bytes;
	*used = *used < n ? *used : n;
	memcpy(c->head + c->head_bytes, b, *used);
	c->head[c->head_bytes + *used] = 0;
	end = strstr(c->head, "\r\n\r\n");
	if (!end) {
		c->head_bytes += *used;
		return c->head_bytes >= HEAD_MAX - 1 ? -1 : 0;
	}
	end[2] = 0;
	*used = (size_t)(end + 4 - c->head) - c->head_bytes;
	if (strncmp(c->head, "HTTP/1.1 200", 12))
		return -1;
	length = strcasestr(c->head, "\r\ncontent-length:");
	c->part = LENGTH;
	c->left = length ? strtoul(length + 17, NULL, 10) : 0;
	if (strcasestr(c->head, "\r\ntransfer-encoding: chunked")) {
		c->part = SIZE;
		c->left = 0;
		c->line = 0;
		c->over = false;
	} else if (!length) {
		return -1;
	}
	c->event = false;
	c->blank = true;
	c->field = 0;
	return 1;
}

static void size_byte(struct client *c, char b)
{
	if (b == '\n') {
		c->part = c->left ? DATA : TRAILER;
		c->left += c->left ? 2 : 0;
		c->line = 0;
	} else if (b != '\r') {
		c->left = c->left * 16 +
			  (size_t)(b <= '9' ? b - '0' : (b | 32) - 'a' + 10);
	}
}

/* Bytes of a body.  How many were used. */
static size_t body_bytes(struct client *c, const char *b, size_t n,
			 uint64_t now)
{
	size_t k = n < c->left ? n : c->left;

	switch (c->part) {
	case SIZE:
		size_byte(c, *b);
		return 1;
	case DATA:
		for (size_t i = 0; i < k; i++)
			if (c->left - i > 2)
				sse_byte(c, b[i], now);
		c->left -= k;
		if (!c->left)
			c->part = SIZE;
		return k;
	case TRAILER:
		c->over = *b == '\n' && !c->line;
		c->line = *b == '\n' ? 0 : c->line + (*b != '\r');
		return 1;
	default:
		c->left -= k;
		return k;
	}
}

static void client_bytes(struct client *c, const char *b, size_t n,
			 uint64_t now)
{
	while (n && c->part != IDLE) {
		size_t used;

		if (c->part == HEAD) {
			int whole = head_bytes(c, b, n, &used);

			if (whole < 0) {
				client_failed(c, now, "a bad head");
				return;
			}
		} else {
			used = body_bytes(c, b, n, now);
		}
		b += used;
		n -= used;
		if (c->part == TRAILER ? c->over
				       : c->part == LENGTH && !c->left)
			client_done(c, now);
		else if (c->leave_at && c->events >= c->leave_at)
			n = 0;
	}
	if (n)
		client_failed(c, now, "bytes after an answer");
	else if (c->part != IDLE && c->leave_at && c->events >= c->leave_at)
		client_leave(c, now);
}

static void client_ready(struct client *c, uint32_t ready)
{
	static char b[1 << 16];
	uint64_t now;
	ssize_t n;

	if (c->fd < 0)
		return;
	if (ready & EPOLLOUT)
		client_flush(c);
	if (!(ready & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	n = recv(c->fd, b, sizeof(b), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	now = now_ns();
	read_calls++;
	if (n > 0) {
		client_bytes(c, b, (size_t)n, now);
	} else if (c->part == IDLE) {
		client_close(c, false);
	} else {
		client_failed(c, now, "the server closed");
	}
}

/* ---- all of them --------------------------------------------------------- */

/* What is due now.  When the next is, and how many are busy. */
static uint64_t clients_due(unsigned n, uint64_t now, uint64_t end,
			    unsigned *busy)
{
	uint64_t next = now + 100000000;

	*busy = 0;
	for (unsigned i = 0; i < n; i++) {
		struct client *c = &clients[i];
		bool over = now >= end || asked >= o.requests;

		if (c->part == IDLE && !over && c->due_ns <= now)
			client_ask(c, now);
		else if (c->part != IDLE && c->due_ns && c->due_ns <= now) {
			early++;
			client_leave(c, now);
		}
		*busy += c->part != IDLE;
		if (c->due_ns > now && c->due_ns < next)
			next = c->due_ns;
	}
	return next;
}

static void clients_run(unsigned n)
{
	uint64_t start = now_ns(), end = start + o.seconds * 1000000000ull;

	for (unsigned i = 0; i < n; i++) {
		clients[i].fd = -1;
		clients[i].due_ns = start + below(n * 5000000ull);
	}
	for (;;) {
		struct epoll_event e[64];
		unsigned busy;
		uint64_t now = now_ns();
		uint64_t next = clients_due(n, now, end, &busy);
		int ready;

		if (!busy && (now >= end || asked >= o.requests))
			return;
		if (now > end + DRAIN_NS) {
			fprintf(stderr, "sse_load: %u never ended\n", busy);
			errors += busy;
			return;
		}
		ready = epoll_wait(epoll_fd, e, 64,
				   (int)((next - now + 999999) / 1000000));
		for (int i = 0; i < ready; i++)
			client_ready(e[i].data.ptr, e[i].events);
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_times(const char *name, struct times *t)
{
	static const unsigned wanted[] = { 50, 90, 95, 99 };

	qsort(t->us, t->n, sizeof(*t->us), compare);
	printf(",\"%s\":{\"n\":%zu", name, t->n);
	for (unsigned i = 0; t->n && i < 4; i++)
		printf(",\"p%u_us\":%u", wanted[i],
		       t->us[(t->n - 1) * wanted[i] / 100]);
	printf("}");
}

static int option(const char *text)
{
	const char *is = strchr(text, '=');

	for (size_t i = 0; is && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(text, names[i].name, (size_t)(is - text)) &&
		    !names[i].name[is - text]) {
			*names[i].value = strtoull(is + 1, NULL, 10);
			return 0;
		}
	fprintf(stderr, "sse_load: no option %s\n", text);
	return 2;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	uint64_t start;

	if (!n || n > CLIENTS_MAX)
		return 2;
	for (int i = 3; i < argc; i++)
		if (option(argv[i]))
			return 2;
	port = (uint16_t)atoi(argv[1]);
	srand48((long)o.seed);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	start = now_ns();
	clients_run(n);
	printf("{\"seconds\":%.3f,\"streams\":%lu,\"completions\":%lu,"
	       "\"probes\":%lu,\"fins\":%lu,\"resets\":%lu,\"early\":%lu,"
	       "\"large\":%lu,"
	       "\"events\":%lu,\"reads\":%lu,\"errors\":%lu",
	       (double)(now_ns() - start) / 1e9, streams, completions, probes,
	       fins, resets, early, large, events, read_calls, errors);
	print_times("ttft", &ttft);
	print_times("gap", &gaps);
	printf("}\n");
	return errors ? 1 : 0;
}
