/* server_model.h - a small model for tests that run the simulated GPU */
#ifndef MOETOP_TESTS_SERVER_MODEL_H
#define MOETOP_TESTS_SERVER_MODEL_H

#include "sim/server/shape.h"

#define LAYERS 4u
#define DENSE 1u
#define EXPERTS 96u
#define TOP_K 4u

static inline struct shape small_shape(void)
{
	struct shape s = {
		.arch = {
			.experts = EXPERTS,
			.top_k = TOP_K,
			.layers = LAYERS + DENSE,
			.moe_layers = LAYERS,
			.hidden = 1024,
			.expert_in = 1024,
			.expert_inter = 512,
			.expert_matrices = 3,
			.shared_experts = 1,
			.expert_params = 3.0 * 1024 * 512,
			.expert_bytes = 2 * 3.0 * 1024 * 512,
			.dense_params = 60e6,
			.dense_bytes = 120e6,
			.kv_bytes_per_token = 10240,
		},
		.vocab = 1000,
	};

	shape_split(&s, 2048);
	return s;
}

#endif
