#include "target/model_config_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool str_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

/* ---- what mixes tokens in a layer ------------------------------------- */

static enum mixer mixer_of_word(const char *w)
{
	if (str_has(w, "sliding") || str_has(w, "local"))
		return MIXER_SLIDING;
	if (str_has(w, "linear") || str_has(w, "recurrent") ||
	    strcmp(w, "kda") == 0)
		return MIXER_LINEAR;
	if (str_has(w, "mamba"))
		return MIXER_MAMBA;
	if (str_has(w, "conv"))
		return MIXER_CONV;
	if (strcmp(w, "moe") == 0 || strcmp(w, "mlp") == 0)
		return MIXER_NONE;
	return MIXER_FULL; /* full, chunked, sparse attention, hybrid */
}

static enum mixer mixer_of_letter(char letter)
{
	switch (letter) {
	case 'M':
		return MIXER_MAMBA;
	case '*':
		return MIXER_FULL;
	default:
		return MIXER_NONE;
	}
}

static enum mixer full_if(bool full, enum mixer otherwise)
{
	return full ? MIXER_FULL : otherwise;
}

static enum mixer mixer_by_period(struct config *c, uint32_t l, uint32_t n)
{
	const char *pattern = config_string(c, "sliding_window_pattern");
	uint32_t period = config_u32(c, "attn_layer_period", 0);

	if (period)
		return full_if(l % period ==
				       config_u32(c, "attn_layer_offset", 0),
			       MIXER_MAMBA);
	period = config_u32(c, "full_attention_interval", 0);
	if (period)
		return full_if((l + 1) % period == 0, MIXER_LINEAR);
	period = config_u32(c, "layer_group_size", 0);
	if (period) /* the layers past the last whole group are full, too */
		return full_if((l + 1) % period == 0 || l >= n - n % period,
			       MIXER_LINEAR);
	if (pattern[0]) /* "LLLG": local, global */
		return full_if(pattern[l % strlen(pattern)] == 'G',
			       MIXER_SLIDING);
	period = config_u32(
		c, "sliding_window_pattern global_attn_every_n_layers", 0);
	if (period)
		return full_if((l + 1) % period == 0, MIXER_SLIDING);
	return MIXER_FULL;
}

/* Families that name the attention layers one by one or by a period. */
static enum mixer mixer_by_rule(struct config *c, uint32_t l, uint32_t n)
{
	const char *full_layers = "linear_attn_config.full_attn_layers";

	if (config_get(c, full_layers))
		return full_if(config_list_has(c, full_layers, l + 1),
			       MIXER_LINEAR);
	if (json_is_array(config_get(c, "hybrid_layer_pattern")))
		return full_if(config_u32_at(c, "hybrid_layer_pattern", l, 0) ==
				       0,
			       MIXER_SLIDING);
	if (json_is_array(config_get(c, "sliding_window_layout")))
		return full_if(
			config_u32_at(c, "sliding_window_layout", l, 0) == 0,
			MIXER_SLIDING);
	if (json_is_array(config_get(c, "attn_type_list")))
		return full_if(config_u32_at(c, "attn_type_list", l, 1) != 0,
			       MIXER_LINEAR);
	if (json_is_array(config_get(c, "attn_layer_indices")))
		return full_if(config_list_has(c, "attn_layer_indices", l),
			       MIXER_MAMBA);
	return mixer_by_period(c, l, n);
}

/* What a layer does, in a family that lists it; "" where none does. */
static const char *word_of(const struct config *c, uint32_t l)
{
	const json_t *block = json_array_get(config_get(c, "block_configs"), l);
	const char *w = json_string_value(json_object_get(block, "block_type"));

	return w ? w : config_string_at(c, "layers_block_type layer_types", l);
}

static enum mixer mixer_of(struct config *c, uint32_t l, uint32_t n)
{
	const char *pattern = config_string(c, "hybrid_override_pattern");
	const char *word = word_of(c, l);

	if (strnlen(pattern, CONFIG_LAYERS_MAX) > l)
		return mixer_of_letter(pattern[l]);
	if (word[0])
		return mixer_of_word(word);
	return mixer_by_rule(c, l, n);
}

/* ---- which layers have experts ---------------------------------------- */

static bool comma_list_has(const char *s, uint32_t x)
{
	for (uint32_t n = 0; *s && n < CONFIG_LIST_MAX; n++) {
		char *end;
		unsigned long v = strtoul(s, &end, 10);

		if (end == s)
			return false;
		if (v == x)
			return true;
		s = end + strspn(end, ", ");
	}
	return false;
}

