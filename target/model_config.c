#include "target/model_config.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/model_config_parts.h"

#define EXPERTS_MAX 16384u

/* Names and errors reach terminals: keep what prints.  out may be s. */
static void copy_text(char *out, size_t bytes, const char *s)
{
	size_t n = 0;

	for (; *s && n + 1 < bytes; s++)
		if ((unsigned char)*s >= ' ' && *s != 0x7f)
			out[n++] = *s;
	out[n] = '\0';
}

static int fail(int err, char *why, size_t bytes, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(int err, char *why, size_t bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (why && bytes) {
		vsnprintf(why, bytes, fmt, ap);
		copy_text(why, bytes, why);
	}
	va_end(ap);
	return err;
}

/* ---- experts ---------------------------------------------------------- */

static const char expert_keys[] =
	"num_experts moe_num_experts n_routed_experts num_local_experts "
	"num_routed_experts num_moe_experts moe_num_primary_experts "
	"ffn_config.moe_num_experts moe.num_experts "
	"moe_config.moe_num_experts";

static uint32_t experts_of(struct config *c)
{
	const json_t *blocks = config_get(c, "block_configs");
	uint32_t e = config_u32(c, expert_keys, 0);

	for (size_t i = 0; i < json_array_size(blocks); i++) {
		double n = json_number_value(json_object_get(
			json_array_get(blocks, i), "n_routed_experts"));

		if (n > e && n <= EXPERTS_MAX)
			e = (uint32_t)n;
	}
	if (!config_flag(c, "enable_moe_block", true))
		return 0;
	return e > 1 ? e : 0; /* one expert is a dense layer */
}

static uint32_t top_k_of(struct config *c)
{
	return config_u32(c,
			  "num_experts_per_tok num_experts_per_token "
			  "top_k_experts moe_topk moe_top_k moe_k "
			  "experts_per_token n_activated_experts "
			  "moe_num_active_primary_experts moe_router_topk "
			  "ffn_config.moe_top_k moe.num_experts_per_tok "
			  "moe.top_k "
			  "moe_config.moe_top_k",
			  0);
}

static uint32_t expert_width(struct config *c)
{
	return config_u32(c,
			  "moe_intermediate_size moe_inter_dim "
			  "expert_ffn_hidden_size expert_intermediate_size "
			  "moe_ffn_hidden_size expert_hidden_dim "
			  "moe.expert_hidden_dim "
			  "ffn_config.ffn_hidden_size intermediate_size "
			  "ffn_hidden_size hidden_dim",
			  0);
}

static uint32_t matrices_of(const struct config *c)
{
	const char *act = config_string(c, "mlp_hidden_act hidden_act");

	return strcmp(act, "relu2") == 0 ? 2 : 3;
}

static uint32_t dense_width(struct config *c)
{
	return config_u32(
		c,
		"intermediate_size_mlp dense_intermediate_size "
		"inter_dim ffn_hidden_size ffn_config.ffn_hidden_size "
		"intermediate_size n_inner hidden_dim",
		0);
}

/* Width of all shared experts of a layer together, and how many they are. */
static double shared_width(struct config *c, uint32_t inter, uint32_t *n)
{
	uint32_t width = config_u32(c,
				    "moe_shared_expert_intermediate_size "
				    "shared_expert_intermediate_size "
				    "shared_intermediate_size "
				    "share_expert_dim",
				    0);
	const char *type = config_string(c, "model_type");

	*n = config_u32(c,
			"n_shared_experts num_shared_experts num_shared_expert "
			"moe_num_shared_experts moe.num_shared_experts",
			0);
	if (strncmp(type, "llama4", 6) == 0)
		*n = 1;
	/* A Qwen3-MoE layer has none, whatever its file says. */
	if (strcmp(type, "qwen3_moe") == 0)
		width = *n = 0;
	if (width && !*n)
		*n = 1;
	return width ? width : (double)*n * inter;
}

static void read_experts(struct config *c, struct arch *a)
{
	a->expert_in = config_u32(
		c, "moe_latent_size routed_expert_hidden_size", a->hidden);
	a->expert_inter = expert_width(c);
	a->expert_matrices = matrices_of(c);
	a->expert_params =
		(double)a->expert_matrices * a->expert_in * a->expert_inter;
}

/* ---- the parts that every step reads ---------------------------------- */

static double attention_params(const struct layers *ls,
			       const struct attention *at)
{
	double sum = 0;

	for (unsigned m = 0; m < MIXERS; m++)
		sum += ls->mixers[m] * at->params[m];
	return sum * at->per_layer;
}

/* Layers of a kind that keep a cache of their own: the last `shared` use an
 * earlier layer's. */
static double caches(const struct layers *ls, enum mixer kind, uint32_t shared)
{
	double n = 0;

	for (uint32_t l = 0; l + shared < ls->n; l++)
		n += ls->mixer[l] == kind;
	return n;
}

/* Layers that choose their own tokens: the others take over a choice. */
static double indexers(const struct config *c, double layers)
{
	const json_t *types = config_get(c, "indexer_types");
	double n = 0;

	for (size_t i = 0; i < json_array_size(types); i++) {
		const char *w = json_string_value(json_array_get(types, i));

		n += w && strcmp(w, "full") == 0;
	}
	return n > 0 ? n : layers;
}

static void read_cache(struct config *c, const struct layers *ls,
		       const struct attention *at, struct arch *a)
{
	uint32_t shared = config_u32(c, "num_kv_shared_layers", 0);
	double full = caches(ls, MIXER_FULL, shared);

	if (at->kv_unknown)
		return;
	a->kv_bytes_per_token =
		full * at->kv_bytes[MIXER_FULL] * at->per_layer / at->kv_share;
	a->kv_top_tokens = at->top_tokens;
	a->kv_index_bytes_per_token = indexers(c, full) * at->index_bytes;
	a->kv_window_tokens = at->window;
	if (at->window)
		a->kv_window_bytes_per_token =
			caches(ls, MIXER_SLIDING, shared) *
			at->kv_bytes[MIXER_SLIDING];
}

static void add_dense(struct arch *a, const struct quant *q, enum part p,
		      double params)
{
	/* Rows of the output matter to per-channel scales only: one for each
	 * `hidden` weights. */
	a->dense_params += params;
	a->dense_bytes += quant_bytes(q, p, params, params / a->hidden);
}

/* Total width of dense FFNs beside the experts of a layer: LongCat, Gemma 4,
 * Grok 2; Arctic has one as wide as the model. */
static double width_beside(struct config *c, const struct layers *ls,
			   const struct arch *a)
{
	if (config_flag(c, "parallel_attn_mlp_res", false))
		return a->hidden;
	if (config_get(c, "zero_expert_num"))
		return 2.0 * dense_width(c);
	if (ls->dense_beside || config_flag(c, "residual_moe", false))
		return dense_width(c);
	return 0;
}

static void read_dense(struct config *c, const struct layers *ls,
		       const struct attention *at, const struct quant *q,
		       struct arch *a)
{
	double h = a->hidden, moe = ls->ffns[FFN_MOE];
	double shared = shared_width(c, a->expert_inter, &a->shared_experts);
	double dense_layers = ls->ffns[FFN_DENSE];

	if (!a->experts)
		a->shared_experts = 0, shared = 0;
	add_dense(a, q, PART_ATTENTION, attention_params(ls, at));
	add_dense(a, q, PART_SHARED, moe * a->expert_matrices * h * shared);
	add_dense(
		a, q, PART_FFN,
		(dense_layers * dense_width(c) + moe * width_beside(c, ls, a)) *
			a->expert_matrices * h);
	add_dense(a, q, PART_ROUTER, moe * a->experts * h);
	if (a->expert_in != a->hidden) /* down to the latent width and back */
		add_dense(a, q, PART_SHARED, moe * 2 * h * a->expert_in);
	add_dense(a, q, PART_HEAD, h * config_u32(c, "vocab_size", 0));
}

static void read_expert_bytes(const struct config *c, const struct quant *q,
			      struct arch *a)
{
	static const struct storage bf16 = { .scheme = SCHEME_BF16 };
	const struct storage *s = &q->of[PART_EXPERTS];
	double rows =
		(a->expert_matrices - 1.0) * a->expert_inter + a->expert_in;
	bool plain = q->bf16[PART_EXPERTS] > 0.5;

	a->expert_bytes = plain ? a->expert_params * 2
				: storage_bytes(s, a->expert_params, rows);
	if (strcmp(config_string(c, "model_type"), "gpt_oss") == 0)
		a->expert_bytes += rows * 2; /* biases, in bf16 */
	a->compute = COMPUTE_BF16;
	if (!plain && s->act_fp8)
		a->compute = COMPUTE_FP8;
	if (!plain && s->act_fp4)
		a->compute = COMPUTE_FP4;
	storage_name(plain ? &bf16 : s, q->by_name && !plain, a->quant,
		     sizeof(a->quant));
	if (!plain && s->scheme == SCHEMES)
		a->expert_bytes = a->dense_bytes = 0;
}

/* ---- from JSON to the shape ------------------------------------------- */

static int check(const struct config *c, const struct arch *a, char *why,
		 size_t why_bytes)
{
	if (c->bad[0])
		return fail(-EINVAL, why, why_bytes,
			    "%s makes no sense in this config.json", c->bad);
	if (a->hidden == 0)
		return fail(
			-EINVAL, why, why_bytes, "%s",
			config_get(c, "quantization producer")
				? "a quantisation file, not the config.json "
				  "beside it"
				: "no hidden_size: not the config.json of "
				  "a model");
	if (a->experts > EXPERTS_MAX)
		return fail(-EINVAL, why, why_bytes, "%u experts make no sense",
			    a->experts);
	if (a->experts && a->top_k > a->experts)
		return fail(-EINVAL, why, why_bytes,
			    "top-k %u of %u experts makes no sense", a->top_k,
			    a->experts);
	if (a->experts && (a->top_k == 0 || a->expert_inter == 0))
		return fail(-ENOTSUP, why, why_bytes,
			    "model type \"%s\": %u experts, but no %s found",
			    a->model_type, a->experts,
			    a->top_k ? "expert width" : "top-k");
	return 0;
}

/* A number of something called experts, of two or more; NULL: none. */
static const char *strange_experts(const struct config *c)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)c->text, key, v)
	{
		if (strstr(key, "expert") && json_number_value(v) >= 2)
			return key;
	}
	return NULL;
}

