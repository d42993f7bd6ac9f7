/*
 * shape.h - what the simulated kernels of one model read
 *
 * model/arch.h knows sums over the model; kernels need them by layer.  The
 * split keeps the sums:
 *
 *	dense_bytes = layers x (qkv + output) + moe_layers x (router + shared)
 *		      + dense_layers x dense MLP + head
 *
 * where router = E x hidden, head = vocabulary x hidden and the dense MLP =
 * 3 x hidden x intermediate_size are exact, shared experts count as routed
 * ones, and attention is the rest, three fifths of it before the attention
 * kernel.  Dense layers are taken to come first, as in DeepSeek's models.
 */
#ifndef MOETOP_SIM_SERVER_SHAPE_H
#define MOETOP_SIM_SERVER_SHAPE_H

#include <stddef.h>

#include "model/arch.h"

struct shape {
	struct arch arch;
	char path[512]; /* the config file, as servers show it */
	unsigned vocab, max_model_len;
	unsigned dense_layers;
	/* bytes of weights, of one layer each */
	double qkv_bytes, output_bytes, router_bytes, shared_bytes;
	double mlp_bytes, head_bytes;
	double kv_bytes;     /* of one token in one layer */
	double total_bytes;  /* of all weights */
	double first_matmul; /* share of an expert in its first GEMM: 2/3 */
	unsigned experts_from, experts_to; /* whose weights are here */
};

/* 0, or the errors of model_config_read; -ENOTSUP for a dense model.  why gets
 * one line. */
int shape_read(const char *path, struct shape *out, char *why,
	       size_t why_bytes);

/* The split alone, from an arch and the config's own numbers. */
void shape_split(struct shape *s, unsigned mlp_width);

#endif
