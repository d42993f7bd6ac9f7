/*
 * inject_stop.h - the stops of one traced thread, each wait bounded
 *
 * All from one thread of ours: when it ends, however it ends, the kernel lets
 * the traced thread run on.
 */
#ifndef MOETOP_TARGET_INJECT_STOP_H
#define MOETOP_TARGET_INJECT_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum stop {
	STOP_NONE,   /* it runs, or did not stop in time */
	STOP_TRAP,   /* by our interrupt; inside get_signal() */
	STOP_GROUP,  /* by SIGSTOP and its like */
	STOP_CALL,   /* at the entry or exit of a system call */
	STOP_SIGNAL, /* a signal is about to be delivered; see signal */
	STOP_GONE    /* the thread has ended */
};

struct stopped {
	pid_t tid;
	enum stop at;
	int signal;
	unsigned stops;
	uint64_t ran_ns; /* when it was last seen not to stand */
};

/* Trace tid and ask it to stop.  0 or -errno. */
int stop_seize(struct stopped *s, pid_t tid);

/* Wait for the next stop, until deadline_ns.  Sets and returns s->at. */
enum stop stop_wait(struct stopped *s, uint64_t deadline_ns);

/* Go on to the next system call's entry or exit, or freely. */
int stop_go(struct stopped *s, bool to_call, int signal);

/* Job control may stop a thread at any moment: let it go on, so that it stops
 * with the others when it is let go.  false: it stands for another reason. */
bool stop_go_past(struct stopped *s, bool to_call);

/* Does it stand inside get_signal(), where a system call can be resumed? */
bool stop_is_settled(const struct stopped *s);

/* Bring a thread that stands at a system call, or runs, into such a stop; one
 * that stands does nothing of its own on the way.  false: it cannot be had. */
bool stop_settle(struct stopped *s, uint64_t deadline_ns);

/* The signal that somebody sent and that STOP_SIGNAL is about, else 0. */
int stop_sent_signal(const struct stopped *s);

/* Let go of a stopped thread, for good.  A signal that was sent to it and found
 * it in STOP_SIGNAL is delivered. */
void stop_detach(struct stopped *s);

/* Of one that did not stop in time: let it go at once if it stands by now. */
void stop_let_go(pid_t tid);

/*
 * The steps of an injection at which a test may end the tracer: each is passed
 * when it is done.  docs/ATTACH.md says what becomes of the target then.
 */
enum inject_moment {
	MOMENT_SEIZED,
	MOMENT_STOPPED,
	MOMENT_FRAME,
	MOMENT_MEMFD_SET,
	MOMENT_MASKED,
	MOMENT_URGENT,
	MOMENT_MEMFD_ENTERED,
	MOMENT_MEMFD_LEFT,
	MOMENT_MEMFD_FILLED,
	MOMENT_MMAP_SET,
	MOMENT_MMAP_ENTERED,
	MOMENT_MMAP_LEFT,
	MOMENT_BOOT_SET,
	MOMENT_BOOT_RUNS,
	MOMENT_MADE,
	MOMENT_BACK,
	MOMENT_CALM,
	MOMENT_VECTOR,
	MOMENT_UNMASKED,
	MOMENT_RESTORED,
	MOMENT_RELEASED,
	MOMENT_LIBRARY,
	MOMENT_LOADED,
	MOMENTS
};
extern void (*inject_moment_hook)(enum inject_moment m); /* NULL but in tests */
void inject_moment(enum inject_moment m);

#endif
