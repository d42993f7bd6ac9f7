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
	CUdeviceptr place[PLACES]; /* of args_spec.h */
};

/* A step's launches in program order. */
struct runner_item {
	uint8_t line;
	uint8_t layer;
	int16_t piece; /* of a graph; -1: launched by itself */
};
#define RUNNER_ITEMS_MAX 16384u
#define RUNNER_PIECES_MAX 260u

struct runner_graph {
	unsigned size;
	unsigned pieces;
	CUgraphExec *exec;
};

#define ATTENTION_ARGS_BYTES 248u /* passed by value */

struct runner_call;
/* Fill in the arguments of a call. */
typedef void (*runner_layout)(const struct runner *r,
			      const struct runner_call *c,
			      struct kernel_args *a);

struct runner {
	struct runner_options o;
	CUcontext context;
	CUmodule module;
	CUstream stream, side; /* side: second stream of a sequence */
	CUevent fork, join;
	struct sequence seq;
	runner_layout layout[SEQUENCE_LINES_MAX];
	/* Triton does not pass a row count of 1: another function. */
	CUfunction fn[SEQUENCE_LINES_MAX], one_row[SEQUENCE_LINES_MAX];
	struct runner_item item[RUNNER_ITEMS_MAX];
	unsigned draft_layers;
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
	unsigned line; /* of the sequence */
	unsigned rows, layer;
	struct gemm_args gemm; /* for the dense GEMMs */
};

/* What an args_spec of this call depends on. */
struct spec_call runner_spec(const struct runner *r,
			     const struct runner_call *c);

/* runner_kernels.c: register all kernels and look their functions up. */
int runner_load_kernels(struct runner *r, char *why, size_t why_bytes);
/* The function that runs a call. */
CUfunction runner_function(const struct runner *r, const struct runner_call *c);
/* Its arguments.  Dense GEMMs and layouts of one struct take it by value, and
 * have none here. */
void runner_args(const struct runner *r, const struct runner_call *c,
		 struct kernel_args *out);

/* runner_launch.c: list the launches of a step with this many rows in r->item.
 * Returns how many. */
unsigned runner_list(struct runner *r, unsigned rows);
/* Launch r->item[from] .. [to - 1]. */
void runner_launch(struct runner *r, unsigned rows, unsigned from, unsigned to);

#endif
