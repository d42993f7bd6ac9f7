/*
 * record.h - what a source hands to the collector
 *
 * Every record of the agent's ring (wire/ring.h) is one struct record of
 * RECORD_BYTES.  Sums are shipped, never ratios: the collector may add the
 * records of several windows and ranks and divide once.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC; the agent has converted CUPTI's
 * clock.  A reader takes nothing on trust: an unknown type, a layer or an
 * expert out of range is counted and skipped.
 *
 * Included by the agent, the BPF programs (with __bpf__) and the collector.
 */
#ifndef MOETOP_WIRE_RECORD_H
#define MOETOP_WIRE_RECORD_H

#ifndef __bpf__ /* BPF programs take __u32 and friends from bpf/kernel.h */
#include <linux/types.h>
#endif

#define RECORD_BYTES 128
#define RECORD_VERSION 2

#define LAYERS_MAX 128u    /* MoE layers of one model */
#define EXPERTS_MAX 1024u  /* routed experts of one layer */
#define LAYER_NONE 0xffffu /* kernel time outside every MoE layer */

enum record_type {
	REC_STATUS = 1, /* agent state; on change and once a second */
	REC_TICK,       /* cumulative counters, four times a second */
	REC_WINDOW,     /* one closed window; follows its LAYER and ROWS */
	REC_LAYER,      /* kernel time of one (window, phase, layer, class) */
	REC_ROWS,       /* row sums of one (window, phase, layer) */
	REC_EXPERTS,    /* per-expert row totals, EXPERTS_PER_RECORD each */
	REC_STEP_ROWS,  /* row sums of one sampled step */
	REC_TEXT,       /* one line for the log */
	REC_HIST,       /* part of a distribution over one window */
	REC_STEPS,      /* sums over the steps of one (window, phase) */
	REC_SPANS,      /* when kernels of a layer ran; on wish only */
	REC_TYPES
};

/*
 * A decoder layer has two parts.  The block runs from the MoE anchor (the top-k
 * or routing kernel) to the last kernel of GROUP_EXPERT or GROUP_ROUTE, or
 * all-to-all, before the next anchor; whatever lies between counts, also on
 * other streams.  What lies between two blocks (norms, attention, router GEMM)
 * leads up to the later one.  After the last block of a step: LAYER_NONE.
 */
enum layer_part { PART_BLOCK, PART_BEFORE };

/* A step either replays a decode graph (or is all decode), or has prefill. */
enum phase { PHASE_DECODE, PHASE_PREFILL, PHASES };

enum agent_state {
	AGENT_ABSENT, /* never written by an agent: the collector's own word */
	AGENT_STARTING,
	AGENT_IDLE,   /* callbacks and counters, no kernel records */
	AGENT_WINDOW, /* kernel records on */
	AGENT_YIELDED,
	AGENT_DISABLED,
	AGENT_DETACHING,
	AGENT_STUB,
	AGENT_STATES
};

/* Why an agent is disabled or has yielded. */
enum agent_reason {
	REASON_NONE,
	REASON_NO_CUPTI,      /* no libcupti in the process and none to open */
	REASON_CUPTI_VERSION, /* outside 11.8 .. 13.x */
	REASON_NO_DRIVER,     /* libcuda absent or cuInit failed */
	REASON_OTHER_CLIENT,  /* CUPTI error 39: a profiler owns CUPTI */
	REASON_CUPTI_ERROR,   /* any other; detail holds the CUptiResult */
	REASON_FATAL,         /* CUPTI_CBID_STATE_FATAL_ERROR: never again */
	REASON_RECORD_CAP,    /* kernel records of this CUPTI life used up */
	REASON_BUDGET,        /* cost passed four times the budget */
	REASON_BAD_RECORDS,   /* start-up sanity test of the layout failed */
	REASON_RESOURCES,     /* memory, threads or descriptors */
	REASONS
};

