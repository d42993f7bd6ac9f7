/* How weights are stored: schemes, what is left out, files beside. */
#include "tests/unit/target/model_config_test.h"

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
	{ "{'quant_method':'w8a8_fp8'}", "fp8 per-channel", N + 2048 * 4,
	  COMPUTE_FP8 },
	{ "{'quant_method':'mxfp4'}", "mxfp4 g32", N * 0.53125, COMPUTE_BF16 },
	{ "{'quant_method':'mxfp8'}", "mxfp8 g32", N *(1 + 1 / 32.0),
	  COMPUTE_FP8 },
	{ "{'quant_method':'awq','bits':4,'group_size':128,"
	  "'zero_point':true}",
	  "int4 g128", N *(0.5 + 2.5 / 128), COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':4,'group_size':64,'sym':true}",
	  "int4 g64", N *(0.5 + 2 / 64.0), COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':8}", "int8", N *(1 + 2 / 128.0),
	  COMPUTE_BF16 },
	{ "{'quant_method':'w8a8_int8'}", "int8", N + 2048 * 4, COMPUTE_BF16 },
	{ "{'quant_method':'compressed-tensors','config_groups':{'g':{"
	  "'targets':['Linear'],'weights':{'num_bits':8,'type':'int',"
	  "'strategy':'channel'},'input_activations':{'num_bits':8,"
	  "'type':'int'}}}}",
	  "int8", N + 2048 * 4, COMPUTE_BF16 },
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
	{ "{'quant_method':'fp8','weight_block_size':[1,32],"
	  "'scale_fmt':'ue8m0'}",
	  "mxfp8 g32", N *(1 + 1 / 32.0), COMPUTE_FP8 },
	{ "{'quant_method':'gptq','bits':4,'group_size':-1,'sym':true}",
	  "int4 per-channel", N * 0.5 + 2048 * 2, COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':3,'group_size':128,'sym':true}",
	  "int3 g128", N *(0.375 + 2 / 128.0), COMPUTE_BF16 },
	{ "{'quant_method':'awq','w_bit':4,'group_size':64,"
	  "'zero_point':true}",
	  "int4 g64", N *(0.5 + 2.5 / 64), COMPUTE_BF16 },
	{ "{'quant_method':'auto-round','bits':4,'group_size':128,"
	  "'sym':true,'extra_config':{"
	  "'model.layers.0.self_attn.q_proj':{'bits':16}}}",
	  "int4 g128", N *(0.5 + 2 / 128.0), COMPUTE_BF16 },
	{ "{'quant_method':'auto-round','bits':4,'data_type':'mx_fp',"
	  "'group_size':32}",
	  "mxfp4 g32", N * 0.53125, COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':4,'group_size':128,'sym':true,"
	  "'dynamic':{'-:.*experts.*':{}}}",
	  "bf16", N * 2, COMPUTE_BF16 },
	{ "{'quant_method':'gptq','bits':4,'group_size':128,'sym':true,"
	  "'dynamic':{'+:.*mlp.experts.*':{'bits':8,'group_size':32}}}",
	  "int8", N *(1 + 2 / 32.0), COMPUTE_BF16 },
	{ "{'quant_method':'bitsandbytes','load_in_4bit':true,"
	  "'bnb_4bit_quant_type':'nf4'}",
	  "nf4 g64", N * 0.5625, COMPUTE_BF16 },
	{ "{'quant_method':'bitsandbytes','load_in_4bit':true,"
	  "'bnb_4bit_use_double_quant':true}",
	  "nf4 g64 double", N *(0.5 + 1 / 64.0 + 4 / 16384.0), COMPUTE_BF16 },
	{ "{'quant_method':'bitsandbytes','load_in_8bit':true}", "int8",
	  N + 2048 * 4, COMPUTE_BF16 },
	{ "{'quant_method':'quark','global_quant_config':{"
	  "'weight':{'dtype':'fp4','qscheme':'per_group',"
	  "'group_size':32},'input_tensors':{'dtype':'fp4'}}}",
	  "mxfp4 g32", N * 0.53125, COMPUTE_FP4 },
	{ "{'quant_method':'quark','global_quant_config':{"
	  "'weight':{'dtype':'fp8_e4m3','qscheme':'per_channel'},"
	  "'input_tensors':{'dtype':'fp8_e4m3'}}}",
	  "fp8 per-channel", N + 2048 * 4, COMPUTE_FP8 },
	{ "{'quant_method':'quark','global_quant_config':{"
	  "'weight':{'dtype':'fp8_e4m3','qscheme':'per_tensor'}},"
	  "'layer_quant_config':{'*mlp.experts*':{'weight':{"
	  "'dtype':'fp4','qscheme':'per_group','group_size':32}}}}",
	  "mxfp4 g32", N * 0.53125, COMPUTE_BF16 },
	{ "{'quant_method':'torchao','quant_type':{'default':{"
	  "'_type':'Int4WeightOnlyConfig','_data':{'group_size':128}}}}",
	  "int4 g128", N *(0.5 + 2 / 128.0), COMPUTE_BF16 },
	{ "{'quant_method':'torchao','quant_type':'float8wo'}",
	  "fp8 per-tensor", N, COMPUTE_BF16 },
	{ "{'quant_method':'hqq','quant_config':{'weight_quant_params':"
	  "{'nbits':4,'group_size':64}}}",
	  "int4 g64", N *(0.5 + 2 / 64.0), COMPUTE_BF16 },
	{ "{'quant_method':'w4afp8','weight_block_size':[128,128],"
	  "'group_size':128}",
	  "int4 g128", N *(0.5 + 2 / 128.0), COMPUTE_FP8 },
	{ "{'quant_method':'experts_int8'}", "int8", N + 2048 * 4,
	  COMPUTE_BF16 },
	{ "{'quant_method':'modelopt_fp4'}", "nvfp4 g16", N * 0.5625,
	  COMPUTE_FP4 },
	{ "{'quant_method':'modelopt','quant_algo':'FP8_PB_WO'}",
	  "fp8 block128", N *(1 + 4 / 16384.0), COMPUTE_FP8 },
	{ "{'quant_method':'modelopt','quant_algo':'W4A8_AWQ',"
	  "'group_size':128}",
	  "int4 g128", N *(0.5 + 2 / 128.0), COMPUTE_FP8 },
	/* a group for a class, one for modules: these count more */
	{ "{'quant_method':'compressed-tensors','config_groups':{"
	  "'group_0':{'targets':['re:.*mlp.experts.*_proj$'],"
	  "'weights':{'num_bits':4,'type':'float','strategy':"
	  "'tensor_group','group_size':16},'input_activations':{"
	  "'num_bits':4,'type':'float'}},"
	  "'group_1':{'targets':['Linear'],'weights':{'num_bits':8,"
	  "'type':'float','strategy':'tensor'}}}}",
	  "nvfp4 g16", N * 0.5625, COMPUTE_FP4 },
	{ "{'quant_method':'compressed-tensors','config_groups':{"
	  "'group_0':{'targets':['re:.*(gate_proj|up_proj|down_proj)$'],"
	  "'weights':{'num_bits':4,'type':'float','strategy':'group',"
	  "'group_size':32}}}}",
	  "mxfp4 g32", N * 0.53125, COMPUTE_BF16 },
	{ "{'quant_method':'compressed-tensors','config_groups':{},"
	  "'sparsity_config':{'format':'dense'}}",
	  "bf16", N * 2, COMPUTE_BF16 },
	{ "{'quant_method':'modelopt','quant_algo':'MIXED_PRECISION',"
	  "'quantized_layers':{"
	  "'model.layers.0.self_attn.q_proj':{'quant_algo':'FP8'},"
	  "'model.layers.0.mlp.experts.0.gate_proj':{"
	  "'quant_algo':'NVFP4','group_size':16},"
	  "'model.layers.0.mlp.experts.1.gate_proj':{"
	  "'quant_algo':'NVFP4','group_size':16},"
	  "'model.layers.1.mlp.experts.0.gate_proj':{"
	  "'quant_algo':'FP8'}}}",
	  "nvfp4 g16", N * 0.5625, COMPUTE_FP4 },
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

