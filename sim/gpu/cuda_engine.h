/*
 * cuda_engine.h - inside the simulated libcuda
 *
 * Memory.  A device address is a number in a reserved range that no one can
 * touch.  Behind it are two copies of device memory at fixed distances: front
 * is what can be seen now, plan is what will be there after all that has been
 * planned.  Device code reads and writes plan at once; front changes when time
 * passes, by ops.
 *
 * Ops.  What changes front or host memory, each with the time when it happens.
 * A launch or copy leaves a batch of ops in its stream, ordered by time;
 * sim_apply merges the streams.  Every op is added before its time has come, so
 * applying up to the present is always complete.
 *
 * Locks, in this order: stream->order (callers of one stream), sim.plan (one
 * planner, or one that applies, at a time), sim.lock (everything else, short).
 * Hooks are called with none of them held.
 */
#ifndef MOETOP_SIM_GPU_CUDA_ENGINE_H
#define MOETOP_SIM_GPU_CUDA_ENGINE_H

#include "sim/gpu/common_gpu.h"
#include "sim/gpu/common_shm.h"
#include "sim/gpu/cuda_api.h"
#include "sim/gpu/simgpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define SIM_LAUNCH_LATENCY_NS 4000u /* from the call to the first kernel */
#define SIM_COPY_LATENCY_NS 1500u   /* from the call to a copy's start */
#define SIM_COPY_FIXED_NS 3000u     /* of a copy, besides its bytes */
#define SIM_COPY_BYTES_PER_NS 20u
#define SIM_KERNEL_MIN_NS 500u
#define SIM_GAP_EAGER_NS 1000u
#define SIM_BATCHES_MAX 1024u /* launches pending in a stream */
#define SIM_PARAMS_MAX 64u
#define SIM_LANES_MAX 4u
#define SIM_SPAN_BYTES (UINT64_C(1) << 38) /* of device addresses */
#define SIM_SPAN_LEAST (UINT64_C(1) << 28)

enum sim_op_kind { OP_STORE, OP_FILL, OP_DTOH, OP_DTOD };

struct sim_op {
	uint64_t at_ns;
	uint64_t dst; /* device address; OP_DTOH: host address */
	uint64_t src; /* device address; OP_STORE: offset in the batch's data */
	size_t bytes;
	uint8_t kind, value;
};

struct sim_batch {
	struct sim_batch *next;
	uint64_t end_ns;
	struct sim_op *ops;
	size_t op_count, op_room, op_done;
	uint8_t *data;
	size_t data_used, data_room;
};

struct sim_function {
	struct sim_function *next;
	simgpu_kernel code;
	void *arg; /* for the code */
	unsigned param_count;
	uint8_t param_bytes[SIM_PARAMS_MAX];
	uint16_t param_offset[SIM_PARAMS_MAX + 1]; /* the last: total */
	char name[];
};

struct sim_copy {
	uint64_t dst, src;
	size_t bytes;
	uint8_t kind; /* CUpti_ActivityMemcpyKind, 0: memset */
	uint8_t value;
};

enum { COPY_SET = 0, COPY_HTOD = 1, COPY_DTOH = 2, COPY_DTOD = 8 };
enum { NODE_KERNEL = 0, NODE_MEMCPY = 1, NODE_MEMSET = 2 };

struct sim_node {
	uint32_t graph, index;
	uint8_t type, lane;
	/* Put into a graph whose capture has ended: behind node `parent`, and
	 * before what follows that one only once there is an edge that says so. */
	bool inserted, ordered;
	int32_t parent;
	int32_t after[2]; /* nodes of other lanes to wait for, -1: none */
	struct sim_graph *owner;       /* of a template's node */
	struct sim_function *function; /* NULL: a copy */
	unsigned grid[3], block[3], shared_bytes;
	struct sim_copy copy;
	void **params; /* in the same allocation */
};

struct sim_graph {
	uint32_t id; /* first, as in struct sim_exec */
	bool invalid;
	int mode;
	pthread_t owner;
	struct sim_graph *next; /* of those being captured */
	struct sim_stream *origin;
	struct sim_node **nodes;
	uint32_t count, room;
	uint32_t lanes;
	int32_t lane_last[SIM_LANES_MAX]; /* newest node, -1 none */
	bool lane_open[SIM_LANES_MAX];    /* forked and not joined */
};

struct sim_exec {
	uint32_t id;
	struct sim_node **nodes;
	uint32_t count;
	bool lanes;
};

struct sim_context {
	uint32_t id;
	unsigned refs;
	struct sim_stream *null_stream;
};

struct sim_stream {
	struct sim_stream *next;
	uint32_t id;
	unsigned flags;
	struct sim_context *context;
	pthread_mutex_t order;
	/* under sim.lock */
	uint64_t end_ns;
	struct sim_batch *head, *tail;
	unsigned batches;
	struct sim_graph *capture;
	uint32_t lane;
	int32_t after[2];
};

struct sim_event {
	unsigned flags;
	bool recorded;
	uint64_t at_ns;
	struct sim_graph *capture;
	uint32_t lane;
	int32_t node;
};

struct sim_range {
	uint64_t base, bytes;
};

struct sim_ranges { /* sorted by base, disjoint */
	struct sim_range *v;
	size_t count, room;
};

