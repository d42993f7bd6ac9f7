/*
 * source.h - one way to learn something about the server
 *
 * The collector holds an array of these and knows nothing else about them.
 * All members are called from the collector's one thread, and none may block:
 * a source that must wait (HTTP, NVML) does it in a thread of its own.
 */
#ifndef MOETOP_CORE_SOURCE_H
#define MOETOP_CORE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"
#include "model/snapshot.h"
#include "target/target.h"

struct source;

struct source_ops {
	const char *name;     /* "requests", "agent", "nvml", "engine" */
	unsigned tier;	      /* index of the tier it serves */
	/* Try to begin; also called again every second while it is down.
	 * 0, -EAGAIN not yet (no message), or -errno with one line in why
	 * and the remedy in fix.  *s is the source's own state on success. */
	int (*open)(struct source **s, const struct target *t, char *why,
		    size_t why_bytes, char *fix, size_t fix_bytes);
	/* A descriptor to wake the loop with, or -1: polled every tick. */
	int (*fd)(struct source *s);
	/* Take in what has arrived.  0, or -errno: it is broken and will be
	 * closed and opened again. */
	int (*poll)(struct source *s, uint64_t now_ns);
	/* Add what was learnt to the sample of the interval that ends. */
	void (*sample)(struct source *s, struct sample *out);
	/* Fill the source's part of target and health. */
	void (*describe)(struct source *s, struct snapshot *out);
	void (*close)(struct source *s); /* NULL is legal */
};

#endif
