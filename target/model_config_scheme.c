/* What quantisation sections call their schemes. */
#include "target/model_config_parts.h"

#include <string.h>

static bool str_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

static double number_in(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static uint32_t number_of(const json_t *o, const char *key, uint32_t fallback)
{
	double x = number_in(o, key);

	return x >= 1 && x <= CONFIG_NUMBER_MAX ? (uint32_t)x : fallback;
}

/* -1 and an explicit null stand for one scale per row. */
static uint32_t group_of(const json_t *o, uint32_t fallback)
{
	const json_t *g = json_object_get(o, "group_size");

	if (json_is_null(g) || number_in(o, "group_size") < 0)
		return 0;
	return number_of(o, "group_size", fallback);
}

const char *scheme_word(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* A block of weights under one scale; 1 x 32 with a scale that is a power of
 * two is the microscaling format. */
static struct storage storage_of_block(const json_t *block)
{
	double a = json_number_value(json_array_get(block, 0));
	double b = json_number_value(json_array_get(block, 1));
	double area = a * b;
	struct storage s = { .scheme = SCHEME_FP8_BLOCK, .group = BLOCK_AREA };

	if (area >= 1 && area <= CONFIG_NUMBER_MAX)
		s.group = (uint32_t)area;
	if (a == 1 && b == 32)
		s.scheme = SCHEME_MXFP8;
	return s;
}

struct storage storage_of_algo(const char *algo, const json_t *o)
{
	struct storage s = { .group = group_of(o, 128), .scheme = SCHEMES };

	if (str_has(algo, "MXFP8"))
		s.scheme = SCHEME_MXFP8;
	else if (str_has(algo, "MXFP4"))
		s.scheme = SCHEME_MXFP4;
	else if (str_has(algo, "FP4"))
		s.scheme = SCHEME_NVFP4;
	else if (str_has(algo, "AWQ") || str_has(algo, "INT4") ||
		 str_has(algo, "W4A"))
		s.scheme = SCHEME_INT4;
	else if (str_has(algo, "FP8_PB") || str_has(algo, "BLOCK"))
		s = (struct storage){ .scheme = SCHEME_FP8_BLOCK,
				      .group = BLOCK_AREA };
	else if (str_has(algo, "CHANNEL") || str_has(algo, "FP8_PC"))
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (str_has(algo, "FP8"))
		s.scheme = SCHEME_FP8_TENSOR;
	else if (str_has(algo, "INT8") || str_has(algo, "W8A"))
		s = (struct storage){ .scheme = SCHEME_INT8,
				      .group = group_of(o, 0) };
	if (s.scheme < SCHEMES && !str_has(algo, "A16")) {
		s.act_fp4 = s.scheme == SCHEME_NVFP4 && !str_has(algo, "A8");
		s.act_fp8 = !s.act_fp4 && s.scheme != SCHEME_INT8;
	}
	return s;
}

static struct storage storage_of_floats(const json_t *w, uint32_t bits)
{
	const char *strategy = scheme_word(w, "strategy");
	struct storage s = { .group = group_of(w, 128), .scheme = SCHEMES };

	if (bits == 4)
		s.scheme = s.group == 32 ? SCHEME_MXFP4 : SCHEME_NVFP4;
	else if (bits == 6)
		s.scheme = SCHEME_MXFP6;
	else if (bits == 8 && strcmp(strategy, "block") == 0)
		s = storage_of_block(json_object_get(w, "block_structure"));
	else if (bits == 8 && strcmp(strategy, "channel") == 0)
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (bits == 8 && s.group == 32)
		s.scheme = SCHEME_MXFP8;
	else if (bits == 8)
		s.scheme = SCHEME_FP8_TENSOR;
	else if (bits == 16)
		s.scheme = SCHEME_BF16;
	return s;
}

static struct storage storage_of_integers(uint32_t bits, uint32_t group)
{
	struct storage s = { .group = group, .scheme = SCHEMES };

	if (bits == 8)
		s.scheme = SCHEME_INT8;
	else if (bits == 4)
		s.scheme = SCHEME_INT4;
	else if (bits == 3)
		s.scheme = SCHEME_INT3;
	else if (bits == 2)
		s.scheme = SCHEME_INT2;
	else if (bits == 16)
		s.scheme = SCHEME_BF16;
	return s;
}

struct storage storage_of_group(const json_t *group)
{
	const json_t *w = json_object_get(group, "weights");
	const json_t *in = json_object_get(group, "input_activations");
	uint32_t bits = number_of(w, "num_bits", 16);
	uint32_t in_bits = number_of(in, "num_bits", 16);
	bool floats = strcmp(scheme_word(w, "type"), "int") != 0;
	bool rows = strcmp(scheme_word(w, "strategy"), "channel") == 0;
	uint32_t size = group_of(w, rows ? 0 : 128);
	struct storage s = floats ? storage_of_floats(w, bits)
				  : storage_of_integers(bits, size);

	s.zero_points = json_is_false(json_object_get(w, "symmetric"));
	/* arithmetic in 8-bit integers is not in the table of peaks */
	s.act_fp8 = floats && in_bits == 8;
	s.act_fp4 = floats && in_bits == 4;
	return s;
}

struct storage storage_of_quark(const json_t *o)
{
	const json_t *w = json_object_get(o, "weight");
	const json_t *in = json_object_get(o, "input_tensors");
	const char *type, *how;
	struct storage s = { .scheme = SCHEMES };

	if (json_is_array(w)) /* a second entry quantises the scales */
		w = json_array_get(w, 0);
	type = scheme_word(w, "dtype");
	how = scheme_word(w, "qscheme");
	s.group = group_of(w, 128);
	if (str_has(type, "fp4"))
		s.scheme = s.group == 16 ? SCHEME_NVFP4 : SCHEME_MXFP4;
	else if (str_has(type, "fp6"))
		s.scheme = SCHEME_MXFP6;
	else if (str_has(type, "fp8"))
		s.scheme = str_has(how, "channel") ? SCHEME_FP8_CHANNEL
			   : str_has(how, "group") ? SCHEME_MXFP8
						   : SCHEME_FP8_TENSOR;
	else if (str_has(type, "int4"))
		s.scheme = SCHEME_INT4;
	else if (str_has(type, "int8"))
		s = (struct storage){ .scheme = SCHEME_INT8,
				      .group = group_of(w, 0) };
	if (json_is_object(in)) {
		s.act_fp4 = str_has(scheme_word(in, "dtype"), "fp4");
		s.act_fp8 = str_has(scheme_word(in, "dtype"), "fp8");
	}
	return s;
}

/* torchao: {"quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
 * "_data": {"group_size": 128}}}}, or a word in older files. */
static struct storage storage_of_torchao(const json_t *o)
{
	const json_t *type = json_object_get(o, "quant_type");
	const json_t *what = json_object_get(type, "default");
	const char *word = json_string_value(type);
	struct storage s = { .group = 128, .scheme = SCHEMES };

	if (!word) {
		word = scheme_word(what, "_type");
		s.group = group_of(json_object_get(what, "_data"), 128);
	}
	if (str_has(word, "Int4") || str_has(word, "int4"))
		s.scheme = SCHEME_INT4;
	else if (str_has(word, "Int8") || str_has(word, "int8"))
		s = (struct storage){ .scheme = SCHEME_INT8 };
	else if (str_has(word, "Float8") || str_has(word, "float8"))
		s.scheme = SCHEME_FP8_TENSOR;
	s.act_fp8 = s.scheme == SCHEME_FP8_TENSOR &&
		    str_has(word, "DynamicActivation");
	return s;
}

static struct storage storage_of_bitsandbytes(const json_t *o)
{
	struct storage s = { .scheme = SCHEME_NF4 };

	if (json_is_true(json_object_get(o, "load_in_8bit")))
		s.scheme = SCHEME_INT8;
	else if (json_is_true(json_object_get(o, "bnb_4bit_use_double_quant")))
		s.scheme = SCHEME_NF4_DOUBLE;
	return s;
}

struct storage storage_of_rounding(const json_t *o)
{
	const char *type = scheme_word(o, "data_type");
	uint32_t bits = number_of(o, "bits", number_of(o, "w_bit", 4));
	struct storage s = storage_of_integers(bits, group_of(o, 128));

	if (str_has(type, "mx_fp"))
		s.scheme = bits == 8 ? SCHEME_MXFP8 : SCHEME_MXFP4;
	else if (str_has(type, "nv_fp"))
		s.scheme = SCHEME_NVFP4;
	else if (str_has(type, "fp8"))
		s.scheme = SCHEME_FP8_TENSOR;
	if (s.scheme == SCHEME_NVFP4 && number_of(o, "act_bits", 16) == 4)
		s.act_fp4 = true;
	s.zero_points = json_is_true(json_object_get(o, "zero_point")) ||
			json_is_false(json_object_get(o, "sym"));
	return s;
}

struct storage storage_of_method(const char *method, const json_t *o)
{
	struct storage s = { .group = group_of(o, 128), .scheme = SCHEMES };
	const json_t *block = json_object_get(o, "weight_block_size");
	const json_t *hqq = json_object_get(json_object_get(o, "quant_config"),
					    "weight_quant_params");

	if (strcmp(method, "quark") == 0)
		return storage_of_quark(
			json_object_get(o, "global_quant_config"));
	if (strcmp(method, "torchao") == 0)
		return storage_of_torchao(o);
	if (str_has(method, "bitsandbytes") || strcmp(method, "bnb") == 0)
		return storage_of_bitsandbytes(o);
	if (str_has(method, "awq") || str_has(method, "gptq") ||
	    str_has(method, "auto-round") || str_has(method, "auto_round") ||
	    str_has(method, "intel") || str_has(method, "moe_wna16"))
		return storage_of_rounding(o);
	if (strcmp(method, "hqq") == 0)
		return storage_of_integers(
			number_of(hqq, "nbits", number_of(o, "bits", 4)),
			group_of(hqq, 64));
	if (str_has(method, "mxfp4"))
		s.scheme = SCHEME_MXFP4;
	else if (str_has(method, "mxfp8"))
		s.scheme = SCHEME_MXFP8;
	else if (str_has(method, "fp4"))
		s.scheme = SCHEME_NVFP4;
	else if (str_has(method, "w4a"))
		s.scheme = SCHEME_INT4;
	else if (str_has(method, "int8") || str_has(method, "eetq"))
		s = (struct storage){ .scheme = SCHEME_INT8,
				      .group = group_of(o, 0) };
	else if (str_has(method, "fbgemm_fp8") || str_has(method, "ptpc") ||
		 str_has(method, "w8a8_fp8"))
		s.scheme = SCHEME_FP8_CHANNEL;
	else if (str_has(method, "fp8") && json_is_array(block))
		s = storage_of_block(block);
	else if (str_has(method, "fp8"))
		s.scheme = SCHEME_FP8_TENSOR;
	s.act_fp8 = str_has(method, "fp8");
	s.act_fp4 = s.scheme == SCHEME_NVFP4;
	return s;
}

bool scheme_of_name(const char *name, struct storage *out)
{
	char low[256];
	size_t n = 0;

	for (; name[n] && n + 1 < sizeof(low); n++)
		low[n] = (char)(name[n] >= 'A' && name[n] <= 'Z'
					? name[n] - 'A' + 'a'
					: name[n]);
	low[n] = '\0';
	if (str_has(low, "nvfp4"))
		*out = storage_of_algo("NVFP4", NULL);
	else if (str_has(low, "nvidia") && str_has(low, "fp8"))
		*out = storage_of_algo("FP8", NULL);
	else
		return false;
	return true;
}
