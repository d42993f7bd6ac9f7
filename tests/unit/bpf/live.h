/*
 * live.h - the real tracker on connections of the test process; needs root
 *
 * One tracker and one listener for all tests of a program; `since` is what was
 * counted since the test began.  With OVER_UNIX it is a UNIX socket.
 */
#ifndef MOETOP_TESTS_UNIT_BPF_LIVE_H
#define MOETOP_TESTS_UNIT_BPF_LIVE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "bpf/tracker.h"
#include "tests/unit/bpf/traffic.h"

#ifndef RUNG
#define RUNG NULL /* the best one that there is */
#endif
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

static inline void look(void)
{
	tracker_read(tracker, &gauges, &now);
}

#ifdef OVER_UNIX
#define FAMILY AF_UNIX
#else
#define FAMILY AF_INET
#endif

static inline uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static inline int open_tracker(void **state)
{
	char why[200] = "";
	struct tracker_config config = { .ports = &port,
					 .n_ports = FAMILY != AF_UNIX,
					 .n_unix = FAMILY == AF_UNIX,
					 .rung = RUNG };
	uint64_t inode;
	int err;

	(void)state;
	listener = traffic_listen(FAMILY, &port);
	inode = inode_of(listener);
	config.unix_inodes = &inode;
	err = tracker_open(&tracker, &config, why, sizeof(why));
	if (err)
		print_error("# tracker_open: %s (%s)\n", why, strerror(-err));
	return err;
}

/* A kernel need not have every source, but at least one. */
static inline bool refused(void)
{
	const uint16_t any = 9;
	const uint64_t none = 1;
	struct tracker_config config = { .ports = &any,
					 .n_ports = FAMILY != AF_UNIX,
					 .unix_inodes = &none,
					 .n_unix = FAMILY == AF_UNIX,
					 .rung = RUNG };
	struct tracker *t;
	char why[200];
	int err = tracker_open(&t, &config, why, sizeof(why));

	if (!err)
		tracker_close(t);
	if (err != -EACCES && err != -EOPNOTSUPP)
		return false;
	if (config.rung)
		printf("1..1\nok 1 - not on this kernel: %s\n", why);
	else
		printf("1..0 # SKIP no source at all: %s\n", why);
	return true;
}

static inline int close_tracker(void **state)
{
	(void)state;
	tracker_close(tracker);
	close(listener);
	return 0;
}

static inline int remember(void **state)
{
	(void)state;
	tracker_drain(tracker, NULL, NULL);
	look();
	before = now;
	return 0;
}

#define since(field) (now.field - before.field)

static inline int64_t in_flight(void)
{
	int64_t sum = 0;

	for (unsigned e = 0; e < ENDPOINTS; e++)
		sum += gauges.waiting[e] + gauges.streaming[e];
	return sum;
}

/* Closing takes a moment to reach the other end. */
static inline bool comes_to_rest(uint64_t ended)
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

static inline void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static inline void hear(int fd, const char *text)
{
	assert_true(traffic_recv(fd, strlen(text)));
}

/* A request that is being answered, up to its first event. */
static inline void begin_stream(const struct pair *p)
{
	say(p->client, POST);
	hear(p->server, POST);
	say(p->server, SSE);
	say(p->server, EVENT);
	hear(p->client, SSE EVENT);
}

static inline void connect_pair(struct pair *p)
{
	assert_true(traffic_connect(p, listener));
}

#define test_on(f) cmocka_unit_test_setup(f, remember)

#endif
