/*
 * traffic.h - random HTTP/1.1 exchanges over a real connection
 *
 * One thread is both ends.  Bytes are cut at random and go through a random
 * one of the system calls that move bytes.
 */
#ifndef MOETOP_TESTS_UNIT_BPF_TRAFFIC_H
#define MOETOP_TESTS_UNIT_BPF_TRAFFIC_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define TRAFFIC_PIPELINE 4
#define TRAFFIC_BYTES (1u << 17)

struct pair {
	int client, server;
};

struct traffic {
	unsigned requests, events;
};

struct text {
	char bytes[TRAFFIC_BYTES];
	size_t n;
};

static inline unsigned traffic_below(unsigned n)
{
	return (unsigned)rand() % n;
}

/* ---- sockets ------------------------------------------------------------- */

static inline int traffic_listen(int family, uint16_t *port)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_addr = in6addr_loopback };
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool six = family == AF_INET6;
	struct sockaddr *a = six ? (void *)&a6 : (void *)&a4;
	socklen_t n = six ? sizeof(a6) : sizeof(a4);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*port = 0;
	if (family == AF_UNIX) { /* the kernel gives it a name */
		const struct sockaddr_un none = { .sun_family = AF_UNIX };

		if (bind(fd, (const void *)&none, sizeof(none.sun_family)) ||
		    listen(fd, 1024))
			return -1;
		return fd;
	}
	if (fd < 0 || bind(fd, a, n) || listen(fd, 1024) ||
	    getsockname(fd, a, &n))
		return -1;
	*port = ntohs(six ? a6.sin6_port : a4.sin_port);
	return fd;
}

