#include "target/model_config_parts.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_AREA (128u * 128u)

static bool str_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

/* ---- bytes ------------------------------------------------------------ */

double storage_bytes(const struct storage *s, double params, double rows)
{
	double group = s->group ? s->group : 128;

	switch (s->scheme) {
	case SCHEME_FP32:
		return params * 4;
	case SCHEME_FP8_TENSOR:
	case SCHEME_INT8:
		return params;
	case SCHEME_FP8_CHANNEL:
		return params + rows * 4;
	case SCHEME_FP8_BLOCK:
		return params * (1 + 4 / group);
	case SCHEME_MXFP8:
		return params * (1 + 1.0 / 32);
	case SCHEME_MXFP4:
		return params * (0.5 + 1.0 / 32);
	case SCHEME_NVFP4:
		return params * (0.5 + 1.0 / 16);
	case SCHEME_INT4:
		return params *
		       (0.5 + 2 / group + (s->zero_points ? 0.5 / group : 0));
	case SCHEME_BF16:
	case SCHEMES:
		break;
	}
	return params * 2;
}

double quant_bytes(const struct quant *q, enum part p, double params,
		   double rows)
{
	double plain = fmin(fmax(q->bf16[p], 0), 1);

	return plain * params * 2 +
	       (1 - plain) * storage_bytes(&q->of[p], params, rows);
}

void storage_name(const struct storage *s, char *out, size_t bytes)
{
	static const char *const names[SCHEMES] = {
		[SCHEME_BF16] = "bf16",
		[SCHEME_FP32] = "fp32",
		[SCHEME_FP8_TENSOR] = "fp8 per-tensor",
		[SCHEME_FP8_CHANNEL] = "fp8 per-channel",
		[SCHEME_MXFP8] = "mxfp8 g32",
		[SCHEME_MXFP4] = "mxfp4 g32",
		[SCHEME_NVFP4] = "nvfp4 g16",
		[SCHEME_INT8] = "int8",
	};

	if (s->scheme == SCHEME_FP8_BLOCK)
		snprintf(out, bytes, "fp8 block%.0f", sqrt(s->group));
	else if (s->scheme == SCHEME_INT4)
		snprintf(out, bytes, "int4 g%u", s->group);
	else
		snprintf(out, bytes, "%s",
			 s->scheme < SCHEMES ? names[s->scheme] : "unknown");
}

/* ---- what a scheme is called ------------------------------------------ */

static uint32_t number_of(const json_t *o, const char *key, uint32_t fallback)
{
	double x = json_number_value(json_object_get(o, key));

	return x >= 1 && x <= CONFIG_NUMBER_MAX ? (uint32_t)x : fallback;
}

static const char *string_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static uint32_t area_of(const json_t *block)
{
	double a = json_number_value(json_array_get(block, 0));
	double b = json_number_value(json_array_get(block, 1));
	double area = a * b;

	return area >= 1 && area <= CONFIG_NUMBER_MAX ? (uint32_t)area
						      : BLOCK_AREA;
}

/* ModelOpt's names. */
static struct storage storage_of_algo(const char *algo, const json_t *o)
{
	struct storage s = { .group = number_of(o, "group_size", 128),
			     .scheme = SCHEMES };

	if (str_has(algo, "MXFP8"))
		s.scheme = SCHEME_MXFP8;
	else if (str_has(algo, "MXFP4"))
		s.scheme = SCHEME_MXFP4;
	else if (str_has(algo, "NVFP4"))
		s.scheme = SCHEME_NVFP4;
	else if (str_has(algo, "AWQ") || str_has(algo, "INT4"))
		s.scheme = SCHEME_INT4;
	else if (str_has(algo, "FP8_PB") || str_has(algo, "BLOCK"))
		s = (struct storage){ .scheme = SCHEME_FP8_BLOCK,
				      .group = BLOCK_AREA };
	else if (str_has(algo, "CHANNEL"))
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (str_has(algo, "FP8"))
		s.scheme = SCHEME_FP8_TENSOR;
	else if (str_has(algo, "INT8") || str_has(algo, "W8A8"))
		s.scheme = SCHEME_INT8;
	if (!str_has(algo, "A16")) {
		s.act_fp4 = s.scheme == SCHEME_NVFP4 && !str_has(algo, "A8");
		s.act_fp8 = !s.act_fp4;
	}
	return s;
}

