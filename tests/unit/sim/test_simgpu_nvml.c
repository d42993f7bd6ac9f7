/* The simulated NVML against what the simulated GPU planned. */
#include "tests/unit/sim/simgpu_fixture.h"

#include "sim/gpu/nvml_api.h"

#include <fcntl.h>
#include <sys/stat.h>

static UNUSED struct {
	void *handle;
	int (*Init_v2)(void);
	int (*Shutdown)(void);
	int (*DeviceGetCount_v2)(unsigned *);
	int (*DeviceGetHandleByIndex_v2)(unsigned, void **);
	int (*DeviceGetName)(void *, char *, unsigned);
	int (*DeviceGetUUID)(void *, char *, unsigned);
	int (*DeviceGetUtilizationRates)(void *, struct nvml_utilization *);
	int (*DeviceGetMemoryInfo)(void *, struct nvml_memory *);
	int (*DeviceGetMaxClockInfo)(void *, int, unsigned *);
	int (*DeviceGetMemoryBusWidth)(void *, unsigned *);
	int (*DeviceGetComputeRunningProcesses_v3)(void *, unsigned *,
						   struct nvml_process *);
	int (*DeviceGetCudaComputeCapability)(void *, int *, int *);
	int (*GpmQueryDeviceSupport)(void *, struct nvml_gpm_support *);
	int (*GpmSampleAlloc)(void **);
	int (*GpmSampleFree)(void *);
	int (*GpmSampleGet)(void *, void *);
	int (*GpmMetricsGet)(struct nvml_gpm_get *);
} nvml;

static void *device;
static CUdeviceptr memory;

static int nvml_open(void)
{
	static const char *const names[] = {
		"Init_v2",
		"Shutdown",
		"DeviceGetCount_v2",
		"DeviceGetHandleByIndex_v2",
		"DeviceGetName",
		"DeviceGetUUID",
		"DeviceGetUtilizationRates",
		"DeviceGetMemoryInfo",
		"DeviceGetMaxClockInfo",
		"DeviceGetMemoryBusWidth",
		"DeviceGetComputeRunningProcesses_v3",
		"DeviceGetCudaComputeCapability",
		"GpmQueryDeviceSupport",
		"GpmSampleAlloc",
		"GpmSampleFree",
		"GpmSampleGet",
		"GpmMetricsGet",
	};
	void **slot = (void **)&nvml;

	nvml.handle = library("libnvidia-ml.so.1");
	if (!nvml.handle)
		return -1;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "nvml%s", names[i]);
		slot[1 + i] = dlsym(nvml.handle, name);
		if (!slot[1 + i])
			return -1;
	}
	return 0;
}

static int open_all(void **state)
{
	(void)state;
	/* A device of its own, so that other simulations do not count. */
	setenv("CUDA_VISIBLE_DEVICES", "13", 1);
	return gpu_open("H200") || nvml_open() || nvml.Init_v2() ||
	       nvml.DeviceGetHandleByIndex_v2(13, &device) ||
	       cuMemAlloc_v2(&memory, 100ul << 20);
}

static void device_is_what_the_process_chose(void **state)
{
	unsigned count = 0, clock = 0, bits = 0;
	int major = 0, minor = 9;
	char name[96], uuid[96];
	uint8_t raw[16];
	char start[16];

	(void)state;
	assert_int_equal(nvml.DeviceGetCount_v2(&count), 0);
	assert_true(count >= 14);
	assert_int_equal(nvml.DeviceGetName(device, name, sizeof(name)), 0);
	assert_string_equal(name, "NVIDIA H200");
	assert_int_equal(nvml.DeviceGetName(device, name, 5),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvml.DeviceGetUUID(device, uuid, sizeof(uuid)), 0);
	ok(cuDeviceGetUuid_v2(raw, 0));
	snprintf(start, sizeof(start), "GPU-%02x%02x%02x%02x-", raw[0], raw[1],
		 raw[2], raw[3]);
	assert_int_equal(strncmp(uuid, start, strlen(start)), 0);
	assert_int_equal(
		nvml.DeviceGetMaxClockInfo(device, NVML_CLOCK_MEM, &clock), 0);
	assert_int_equal(nvml.DeviceGetMemoryBusWidth(device, &bits), 0);
	assert_true(2e6 * clock * bits / 8 == 4800e9);
	assert_int_equal(
		nvml.DeviceGetCudaComputeCapability(device, &major, &minor), 0);
	assert_int_equal(major * 10 + minor, 90);
}

