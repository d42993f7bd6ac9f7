/*
 * child.h - a server of our own, for the demo
 *
 * Starts a program with the agent in it and ends it again.  It dies with this
 * process, however that ends.
 */
#ifndef MOETOP_CORE_CHILD_H
#define MOETOP_CORE_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/settings.h"

struct child {
	pid_t pid;  /* 0 once it has ended */
	int words;  /* its standard output, a pipe */
	int errors; /* its standard error, a file without a name */
};

/* argv[0] is the path; agent is put into CUDA_INJECTION64_PATH.  0 or -errno
 * (of the start of the program, too). */
int child_start(struct child *c, char *const argv[], const char *agent);

/* Put --rows into the environment of a server that is going to be started: the
 * agent must know before graphs are captured.  0 or -ENOMEM. */
int child_set_rows(const struct settings *s);

/*
 * Wait for its line "... listening on ADDR:PORT".  0 and *port, -ECHILD when it
 * has ended, -EPROTO for another line, -ETIMEDOUT.
 */
int child_wait_port(struct child *c, unsigned timeout_ms, uint16_t *port);

/* The last line that it wrote to standard error, "" none. */
void child_last_words(const struct child *c, char *out, size_t bytes);

/* SIGTERM, after 3 s SIGKILL; reaps it. */
void child_end(struct child *c);

#endif
