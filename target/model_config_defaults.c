/* What a family's own code takes for keys that its config.json leaves out, as
 * the transformers library defines them. */
#include "target/model_config_json.h"

#include <string.h>

static const struct {
	const char *types; /* of model_type, words */
	const char *json;
} families[] = {
	{ "mixtral", "{\"hidden_size\":4096,\"intermediate_size\":14336,"
		     "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
		     "\"num_key_value_heads\":8,\"num_local_experts\":8,"
		     "\"num_experts_per_tok\":2,\"vocab_size\":32000}" },
	{ "phimoe", "{\"hidden_size\":4096,\"intermediate_size\":6400,"
		    "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
		    "\"num_key_value_heads\":8,\"num_local_experts\":16,"
		    "\"num_experts_per_tok\":2,\"vocab_size\":32064}" },
	{ "olmoe", "{\"hidden_size\":2048,\"intermediate_size\":2048,"
		   "\"num_hidden_layers\":16,\"num_attention_heads\":16,"
		   "\"num_experts\":64,\"num_experts_per_tok\":8,"
		   "\"vocab_size\":50304}" },
	{ "qwen2_moe",
	  "{\"hidden_size\":2048,\"intermediate_size\":5632,"
	  "\"num_hidden_layers\":24,\"num_attention_heads\":16,"
	  "\"num_key_value_heads\":16,\"num_experts\":60,"
	  "\"num_experts_per_tok\":4,\"moe_intermediate_size\":1408,"
	  "\"shared_expert_intermediate_size\":5632,"
	  "\"vocab_size\":151936}" },
	{ "qwen3_moe qwen3_vl_moe_text qwen3_omni_moe_text",
	  "{\"hidden_size\":2048,\"intermediate_size\":6144,"
	  "\"num_hidden_layers\":24,\"num_attention_heads\":32,"
	  "\"num_key_value_heads\":4,\"num_experts\":128,"
	  "\"num_experts_per_tok\":8,\"moe_intermediate_size\":768,"
	  "\"vocab_size\":151936}" },
	{ "qwen3_next qwen3_5_moe_text",
	  "{\"hidden_size\":2048,\"num_hidden_layers\":48,"
	  "\"num_attention_heads\":16,\"num_key_value_heads\":2,"
	  "\"head_dim\":256,\"num_experts\":512,"
	  "\"num_experts_per_tok\":10,\"moe_intermediate_size\":512,"
	  "\"shared_expert_intermediate_size\":512,"
	  "\"full_attention_interval\":4,\"linear_conv_kernel_dim\":4,"
	  "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,"
	  "\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
	  "\"vocab_size\":151936}" },
	{ "deepseek_v3 kimi_k2",
	  "{\"hidden_size\":7168,\"intermediate_size\":18432,"
	  "\"moe_intermediate_size\":2048,\"num_hidden_layers\":61,"
	  "\"num_attention_heads\":128,\"n_shared_experts\":1,"
	  "\"n_routed_experts\":256,\"kv_lora_rank\":512,"
	  "\"q_lora_rank\":1536,\"qk_rope_head_dim\":64,"
	  "\"v_head_dim\":128,\"qk_nope_head_dim\":128,"
	  "\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,"
	  "\"vocab_size\":129280}" },
	/* whether it has experts, its files do say */
	{ "deepseek_v2", "{\"num_hidden_layers\":30,\"num_attention_heads\":32,"
			 "\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,"
			 "\"v_head_dim\":128,\"qk_nope_head_dim\":128}" },
	{ "gpt_oss", "{\"hidden_size\":2880,\"intermediate_size\":2880,"
		     "\"num_hidden_layers\":36,\"num_attention_heads\":64,"
		     "\"num_key_value_heads\":8,\"head_dim\":64,"
		     "\"num_local_experts\":128,\"num_experts_per_tok\":4,"
		     "\"sliding_window\":128,\"sliding_window_pattern\":2,"
		     "\"vocab_size\":201088}" },
	{ "llama4_text",
	  "{\"hidden_size\":5120,\"intermediate_size\":8192,"
	  "\"intermediate_size_mlp\":16384,\"num_hidden_layers\":48,"
	  "\"num_attention_heads\":40,\"num_key_value_heads\":8,"
	  "\"head_dim\":128,\"num_experts_per_tok\":1,"
	  "\"num_local_experts\":16,\"vocab_size\":202048}" },
	{ "jamba", "{\"hidden_size\":4096,\"intermediate_size\":14336,"
		   "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
		   "\"num_key_value_heads\":8,\"num_experts\":16,"
		   "\"num_experts_per_tok\":2,\"expert_layer_period\":2,"
		   "\"expert_layer_offset\":1,\"attn_layer_period\":8,"
		   "\"attn_layer_offset\":4,\"vocab_size\":65536}" },
	{ "glm4_moe", "{\"hidden_size\":4096,\"intermediate_size\":10944,"
		      "\"moe_intermediate_size\":1408,"
		      "\"num_hidden_layers\":46,\"num_attention_heads\":96,"
		      "\"num_key_value_heads\":8,\"head_dim\":128,"
		      "\"n_routed_experts\":128,\"n_shared_experts\":1,"
		      "\"num_experts_per_tok\":8,"
		      "\"first_k_dense_replace\":1,\"vocab_size\":151552}" },
	{ "ernie4_5_moe",
	  "{\"moe_num_experts\":64,\"moe_k\":6,"
	  "\"moe_layer_start_index\":1,\"moe_layer_end_index\":-1,"
	  "\"moe_layer_interval\":1,\"moe_intermediate_size\":1536,"
	  "\"moe_num_shared_experts\":2}" },
};

static bool word_in(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; *p;) {
		size_t m = strcspn(p, " ");

		if (m == n && memcmp(p, word, n) == 0)
			return true;
		p += m;
		p += strspn(p, " ");
	}
	return false;
}

json_t *config_defaults(const char *model_type)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (word_in(families[i].types, model_type))
			return json_loads(families[i].json, 0, NULL);
	return NULL;
}
