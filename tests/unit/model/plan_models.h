/* plan_models.h - eleven published models, as data/ of the research has them */
#ifndef MOETOP_TESTS_UNIT_MODEL_PLAN_MODELS_H
#define MOETOP_TESTS_UNIT_MODEL_PLAN_MODELS_H

#include "model/plan.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
	const char *name;
	uint32_t e, k, moe_layers;
	double d, f;                      /* of an expert: 3 d f weights */
	double weight_bytes, dense_bytes; /* per weight */
	double attention, ffn, head;
	uint32_t shared;
	double kv;
	enum compute_type compute;
};

static const struct counts models[] = {
	{ "Mixtral-8x7B", 8, 2, 32, 4096, 14336, 2, 2, 32 * 41.943e6, 0,
	  32000.0 * 4096, 0, 2 * 8 * 128 * 2 * 32, COMPUTE_BF16 },
	{ "Qwen3-30B-A3B", 128, 8, 48, 2048, 768, 1, 1, 48 * 18.874e6, 0,
	  151936.0 * 2048, 0, 2 * 4 * 128 * 2 * 48, COMPUTE_FP8 },
	{ "Qwen3-235B-A22B", 128, 8, 94, 4096, 1536, 1, 1, 94 * 71.303e6, 0,
	  151936.0 * 4096, 0, 2 * 4 * 128 * 2 * 94, COMPUTE_FP8 },
	{ "DeepSeek-V3", 256, 8, 58, 7168, 2048, 1, 1, 61 * 187.107e6,
	  3 * 3 * 7168 * 18432.0, 129280.0 * 7168, 1, 576 * 2 * 61,
	  COMPUTE_FP8 },
	{ "gpt-oss-120b", 128, 4, 36, 2880, 2880, 0.53125, 2, 36 * 26.542e6, 0,
	  201088.0 * 2880, 0, 2 * 8 * 64 * 2 * 18, COMPUTE_BF16 },
	{ "gpt-oss-20b", 32, 4, 24, 2880, 2880, 0.53125, 2, 24 * 26.542e6, 0,
	  201088.0 * 2880, 0, 2 * 8 * 64 * 2 * 12, COMPUTE_BF16 },
	{ "Kimi-K2", 384, 8, 60, 7168, 2048, 1, 1, 61 * 101.12e6,
	  3 * 7168 * 18432.0, 163840.0 * 7168, 1, 576 * 2 * 61, COMPUTE_FP8 },
	{ "Qwen3.5-397B-A17B", 512, 10, 60, 4096, 1024, 1, 1,
	  45 * 117.4e6 + 15 * 104.9e6, 0, 248320.0 * 4096, 1,
	  2 * 2 * 256 * 2 * 15, COMPUTE_FP8 },
	{ "Qwen3-Next-80B-A3B", 512, 10, 48, 2048, 512, 1, 1,
	  36 * 33.55e6 + 12 * 27.26e6, 0, 151936.0 * 2048, 1,
	  2 * 2 * 256 * 2 * 12, COMPUTE_FP8 },
	{ "Llama-4-Scout", 16, 1, 48, 5120, 8192, 2, 2, 48 * 62.91e6, 0,
	  202048.0 * 5120, 1, 2 * 8 * 128 * 2 * 48, COMPUTE_BF16 },
	{ "Llama-4-Maverick", 128, 1, 24, 5120, 8192, 1, 1, 48 * 62.91e6,
	  24 * 3 * 5120 * 16384.0, 202048.0 * 5120, 1, 2 * 8 * 128 * 2 * 48,
	  COMPUTE_FP8 },
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static inline struct arch arch_of(const char *name)
{
	const struct counts *c = NULL;
	struct arch a = { 0 };

	for (size_t i = 0; i < MODELS; i++)
		if (!strcmp(models[i].name, name))
			c = &models[i];
	assert_non_null(c);
	snprintf(a.name, sizeof(a.name), "%s", name);
	a.experts = c->e;
	a.top_k = c->k;
	a.layers = a.moe_layers = c->moe_layers;
	a.expert_params = 3 * c->d * c->f;
	a.expert_bytes = a.expert_params * c->weight_bytes;
	a.dense_params = c->attention + c->ffn + c->head +
			 (double)c->moe_layers * c->shared * a.expert_params;
	a.dense_bytes = a.dense_params * c->dense_bytes;
	a.kv_bytes_per_token = c->kv;
	a.compute = c->compute;
	return a;
}

static inline struct plan_input input_of(const char *name)
{
	return (struct plan_input){ .arch = arch_of(name),
				    .gpu = gpu_find("H100-SXM"),
				    .gpus = 1,
				    .tp = 1,
				    .ep = 1,
				    .skew = VALLEY_SKEW_UNIFORM };
}

#endif
