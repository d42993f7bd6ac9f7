#include "target/log_line.h"
#include "target/server_log.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct log_facts read_line(const char *line, bool says)
{
	struct log_facts f;

	log_facts_init(&f);
	assert_int_equal(log_line_read(line, strlen(line), &f), says);
	return f;
}

static void captured_sizes(void **state)
{
	struct log_facts f;

	(void)state;
	f = read_line("[2026-05-24 00:52:54] Capture cuda graph bs [1, 2, 4, "
		      "...]",
		      true);
	assert_true(f.graphs);
	assert_true(f.sizes_cut);
	assert_string_equal(f.sizes, "[1, 2, 4, ...");
	f = read_line("[x TP0] Capture cuda graph bs [1, 2, 4, 8]", true);
	assert_false(f.sizes_cut);
	assert_string_equal(f.sizes, "[1, 2, 4, 8");
	f = read_line("INFO with config: \"cudagraph_capture_sizes\":[1,2,16],",
		      true);
	assert_string_equal(f.sizes, "[1,2,16");
	f = read_line("[23:17:01 TP0] Capture cuda graph begin. This can take "
		      "up to several minutes.",
		      true);
	assert_true(f.graphs);
	assert_string_equal(f.sizes, "");
	read_line("Capture cuda graph bs", false);
}

static void requests(void **state)
{
	static const char comma[] =
		"[2026-09-01 00:56:38 TP0] Decode batch, #running-req: 11, "
		"#token: 214206, token usage: 0.10, cuda graph: True, gen "
		"throughput (token/s): 930.05, #queue-req: 0";
	static const char vllm[] =
		"(APIServer pid=1) INFO 08-10 23:01:05 [loggers.py:123] Engine "
		"000: Avg prompt throughput: 12.0 tokens/s, Avg generation "
		"throughput: 930.1 tokens/s, Running: 3 reqs, Waiting: 2 reqs, "
		"GPU KV cache usage: 0.1%";
	struct log_facts f = read_line(comma, true);

	(void)state;
	assert_string_equal(f.engine, "sglang");
	assert_true(f.running == 11);
	assert_true(f.waiting == 0);
	f = read_line("Decode batch. #running-req: 1,234, #queue-req: 5", true);
	assert_true(f.running == 1234);
	assert_true(f.waiting == 5);
	f = read_line(vllm, true);
	assert_string_equal(f.engine, "vllm");
	assert_true(f.running == 3);
	assert_true(f.waiting == 2);
}

static void tuned_kernels(void **state)
{
	static const char vllm[] =
		"(VllmWorkerProcess pid=500) WARNING 04-12 08:21:11 "
		"[fused_moe.py:659] Using default MoE config. Performance "
		"might be sub-optimal! Config file not found at /usr/local/lib/"
		"configs/"
		"E=256,N=14336,device_name=NVIDIA_GeForce_RTX_3090.json";
	struct log_facts f = read_line(vllm, true);

	(void)state;
	assert_int_equal(f.experts, 256);
	assert_string_equal(f.device, "NVIDIA_GeForce_RTX_3090");
	f = read_line("Using MoE kernel config from /c/E=8,N=7168,device_name="
		      "NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json",
		      true);
	assert_int_equal(f.experts, 8);
	assert_string_equal(f.device, "NVIDIA_H100_80GB_HBM3");
	f = read_line("[2026-05-15 20:31:38] Using default MoE kernel config. "
		      "Performance might be sub-optimal!",
		      false);
	assert_int_equal(f.experts, 0);
}

static void banners(void **state)
{
	struct log_facts f;
	static const char blocks[] =
		"(APIServer pid=1) INFO 08-10 23:01:05 [api_utils.py:339] "
		"\xe2\x96\x84\xe2\x96\x84 \xe2\x96\x88  version "
		"\033[1m0.25.1\033[0m";

	(void)state;
	f = read_line(blocks, true);
	assert_string_equal(f.engine, "vllm");
	assert_string_equal(f.version, "0.25.1");
	f = read_line("(APIServer pid=1) INFO 08-10 23:01:05 "
		      "[api_utils.py:339]  model   /data/data/GLM-5.2-FP8",
		      true);
	assert_string_equal(f.model, "/data/data/GLM-5.2-FP8");
	f = read_line("INFO 05-01 10:00:00 [api_server.py:1043] vLLM API "
		      "server version 0.8.5.post1",
		      true);
	assert_string_equal(f.version, "0.8.5.post1");
	f = read_line("INFO [core.py:58] Initializing a V1 LLM engine (v0.9.1) "
		      "with config: model='Qwen/Qwen3-30B-A3B', x",
		      true);
	assert_string_equal(f.version, "0.9.1");
	assert_string_equal(f.model, "Qwen/Qwen3-30B-A3B");
	f = read_line("[t] server_args=ServerArgs(model_path='a/b', tp_size=8",
		      true);
	assert_string_equal(f.engine, "sglang");
	assert_string_equal(f.model, "a/b");
	read_line("INFO my version 1.2 of a model b", false);
}

