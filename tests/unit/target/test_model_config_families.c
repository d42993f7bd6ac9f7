/* Families by small configs of their form, and the parts that every step
 * reads. */
#include "tests/unit/target/model_config_test.h"

/* ---- families --------------------------------------------------------- */

static const struct family {
	const char *json;
	uint32_t experts, top_k, layers, moe_layers, shared;
	double expert_params, kv_bytes;
} families[] = {
	{ "{'model_type':'qwen2_moe','hidden_size':2048,'num_experts':60,"
	  "'num_experts_per_tok':4,'moe_intermediate_size':1408,"
	  "'shared_expert_intermediate_size':5632,'intermediate_size':5632,"
	  "'num_hidden_layers':24,'num_attention_heads':16,"
	  "'num_key_value_heads':16,'decoder_sparse_step':1,"
	  "'mlp_only_layers':[0,5],'vocab_size':151936}",
	  60, 4, 24, 22, 1, 3.0 * 2048 * 1408, 24 * 2 * 16 * 128 * 2 },
	{ "{'model_type':'jamba','hidden_size':4096,'num_experts':16,"
	  "'num_experts_per_tok':2,'intermediate_size':14336,"
	  "'num_hidden_layers':32,'num_attention_heads':32,"
	  "'num_key_value_heads':8,'expert_layer_period':2,"
	  "'expert_layer_offset':1,'attn_layer_period':8,"
	  "'attn_layer_offset':4,'mamba_dt_rank':'auto','vocab_size':65536}",
	  16, 2, 32, 16, 0, 3.0 * 4096 * 14336, 4 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'dbrx','d_model':6144,'n_layers':40,'n_heads':48,"
	  "'vocab_size':100352,'attn_config':{'kv_n_heads':8},"
	  "'ffn_config':{'ffn_hidden_size':10752,'moe_num_experts':16,"
	  "'moe_top_k':4}}",
	  16, 4, 40, 40, 0, 3.0 * 6144 * 10752, 40 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'ernie4_5_moe','hidden_size':2560,"
	  "'moe_num_experts':64,'moe_k':6,'moe_intermediate_size':1536,"
	  "'moe_num_shared_experts':2,'moe_layer_start_index':1,"
	  "'moe_layer_end_index':-1,'moe_layer_interval':1,"
	  "'intermediate_size':12288,'num_hidden_layers':28,"
	  "'num_attention_heads':20,'num_key_value_heads':4,'head_dim':128,"
	  "'vocab_size':103424}",
	  64, 6, 28, 27, 2, 3.0 * 2560 * 1536, 28 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'kimi_linear','hidden_size':2304,'num_experts':256,"
	  "'num_experts_per_token':8,'moe_intermediate_size':1024,"
	  "'num_shared_experts':1,'first_k_dense_replace':1,"
	  "'moe_layer_freq':1,'intermediate_size':9216,"
	  "'num_hidden_layers':8,'num_attention_heads':32,"
	  "'kv_lora_rank':512,'qk_rope_head_dim':64,'qk_nope_head_dim':128,"
	  "'v_head_dim':128,'q_lora_rank':null,'linear_attn_config':{"
	  "'full_attn_layers':[4,8],'kda_layers':[1,2,3,5,6,7],"
	  "'num_heads':32,'head_dim':128},'vocab_size':163840}",
	  256, 8, 8, 7, 1, 3.0 * 2304 * 1024, 2 * 576 * 2 },
	{ "{'model_type':'longcat_flash','hidden_size':6144,"
	  "'n_routed_experts':512,'zero_expert_num':256,'moe_topk':12,"
	  "'expert_ffn_hidden_size':2048,'ffn_hidden_size':12288,"
	  "'num_layers':28,'num_attention_heads':64,'kv_lora_rank':512,"
	  "'q_lora_rank':1536,'qk_rope_head_dim':64,'qk_nope_head_dim':128,"
	  "'v_head_dim':128,'vocab_size':131072}",
	  512, 12, 28, 28, 0, 3.0 * 6144 * 2048, 28 * 2 * 576 * 2 },
	{ "{'model_type':'lfm2_moe','hidden_size':2048,'num_experts':32,"
	  "'num_experts_per_tok':4,'moe_intermediate_size':1792,"
	  "'intermediate_size':7168,'num_dense_layers':2,"
	  "'num_hidden_layers':6,'num_attention_heads':32,"
	  "'num_key_value_heads':8,'layer_types':['conv','conv',"
	  "'full_attention','conv','conv','full_attention'],"
	  "'vocab_size':65536}",
	  32, 4, 6, 4, 0, 3.0 * 2048 * 1792, 2 * 2 * 8 * 64 * 2 },
	{ "{'model_type':'bailing_moe_v2','hidden_size':2048,"
	  "'num_experts':256,'num_experts_per_tok':8,"
	  "'moe_intermediate_size':512,'num_shared_experts':1,"
	  "'first_k_dense_replace':1,'intermediate_size':5120,"
	  "'num_hidden_layers':20,'num_attention_heads':16,"
	  "'num_key_value_heads':4,'head_dim':128,'vocab_size':157184,"
	  "'num_nextn_predict_layers':0}",
	  256, 8, 20, 19, 1, 3.0 * 2048 * 512, 20 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'granitemoehybrid','hidden_size':1536,"
	  "'num_local_experts':62,'num_experts_per_tok':6,"
	  "'intermediate_size':512,'shared_intermediate_size':1024,"
	  "'num_hidden_layers':4,'num_attention_heads':12,"
	  "'num_key_value_heads':4,'layer_types':['mamba','mamba',"
	  "'attention','mamba'],'mamba_n_heads':48,'mamba_d_head':64,"
	  "'mamba_d_state':128,'vocab_size':49160}",
	  62, 6, 4, 4, 1, 3.0 * 1536 * 512, 1 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'step3_text','hidden_size':7168,"
	  "'moe_num_experts':48,'moe_top_k':3,'moe_intermediate_size':5120,"
	  "'share_expert_dim':5120,'moe_layers_enum':'1,2, 4',"
	  "'intermediate_size':18432,'num_hidden_layers':5,"
	  "'num_attention_heads':64,'num_attention_groups':1,"
	  "'head_dim':256,'vocab_size':128815}",
	  48, 3, 5, 3, 1, 3.0 * 7168 * 5120, 5 * 2 * 1 * 256 * 2 },
	{ "{'model_type':'olmoe','hidden_size':2048,'num_experts':64,"
	  "'num_experts_per_tok':8,'intermediate_size':1024,"
	  "'num_hidden_layers':16,'num_attention_heads':16,"
	  "'num_key_value_heads':16,'vocab_size':50304}",
	  64, 8, 16, 16, 0, 3.0 * 2048 * 1024, 16 * 2 * 16 * 128 * 2 },
	{ "{'model_type':'arctic','hidden_size':7168,"
	  "'num_local_experts':128,'num_experts_per_tok':2,"
	  "'intermediate_size':4864,'moe_layer_frequency':2,"
	  "'num_hidden_layers':35,'num_attention_heads':56,"
	  "'num_key_value_heads':8,'vocab_size':32000}",
	  128, 2, 35, 17, 0, 3.0 * 7168 * 4864, 35 * 2 * 8 * 128 * 2 },
	{ "{'thinker_config':{'text_config':{'model_type':'qwen3_moe',"
	  "'hidden_size':2048,'num_experts':128,'num_experts_per_tok':8,"
	  "'moe_intermediate_size':768,'num_hidden_layers':48,"
	  "'num_attention_heads':32,'num_key_value_heads':4,"
	  "'head_dim':128}},'model_type':'qwen3_omni_moe'}",
	  128, 8, 48, 48, 0, 3.0 * 2048 * 768, 48 * 2 * 4 * 128 * 2 },
};