/* Experts that are left out one by one, in a list of megabytes. */
static void test_experts_left_out_one_by_one(void **state)
{
	size_t room = 4 << 20, n = 0;
	char *json = malloc(room);
	struct arch a;

	(void)state;
	assert_non_null(json);
	n += (size_t)snprintf(
		json + n, room - n,
		"{" GOOD ",\"model_type\":\"qwen3_moe\","
		"\"num_experts\":128,\"num_experts_per_tok\":8,"
		"\"moe_intermediate_size\":512,"
		"\"quantization_config\":{\"quant_method\":"
		"\"fp8\",\"modules_to_not_convert\":[\"lm_head\"");
	for (unsigned l = 0; l < 4; l++)
		for (unsigned e = 0; e < 128; e++)
			for (unsigned m = 0; m < 3; m++)
				n += (size_t)snprintf(
					json + n, room - n,
					",\"model.layers.%u.mlp.experts.%u."
					"%s_proj%*s\"",
					l, e,
					m == 0   ? "gate"
					: m == 1 ? "up"
						 : "down",
					e % 4 ? 0 : 2000, "");
	n += (size_t)snprintf(json + n, room - n, "]}}");
	assert_in_range(n, 700000, room - 2);
	assert_int_equal(
		model_config_parse(json, n, NULL, 0, &a, why, sizeof(why)), 0);
	assert_string_equal(a.quant, "bf16");
	assert_true(a.expert_bytes == 2 * a.expert_params);
	free(json);
}

