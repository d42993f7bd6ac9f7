#include "bpf/selftest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bpf/diag.h"
#include "bpf/loopback.h"

#define SETTLE_MS 250 /* for packets of the test still on their way */

static int fail(char *why, size_t why_bytes, const char *what, int err)
{
	snprintf(why, why_bytes, "self-test: %s%s%s", what, err ? ": " : "",
		 err ? strerror(-err) : "");
	return -EPROTO;
}

static bool exact(const struct rung_programs *p)
{
	const enum endpoint e = ENDPOINT_GENERATION;
	struct request_counters c;
	struct request_gauges g;

	rung_read(p, &g, &c);
	return c.started[e] == LOOPBACK_STARTED &&
	       c.completed[e] == LOOPBACK_COMPLETED &&
	       c.client_aborted[e] == LOOPBACK_ABORTED &&
	       c.events[e] == LOOPBACK_EVENTS && !c.desyncs && !g.waiting[e] &&
	       !g.streaming[e];
}

static int exchange(struct rung_programs *p, int listener)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	int err = loopback_exchange(listener);

	for (int i = 0; !err && i < SETTLE_MS && !exact(p); i++)
		nanosleep(&ms, NULL);
	return err;
}

int selftest_exchange(struct rung_programs *p, char *why, size_t why_bytes)
{
	uint16_t port;
	int fd, err;

	err = loopback_listen(&fd, &port);
	if (err)
		return fail(why, why_bytes, "cannot listen on 127.0.0.1", err);
	rung_ports(p, &port, 1);
	err = exchange(p, fd);
	rung_ports(p, NULL, 0);
	close(fd);
	if (err)
		return fail(why, why_bytes, "no connection to 127.0.0.1", err);
	if (!exact(p))
		return fail(why, why_bytes,
			    "a known exchange was not counted exactly", 0);
	return 0;
}

int selftest_unix(struct rung_programs *p, char *why, size_t why_bytes)
{
	uint64_t inode;
	int fd, err;

	err = loopback_listen_unix(&fd, &inode);
	if (err)
		return fail(why, why_bytes, "cannot listen on a UNIX socket",
			    err);
	err = rung_unix(p, &inode, 1);
	if (!err) {
		err = exchange(p, fd);
		rung_unix(p, NULL, 0);
	}
	close(fd);
	if (err)
		return fail(why, why_bytes, "no connection by a UNIX socket",
			    err);
	if (!exact(p))
		return fail(why, why_bytes,
			    "a known exchange was not counted exactly", 0);
	return 0;
}

static int see(int fd, uint16_t port, uint32_t waiting, uint32_t streaming)
{
	struct diag_counts c;
	int err = diag_read(fd, &port, 1, &c);

	if (err)
		return err;
	return c.waiting == waiting && c.streaming == streaming ? 0 : -EPROTO;
}

int selftest_diag(int fd, char *why, size_t why_bytes)
{
	const struct timespec pause = { .tv_nsec = 2 * DIAG_EARLY_HEAD_MS *
						   1000000l };
	int listener, client, server, err;
	uint16_t port;

	err = loopback_listen(&listener, &port);
	if (err)
		return fail(why, why_bytes, "cannot listen on 127.0.0.1", err);
	err = loopback_ask(listener, &client, &server);
	close(listener);
	if (err)
		return fail(why, why_bytes, "no connection to 127.0.0.1", err);
	err = see(fd, port, 1, 0);
	if (!err) {
		nanosleep(&pause, NULL);
		err = loopback_stream(server);
	}
	if (!err)
		err = see(fd, port, 0, 1);
	close(client);
	close(server);
	return err ? fail(why, why_bytes, "socket times say nothing", err) : 0;
}