static void process_and_memory_are_listed(void **state)
{
	struct nvml_process p[8];
	struct nvml_memory m;
	unsigned n = 0;

	(void)state;
	assert_int_equal(
		nvml.DeviceGetComputeRunningProcesses_v3(device, &n, NULL),
		NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(n, 1);
	n = 8;
	assert_int_equal(
		nvml.DeviceGetComputeRunningProcesses_v3(device, &n, p), 0);
	assert_int_equal(n, 1);
	assert_int_equal(p[0].pid, getpid());
	assert_int_equal(p[0].used_bytes, 100ul << 20);
	assert_int_equal(nvml.DeviceGetMemoryInfo(device, &m), 0);
	assert_int_equal(m.total, 143771ul << 20);
	assert_int_equal(m.used, 612ul << 20);
}

struct measured {
	double dram, tensor, sm, graphics; /* ratios of the time between */
	double least_s, most_s;            /* which was between these */
};

static void sample_at(void *sample, uint64_t *before, uint64_t *after)
{
	*before = now_ns();
	assert_int_equal(nvml.GpmSampleGet(device, sample), 0);
	*after = now_ns();
}

/* Metrics between two samples around a load. */
static void measure(void (*load)(void), uint64_t rest_ns, struct measured *m)
{
	static const unsigned ids[4] = { NVML_GPM_METRIC_DRAM_BW_UTIL,
					 NVML_GPM_METRIC_ANY_TENSOR_UTIL,
					 NVML_GPM_METRIC_SM_UTIL,
					 NVML_GPM_METRIC_GRAPHICS_UTIL };
	struct nvml_gpm_get *get =
		calloc(1, sizeof(*get) + 4 * sizeof(*get->metrics));
	uint64_t a[2], b[2];

	assert_non_null(get);
	get->version = 1;
	get->count = 4;
	for (int i = 0; i < 4; i++)
		get->metrics[i].id = ids[i];
	assert_int_equal(nvml.GpmSampleAlloc(&get->sample1), 0);
	assert_int_equal(nvml.GpmSampleAlloc(&get->sample2), 0);
	sample_at(get->sample1, &a[0], &a[1]);
	load();
	while (now_ns() < a[1] + rest_ns)
		usleep(100);
	sample_at(get->sample2, &b[0], &b[1]);
	assert_int_equal(nvml.GpmMetricsGet(get), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(get->metrics[i].result, 0);
	*m = (struct measured){ .dram = get->metrics[0].value / 100,
				.tensor = get->metrics[1].value / 100,
				.sm = get->metrics[2].value / 100,
				.graphics = get->metrics[3].value / 100,
				.least_s = (double)(b[0] - a[1]) / 1e9,
				.most_s = (double)(b[1] - a[0]) / 1e9 };
	nvml.GpmSampleFree(get->sample1);
	nvml.GpmSampleFree(get->sample2);
	free(get);
}

/* 200 x (96 MB, 2.4 GFLOP): 23.5 us + 1 us each. */
static void load_200(void)
{
	for (int i = 0; i < 200; i++)
		ok(launch_busy(gpu.stream, 96e6, 2.4e9));
	ok(cuStreamSynchronize(gpu.stream));
}

static void expect_sum(const struct measured *m, double ratio, double sum)
{
	assert_true(ratio * m->most_s > 0.99 * sum);
	assert_true(ratio * m->least_s < 1.01 * sum);
}

static void gpm_integrates_to_the_planned_amounts(void **state)
{
	struct measured m;

	(void)state;
	measure(load_200, 100000000, &m);
	expect_sum(&m, m.dram * 4800e9, 200 * 96e6);
	expect_sum(&m, m.tensor, 200 * 2.4e9 / 989.4e12);
	expect_sum(&m, m.sm, 200 * (96e6 / 4080e9 + 1e-6));
	assert_float_equal((float)m.graphics, (float)m.sm, 1e-6f);
}

static void load_ahead(void)
{
	for (int i = 0; i < 4; i++)
		ok(launch_busy(gpu.stream, 408e9, 0)); /* 100 ms */
}

static void gpm_counts_only_what_has_happened(void **state)
{
	struct measured m;

	(void)state;
	measure(load_ahead, 60000000, &m); /* of 400 ms of work */
	/* it was as busy as it can have been in this time, or a third so */
	assert_true(m.sm * m.most_s >
		    0.3 * (m.least_s < 0.4 ? m.least_s : 0.4));
	assert_true(m.sm <= 1);
	assert_float_equal((float)(m.dram / m.sm), 0.85f, 0.0085f);
}

static void utilization_is_of_the_recent_past(void **state)
{
	struct nvml_utilization u = { 0 };
	uint64_t until = now_ns() + 120000000000u;

	(void)state;
	while (u.gpu < 95 && now_ns() < until) {
		if (cuStreamQuery(gpu.stream) == CUDA_SUCCESS)
			load_ahead();
		usleep(5000);
		assert_int_equal(nvml.DeviceGetUtilizationRates(device, &u), 0);
	}
	assert_in_range(u.gpu, 95, 100);
	assert_in_range(u.memory, 70, 86);
	ok(cuStreamSynchronize(gpu.stream));
	while (u.gpu > 0 && now_ns() < until) {
		usleep(5000);
		assert_int_equal(nvml.DeviceGetUtilizationRates(device, &u), 0);
	}
	assert_int_equal(u.gpu, 0);
}

static void gpm_needs_hopper(void **state)
{
	struct nvml_gpm_support s = { .version = 1, .supported = 7 };

	(void)state;
	assert_int_equal(nvml.GpmQueryDeviceSupport(device, &s), 0);
	assert_int_equal(s.supported, 1);
	s.version = 2;
	assert_int_equal(nvml.GpmQueryDeviceSupport(device, &s),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* A file whose process is gone is removed by the next look. */
static void stale_files_are_removed(void **state)
{
	char path[80], live[80];
	struct stat st;
	unsigned n;
	int from, to;
	char buf[65536];
	ssize_t k;

	(void)state;
	snprintf(live, sizeof(live), "/dev/shm/moetop-sim-gpu%u-%u", getuid(),
		 (unsigned)getpid());
	assert_int_equal(stat(live, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(path, sizeof(path), "/dev/shm/moetop-sim-gpu%u-stale",
		 getuid());
	from = open(live, O_RDONLY);
	to = open(path, O_CREAT | O_RDWR, 0600);
	assert_true(from >= 0 && to >= 0);
	while ((k = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)k), k);
	/* Its process: ours, but started at another time. */
	assert_int_equal(pwrite(to, "\1", 1, 16), 1);
	close(from);
	close(to);
	assert_int_equal(nvml.DeviceGetCount_v2(&n), 0);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(stat(live, &st), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_is_what_the_process_chose),
		cmocka_unit_test(process_and_memory_are_listed),
		cmocka_unit_test(gpm_integrates_to_the_planned_amounts),
		cmocka_unit_test(gpm_counts_only_what_has_happened),
		cmocka_unit_test(utilization_is_of_the_recent_past),
		cmocka_unit_test(gpm_needs_hopper),
		cmocka_unit_test(stale_files_are_removed),
	};

	return cmocka_run_group_tests(tests, open_all, NULL);
}
