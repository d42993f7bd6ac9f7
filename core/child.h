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

struct child {
	pid_t pid;
	int output; /* its standard error, a file that is gone from the disk */
};

/* A TCP port of 127.0.0.1 that nobody uses at the moment; 0 on failure. */
uint16_t child_free_port(void);

/* argv[0] is the path; agent is put into CUDA_INJECTION64_PATH.  0 or -errno
 * (of the start of the program, too). */
int child_start(struct child *c, char *const argv[], const char *agent);

/* Wait until it accepts connections on the port.  0, -ECHILD when it has ended,
 * -ETIMEDOUT, -EINTR when this process is asked to end. */
int child_wait_port(struct child *c, uint16_t port, unsigned timeout_ms);

/* The last line that it wrote to standard error, "" none. */
void child_last_words(const struct child *c, char *out, size_t bytes);

/* SIGTERM, after 3 s SIGKILL; reaps it. */
void child_end(struct child *c);

#endif
