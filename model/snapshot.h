/*
 * snapshot.h - everything that a view may show, computed once
 *
 * The screen, JSON, Prometheus and reports only format this struct.  It holds
 * no pointers: it may be copied, recorded and drawn again.
 */
#ifndef MOETOP_MODEL_SNAPSHOT_H
#define MOETOP_MODEL_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/arch.h"
#include "model/value.h"
#include "model/whatif.h"

enum metric_id {
#define METRIC(id, key, unit, kind, title, help) METRIC_##id,
#include "model/metrics.def"
	METRICS
};

enum histogram_id {
#define HISTOGRAM(id, key, unit, title, help) HISTOGRAM_##id,
#include "model/metrics.def"
	HISTOGRAMS
};

enum metric_unit {
	UNIT_NONE,
	UNIT_SECONDS,
	UNIT_BYTES,
	UNIT_BYTES_PER_SECOND,
	UNIT_RATIO,
	UNIT_PER_SECOND,
	UNIT_COUNT,
	UNIT_USD
};
enum metric_kind { KIND_GAUGE, KIND_COUNTER };

struct metric_info {
	const char *key, *title, *help;
	enum metric_unit unit;
	enum metric_kind kind;
};
extern const struct metric_info metric_info[METRICS];
extern const struct metric_info histogram_info[HISTOGRAMS];

enum regime {
	REGIME_UNKNOWN, /* not enough evidence yet; JSON null */
	REGIME_IDLE,
	REGIME_PREFILL,
	REGIME_COMPUTE,
	REGIME_KV,
	REGIME_SOLO,
	REGIME_VALLEY,
	REGIME_SHARED,
	REGIMES
};
enum side { SIDE_NONE, SIDE_NEAR, SIDE_FAR };

/* Beside the regime; several may hold. */
enum regime_flag {
	FLAG_OVERHEAD = 1,  /* fixed time takes much of a step */
	FLAG_IMBALANCE = 2, /* the slowest rank keeps the others waiting */
	FLAG_SKEW = 4       /* few experts get most rows */
};
#define REGIME_FLAGS 3u

/* "overhead", "imbalance", "skew"; NULL for what is no flag. */
const char *regime_flag_name(unsigned flag);

/* "idle", "prefill", "compute", "kv", "solo", "valley", "shared"; NULL for
 * REGIME_UNKNOWN.  "near", "far"; NULL for SIDE_NONE. */
const char *regime_name(enum regime r);
const char *side_name(enum side s);

#define SNAPSHOT_LAYERS_MAX 128u
#define SNAPSHOT_DRAFT_MAX 8u
#define SNAPSHOT_PHASES 2u
#define SNAPSHOT_CLASSES_MAX 96u
#define SNAPSHOT_RANKS_MAX 16u
#define SNAPSHOT_FINDINGS_MAX 16u
#define SNAPSHOT_TIERS 5u

/* Those that are not empty, ascending; neighbours are merged beyond the
 * number that there is room for. */
#define SNAPSHOT_BUCKETS_MAX 256u
struct snapshot_bucket {
	double upper; /* its values are at most this, above the one before */
	uint64_t count;
};

/* All that was ever put into one, since moetop attached: only grows.  Live
 * only, not recorded. */
#define SNAPSHOT_TOTAL_BUCKETS 512u
struct snapshot_hist_total {
	bool known,
		exact;  /* exact: whole numbers, a bucket is its upper bound */
	uint64_t count; /* sum of the buckets */
	double sum;
	unsigned n;
	/* ascending and the same for ever; a bucket reaches down to the bound
	 * before it, the first one to 0 */
	double upper[SNAPSHOT_TOTAL_BUCKETS];
	uint64_t buckets[SNAPSHOT_TOTAL_BUCKETS];
};

struct snapshot_hist {
	struct value count, sum, p50, p90, p99;
	unsigned n_buckets; /* of the same values; 0 without a count */
	struct snapshot_bucket buckets[SNAPSHOT_BUCKETS_MAX];
};

