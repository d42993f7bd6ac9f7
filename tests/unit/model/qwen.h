/* qwen.h - the model of most tests */
#ifndef MOETOP_TESTS_UNIT_MODEL_QWEN_H
#define MOETOP_TESTS_UNIT_MODEL_QWEN_H

#include "model/arch.h"

/* Qwen3-30B-A3B in bf16. */
static const struct arch qwen = {
	.experts = 128,
	.top_k = 8,
	.layers = 48,
	.moe_layers = 48,
	.expert_params = 4718592,
	.expert_bytes = 9437184,
	.dense_params = 1.22e9,
	.dense_bytes = 2.44e9,
	.kv_bytes_per_token = 98304,
};

#endif
