/*
 * engine.h - the engine loop: scheduler and model runner, one thread
 *
 * The server hands in requests and takes out what they produced.  Outputs are
 * kept per request, so that a server that lags behind gets several tokens at
 * once (as vLLM's output collector merges them) and nothing grows without
 * bound: there are at most as many outputs as requests.
 */
#ifndef MOETOP_SIM_SERVER_ENGINE_H
#define MOETOP_SIM_SERVER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/sched.h"

/*
 * One request.  The memory is the server's, from engine_submit until
 * engine_take has handed it out with ended set; then no other thread knows it.
 */
struct request {
	struct seq seq; /* id, prompt_tokens, max_tokens: set before submit */
	/* what engine_take hands out */
	uint32_t tokens;       /* new since the last time */
	bool ended;            /* max_tokens reached, or aborted */
	struct request *taken; /* the next one that was handed out */
	/* the engine's own */
	uint32_t pending;
	bool done, listed;
	struct request *next;
};

/* Only grow, but for the first three. */
struct engine_stats {
	uint64_t running, waiting, kv_tokens; /* KV held by running requests */
	uint64_t prompt_tokens, generation_tokens;
	uint64_t finished, aborted;
	uint64_t steps, step_tokens;
};

struct engine;

/* What runs a step: one GPU of this process, or those of its workers. */
struct engine_gpu {
	/* 0, or -EIO when the GPU failed */
	int (*step)(void *arg, const struct sched_step *step);
	void *arg; /* borrowed until engine_free */
};

/* 0, -ENOMEM or -errno. */
int engine_new(struct engine **out, const struct engine_gpu *gpu,
	       const struct sched_limits *limits);
void engine_free(struct engine *e);

/* Any thread. */
void engine_submit(struct engine *e, struct request *q);
void engine_abort(struct engine *e, struct request *q);
void engine_stop(struct engine *e);
void engine_stats(struct engine *e, struct engine_stats *out);

/* An eventfd that becomes readable when there are outputs: read it, then call
 * engine_take. */
int engine_fd(const struct engine *e);
/* The requests with outputs, linked by taken in order of output. */
struct request *engine_take(struct engine *e);

/* Run until engine_stop.  0, or -EIO when the GPU failed. */
int engine_run(struct engine *e);

#endif