/* One kernel class in a layer; as the layer's time: known, stale or not. */
#define SNAPSHOT_LAYER_CLASSES_MAX 32u
struct snapshot_layer_class {
	unsigned id; /* enum kernel_class */
	float calls_per_step;
	float seconds_per_step;     /* time covered */
	float sum_seconds_per_step; /* durations added up */
};

struct snapshot_layer {
	struct value seconds_per_step; /* its block: top-k to reduction */
	struct value before_seconds_per_step; /* norms, attention, router */
	struct value expert_seconds_per_step;
	struct value rows, active_experts, single_row_experts;
	struct value dram_bytes_per_step;   /* of the block */
	struct value expert_bytes_per_step; /* of it, by expert kernels */
	struct value fragmentation;
	struct value share; /* of the time of all blocks */
	char backend[24];
	unsigned n_classes; /* block and what leads up to it */
	struct snapshot_layer_class classes[SNAPSHOT_LAYER_CLASSES_MAX];
};

struct snapshot_class {
	char name[32];
	unsigned group; /* enum kernel_group */
	struct value calls_per_step, seconds_per_step, share;
	struct value sum_seconds_per_step; /* durations added up */
};

/*
 * Rows of every expert over the last minute, decode steps, where rows are
 * sampled: sums over the sampled steps of that layer.
 */
#define SNAPSHOT_EXPERT_CELLS_MAX 65536u
struct snapshot_experts {
	unsigned n_layers, n_experts; /* 0 none; product <= CELLS_MAX */
	uint32_t rows[SNAPSHOT_EXPERT_CELLS_MAX]; /* [layer * n_experts + e] */
};

/* How bytes of layers are known, model/bytes.h. */
struct snapshot_bytes {
	char method[8]; /* "layers", "groups", "total"; "" none */
	struct value residual_ratio, condition;
	struct value layer_error_ratio; /* of one layer's expert kernels */
	double samples, offset_ns;
};

/* The mean step of one phase. */
struct snapshot_step {
	struct value seconds; /* start to start */
	struct value busy;    /* with a kernel running */
	struct value gap;     /* idle between its kernels */
	struct value between; /* after its last kernel, until the next step */
	struct value kernels;
	struct value launches; /* by the host; a replay of a graph is one */
};

struct snapshot_rank {
	int32_t pid;
	uint32_t rank;
	char agent[24];  /* "idle", "window", "disabled", "absent", ... */
	char reason[96]; /* why disabled or refused, for people */
	char gpu[48];
	int32_t gpu_index; /* -1 unknown */
	/* of the injection, where this moetop brought the agent in */
	bool attached;
	int32_t attach_thread, attach_call; /* borrowed thread, its syscall */
	uint32_t attach_stops;
	uint64_t attach_pause_ns, attach_load_ns;
};

enum severity { SEVERITY_INFO, SEVERITY_NOTICE, SEVERITY_WARNING };

struct finding {
	char rule[32]; /* stable id: "valley_near" */
	enum severity severity;
	struct value gain; /* predicted cost ratio saved, 0..1 */
	char text[200];    /* one plain sentence */
	struct {
		char key[32];
		double v;
	} evidence[4];
	unsigned n_evidence;
};

/* One change to the deployment, whatif.h; everything else stays. */
enum what_if_kind {
	WHAT_IF_BATCH, /* amount: tokens per step */
	WHAT_IF_MERGE, /* amount: replicas like this one, merged into one */
	WHAT_IF_TP,    /* amount: GPUs that share one copy */
	WHAT_IF_EP,    /* amount: ranks that the experts are spread over */
	WHAT_IF_GPU,   /* name: of the GPU */
	WHAT_IF_KINDS
};
#define SNAPSHOT_WHAT_IF_MAX 40u
struct snapshot_what_if {
	enum what_if_kind kind;
	double amount;
	char name[24];
	enum whatif_limit limit; /* not WITHIN: beyond what the data carry */
	struct value tokens_per_step, active_experts, single_row;
	struct value marginal_gain;
	struct value step_s, step_s_low, step_s_high;
	struct value tokens_per_s, tokens_per_s_low, tokens_per_s_high;
	struct value usd_per_mtok, usd_per_mtok_low, usd_per_mtok_high;
	struct value cost_ratio, cost_ratio_low, cost_ratio_high; /* over now */
};
/* "batch", "merge", "tp", "ep", "gpu". */
const char *what_if_kind_name(enum what_if_kind k);

