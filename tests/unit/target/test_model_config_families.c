/* Families and storage schemes by small configs of their form, the parts that
 * every step reads, and input that means harm. */
#include "target/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char why[160];

static int parse(const char *json, struct arch *a)
{
	why[0] = '\0';
	return model_config_parse(json, strlen(json), NULL, 0, a, why,
				  sizeof(why));
}

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

/* Configs are written with ' here. */
static char *quoted(const char *json)
{
	char *s = strdup(json);

	for (char *p = s; *p; p++)
		if (*p == '\'')
			*p = '"';
	return s;
}

static void test_families(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct family *f = &families[i];
		char *json = quoted(f->json);
		struct arch a;
		int err = parse(json, &a);

		if (err || a.experts != f->experts || a.top_k != f->top_k ||
		    a.layers != f->layers || a.moe_layers != f->moe_layers ||
		    a.shared_experts != f->shared ||
		    a.expert_params != f->expert_params ||
		    a.kv_bytes_per_token != f->kv_bytes) {
			print_error("%.40s: %d %s\n", f->json, err, why);
			print_error("E %u k %u layers %u/%u shared %u, "
				    "%.0f weights, %.0f KV\n",
				    a.experts, a.top_k, a.moe_layers, a.layers,
				    a.shared_experts, a.expert_params,
				    a.kv_bytes_per_token);
			fail();
		}
		assert_true(a.dense_bytes == 2 * a.dense_params);
		free(json);
	}
}

/* ---- storage ---------------------------------------------------------- */

