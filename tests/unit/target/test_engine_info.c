/* What servers tell of themselves, as JSON. */
#include "target/engine_info.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int add(struct engine_info *i, const char *path, const char *body)
{
	const struct engine_info_page *p = engine_info_pages;
	char *exact = malloc(strlen(body) + 1); /* so that ASAN sees the end */
	int err;

	while (p->path && strcmp(p->path, path) != 0)
		p++;
	assert_non_null(p->path);
	assert_non_null(exact);
	memcpy(exact, body, strlen(body));
	err = engine_info_add(i, p, exact, strlen(body));
	free(exact);
	return err;
}

static const char *option(const struct engine_info *i, enum launch_id id)
{
	const char *v = launch_find(&i->launch, id);

	return v ? v : "";
}

static void vllm_by_version_and_models(void **state)
{
	struct engine_info i = { 0 };

	(void)state;
	assert_int_equal(add(&i, "/version", "{\"version\":\"0.32.0\"}"), 0);
	assert_int_equal(
		add(&i, "/v1/models",
		    "{\"object\":\"list\",\"data\":[{\"id\":\"tiny-moe\","
		    "\"object\":\"model\",\"owned_by\":\"vllm\","
		    "\"root\":\"/models/tiny\",\"parent\":null,"
		    "\"max_model_len\":1024},{\"id\":\"lora\"}]}"),
		0);
	assert_string_equal(i.engine, "vllm");
	assert_string_equal(i.version, "0.32.0");
	assert_string_equal(i.model, "tiny-moe");
	assert_string_equal(i.model_path, "/models/tiny");
	assert_int_equal(i.context_tokens, 1024);
	assert_int_equal(i.launch.n, 0);
}

static const char arguments[] =
	"{\"model_path\":\"org/model\",\"served_model_name\":\"m\","
	"\"api_key\":\"secret\",\"admin_api_key\":\"secret\","
	"\"tp_size\":8,\"ep_size\":8,\"dp_size\":2,\"pp_size\":1,"
	"\"enable_dp_attention\":true,\"quantization\":\"fp8\","
	"\"kv_cache_dtype\":\"fp8_e4m3\",\"moe_runner_backend\":\"auto\","
	"\"moe_a2a_backend\":\"deepep\",\"disable_cuda_graph\":false,"
	"\"cuda_graph_bs\":[1,2,4,8,12,16],\"speculative_algorithm\":null,"
	"\"speculative_num_draft_tokens\":null,\"enable_eplb\":true,"
	"\"ep_num_redundant_experts\":32,\"stream_interval\":4,"
	"\"mem_fraction_static\":0.85,\"max_running_requests\":256,"
	"\"disaggregation_mode\":\"null\",\"version\":\"0.5.9\","
	"\"internal_states\":[{\"x\":1}]}";

static void sglang_by_its_arguments(void **state)
{
	struct engine_info i = { 0 };

	(void)state;
	assert_int_equal(add(&i, "/server_info", arguments), 0);
	assert_string_equal(i.engine, "sglang");
	assert_string_equal(i.version, "0.5.9");
	assert_string_equal(i.model, "m");
	assert_string_equal(i.model_path, "org/model");
	assert_int_equal(i.tp, 8);
	assert_int_equal(i.ep, 8);
	assert_int_equal(i.dp, 2);
	assert_string_equal(option(&i, LAUNCH_TP), "8");
	assert_string_equal(option(&i, LAUNCH_QUANT), "fp8");
	assert_string_equal(option(&i, LAUNCH_KV_TYPE), "fp8_e4m3");
	assert_string_equal(option(&i, LAUNCH_A2A_BACKEND), "deepep");
	assert_string_equal(option(&i, LAUNCH_DP_ATTENTION), "on");
	assert_string_equal(option(&i, LAUNCH_EPLB), "on");
	assert_string_equal(option(&i, LAUNCH_REDUNDANT), "32");
	assert_string_equal(option(&i, LAUNCH_STREAM_INTERVAL), "4");
	assert_string_equal(option(&i, LAUNCH_CAPTURE), "1..16 (6)");
	assert_string_equal(option(&i, LAUNCH_MEMORY), "0.85");
}

static void defaults_and_secrets_are_left_out(void **state)
{
	struct engine_info i = { 0 };

	(void)state;
	assert_int_equal(add(&i, "/server_info", arguments), 0);
	assert_string_equal(option(&i, LAUNCH_MOE_BACKEND), "");
	assert_string_equal(option(&i, LAUNCH_EAGER), "");
	assert_string_equal(option(&i, LAUNCH_SPECULATIVE), "");
	assert_string_equal(option(&i, LAUNCH_DISAGGREGATION), "");
	for (unsigned n = 0; n < i.launch.n; n++)
		assert_null(strstr(i.launch.list[n].value, "secret"));
}

static void vllm_in_development_mode(void **state)
{
	struct engine_info i = { 0 };

	(void)state;
	assert_int_equal(
		add(&i, "/server_info?config_format=json",
		    "{\"vllm_config\":{\"parallel_config\":{"
		    "\"tensor_parallel_size\":4,\"data_parallel_size\":1},"
		    "\"model_config\":{\"enforce_eager\":true},"
		    "\"compilation_config\":{\"cudagraph_capture_sizes\":[]}}"
		    "}"),
		0);
	assert_int_equal(i.tp, 4);
	assert_string_equal(option(&i, LAUNCH_EAGER), "on");
	assert_string_equal(option(&i, LAUNCH_CAPTURE), "");
}

static void what_is_no_object_changes_nothing(void **state)
{
	static const char *const bodies[] = {
		"",    "not json", "[1]",   "\"text\"",          "{\"a\":",
		"nul", "{}x",      "1e999", "{\"a\":1,\"a\":2}",
	};
	struct engine_info i = { .version = "1.2.3" };

	(void)state;
	for (size_t n = 0; n < sizeof(bodies) / sizeof(bodies[0]); n++)
		assert_int_equal(add(&i, "/version", bodies[n]), -EPROTO);
	assert_string_equal(i.version, "1.2.3");
	/* legal, and not what it should be */
	assert_int_equal(add(&i, "/v1/models", "{\"data\":7}"), 0);
	assert_int_equal(add(&i, "/v1/models",
			     "{\"data\":[{\"id\":7,\"max_model_len\":-1}]}"),
			 0);
	assert_int_equal(add(&i, "/version", "{\"version\":[]}"), 0);
	assert_string_equal(i.version, "1.2.3");
	assert_string_equal(i.model, "");
	assert_int_equal(i.context_tokens, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vllm_by_version_and_models),
		cmocka_unit_test(sglang_by_its_arguments),
		cmocka_unit_test(defaults_and_secrets_are_left_out),
		cmocka_unit_test(vllm_in_development_mode),
		cmocka_unit_test(what_is_no_object_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