/* The file, or its name, says experts, but not in words that are known. */
static bool experts_missed(const struct config *c, const struct arch *a)
{
	const char *arch_name = config_string_at(c, "architectures", 0);

	if (a->experts || config_get(c, expert_keys) ||
	    config_get(c, "enable_moe_block"))
		return false;
	return strange_experts(c) || strstr(a->model_type, "moe") ||
	       strstr(a->model_type, "mixtral") || strstr(arch_name, "Moe") ||
	       strstr(arch_name, "MoE") || strstr(arch_name, "Mixtral");
}

static int no_experts_found(const struct config *c, const struct arch *a,
			    uint32_t layers, char *why, size_t why_bytes)
{
	const char *key = strange_experts(c);

	return fail(-ENOTSUP, why, why_bytes,
		    "model type \"%s\" is not a known family: %u layers of "
		    "width %u, but %s%.40s",
		    a->model_type, layers, a->hidden,
		    key ? "not what it means by "
			: "its experts were not found",
		    key ? key : "");
}

static void read_identity(struct config *c, struct arch *a)
{
	copy_text(a->model_type, sizeof(a->model_type),
		  config_string(c, "model_type"));
	copy_text(a->name, sizeof(a->name), config_string(c, "_name_or_path"));
	a->hidden = config_u32(c, "hidden_size d_model dim n_embd", 0);
	a->experts = experts_of(c);
	a->top_k = a->experts ? top_k_of(c) : 0;
	read_experts(c, a);
}

