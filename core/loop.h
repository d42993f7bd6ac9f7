/*
 * loop.h - one thread that waits for descriptors, timers and signals
 *
 * Callbacks run one at a time, on the thread of loop_run, in this order within
 * one wake-up: signals, timers (by deadline, equal ones in the order they were
 * made), descriptors.  So a tick that is due together with a snapshot runs
 * first when it was made first.
 *
 * A timer keeps its phase; periods that a slow callback made it miss are left
 * out, not caught up.
 */
#ifndef MOETOP_CORE_LOOP_H
#define MOETOP_CORE_LOOP_H

#include <stdint.h>

#define LOOP_FDS_MAX 32u
#define LOOP_TIMERS_MAX 8u

struct loop;

/* 0 and *out (free with loop_free), or -errno. */
int loop_new(struct loop **out);

/* Call fn(arg) whenever fd is readable.  -ENOSPC, -EEXIST, -EPERM (a plain
 * file), -errno.  The descriptor stays the caller's. */
int loop_watch(struct loop *l, int fd, void (*fn)(void *arg), void *arg);

/* Forget fd, before it is closed; one that is not watched is no error. */
void loop_unwatch(struct loop *l, int fd);

/* Call fn(arg) every period_ns (> 0), first after one period.  The timer's
 * number, or -ENOSPC. */
int loop_every(struct loop *l, uint64_t period_ns, void (*fn)(void *arg),
	       void *arg);

/* Another period for a timer, from now on. */
void loop_set_period(struct loop *l, int timer, uint64_t period_ns);

/*
 * Call fn(arg, signo) for these signals, which end with 0; they are blocked in
 * the calling thread and in those it makes, until loop_free.  Once per loop.
 */
int loop_signals(struct loop *l, const int *signals,
		 void (*fn)(void *arg, int signo), void *arg);

/* Run until loop_stop; returns its result, or -errno. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l, int result);

void loop_free(struct loop *l); /* NULL is legal */

#endif
