/*
 * inject.h - load the agent into a running process
 *
 * One thread of the process is borrowed for some hundred microseconds: one that
 * is parked in a call which malloc and the loader never make.  It makes two
 * system calls and starts a thread of its own kind (pthread_create); that thread
 * loads the library and calls InitializeInjection while the borrowed one is
 * back at its work.  Every register, the vector state and the signal mask are
 * put back, and the interrupted system call goes on.
 *
 * At every moment the borrowed thread is left such that it finds back by itself,
 * so that SIGKILL to the tracer (or to the whole machine room of moetop) cannot
 * harm the process.  docs/ATTACH.md tells how.
 *
 * All calls of one injection come from one thread: ptrace is per thread.  The
 * caller may block for at most INJECT_LIMIT_NS.
 */
#ifndef MOETOP_TARGET_INJECT_H
#define MOETOP_TARGET_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INJECT_LIMIT_NS 3000000000ull

/* Why there is no agent afterwards.  The process goes on in every case. */
enum inject_refusal {
	INJECT_OK,
	INJECT_NO_PROCESS,   /* gone, or dying */
	INJECT_DENIED,       /* yama, an LSM, or no CAP_SYS_PTRACE */
	INJECT_TRACED,       /* by a debugger, or another moetop */
	INJECT_STOPPED,      /* SIGSTOP, Ctrl-Z, freezer */
	INJECT_STATIC,       /* no libc to call: statically linked */
	INJECT_LIBC,         /* musl, or a glibc without what we need */
	INJECT_MACHINE,      /* 32-bit, or another architecture */
	INJECT_SECCOMP,      /* strict, or its filter forbids our calls */
	INJECT_SHADOW_STACK, /* control-flow guard forbids a borrowed return */
	INJECT_BUSY,         /* no thread to borrow within a second */
	INJECT_LOAD,         /* dlopen or the agent said no: see why */
	INJECT_PRESENT,      /* an agent is there: use its ring */
	INJECT_TIMEOUT,      /* the new thread did not report in time */
	INJECT_IMAGE,        /* the library to load is no agent of ours */
	INJECT_REFUSALS
};

/* What an attach did, for the log and for doctor. */
struct inject_report {
	enum inject_refusal refusal;
	pid_t thread;      /* that was borrowed, 0 none */
	int call;          /* number of the system call it was in */
	unsigned tries;    /* threads that we asked to stop */
	unsigned stops;    /* ptrace stops */
	uint64_t pause_ns; /* from the borrowed thread's stop to its release */
	uint64_t load_ns;  /* dlopen and InitializeInjection */
	char why[160];     /* one line for people, "" when all is well; with
			      INJECT_OK something to know */
	char fix[160];     /* what to do, "" nothing */
};

/* The shared library to inject: a file's whole content, borrowed. */
struct inject_image {
	const void *data;
	size_t bytes;
};

/*
 * Load the image into pid (a process, not a thread).  Returns 0, or -errno that
 * goes with r->refusal; *r is always filled.  Afterwards the agent's ring can be
 * found among the descriptors of pid.
 */
int inject(pid_t pid, const struct inject_image *image,
	   struct inject_report *r);

/* Would it work?  Everything that can be known without stopping a thread; fills
 * *r as inject would.  0 or -errno. */
int inject_check(pid_t pid, struct inject_report *r);

/* "static", "seccomp", ...: one word for JSON. */
const char *inject_refusal_name(enum inject_refusal r);

#endif
