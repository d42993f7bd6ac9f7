/* The schemes of a checkpoint, part by part. */
#include "target/model_config_parts.h"

#include <string.h>

static bool str_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

/* What the modules of a part are stored as, by majority. */
struct votes {
	double n[PARTS][SCHEMES + 1];
	struct storage s[PARTS][SCHEMES + 1];
};

static void vote(struct votes *v, enum part p, struct storage s, double n)
{
	if (p >= PARTS)
		return;
	v->n[p][s.scheme] += n;
	v->s[p][s.scheme] = s;
}

/* A module or a pattern of modules: a pattern of FFN names may mean experts,
 * unless others name these. */
static void vote_for_module(struct votes *v, const char *name, struct storage s)
{
	enum part p = module_part(name);
	const char *rest;

	vote(v, p, s, 1);
	if (p != PART_FFN || module_layer(name, &rest) >= 0)
		return;
	vote(v, PART_EXPERTS, s, 0.5);
	vote(v, PART_SHARED, s, 0.5);
}

static void count_votes(const struct votes *v, struct quant *q)
{
	for (unsigned p = 0; p < PARTS; p++) {
		double most = 0;

		for (unsigned s = 0; s <= SCHEMES; s++) {
			if (v->n[p][s] > most) {
				most = v->n[p][s];
				q->of[p] = v->s[p][s];
			}
		}
	}
}

static void use_everywhere(struct quant *q, struct storage s)
{
	q->of[PART_EXPERTS] = s;
	q->of[PART_SHARED] = s;
	q->of[PART_ATTENTION] = s;
	q->of[PART_FFN] = s;
}

/* compressed-tensors, and ModelOpt in its manner: a target is the name of a
 * class ("Linear") or names modules, which count more. */
static void read_groups(struct quant *q, const json_t *groups)
{
	struct votes v = { .n = { { 0 } } };
	const char *name;
	json_t *group;

	json_object_foreach((json_t *)groups, name, group)
	{
		const json_t *targets = json_object_get(group, "targets");
		struct storage s = storage_of_group(group);

		for (size_t i = 0; i < json_array_size(targets); i++) {
			const char *t =
				json_string_value(json_array_get(targets, i));

			if (t && module_part(t) == PARTS && !strchr(t, '.'))
				use_everywhere(q, s);
			else if (t)
				vote_for_module(&v, t, s);
		}
	}
	count_votes(&v, q);
}

/* ModelOpt's mixed precision: an algorithm for each module that has one. */
static void read_quantized_layers(struct quant *q, const json_t *layers)
{
	struct votes v = { .n = { { 0 } } };
	const char *name;
	json_t *entry;

	json_object_foreach((json_t *)layers, name, entry)
	{
		const char *algo = scheme_word(entry, "quant_algo");

		vote_for_module(&v, name, storage_of_algo(algo, entry));
	}
	count_votes(&v, q);
}

/* Exceptions by name: GPTQModel's "dynamic", where "-:" leaves out, and
 * AutoRound's "extra_config"; Quark's "layer_quant_config". */
static void read_exceptions(struct quant *q, const struct layers *ls,
			    const json_t *o)
{
	static const char *const keys[] = { "dynamic", "extra_config",
					    "layer_quant_config" };
	struct votes v = { .n = { { 0 } } };
	const char *name;
	json_t *entry;

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		json_object_foreach(json_object_get(o, keys[k]), name, entry)
		{
			double bits = json_number_value(
				json_object_get(entry, "bits"));

			if (strncmp(name, "-:", 2) == 0 || bits >= 16)
				module_leave_out(q, ls, name);
			else if (json_object_get(entry, "weight"))
				vote_for_module(&v, name,
						storage_of_quark(entry));
			else if (bits > 0)
				vote_for_module(&v, name,
						storage_of_rounding(entry));
		}
	}
	count_votes(&v, q);
}

/* Methods that treat the experts apart. */
static bool read_expert_method(struct quant *q, const char *method,
			       const json_t *o)
{
	struct storage s = storage_of_method(method, o);

	if (strcmp(method, "w4afp8") == 0) {
		use_everywhere(q, storage_of_method("fp8", o));
		q->of[PART_EXPERTS] = s;
		return true;
	}
	if (strcmp(method, "mxfp4") != 0 && strcmp(method, "experts_int8") != 0)
		return false;
	q->of[PART_EXPERTS] = s;
	return true;
}

