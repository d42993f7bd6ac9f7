/*
 * sample.h - what the collector hands to the model for one interval
 *
 * Sums only.  core/ fills it from the sources; model/snapshot.c turns it, with
 * the shape of the model and the GPU, into the snapshot that all views show.
 * A `have_` flag says whether a source delivered; without it the fields beside
 * it are meaningless.
 *
 * Of several ranks, a window holds the mean rank (they run in lockstep); DRAM
 * bytes are added over the GPUs.  Data-parallel replicas that share no experts
 * are taken as one machine, too, which they are not.
 */
#ifndef MOETOP_MODEL_SAMPLE_H
#define MOETOP_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/bytes.h"

#define SAMPLE_LAYERS_MAX 128u
#define SAMPLE_EXPERTS_MAX 1024u
#define SAMPLE_GROUPS 6u /* wire/kernel_class.h GROUPS, checked in core/ */
#define SAMPLE_CLASSES_MAX 96u
#define SAMPLE_DRAFT_MAX 8u
#define SAMPLE_PHASES 2u /* 0 decode, 1 prefill */

/* Mergeable log-linear histogram: bounds belong to whoever fills it. */
#define SAMPLE_HIST_BUCKETS 512u
struct sample_hist {
	uint64_t count;
	double sum;
	uint64_t buckets[SAMPLE_HIST_BUCKETS];
	double upper[SAMPLE_HIST_BUCKETS]; /* ascending upper bounds */
	unsigned n;                        /* buckets in use */
	bool exact; /* whole numbers: a bucket is its upper bound */
};

struct sample_rows { /* over sampled cells, real rows only */
	double cells;
	double rows, active, single, twice;
	double sum_squares, max_rows;
	double experts; /* E summed over the cells */
	double padded_rows;
	double blocks; /* of expert weights that kernels ask for; 0 unknown */
};

/*
 * How sampled decode steps differ: the layers of a step share its tokens, so a
 * step is the unit of sampling error.  Sums over steps; u, f, r are a step's
 * means per layer, U and F1 its sums over the sampled layers.
 */
struct sample_clusters {
	double steps;
	double rows, rows_squared;     /* r, r^2 */
	double active, active_squared; /* u, u^2 */
	double cell_rows_squared;      /* r^2 times the layers sampled */
	double uu, uf, ff;             /* U^2, U F1, F1^2 */
};

/* One kernel class in one layer, decode steps. */
#define SAMPLE_LAYER_CLASSES_MAX 32u
struct sample_layer_class {
	unsigned id; /* enum kernel_class of the wire */
	double calls, sum_ns, union_ns;
};

struct sample_layer {
	double steps;                   /* steps the times below cover */
	double group_ns[SAMPLE_GROUPS]; /* of the MoE block, by group */
	double block_ns;     /* union over the block, anchor to reduction */
	double before_ns;    /* union over what leads up to it: attention */
	double dram_bytes;   /* of the block, all GPUs; NAN: not attributed */
	double expert_bytes; /* of it, by its expert kernels; as above */
	double slowest_ns;   /* expert kernels of the slowest rank; 0 unknown */
	struct sample_rows rows;
	char backend[24]; /* name of the class that does its expert GEMMs */
	unsigned n_classes;
	struct sample_layer_class classes[SAMPLE_LAYER_CLASSES_MAX];
};

struct sample_class { /* one kernel class, all layers, decode steps */
	char name[32];
	unsigned group;
	double calls, sum_ns, union_ns;
};

struct sample_window {  /* kernel records since the last interval */
	double windows; /* closed windows merged here; 0: none new */
	double wall_ns; /* their length */
	double busy_ns; /* union of kernel time */
	double steps[SAMPLE_PHASES];
	double step_ns[SAMPLE_PHASES];
	double tokens[SAMPLE_PHASES]; /* incl. padding */
	/* of the steps: kernels, launches by the host (a replay is one), first
	 * start to last end, time of it with a kernel running */
	double kernels_run[SAMPLE_PHASES], launches[SAMPLE_PHASES];
	double span_ns[SAMPLE_PHASES], phase_busy_ns[SAMPLE_PHASES];
	double group_ns[SAMPLE_GROUPS]; /* decode steps */
	struct sample_rows rows;        /* decode, all layers */
	struct sample_rows prefill_rows;
	struct sample_clusters clusters; /* decode */
	double ranks; /* that the means below and above are of; 0 unknown */
	/* the fullest rank's sums, over rows.rows and rows.active: max/mean */
	double rank_rows_max, rank_active_max;
	double cells_rejected, cells_lost, bad_steps, kernels;
	unsigned layers_seen; /* layers of a step, draft ones left out; 0 ? */
	unsigned n_layers;
	struct sample_layer layers[SAMPLE_LAYERS_MAX];
	unsigned n_draft; /* layers of a draft model, after the main ones */
	struct sample_layer draft[SAMPLE_DRAFT_MAX];
	unsigned n_classes;
	struct sample_class classes[SAMPLE_CLASSES_MAX];
	struct sample_hist step_s;          /* decode steps, seconds */
	struct sample_hist rows_per_expert; /* active ones, per cell */
	double end_ns; /* CLOCK_MONOTONIC of the newest window's end */
	struct bytes_estimate bytes; /* how the layers' bytes are known */
};

/* What else the engine says; NAN what it does not. */
struct sample_engine {
	double tokens_per_s;
	double kv_usage, prefix_hits; /* 0..1 */
	double preempted;             /* total */
	double accepted_per_step;     /* of speculative decoding */
};

struct sample {
	double time;       /* unix seconds */
	double now_ns;     /* CLOCK_MONOTONIC */
	double interval_s; /* since the previous sample, > 0 */

	bool have_requests;
	bool requests_guessed;     /* waiting and streaming are not exact */
	double waiting, streaming; /* generation */
	double started, completed, aborted, events;      /* totals */
	double d_started, d_events;                      /* in the interval */
	const struct sample_hist *ttft, *gap, *duration; /* or NULL */
	/* the same since the source began to count, or NULL */
	const struct sample_hist *ttft_total, *gap_total, *duration_total;

	bool have_agent;       /* counters of a live agent */
	double d_decode_steps; /* in the interval, from the counters */
	double d_eager_steps;
	double d_padded_tokens;
	double overhead; /* ratio; NAN unknown */

	bool have_window;             /* window holds data, maybe old */
	struct sample_window *window; /* borrowed for the call */

	bool have_dram; /* bytes per second, all GPUs */
	double dram_read;
	double dram_write; /* NAN: dram_read is the sum of both */
	bool dram_of_one;  /* counted on one of several, taken for all */
	double tensor_active;
	bool have_peak; /* NVML: bytes per second of one GPU */
	double peak_bw;

	bool have_scrape;
	double running, queued;    /* NAN: not exported */
	double d_generated_tokens; /* in the interval; NAN unknown */
	/* tokens whose KV the running requests hold, and room for them in all;
	 * 0 or NAN unknown */
	double kv_tokens, kv_capacity_tokens;
	double scrape_age_s;
	const struct sample_engine *engine; /* borrowed; NULL: no more */

	double gpus; /* GPUs that hold the model, >= 1 */
	/* [SAMPLE_LAYERS_MAX][expert_rows_n] of the last minute, or NULL */
	const uint32_t *expert_rows;
	unsigned expert_rows_n;
};

#endif