static void kernels_for_experts(void **state)
{
	struct log_facts f;

	(void)state;
	f = read_line("[2026-04-23 07:31:39 TP4] Using "
		      "CompressedTensorsWNA16MarlinMoEMethod",
		      true);
	assert_string_equal(f.moe_backend, "marlin WNA16");
	f = read_line("INFO [fp8.py:1] Using FLASHINFER_CUTLASS Fp8 MoE "
		      "backend out of potential backends: ['AITER', 'TRITON']",
		      true);
	assert_string_equal(f.moe_backend, "FLASHINFER_CUTLASS");
	f = read_line("INFO Using 'MARLIN' NvFp4 MoE backend out of potential",
		      true);
	assert_string_equal(f.moe_backend, "MARLIN");
	f = read_line("INFO Using FLASH_ATTN attention backend out of "
		      "potential backends: ['FLASH_ATTN']",
		      true);
	assert_string_equal(f.attention_backend, "FLASH_ATTN");
	f = read_line("Attention backend not set. Use fa3 backend by default.",
		      true);
	assert_string_equal(f.attention_backend, "fa3");
	read_line("Using a backend", false);
}

static void balance(void **state)
{
	struct log_facts f;

	(void)state;
	f = read_line("EPLB balancedness logged 0.517, right value 0.876",
		      true);
	assert_true(f.balancedness == 0.517);
	assert_false(f.balancedness_trusted);
	f = read_line("EPLB step: 7, avg_tokens=438, max_tokens=500, "
		      "balancedness=0.517",
		      true);
	assert_true(f.balancedness == 0.876);
	assert_true(f.balancedness_trusted);
	f = read_line("current_pass_balancedness=0.512 "
		      "last_10_average_balancedness=0.533",
		      true);
	assert_true(f.balancedness == 0.512);
	assert_true(f.balancedness_trusted);
}

static void sizes(void **state)
{
	struct log_facts f;

	(void)state;
	f = read_line("[23:17:01 TP7] Load weight end. type="
		      "DeepseekV2ForCausalLM, dtype=torch.bfloat16, avail "
		      "mem=22.01 GB",
		      true);
	assert_string_equal(f.architecture, "DeepseekV2ForCausalLM");
	f = read_line("GPU KV cache size: 1,234,560 tokens", true);
	assert_true(f.kv_tokens == 1234560);
	f = read_line("[EP Rank 0/8] Local/global number of experts: 16/128.",
		      true);
	assert_int_equal(f.experts, 128);
	f = read_line("INFO: Uvicorn running on http://0.0.0.0:30000 (Press)",
		      true);
	assert_int_equal(f.port, 30000);
	f = read_line("nothing", false);
	assert_true(isnan(f.running) && isnan(f.kv_tokens));
}

/* Standard output is a file here, as that of a server in a script. */
static void the_log_of_a_process(void **state)
{
	char path[] = "/tmp/moetop-log-XXXXXX";
	int fd = mkstemp(path), kept = dup(1);
	struct cmdline c = { .engine = "vllm" };
	struct log_facts f;
	static const char text[] =
		"(APIServer pid=1) INFO [api_server.py:1] vLLM API server "
		"version 0.20.0\nUsing 'TRITON' Fp8 MoE backend out of\n"
		"Capture cuda graph bs [1, 2, 4]\n";
	int err;

	(void)state;
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	/* more than is read of it */
	assert_int_equal(lseek(fd, 10 << 20, SEEK_SET), 10 << 20);
	assert_int_equal(write(fd, "\nGPU KV cache size: 77 tokens\n", 30), 30);
	fflush(stdout);
	dup2(fd, 1);
	err = server_log_read(getpid(), &f);
	dup2(kept, 1);
	close(kept);
	close(fd);
	unlink(path);
	assert_int_equal(err, 0);
	assert_string_equal(f.version, "0.20.0");
	assert_true(f.kv_tokens == 77);
	launch_set(&c.launch, LAUNCH_MOE_BACKEND, "auto");
	server_log_add(&f, &c);
	assert_string_equal(c.version, "0.20.0");
	assert_string_equal(launch_find(&c.launch, LAUNCH_MOE_BACKEND),
			    "TRITON (log)");
	assert_string_equal(launch_find(&c.launch, LAUNCH_CAPTURE),
			    "1..4 (3) (log)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_sizes),
		cmocka_unit_test(requests),
		cmocka_unit_test(tuned_kernels),
		cmocka_unit_test(banners),
		cmocka_unit_test(kernels_for_experts),
		cmocka_unit_test(balance),
		cmocka_unit_test(sizes),
		cmocka_unit_test(the_log_of_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
