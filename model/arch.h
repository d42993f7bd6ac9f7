/*
 * arch.h - the shape of a model: what a decode step has to read and compute
 *
 * Filled by target/model_config.c from a config.json, used by the economics.
 * Bytes and operations are of the whole model, before any split over GPUs.
 *
 *	routed bytes per step = sum over MoE layers of U x expert_bytes
 *	dense bytes per step  = dense_bytes (attention, shared experts, router,
 *				dense FFN, head; read whatever B is)
 *	KV bytes per step     = B x arch_kv_bytes(context)
 *
 * Source of the fields: research notes on engines (config.json to shapes) and
 * the families' own config files.
 */
#ifndef MOETOP_MODEL_ARCH_H
#define MOETOP_MODEL_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum compute_type { COMPUTE_BF16, COMPUTE_FP8, COMPUTE_FP4 };

struct arch {
	char name[96];       /* for people: "Qwen3-30B-A3B" */
	char model_type[48]; /* the config's own word: "qwen3_moe" */
	char quant[32];      /* "bf16", "fp8 block128", "mxfp4 g32", ... */
	uint32_t experts;    /* E, routed only; 0: not a mixture of experts */
	uint32_t top_k;
	uint32_t layers;
	uint32_t moe_layers;
	uint32_t hidden;          /* width of the residual stream */
	uint32_t expert_in;       /* input width of an expert, usually hidden */
	uint32_t expert_inter;    /* I */
	uint32_t expert_matrices; /* 3 gated, 2 not */
	uint32_t shared_experts;
	double expert_params; /* weights of one routed expert */
	double expert_bytes;  /* of one, scales and biases too; 0: not known */
	double dense_params;  /* weights read in every step */
	double dense_bytes;
	double kv_bytes_per_token; /* all layers, unsharded, 2 bytes per
				    * element; layers whose cache stops growing
				    * and indexers left out; 0: not known */
	/* What kv_bytes_per_token leaves out, all layers; 0 where there is none:
	 * layers that keep the newest kv_window_tokens only, and sparse
	 * attention, which reads kv_top_tokens chosen by an index. */
	double kv_window_bytes_per_token; /* 2 bytes per element */
	uint32_t kv_window_tokens;
	uint32_t kv_top_tokens;
	double kv_index_bytes_per_token;
	double kv_element_bytes;   /* that the checkpoint, or whoever started
				    * the server, asks for; 0: 2 */
	enum compute_type compute; /* of the expert GEMMs */
	uint32_t draft_moe_layers; /* MTP; run only with speculation */
};

/* Floating-point operations of one token, attention scores left out:
 * 2 x (moe_layers x top_k x expert_params + dense_params). */
double arch_flops_per_token(const struct arch *a);

/* Bytes of the KV cache that one token's attention reads when its context is
 * `tokens` long:
 *	(min(tokens, top) kv + min(tokens, window) kv_window) x element / 2
 *		+ tokens x kv_index
 */
double arch_kv_bytes(const struct arch *a, double tokens);

/* "BF16", "FP8", "FP4". */
const char *compute_type_name(enum compute_type c);

static inline bool arch_is_moe(const struct arch *a)
{
	return a->experts > 0;
}

#endif