/* One entry of compressed-tensors' or ModelOpt's config_groups. */
static struct storage storage_of_group(const json_t *group)
{
	const json_t *w = json_object_get(group, "weights");
	const json_t *in = json_object_get(group, "input_activations");
	uint32_t bits = number_of(w, "num_bits", 16);
	uint32_t in_bits = number_of(in, "num_bits", 16);
	const char *strategy = string_of(w, "strategy");
	bool is_int = strcmp(string_of(w, "type"), "int") == 0;
	struct storage s = { .group = number_of(w, "group_size", 128) };

	if (bits == 4 && is_int)
		s.scheme = SCHEME_INT4;
	else if (bits == 4)
		s.scheme = s.group == 32 ? SCHEME_MXFP4 : SCHEME_NVFP4;
	else if (bits == 8 && is_int)
		s.scheme = SCHEME_INT8;
	else if (bits == 8 && strcmp(strategy, "block") == 0)
		s = (struct storage){ .scheme = SCHEME_FP8_BLOCK,
				      .group = area_of(json_object_get(
					      w, "block_structure")) };
	else if (bits == 8 && strcmp(strategy, "channel") == 0)
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (bits == 8)
		s.scheme = s.group == 32 ? SCHEME_MXFP8 : SCHEME_FP8_TENSOR;
	else
		s.scheme = bits == 16 ? SCHEME_BF16 : SCHEMES;
	s.zero_points = json_is_false(json_object_get(w, "symmetric"));
	s.act_fp8 = in_bits == 8;
	s.act_fp4 = in_bits == 4;
	return s;
}

/* ---- which part of the model a module name means ---------------------- */

/* How much of its part a named projection is: rough shares, of projections
 * that some checkpoints leave in bf16 one by one. */
