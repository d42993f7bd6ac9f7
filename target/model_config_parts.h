/*
 * model_config_parts.h - the three steps between a config.json and its shape
 *
 * Internal to target/model_config*.c: which layers there are, what attention
 * reads, and how many bytes a weight takes.
 */
#ifndef MOETOP_TARGET_MODEL_CONFIG_PARTS_H
#define MOETOP_TARGET_MODEL_CONFIG_PARTS_H

#include "target/model_config_json.h"

#define CONFIG_LAYERS_MAX 1024u

/* What mixes tokens in a layer. */
enum mixer {
	MIXER_NONE,
	MIXER_FULL,    /* attention over the whole context */
	MIXER_SLIDING, /* attention over a window: its KV stops growing */
	MIXER_LINEAR,  /* gated delta net and relatives: constant state */
	MIXER_MAMBA,
	MIXER_CONV,
	MIXERS
};

enum ffn { FFN_NONE, FFN_DENSE, FFN_MOE, FFNS };

struct layers {
	uint32_t n;
	uint8_t mixer[CONFIG_LAYERS_MAX];    /* enum mixer */
	uint8_t ffn[CONFIG_LAYERS_MAX];      /* enum ffn */
	uint32_t mixers[MIXERS], ffns[FFNS]; /* layers of each kind */
};

/* experts: E, 0 for a dense model.  0, or -EINVAL: no sensible layer count. */
int layers_read(struct config *c, uint32_t experts, struct layers *out);

/* One attention layer: weights, and KV bytes per token at 2 per element. */
struct attention {
	double params[MIXERS];
	double kv_bytes[MIXERS]; /* part that grows with the context */
	bool kv_unknown;         /* compressed cache: no per-token figure */
	uint32_t per_layer;      /* attention blocks in a layer, usually 1 */
	uint32_t kv_share;       /* layers that share one KV, usually 1 */
};
void attention_read(struct config *c, uint32_t hidden, struct attention *out);

/* How weights are stored. */
enum scheme {
	SCHEME_BF16,
	SCHEME_FP32,
	SCHEME_FP8_TENSOR,
	SCHEME_FP8_CHANNEL, /* 4 bytes for each output row */
	SCHEME_FP8_BLOCK,   /* 4 bytes for each block */
	SCHEME_MXFP8,
	SCHEME_MXFP4,
	SCHEME_NVFP4,
	SCHEME_INT4,
	SCHEME_INT8,
	SCHEMES
};

struct storage {
	enum scheme scheme;
	uint32_t group; /* weights that share a scale; of a block, its area */
	bool zero_points;
	bool act_fp8, act_fp4; /* the GEMM also quantises its input */
};

enum part {
	PART_EXPERTS,
	PART_SHARED,
	PART_ATTENTION,
	PART_FFN,
	PART_ROUTER,
	PART_HEAD,
	PARTS
};

/* bf16[p] is the share of part p that the scheme leaves out ("ignore",
 * "modules_to_not_convert", "exclude_modules"); it may exceed 1. */
struct quant {
	struct storage of[PARTS];
	double bf16[PARTS];
};
/* beside: hf_quant_config.json, or NULL; used when c says nothing. */
void quant_read(struct config *c, const json_t *beside,
		const struct layers *layers, struct quant *out);

/* Bytes of a matrix set of `params` weights with `rows` output rows. */
double storage_bytes(const struct storage *s, double params, double rows);

/* The same, of a part that is covered only in part. */
double quant_bytes(const struct quant *q, enum part p, double params,
		   double rows);

/* "fp8 block128", "mxfp4 g32", "bf16", ... */
void storage_name(const struct storage *s, char *out, size_t bytes);

#endif