static bool moe_by_period(struct config *c, uint32_t l)
{
	const char *dense = "first_k_dense_replace n_dense_layers "
			    "num_dense_layers moe_layer_start_index "
			    "moe_layer_num_skipped first_last_k_dense_replace "
			    "moe.first_k_dense_replace";
	uint32_t step;

	if (l < config_u32(c, dense, 0) ||
	    l > config_limit(c, "moe_layer_end_index", UINT32_MAX) ||
	    config_list_has(c, "mlp_only_layers", l))
		return false;
	step = config_u32(c, "expert_layer_period", 0);
	if (step)
		return l % step == config_u32(c, "expert_layer_offset", 0);
	step = config_u32(c, "moe_layer_freq", 1);
	if (step > 1)
		return l % step == 0;
	step = config_u32(c,
			  "interleave_moe_layer_step decoder_sparse_step "
			  "moe_layer_interval moe_layer_frequency "
			  "moe.route_every_n",
			  1);
	return step > 0 && (l + 1) % step == 0;
}

static bool is_moe(struct config *c, uint32_t l)
{
	const char *by_layer = "moe_layer_freq is_moe_layer moe_layer_layout";
	const char *word = config_string_at(c, "mlp_layer_types", l);
	const json_t *list;

	if (word[0])
		return strcmp(word, "dense") != 0;
	list = config_get(c, by_layer);
	if (json_is_array(list))
		return config_u32_at(c, by_layer, l, 0) != 0;
	list = config_get(c, "moe_layers_enum moe_layers");
	if (json_is_string(list))
		return comma_list_has(json_string_value(list), l);
	if (json_array_size(list) > 0)
		return config_list_has(c, "moe_layers_enum moe_layers", l);
	return moe_by_period(c, l);
}

/* Nemotron-H gives each layer one job, mixing or feed-forward. */
static bool one_job_per_layer(const struct config *c, uint32_t n)
{
	if (config_string(c, "hybrid_override_pattern")[0])
		return true;
	for (uint32_t l = 0; l < n; l++) {
		const char *w = word_of(c, l);

		if (!strcmp(w, "moe") || !strcmp(w, "mlp"))
			return true;
	}
	return false;
}

static enum ffn ffn_of_job(const struct config *c, uint32_t l)
{
	const char *pattern = config_string(c, "hybrid_override_pattern");
	const char *word = word_of(c, l);

	if (strnlen(pattern, CONFIG_LAYERS_MAX) > l)
		return pattern[l] == 'E'   ? FFN_MOE
		       : pattern[l] == '-' ? FFN_DENSE
					   : FFN_NONE;
	return !strcmp(word, "moe")   ? FFN_MOE
	       : !strcmp(word, "mlp") ? FFN_DENSE
				      : FFN_NONE;
}

static uint32_t count_layers(struct config *c)
{
	const char *keys = "num_hidden_layers n_layers n_layer num_layers";
	const char *pattern = config_string(c, "hybrid_override_pattern");
	size_t listed = json_array_size(
		config_get(c, "layers_block_type block_configs layer_types"));
	uint32_t n;

	/* LongCat's other count is of attention blocks, two in a layer */
	if (config_get(c, "zero_expert_num"))
		keys = "num_layers num_hidden_layers";
	n = config_u32(c, keys, 0);
	if (!n)
		n = (uint32_t)(listed ? listed
				      : strnlen(pattern, CONFIG_LAYERS_MAX));
	return n;
}

int layers_read(struct config *c, uint32_t experts, struct layers *out)
{
	bool one_job;

	memset(out, 0, sizeof(*out));
	out->experts = experts;
	out->dense_beside = config_get(c, "enable_moe_block") != NULL;
	out->n = count_layers(c);
	if (out->n == 0 || out->n > CONFIG_LAYERS_MAX)
		return -EINVAL;
	one_job = one_job_per_layer(c, out->n);
	for (uint32_t l = 0; l < out->n; l++) {
		enum ffn f = FFN_DENSE;

		if (one_job)
			f = ffn_of_job(c, l);
		else if (experts && is_moe(c, l))
			f = FFN_MOE;
		out->mixer[l] = (uint8_t)mixer_of(c, l, out->n);
		out->ffn[l] = (uint8_t)f;
		out->mixers[out->mixer[l]]++;
		out->ffns[f]++;
	}
	return 0;
}
