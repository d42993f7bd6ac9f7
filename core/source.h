/*
 * source.h - one way to learn something about the server
 *
 * The collector holds an array of these and knows nothing else about them.
 * All members are called from the collector's one thread, and none may block:
 * a source that must wait (HTTP, NVML) does it in a thread of its own.
 */
#ifndef MOETOP_CORE_SOURCE_H
#define MOETOP_CORE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/attach.h"
#include "model/checks.h"
#include "model/sample.h"
#include "model/snapshot.h"
#include "target/target.h"

/* Index into snapshot_health.tiers. */
enum tier { TIER_T0, TIER_T1, TIER_T2, TIER_T3, TIER_C };
_Static_assert(TIER_C + 1 == SNAPSHOT_TIERS, "all tiers are named");

struct layer_bytes;

/*
 * What all sources of one collector share: settings, which do not change, and
 * a few facts that one of them learns and another needs.  One thread.
 */
struct source_context {
	uint32_t budget_ppm;    /* what the agent may cost */
	uint32_t rows_mode;     /* ring_control.rows_mode */
	bool counters;          /* read DRAM and tensor counters */
	const char *nvml_path;  /* NVML's library; NULL: the system's */
	FILE *sampled_steps;    /* NULL: nobody wants them */
	attach_fn *inject;      /* brings the agent in; NULL: nobody may */
	const char *agent_path; /* of the agent; NULL: our own */
	bool detach; /* agents are sent to sleep at the end, not left waiting */

	uint32_t decoding; /* streams being decoded; 0 unknown */
	/* as the model's config has them; 0 unknown */
	uint32_t experts, top_k;
	/* processes of the server that NVML sees on a GPU; 0: it sees none */
	unsigned n_gpu_pids;
	pid_t gpu_pids[TARGET_RANKS_MAX];
	/* another one when something has begun or ceased to listen; 0 unknown */
	uint64_t listeners;
	uint32_t window_wish; /* grows when somebody wants a kernel window */
	struct engine_claims claims; /* what the engine says of itself */
	char model[256]; /* path or name that it gives; "" not yet */
	/* Where kernel spans and counter samples meet; NULL: no such counter.
	 * spans: its samples come, so the agents shall send spans. */
	struct layer_bytes *layer_bytes;
	bool spans;
	/* Of the server's first GPU, from NVML: its number there, -1 unknown;
	 * bytes per second, and the SM clock of now, NAN unknown. */
	int gpu_index;
	double gpu_peak_bw, sm_clock_hz;
};

struct source;

struct source_ops {
	const char *name; /* "requests", "agent", "nvml", "engine" */
	unsigned tier;    /* index of the tier it serves */
	/* Try to begin; also called again every second while it is down.
	 * 0, -EAGAIN not yet (no message), or -errno with one line in why
	 * and the remedy in fix.  *s is the source's own state on success.
	 * t and x outlive the source; the collector refreshes *t. */
	int (*open)(struct source **s, const struct target *t,
		    struct source_context *x, char *why, size_t why_bytes,
		    char *fix, size_t fix_bytes);
	/* A descriptor to wake the loop with, or -1: polled every tick. */
	int (*fd)(struct source *s);
	/* Take in what has arrived.  0, or -errno: it is broken and will be
	 * closed and opened again. */
	int (*poll)(struct source *s, uint64_t now_ns);
	/* Add what was learnt to the sample of the interval that ends; what it
	 * points at is valid until the next call. */
	void (*sample)(struct source *s, struct sample *out);
	/* Fill the source's part of target and health. */
	void (*describe)(struct source *s, struct snapshot *out);
	void (*close)(struct source *s); /* NULL is legal */
};

/* The sources there are; each is alone in its file. */
extern const struct source_ops source_requests; /* bpf/tracker.h: T1 */
extern const struct source_ops source_agent;    /* wire/ring.h: T2 and T3 */
extern const struct source_ops source_nvml;     /* cupti/nvml.h: T0 and C */
extern const struct source_ops source_engine;   /* the engine's /metrics: T0 */
extern const struct source_ops source_counters; /* cupti/pm.h: C, after nvml */

/* Set one tier of a snapshot; remedy may be "". */
void source_tier(struct snapshot *out, enum tier tier, enum tier_state state,
		 const char *what, const char *remedy);

#endif
