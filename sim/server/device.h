/*
 * device.h - the device code of the simulated server: what its kernels cost and
 * store, and what they say to the truth log
 *
 * There is one simulated GPU in the process, so this is the one module with
 * static state.  The state follows the order of the launches: the embedding
 * kernel takes the step's input from device memory, a routing kernel opens a
 * MoE layer.  Device code runs inside the launch calls of the engine thread
 * (simgpu.h), and device_take must be called by that thread.
 *
 * Durations are t0 + the larger of two rooflines.  Expert GEMMs: t0 = 6 us and
 * 0.85 of the bandwidth, within what grouped-GEMM kernels reach on Hopper
 * (science notes 1.2 j: 25-31 us a MoE layer, 0.76-0.93).  Expert weights are
 * read once per touched expert: bytes = U x expert_bytes.
 */
#ifndef MOETOP_SIM_SERVER_DEVICE_H
#define MOETOP_SIM_SERVER_DEVICE_H

#include <stdint.h>

#include "sim/server/routing.h"
#include "sim/server/sequence.h"
#include "sim/server/shape.h"
#include "sim/server/truth.h"

/* What the host copies to the device before a step: this, then tokens times
 * struct device_token. */
struct device_input {
	uint32_t tokens, rows; /* real rows, rows that the kernels run */
	double kv_tokens;      /* tokens whose KV a layer's attention reads */
	double score_flop;     /* of one layer's attention scores */
};

struct device_token {
	uint64_t token_key, seq_key; /* for routing_pick */
};

struct device_config {
	const struct shape *shape;     /* borrowed, for the process's life */
	const struct routing *routing; /* likewise */
	uint64_t input;                /* device address of the input */
	unsigned rows_max;
	unsigned draft_layers; /* more MoE layers after the main ones */
	bool pads_late; /* padding is marked by a later kernel (SGLang) */
};

/* Arguments of a dense GEMM, passed by value. */
struct gemm_args {
	uint64_t a, b, c;
	uint32_t m, n, k, pad;
	double weight_bytes;
};

/* 0 or -ENOMEM. */
int device_init(const struct device_config *c);
void device_fini(void);

/* Register a line's kernel (after device_init, before its function is looked
 * up).  The line is borrowed for the process's life.  0 or -errno. */
int device_register(const struct seq_line *k, const char *name,
		    const uint8_t *param_bytes);

/* What the last step did; layer[] is of arch.moe_layers + draft_layers, borrowed
 * until the next launch.  Sets start_ns, end_ns, tokens, padded and the classes
 * of *s. */
const struct truth_layer *device_take(struct truth_step *s);

#endif
