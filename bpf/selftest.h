/*
 * selftest.h - a data source is trusted when it counts a known exchange exactly
 */
#ifndef MOETOP_BPF_SELFTEST_H
#define MOETOP_BPF_SELFTEST_H

#include <stddef.h>

#include "bpf/rungs.h"

/*
 * One SSE exchange and one abort over 127.0.0.1.  Needs programs attached,
 * counters of 0, and the own network namespace set.  0, or -EPROTO and why.
 */
int selftest_exchange(struct rung_programs *p, char *why, size_t why_bytes);

/* The same over a UNIX socket. */
int selftest_unix(struct rung_programs *p, char *why, size_t why_bytes);

/* The same for the estimate of diag.h, by its open socket: a request that waits
 * and then streams. */
int selftest_diag(int fd, char *why, size_t why_bytes);

#endif