static double share_of_projection(const char *name)
{
	static const struct {
		const char *word;
		double share;
	} table[] = {
		{ "norm", 0 },         { "indexer", 0 },
		{ "conv1d", 0 },       { "sinks", 0 },
		{ "g_proj", 0 },       { "in_proj_a", 0 },
		{ "in_proj_b", 0 },    { "o_proj", .5 },
		{ "out_proj", .33 },   { "q_a_proj", .06 },
		{ "q_b_proj", .2 },    { "kv_a_proj", .03 },
		{ "kv_b_proj", .1 },   { "q_proj", .4 },
		{ "k_proj", .05 },     { "v_proj", .05 },
		{ "in_proj_qkv", .4 }, { "in_proj_z", .27 },
		{ "in_proj", .67 },    { "gate_proj", .34 },
		{ "up_proj", .33 },    { "down_proj", .33 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (str_has(name, table[i].word))
			return table[i].share;
	return 1;
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);

	return n >= m && strcmp(s + n - m, tail) == 0;
}

/* PARTS: none that counts. */
static enum part part_of(const char *name)
{
	if (strncmp(name, "mtp", 3) == 0 || str_has(name, "vis") ||
	    str_has(name, "audio") || str_has(name, "embed") ||
	    str_has(name, "shared_expert_gate") || str_has(name, "norm"))
		return PARTS;
	if (str_has(name, "lm_head"))
		return PART_HEAD;
	if (str_has(name, "shared_expert"))
		return PART_SHARED;
	if (str_has(name, "expert"))
		return PART_EXPERTS;
	if (str_has(name, "router") || str_has(name, ".gate.") ||
	    ends_with(name, "gate") || ends_with(name, "gate$"))
		return PART_ROUTER;
	if (str_has(name, "attn") || str_has(name, "attention") ||
	    str_has(name, "mixer"))
		return PART_ATTENTION;
	if (str_has(name, "mlp") || str_has(name, "ffn") ||
	    str_has(name, "feed_forward"))
		return PART_FFN;
	return PARTS;
}

/* Layer number after "layers.", or -1 for all of them. */
static long layer_of(const char *name, const char **rest)
{
	const char *p = strstr(name, "layers.");
	char *end;
	long l;

	*rest = name;
	if (!p || !isdigit((unsigned char)p[7]))
		return -1;
	l = strtol(p + 7, &end, 10);
	*rest = end;
	return l;
}

static double layers_with(const struct layers *ls, enum part p)
{
	switch (p) {
	case PART_HEAD:
		return 1;
	case PART_ATTENTION:
		return ls->n - ls->mixers[MIXER_NONE];
	case PART_FFN:
		return ls->ffns[FFN_DENSE];
	default:
		return ls->ffns[FFN_MOE];
	}
}

static void leave_out(struct quant *q, const struct layers *ls, enum part p,
		      long layer, double share)
{
	double n = layers_with(ls, p);

	if (n > 0)
		q->bf16[p] += layer < 0 ? share : share / n;
}

static void leave_layer_out(struct quant *q, const struct layers *ls, long l)
{
	if (ls->mixer[l] != MIXER_NONE)
		leave_out(q, ls, PART_ATTENTION, l, 1);
	if (ls->ffn[l] == FFN_DENSE)
		leave_out(q, ls, PART_FFN, l, 1);
	if (ls->ffn[l] != FFN_MOE)
		return;
	leave_out(q, ls, PART_EXPERTS, l, 1);
	leave_out(q, ls, PART_SHARED, l, 1);
}

static bool names_one_expert(const char *name)
{
	const char *p = strstr(name, "expert");

	return p && strpbrk(p, "0123456789");
}

/* One module that the checkpoint leaves in bf16. */
static void leave_name_out(struct quant *q, const struct layers *ls,
			   const char *name)
{
	enum part p = part_of(name);
	const char *rest;
	long layer = layer_of(name, &rest);

	if (str_has(name, "(?!")) { /* everything but what it names */
		for (p = 0; p < PARTS; p++)
			if (p != PART_EXPERTS || !str_has(name, "expert"))
				q->bf16[p] = 1;
		return;
	}
	if (layer >= (long)ls->n)
		return;
	if (layer >= 0 && rest[strspn(rest, ".*")] == '\0') {
		leave_layer_out(q, ls, layer);
		return;
	}
	if (p == PARTS)
		return;
	/* A single expert of a layer is too little to count. */
	if (p == PART_EXPERTS && names_one_expert(rest))
		return;
	leave_out(q, ls, p, layer, share_of_projection(rest));
	if (p == PART_FFN) /* gate, up and down of a shared FFN, too */
		leave_out(q, ls, PART_SHARED, layer, share_of_projection(rest));
}

/* ---- the schemes of a checkpoint -------------------------------------- */

static void use_everywhere(struct quant *q, struct storage s)
{
	q->of[PART_EXPERTS] = s;
	q->of[PART_SHARED] = s;
	q->of[PART_ATTENTION] = s;
	q->of[PART_FFN] = s;
}

/* Targets are class names ("Linear") or patterns of module names. */
static void use_for_target(struct quant *q, const char *target,
			   struct storage s)
{
	switch (part_of(target)) {
	case PART_EXPERTS:
	case PART_ATTENTION:
	case PART_SHARED:
		q->of[part_of(target)] = s;
		break;
	case PART_FFN:
		q->of[PART_EXPERTS] = s;
		q->of[PART_SHARED] = s;
		q->of[PART_FFN] = s;
		break;
	default:
		use_everywhere(q, s);
	}
}

static void read_groups(struct quant *q, const json_t *groups)
{
	const char *name;
	json_t *group;

	json_object_foreach((json_t *)groups, name, group)
	{
		const json_t *targets = json_object_get(group, "targets");
		struct storage s = storage_of_group(group);

		for (size_t i = 0; i < json_array_size(targets); i++) {
			const char *t =
				json_string_value(json_array_get(targets, i));

			if (t)
				use_for_target(q, t, s);
		}
	}
}

/* ModelOpt's mixed precision: an algorithm for each module. */
static void read_quantized_layers(struct quant *q, const json_t *layers)
{
	bool seen[PARTS] = { false };
	const char *name;
	json_t *entry;

	json_object_foreach((json_t *)layers, name, entry)
	{
		enum part p = part_of(name);

		if (p >= PARTS || seen[p])
			continue;
		seen[p] = true;
		q->of[p] =
			storage_of_algo(string_of(entry, "quant_algo"), entry);
	}
}

static struct storage storage_of_method(const char *method, const json_t *o)
{
	struct storage s = { .group = number_of(o, "group_size", 128),
			     .scheme = SCHEMES };
	const json_t *block = json_object_get(o, "weight_block_size");

	if (strcmp(method, "fp8") == 0 && json_is_array(block))
		s = (struct storage){ .scheme = SCHEME_FP8_BLOCK,
				      .group = area_of(block) };
	else if (strcmp(method, "fp8") == 0)
		s.scheme = SCHEME_FP8_TENSOR;
	else if (strcmp(method, "fbgemm_fp8") == 0)
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (str_has(method, "mxfp4"))
		s.scheme = SCHEME_MXFP4;
	else if (str_has(method, "mxfp8"))
		s.scheme = SCHEME_MXFP8;
	else if (str_has(method, "awq") || str_has(method, "gptq") ||
		 str_has(method, "auto-round") || str_has(method, "moe_wna16"))
		s.scheme = number_of(o, "bits", 4) == 8 ? SCHEME_INT8
							: SCHEME_INT4;
	else if (strcmp(method, "bitsandbytes") == 0)
		s.scheme = json_is_true(json_object_get(o, "load_in_8bit"))
				   ? SCHEME_INT8
				   : SCHEME_INT4;
	else if (str_has(method, "int8"))
		s.scheme = SCHEME_INT8;
	else if (str_has(method, "fp8"))
		s.scheme = SCHEME_FP8_TENSOR;
	s.zero_points = json_is_true(json_object_get(o, "zero_point")) ||
			json_is_false(json_object_get(o, "sym"));
	s.act_fp8 = str_has(method, "fp8");
	return s;
}

static void read_scheme(struct quant *q, const json_t *o)
{
	const char *method = string_of(o, "quant_method");
	const char *algo = string_of(o, "quant_algo");
	const json_t *groups = json_object_get(o, "config_groups");
	const json_t *layers = json_object_get(o, "quantized_layers");

	if (json_object_size(groups) > 0)
		read_groups(q, groups);
	else if (json_object_size(layers) > 0)
		read_quantized_layers(q, layers);
	else if (algo[0])
		use_everywhere(q, storage_of_algo(algo, o));
	else if (strcmp(method, "mxfp4") == 0) /* gpt-oss: experts only */
		q->of[PART_EXPERTS] = storage_of_method(method, o);
	else if (method[0])
		use_everywhere(q, storage_of_method(method, o));
}

/* Without a quantisation section: the type of the weights. */
static struct storage storage_of_dtype(const struct config *c)
{
	const char *type = config_string(c, "torch_dtype dtype");
	struct storage s = { .group = BLOCK_AREA };

	if (strcmp(type, "float32") == 0)
		s.scheme = SCHEME_FP32;
	else if (strcmp(type, "fp8") == 0) /* DeepSeek's own format */
		s.scheme = SCHEME_FP8_BLOCK;
	else if (str_has(type, "float8"))
		s.scheme = SCHEME_FP8_TENSOR;
	s.act_fp8 = s.scheme == SCHEME_FP8_BLOCK;
	return s;
}

static void read_left_out(struct quant *q, const struct layers *ls,
			  const json_t *o)
{
	static const char *const keys[] = { "modules_to_not_convert", "ignore",
					    "exclude_modules" };

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const json_t *list = json_object_get(o, keys[k]);

		for (size_t i = 0; i < json_array_size(list); i++) {
			const char *name =
				json_string_value(json_array_get(list, i));

			if (name)
				leave_name_out(q, ls, name);
		}
	}
}

void quant_read(struct config *c, const json_t *beside,
		const struct layers *layers, struct quant *out)
{
	const json_t *o = config_get(c, "quantization_config "
					"compression_config");
	const json_t *inner = json_object_get(beside, "quantization");

	*out = (struct quant){ .of[PART_HEAD].scheme = SCHEME_BF16 };
	if (!json_is_object(o))
		o = json_is_object(inner) ? inner : beside;
	if (!json_is_object(o)) {
		use_everywhere(out, storage_of_dtype(c));
		return;
	}
	read_scheme(out, o);
	read_left_out(out, layers, o);
	/* DeepSeek V4: the experts alone go down to four bits. */
	if (strcmp(config_string(c, "expert_dtype"), "fp4") == 0 &&
	    out->of[PART_EXPERTS].scheme == SCHEME_FP8_BLOCK)
		out->of[PART_EXPERTS].scheme = SCHEME_MXFP4;
}
