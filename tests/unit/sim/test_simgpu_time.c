/* Time and memory of the simulated GPU, through the driver API alone. */
#include "tests/unit/sim/simgpu_fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static CUdeviceptr memory;
static uint32_t *host; /* pinned */

static int open_gpu(void **state)
{
	(void)state;
	if (gpu_open("H200"))
		return -1;
	return cuMemAlloc_v2(&memory, 4096) ||
	       cuMemHostAlloc((void **)&host, 4096, 0);
}

static void calls_before_a_context_are_refused(void **state)
{
	CUdeviceptr p;

	(void)state;
	ok(cuCtxSetCurrent(NULL));
	assert_int_equal(cuMemAlloc_v2(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuStreamSynchronize(gpu.stream),
			 CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxSetCurrent(gpu.ctx));
}

static void device_is_the_chosen_gpu(void **state)
{
	char name[64];
	int bus = 0, clock = 0;
	size_t bytes = 0;

	(void)state;
	ok(cuDeviceGetName(name, sizeof(name), 0));
	assert_string_equal(name, "NVIDIA H200");
	ok(cuDeviceTotalMem_v2(&bytes, 0));
	assert_int_equal(bytes, 143771ul << 20);
	ok(cuDeviceGetAttribute(
		&bus, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 0));
	ok(cuDeviceGetAttribute(&clock, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
				0));
	assert_true(2.0 * clock * 1e3 * bus / 8 == simgpu_bandwidth());
	assert_int_equal(simgpu_select("H100"), -22); /* too late */
}

/* What is launched next is queued, however slow the test runs. */
/* So long that all that follows is queued by then. */
#define BUSY_NS 200000000u

static void keep_busy(void)
{
	ok(launch_write(gpu.stream, memory, 0, BUSY_NS, NULL));
}

static void duration_follows_the_roofline(void **state)
{
	/* 4.8 TB/s at 0.85; 989.4 TFLOP/s at 0.6; 1 us fixed. */
	const double bytes = 408e6, flop = 593.64e9;
	CUevent a, b;
	float ms = 0;

	(void)state;
	ok(cuEventCreate(&a, 0));
	ok(cuEventCreate(&b, 0));
	keep_busy();
	ok(cuEventRecord(a, gpu.stream));
	ok(launch_busy(gpu.stream, bytes, flop / 1e3));
	ok(cuEventRecord(b, gpu.stream));
	assert_int_equal(cuEventQuery(b), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
	ok(cuEventSynchronize(b));
	ok(cuEventElapsedTime(&ms, a, b));
	assert_float_equal(ms, 0.102, 0.0001); /* 100 + 1 + 1 us of gap */
	keep_busy();
	ok(cuEventRecord(a, gpu.stream));
	ok(launch_busy(gpu.stream, bytes / 1e3, flop));
	ok(cuEventRecord(b, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	ok(cuEventElapsedTime(&ms, a, b));
	assert_float_equal(ms, 1.002, 0.0001);
	ok(cuEventDestroy_v2(a));
	ok(cuEventDestroy_v2(b));
}

static void kernels_of_a_stream_follow_each_other(void **state)
{
	struct planned p[3] = { { 0 } };
	uint64_t before = now_ns();

	(void)state;
	keep_busy();
	for (uint32_t i = 0; i < 3; i++)
		ok(launch_write(gpu.stream, memory, i, 50000, &p[i]));
	assert_true(p[0].start_ns >= before + BUSY_NS + 4000);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p[i].end_ns - p[i].start_ns, 50000);
	assert_int_equal(p[1].start_ns, p[0].end_ns + 1000);
	assert_int_equal(p[2].start_ns, p[1].end_ns + 1000);
	ok(cuStreamSynchronize(gpu.stream));
	assert_true(now_ns() >= p[2].end_ns);
}

static void device_code_sees_earlier_stores_of_its_stream(void **state)
{
	(void)state;
	ok(cuMemsetD8Async(memory, 0, 4096, gpu.stream));
	for (uint32_t i = 1; i <= 100; i++)
		ok(launch_add(gpu.stream, memory, i));
	ok(cuMemcpyDtoHAsync_v2(host, memory, 4, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(host[0], 5050);
}

static void copies_pass_through_memory(void **state)
{
	uint32_t out[4] = { 1, 2, 3, 4 }, back[4] = { 0 };

	(void)state;
	ok(cuMemcpyHtoDAsync_v2(memory, out, sizeof(out), gpu.stream));
	memset(out, 0, sizeof(out)); /* was taken at the call */
	ok(cuMemcpyDtoDAsync_v2(memory + 512, memory, 16, gpu.stream));
	ok(cuMemsetD8Async(memory + 512, 0xff, 4, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	ok(cuMemcpyDtoH_v2(back, memory + 512, sizeof(back)));
	assert_int_equal(back[0], 0xffffffff);
	assert_int_equal(back[3], 4);
}

static void bad_addresses_are_refused(void **state)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	unsigned type = 0;
	bool mapped = false;

	(void)state;
	assert_int_equal(cuMemcpyDtoHAsync_v2(host, 12345, 4, gpu.stream), 1);
	assert_int_equal(
		cuMemcpyDtoHAsync_v2(host, memory + 4093, 4, gpu.stream), 1);
	assert_int_equal(
		cuMemcpyDtoHAsync_v2(host, (CUdeviceptr)-4, 8, gpu.stream), 1);
	assert_int_equal(cuMemcpyDtoHAsync_v2(NULL, memory, 4, gpu.stream), 1);
	ok(cuMemGetAddressRange_v2(&base, &bytes, memory + 100));
	assert_int_equal(base, memory);
	assert_int_equal(bytes, 4096);
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 memory + 4095));
	assert_int_equal(type, 2);
	ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, memory));
	assert_true(mapped);
	assert_int_equal(cuPointerGetAttribute(&type,
					       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					       memory + 4096),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(memory + 8), CUDA_ERROR_INVALID_VALUE);
}

static void freed_memory_comes_back_zero(void **state)
{
	CUdeviceptr a, b;
	uint32_t v = 7;

	(void)state;
	ok(cuMemAlloc_v2(&a, 100000));
	ok(cuMemcpyHtoD_v2(a + 50000, &v, 4));
	ok(cuMemFree_v2(a));
	ok(cuMemAlloc_v2(&b, 100000));
	assert_int_equal(a, b);
	ok(cuMemcpyDtoH_v2(&v, b + 50000, 4));
	assert_int_equal(v, 0);
	ok(cuMemFree_v2(b));
	assert_int_equal(cuMemAlloc_v2(&a, 200ul << 30),
			 CUDA_ERROR_OUT_OF_MEMORY);
}

static void parameters_are_described(void **state)
{
	size_t offset = 9, bytes = 9;

	(void)state;
	ok(cuFuncGetParamInfo(gpu.write, 3, &offset, &bytes));
	assert_int_equal(offset, 16);
	assert_int_equal(bytes, 8);
	assert_int_equal(cuFuncGetParamInfo(gpu.write, 4, &offset, &bytes),
			 CUDA_ERROR_INVALID_VALUE);
}

static void packed_arguments_work(void **state)
{
	struct {
		CUdeviceptr dst;
		uint32_t n;
	} a = { memory, 5 };
	size_t bytes = sizeof(a);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &a,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };

	(void)state;
	ok(cuMemsetD8Async(memory, 0, 4, gpu.stream));
	ok(cuLaunchKernel(gpu.add, 1, 1, 1, 1, 1, 1, 0, gpu.stream, NULL,
			  extra));
	ok(cuMemcpyDtoHAsync_v2(host, memory, 4, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(host[0], 5);
}

static void entry_points_are_found_by_name(void **state)
{
	void *fn = NULL;
	const char *s = NULL;
	int status = 9;

	(void)state;
	ok(cuGetProcAddress_v2("cuMemAlloc", &fn, 13000, 0, &status));
	assert_ptr_equal(fn, (void *)(uintptr_t)cuMemAlloc_v2);
	assert_int_equal(status, 0);
	ok(cuGetProcAddress_v2("cuLaunchKernel", &fn, 13000, 0, NULL));
	assert_ptr_equal(fn, (void *)(uintptr_t)cuLaunchKernel);
	assert_int_equal(
		cuGetProcAddress_v2("cuNoSuch", &fn, 13000, 0, &status),
		CUDA_ERROR_NOT_FOUND);
	assert_null(fn);
	ok(cuGetErrorName(CUDA_ERROR_NOT_READY, &s));
	assert_string_equal(s, "CUDA_ERROR_NOT_READY");
	assert_int_equal(cuGetErrorName(12345, &s), CUDA_ERROR_INVALID_VALUE);
}

/* The driver stops a caller that is 1024 launches ahead. */
static void launches_ahead_are_bounded(void **state)
{
	uint64_t before = now_ns();

	(void)state;
	for (int i = 0; i < 1224; i++)
		ok(launch_write(gpu.stream, memory, 0, 100000, NULL));
	assert_true(now_ns() - before > 19000000);
	ok(cuStreamSynchronize(gpu.stream));
}

/* ---- the snapshot at a time ------------------------------------------------------ */

#define WRITES 400
#define SAMPLES_MAX 20000

static struct {
	uint64_t start_ns;
	uint32_t value;
} sample[SAMPLES_MAX];
static _Atomic int samples;
static _Thread_local uint64_t copy_start_ns;

static void keep_copy(const struct simgpu_record *r, size_t n)
{
	if (n == 1 && !r->name)
		copy_start_ns = r->start_ns;
}

/* Copies over and over until it sees the last value. */
static void *sampler(void *arg)
{
	uint32_t *to;
	CUstream s;

	(void)arg;
	if (cuCtxSetCurrent(gpu.ctx) ||
	    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuMemHostAlloc((void **)&to, 256, 0))
		return NULL;
	for (int i = 0; i < SAMPLES_MAX; i++) {
		if (cuMemcpyDtoHAsync_v2(to, memory, 256, s) ||
		    cuStreamSynchronize(s))
			return NULL;
		sample[i].start_ns = copy_start_ns;
		sample[i].value = to[63];
		samples = i + 1;
		if (to[63] == WRITES)
			break;
	}
	return cuStreamDestroy_v2(s) ? NULL : (void *)to;
}

/* One run of writes with a thread that copies; how many copies fell into it. */
static unsigned run_writes(void)
{
	static struct planned p[WRITES];
	unsigned within = 0;
	pthread_t t;
	void *done;

	samples = 0;
	ok(launch_write(gpu.stream, memory, 0, 2000, NULL));
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(pthread_create(&t, NULL, sampler, NULL), 0);
	while (samples == 0)
		sched_yield();
	for (uint32_t i = 0; i < WRITES; i++)
		ok(launch_write(gpu.stream, memory, i + 1, 20000 + i * 7,
				&p[i]));
	assert_int_equal(pthread_join(t, &done), 0);
	assert_non_null(done);
	assert_int_equal(sample[0].value, 0);
	assert_int_equal(sample[samples - 1].value, WRITES);
	for (int i = 0; i < samples; i++) {
		uint32_t last = 0;

		while (last < WRITES && p[last].end_ns <= sample[i].start_ns)
			last++;
		assert_int_equal(sample[i].value, last);
		within += last > 0 && last < WRITES;
	}
	ok(cuMemFreeHost(done));
	return within;
}

static void copy_sees_the_store_that_ended_last_before_it(void **state)
{
	uint64_t deadline = now_ns() + 120000000000u;
	unsigned within = 0;

	(void)state;
	simgpu_hooks.records = keep_copy;
	while (within < 50 && now_ns() < deadline)
		within += run_writes();
	simgpu_hooks.records = NULL;
	assert_true(within >= 50);
}

static void copy_to_pageable_memory_waits(void **state)
{
	uint32_t v = 0;

	(void)state;
	keep_busy();
	ok(launch_write(gpu.stream, memory, 77, 2000, NULL));
	ok(cuMemcpyDtoHAsync_v2(&v, memory, 4, gpu.stream));
	assert_int_equal(v, 77);
	assert_int_equal(cuStreamQuery(gpu.stream), CUDA_SUCCESS);
}

static void events_order_streams(void **state)
{
	struct planned a, b;
	CUstream other;
	CUevent e;

	(void)state;
	ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(launch_write(gpu.stream, memory, 1, 20000000, &a));
	ok(cuEventRecord(e, gpu.stream));
	ok(cuStreamWaitEvent(other, e, 0));
	ok(launch_write(other, memory, 2, 2000, &b));
	assert_true(b.start_ns >= a.end_ns);
	assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	ok(cuCtxSynchronize());
	ok(cuStreamQuery(other));
	ok(cuStreamDestroy_v2(other));
	ok(cuEventDestroy_v2(e));
}

static void legacy_stream_waits_for_blocking_ones(void **state)
{
	struct planned a, b, c;
	CUstream blocking;

	(void)state;
	ok(cuStreamCreate(&blocking, 0));
	ok(launch_write(blocking, memory, 1, 200000, &a));
	ok(launch_write(NULL, memory, 2, 2000, &b));
	ok(launch_write(blocking, memory, 3, 2000, &c));
	assert_true(b.start_ns >= a.end_ns);
	assert_true(c.start_ns >= b.end_ns);
	ok(cuStreamDestroy_v2(blocking));
}

static void host_cannot_touch_device_memory(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile int *)(uintptr_t)memory = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* The last one: the error stays. */
static void store_outside_memory_is_an_illegal_address(void **state)
{
	(void)state;
	ok(launch_write(gpu.stream, memory + 4096 - 8, 1, 1000, NULL));
	assert_int_equal(cuStreamSynchronize(gpu.stream),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_before_a_context_are_refused),
		cmocka_unit_test(device_is_the_chosen_gpu),
		cmocka_unit_test(duration_follows_the_roofline),
		cmocka_unit_test(kernels_of_a_stream_follow_each_other),
		cmocka_unit_test(device_code_sees_earlier_stores_of_its_stream),
		cmocka_unit_test(copies_pass_through_memory),
		cmocka_unit_test(bad_addresses_are_refused),
		cmocka_unit_test(freed_memory_comes_back_zero),
		cmocka_unit_test(parameters_are_described),
		cmocka_unit_test(packed_arguments_work),
		cmocka_unit_test(entry_points_are_found_by_name),
		cmocka_unit_test(launches_ahead_are_bounded),
		cmocka_unit_test(copy_sees_the_store_that_ended_last_before_it),
		cmocka_unit_test(copy_to_pageable_memory_waits),
		cmocka_unit_test(events_order_streams),
		cmocka_unit_test(legacy_stream_waits_for_blocking_ones),
		cmocka_unit_test(host_cannot_touch_device_memory),
		cmocka_unit_test(store_outside_memory_is_an_illegal_address),
	};

	return cmocka_run_group_tests(tests, open_gpu, NULL);
}