static void forget_experts(struct arch *a)
{
	a->expert_in = a->expert_inter = a->expert_matrices = 0;
	a->expert_params = a->expert_bytes = 0;
}

static int shape_of(struct config *c, const json_t *beside,
		    const char *path_name, struct arch *a, char *why,
		    size_t why_bytes)
{
	struct layers ls;
	struct attention at;
	struct quant q;
	int err;

	read_identity(c, a);
	err = check(c, a, why, why_bytes);
	if (err)
		return err;
	if (layers_read(c, a->experts, &ls) != 0)
		return fail(-EINVAL, why, why_bytes, "%s",
			    c->bad[0] ? "num_hidden_layers makes no sense"
				      : "no sensible number of layers");
	attention_read(c, a->hidden, &at);
	if (experts_missed(c, a))
		return no_experts_found(c, a, ls.n, why, why_bytes);
	a->layers = ls.n;
	a->moe_layers = ls.ffns[FFN_MOE];
	if (a->experts && a->moe_layers == 0)
		return fail(-ENOTSUP, why, why_bytes,
			    "model type \"%s\": %u experts, but in none of "
			    "its %u layers",
			    a->model_type, a->experts, ls.n);
	quant_read(c, beside, path_name[0] ? path_name : a->name, &ls, &q);
	read_cache(c, &ls, &at, a);
	a->kv_element_bytes = q.kv_element_bytes;
	read_dense(c, &ls, &at, &q, a);
	read_expert_bytes(c, &q, a);
	if (a->experts)
		a->draft_moe_layers = config_u32(c,
						 "num_nextn_predict_layers "
						 "mtp_num_hidden_layers",
						 0);
	else
		forget_experts(a);
	return check(c, a, why, why_bytes);
}

int model_config_named(const struct model_config_text *in, struct arch *out,
		       char *why, size_t why_bytes)
{
	struct arch a = { .experts = 0 };
	json_t *root, *beside = NULL;
	json_error_t error;
	struct config c;
	int err;

	if (in->bytes > MODEL_CONFIG_BYTES_MAX ||
	    in->quant_bytes > MODEL_CONFIG_BYTES_MAX)
		return fail(-EFBIG, why, why_bytes, "larger than %u MiB",
			    MODEL_CONFIG_BYTES_MAX >> 20);
	root = config_load(in->json, in->bytes, &error);
	if (!json_is_object(root)) {
		json_decref(root);
		return fail(-EINVAL, why, why_bytes,
			    "not a JSON object (line %d: %s)",
			    root ? 1 : error.line,
			    root ? "another type" : error.text);
	}
	if (in->quant)
		beside = config_load(in->quant, in->quant_bytes, &error);
	config_init(&c, root);
	err = shape_of(&c, beside, in->name, &a, why, why_bytes);
	config_done(&c);
	json_decref(root);
	json_decref(beside);
	if (err == 0)
		*out = a;
	return err;
}

int model_config_parse(const char *json, size_t bytes, const char *quant,
		       size_t quant_bytes, struct arch *out, char *why,
		       size_t why_bytes)
{
	const struct model_config_text in = { .json = json,
					      .bytes = bytes,
					      .quant = quant,
					      .quant_bytes = quant_bytes,
					      .name = "" };

	return model_config_named(&in, out, why, why_bytes);
}
