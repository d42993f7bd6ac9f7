/* The faults of the simulated GPU.  Each runs in a process of its own, which
 * ends with 0 or the number of the check that failed. */
#include "tests/unit/sim/simgpu_child.h"

static int fatal_seen;

static void on_callback(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)data;
	if (domain == CUPTI_DOMAIN_STATE && cbid == CBID_STATE_FATAL_ERROR)
		fatal_seen++;
}

static int start(const char *fault)
{
	setenv("MOETOP_SIM_FAULT", fault, 1);
	return gpu_open("H200") || cupti_open() ||
	       cuMemAlloc_v2(&memory, 4096) ||
	       cupti.ActivityRegisterCallbacks(on_requested, on_completed) ||
	       cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
}

static int subscribe39(void)
{
	void *s;

	CHECK(1, start("subscribe39") == 0);
	CHECK(2, cupti.Subscribe(&s, on_callback, NULL) ==
			 CUPTI_E_MULTIPLE_SUBSCRIBERS);
	return 0;
}

static int zero_stamps(void)
{
	CHECK(1, start("zero_stamps=5") == 0);
	CHECK(2, launch_all() == 0);
	CHECK(3, cupti.ActivityFlushAll(0) == 0);
	CHECK(4, got.kernels == KERNELS);
	for (int i = 0; i < KERNELS; i++) {
		CHECK(5, (got.kernel[i].start == 0) == (i >= 5));
		CHECK(6, (got.kernel[i].end == 0) == (i >= 5));
	}
	return 0;
}

static int drop_records(void)
{
	size_t dropped = 0;

	CHECK(1, start("clock_jitter=0,drop_records=4") == 0);
	CHECK(2, launch_all() == 0);
	CHECK(3, cupti.ActivityFlushAll(0) == 0);
	CHECK(4, got.kernels == KERNELS - 3);
	CHECK(5, cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == 0);
	CHECK(6, dropped == 3);
	return 0;
}

static int starve(void)
{
	got.buffer_bytes = 216 * 2;
	CHECK(1, start("starve") == 0);
	CHECK(2, launch_all() == 0);
	for (int i = 0; i < 60000 && got.requests < KERNELS / 2; i++)
		usleep(1000);
	usleep(50000); /* several rounds of the worker */
	CHECK(3, cupti.ActivityFlushAll(0) == 0);
	CHECK(4, got.buffers == 0 && got.requests == KERNELS / 2);
	CHECK(5, cupti.ActivityFlushAll(1) == 0);
	CHECK(6, got.kernels == KERNELS);
	return 0;
}

static int fatal(void)
{
	void *s;

	CHECK(1, start("fatal=6") == 0);
	CHECK(2, cupti.Subscribe(&s, on_callback, NULL) == 0);
	CHECK(3, cupti.EnableDomain(1, s, CUPTI_DOMAIN_STATE) == 0);
	CHECK(4, launch_all() == 0); /* the application goes on */
	CHECK(5, fatal_seen == 1);
	CHECK(6, cupti.ActivityFlushAll(1) == CUPTI_E_UNKNOWN);
	CHECK(7, cupti.Subscribe(&s, on_callback, NULL) == CUPTI_E_UNKNOWN);
	CHECK(8, got.kernels == 0);
	return 0;
}

/* Durations stay; the distance to the planned time does not. */
static int clock_jitter(void)
{
	struct planned p[KERNELS];
	int64_t shift[KERNELS], low = INT64_MAX, high = INT64_MIN;
	struct timespec real;
	int64_t offset;

	CHECK(1, start("clock_jitter=50000") == 0);
	for (int i = 0; i < KERNELS; i++)
		CHECK(2, launch_write(gpu.stream, memory, 0, 5000, &p[i]) == 0);
	clock_gettime(CLOCK_REALTIME, &real);
	offset = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec -
		 (int64_t)now_ns();
	CHECK(3, cuStreamSynchronize(gpu.stream) == 0);
	CHECK(4, cupti.ActivityFlushAll(0) == 0 && got.kernels == KERNELS);
	for (int i = 0; i < KERNELS; i++) {
		const struct cupti_kernel *k = &got.kernel[i];

		CHECK(5, k->end - k->start == 5000);
		shift[i] = (int64_t)k->start - (int64_t)p[i].start_ns - offset;
		low = shift[i] < low ? shift[i] : low;
		high = shift[i] > high ? shift[i] : high;
	}
	CHECK(6, low > -100000 && high < 100000);
	CHECK(7, high - low > 10000);
	return 0;
}

static int no_counters(void)
{
	int (*init)(void);
	int (*handle)(unsigned, void **);
	int (*support)(void *, unsigned *);
	unsigned s[2] = { 1, 7 };
	void *lib, *dev;

	setenv("MOETOP_SIM_FAULT", "no_counters", 1);
	CHECK(1, gpu_open("H200") == 0);
	unsetenv("MOETOP_SIM_FAULT"); /* NVML learns it from the device */
	lib = library("libnvidia-ml.so.1");
	CHECK(2, lib != NULL);
	*(void **)&init = dlsym(lib, "nvmlInit_v2");
	*(void **)&handle = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&support = dlsym(lib, "nvmlGpmQueryDeviceSupport");
	CHECK(3, init() == 0 && handle(0, &dev) == 0);
	CHECK(4, support(dev, s) == 3);
	return 0;
}

#define FAULT(name, body)              \
	static void name(void **state) \
	{                              \
		(void)state;           \
		expect_child(body);    \
	}

FAULT(another_profiler_gives_error_39, subscribe39)
FAULT(timestamps_become_zero, zero_stamps)
FAULT(every_nth_record_is_dropped_and_counted, drop_records)
FAULT(buffers_come_at_a_forced_flush_only, starve)
FAULT(fatal_error_ends_cupti_and_not_the_application, fatal)
FAULT(record_times_wander, clock_jitter)
FAULT(gpm_is_refused, no_counters)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_profiler_gives_error_39),
		cmocka_unit_test(timestamps_become_zero),
		cmocka_unit_test(every_nth_record_is_dropped_and_counted),
		cmocka_unit_test(buffers_come_at_a_forced_flush_only),
		cmocka_unit_test(
			fatal_error_ends_cupti_and_not_the_application),
		cmocka_unit_test(record_times_wander),
		cmocka_unit_test(gpm_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
