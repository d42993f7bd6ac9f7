/*
 * counters.h - PM sampling in a process of its own
 *
 * NVIDIA's profiling libraries may block, crash, or take the GPU's counters with
 * them; so they are loaded by a child, this program again by another word, that
 * writes what it reads into a pipe.  It ends when nobody reads any more, and by
 * its own alarm when a call does not come back.  What the libraries print is
 * kept apart.
 */
#ifndef MOETOP_CORE_COUNTERS_H
#define MOETOP_CORE_COUNTERS_H

#include <stdint.h>
#include <sys/types.h>

#include "cupti/pm.h"

/* main's first argument in the child. */
#define COUNTERS_WORD "--counters-child"
#define COUNTERS_READINGS 8u

enum counters_kind {
	COUNTERS_STATUS = 1, /* the first message: it runs, or why not */
	COUNTERS_READINGS_ARE,
	COUNTERS_INFO /* once a second */
};

struct counters_message {
	uint32_t kind; /* enum counters_kind */
	uint32_t n;    /* readings */
	union {
		struct {
			int32_t error; /* 0: it runs */
			char why[160], fix[192];
		} status;
		struct pm_reading readings[COUNTERS_READINGS];
		struct pm_info info;
	};
};

struct counters {
	pid_t pid;   /* 0: none */
	int fd;      /* its messages; does not block; -1: it was ended */
	size_t have; /* bytes of `next` that have come */
	struct counters_message next;
};

/* Start the child; *c was zeroed once.  0 and *c, or -errno: -EBUSY where the one
 * before has not left yet, though it was killed: a call in the driver holds it. */
int counters_start(struct counters *c, const struct pm_options *o);

/* The next message: 1 and *out, 0 none there now, -EPIPE the child has ended,
 * -EPROTO this is no message. */
int counters_next(struct counters *c, struct counters_message *out);

/* End it and reap it, within a second: a child that hangs is killed, and one that
 * cannot be killed is left to the next counters_start. */
void counters_end(struct counters *c);

/* The child: arguments as counters_start gave them.  Its exit status. */
int counters_main(int argc, char **argv);

#endif
