/*
 * inject_lease.h - a borrowed thread and its way home
 *
 * The order of the steps is what makes the tracer's death harmless: registers
 * are replaced only when the frame that restores them lies on the stack, the
 * signal mask and the priority only when the registers lead to that frame, and
 * at the end the registers come last.
 */
#ifndef MOETOP_TARGET_INJECT_LEASE_H
#define MOETOP_TARGET_INJECT_LEASE_H

#include "target/inject_borrow.h"
#include "target/inject_maps.h"
#include "target/inject_stop.h"

#define LEASE_NAME_BYTES 64u /* below the frame: the memfd's name, zeroes */
#define LEASE_BACK_NS 500000000ull
#define LEASE_CALL_WAIT_NS 1000000000ull /* it may wait for a processor */

struct lease {
	struct borrow *b;
	struct inject_report *r;
	struct thread_choice choice;
	struct stopped stop;
	struct cpu_saved saved;
	struct cpu_place home;      /* the frame that restores everything */
	struct cpu_place calm;      /* home, by way of an end to the urgency */
	struct cpu_place place;     /* one of both, or more calls before */
	int policy;                 /* its own scheduling policy */
	uint64_t slack_ns;          /* of its timers; 0 unknown */
	unsigned filters;           /* of seccomp; 0 none */
	struct map stack;           /* where its stack pointer is */
	bool may_be_urgent, urgent; /* it runs before all ordinary threads */
	uint64_t sigmask;
	uint64_t begin_ns;
	uint64_t code; /* of the boot code in the target, 0 none */
	bool masked;
	uint8_t around[12]; /* of the code, from 8 before where it is to be */
	struct cpu_saved step;
	uint8_t frame[LEASE_NAME_BYTES + CPU_FRAME_MAX];
};

/* The earlier of now + wait_ns and the end of the injection; the way back has
 * some more time. */
uint64_t lease_until(const struct lease *l, uint64_t wait_ns);
uint64_t lease_back_until(const struct lease *l);

uint64_t lease_page_bytes(void);

/* The control memory follows the library in its memfd. */
uint64_t lease_control_offset(const struct borrow *b);

/*
 * Write the way home: l->saved and l->sigmask are what it restores, and it ends
 * the urgency if l->may_be_urgent.  A thread whose tracer has died keeps
 * SCHED_RESET_ON_FORK: it may not drop that by itself.  false: there is no room
 * on the stack.
 */
bool lease_lay_frames(struct lease *l);

/*
 * From now on the way home leads through one more system call.  Without the
 * room for it the way stays as it was.
 */
void lease_undo_by(struct lease *l, long number, const uint64_t args[6]);

/* Real-time priority makes the kernel forget the slack of a thread's timers:
 * note it before, set it after. */
void lease_note_slack(struct lease *l);
void lease_set_slack(const struct lease *l);

/* An end to the urgency, if there is any, from here. */
void lease_calm(struct lease *l);

/*
 * One system call of the borrowed thread, which stands.  Its result, -errno as
 * the kernel gives it, or -EPROTO when the thread did not come that far.
 */
int64_t lease_call(struct lease *l, long number, const uint64_t args[6],
		   const enum inject_moment moments[3]);

/* Close and unmap what the target has of ours, before the thread goes back
 * without having started another. */
void lease_tidy(struct lease *l);

/*
 * All is as it was before: the thread stands in get_signal().  changed: it has
 * worked for us.  false: it could not be done, and the thread goes home by its
 * frame.
 */
bool lease_give_back(struct lease *l, bool changed);

/* The same from wherever it stands.  One that cannot be had any more (false)
 * goes home by its frame as well. */
bool lease_retreat(struct lease *l);

#endif
