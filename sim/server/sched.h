/*
 * sched.h - continuous batching, as vLLM v1 schedules
 *
 * Each step takes the running sequences first, one token each or the next chunk
 * of their prompt, then waiting ones, first come first served, until the token
 * budget of the step or the number of sequences is used up.  A sequence yields
 * a token in the step that ends its prompt and in each step thereafter.
 *
 * KV memory is not modelled: there is no preemption.
 *
 * Not thread-safe, except seq.abort.
 */
#ifndef MOETOP_SIM_SERVER_SCHED_H
#define MOETOP_SIM_SERVER_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One sequence.  The memory is the owner's; it must stay until the sequence has
 * left the scheduler (sched_commit or sched_reap told so). */
struct seq {
	uint64_t id;
	uint32_t prompt_tokens; /* >= 1 */
	uint32_t max_tokens;    /* >= 1 */
	void *owner;
	_Atomic bool abort; /* set by any thread: take it out */
	/* the scheduler's own */
	uint32_t computed; /* tokens whose KV exists */
	uint32_t generated;
	struct seq *next;
};

struct sched_limits {
	unsigned max_seqs;   /* running at once */
	unsigned max_tokens; /* of one step */
};

struct sched_item {
	struct seq *seq;
	uint32_t first, count; /* positions computed in this step */
	bool samples;          /* yields a token */
};

struct sched_step {
	const struct sched_item *items; /* until the next sched_plan */
	unsigned items_n;
	unsigned tokens;
	bool prefill; /* some item computes part of a prompt */
};

struct sched {
	struct sched_limits limits;
	struct seq **running;
	unsigned running_n;
	struct seq *waiting, **waiting_end;
	unsigned waiting_n;
	struct sched_item *items;
};

/* 0, -EINVAL for a limit of 0, -ENOMEM. */
int sched_init(struct sched *s, const struct sched_limits *limits);
void sched_fini(struct sched *s);

void sched_add(struct sched *s, struct seq *q);

/* Take out sequences with abort set: calls gone(arg, q) for each. */
void sched_reap(struct sched *s, void (*gone)(void *arg, struct seq *q),
		void *arg);

/* What the next step computes; items_n is 0 when there is nothing to do. */
void sched_plan(struct sched *s, struct sched_step *out);

/*
 * The step ran: calls token(arg, q, last) for each sequence that got a token;
 * after last it has left the scheduler.
 */
void sched_commit(struct sched *s, const struct sched_step *step,
		  void (*token)(void *arg, struct seq *q, bool last),
		  void *arg);

/*
 * Batch sizes of captured decode graphs: 1, 2, 4, then every 8 below 256 and
 * every 16 up to 512.  sched_graph_size(i) lists them, 0 past the end;
 * sched_graph_pad gives the one that n tokens run with, 0 if none is large
 * enough (limit: the largest captured size).
 */
#define GRAPH_SIZES_MAX 64u
unsigned sched_graph_size(unsigned i);
unsigned sched_graph_pad(unsigned n, unsigned limit);

/*
 * At low concurrency vLLM does not group tokens by expert: the align kernels
 * are left out when tokens * top_k * 4 <= experts.
 */
bool sched_skips_align(unsigned tokens, unsigned top_k, unsigned experts);

#endif
