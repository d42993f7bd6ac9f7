/*
 * attach.h - bring the agent into processes that run without it
 *
 * A thread of its own injects into one process after the other (ptrace belongs
 * to a thread, and an injection may take a second), so that whoever asks never
 * waits.  A refusal that may pass (no thread to borrow, stopped, traced) is
 * tried again after 1, 2, 4 .. 32 s; any other stands for the life of the
 * process.
 *
 * A process is known by pid and start time: a pid that is used again is another
 * one.  All functions are for one thread.
 */
#ifndef MOETOP_CORE_ATTACH_H
#define MOETOP_CORE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/inject.h"

#define ATTACH_PROCESSES_MAX 32u

enum attach_state {
	ATTACH_NONE,    /* never asked for */
	ATTACH_WAITING, /* for its turn, or for the next try */
	ATTACH_RUNNING,
	ATTACH_DONE,    /* the agent is in */
	ATTACH_REFUSED, /* for good */
};

struct attach_status {
	enum attach_state state;
	unsigned tries;    /* that have ended; 0: what follows is empty */
	uint64_t ended_ns; /* the last one did */
	struct inject_report report; /* of the last one */
	char ring[64]; /* "/proc/PID/fd/N" where there was one after it */
};

struct attach;

/* inject() of target/inject.h, or what a test has in its place. */
typedef int attach_fn(pid_t pid, const struct inject_image *image,
		      struct inject_report *r);

/* 0 and *out (free with attach_free), -ENOENT agent_path cannot be read,
 * -ENOMEM, -errno. */
int attach_new(struct attach **out, const char *agent_path, attach_fn *fn);

/* Ask for the agent in a process.  Asking again is free; after ATTACH_DONE it
 * means that the agent has gone, and is heard after the pause above. */
void attach_want(struct attach *a, pid_t pid, uint64_t start_ticks,
		 uint64_t now_ns);

void attach_look(const struct attach *a, pid_t pid, uint64_t start_ticks,
		 struct attach_status *out);

/* Grows whenever an injection has ended. */
unsigned attach_ended(const struct attach *a);

/* NULL is legal.  An injection that is under way is waited for WORKER_GRACE_MS,
 * then left to itself. */
void attach_free(struct attach *a);

#endif
