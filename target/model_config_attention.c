#include "target/model_config_parts.h"

#include <string.h>

static const char mla_rank[] = "kv_lora_rank attention_kv_lora_dim";

static uint32_t heads_of(struct config *c)
{
	return config_u32(c, "num_attention_heads n_heads n_head", 1);
}

static uint32_t head_width(struct config *c, uint32_t hidden)
{
	uint32_t heads = heads_of(c);
	uint32_t width = config_u32(c,
				    "head_dim hidden_size_per_head "
				    "attention_head_dim kv_channels",
				    0);

	if (!width && heads)
		width = hidden / heads;
	return width;
}

/* Plain multi-head attention with shared KV heads. */
static double gqa_params(double hidden, double heads, double kv_heads,
			 double width, double v_width, bool gate)
{
	double q = hidden * heads * width * (gate ? 2 : 1);

	return q + hidden * kv_heads * (width + v_width) +
	       heads * v_width * hidden;
}

static void read_gqa(struct config *c, uint32_t hidden, struct attention *a)
{
	double heads = heads_of(c), h = hidden;
	double width = head_width(c, hidden);
	/* A v_head_dim of 0 stands for "not MLA" in some DeepSeek files. */
	double v = config_u32(c, "v_head_dim", 0);
	double kv = config_u32(c,
			       "n_head_kv num_kv_heads num_key_value_heads "
			       "multi_query_group_num num_attention_groups "
			       "n_kv_heads num_query_groups "
			       "attn_config.kv_n_heads",
			       (uint32_t)heads);
	const char *type = config_string(c, "model_type");
	bool gate = config_flag(c, "attn_output_gate",
				strncmp(type, "qwen3_next", 10) == 0 ||
					strncmp(type, "qwen3_5", 7) == 0);
	double full_kv =
		config_u32(c, "num_global_key_value_heads", (uint32_t)kv);
	double full_width = config_u32(c, "global_head_dim", (uint32_t)width);
	double swa_heads =
		config_u32(c, "swa_num_attention_heads", (uint32_t)heads);
	double swa_kv = config_u32(c, "swa_num_key_value_heads", (uint32_t)kv);
	double swa_width = config_u32(c, "swa_head_dim", (uint32_t)width);
	double full_v, swa_v;

	v = v > 0 ? v : width;
	full_v = full_width != width ? full_width : v;
	swa_v = config_u32(c, "swa_v_head_dim",
			   (uint32_t)(swa_width != width ? swa_width : v));
	a->params[MIXER_FULL] =
		gqa_params(h, heads, full_kv, full_width, full_v, gate);
	a->params[MIXER_SLIDING] =
		gqa_params(h, swa_heads, swa_kv, swa_width, swa_v, gate);
	a->kv_bytes[MIXER_FULL] = full_kv * (full_width + full_v) * 2;
	a->kv_bytes[MIXER_SLIDING] = swa_kv * (swa_width + swa_v) * 2;
	a->window = config_limit(c,
				 "sliding_window sliding_window_size "
				 "attention_window_size window_size",
				 0);
}

/* Weights of the sparse-attention indexer of DeepSeek V3.2 and GLM-5. */
static double indexer_params(struct config *c, double hidden, double q_rank)
{
	double n = config_u32(c, "index_n_heads", 0);
	double width = config_u32(c, "index_head_dim", 0);

	return q_rank * n * width + hidden * width + hidden * n;
}

static void read_mla(struct config *c, uint32_t hidden, struct attention *a)
{
	double heads = heads_of(c), h = hidden;
	double q_rank = config_u32(c, "q_lora_rank attention_q_lora_dim", 0);
	double kv_rank = config_u32(c, mla_rank, 0);
	double rope =
		config_u32(c, "qk_rope_head_dim attention_qk_rope_dim", 0);
	double qk =
		config_u32(c, "qk_nope_head_dim attention_qk_dim", 0) + rope;
	double v = config_u32(c, "v_head_dim attention_v_dim", 0);
	double q =
		q_rank > 0 ? h * q_rank + q_rank * heads * qk : h * heads * qk;

	a->params[MIXER_FULL] = q + h * (kv_rank + rope) +
				kv_rank * heads * (qk - rope + v) +
				heads * v * h + indexer_params(c, h, q_rank);
	a->params[MIXER_SLIDING] = a->params[MIXER_FULL];
	a->kv_bytes[MIXER_FULL] = (kv_rank + rope) * 2;
	a->top_tokens = config_u32(c, "index_topk", 0);
	if (a->top_tokens) /* keys in 8 bits with one scale each */
		a->index_bytes = config_u32(c, "index_head_dim", 128) + 4.0;
}