struct rec_status {
	__u32 state;          /* enum agent_state */
	__u32 reason;         /* enum agent_reason */
	__s32 detail;         /* CUptiResult or -errno */
	__u32 cupti_version;  /* CUPTI_API_VERSION, 130001 */
	__u32 driver_version; /* cuDriverGetVersion, 13000 */
	__u32 device;         /* CUDA ordinal */
	__u32 graphs;         /* executable graphs in the map */
	__u32 graph_nodes;    /* kernel nodes in the map */
	__u32 late;           /* 1: attached after graphs were captured */
	__u32 experts;        /* E seen at the align kernel, 0 unknown */
	__u32 top_k;          /* k seen at the top-k kernel, 0 unknown */
	__u32 moe_layers;     /* anchors per decode graph, 0 unknown */
	char device_name[48];
};

/* Since the agent started; only ever grows. */
struct rec_tick {
	__u64 decode_steps;  /* cuGraphLaunch of graphs with MoE anchors */
	__u64 eager_steps;   /* runs of eager MoE anchors */
	__u64 padded_tokens; /* captured batch, summed over decode_steps */
	__u64 eager_tokens;  /* rows of the top-k kernel over eager_steps */
	__u64 launches;      /* launch callbacks taken */
	__u64 callback_ns;   /* spent in them, sampled and scaled */
	__u64 agent_cpu_ns;  /* CPU time of the agent's threads */
	__u64 kernel_records;
	__u64 records_dropped; /* by CUPTI, for want of room, bad, or late */
	__u32 windows;
	__u32 overhead_ppm; /* of step time; 0xffffffff unknown */
	__u64 bad_stamps; /* zero or inverted timestamps, in records_dropped */
};

struct rec_window {
	__u32 window; /* 1, 2, ...; the same in its LAYER and ROWS */
	__u32 phase_steps[PHASES];
	__u32 layers_seen; /* anchors in one step, draft layers left out */
	__u64 start_ns, end_ns;
	__u64 step_ns[PHASES]; /* start of step to start of the next, summed */
	__u64 busy_ns[PHASES]; /* union of kernel intervals inside them */
	__u64 tokens[PHASES];  /* rows of the top-k kernel incl. padding */
	__u32 cells_rejected;  /* row samples that failed validation */
	__u32 cells_lost;      /* (step, layer) cells never sampled */
	__u32 bad_steps;       /* anchors unlike the layer count, or no room */
	__u32 kernels;         /* kernel records that came */
	__u32 draft_layers;    /* anchors of a draft model, after these */
	/* Records of steps that are left out: bad ones, and what the window's
	 * edges cut.  All others are in LAYER records. */
	__u32 bad_kernels, edge_kernels;
	__u32 edge_steps;
};

/* Steps that count, as one whole. */
struct rec_steps {
	__u32 window;
	__u16 phase;
	__u16 pad;
	__u64 steps;
	__u64 kernels;
	__u64 launches; /* by the host: eager kernels, and replays of graphs */
	__u64 span_ns;  /* first kernel's start to last one's end */
	__u64 busy_ns;  /* of which a kernel ran; the rest is gaps */
	__u64 step_ns;  /* start to start: the rest is between steps */
};

struct rec_layer {
	__u32 window;
	__u16 phase;
	__u16 layer; /* 0-based, draft layers after the main ones; LAYER_NONE */
	__u16 klass; /* enum kernel_class, wire/kernel_class.h */
	__u16 part;  /* enum layer_part */
	__u32 steps; /* steps that this sum covers */
	__u64 calls;
	__u64 sum_ns;   /* durations added up */
	__u64 union_ns; /* time covered: streams may overlap */
};

/* Sums over the sampled (step, layer) cells of one window; real rows only. */
struct rec_rows {
	__u32 window;
	__u16 phase;
	__u16 layer;
	__u32 cells;
	__u32 experts; /* E of the layer */
	__u64 rows;    /* R: (token, expert) pairs */
	__u64 active;  /* U: experts with a row */
	__u64 single;  /* F1 */
	__u64 twice;   /* F2 */
	__u64 sum_squares;
	__u64 max_rows;    /* largest expert of each cell, summed */
	__u64 tokens;      /* real tokens */
	__u64 padded_rows; /* (token, expert) slots marked as padding */
	/* All below: 0 from an agent that does not know them. */
	__u32 exact_cells;  /* of cells: copied by the graph itself */
	__u32 direct_cells; /* of cells: no alignment, a block per row */
	__u64 blocks; /* weights are asked for so often: U, or R where direct */
	/* Of the experts that do the work where those are not the routed ones:
	 * replicas of experts, or what arrives at this rank's from all ranks. */
	__u32 placed_cells;
	__u16 placed_experts; /* of one cell */
	__u16 dropped; /* per token: fused shared experts, or without weights */
	__u32 placed_rows, placed_active; /* over placed_cells; saturate */
};