static const struct scheme {
	const char *json, *name;
	double bytes; /* of an expert of 3 x 1024 x 512 weights */
	enum compute_type compute;
} schemes[] = {
#define N (3 * 1024 * 512.0)
	{ "{}", "bf16", N * 2, COMPUTE_BF16 },
	{ "{'quant_method':'fp8','weight_block_size':[128,128]}",
	  "fp8 block128", N *(1 + 4 / 16384.0), COMPUTE_FP8 },
	{ "{'quant_method':'fp8'}", "fp8 per-tensor", N, COMPUTE_FP8 },
	{ "{'quant_method':'fbgemm_fp8'}", "fp8 per-channel", N + 2048 * 4,
	  COMPUTE_FP8 },
	{ "{'quant_method':'mxfp4'}", "mxfp4 g32", N * 0.53125, COMPUTE_BF16 },
	{ "{'quant_method':'mxfp8'}", "mxfp8 g32", N *(1 + 1 / 32.0),
	  COMPUTE_FP8 },
	{ "{'quant_method':'awq','bits':4,'group_size':128,"
	  "'zero_point':true}",
	  "int4 g128", N *(0.5 + 2.5 / 128), COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':4,'group_size':64,'sym':true}",
	  "int4 g64", N *(0.5 + 2 / 64.0), COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':8}", "int8", N, COMPUTE_BF16 },
	{ "{'quant_method':'modelopt','quant_algo':'NVFP4',"
	  "'group_size':16}",
	  "nvfp4 g16", N * 0.5625, COMPUTE_FP4 },
	{ "{'quant_method':'modelopt','quant_algo':'FP8'}", "fp8 per-tensor", N,
	  COMPUTE_FP8 },
	{ "{'quant_method':'modelopt','quant_algo':'W4A16_NVFP4'}", "nvfp4 g16",
	  N * 0.5625, COMPUTE_BF16 },
	{ "{'quant_method':'compressed-tensors','config_groups':{'g':{"
	  "'targets':['Linear'],'weights':{'num_bits':4,'type':'int',"
	  "'group_size':32,'symmetric':true}}}}",
	  "int4 g32", N * 0.5625, COMPUTE_BF16 },
	{ "{'quant_method':'compressed-tensors','config_groups':{'g':{"
	  "'targets':['Linear'],'weights':{'num_bits':8,'type':'float',"
	  "'strategy':'channel'},'input_activations':{'num_bits':8}}}}",
	  "fp8 per-channel", N + 2048 * 4, COMPUTE_FP8 },
	{ "{'quant_method':'fp8','weight_block_size':[128,128],"
	  "'modules_to_not_convert':['model.layers.0.mlp.experts',"
	  "'model.layers.1.mlp.experts']}",
	  "bf16", N * 2, COMPUTE_BF16 },
	{ "{'quant_method':'something_new'}", "unknown", 0, COMPUTE_BF16 },
#undef N
};

static void test_storage_schemes(void **state)
{
	static const char shape[] =
		"{'model_type':'qwen3_moe','hidden_size':1024,'num_experts':8,"
		"'num_experts_per_tok':2,'moe_intermediate_size':512,"
		"'num_hidden_layers':2,'num_attention_heads':8,"
		"'num_key_value_heads':8,'vocab_size':1000,"
		"'quantization_config':%s}";

	(void)state;
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const struct scheme *s = &schemes[i];
		char text[1024], *json;
		struct arch a;

		snprintf(text, sizeof(text), shape, s->json);
		json = quoted(text);
		assert_int_equal(parse(json, &a), 0);
		if (strcmp(a.quant, s->name) != 0 ||
		    fabs(a.expert_bytes - s->bytes) > 0.5 ||
		    a.compute != s->compute) {
			print_error("%s: %s, %.0f bytes, compute %d\n", s->json,
				    a.quant, a.expert_bytes, a.compute);
			fail();
		}
		free(json);
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

static void test_parts_left_in_bf16(void **state)
{
	struct arch a;

	(void)state;
	/* gpt-oss: all but the experts */
	assert_int_equal(
		model_config_read(
			"tests/data/configs/openai--gpt-oss-120b_config.json",
			&a, why, sizeof(why)),
		0);
	assert_true(a.dense_bytes == 2 * a.dense_params);
	/* Kimi-K2.5: the same, by patterns */
	assert_int_equal(
		model_config_read(
			"tests/data/configs/moonshotai--Kimi-K2.5_config.json",
			&a, why, sizeof(why)),
		0);
	assert_true(fabs(a.dense_bytes / a.dense_params - 2) < 1e-9);
	assert_true(a.expert_bytes == 24772608);
	/* DeepSeek-V3: only the head and the router are */
	assert_int_equal(
		model_config_read("tests/data/configs/"
				  "deepseek-ai--DeepSeek-V3_config.json",
				  &a, why, sizeof(why)),
		0);
	assert_true(a.dense_bytes / a.dense_params > 1.05 &&
		    a.dense_bytes / a.dense_params < 1.08);
	assert_int_equal(a.draft_moe_layers, 1);
	assert_int_equal(a.compute, COMPUTE_FP8);
}

/* ---- harm ------------------------------------------------------------- */

#define GOOD                                            \
	"\"hidden_size\":1024,\"num_hidden_layers\":4," \
	"\"num_attention_heads\":8,\"intermediate_size\":4096"

static void test_senseless_input(void **state)
{
	static const struct {
		const char *json;
		int err;
	} bad[] = {
		{ "", -EINVAL },
		{ "{", -EINVAL },
		{ "null", -EINVAL },
		{ "[1,2]", -EINVAL },
		{ "{}", -EINVAL },
		{ "{\"hidden_size\":1024}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":-5}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":\"many\"}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":1e300}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":20000,"
		  "\"num_experts_per_tok\":2}",
		  -EINVAL },
		{ "{" GOOD ",\"num_experts\":8.5}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":{\"a\":1}}", -EINVAL },
		{ "{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":9}",
		  -EINVAL },
		{ "{" GOOD ",\"num_experts\":8}", -ENOTSUP },
		{ "{" GOOD ",\"model_type\":\"new_moe\"}", -ENOTSUP },
		{ "{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":2,"
		  "\"moe_layer_freq\":[0,0,0,0]}",
		  -ENOTSUP },
		{ "{\"hidden_size\":1024,\"num_hidden_layers\":100000}",
		  -EINVAL },
		{ "{\"hidden_size\":1024,\"num_hidden_layers\":0}", -EINVAL },
		{ "{" GOOD ",\"vocab_size\":-1}", -EINVAL },
		{ "{\033[2J\n\"", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct arch a = { .experts = 4711 };
		int err = parse(bad[i].json, &a);

		if (err != bad[i].err || !why[0] || strpbrk(why, "\n\033") ||
		    a.experts != 4711) {
			print_error("%s: %d \"%s\"\n", bad[i].json, err, why);
			fail();
		}
	}
}

static void test_harmless_oddities(void **state)
{
	struct arch a;

	(void)state;
	/* what Python writes, and text that is not what it seems */
	assert_int_equal(parse("{" GOOD ",\"limit\":[0.0, Infinity, "
			       "-Infinity, NaN],\"s\":\"Infinity \\\" NaN\","
			       "\"text_config\":7,\"sliding_window\":-1,"
			       "\"num_experts\":null}",
			       &a),
			 0);
	assert_int_equal(a.experts, 0);
	assert_int_equal(a.layers, 4);
	assert_true(a.expert_bytes == 0);
	assert_int_equal(parse("{" GOOD ",\"num_local_experts\":0,"
			       "\"model_type\":\"granitemoehybrid\"}",
			       &a),
			 0);
	assert_int_equal(a.experts, 0);
	/* escape sequences must not reach a terminal */
	assert_int_equal(
		parse("{" GOOD ",\"model_type\":\"a\\u001b[2Jb\"}", &a), 0);
	assert_string_equal(a.model_type, "a[2Jb");
}

static void test_deep_nesting_is_refused(void **state)
{
	size_t n = 100000;
	char *json = malloc(n + 1);
	struct arch a;

	(void)state;
	memset(json, '[', n);
	json[n] = '\0';
	assert_int_equal(parse(json, &a), -EINVAL);
	free(json);
}

static void test_files_that_are_none(void **state)
{
	char dir[] = "/tmp/moetop-test-XXXXXX", path[64];
	struct arch a;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(model_config_read(dir, &a, why, sizeof(why)), -EINVAL);
	snprintf(path, sizeof(path), "%s/config.json", dir);
	assert_int_equal(model_config_read(path, &a, why, sizeof(why)),
			 -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(model_config_read(path, &a, why, sizeof(why)),
			 -EINVAL);
	unlink(path);
	rmdir(dir);
	assert_int_equal(model_config_parse("{}", (size_t)9 << 20, NULL, 0, &a,
					    why, sizeof(why)),
			 -EFBIG);
}

/* A quantisation file beside config.json counts, a broken one does not. */
static void test_file_beside(void **state)
{
	static const char config[] =
		"{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":2}";
	static const char beside[] =
		"{\"quantization\":{\"quant_algo\":\"NVFP4\"}}";
	struct arch a;

	(void)state;
	assert_int_equal(model_config_parse(config, strlen(config), beside,
					    strlen(beside), &a, why,
					    sizeof(why)),
			 0);
	assert_string_equal(a.quant, "nvfp4 g16");
	assert_int_equal(model_config_parse(config, strlen(config), beside, 20,
					    &a, why, sizeof(why)),
			 0);
	assert_string_equal(a.quant, "bf16");
}

/* Bytes of real files changed at random: any answer, but one. */
static void test_mutated_files(void **state)
{
	static const char *const files[] = {
		"deepseek-ai--DeepSeek-V3_config.json",
		"moonshotai--Kimi-K2.5_config.json",
		"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8_config.json",
		"openai--gpt-oss-20b_config.json",
	};
	static char text[8192], changed[8192];
	uint32_t seed = 1;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		char path[256];
		size_t n;
		FILE *f;

		snprintf(path, sizeof(path), "tests/data/configs/%s", files[i]);
		f = fopen(path, "re");
		assert_non_null(f);
		n = fread(text, 1, sizeof(text), f);
		fclose(f);
		for (unsigned round = 0; round < 300; round++) {
			struct arch a = { .experts = 0 };
			int err;

			memcpy(changed, text, n);
			for (unsigned k = 0; k < 1 + round % 4; k++) {
				seed = seed * 1664525 + 1013904223;
				changed[(seed >> 8) % n] =
					"0159-\"{[,e"[(seed >> 3) % 10];
			}
			err = model_config_parse(changed, n, NULL, 0, &a, why,
						 sizeof(why));
			assert_true(err == 0 || err == -EINVAL ||
				    err == -ENOTSUP);
			if (err == 0) {
				assert_true(isfinite(a.dense_bytes) &&
					    a.dense_bytes >= 0);
				assert_true(isfinite(a.expert_bytes) &&
					    a.expert_bytes >= 0);
				assert_true(a.top_k <= a.experts);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_storage_schemes),
		cmocka_unit_test(test_dense_parameters),
		cmocka_unit_test(test_parts_left_in_bf16),
		cmocka_unit_test(test_senseless_input),
		cmocka_unit_test(test_harmless_oddities),
		cmocka_unit_test(test_deep_nesting_is_refused),
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_file_beside),
		cmocka_unit_test(test_mutated_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
