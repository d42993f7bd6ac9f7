/*
 * rank.h - one agent's ring, and what came out of it
 *
 * The collector's end of wire/ring.h: reads the records into a struct merge,
 * and tells the agent that somebody reads, what it may cost, and when a window
 * is wanted.  One thread.
 */
#ifndef MOETOP_CORE_RANK_H
#define MOETOP_CORE_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/merge.h"
#include "core/source.h"
#include "model/snapshot.h"
#include "wire/ring.h"

/* Records taken from one ring in one poll at most; the rest waits. */
#define RANK_RECORDS_PER_POLL 65536u
/* An agent that wrote nothing for this long is not counted as alive. */
#define RANK_SILENT_NS 3000000000ull

struct rank {
	pid_t pid;
	uint64_t start_ticks; /* the opener's to set: which process, */
	uint32_t number;      /* and which rank */
	char path[64];        /* of the ring, in /proc */
	uint64_t inode;       /* of the ring */
	struct ring_reader ring;
	struct merge merge;
	uint64_t opened_ns;
	uint64_t lost;          /* records that found the ring full */
	struct rec_tick before; /* tick at the sample before */
	uint64_t before_ns;     /* its time, 0 none */
	double decode_steps_per_ns, eager_steps_per_ns, padded_tokens_per_ns;
};

/* Map the ring at path and ask for a first window.  0; -EBUSY another collector
 * reads it, -EPROTONOSUPPORT, -EPROTO, -EACCES, -errno. */
int rank_open(struct rank *k, pid_t pid, const char *path, uint64_t now_ns);

/* Is the ring that we read still what lies there?  Not so when the process has
 * ended, or has become another program. */
bool rank_there(const struct rank *k);

/* Heartbeat, budget and hints to the agent; then its records, with fn for every
 * one that makes sense.  0, -EPROTO, or -EBUSY when another collector has taken
 * the ring. */
int rank_poll(struct rank *k, const struct source_context *x, uint64_t now_ns,
	      void (*fn)(struct rank *k, const struct record *r, void *arg),
	      void *arg);

/* Ask for a kernel window. */
void rank_wish(struct rank *k);

/* The rates between the newest tick and that of the call before; a tick that
 * did not come leaves them as they were.  NAN when they cannot be told. */
void rank_rates(struct rank *k);

/* Do its counters follow the server?  Not so when CUPTI is not the agent's. */
bool rank_counts(const struct rank *k);

bool rank_alive(const struct rank *k, uint64_t now_ns);

/* What the agent is: its own word in the ring's header, else its last record. */
enum agent_state rank_state(const struct rank *k);

const char *rank_state_name(enum agent_state s);

/* pid, agent state, reason and GPU, for the views. */
void rank_describe(const struct rank *k, uint64_t now_ns,
		   struct snapshot_rank *out);

/* A ring as it lies there, without a touch. */
struct rank_view {
	bool read;    /* a collector reads it */
	pid_t reader; /* as it calls itself in its own pid namespace; 0 unknown */
	enum agent_state state;
	bool late; /* the agent came after CUDA had started */
};

/* 0; -EPROTO no ring, -EPROTONOSUPPORT of another version, -errno. */
int rank_look(const char *path, uint64_t now_ns, struct rank_view *out);

/* Tell the agent that nobody reads, and unmap.  detach: it goes to sleep, else
 * it waits for the next one. */
void rank_close(struct rank *k, bool detach);

#endif
