/*
 * runner_parts.h - what the files of the model runner share
 */
#ifndef MOETOP_SIM_SERVER_RUNNER_PARTS_H
#define MOETOP_SIM_SERVER_RUNNER_PARTS_H

#include "sim/gpu/cuda_api.h"
#include "sim/server/device.h"
#include "sim/server/runner.h"

/* Device memory.  Weights and activations are never looked at, so they are
 * addresses without memory behind them. */
struct runner_memory {
	CUdeviceptr input, padding, real_rows, topk_ids, cumsum, tokens;
};

struct runner_graph {
	unsigned size;
	CUgraphExec exec;
};

/* fused_moe_kernel is compiled per argument layout (kernels.h). */
#define MOE_VARIANTS 8u
#define ATTENTION_ARGS_BYTES 248u /* passed by value */

struct runner {
	struct runner_options o;
	CUcontext context;
	CUmodule module;
	CUstream stream;
	CUfunction fn[KERNELS];
	CUfunction moe[MOE_VARIANTS];
	CUfunction topk_one_row; /* SGLang: the row count 1 is not passed */
	struct runner_memory mem;
	uint8_t *input; /* host copy of struct device_input and its tokens */
	uint8_t *padding;
	int32_t real_rows;
	int32_t *sampled;
	struct runner_graph graph[GRAPH_SIZES_MAX];
	unsigned graphs;
	unsigned rows_max;
	uint64_t steps;
	uint64_t kv_tokens;
	CUresult failed; /* sticky: the first failure of any call */
	const char *failed_call;
	char error[128];
};

/* Remember the first failure of a driver call. */
void runner_check(struct runner *r, CUresult e, const char *call);
#define RUNNER_CALL(r, call, ...) runner_check(r, call(__VA_ARGS__), #call)

/* One launch: what its arguments depend on. */
struct runner_call {
	enum kernel_id id;
	unsigned rows, layer;
	bool naive;            /* the expert GEMMs run without alignment */
	struct gemm_args gemm; /* for the dense GEMMs */
};

/* runner_kernels.c: register all kernels and look their functions up. */
void runner_load_kernels(struct runner *r);
/* The function that runs a call. */
CUfunction runner_function(const struct runner *r, const struct runner_call *c);
/* Its arguments; the dense GEMMs and attention take a struct by value, which
 * runner_launch knows about, and have none here. */
void runner_args(const struct runner *r, const struct runner_call *c,
		 struct kernel_args *out);

/* runner_launch.c: launch all kernels of a step with this many rows. */
void runner_launch(struct runner *r, unsigned rows);

#endif
