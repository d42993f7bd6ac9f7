/*
 * launch_log.h - what the launch callbacks leave for the agent thread
 *
 * A ring of fixed slots.  Any thread pushes, without a lock and without
 * waiting; one thread takes.  When the taker falls behind, the oldest entries
 * are overwritten and counted as lost.
 */
#ifndef MOETOP_AGENT_LAUNCH_LOG_H
#define MOETOP_AGENT_LAUNCH_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cupti/adapters.h"

#define LAUNCH_LOG_SLOTS 8192u /* a power of two */

enum launch_kind {
	LAUNCH_GRAPH,
	LAUNCH_OPENS, /* of a kernel that opens a layer */
	LAUNCH_OTHER, /* of another one that the adapters know */
};

struct launch_entry {
	uint64_t time_ns;
	uint32_t kind;        /* enum launch_kind */
	uint32_t exec;        /* graph_exec index, for LAUNCH_GRAPH */
	struct launch launch; /* for the others */
};

struct launch_slot {
	_Atomic uint64_t seq; /* entry number + 1; 0 while written */
	struct launch_entry entry;
};

struct launch_log { /* zero-initialised memory is an empty log */
	_Atomic uint64_t head;
	_Alignas(64) uint64_t tail; /* the taker's */
	uint64_t lost;
	struct launch_slot slot[LAUNCH_LOG_SLOTS];
};

/* Returns after copying; `launch` may be NULL for LAUNCH_GRAPH. */
void launch_log_push(struct launch_log *log, enum launch_kind kind,
		     uint64_t time_ns, uint32_t exec,
		     const struct launch *launch);

/* The oldest entry; false when there is none. */
bool launch_log_take(struct launch_log *log, struct launch_entry *out);

/* The newest entry, better one that is not LAUNCH_OTHER, without taking it.  Any
 * thread. */
bool launch_log_latest(struct launch_log *log, struct launch_entry *out);

#endif