struct sim_gpu {
	pthread_mutex_t plan, lock;
	_Atomic int ready; /* cuInit has succeeded */
	_Atomic int error; /* sticky */
	const struct sim_gpu_type *type;
	uint32_t device;               /* physical index */
	uint64_t base, front, planned; /* addresses of the three ranges */
	uint64_t span;                 /* bytes of each */
	struct sim_ranges allocs, pinned;
	uint64_t used_bytes;
	struct sim_stream *streams;
	struct sim_batch *spare;
	unsigned spares;
	uint64_t legacy_end_ns, blocking_end_ns;
	struct sim_context *primary;
	struct sim_graph *capturing;
	_Atomic uint32_t captures; /* length of capturing */
	/* under plan */
	uint64_t busy_until_ns;
	uint64_t *node_end_ns;
	size_t node_end_room;
	uint32_t gap_seed;
	struct sim_shm *shm;
	_Atomic uint32_t last_correlation, last_graph, last_stream,
		last_context;
};
extern struct sim_gpu sim;

/* ---- calls (cuda_call.c) ------------------------------------------------- */

struct sim_call {
	uint32_t cbid, correlation;
	const char *name;
	const void *params;
	int result;
};

void sim_call_enter(struct sim_call *c, uint32_t cbid, const char *name,
		    const void *params);
CUresult sim_call_exit(struct sim_call *c, CUresult result);
uint32_t sim_correlation(void); /* of the call in progress in this thread */
void sim_resource(uint32_t cbid, struct sim_context *ctx, void *handle,
		  const struct cupti_graph_data *graph);

/* 0, or why the calling thread may not make a call that needs a context. */
CUresult sim_ready(void);
struct sim_context *sim_current(void);
struct sim_stream *sim_stream_of(CUstream s); /* resolves the null stream */
void sim_wait_until(uint64_t t);

/* ---- memory (cuda_memory.c) ---------------------------------------------- */

CUresult sim_memory_init(void);
/* Whether [ptr, ptr + bytes) lies in one allocation.  Takes sim.lock. */
bool sim_device_range(uint64_t ptr, size_t bytes);
/* The allocation that holds ptr; false, *out untouched: none. */
bool sim_device_find(uint64_t ptr, struct sim_range *out);
bool sim_pinned(const void *ptr, size_t bytes);
static inline void *sim_front(uint64_t ptr)
{
	return (void *)(uintptr_t)(ptr - sim.base + sim.front);
}
static inline void *sim_planned(uint64_t ptr)
{
	return (void *)(uintptr_t)(ptr - sim.base + sim.planned);
}

/* ---- time (cuda_queue.c) -------------------------------------------------- */

struct sim_batch *sim_batch_get(void); /* NULL: no memory */
void sim_batch_put(struct sim_batch *b);
/* Append an op; data is copied for OP_STORE.  false: no memory. */
bool sim_batch_add(struct sim_batch *b, const struct sim_op *op,
		   const void *data);
/* Hand a batch to its stream; sim.lock is held. */
void sim_batch_push(struct sim_stream *s, struct sim_batch *b);
void sim_batch_sort(struct sim_batch *b);
/* Apply all ops of the past.  Takes sim.plan and sim.lock. */
void sim_apply(void);
void sim_apply_planning(void); /* the same with sim.plan held */
/* The earliest start of new work in s; sim.lock is held. */
uint64_t sim_stream_from(const struct sim_stream *s);
void sim_stream_advance(struct sim_stream *s, uint64_t end_ns);
void sim_stream_throttle(struct sim_stream *s);
void sim_device_drain(void); /* wait for everything, then apply */
CUresult sim_stream_drain(struct sim_stream *s);

/* ---- planning (cuda_plan.c) ----------------------------------------------- */

/* Plan nodes on s, whose order lock is held and is released. exec 0: eager. */
CUresult sim_plan(struct sim_stream *s, struct sim_node *const *nodes,
		  uint32_t count, uint32_t exec, bool lanes);
/* The same for one copy to the host outside of graphs. */
CUresult sim_plan_dtoh(struct sim_stream *s, const struct sim_node *n);

/* ---- functions (cuda_launch.c) and graphs (cuda_capture.c, cuda_graph.c) ---- */

struct sim_node *sim_node_clone(const struct sim_node *n);
/* Append a node, whose id is its index; false: no memory. */
bool sim_graph_append(struct sim_graph *g, struct sim_node *n);
/* The nodes of a graph in an order that its edges allow; out has room for all. */
void sim_graph_order(const struct sim_graph *g, struct sim_node **out);
void sim_graph_free(struct sim_graph *g);
/* Event record and wait while capturing; sim.lock held. */
void sim_capture_record(struct sim_stream *s, struct sim_event *e);
CUresult sim_capture_wait(struct sim_stream *s, const struct sim_event *e);
uint32_t sim_next_stream_id(void);
bool sim_capturing(struct sim_stream *s);
/* Append a copy of *n to the graph that s captures. */
CUresult sim_capture(struct sim_stream *s, const struct sim_node *n);
/* 900 if this thread may not make an unsafe call now, which spoils captures. */
CUresult sim_capture_guard(void);
CUresult sim_capture_implicit(const struct sim_stream *s);

#pragma GCC visibility pop

#endif
