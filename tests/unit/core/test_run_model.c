/* What moetop run --rows=exact finds out of the command it starts. */
#include "core/run_model.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/moetop-run-model-XXXXXX";
static char config[PATH_MAX];

static int set_up(void **state)
{
	FILE *f;

	(void)state;
	unsetenv("MOETOP_EXPERTS");
	unsetenv("MOETOP_TOP_K");
	setenv("HF_HUB_CACHE", "/nonexistent", 1);
	if (!mkdtemp(folder))
		return -1;
	snprintf(config, sizeof(config), "%s/config.json", folder);
	f = fopen(config, "w");
	if (!f)
		return -1;
	fputs("{\"model_type\": \"qwen3_moe\", \"num_experts\": 96, "
	      "\"num_experts_per_tok\": 6, \"num_hidden_layers\": 4, "
	      "\"hidden_size\": 256, \"moe_intermediate_size\": 128, "
	      "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
	      "\"head_dim\": 64, \"vocab_size\": 1000}",
	      f);
	return fclose(f);
}

static int tear_down(void **state)
{
	(void)state;
	unlink(config);
	return rmdir(folder);
}

static uint32_t experts, top_k;
static char why[256];

static int find(char *const argv[])
{
	experts = top_k = 0;
	why[0] = '\0';
	return run_model_find(argv, &experts, &top_k, why, sizeof(why));
}

#define FIND(...) find((char *const[]){ __VA_ARGS__, NULL })

static void engines_whose_kernels_do_not_tell(void **state)
{
	(void)state;
	assert_int_equal(FIND("trtllm-serve", folder), 0);
	assert_true(experts == 96 && top_k == 6);
	assert_int_equal(
		FIND("trtllm-serve", "serve", folder, "--tp_size", "4"), 0);
	assert_true(experts == 96 && top_k == 6);
	assert_int_equal(FIND("python3", "-m", "sglang.launch_server",
			      "--model-path", folder),
			 0);
	assert_true(experts == 96 && top_k == 6);
}

static void a_server_behind_other_words(void **state)
{
	(void)state;
	assert_int_equal(
		FIND("numactl", "--cpunodebind=0", "trtllm-serve", folder), 0);
	assert_true(experts == 96 && top_k == 6);
	assert_int_equal(
		FIND("env", "A=b", "mpirun", "-n", "2", "trtllm-serve", folder),
		0);
	assert_true(experts == 96 && top_k == 6);
}

static void what_is_not_needed_is_not_said(void **state)
{
	(void)state;
	assert_int_equal(FIND("vllm", "serve", folder), 1);
	assert_int_equal(FIND("vllm", "serve", "a/b"), 1);
	assert_true(!experts && !top_k && !why[0]);
}

static void what_is_not_known_is_said(void **state)
{
	(void)state;
	assert_int_equal(FIND("trtllm-serve", "no/such-model"), -ENOENT);
	assert_non_null(strstr(why, "no/such-model"));
	assert_int_equal(FIND("./start.sh"), -ENOENT);
	assert_non_null(strstr(why, "./start.sh starts no server"));
}

static void the_environment_is_the_users(void **state)
{
	char *const argv[] = { "trtllm-serve", folder, NULL };

	(void)state;
	setenv("MOETOP_TOP_K", "3", 1);
	assert_int_equal(run_model_tell(argv), 0);
	assert_string_equal(getenv("MOETOP_EXPERTS"), "96");
	assert_string_equal(getenv("MOETOP_TOP_K"), "3");
	unsetenv("MOETOP_TOP_K");
	assert_int_equal(run_model_tell(argv), 0);
	assert_string_equal(getenv("MOETOP_TOP_K"), "6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engines_whose_kernels_do_not_tell),
		cmocka_unit_test(a_server_behind_other_words),
		cmocka_unit_test(what_is_not_needed_is_not_said),
		cmocka_unit_test(what_is_not_known_is_said),
		cmocka_unit_test(the_environment_is_the_users),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
