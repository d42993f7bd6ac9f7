/*
 * simgpu.h - how device code is given to the simulated GPU
 *
 * build/sim/lib/libcuda.so.1 is a discrete-event model of a GPU behind the
 * CUDA driver API.  Its clock is CLOCK_MONOTONIC: launched work is planned at
 * launch (start and end of every kernel), and becomes visible to the host when
 * its end has passed.  "Device memory" is host memory of the simulation; a
 * kernel's stores are applied, in order of its end time, no later than the
 * first moment that anything (a copy, a synchronisation) can look.  So a copy
 * on another stream sees exactly what was in memory at the copy's own time.
 *
 * As on a real machine, the host cannot dereference a device pointer: it
 * faults.  Device code reaches memory by simgpu_load and simgpu_store, the
 * host by copies.  sim/gpu/README.md lists what differs from the real
 * libraries.
 *
 * A kernel is a C function registered under a name.  At plan time it reads its
 * parameters, says what it costs, and posts its stores.  Only moetop-sim uses
 * this header; the agent sees the real CUDA and CUPTI interfaces alone.
 */
#ifndef MOETOP_SIM_GPU_SIMGPU_H
#define MOETOP_SIM_GPU_SIMGPU_H

#include <stddef.h>
#include <stdint.h>

struct simgpu_launch; /* one execution of one kernel, valid during the call */

/* What a kernel costs: the duration is t0_ns + the larger of the two rooflines,
 * unless duration_ns is given. */
struct simgpu_cost {
	uint64_t duration_ns; /* > 0 overrules the rest */
	double read_bytes, write_bytes;
	double flop; /* of the type that flop_peak is about */
	double bw_efficiency, flop_efficiency; /* 0: 0.85 and 0.6 */
	double flop_peak; /* FLOP/s; 0: the device's BF16 peak */
	uint64_t t0_ns;   /* fixed cost */
};

/*
 * Device code.  params[i] points at the i-th argument's value, as in
 * cuLaunchKernel.  start_ns is when the kernel starts (CLOCK_MONOTONIC).  For a
 * kernel in a graph, node is its index in the graph, else -1.
 */
typedef void (*simgpu_kernel)(struct simgpu_launch *l, void **params,
			      struct simgpu_cost *cost);

uint64_t simgpu_start_ns(const struct simgpu_launch *l);
int simgpu_node(const struct simgpu_launch *l);
const unsigned *simgpu_grid(const struct simgpu_launch *l);
/* Copy bytes to dst (device memory) when this kernel ends.  Outside of an
 * allocation it is an illegal address: every later call returns 700. */
void simgpu_store(struct simgpu_launch *l, void *dst, const void *src,
		  size_t bytes);
/* Device memory as this kernel finds it: planned stores of earlier kernels of
 * the same stream are visible, and its own.  Returns a pointer valid during the
 * call, NULL for an illegal address. */
const void *simgpu_load(struct simgpu_launch *l, const void *src, size_t bytes);
/* Call fn(arg, start_ns, end_ns) once the kernel's times are known: before the
 * launch returns, in the same thread, in order.  fn must not call CUDA.  At most
 * 8 per kernel. */
void simgpu_on_planned(struct simgpu_launch *l,
		       void (*fn)(void *arg, uint64_t start_ns,
				  uint64_t end_ns),
		       void *arg);

/*
 * Register device code.  param_bytes lists the size of each parameter, ended
 * by 0: what cuFuncGetParamInfo reports.  cuModuleGetFunction finds the name in
 * any module.  Later kernels of the same name replace earlier ones there, but a
 * function that was looked up keeps its code and layout: that is how a Triton
 * kernel has one name and a layout per specialisation.  0/-errno.
 */
int simgpu_register(const char *name, simgpu_kernel code,
		    const uint8_t *param_bytes);
/* The same, with a word of the caller's that the code finds again. */
int simgpu_register_with(const char *name, simgpu_kernel code,
			 const uint8_t *param_bytes, void *arg);
void *simgpu_arg(const struct simgpu_launch *l);

/* Choose the GPU before cuInit: "H100", "H200", "B200", "A100". -EINVAL. */
int simgpu_select(const char *name);
double simgpu_bandwidth(void); /* bytes/s of the chosen GPU, data sheet */
double simgpu_flops(const char *type); /* "bf16", "fp8", "fp4"; 0: none */

/*
 * Faults, also through the environment MOETOP_SIM_FAULT="name[=n],...":
 *   subscribe39	 cuptiSubscribe answers 39 (another profiler is there)
 *   later39=n		 CUPTI answers 39 after n kernel records
 *   zero_stamps=n	 timestamps are 0 after n kernel records since the
 *			 start or cuptiFinalize
 *   drop_records=n	 every n-th kernel record is dropped and counted
 *   no_clones		 no event for the nodes of an executable graph
 *   strange_records	 the members of records lie elsewhere than in any release
 *   starve		 no buffer is ever returned before a forced flush
 *   fatal=n		 STATE/FATAL_ERROR after n kernel records
 *   no_counters	 GPM answers NOT_SUPPORTED
 *   clock_jitter=ns	 timestamps wander by up to ns
 *   no_graph_copies	 cuGraphAddMemcpyNode answers NOT_SUPPORTED
 *   late_graph_copies	 copies put into captured graphs run after all else
 *   worker_dies=s	 moetop-sim with --tp or --ep: the last worker is killed
 *			 after s seconds, once
 */
/* Whether a fault is on; *n is its number, 0 without one (may be NULL). */
int simgpu_fault(const char *name, uint64_t *n);

/*
 * The seam between libcuda and libcupti: libcuda exports simgpu_hooks, libcupti
 * fills it at load.  Members may be NULL.  Called on the application's thread
 * with no lock of libcuda held.
 */
struct simgpu_record { /* one kernel or memcpy, times planned */
	uint64_t start_ns, end_ns;
	const char *name; /* NULL: a memcpy */
	uint64_t graph_node;
	uint32_t graph; /* exec id, 0 outside graphs */
	uint32_t stream, correlation;
	unsigned grid[3], block[3];
	uint64_t bytes;    /* memcpy */
	uint8_t copy_kind; /* CUpti_ActivityMemcpyKind; 0: a memset */
	uint8_t value;     /* memset */
	uint32_t dynamic_smem;
	uint32_t context;
};

struct simgpu_hooks {
	/* Around each driver call: site 0 enter, 1 exit. */
	void (*api)(int site, uint32_t cbid, const char *function,
		    const void *params, int *result, uint32_t correlation);
	/* Resource callbacks; data is a struct cupti_resource_data. */
	void (*resource)(uint32_t cbid, const void *data);
	/* n records that were planned, oldest first. */
	void (*records)(const struct simgpu_record *r, size_t n);
};
extern struct simgpu_hooks simgpu_hooks;

/* Ids behind opaque handles, for libcupti. */
uint32_t simgpu_graph_id(void *graph);
uint32_t simgpu_exec_id(void *exec);
uint64_t simgpu_node_id(void *node);
uint32_t simgpu_stream_id(void *stream);
uint32_t simgpu_context_id(void *context);
void *simgpu_context(void);            /* current in this thread, or NULL */
const char *simgpu_symbol(void *func); /* name of a CUfunction */

#endif
