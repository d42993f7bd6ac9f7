/*
 * bench_agent.c - what our code costs per launch callback and kernel record
 *
 *	make bench
 *
 * Without arguments: nanoseconds, the best of several runs, and where valgrind
 * is there instructions, which a noisy machine cannot change: this program runs
 * itself twice under callgrind and takes the difference.  With the name of a
 * line and a count: only that work, so many times.
 *
 * Records are stepped through by the simulated libcupti of the same build, and
 * have the layout that it plays (MOETOP_SIM_CUPTI).
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/callbacks.h"
#include "agent/state.h"
#include "cupti/release.h"

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
#define BUFFER_RECORDS 4096u /* about 1 MB, as the agent has them */

static uint8_t *records;
static size_t stride;

/* cuptiGetVersion and cuptiActivityGetNextRecord of the simulation. */
static void find_cupti(uint32_t *version)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	void *lib = NULL;

	if (n > 0) {
		path[n] = '\0';
		for (int up = 0; up < 3; up++)
			*strrchr(path, '/') =
				'\0'; /* tests/bench/bench_agent */
		strcat(path, "/sim/lib/libcupti.so.13");
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (lib) {
		*(void **)&agent.cupti.version = dlsym(lib, "cuptiGetVersion");
		*(void **)&agent.cupti.next_record =
			dlsym(lib, "cuptiActivityGetNextRecord");
	}
	if (!agent.cupti.next_record || !agent.cupti.version ||
	    agent.cupti.version(version)) {
		fprintf(stderr, "moetop: bench: no simulated CUPTI: %s\n",
			lib ? path : dlerror());
		exit(1);
	}
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

	records = calloc(RECORDS, stride);
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

			memcpy(records + n++ * stride, &k, sizeof(k));
			now += 6000;
		}
	}
}

static void set_up(void)
{
	const struct cuda_api cuda = { .func_param_info = param_info };
	uint32_t version;

	find_cupti(&version);
	stride = cupti_kernel_bytes(version);
	agent.functions = calloc(1, sizeof(*agent.functions));
	agent.log = calloc(1, sizeof(*agent.log));
	agent.map = graph_map_new(1024, 64);
	agent.names = kernel_names_new();
	agent.reduce = reduce_new(1 << 19, agent.names);
	agent.decode = calloc(1, sizeof(*agent.decode));
	if (!agent.functions || !agent.log || !agent.map || !agent.names ||
	    !agent.reduce || !agent.decode)
		exit(1);
	agent.decode->cupti = &agent.cupti;
	agent.decode->names = agent.names;
	agent.decode->reduce = agent.reduce;
	decode_meet(agent.decode, version);
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

static void graph(uint64_t n)
{
	struct cu_graph_launch_params p = { .exec = &records };
	struct cupti_callback_data d = { .function_params = &p };

	for (uint64_t i = 0; i < n; i++) {
		d.correlation = (uint32_t)i + 1;
		d.site = CUPTI_ENTER;
		callback_entry(NULL, CUPTI_DOMAIN_DRIVER, CBID_GRAPH_LAUNCH,
			       &d);
		d.site = CUPTI_EXIT;
		callback_entry(NULL, CUPTI_DOMAIN_DRIVER, CBID_GRAPH_LAUNCH,
			       &d);
	}
}

static void record(uint64_t n)
{
	for (uint64_t i = 0; i < n; i += RECORDS) {
		reduce_begin(agent.reduce);
		for (size_t at = 0; at < RECORDS; at += BUFFER_RECORDS) {
			size_t most = RECORDS - at;

			decode_buffer(agent.decode, records + at * stride,
				      (most < BUFFER_RECORDS ? most
							     : BUFFER_RECORDS) *
					      stride);
		}
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
	double budget_ns;
} benches[] = {
	{ "callback", "launch callback, plain kernel", callback, 1000000, 2,
	  150 },
	{ "anchor", "launch callback, routing kernel", anchor, 1000000, 2,
	  150 },
	{ "graph", "launch callback, CUDA graph", graph, 1000000, 2, 150 },
	{ "record", "kernel record, decoded", record, 10 * RECORDS, 1, 60 },
	{ "reduce", "kernel record, decoded and reduced", reduce, 10 * RECORDS,
	  1, 60 },
};

static double nanoseconds(size_t b)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < RUNS; i++) {
		uint64_t start = agent_now_ns(), ns;

		benches[b].run(benches[b].count);
		ns = agent_now_ns() - start;
		best = ns < best ? ns : best;
	}
	return (double)best / (double)benches[b].count / benches[b].per;
}

/* Instructions of a whole run of this program; 0: callgrind is not there. */
static uint64_t collected(const char *name, uint64_t n)
{
	char command[512], line[256], self[256];
	uint64_t instructions = 0;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	FILE *f;

	if (length <= 0)
		return 0;
	self[length] = '\0';
	snprintf(command, sizeof(command),
		 "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
		 "'%s' %s %" PRIu64 " 2>&1",
		 self, name, n);
	f = popen(command, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "Collected : ");

		if (at)
			instructions = strtoull(at + 12, NULL, 10);
	}
	pclose(f);
	return instructions;
}

static double instructions(size_t b)
{
	uint64_t n = benches[b].per > 1 ? 20000 : RECORDS;
	uint64_t once = collected(benches[b].name, n);
	uint64_t twice = once ? collected(benches[b].name, 2 * n) : 0;

	return twice > once
		       ? (double)(twice - once) / (double)n / benches[b].per
		       : 0;
}

static void print_all(void)
{
	printf("%-36s %9s %9s %13s\n", "", "ns", "budget", "instructions");
	for (size_t b = 0; b < sizeof(benches) / sizeof(benches[0]); b++) {
		double ns = nanoseconds(b), count = instructions(b);

		printf("%-36s %9.1f %9.0f ", benches[b].text, ns,
		       benches[b].budget_ns);
		if (count > 0)
			printf("%13.1f\n", count);
		else
			printf("%13s\n", "no valgrind");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	set_up();
	if (argc <= 2) {
		print_all();
		return 0;
	}
	for (size_t b = 0; b < sizeof(benches) / sizeof(benches[0]); b++)
		if (!strcmp(argv[1], benches[b].name))
			benches[b].run(strtoull(argv[2], NULL, 10));
	return 0;
}