/* Configs of rarer forms. */
static const struct family forms[] = {
	{ "{'model_type':'aria','text_config':{'model_type':'aria_text',"
	  "'hidden_size':2560,'moe_num_experts':64,'moe_topk':6,"
	  "'moe_num_shared_experts':2,'intermediate_size':1664,"
	  "'num_hidden_layers':28,'num_attention_heads':20,"
	  "'num_key_value_heads':20,'vocab_size':100352},"
	  "'vision_config':{'hidden_size':1152,'num_hidden_layers':27}}",
	  64, 6, 28, 28, 2, 3.0 * 2560 * 1664, 28 * 2 * 20 * 128 * 2 },
	{ "{'model_type':'git','architectures':['Grok1ForCausalLM'],"
	  "'hidden_size':8192,'intermediate_size':32768,"
	  "'moe_intermediate_size':16384,'num_local_experts':8,"
	  "'num_experts_per_tok':2,'residual_moe':true,"
	  "'num_hidden_layers':64,'num_attention_heads':64,"
	  "'num_key_value_heads':8,'head_dim':128,'vocab_size':131072}",
	  8, 2, 64, 64, 0, 3.0 * 8192 * 16384, 64 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'jetmoe','hidden_size':2048,'num_hidden_layers':24,"
	  "'num_key_value_heads':16,'kv_channels':128,"
	  "'intermediate_size':5632,'num_local_experts':8,"
	  "'num_experts_per_tok':2,'vocab_size':32000}",
	  8, 2, 24, 24, 0, 3.0 * 2048 * 5632, 24 * 2 * 16 * 128 * 2 },
	{ "{'model_type':'xverse','hidden_size':2560,'num_experts':64,"
	  "'moe_top_k':6,'num_shared_experts':2,'intermediate_size':1728,"
	  "'num_hidden_layers':28,'num_attention_heads':32,"
	  "'vocab_size':100534}",
	  64, 6, 28, 28, 2, 3.0 * 2560 * 1728, 28 * 2 * 32 * 80 * 2 },
	{ "{'model_type':'smallthinker','hidden_size':2560,"
	  "'moe_num_primary_experts':64,'moe_num_active_primary_experts':6,"
	  "'moe_ffn_hidden_size':768,'moe_layer_layout':[1,1,1,1],"
	  "'sliding_window_layout':[0,1,1,1],'sliding_window_size':4096,"
	  "'num_hidden_layers':4,'num_attention_heads':28,"
	  "'num_key_value_heads':4,'head_dim':128,'vocab_size':151936}",
	  64, 6, 4, 4, 0, 3.0 * 2560 * 768, 1 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'afmoe','hidden_size':2048,'num_experts':128,"
	  "'num_experts_per_tok':8,'num_shared_experts':1,"
	  "'num_dense_layers':2,'moe_intermediate_size':1024,"
	  "'intermediate_size':6144,'num_hidden_layers':8,"
	  "'global_attn_every_n_layers':4,'sliding_window':2048,"
	  "'num_attention_heads':32,'num_key_value_heads':4,"
	  "'head_dim':128,'vocab_size':200192}",
	  128, 8, 8, 6, 1, 3.0 * 2048 * 1024, 2 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'exaone_moe','hidden_size':6144,'num_experts':128,"
	  "'num_experts_per_tok':8,'num_shared_experts':1,"
	  "'moe_intermediate_size':2048,'intermediate_size':18432,"
	  "'is_moe_layer':[false,true,true,true],'num_hidden_layers':4,"
	  "'sliding_window':128,'sliding_window_pattern':'LLLG',"
	  "'num_attention_heads':64,'num_key_value_heads':8,"
	  "'head_dim':128,'vocab_size':153600}",
	  128, 8, 4, 3, 1, 3.0 * 6144 * 2048, 1 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'pangu_ultra_moe','hidden_size':7680,"
	  "'num_routed_experts':256,'num_experts_per_tok':8,"
	  "'num_shared_experts':1,'num_dense_layers':3,"
	  "'moe_intermediate_size':2048,'intermediate_size':18432,"
	  "'attention_kv_lora_dim':512,'attention_q_lora_dim':1536,"
	  "'attention_qk_dim':128,'attention_qk_rope_dim':64,"
	  "'attention_v_dim':128,'num_hidden_layers':61,"
	  "'num_attention_heads':128,'vocab_size':153600}",
	  256, 8, 61, 58, 1, 3.0 * 7680 * 2048, 61 * 576 * 2 },
	/* Mistral's own params.json */
	{ "{'dim':4096,'n_layers':32,'head_dim':128,'hidden_dim':14336,"
	  "'n_heads':32,'n_kv_heads':8,'vocab_size':32000,"
	  "'moe':{'num_experts_per_tok':2,'num_experts':8}}",
	  8, 2, 32, 32, 0, 3.0 * 4096 * 14336, 32 * 2 * 8 * 128 * 2 },
	{ "{'dim':7168,'n_layers':61,'hidden_dim':16384,'n_heads':128,"
	  "'kv_lora_rank':512,'q_lora_rank':1536,'qk_rope_head_dim':64,"
	  "'qk_nope_head_dim':128,'v_head_dim':128,'vocab_size':131072,"
	  "'moe':{'num_experts':128,'num_experts_per_tok':4,"
	  "'expert_hidden_dim':4096,'num_shared_experts':1,"
	  "'first_k_dense_replace':3,'route_every_n':1}}",
	  128, 4, 61, 58, 1, 3.0 * 7168 * 4096, 61 * 576 * 2 },
	/* layers of one job each, listed as blocks */
	{ "{'model_type':'nemotron_h_puzzle','hidden_size':2688,"
	  "'block_configs':[{'block_type':'mamba'},"
	  "{'block_type':'moe','n_routed_experts':96},"
	  "{'block_type':'attention'},"
	  "{'block_type':'moe','n_routed_experts':128}],"
	  "'num_experts_per_tok':6,'moe_intermediate_size':1856,"
	  "'mlp_hidden_act':'relu2','num_attention_heads':32,"
	  "'num_key_value_heads':2,'head_dim':128,'mamba_num_heads':64,"
	  "'mamba_head_dim':64,'vocab_size':131072}",
	  128, 6, 4, 2, 0, 2.0 * 2688 * 1856, 1 * 2 * 2 * 128 * 2 },
	/* groups of layers, the last ones full whatever their number */
	{ "{'model_type':'bailing_moe_linear','hidden_size':2048,"
	  "'num_experts':256,'num_experts_per_tok':8,"
	  "'moe_intermediate_size':512,'num_shared_experts':1,"
	  "'first_k_dense_replace':1,'intermediate_size':5120,"
	  "'num_hidden_layers':11,'layer_group_size':5,"
	  "'num_attention_heads':16,'num_key_value_heads':4,"
	  "'head_dim':128,'vocab_size':157184}",
	  256, 8, 11, 10, 1, 3.0 * 2048 * 512, 3 * 2 * 4 * 128 * 2 },
	{ "{'model_type':'minimax_text_01','hidden_size':6144,"
	  "'num_local_experts':32,'num_experts_per_tok':2,"
	  "'intermediate_size':9216,'shared_intermediate_size':0,"
	  "'attn_type_list':[0,0,0,0,0,0,0,1],'num_hidden_layers':8,"
	  "'num_attention_heads':64,'num_key_value_heads':8,"
	  "'head_dim':128,'vocab_size':200064}",
	  32, 2, 8, 8, 0, 3.0 * 6144 * 9216, 1 * 2 * 8 * 128 * 2 },
	/* as many experts per token as there are */
	{ "{'model_type':'flex_olmo','hidden_size':4096,'num_experts':5,"
	  "'num_experts_per_tok':5,'intermediate_size':11008,"
	  "'num_hidden_layers':32,'num_attention_heads':32,"
	  "'vocab_size':100352}",
	  5, 5, 32, 32, 0, 3.0 * 4096 * 11008, 32 * 2 * 32 * 128 * 2 },
	/* text and vision experts in one list */
	{ "{'model_type':'ernie4_5_moe_vl','hidden_size':2560,"
	  "'moe_num_experts':[64,64],'moe_k':6,"
	  "'moe_intermediate_size':[1536,512],'moe_num_shared_experts':2,"
	  "'moe_layer_start_index':[1,1],'moe_layer_end_index':[27,26],"
	  "'moe_layer_interval':1,'intermediate_size':12288,"
	  "'num_hidden_layers':28,'num_attention_heads':20,"
	  "'num_key_value_heads':4,'head_dim':128,'vocab_size':103424}",
	  64, 6, 28, 27, 2, 3.0 * 2560 * 1536, 28 * 2 * 4 * 128 * 2 },
	/* top-k by layer, KV shared by pairs of layers */
	{ "{'model_type':'hunyuan','hidden_size':6400,'num_experts':16,"
	  "'moe_topk':[1,1,1,1],'num_shared_expert':[1,1,1,1],"
	  "'use_mixed_mlp_moe':true,'intermediate_size':18304,"
	  "'num_hidden_layers':4,'num_attention_heads':80,"
	  "'num_key_value_heads':8,'attention_head_dim':128,"
	  "'use_cla':true,'cla_share_factor':2,'vocab_size':129024}",
	  16, 1, 4, 4, 1, 3.0 * 6400 * 18304, 2 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'glm4v_moe','text_config':{"
	  "'model_type':'glm4v_moe_text','hidden_size':4096,"
	  "'n_routed_experts':128,'num_experts_per_tok':8,"
	  "'n_shared_experts':1,'moe_intermediate_size':1408,"
	  "'first_k_dense_replace':1,'intermediate_size':10944,"
	  "'num_hidden_layers':46,'num_attention_heads':96,"
	  "'num_key_value_heads':8,'head_dim':128,'vocab_size':151552}}",
	  128, 8, 46, 45, 1, 3.0 * 4096 * 1408, 46 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'dots1','hidden_size':4096,'n_routed_experts':128,"
	  "'num_experts_per_tok':6,'n_shared_experts':2,"
	  "'moe_intermediate_size':1408,'first_k_dense_replace':1,"
	  "'intermediate_size':10944,'num_hidden_layers':62,"
	  "'num_attention_heads':32,'num_key_value_heads':32,"
	  "'vocab_size':152064}",
	  128, 6, 62, 61, 2, 3.0 * 4096 * 1408, 62 * 2 * 32 * 128 * 2 },
	{ "{'model_type':'arctic','hidden_size':7168,"
	  "'num_local_experts':128,'num_experts_per_tok':2,"
	  "'intermediate_size':4864,'moe_layer_frequency':1,"
	  "'parallel_attn_mlp_res':true,'use_residual':true,"
	  "'num_hidden_layers':35,'num_attention_heads':56,"
	  "'num_key_value_heads':8,'vocab_size':32000}",
	  128, 2, 35, 35, 0, 3.0 * 7168 * 4864, 35 * 2 * 8 * 128 * 2 },
	/* what the family takes for granted */
	{ "{'model_type':'mixtral'}", 8, 2, 32, 32, 0, 3.0 * 4096 * 14336,
	  32 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'gpt_oss','num_hidden_layers':24,"
	  "'num_local_experts':32}",
	  32, 4, 24, 24, 0, 3.0 * 2880 * 2880, 12 * 2 * 8 * 64 * 2 },
	{ "{'model_type':'llama4','text_config':{'model_type':'llama4_text',"
	  "'num_local_experts':128,'interleave_moe_layer_step':2}}",
	  128, 1, 48, 24, 1, 3.0 * 5120 * 8192, 48 * 2 * 8 * 128 * 2 },
	{ "{'model_type':'deepseek_v3'}", 256, 8, 61, 58, 1, 3.0 * 7168 * 2048,
	  61 * 576 * 2 },
	/* 0 and null mean dense there, not the default */
	{ "{'model_type':'deepseek_v3','n_routed_experts':null}", 0, 0, 61, 0,
	  0, 0, 61 * 576 * 2 },
};

static bool as_published(const struct family *f)
{
	struct arch a = { .experts = 0 };
	int err = parse_quoted(f->json, &a);

	if (!err && a.experts == f->experts && a.top_k == f->top_k &&
	    a.layers == f->layers && a.moe_layers == f->moe_layers &&
	    a.shared_experts == f->shared &&
	    a.expert_params == f->expert_params &&
	    a.kv_bytes_per_token == f->kv_bytes &&
	    a.dense_bytes == 2 * a.dense_params && a.dense_params > 0)
		return true;
	print_error("%.40s: %d %s\n", f->json, err, why);
	print_error("E %u k %u layers %u/%u shared %u, %.0f weights, %.0f KV\n",
		    a.experts, a.top_k, a.moe_layers, a.layers,
		    a.shared_experts, a.expert_params, a.kv_bytes_per_token);
	return false;
}

static void test_families(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		assert_true(as_published(&families[i]));
}

static void test_rarer_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		assert_true(as_published(&forms[i]));
}