enum tier_state { TIER_OFF, TIER_MISSING, TIER_OK };
struct snapshot_tier {
	char name[4]; /* "T0", "T1", "T2", "T3", "C" */
	enum tier_state state;
	char what[256];   /* "requests in flight, from the kernel by K ..." */
	char remedy[160]; /* the command or setting that would enable it */
};

struct snapshot_health {
	struct snapshot_tier tiers[SNAPSHOT_TIERS];
	uint64_t lost_ring, lost_records, lost_requests, desyncs;
	/* calls on connections that are not followed for want of room, calls
	 * that the tracker missed; requests of paths that found no room */
	uint64_t lost_connections, lost_calls, lost_paths;
	uint64_t lost_listeners; /* of the server, not followed now */
	uint64_t bad_steps, cells_sampled, cells_rejected, cells_lost;
	uint64_t windows;
	uint32_t layers_seen; /* in a step of the newest window; 0 none yet */
	struct value window_age_seconds; /* since the newest window's end */
	char rows_method[16]; /* "sampled", "exact", "inferred", "off", "" */
	char rung[48];        /* request source in use */
	bool target_gone;
	double target_gone_seconds; /* unix time of the loss */
	char message[160];          /* newest line for the message bar */
};

/* A launch option of the server that matters, as it was given or read. */
#define SNAPSHOT_OPTIONS_MAX 24u
struct snapshot_option {
	char name[24];  /* "tp", "quantization", "capture_sizes" */
	char value[48]; /* "8", "fp8", "1..512 (67)" */
};

struct snapshot_target {
	int32_t pid;
	char engine[16], engine_version[24];
	char model[96];
	char config_origin[128];             /* where the shape came from */
	uint32_t experts, top_k, moe_layers; /* 0 unknown */
	char quant[32];
	uint16_t port; /* 0 unknown */
	char gpu[48];
	uint32_t n_gpus, tp, ep;
	char host[48];
	unsigned n_ranks;
	struct snapshot_rank ranks[SNAPSHOT_RANKS_MAX];
	char container[64]; /* id or pod of its cgroup, "" none */
	/* what it is called for long: "vllm:8000"; its Kubernetes pod */
	char server[96], pod[64], pod_namespace[64];
	unsigned n_options;
	struct snapshot_option options[SNAPSHOT_OPTIONS_MAX];
};

/* A number of ours against the engine's own. */
#define SNAPSHOT_CHECKS_MAX 8u
enum check_state { CHECK_UNKNOWN, CHECK_AGREES, CHECK_DIFFERS };
struct snapshot_check {
	char name[32]; /* "running", "tokens_per_second" */
	enum check_state state;
	double ours, theirs;      /* NAN unknown */
	enum value_source source; /* of ours */
	double tolerance_ratio;   /* of the larger one */
	char why[96];             /* what explains the difference, "" nothing */
};

/* Requests by what their path is for, in the order of enum endpoint. */
#define SNAPSHOT_ENDPOINTS 4

enum request_count {
	REQUESTS_WAITING,
	REQUESTS_STREAMING,
	REQUESTS_GUESSED, /* in neither: thought to wait, from before we came */
	REQUESTS_STARTED, /* this and the following: totals since attach */
	REQUESTS_COMPLETED,
	REQUESTS_FAILED_4XX, /* of the completed */
	REQUESTS_FAILED_5XX,
	REQUESTS_CLIENT_ABORTED,
	REQUESTS_SERVER_ABORTED,
	REQUESTS_EVENTS,
	REQUEST_COUNTS
};

