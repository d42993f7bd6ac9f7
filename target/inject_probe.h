/*
 * inject_probe.h - what can be known about a target without stopping it
 */
#ifndef MOETOP_TARGET_INJECT_PROBE_H
#define MOETOP_TARGET_INJECT_PROBE_H

#include "target/inject.h"
#include "target/inject_arch.h"
#include "target/inject_thread.h"

#include "wire/boot.h"

#define INJECT_CODE_MAX 16u

struct inject_target {
	pid_t pid;
	int pidfd;
	struct thread_code code[INJECT_CODE_MAX]; /* of the C library */
	unsigned n_code;
	struct cpu_gadgets gadgets;
	struct boot_control functions; /* only its addresses of functions */
	unsigned agents; /* libraries of ours that are mapped already */
	bool has_proc;   /* it sees a /proc */
	bool audited;    /* LD_AUDIT is set */
	uid_t uid;
	gid_t gid;
};

/* What /proc/PID/status says. */
struct probe_status {
	char state; /* 'R', 'S', ...; 0 unknown */
	unsigned threads;
	pid_t tracer;
	int seccomp;      /* 0 none, 1 strict, 2 filters */
	unsigned filters; /* how many */
	bool shadow_stack;
	uid_t uid;
	gid_t gid;
};
void probe_parse_status(const char *text, struct probe_status *out);

/*
 * Look at pid; *t is filled and its pidfd open if 0 is returned, else *r says
 * why not.  Free with probe_close.
 */
int probe_open(struct inject_target *t, pid_t pid, struct inject_report *r);
void probe_close(struct inject_target *t);

/*
 * Become the one that injects into this process, until probe_close or our death.
 * 0, or the refusal when another does so, or has done so by now.
 */
int probe_lock(const struct inject_target *t, struct inject_report *r);

/* The process has ended since it was opened. */
bool probe_has_ended(const struct inject_target *t);

/* What went wrong with a process that has ended is that: err and *r as they are,
 * or the refusal for it. */
int probe_blame(const struct inject_target *t, int err,
		struct inject_report *r);

/* The -errno that goes with a refusal. */
int probe_error(enum inject_refusal r);

/* Put a refusal with its sentences into *r; fix may be NULL.  Returns -errno. */
int probe_refuse(struct inject_report *r, enum inject_refusal refusal,
		 const char *fix, const char *why, ...)
	__attribute__((format(printf, 4, 5)));

/* The refusal for a tracer's request that failed with err on pid. */
int probe_denied(struct inject_report *r, pid_t pid, int err);

#endif
