#include "target/inject_stop.h"
#include "wire/clock.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

/* A stop comes within some ten microseconds, or waits for a processor. */
#define SPIN_NS 100000u
#define REST_NS 20000

void (*inject_moment_hook)(enum inject_moment m);

void inject_moment(enum inject_moment m)
{
	if (inject_moment_hook)
		inject_moment_hook(m);
}

int stop_seize(struct stopped *s, pid_t tid)
{
	/* Without TRACESYSGOOD a thread whose tracer dies at a system call
	 * would get SIGTRAP, and that kills it. */
	const long options = PTRACE_O_TRACESYSGOOD;

	*s = (struct stopped){ .tid = tid, .ran_ns = clock_now_ns() };
	if (ptrace(PTRACE_SEIZE, tid, NULL, options) ||
	    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
		return -errno;
	return 0;
}

static enum stop classify(struct stopped *s, int status)
{
	if (!WIFSTOPPED(status))
		return STOP_GONE;
	s->signal = WSTOPSIG(status);
	s->stops++;
	if (status >> 16 == PTRACE_EVENT_STOP)
		return s->signal == SIGTRAP ? STOP_TRAP : STOP_GROUP;
	if (s->signal == (SIGTRAP | 0x80))
		return STOP_CALL;
	return STOP_SIGNAL;
}

enum stop stop_wait(struct stopped *s, uint64_t deadline_ns)
{
	const struct timespec rest = { .tv_nsec = REST_NS };
	uint64_t begin_ns = clock_now_ns(), now_ns = begin_ns;
	int status;

	for (;;) {
		pid_t got = waitpid(s->tid, &status, __WALL | WNOHANG);

		if (got == s->tid)
			return s->at = classify(s, status);
		if (got < 0 && errno != EINTR)
			return s->at = STOP_GONE;
		s->ran_ns = now_ns;
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return s->at = STOP_NONE;
		if (now_ns - begin_ns < SPIN_NS)
			sched_yield();
		else
			nanosleep(&rest, NULL);
	}
}

int stop_go(struct stopped *s, bool to_call, int signal)
{
	s->at = STOP_NONE;
	if (ptrace(to_call ? PTRACE_SYSCALL : PTRACE_CONT, s->tid, NULL,
		   (long)signal))
		return -errno;
	return 0;
}

bool stop_go_past(struct stopped *s, bool to_call)
{
	if (s->at == STOP_TRAP || s->at == STOP_GROUP)
		return !stop_go(s, to_call, 0);
	if (s->at == STOP_SIGNAL && s->signal == SIGSTOP) /* is never masked */
		return !stop_go(s, to_call, SIGSTOP);
	return false;
}

bool stop_is_settled(const struct stopped *s)
{
	return s->at == STOP_TRAP || s->at == STOP_GROUP ||
	       s->at == STOP_SIGNAL;
}

bool stop_settle(struct stopped *s, uint64_t deadline_ns)
{
	bool asked = false;

	while (!stop_is_settled(s)) {
		/* Asked for while it stands, the stop comes before it does
		 * anything else. */
		if (!asked && ptrace(PTRACE_INTERRUPT, s->tid, NULL, NULL))
			return false;
		asked = true;
		if (s->at != STOP_NONE && stop_go(s, false, 0))
			return false;
		stop_wait(s, deadline_ns);
		if (s->at == STOP_NONE || s->at == STOP_GONE)
			return false;
	}
	return true;
}

int stop_sent_signal(const struct stopped *s)
{
	siginfo_t info;

	/* from the kernel: the code that ran has earned it */
	if (s->at != STOP_SIGNAL ||
	    ptrace(PTRACE_GETSIGINFO, s->tid, NULL, &info) || info.si_code > 0)
		return 0;
	return s->signal;
}

void stop_detach(struct stopped *s)
{
	ptrace(PTRACE_DETACH, s->tid, NULL, (long)stop_sent_signal(s));
	s->at = STOP_NONE;
}

void stop_let_go(pid_t tid)
{
	struct stopped s = { .tid = tid };
	enum stop at = stop_wait(&s, 0);

	if (at != STOP_NONE && at != STOP_GONE)
		ptrace(PTRACE_DETACH, tid, NULL,
		       (long)(at == STOP_SIGNAL ? s.signal : 0));
}