/* DeepSeek V4: low-rank output by groups, and a cache of compressed entries
 * whose size per token depends on the layer's ratio and the position. */
static void read_compressed(struct config *c, uint32_t hidden,
			    struct attention *a)
{
	double heads = heads_of(c), h = hidden;
	double width = head_width(c, hidden);
	double q_rank = config_u32(c, "q_lora_rank", 0);
	double o_rank = config_u32(c, "o_lora_rank", 0);
	double groups = config_u32(c, "o_groups", 1);

	a->params[MIXER_FULL] = h * q_rank + q_rank * heads * width +
				h * width + heads * width * o_rank +
				groups * o_rank * h;
	a->params[MIXER_SLIDING] = a->params[MIXER_FULL];
	a->kv_unknown = true;
}

static void read_linear(struct config *c, uint32_t hidden, struct attention *a)
{
	double h = hidden;
	double heads = heads_of(c);
	double kda = config_u32(c, "linear_attn_config.num_heads", 0);
	double kda_width = config_u32(c, "linear_attn_config.head_dim", 0);
	double v_heads = config_u32(c, "linear_num_value_heads", 0);
	double keys = (double)config_u32(c, "linear_num_key_heads", 0) *
		      config_u32(c, "linear_key_head_dim", 0);
	double values = v_heads * config_u32(c, "linear_value_head_dim", 0);
	double conv = config_u32(c, "linear_conv_kernel_dim", 0);

	if (values > 0) /* gated delta net: q, k, v, z, two gates, output */
		a->params[MIXER_LINEAR] =
			h * (2 * keys + 2 * values) + h * 2 * v_heads +
			conv * (2 * keys + values) + values * h;
	else if (kda > 0) /* Kimi delta attention: low-rank gates */
		a->params[MIXER_LINEAR] =
			4 * h * kda * kda_width +
			2 * (h + kda * kda_width) * kda_width + h * kda;
	else /* lightning attention: q, k, v, gate, output */
		a->params[MIXER_LINEAR] = 5 * h * heads * head_width(c, hidden);
}

static void read_state_space(struct config *c, uint32_t hidden,
			     struct attention *a)
{
	double h = hidden;
	double heads = config_u32(c, "mamba_num_heads mamba_n_heads", 0);
	double width = config_u32(c, "mamba_head_dim mamba_d_head", 0);
	double state = config_u32(c, "ssm_state_size mamba_d_state", 16);
	double groups = config_u32(c, "n_groups mamba_n_groups", 1);
	double expand = config_u32(c, "mamba_expand expand", 2);
	const json_t *dt = config_get(c, "mamba_dt_rank"); /* or "auto" */
	double rank =
		json_is_number(dt) ? config_u32(c, "mamba_dt_rank", 0) : h / 16;
	double inner = heads > 0 && width > 0 ? heads * width : expand * h;

	if (heads > 0) /* Mamba 2 */
		a->params[MIXER_MAMBA] =
			h * (2 * inner + 2 * groups * state + heads) +
			inner * h;
	else
		a->params[MIXER_MAMBA] = h * 2 * inner +
					 inner * (rank + 2 * state) +
					 rank * inner + inner * h;
	a->params[MIXER_CONV] = 4 * h * h;
}

void attention_read(struct config *c, uint32_t hidden, struct attention *out)
{
	*out = (struct attention){ .per_layer = 1, .kv_share = 1 };
	if (config_get(c, "compress_ratios") || config_get(c, "o_lora_rank"))
		read_compressed(c, hidden, out);
	else if (config_u32(c, mla_rank, 0) > 0 &&
		 config_flag(c, "use_mla", true))
		read_mla(c, hidden, out);
	else
		read_gqa(c, hidden, out);
	read_linear(c, hidden, out);
	read_state_space(c, hidden, out);
	if (config_flag(c, "use_cla", false))
		out->kv_share = config_u32(c, "cla_share_factor", 1);
	/* LongCat: two attention blocks around one set of experts. */
	if (config_get(c, "zero_expert_num"))
		out->per_layer = 2;
	if (out->kv_share == 0)
		out->kv_share = 1;
}
