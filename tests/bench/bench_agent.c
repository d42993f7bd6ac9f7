/*
 * bench_agent.c - what our code costs per launch callback and kernel record
 *
 *	make bench
 *
 * Without arguments: nanoseconds, the best of several runs.  With "callback",
 * "anchor", "record" or "reduce" and a count: only that work, so many times,
 * for valgrind --tool=callgrind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/callbacks.h"
#include "agent/state.h"

#define LAYERS 48
#define STEPS 60
#define RUNS 7

static const char *const layer_names[] = {
	"_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_lS3_",
	"nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
	"_ZN4vllm23rotary_embedding_kernelIN3c108BFloat16ELb1EEEvPKlPT_S5_",
	"_ZN4vllm30reshape_and_cache_flash_kernelI13__nv_bfloat16S1_LNS_18",
	"_ZN5flash24flash_fwd_splitkv_kernelI23Flash_fwd_kernel_traitsILi128E",
	"nvjet_tst_64x8_64x16_2x1_v_bz_TNN",
	"_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_lS3_",
	"nvjet_tst_32x64_64x16_2x1_v_bz_splitK_TNT",
	"_ZN4vllm3moe10topkGatingILi4ELi128ELi4ELi16ELi32Ei13__nv_bfloat16LN",
	"_ZN4vllm3moe27moe_align_block_size_kernelIiEEvPKT_PiS5_S5_S5_iiiimS5",
	"_ZN4vllm3moe35count_and_sort_expert_tokens_kernelIiEEvPKT_PiS5_S5_mi",
	"fused_moe_kernel",
	"_ZN4vllm18act_and_mul_kernelIN3c108BFloat16EXadL_ZNS_11silu_kernelI",
	"fused_moe_kernel",
	"_ZN4vllm3moe14moe_sum_kernelIN3c108BFloat16ELi8EEEvPT_PKS4_i",
};
#define LAYER_KERNELS (sizeof(layer_names) / sizeof(layer_names[0]))
#define RECORDS ((size_t)STEPS * LAYERS * LAYER_KERNELS)
#define RECORD_STRIDE 216 /* a kernel record of CUDA 13.0 */

static uint8_t *records;

static int next_record(uint8_t *b, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + RECORD_STRIDE : b;

	if (at >= b + valid)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = at;
	return CUPTI_OK;
}

static int param_info(void *f, size_t i, size_t *offset, size_t *bytes)
{
	static const char sizes[] = "8884884441888";

	(void)f;
	if (i >= sizeof(sizes) - 1)
		return 1;
	*offset = 8 * i;
	*bytes = (size_t)(sizes[i] - '0');
	return 0;
}

static void make_records(void)
{
	uint64_t now = 1000000000;
	size_t n = 0;

	records = calloc(RECORDS, RECORD_STRIDE);
	if (!records)
		exit(1);
	for (uint32_t s = 0; s < STEPS; s++) {
		for (uint32_t i = 0; i < LAYERS * LAYER_KERNELS; i++) {
			struct cupti_kernel k = {
				.kind = CUPTI_KIND_CONCURRENT_KERNEL,
				.start = now,
				.end = now + 5000,
				.grid = { 1, 1, 1 },
				.block = { 128, 1, 1 },
				.name = layer_names[i % LAYER_KERNELS],
				.correlation = s + 1,
				.graph_node = 7ull << 32 | i,
				.graph = 7,
			};

			memcpy(records + n++ * RECORD_STRIDE, &k, sizeof(k));
			now += 6000;
		}
	}
}

static void set_up(void)
{
	const struct cuda_api cuda = { .func_param_info = param_info };

	agent.functions = calloc(1, sizeof(*agent.functions));
	agent.log = calloc(1, sizeof(*agent.log));
	agent.map = graph_map_new(1024, 64);
	agent.names = kernel_names_new();
	agent.reduce = reduce_new(1 << 19, agent.names);
	agent.decode = calloc(1, sizeof(*agent.decode));
	if (!agent.functions || !agent.log || !agent.map || !agent.names ||
	    !agent.reduce || !agent.decode)
		exit(1);
	agent.cupti.next_record = next_record;
	agent.decode->cupti = &agent.cupti;
	agent.decode->names = agent.names;
	agent.decode->reduce = agent.reduce;
	agent.live = true;
	functions_get(agent.functions, (void *)layer_names[8], false,
		      layer_names[8]);
	functions_validate(agent.functions, &cuda);
	make_records();
}

static void launches(const char *name, uint64_t n)
{
	static uint64_t value;
	void *params[13];
	struct cu_launch_kernel_params p = { .f = (void *)name,
					     .grid = { 1, 1, 1 },
					     .params = params };
	struct cupti_callback_data d = { .function_params = &p,
					 .symbol_name = name };

	for (int i = 0; i < 13; i++)
		params[i] = &value;
	for (uint64_t i = 0; i < n; i++) {
		d.correlation = (uint32_t)i + 1;
		d.site = CUPTI_ENTER;
		callback_entry(NULL, CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL,
			       &d);
		d.site = CUPTI_EXIT;
		callback_entry(NULL, CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL,
			       &d);
	}
}

static void callback(uint64_t n)
{
	launches(layer_names[0], n);
}

static void anchor(uint64_t n)
{
	launches(layer_names[8], n);
}

static void record(uint64_t n)
{
	for (uint64_t i = 0; i < n; i += RECORDS) {
		reduce_begin(agent.reduce);
		decode_buffer(agent.decode, records, RECORDS * RECORD_STRIDE);
	}
}

static void reduce(uint64_t n)
{
	const struct reduce_params p = { 0 };

	for (uint64_t i = 0; i < n; i += RECORDS) {
		record(RECORDS);
		reduce_end(agent.reduce, &p);
	}
}

static const struct {
	const char *name, *text;
	void (*run)(uint64_t n);
	uint64_t count;
	double per; /* callbacks in one turn */
} benches[] = {
	{ "callback", "launch callback, plain kernel", callback, 1000000, 2 },
	{ "anchor", "launch callback, routing kernel", anchor, 1000000, 2 },
	{ "record", "kernel record, decoding", record, 10 * RECORDS, 1 },
	{ "reduce", "kernel record, decoding and reduction", reduce,
	  10 * RECORDS, 1 },
};

int main(int argc, char **argv)
{
	set_up();
	for (size_t b = 0; b < sizeof(benches) / sizeof(benches[0]); b++) {
		uint64_t best = UINT64_MAX;

		if (argc > 2) {
			if (!strcmp(argv[1], benches[b].name))
				benches[b].run(strtoull(argv[2], NULL, 10));
			continue;
		}
		for (int i = 0; i < RUNS; i++) {
			uint64_t start = agent_now_ns(), ns;

			benches[b].run(benches[b].count);
			ns = agent_now_ns() - start;
			best = ns < best ? ns : best;
		}
		printf("%-40s %6.1f ns\n", benches[b].text,
		       (double)best / (double)benches[b].count /
			       benches[b].per);
	}
	return 0;
}