static inline bool traffic_connect(struct pair *p, int listener)
{
	struct sockaddr_storage a = { 0 };
	socklen_t n = sizeof(a);
	int one = 1;

	*p = (struct pair){ -1, -1 };
	if (getsockname(listener, (struct sockaddr *)&a, &n))
		return false;
	p->client = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->client < 0 || connect(p->client, (struct sockaddr *)&a, n))
		return false;
	p->server = accept(listener, NULL, NULL);
	setsockopt(p->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(p->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return p->server >= 0;
}

static inline void traffic_reset(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* ---- calls --------------------------------------------------------------- */

/* Cut n bytes into at most max pieces; the number of pieces. */
static inline int traffic_cut(struct iovec *v, int max, char *b, size_t n)
{
	int pieces = 0;

	while (n && pieces < max) {
		size_t k = 1 + traffic_below((unsigned)(n / 2 + 1));

		if (k > n || pieces == max - 1)
			k = n;
		v[pieces++] = (struct iovec){ b, k };
		b += k;
		n -= k;
	}
	return pieces;
}

static inline bool traffic_send(int fd, char *b, size_t n, unsigned largest)
{
	while (n) {
		size_t k = 1 + traffic_below(largest);
		struct iovec v[12];
		struct msghdr m = { .msg_iov = v };
		ssize_t done;

		k = k < n ? k : n;
		m.msg_iovlen = (size_t)traffic_cut(v, 12, b, k);
		switch (traffic_below(4)) {
		case 0:
			done = write(fd, b, k);
			break;
		case 1:
			done = send(fd, b, k, MSG_NOSIGNAL);
			break;
		case 2:
			done = writev(fd, v, (int)m.msg_iovlen);
			break;
		default:
			done = sendmsg(fd, &m, MSG_NOSIGNAL);
			break;
		}
		if (done <= 0)
			return false;
		b += done;
		n -= (size_t)done;
	}
	return true;
}

static inline bool traffic_recv(int fd, size_t n)
{
	static char b[TRAFFIC_BYTES];

	while (n) {
		size_t k = 1 + traffic_below(5000);
		struct iovec v[5];
		struct msghdr m = { .msg_iov = v };
		ssize_t done;

		k = k < n ? k : n;
		m.msg_iovlen = (size_t)traffic_cut(v, 5, b, k);
		switch (traffic_below(5)) {
		case 0:
			done = read(fd, b, k);
			break;
		case 1:
			done = recv(fd, b, k, 0);
			break;
		case 2:
			done = readv(fd, v, (int)m.msg_iovlen);
			break;
		case 3: /* a look that takes nothing */
			done = recv(fd, b, k, MSG_PEEK) < 0 ? -1 : 0;
			break;
		default:
			done = recvmsg(fd, &m, 0);
			break;
		}
		if (done < 0)
			return false;
		n -= (size_t)done;
	}
	return true;
}

/* ---- texts --------------------------------------------------------------- */

#define traffic_add(t, ...)                              \
	((t)->n += (size_t)snprintf((t)->bytes + (t)->n, \
				    TRAFFIC_BYTES - (t)->n, __VA_ARGS__))

/* n bytes of what framing looks like. */
static inline void traffic_body(struct text *t, unsigned n)
{
	static const char noise[] = "0\r\n\r\nPOST / HTTP/1.1\r\n";

	for (unsigned i = 0; i < n; i++)
		t->bytes[t->n++] = noise[traffic_below(sizeof(noise) - 1)];
}

static inline void traffic_chunk(struct text *t, const char *start, unsigned n)
{
	unsigned begin = (unsigned)strlen(start);

	traffic_add(t, traffic_below(3) ? "%x\r\n" : "%X;ext=1\r\n", begin + n);
	traffic_add(t, "%s", start);
	traffic_body(t, n);
	traffic_add(t, "\r\n");
}

static inline void traffic_end(struct text *t)
{
	traffic_add(t, traffic_below(3) ? "0\r\n\r\n"
					: "0\r\nX-A: b\r\nY: c\r\n\r\n");
}

static inline bool traffic_request(struct text *t)
{
	bool head = !traffic_below(10);
	unsigned body = traffic_below(3) ? traffic_below(3000) : 0;

	traffic_add(t, "%s /v1/chat/completions%s HTTP/1.1\r\n",
		    head ? "HEAD" : "POST", traffic_below(2) ? "?a=/x" : "");
	traffic_add(t, "X-content-length: 7\r\n"
		       "User-Agent: transfer-encoding: chunked\r\n");
	if (head) {
		traffic_add(t, "\r\n");
	} else if (body && !traffic_below(4)) {
		traffic_add(t, "Transfer-Encoding: chunked\r\n\r\n");
		traffic_chunk(t, "", 1 + body / 2);
		traffic_chunk(t, "x", body / 2);
		traffic_end(t);
	} else {
		traffic_add(t, "%s: %u\r\n\r\n",
			    traffic_below(2) ? "Content-Length"
					     : "content-length",
			    body);
		traffic_body(t, body);
	}
	return head;
}

/* An event, or a comment; n bytes of what framing looks like, in one line. */
static inline void traffic_event(struct text *t, unsigned n, unsigned *events)
{
	bool comment = !traffic_below(20);
	size_t line;

	traffic_add(t, comment            ? ": ping"
		       : traffic_below(5) ? "data: {"
					  : "event: x\r\ndata: [D");
	line = t->n;
	traffic_body(t, n);
	for (; line < t->n; line++)
		if (t->bytes[line] < ' ')
			t->bytes[line] = ' ';
	traffic_add(t, traffic_below(3) ? "\n\n" : "\r\n\r\n");
	*events += !comment;
}

static inline void traffic_data(struct text *t, const char *data, size_t n)
{
	traffic_add(t, traffic_below(3) ? "%zx\r\n" : "%zX;ext=1\r\n", n);
	memcpy(t->bytes + t->n, data, n);
	t->n += n;
	traffic_add(t, "\r\n");
}

/* One event a chunk, some of about the same length a chunk, or cut anywhere. */
static inline void traffic_stream(struct text *t, unsigned *events)
{
	static struct text data;
	unsigned n = 1 + traffic_below(40), way = traffic_below(4);
	size_t done = 0;

	traffic_add(t, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; "
		       "charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
	data.n = 0;
	for (unsigned i = 0; i < n; i++) {
		size_t before = data.n;

		traffic_event(&data,
			      way ? traffic_below(300)
				  : 150 + traffic_below(30),
			      events);
		if (way > 1) {
			traffic_data(t, data.bytes + before, data.n - before);
		} else if (!way && !traffic_below(3)) {
			traffic_data(t, data.bytes + done, data.n - done);
			done = data.n;
		}
	}
	traffic_add(&data, "data: [DONE]\n\n");
	while (way == 1 && done < data.n) {
		size_t k = 1 + traffic_below(done ? 400 : 7);

		k = k < data.n - done ? k : data.n - done;
		traffic_data(t, data.bytes + done, k);
		done += k;
	}
	if (!way)
		traffic_data(t, data.bytes + done, data.n - done);
	traffic_end(t);
}

static inline void traffic_response(struct text *t, bool head, unsigned *events)
{
	unsigned body = 1 + traffic_below(5000);

	if (!traffic_below(6))
		traffic_add(t, "HTTP/1.1 100 Continue\r\n\r\n");
	switch (head ? 0 : traffic_below(8)) {
	case 0:
		traffic_add(t, "HTTP/1.1 %s\r\nContent-Length: 1234\r\n\r\n",
			    head ? "200 OK" : "304 Not Modified");
		break;
	case 1:
		traffic_add(t, "HTTP/1.1 204 No Content\r\n\r\n");
		break;
	case 2:
		traffic_add(t, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n",
			    body);
		traffic_body(t, body);
		break;
	default:
		traffic_stream(t, events);
		break;
	}
}

/* One to TRAFFIC_PIPELINE requests and their responses. */
static inline bool traffic_exchange(const struct pair *p, struct traffic *sum)
{
	static struct text ask, answer;
	unsigned n = traffic_below(4) ? 1 : 1 + traffic_below(TRAFFIC_PIPELINE);

	ask.n = 0;
	answer.n = 0;
	for (unsigned i = 0; i < n; i++)
		traffic_response(&answer, traffic_request(&ask), &sum->events);
	sum->requests += n;
	return traffic_send(p->client, ask.bytes, ask.n,
			    traffic_below(3) ? 4000 : 40) &&
	       traffic_recv(p->server, ask.n) &&
	       traffic_send(p->server, answer.bytes, answer.n,
			    traffic_below(3) ? 3000 : 30) &&
	       traffic_recv(p->client, answer.n);
}

#endif
