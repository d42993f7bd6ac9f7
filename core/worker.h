/*
 * worker.h - a thread that does what may block, and is never waited for long
 *
 * The thread calls step(arg) again and again, period_ns apart (end to start).
 * worker_stop waits WORKER_GRACE_MS at most for a step that is under way; when
 * it is stuck in a library, the thread is left to itself and calls release(arg)
 * when it comes back, or never.  So arg must not be touched after worker_stop,
 * and what it shares with the owner has a lock.
 *
 * The thread runs with all signals blocked.
 */
#ifndef MOETOP_CORE_WORKER_H
#define MOETOP_CORE_WORKER_H

#include <stdint.h>

#define WORKER_GRACE_MS 300u

struct worker;

/* 0 and *out, or -errno (arg is then still the caller's). */
int worker_start(struct worker **out, uint64_t period_ns,
		 void (*step)(void *arg), void (*release)(void *arg),
		 void *arg);
void worker_stop(struct worker *w); /* NULL is legal */

#endif
