#include "target/scrape.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES "tests/data/metrics/"

static int parse(const char *text, struct scrape *out)
{
	return scrape_parse(text, strlen(text), out);
}

static int parse_file(const char *name, struct scrape *out)
{
	static char text[1 << 16];
	char path[256];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), CASES "%s", name);
	f = fopen(path, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	return scrape_parse(text, n, out);
}

/* NAN wants NAN. */
static void same(double got, double want)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(got == want);
}

static void real_files(void **state)
{
	static const struct {
		const char *file;
		int err;
		const char *engine;
		double running, waiting, tokens;
	} cases[] = {
		{ "m02_sglang_docs.prom", 0, "sglang", NAN, NAN, 7557572 },
		{ "m04_llamacpp_minus_nan.prom", -ENODATA, "", 0, 0, 0 },
		{ "m06_sglang_nan.prom", -ENODATA, "", 0, 0, 0 },
		{ "m08_vllm_empty_200.http", -ENODATA, "", 0, 0, 0 },
		{ "m10_sglang_0_4_engine_type.prom", 0, "sglang", 0, NAN, NAN },
		{ "m12_dynamo_frontend.prom", -ENODATA, "", 0, 0, 0 },
		{ "m14_vllm_families_without_samples.prom", -ENODATA, "", 0, 0,
		  0 },
		{ "m16_sglang_priority_labels.prom", 0, "sglang", 14, NAN,
		  NAN },
		{ "m18_vllm_multi_engine_by_reason.prom", 0, "vllm", 3, 4,
		  NAN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scrape s = { .engine = "untouched" };
		int err = parse_file(cases[i].file, &s);

		print_message("# %s\n", cases[i].file);
		assert_int_equal(err, cases[i].err);
		if (err) {
			assert_string_equal(s.engine, "untouched");
			continue;
		}
		assert_string_equal(s.engine, cases[i].engine);
		same(s.running, cases[i].running);
		same(s.waiting, cases[i].waiting);
		same(s.generation_tokens_total, cases[i].tokens);
	}
}

static void ranks_that_repeat_a_number_count_once(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(parse("sglang:num_running_reqs{tp_rank=\"0\"} 4.0\n"
			       "sglang:num_running_reqs{tp_rank=\"1\"} 4.0\n",
			       &s),
			 0);
	same(s.running, 4);
}

static void data_parallel_ranks_are_added(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(
		parse("sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"0\"} 3\n"
		      "sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"1\"} 3\n"
		      "sglang:num_queue_reqs{dp_rank=\"1\",tp_rank=\"2\"} 5\n",
		      &s),
		0);
	same(s.waiting, 8);
}

static void priorities_are_added_without_a_total(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(parse("sglang:num_running_reqs{priority=\"1\"} 2\n"
			       "sglang:num_running_reqs{priority=\"2\"} 5\n",
			       &s),
			 0);
	same(s.running, 7);
}

static void counters_are_added_over_all_labels(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(
		parse("sglang:generation_tokens_total{tenant=\"a\"} 1e3\n"
		      "sglang:generation_tokens_total{tenant=\"b\"} 24\n",
		      &s),
		0);
	same(s.generation_tokens_total, 1024);
}

static void kv_cache_of_vllm(void **state)
{
	const char *const blocks =
		"vllm:num_requests_running{engine=\"0\"} 3\n"
		"vllm:num_requests_running{engine=\"1\"} 3\n"
		"vllm:cache_config_info{block_size=\"16\",engine=\"0\","
		"cache_dtype=\"auto\",num_gpu_blocks=\"1000\"} 1.0\n"
		"vllm:cache_config_info{block_size=\"16\",engine=\"1\","
		"cache_dtype=\"auto\",num_gpu_blocks=\"1000\"} 1.0\n"
		"vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n"
		"vllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n";
	struct scrape s;

	(void)state;
	assert_int_equal(parse(blocks, &s), 0);
	same(s.kv_capacity_tokens, 32000);
	same(s.kv_tokens, 16000);
	/* the older name; a share alone says nothing in tokens */
	assert_int_equal(parse("vllm:num_requests_running 1\n"
			       "vllm:gpu_cache_usage_perc 0.5\n"
			       "vllm:cache_config_info{block_size=\"None\","
			       "num_gpu_blocks=\"9\"} 1\n",
			       &s),
			 0);
	same(s.kv_tokens, NAN);
	same(s.kv_capacity_tokens, NAN);
}

static void kv_cache_of_sglang(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(parse("sglang:num_running_reqs{tp_rank=\"0\"} 8\n"
			       "sglang:num_used_tokens{tp_rank=\"0\"} 3000\n"
			       "sglang:num_used_tokens{tp_rank=\"1\"} 3000\n"
			       "sglang:token_usage{tp_rank=\"0\"} 0.25\n"
			       "sglang:token_usage{tp_rank=\"1\"} 0.25\n",
			       &s),
			 0);
	same(s.kv_tokens, 3000);
	same(s.kv_capacity_tokens, 12000);
	assert_int_equal(parse("sglang:num_running_reqs 8\n"
			       "sglang:num_used_tokens 3000\n"
			       "sglang:max_total_num_tokens 40000\n"
			       "sglang:decode_sum_seq_lens 2500\n",
			       &s),
			 0);
	same(s.kv_tokens, 2500); /* what steps read, not what is held */
	same(s.kv_capacity_tokens, 40000);
}

static void odd_but_legal_lines(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(
		parse("  vllm:num_requests_running { engine = \"0\" , "
		      "model_name=\"a } \\\" b\", }\t7\t1700000000000\r\n"
		      "vllm:num_requests_waiting 2 # {trace_id=\"x\"} 1",
		      &s),
		0);
	same(s.running, 7);
	same(s.waiting, 2);
}

static void nonsense_is_skipped(void **state)
{
	static const char *const lines[] = {
		"vllm:num_requests_running",
		"vllm:num_requests_running ",
		"vllm:num_requests_running{",
		"vllm:num_requests_running{engine",
		"vllm:num_requests_running{engine=",
		"vllm:num_requests_running{engine=\"0",
		"vllm:num_requests_running{engine=\"0\"",
		"vllm:num_requests_running{engine=\"0\\",
		"vllm:num_requests_running{engine=\"0\"} 1x",
		"vllm:num_requests_running{=\"0\"} 1",
		"vllm:num_requests_running{a=\"0\" b=\"1\"} 1",
		"vllm:num_requests_running NaN",
		"vllm:num_requests_running +Inf",
		"vllm:num_requests_running -3",
		"vllm:num_requests_running "
		"1111111111111111111111111111111111111111111111111111111111"
		"1111111111",
		"vllm:num_requests_running_created 1",
		"xvllm:num_requests_running 1",
		"vllm 1",
		"# vllm:num_requests_running 1",
	};
	struct scrape s = { .running = 42 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char *exact = strdup(lines[i]); /* so that ASAN sees the end */

		assert_non_null(exact);
		print_message("# %s\n", lines[i]);
		assert_int_equal(scrape_parse(exact, strlen(exact), &s),
				 -ENODATA);
		free(exact);
	}
	same(s.running, 42);
}

static void too_many_series_are_unknown_not_a_part(void **state)
{
	static char text[1 << 17];
	struct scrape s;
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 600; i++)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n,
			"vllm:num_requests_running{engine=\"%d\"} 1\n", i);
	n += (size_t)snprintf(text + n, sizeof(text) - n,
			      "vllm:num_requests_waiting 1\n");
	assert_int_equal(scrape_parse(text, n, &s), 0);
	same(s.running, NAN);
	same(s.waiting, 1);
}

static void limits(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(scrape_parse(NULL, 0, &s), -ENODATA);
	assert_int_equal(scrape_parse("", SCRAPE_BYTES_MAX + 1u, &s), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_files),
		cmocka_unit_test(ranks_that_repeat_a_number_count_once),
		cmocka_unit_test(data_parallel_ranks_are_added),
		cmocka_unit_test(priorities_are_added_without_a_total),
		cmocka_unit_test(counters_are_added_over_all_labels),
		cmocka_unit_test(kv_cache_of_vllm),
		cmocka_unit_test(kv_cache_of_sglang),
		cmocka_unit_test(odd_but_legal_lines),
		cmocka_unit_test(nonsense_is_skipped),
		cmocka_unit_test(too_many_series_are_unknown_not_a_part),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
