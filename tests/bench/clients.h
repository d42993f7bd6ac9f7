/*
 * clients.h - clients of an event stream, and what they saw
 */
#ifndef MOETOP_TESTS_BENCH_CLIENTS_H
#define MOETOP_TESTS_BENCH_CLIENTS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1000u
#define RING (1u << 21) /* of what clients saw */

/* Written by the clients, who are another process. */
struct seen {
	_Atomic uint64_t events;
	uint32_t delay_us[RING], gap_us[RING];
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static const char ask[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
			  "Content-Type: application/json\r\n"
			  "Content-Length: 2\r\n\r\n{}";

static void event_seen(struct seen *seen, uint64_t due_ns, uint64_t now,
		       uint64_t *last_ns)
{
	uint64_t i = atomic_load(&seen->events) % RING;

	/* a timer may be early by its resolution */
	seen->delay_us[i] =
		now > due_ns ? (uint32_t)((now - due_ns) / 1000) : 0;
	seen->gap_us[i] = *last_ns ? (uint32_t)((now - *last_ns) / 1000) : 0;
	*last_ns = now;
	atomic_fetch_add(&seen->events, 1);
}

/*
 * The events that begin in these bytes, each with the time when it was due if
 * the server says so.  Returns how many bytes at the end must be seen again,
 * with those that follow: the beginning of an event.
 */
static size_t see(struct seen *seen, const char *b, size_t n, uint64_t *last_ns)
{
	static const char mark[] = "data: {\"t\":";
	const size_t m = sizeof(mark) - 1;
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	const char *end = b + n, *at;

	while ((at = memmem(b, (size_t)(end - b), mark, m))) {
		uint64_t due_ns = 0;

		for (b = at + m; b < end && *b >= '0' && *b <= '9'; b++)
			due_ns = due_ns * 10 + (uint64_t)(*b - '0');
		if (b == end)
			return (size_t)(end - at);
		event_seen(seen, due_ns, now, last_ns);
	}
	return (size_t)(end - b) < m ? (size_t)(end - b) : m - 1;
}

struct client {
	int fd;
	uint64_t last_ns;
	char tail[64]; /* of what was read */
	size_t tail_bytes;
};

static void client_begin(struct client *c, const struct sockaddr_in *a)
{
	*c = (struct client){ .fd = socket(AF_INET, SOCK_STREAM, 0) };
	if (connect(c->fd, (const struct sockaddr *)a, sizeof(*a)) ||
	    write(c->fd, ask, sizeof(ask) - 1) < 0)
		fail("connect");
}

/* false: the connection is closed. */
static bool client_read(struct client *c, struct seen *seen)
{
	static char b[sizeof(c->tail) + (1 << 16)];
	ssize_t got;
	size_t n;

	memcpy(b, c->tail, c->tail_bytes);
	got = read(c->fd, b + c->tail_bytes, sizeof(b) - sizeof(c->tail));
	if (got <= 0) {
		close(c->fd);
		return false;
	}
	n = c->tail_bytes + (size_t)got;
	c->tail_bytes = see(seen, b, n, &c->last_ns);
	memcpy(c->tail, b + n - c->tail_bytes, c->tail_bytes);
	return true;
}

/* Ask once on each connection, then read until all are closed. */
static void be_clients(struct seen *seen, uint16_t port, unsigned n)
{
	static struct client clients[CONNECTIONS_MAX];
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	unsigned open = n;
	struct epoll_event e = { .events = EPOLLIN }, got[64];
	int poll;

	/* what we inherit would stay attached for as long as we live */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	poll = epoll_create1(0);
	for (unsigned i = 0; i < n; i++) {
		client_begin(&clients[i], &a);
		e.data.u32 = i;
		if (epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &e))
			fail("epoll");
	}
	while (open) {
		int ready = epoll_wait(poll, got, 64, -1);

		for (int i = 0; i < ready; i++)
			if (!client_read(&clients[got[i].data.u32], seen))
				open--;
	}
	_exit(0);
}

#endif
