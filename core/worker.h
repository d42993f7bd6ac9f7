/*
 * worker.h - a thread that does what may block, and is never waited for long
 *
 * The thread calls step(arg) again and again, period_ns apart (end to start).
 * worker_stop waits WORKER_GRACE_MS at most for a step that is under way; when
 * it is stuck in a library, the thread is left to itself and ends when it comes
 * back, or never.  So arg belongs to both: what they share has a lock, it must
 * not be touched after worker_stop, and the last of the two frees it.
 *
 * The thread runs with all signals blocked.
 */
#ifndef MOETOP_CORE_WORKER_H
#define MOETOP_CORE_WORKER_H

#include <stdint.h>

#define WORKER_GRACE_MS 300u

struct worker;

struct worker_job {
	uint64_t
		privileges; /* that the thread keeps, core/privileges.h; 0 none */
	void (*step)(void *arg);
	void (*end)(void *arg);  /* once, in the thread, after the last step */
	void (*free)(void *arg); /* once, after end, in either thread */
};

/* 0 and *out, or -errno (arg is then still the caller's).  job is borrowed for
 * good. */
int worker_start(struct worker **out, uint64_t period_ns,
		 const struct worker_job *job, void *arg);
/* Do the next step now. */
void worker_wake(struct worker *w);
void worker_stop(struct worker *w); /* NULL is legal */

#endif
