/*
 * state.h - the one agent of a process, shared by the files of agent/
 *
 * Three kinds of thread meet here.  Threads of the host run callbacks: they
 * read what was set up before `live`, push to the log, and add to the atomic
 * counters.  The agent's thread does everything else and is the only writer of
 * the ring (until it is started, the thread that starts it).  The sampler's
 * thread copies rows during windows (agent/sampler.h).
 */
#ifndef MOETOP_AGENT_STATE_H
#define MOETOP_AGENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/budget.h"
#include "agent/config.h"
#include "agent/exact.h"
#include "agent/launch_log.h"
#include "agent/plan.h"
#include "agent/rows.h"
#include "agent/sampler.h"
#include "cupti/adapters.h"
#include "cupti/buffers.h"
#include "cupti/decode.h"
#include "cupti/graph_map.h"
#include "cupti/library.h"
#include "cupti/reduce.h"
#include "wire/record.h"
#include "wire/ring.h"

/* What is worth remembering of one executable graph, by graph_exec index. */
struct exec_info {
	uint32_t id; /* that the rest was worked out for; 0: nothing */
	uint32_t tries;
	uint64_t last_ns;       /* its last launch */
	struct model_hint hint; /* that its launches were read with */
};

enum window_stage { WINDOW_CLOSED, WINDOW_OPEN, WINDOW_DRAINING };

struct window {
	enum window_stage stage;
	bool sampling;
	uint32_t number;
	uint64_t start_ns, end_ns, flush_ns;
	uint64_t heard_ns; /* while draining: when records last came */
	/* Counters when it opened. */
	uint64_t kernels_before, dropped_before, stamps_before;
	struct plan_totals totals;
	int64_t ran;   /* work that was launched to run; until closed: before */
	bool reported; /* the last one that closed */
};

struct eager;  /* agent/activity.c */
struct target; /* agent/targets.c */

struct agent {
	struct config config;
	struct ring_writer ring;
	struct cupti_api cupti;
	struct cuda_api cuda;
	bool has_cuda;
	uint32_t cupti_version, driver_version, device;
	char device_name[48];
	void *subscriber;
	bool shared; /* CUPTI has room for other clients */

	/* Of callbacks. */
	_Atomic bool live;          /* set up, and not fork's child */
	_Atomic bool fatal;         /* CUPTI is gone: call it never again */
	_Atomic bool late;          /* came after CUDA, or slept meanwhile */
	_Atomic uint32_t in_flight; /* threads inside a callback */
	_Atomic bool cuda_began; /* cuInit has called, not for the first time */
	_Atomic uint32_t lives;  /* of the agent, from 1 */
	_Atomic(void *) context; /* of the last routing or graph launch */
	/* Subscriptions so far, and the one in which the id of an executable
	 * graph was last made sure of. */
	_Atomic uint32_t epoch, exec_epoch[GRAPH_EXECS_MAX];
	struct functions *functions;
	struct graph_map *map;
	struct launch_log *log;
	struct buffers buffers;
	_Atomic uint64_t launches, captured, callback_ns;

	/* The agent thread's. */
	enum agent_state state;
	enum agent_reason reason;
	int32_t detail;
	bool displaced;     /* error 39 came: another client has CUPTI now */
	uint64_t begin_ns;  /* of this life */
	uint64_t cpu_ns;    /* of the agent's thread, before this life */
	uint64_t reader_ns; /* when a collector was last seen */
	uint64_t launch_ns; /* when the host was last seen to launch */
	uint64_t looked_ns; /* when libcuda was last looked for */
	uint64_t tried_ns;  /* when a subscription was last tried, or renewed */
	bool watched;       /* a collector has ever been there */
	void *met;          /* the host's context, current in this thread */
	struct rec_tick tick;
	struct plan plan;
	struct plan_totals totals;
	struct budget budget;
	uint64_t window_ns; /* all windows so far */
	struct window window;
	uint32_t windows_before; /* the number of windows in earlier lives */
	struct kernel_names *names;
	struct reduce *reduce;
	struct decode *decode;
	struct rows *rows;
	struct eager *eager;    /* eager launches, by correlation */
	struct target *targets; /* by index of the executable graph */
	struct exec_info exec[GRAPH_EXECS_MAX];
	uint32_t last_exec; /* index; UINT32_MAX none */
	uint32_t moe_layers;
	_Atomic uint32_t experts, top_k;    /* read by the sampler */
	uint64_t eager_anchors, eager_rows; /* not yet a whole step */
	bool graphs_used;
	uint64_t cupti_dropped;
	uint64_t late_records;  /* came after their window was reported */
	uint64_t cupti_kernels; /* kernel records of this CUPTI life */
	uint32_t cupti_lives;   /* in this life of the agent */
	uint32_t spoilt; /* windows in a row with hardly a time in order */
	bool paused;     /* it was said that records are used up */
	unsigned cpus;
	struct sampler sampler;
	struct exact exact;
};

extern struct agent agent;

uint64_t agent_now_ns(void); /* CLOCK_MONOTONIC */

#endif