struct snapshot_requests {
	bool known; /* counted; an estimate has no more than the metrics */
	uint64_t counts[SNAPSHOT_ENDPOINTS][REQUEST_COUNTS];
	bool have_queues; /* what the server cannot see itself */
	uint64_t unread_bytes, not_accepted;
	double oldest_seconds; /* age of the oldest in flight; NAN unknown */
	/* encrypted connections so far: all; those followed in plain text, which
	 * are in the counts; those of which the timing of records is known */
	uint64_t tls, tls_followed, tls_inferred;
	/* requests of the last kind now, in no count above */
	uint64_t inferred_waiting, inferred_streaming;
};

/* Where the figures of such a connection come from. */
#define REQUESTS_TLS_INFERRED "inferred from timing (TLS)"

struct snapshot {
	double time; /* unix seconds */
	double interval_s;
	double uptime_s; /* since moetop attached */
	uint64_t sequence;
	struct snapshot_target target;
	enum regime regime;
	enum side side;
	enum value_source regime_source;
	unsigned flags;       /* enum regime_flag, of the present */
	char compute_type[8]; /* whose peak MFU is a share of: "FP8"; "" */
	struct value metrics[METRICS];
	struct snapshot_hist hists[HISTOGRAMS];
	struct snapshot_hist_total totals[HISTOGRAMS];
	unsigned n_layers;
	struct snapshot_layer layers[SNAPSHOT_LAYERS_MAX];
	unsigned n_draft; /* layers of a draft model, after the main ones */
	struct snapshot_layer draft[SNAPSHOT_DRAFT_MAX];
	unsigned n_steps; /* 0, or both: decode, then with prompts */
	struct snapshot_step steps[SNAPSHOT_PHASES];
	unsigned n_classes;
	struct snapshot_class classes[SNAPSHOT_CLASSES_MAX];
	/* shares of the decode step by kernel group, then idle; sums to 1 */
	struct value group_share[7];
	unsigned n_findings;
	struct finding findings[SNAPSHOT_FINDINGS_MAX];
	char verdict[3][160]; /* plain words for the box, "" unused */
	struct snapshot_experts experts;
	struct snapshot_bytes bytes;
	unsigned n_checks;
	struct snapshot_check checks[SNAPSHOT_CHECKS_MAX];
	unsigned n_what_if;
	struct snapshot_what_if what_if[SNAPSHOT_WHAT_IF_MAX];
	/* for whatif_at with any change */
	struct whatif what_if_base;
	struct snapshot_health health;
	struct snapshot_requests requests;
};

/* ---- from samples to snapshots ---------------------------------------- */

struct sample;
struct gpu;

struct model_settings {
	double gpu_price; /* USD per GPU-hour; 0 unknown */
};

/* Smoothed state between samples: classifier, counters.  Opaque in use, plain
 * memory that the caller holds; zero it with model_init. */
struct model;
struct model *model_new(const struct model_settings *s); /* NULL: no memory */
void model_free(struct model *m);

/*
 * Fill the computed part of *out (metrics, hists, layers, classes, regime,
 * findings, verdict) from one sample.
 *
 * Rows come from the newest window that had decode steps (measured); they are
 * stale after 60 s, when the load is no longer what it was in the window, and
 * when nothing runs.  Without a window they are modelled from the number of
 * streams.  Shares, S-MBU and the regime always describe the present: from the
 * window while it holds, else from the present load, the routing skew that the
 * last window showed, and the step counters.  Without rows, U is inferred from
 * DRAM counters where the load is steady and the engine counts cached tokens.
 * sigma_KV is by that count, at most the time of attention; without it, it is
 * known only where attention takes more than half of a step, and eta leaves it
 * out elsewhere.  What only decode steps have (MFU, S-MBU, cost) leaves prompts
 * out; sigma and eta count steps with prompts by their time.
 *
 * arch may be NULL (unknown model), gpu may be NULL (unknown GPU): what depends
 * on them is NO_DATA.  The caller has filled target and health; they are left
 * alone.  Never fails.
 */
void model_update(struct model *m, const struct sample *in,
		  const struct arch *arch, const struct gpu *gpu,
		  struct snapshot *out);

#endif
