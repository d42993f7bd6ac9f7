/*
 * tls_follow.h - the tracker reads the plain text of the processes that serve
 *
 * Those that hold a listening port and have a libssl; looked for again when the
 * tree or its ports have changed, and from time to time, since a library may be
 * loaded late.
 */
#ifndef MOETOP_CORE_TLS_FOLLOW_H
#define MOETOP_CORE_TLS_FOLLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tracker;

#define TLS_FOLLOW_AGAIN_NS 10000000000ull

struct tls_follow {
	uint64_t looked_ns; /* 0: never */
	unsigned libraries; /* found, in processes that serve */
	unsigned without;   /* such processes that have none */
	int err;            /* why one of them is not followed, or 0 */
};

/* Of pids, whose first is in the network namespace of the ports. */
void tls_follow(struct tls_follow *f, struct tracker *t, const pid_t *pids,
		unsigned n, const uint16_t *ports, unsigned n_ports,
		uint64_t now_ns);

/* One process, whether it serves or not. */
void tls_follow_process(struct tls_follow *f, struct tracker *t, pid_t pid);

/* For people: why the plain text is not followed, "" when nothing is amiss. */
const char *tls_follow_why(const struct tls_follow *f);

/* For people, to be appended: "; TLS: 3 of 4 connections ..."; "" without TLS. */
void tls_follow_say(const struct tls_follow *f, uint64_t connections,
		    uint64_t inferred, char *out, size_t bytes);

#endif