#define EXPERTS_PER_RECORD 24u
struct rec_experts {
	__u32 window;
	__u16 phase;
	__u16 layer;
	__u16 first, count; /* experts first .. first + count - 1 */
	__u32 rows[EXPERTS_PER_RECORD];
};

/* One sampled step, so that a step can be compared with a truth log. */
struct rec_step_rows {
	__u32 window;
	__u16 phase;
	__u16 cells;
	__u64 start_ns;      /* start of the step's first kernel */
	__u64 layer_mask[2]; /* bit l of word l / 64: layer l was sampled */
	__u64 rows, active, single; /* summed over those layers */
};

/*
 * Distributions over the decode steps of one window: step times in the buckets
 * of wire/requests.h, and rows per active expert and sampled cell in those of
 * rows_bucket.  Only runs of buckets that hold something are sent.
 */
enum hist_what { HIST_STEP_NS, HIST_ROWS, HIST_WHATS };
#define HIST_PER_RECORD 22u
struct rec_hist {
	__u32 window;
	__u16 what;         /* enum hist_what */
	__u16 first, count; /* buckets first .. first + count - 1 */
	__u16 pad[3];
	__u64 sum; /* ns or rows; adds up over the records of one window */
	__u32 buckets[HIST_PER_RECORD];
};

/* Exact below 32 rows, then 16 buckets an octave. */
#define ROWS_EXACT 32u
#define ROWS_BUCKETS 192u
static inline __u32 rows_bucket(__u32 rows)
{
	__u32 octave, b;

	if (rows < ROWS_EXACT)
		return rows;
	octave = 31u - (__u32)__builtin_clz(rows);
	b = ROWS_EXACT + ((octave - 5) << 4) + ((rows >> (octave - 4)) & 15);
	return b < ROWS_BUCKETS ? b : ROWS_BUCKETS - 1;
}

/* The most rows that a bucket stands for. */
static inline __u32 rows_bucket_high(__u32 b)
{
	__u32 i = b - ROWS_EXACT;

	if (b < ROWS_EXACT)
		return b;
	return ((16u + (i & 15) + 1) << ((i >> 4) + 1)) - 1;
}

/*
 * Kernel time of whole decode steps, in time order, to be laid over the samples
 * of a counter.  An instant is in one span at most; where kernels overlap, in
 * that of the one that began first.  What is in no whole decode step is one span
 * of SPAN_UNKNOWN from its first kernel to the next step.  Sent where
 * ring_control.spans is set, before the window's WINDOW record.
 */
#define SPANS_PER_RECORD 8u
#define SPAN_UNKNOWN 0xffu
struct rec_spans {
	__u32 window;
	__u32 count;
	__u64 base_ns; /* CLOCK_MONOTONIC */
	struct {
		__u32 start_ns; /* after base_ns */
		__u32 length_ns;
		__u16 layer; /* as in rec_layer */
		__u16 group; /* enum kernel_group, or SPAN_UNKNOWN */
	} span[SPANS_PER_RECORD];
};

#define TEXT_BYTES 104
struct rec_text {
	__u32 level; /* 0 information, 1 warning, 2 error */
	char text[TEXT_BYTES];
};

struct record {
	__u32 type; /* enum record_type */
	__u32 reserved;
	__u64 time_ns;
	union {
		struct rec_status status;
		struct rec_tick tick;
		struct rec_window window;
		struct rec_layer layer;
		struct rec_rows rows;
		struct rec_experts experts;
		struct rec_step_rows step_rows;
		struct rec_text text;
		struct rec_hist hist;
		struct rec_steps steps;
		struct rec_spans spans;
		__u8 bytes[RECORD_BYTES - 16];
	};
};

_Static_assert(sizeof(struct record) == RECORD_BYTES, "wire layout");

#endif