static void read_scheme(struct quant *q, const json_t *o)
{
	const char *method = scheme_word(o, "quant_method");
	const char *algo = scheme_word(o, "quant_algo");
	const json_t *groups = json_object_get(o, "config_groups");
	const json_t *layers = json_object_get(o, "quantized_layers");

	if (json_object_size(layers) > 0)
		read_quantized_layers(q, layers);
	else if (json_object_size(groups) > 0)
		read_groups(q, groups);
	else if (algo[0])
		use_everywhere(q, storage_of_algo(algo, o));
	else if (str_has(scheme_word(o, "qformat_weight"), "fp8"))
		use_everywhere(q, storage_of_algo("FP8", o));
	else if (read_expert_method(q, method, o))
		return;
	/* without groups, compressed-tensors compresses nothing */
	else if (method[0] && strcmp(method, "compressed-tensors") != 0)
		use_everywhere(q, storage_of_method(method, o));
}

/* Without a quantisation section: the type of the weights.  float32 is served
 * as 16 bits by the engines. */
static struct storage storage_of_dtype(const struct config *c)
{
	const char *type = config_string(c, "torch_dtype dtype");
	struct storage s = { .group = BLOCK_AREA };

	if (strcmp(type, "fp8") == 0) /* DeepSeek's own format */
		s.scheme = SCHEME_FP8_BLOCK;
	else if (str_has(type, "float8"))
		s.scheme = SCHEME_FP8_TENSOR;
	s.act_fp8 = s.scheme == SCHEME_FP8_BLOCK;
	return s;
}

static void read_left_out(struct quant *q, const struct layers *ls,
			  const json_t *o)
{
	static const char *const keys[] = {
		"modules_to_not_convert", "ignore",
		"exclude_modules",        "ignored_layers",
		"llm_int8_skip_modules",  "exclude",
	};

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const json_t *list = json_object_get(o, keys[k]);

		for (size_t i = 0; i < json_array_size(list); i++) {
			const char *name =
				json_string_value(json_array_get(list, i));

			if (name)
				module_leave_out(q, ls, name);
		}
	}
}

/* Sections that say how weights are stored, or NULL. */
static const json_t *section_inside(const struct config *c)
{
	const json_t *o = config_get(c, "quantization_config "
					"compression_config quantization");
	const json_t *inner = json_object_get(o, "quantization_config");

	if (json_object_size(inner) > 0)
		return inner;
	return json_object_size(o) > 0 ? o : NULL;
}

static const json_t *section_of_file(const json_t *beside)
{
	const json_t *o = json_object_get(beside, "quantization");

	if (!json_is_object(o))
		o = json_object_get(beside, "quantization_config");
	if (!json_is_object(o))
		o = beside;
	return json_is_object(o) ? o : NULL;
}

/* The cache that the checkpoint asks for; engines obey unless told otherwise. */
static double kv_element_bytes(const json_t *o)
{
	const char *algo = scheme_word(o, "kv_cache_quant_algo");
	const json_t *scheme = json_object_get(o, "kv_cache_scheme");
	double bits = json_number_value(json_object_get(scheme, "num_bits"));

	if (str_has(algo, "FP8") || str_has(algo, "INT8") || bits == 8)
		return 1;
	if (str_has(algo, "FP4") || bits == 4)
		return 0.5 + 1.0 / 16;
	return 2;
}

static void read_section(struct quant *q, const struct layers *ls,
			 const json_t *o)
{
	*q = (struct quant){ .kv_element_bytes = kv_element_bytes(o) };
	read_scheme(q, o);
	read_exceptions(q, ls, o);
	read_left_out(q, ls, o);
}

void quant_read(struct config *c, const json_t *beside, const char *path_name,
		const struct layers *layers, struct quant *out)
{
	const json_t *o = section_inside(c), *file = section_of_file(beside);
	struct storage s;

	if (o)
		read_section(out, layers, o);
	/* the file beside tells more where config.json only names a mix */
	if (file && (!o || out->of[PART_EXPERTS].scheme == SCHEMES))
		read_section(out, layers, file);
	if (!o && !file) {
		*out = (struct quant){ .kv_element_bytes = 2 };
		out->by_name = scheme_of_name(path_name, &s);
		use_everywhere(out, out->by_name ? s : storage_of_dtype(c));
	}
	/* DeepSeek V4: the experts alone go down to four bits. */
	if (strcmp(config_string(c, "expert_dtype"), "fp4") == 0 &&
	    out->of[PART_EXPERTS].scheme == SCHEME_FP8_BLOCK)
		out->of[PART_EXPERTS].scheme = SCHEME_MXFP4;
}
