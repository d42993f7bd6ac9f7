/*
 * inject_thread.h - which thread to borrow
 *
 * Only one that waits in a call that neither malloc nor the loader ever makes:
 * a thread in any other call may hold one of their locks, and starting a thread
 * takes them.  The calls are a list of what is safe, not of what is not.
 */
#ifndef MOETOP_TARGET_INJECT_THREAD_H
#define MOETOP_TARGET_INJECT_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct thread_call {
	long call; /* system call, -1: it runs */
	uint64_t args[6];
	uint64_t sp, pc;
};

/* Text of /proc/PID/task/TID/syscall.  0, -EAGAIN it runs, -EINVAL. */
int thread_parse_call(const char *text, struct thread_call *out);

struct thread_choice {
	pid_t tid;
	struct thread_call at;
	bool endless;  /* the call is known to have no time-out */
	unsigned rank; /* lower is better */
};

/*
 * May a thread be borrowed out of this call, and how gladly: 0 .. 5, the best
 * first; -1 never, then *endless is left alone.  *endless: it is known to have no
 * time-out.  pidfd: of its process, to ask a socket.
 */
int thread_rank(const struct thread_call *at, int pidfd, bool *endless);

/*
 * Of a call whose remaining time is lost: is beginning again, late by at most
 * its time-out, better than EINTR?  So for poll with up to 10 s: programs take
 * EINTR from sleeping calls, where the kernel has noted the rest, but some take
 * it for an error of poll.
 */
bool thread_may_begin_again(const struct thread_call *at);

/*
 * restart_syscall hides the call that was interrupted before.  The kernel
 * function that the thread sleeps in tells it, if it is one of those above.
 */
bool thread_wchan_is_parked(const char *wchan);

/*
 * The threads of pid that may be borrowed, best first, at most max.  A main
 * thread comes after others of its kind, and the event threads of CUDA and ZMQ
 * before.  code says where the calls must come from: pc within one of n ranges.
 * Returns how many, or -errno; *looked counts the threads seen.
 */
struct thread_code {
	uint64_t start, end;
};
int thread_choose(pid_t pid, int pidfd, const struct thread_code *code,
		  unsigned n, struct thread_choice *out, unsigned max,
		  unsigned *looked);

#endif
