/*
 * collector.h - many sources, one snapshot
 *
 * Holds the sources, opens those that are down again (each with a growing
 * pause: 1, 2, 4 .. 32 s, from 1 s again once it has worked for 32 s; sources
 * that only wait for the server every second), polls them on a tick, and once
 * per interval merges what they know into a sample, runs the model, and
 * describes target and health.  One thread; it knows no view and no loop.
 */
#ifndef MOETOP_CORE_COLLECTOR_H
#define MOETOP_CORE_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/source.h"
#include "model/snapshot.h"
#include "target/target.h"

#define COLLECTOR_SOURCES_MAX 8u

struct collector;

struct collector_config {
	const struct source_ops *const *sources; /* NULL-terminated, borrowed */
	struct target *target;                   /* opened; borrowed */
	struct source_context *context;          /* borrowed */
	double gpu_price; /* USD per GPU and hour, 0 unknown */
};

/* 0 and *out (free with collector_free), or -ENOMEM.  Opens no source yet. */
int collector_new(struct collector **out, const struct collector_config *config,
		  uint64_t now_ns);

/*
 * Open what is due, look at the target once a second, poll every source.
 * 1: go on; 0: the target is gone (collector_gone does the rest).
 */
int collector_tick(struct collector *c, uint64_t now_ns);

/* The interval ends: a new snapshot, borrowed until the next call. */
const struct snapshot *collector_snapshot(struct collector *c, uint64_t now_ns,
					  double unix_s);

/*
 * The target has ended: closes all sources.  The last snapshot (or an empty
 * one) with its values stale, marked as gone since unix_s; later calls return
 * it unchanged.
 */
const struct snapshot *collector_gone(struct collector *c, double unix_s);

/* Another server has the same name: this one's ends with its pid from now on,
 * in the present snapshot, too. */
void collector_distinguish(struct collector *c);

void collector_free(struct collector *c); /* NULL is legal */

#endif