/* All weights, with input embeddings, are what was published. */
static void test_published_totals(void **state)
{
	static const struct {
		const char *type; /* whose config stands above */
		double embedding, total;
	} models[] = {
		{ "'dbrx'", 100352.0 * 6144, 132e9 },
		{ "'jamba'", 65536.0 * 4096, 52e9 },
		{ "'ernie4_5_moe'", 0, 21.8e9 },
		{ "'olmoe'", 50304.0 * 2048, 6.9e9 },
		{ "'longcat_flash'", 131072.0 * 6144, 560e9 },
		{ "'aria'", 100352.0 * 2560, 24.9e9 },
		{ "'git'", 131072.0 * 8192, 270e9 },
		{ "'pangu_ultra_moe'", 153600.0 * 7680, 718e9 },
		{ "'moe_layer_frequency':1", 32000.0 * 7168, 480e9 },
		{ "'dots1'", 152064.0 * 4096, 142e9 },
		{ "'num_experts':128,'num_experts_per_tok':4", 131072.0 * 7168,
		  675e9 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		const char *json = NULL;
		struct arch a;
		double n;

		for (size_t j = 0; j < sizeof(families) / sizeof(families[0]);
		     j++)
			if (strstr(families[j].json, models[i].type))
				json = families[j].json;
		for (size_t j = 0; j < sizeof(forms) / sizeof(forms[0]); j++)
			if (strstr(forms[j].json, models[i].type))
				json = forms[j].json;
		assert_non_null(json);
		assert_int_equal(parse_quoted(json, &a), 0);
		n = a.moe_layers * a.experts * a.expert_params +
		    a.dense_params + models[i].embedding;
		if (fabs(n / models[i].total - 1) < 0.04)
			continue;
		print_error("%s: %.4g weights, not %.4g\n", models[i].type, n,
			    models[i].total);
		fail();
	}
}

/* ---- the parts that every step reads ---------------------------------- */

/* Parameters per the reference arithmetic: attention, dense FFN, shared experts
 * and head; it leaves the router out. */
static void test_dense_parameters(void **state)
{
	static const struct {
		const char *file;
		double params;
	} models[] = {
		{ "mistralai--Mixtral-8x7B-v0.1_config.json", 1.47325e9 },
		{ "Qwen--Qwen3-30B-A3B_config.json", 1.21712e9 },
		{ "Qwen--Qwen3-235B-A22B_config.json", 7.32481e9 },
		{ "deepseek-ai--DeepSeek-V3_config.json", 1.60836e10 },
		{ "openai--gpt-oss-120b_config.json", 1.53465e9 },
		{ "openai--gpt-oss-20b_config.json", 1.21614e9 },
		{ "rtp--kimi_k2_fake_config.json", 1.03815e10 },
		{ "Qwen--Qwen3.5-397B-A17B_config.json", 8.62859e9 },
		{ "Qwen--Qwen3-Next-80B-A3B-Thinking_config.json", 1.99708e9 },
		{ "meta-llama--Llama-4-Scout-17B-16E-Instruct_config.json",
		  1.0094e10 },
		{ "meta-llama--Llama-4-Maverick-17B-128E-Instruct_config.json",
		  1.31139e10 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		char path[256];
		struct arch a;

		snprintf(path, sizeof(path), "tests/data/configs/%s",
			 models[i].file);
		assert_int_equal(model_config_read(path, &a, why, sizeof(why)),
				 0);
		if (fabs(a.dense_params / models[i].params - 1) > 0.03) {
			print_error("%s: %.4g, not %.4g\n", models[i].file,
				    a.dense_params, models[i].params);
			fail();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_rarer_forms),
		cmocka_unit_test(test_published_totals),
		cmocka_unit_test(test_dense_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
