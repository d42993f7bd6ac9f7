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

struct arch;

/* The texts of a model; quant may be NULL, name ("" unknown) is that of the file
 * and its folder.  Errors as in model_config.h. */
struct model_config_text {
	const char *json, *quant, *name;
	size_t bytes, quant_bytes;
};
int model_config_named(const struct model_config_text *in, struct arch *out,
		       char *why, size_t why_bytes);

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
	uint32_t experts;  /* E, 0 for a dense model */
	bool dense_beside; /* a dense FFN beside the experts (Gemma 4) */
	uint8_t mixer[CONFIG_LAYERS_MAX];    /* enum mixer */
	uint8_t ffn[CONFIG_LAYERS_MAX];      /* enum ffn */
	uint32_t mixers[MIXERS], ffns[FFNS]; /* layers of each kind */
};

/* experts: E, 0 for a dense model.  0, or -EINVAL: no sensible layer count. */
int layers_read(struct config *c, uint32_t experts, struct layers *out);

/* One attention layer: weights, and KV bytes per token at 2 per element. */
struct attention {
	double params[MIXERS];
	double kv_bytes
		[MIXERS]; /* FULL: of the context; SLIDING: of `window` */
	uint32_t window;
	uint32_t top_tokens; /* sparse attention reads as many; 0: all */
	double index_bytes; /* of its index, per token and layer that has one */
	bool kv_unknown;    /* compressed cache: no per-token figure */
	uint32_t per_layer; /* attention blocks in a layer, usually 1 */
	uint32_t kv_share;  /* layers that share one KV, usually 1 */
};
void attention_read(struct config *c, uint32_t hidden, struct attention *out);

/* How weights are stored. */
enum scheme {
	SCHEME_BF16,
	SCHEME_FP8_TENSOR,
	SCHEME_FP8_CHANNEL, /* 4 bytes for each output row */
	SCHEME_FP8_BLOCK,   /* 4 bytes for each block */
	SCHEME_MXFP8,
	SCHEME_MXFP6,
	SCHEME_MXFP4,
	SCHEME_NVFP4,
	SCHEME_INT8,
	SCHEME_INT4, /* 2 bytes for each group, and zero points */
	SCHEME_INT3,
	SCHEME_INT2,
	SCHEME_NF4, /* 4 bytes for each 64 */
	SCHEME_NF4_DOUBLE,
	SCHEMES /* of a name that is not known */
};

#define BLOCK_AREA (128u * 128u)

struct storage {
	enum scheme scheme;
	uint32_t group; /* weights that share a scale; of a block, its area;
			 * 0: the weights of an output row */
	bool zero_points;
	bool act_fp8, act_fp4; /* the GEMM also quantises its input */
};

/* One scheme, by the words of a quantisation section (model_config_scheme.c).
 * o: the object that has the details, may be NULL. */
struct storage storage_of_algo(const char *algo, const json_t *o);
struct storage storage_of_group(const json_t *group);
struct storage storage_of_method(const char *method, const json_t *o);
struct storage storage_of_quark(const json_t *o);
struct storage storage_of_rounding(const json_t *o);

/* The scheme that the name of a checkpoint tells: "...-NVFP4", and FP8 of
 * NVIDIA's, whose config.json alone does not say how they are stored. */
bool scheme_of_name(const char *name, struct storage *out);

/* The string under key, "" when there is none. */
const char *scheme_word(const json_t *o, const char *key);

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
 * "modules_to_not_convert", "exclude_modules", ...); it may exceed 1. */
struct quant {
	struct storage of[PARTS];
	double bf16[PARTS];
	double kv_element_bytes; /* that the checkpoint asks for; 2 by default */
	bool by_name;            /* no file says it, only the model's name */
};

/* beside: hf_quant_config.json, or NULL; used when c says nothing.  path_name:
 * name of the file and its folder, the last resort. */
void quant_read(struct config *c, const json_t *beside, const char *path_name,
		const struct layers *layers, struct quant *out);

/* The part that a module's name, or a pattern of names, means; PARTS: none
 * that counts. */
enum part module_part(const char *name);

/* Layer number after "layers.", or -1 for all of them; *rest follows it. */
long module_layer(const char *name, const char **rest);

/* One module, or pattern, that the checkpoint leaves in bf16. */
void module_leave_out(struct quant *q, const struct layers *ls,
		      const char *name);

/* Bytes of a matrix set of `params` weights with `rows` output rows. */
double storage_bytes(const struct storage *s, double params, double rows);

/* The same, of a part that is covered only in part. */
double quant_bytes(const struct quant *q, enum part p, double params,
		   double rows);

/* "fp8 block128", "mxfp4 g32", "bf16", ...; by_name adds " by its name". */
void storage_name(const struct storage *s, bool by_name, char *out,
		  size_t bytes);

#endif
