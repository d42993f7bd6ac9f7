/*
 * requests_cost.c - what the request tracker adds to one write of an SSE event
 *
 *	requests_cost [CONNECTIONS [EVENTS_PER_SECOND [SECONDS [SOURCES]]]]
 *
 * One process writes events to its connections all the time, as fast as it can
 * with a rate of 0, while the programs are attached and detached in turns.  Each
 * phase with them is compared with the two around it, so that what else the
 * machine does cancels out: median of the differences in CPU time per write,
 * with its 95 % bootstrap interval.  SOURCES are the letters of the data
 * sources to measure, one after the other; all that this kernel has by default.
 * Needs root.
 */
#include "bpf/rungs.h"

#include <bpf/libbpf.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1000u
#define PHASE_NS 150000000ull
#define PHASES_MAX 1000u
#define RESAMPLES 2000u
#define DATA_BYTES 310u

struct bench {
	const struct rung *rung;
	struct rung_programs bpf;
	unsigned connections, rate;
	int server[CONNECTIONS_MAX];
	char event[DATA_BYTES + 16];
	size_t event_bytes;
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

/* ---- the connections ----------------------------------------------------- */

static int listen_on(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)a, n) ||
	    listen(fd, CONNECTIONS_MAX) ||
	    getsockname(fd, (struct sockaddr *)a, &n))
		fail("listen");
	return fd;
}

/* Ask once on each connection, then read until all are closed. */
static void be_clients(const struct sockaddr_in *a, unsigned n)
{
	static const char ask[] = "POST /v1/completions HTTP/1.1\r\n\r\n";
	static struct pollfd p[CONNECTIONS_MAX];
	static char b[1 << 16];
	unsigned open = n;

	for (unsigned i = 0; i < n; i++) {
		p[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		p[i].events = POLLIN;
		if (connect(p[i].fd, (const struct sockaddr *)a, sizeof(*a)) ||
		    write(p[i].fd, ask, sizeof(ask) - 1) < 0)
			fail("connect");
	}
	while (open && poll(p, n, -1) > 0)
		for (unsigned i = 0; i < n; i++)
			if (p[i].revents && read(p[i].fd, b, sizeof(b)) <= 0) {
				close(p[i].fd);
				p[i].fd = -1;
				open--;
			}
	_exit(0);
}

static void accept_all(struct bench *b, int listener)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n"
				   "content-type: text/event-stream\r\n"
				   "transfer-encoding: chunked\r\n\r\n";
	char ask[256];
	int one = 1;

	for (unsigned i = 0; i < b->connections; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || read(fd, ask, sizeof(ask)) <= 0 ||
		    write(fd, head, sizeof(head) - 1) < 0)
			fail("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		b->server[i] = fd;
	}
}

/* ---- phases -------------------------------------------------------------- */