/* DeepSeek V4's own format: four bits for the experts, eight for the rest. */
static void test_fp4_experts_of_the_native_format(void **state)
{
	struct arch a;

	(void)state;
	assert_int_equal(
		parse_quoted("{'dim':4096,'n_layers':4,'n_heads':64,"
			     "'moe_inter_dim':2048,'n_routed_experts':256,"
			     "'n_activated_experts':6,'n_shared_experts':1,"
			     "'vocab_size':129280,'q_lora_rank':1024,"
			     "'head_dim':512,'o_lora_rank':1024,"
			     "'o_groups':8,'dtype':'fp8',"
			     "'expert_dtype':'fp4'}",
			     &a),
		0);
	assert_string_equal(a.quant, "mxfp4 g32");
	assert_true(a.expert_bytes == 3 * 4096 * 2048 * 0.53125);
	assert_true(a.kv_bytes_per_token == 0); /* compressed: not known */
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static const char *quant_of(const char *dir, const char *name)
{
	static struct arch a;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(model_config_read(path, &a, why, sizeof(why)), 0);
	return a.quant;
}

/* What only the name of the checkpoint tells is told so. */
static void test_names_of_files(void **state)
{
	static const char config[] =
		"{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":2,"
		"\"torch_dtype\":\"bfloat16\"}";
	char dir[] = "/tmp/moetop-nvidia-FP8-XXXXXX", path[256];
	static const char *const files[] = { "a-NVFP4_config.json",
					     "b_config.json",
					     "b_hf_quant_config.json",
					     "config.json", "other.txt" };

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "a-NVFP4_config.json", config);
	write_file(dir, "b_config.json", config);
	write_file(dir, "b_hf_quant_config.json",
		   "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{"
		   "\"quant_algo\":\"W4A16_AWQ\",\"group_size\":64}}");
	write_file(dir, "config.json", config);
	write_file(dir, "other.txt", config);
	assert_string_equal(quant_of(dir, "a-NVFP4_config.json"),
			    "nvfp4 g16 by its name");
	assert_string_equal(quant_of(dir, "b_config.json"), "int4 g64");
	assert_string_equal(quant_of(dir, "config.json"),
			    "fp8 per-tensor by its name");
	assert_string_equal(quant_of(dir, ""), "fp8 per-tensor by its name");
	for (unsigned i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* config.json only says "mixed", the file beside has the list. */
static void test_mix_beside(void **state)
{
	static const char config[] =
		"{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":2,"
		"\"quantization_config\":{\"quant_method\":\"modelopt\","
		"\"quant_algo\":\"MIXED_PRECISION\"}}";
	static const char beside[] =
		"{\"quantization\":{\"quant_algo\":\"MIXED_PRECISION\","
		"\"quantized_layers\":{"
		"\"model.layers.0.mlp.experts.0.up_proj\":{"
		"\"quant_algo\":\"NVFP4\",\"group_size\":16},"
		"\"model.layers.0.self_attn.o_proj\":{"
		"\"quant_algo\":\"FP8\"}}}}";
	struct arch a;

	(void)state;
	assert_int_equal(parse(config, &a), 0);
	assert_string_equal(a.quant, "unknown");
	assert_true(a.expert_bytes == 0);
	assert_int_equal(model_config_parse(config, strlen(config), beside,
					    strlen(beside), &a, why,
					    sizeof(why)),
			 0);
	assert_string_equal(a.quant, "nvfp4 g16");
}

/* The cache that a checkpoint asks for; shapes stay at two bytes. */
static void test_cache_types(void **state)
{
	static const char beside[] = "{\"quantization\":{\"quant_algo\":null,"
				     "\"kv_cache_quant_algo\":\"FP8\"}}";
	static const char config[] =
		"{" GOOD ",\"num_experts\":8,\"num_experts_per_tok\":2}";
	struct arch a, b;

	(void)state;
	assert_int_equal(parse(config, &a), 0);
	assert_true(a.kv_element_bytes == 2);
	assert_int_equal(model_config_parse(config, strlen(config), beside,
					    strlen(beside), &b, why,
					    sizeof(why)),
			 0);
	assert_true(b.kv_element_bytes == 1);
	assert_string_equal(b.quant, "bf16");
	assert_true(a.kv_bytes_per_token == b.kv_bytes_per_token);
	assert_true(arch_kv_bytes(&b, 1000) == arch_kv_bytes(&a, 500));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_storage_schemes),
		cmocka_unit_test(test_parts_left_in_bf16),
		cmocka_unit_test(test_file_beside),
		cmocka_unit_test(test_experts_left_out_one_by_one),
		cmocka_unit_test(test_fp4_experts_of_the_native_format),
		cmocka_unit_test(test_names_of_files),
		cmocka_unit_test(test_mix_beside),
		cmocka_unit_test(test_cache_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
