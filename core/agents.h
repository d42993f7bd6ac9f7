/*
 * agents.h - the state of the agent source, shared by its files
 *
 * source_agent.c opens and reads the rings and has agents injected,
 * agents_sample.c turns what they said into a sample, agents_describe.c says
 * how they are.  Internal to core/.
 */
#ifndef MOETOP_CORE_AGENTS_H
#define MOETOP_CORE_AGENTS_H

#include "core/attach.h"
#include "core/expert_rows.h"
#include "core/rank.h"
#include "core/source.h"

/* How long a rank that ended is shown, and counted as a GPU that will be back. */
#define AGENTS_GONE_NS 10000000000ull

/* A rank without a ring that we read. */
struct agents_without {
	pid_t pid;
	int error;    /* of rank_open, 0: there was no ring to open */
	pid_t reader; /* -EBUSY: who reads it, in its own namespace; 0 unknown */
	bool unseen;  /* NVML sees others of the server on a GPU, and not it */
};

struct agents_gone {
	pid_t pid;
	uint32_t number;
	uint64_t since_ns;
};

struct source {
	const struct target *target;
	struct source_context *context;
	unsigned n;
	struct rank *ranks[TARGET_RANKS_MAX]; /* by number */
	unsigned n_without;
	struct agents_without without[TARGET_RANKS_MAX];
	unsigned n_gone;
	struct agents_gone gone[TARGET_RANKS_MAX];
	unsigned refused_rings; /* rings that stopped making sense */
	uint64_t looked_ns, now_ns;
	unsigned target_looks; /* target->looks at the last look */
	uint64_t wished_ns;
	uint32_t wished_decoding, seen_wish;
	uint64_t lost_at_window; /* records of the leader, by its ring */

	struct attach *attach; /* NULL: nothing is injected */
	unsigned attach_ended; /* as of the last look */
	char attach_fix[160];  /* why attach is NULL though it is wanted */
	uint64_t reported_ns;  /* when `report` was new, 0 never */
	char report[160];      /* of the last injection, for people */

	bool have_window;
	struct sample_window window;
	struct expert_rows *experts;
	unsigned n_experts;
	struct merge_totals gone_totals; /* of ranks that ended */
	uint64_t gone_lost;
};

static inline void agents_add_totals(struct merge_totals *to,
				     const struct merge_totals *from)
{
	to->windows += from->windows;
	to->windows_torn += from->windows_torn;
	to->refused += from->refused;
	to->cells += from->cells;
	to->cells_rejected += from->cells_rejected;
	to->cells_lost += from->cells_lost;
	to->bad_steps += from->bad_steps;
	to->records_dropped += from->records_dropped;
}

/* The rank whose rows and distributions stand for all: ranks of one tensor or
 * expert parallel group see the same tokens.  NULL: all count, each for its own
 * (data parallel). */
const struct rank *agents_leader(const struct source *s);

/* How many ranks it takes to see every expert once: 1, unless each counts the
 * rows of its own experts alone. */
unsigned agents_expert_shares(const struct source *s);

void agents_sample(struct source *s, struct sample *out);
void agents_describe(struct source *s, struct snapshot *out);

/* Why no agent is read, and what to do, when none is. */
void agents_explain(const struct source *s, char *why, size_t why_bytes,
		    char *fix, size_t fix_bytes);

#endif