static void pace(const struct bench *b, uint64_t begin_ns, uint64_t written)
{
	uint64_t due_ns = begin_ns + written * 1000000000u / b->rate;
	struct timespec t = { .tv_sec = (time_t)(due_ns / 1000000000u),
			      .tv_nsec = (long)(due_ns % 1000000000u) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* CPU time of one write, in ns. */
static double phase(struct bench *b)
{
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), written = 0;
	uint64_t cpu_ns = 0;

	while (now_ns(CLOCK_MONOTONIC) - begin_ns < PHASE_NS) {
		uint64_t t = now_ns(CLOCK_THREAD_CPUTIME_ID);

		for (unsigned i = 0; i < b->connections; i++)
			if (write(b->server[i], b->event, b->event_bytes) !=
			    (ssize_t)b->event_bytes)
				fail("write");
		cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - t;
		written += b->connections;
		if (b->rate)
			pace(b, begin_ns, written);
	}
	return (double)cpu_ns / (double)written;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void report(const struct bench *b, double *off, unsigned n_off,
		   double *diff, unsigned n)
{
	static double medians[RESAMPLES], sample[PHASES_MAX];
	double base, extra;

	for (unsigned k = 0; k < RESAMPLES; k++) {
		for (unsigned i = 0; i < n; i++)
			sample[i] = diff[(unsigned)rand() % n];
		medians[k] = median(sample, n);
	}
	qsort(medians, RESAMPLES, sizeof(*medians), ascending);
	base = median(off, n_off);
	extra = median(diff, n);
	printf("%s: %u connections, %u events/s: %.0f ns/write without, %+.0f "
	       "ns "
	       "[%+.0f, %+.0f] with = %+.1f %%, %u pairs\n",
	       b->rung->letter, b->connections, b->rate, base, extra,
	       medians[RESAMPLES * 25 / 1000], medians[RESAMPLES * 975 / 1000],
	       100 * extra / base, n);
}

static void measure(struct bench *b, unsigned seconds)
{
	static double off[PHASES_MAX], diff[PHASES_MAX];
	unsigned pairs = (unsigned)(seconds * 1000000000ull / PHASE_NS / 2);
	unsigned n_off = 0;

	pairs = pairs < PHASES_MAX - 1 ? pairs : PHASES_MAX - 1;
	rung_detach(&b->bpf);
	off[n_off++] = phase(b);
	for (unsigned i = 0; i < pairs; i++) {
		double on;

		if (rung_attach(&b->bpf))
			fail("attach");
		on = phase(b);
		rung_detach(&b->bpf);
		off[n_off++] = phase(b);
		diff[i] = on - (off[n_off - 1] + off[n_off - 2]) / 2;
	}
	report(b, off, n_off, diff, pairs);
}

static bool load(struct bench *b, const struct rung *rung, uint16_t port)
{
	struct stat st;

	b->rung = rung;
	if (stat("/proc/self/ns/net", &st) || rung_load(rung, &b->bpf))
		return false;
	b->bpf.shared->netns_inode = (uint32_t)st.st_ino;
	rung_ports(&b->bpf, &port, 1);
	if (!rung_attach(&b->bpf))
		return true;
	rung_close(&b->bpf);
	return false;
}

/* On connections of its own, which it has seen from their first byte. */
static void measure_rung(struct bench *b, const struct rung *rung,
			 unsigned seconds)
{
	const struct request_counters *c;
	struct sockaddr_in a;
	int listener = listen_on(&a);
	pid_t clients;

	if (!load(b, rung, ntohs(a.sin_port))) {
		printf("%s: not on this kernel, or not with these rights\n",
		       rung->letter);
		close(listener);
		return;
	}
	fflush(stdout);
	clients = fork();
	if (!clients)
		be_clients(&a, b->connections);
	accept_all(b, listener);
	measure(b, seconds);
	c = &b->bpf.shared->counters;
	if (c->desyncs > c->resyncs)
		puts("the framing was lost: the cost is not that of following");
	if (!c->events[ENDPOINT_GENERATION])
		puts("no event was counted: the cost is not that of following");
	if (rung_missed(&b->bpf))
		puts("calls were missed");
	for (unsigned i = 0; i < b->connections; i++)
		close(b->server[i]);
	close(listener);
	waitpid(clients, NULL, 0);
	rung_close(&b->bpf);
}

int main(int argc, char **argv)
{
	struct bench b = {
		.connections = argc > 1 ? (unsigned)atoi(argv[1]) : 64,
		.rate = argc > 2 ? (unsigned)atoi(argv[2]) : 0,
	};
	unsigned seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 12;
	const char *letters = argc > 4 ? argv[4] : "KFPCS";

	if (!b.connections || b.connections > CONNECTIONS_MAX || !seconds)
		return 2;
	libbpf_set_print(NULL);
	b.event_bytes = (size_t)snprintf(b.event, sizeof(b.event),
					 "%x\r\ndata: ", DATA_BYTES);
	memset(b.event + b.event_bytes, 'x', DATA_BYTES - 8);
	b.event_bytes += DATA_BYTES - 8;
	memcpy(b.event + b.event_bytes, "\n\n\r\n", 4);
	b.event_bytes += 4;
	for (unsigned i = 0; i < RUNGS; i++)
		if (strstr(letters, rungs[i].letter))
			measure_rung(&b, &rungs[i], seconds);
	return 0;
}
