/* Input that means harm, or nothing. */
#include "tests/unit/target/model_config_test.h"

/* ---- harm ------------------------------------------------------------- */

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

/* What was understood, and what was not. */
static void test_words_of_refusals(void **state)
{
	static const struct {
		const char *json, *why;
	} said[] = {
		{ "{" GOOD ",\"model_type\":\"new_moe\"}",
		  "model type \"new_moe\" is not a known family: 4 layers of "
		  "width 1024, but its experts were not found" },
		{ "{" GOOD ",\"model_type\":\"x\",\"sparse_experts\":16}",
		  "model type \"x\" is not a known family: 4 layers of width "
		  "1024, but not what it means by sparse_experts" },
		{ "{" GOOD ",\"model_type\":\"x\",\"num_experts\":8}",
		  "model type \"x\": 8 experts, but no top-k found" },
		{ "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{"
		  "\"quant_algo\":\"FP8\"}}",
		  "a quantisation file, not the config.json beside it" },
		{ "{\"num_hidden_layers\":4}",
		  "no hidden_size: not the config.json of a model" },
		{ "{" GOOD ",\"num_experts\":\"many\"}",
		  "num_experts makes no sense in this config.json" },
	};
	struct arch a;

	(void)state;
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		assert_true(parse(said[i].json, &a) < 0);
		assert_string_equal(why, said[i].why);
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
	assert_int_equal(model_config_read(dir, &a, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "no config.json in this folder");
	snprintf(path, sizeof(path), "%s/config.json", dir);
	assert_int_equal(model_config_read(path, &a, why, sizeof(why)),
			 -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(model_config_read(path, &a, why, sizeof(why)),
			 -EINVAL);
	unlink(path);
	rmdir(dir);
	assert_int_equal(model_config_parse("{}", (size_t)33 << 20, NULL, 0, &a,
					    why, sizeof(why)),
			 -EFBIG);
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
		cmocka_unit_test(test_senseless_input),
		cmocka_unit_test(test_words_of_refusals),
		cmocka_unit_test(test_harmless_oddities),
		cmocka_unit_test(test_deep_nesting_is_refused),
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_mutated_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
