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

static int parse(const char *text, struct scrape *out)
{
	return scrape_parse(text, strlen(text), out);
}

/* NAN wants NAN. */
static void same(double got, double want)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(got == want);
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
		"vllm:num_requests_running "
		"1111111111111111111111111111111111111111111111111111111111"
		"1111111111",
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

static void numbers_that_are_none_are_unknown(void **state)
{
	static const char *const lines[] = {
		"vllm:num_requests_running NaN",
		"vllm:num_requests_running -nan",
		"vllm:num_requests_running +Inf",
		"vllm:num_requests_running -3",
		"vllm:num_requests_running_created 1",
		"# TYPE vllm:num_requests_running gauge",
		"# HELP vllm:num_requests_running Number of requests.",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct scrape s = { .known = 9 };

		print_message("# %s\n", lines[i]);
		assert_int_equal(parse(lines[i], &s), 0);
		assert_string_equal(s.engine, "vllm");
		assert_int_equal(s.known, 0);
		same(s.running, NAN);
	}
}

static void models_of_one_page_are_added(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(
		parse("vllm:num_requests_running{engine=\"0\",model_name=\"a\"}"
		      " "
		      "2\n"
		      "vllm:num_requests_running{engine=\"0\",model_name=\"b\"}"
		      " "
		      "3\n"
		      "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\"} "
		      "0.5\n"
		      "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"b\"} "
		      "0.25\n",
		      &s),
		0);
	same(s.running, 5);
	same(s.values[ENGINE_KV_SHARE], 0.375);
	/* one model, said by some series only */
	assert_int_equal(parse("sglang:num_running_reqs{model_name=\"a\"} 4\n"
			       "sglang:num_running_reqs{tp_rank=\"0\"} 4\n",
			       &s),
			 0);
	same(s.running, 4);
}

static void renames_of_one_release_count_once(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(parse("vllm:gpu_cache_usage_perc{engine=\"0\"} 0.5\n"
			       "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n"
			       "vllm:num_requests_running 3\n",
			       &s),
			 0);
	same(s.values[ENGINE_KV_SHARE], 0.5);
}

static void ratios_come_from_counters(void **state)
{
	struct scrape s;

	(void)state;
	assert_int_equal(
		parse("vllm:spec_decode_num_drafts_total 100\n"
		      "vllm:spec_decode_num_draft_tokens_total 300\n"
		      "vllm:spec_decode_num_accepted_tokens_total 150\n"
		      "vllm:prefix_cache_queries_total{engine=\"0\"} 60\n"
		      "vllm:prefix_cache_queries_total{engine=\"1\"} 40\n"
		      "vllm:prefix_cache_hits_total{engine=\"0\"} 25\n"
		      "vllm:request_success_total{finished_reason=\"stop\"} 4\n"
		      "vllm:request_success_total{finished_reason=\"abort\"} "
		      "3\n",
		      &s),
		0);
	same(s.values[ENGINE_SPEC_LENGTH], 2.5);
	same(s.values[ENGINE_SPEC_RATE], 0.5);
	same(s.values[ENGINE_CACHE_HIT], 0.25);
	same(s.values[ENGINE_FINISHED], 7);
	same(s.values[ENGINE_ABORTED], 3);
}

static void too_many_series_are_unknown_not_a_part(void **state)
{
	static char text[1 << 17];
	struct scrape s;
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 1100; i++)
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
		cmocka_unit_test(ranks_that_repeat_a_number_count_once),
		cmocka_unit_test(data_parallel_ranks_are_added),
		cmocka_unit_test(priorities_are_added_without_a_total),
		cmocka_unit_test(counters_are_added_over_all_labels),
		cmocka_unit_test(kv_cache_of_vllm),
		cmocka_unit_test(kv_cache_of_sglang),
		cmocka_unit_test(odd_but_legal_lines),
		cmocka_unit_test(nonsense_is_skipped),
		cmocka_unit_test(numbers_that_are_none_are_unknown),
		cmocka_unit_test(models_of_one_page_are_added),
		cmocka_unit_test(renames_of_one_release_count_once),
		cmocka_unit_test(ratios_come_from_counters),
		cmocka_unit_test(too_many_series_are_unknown_not_a_part),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
