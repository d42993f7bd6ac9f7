/*
 * simgpu_fixture.h - what the tests of the simulated GPU share: a context, a
 * few kernels, the simulated libcupti, and a list of the records it delivered
 */
#ifndef MOETOP_TESTS_SIMGPU_FIXTURE_H
#define MOETOP_TESTS_SIMGPU_FIXTURE_H

#include "sim/gpu/cuda_api.h"
#include "sim/gpu/simgpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define UNUSED __attribute__((unused))

static struct {
	CUcontext ctx;
	CUstream stream;
	CUmodule module;
	CUfunction write, busy, add;
} gpu;

static UNUSED uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- kernels ------------------------------------------------------------------ */

struct planned { /* what a kernel's launch was told */
	uint64_t start_ns, end_ns;
};

static void keep_times(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	struct planned *p = arg;

	p->start_ns = start_ns;
	p->end_ns = end_ns;
}

/* write(dst, value, duration_ns, struct planned *): fills 64 words at its end. */
static void code_write(struct simgpu_launch *l, void **params,
		       struct simgpu_cost *cost)
{
	uint32_t words[64];
	struct planned *p = *(struct planned **)params[3];

	for (int i = 0; i < 64; i++)
		words[i] = *(uint32_t *)params[1];
	simgpu_store(l, *(void **)params[0], words, sizeof(words));
	cost->duration_ns = *(uint32_t *)params[2];
	if (p)
		simgpu_on_planned(l, keep_times, p);
}

/* busy(read_bytes, flop): by roofline, with nothing stored. */
static void code_busy(struct simgpu_launch *l, void **params,
		      struct simgpu_cost *cost)
{
	(void)l;
	cost->read_bytes = *(double *)params[0];
	cost->flop = *(double *)params[1];
	cost->t0_ns = 1000;
}

/* add(dst, n): *dst += n, as it finds it. */
static void code_add(struct simgpu_launch *l, void **params,
		     struct simgpu_cost *cost)
{
	const uint32_t *was = simgpu_load(l, *(void **)params[0], 4);
	uint32_t sum = *(uint32_t *)params[1] + (was ? *was : 0);

	simgpu_store(l, *(void **)params[0], &sum, 4);
	cost->duration_ns = 2000;
}

static UNUSED int gpu_open(const char *name)
{
	static const uint8_t write[] = { 8, 4, 4, 8, 0 }, busy[] = { 8, 8, 0 },
			     add[] = { 8, 4, 0 };
	int bad = simgpu_select(name);

	bad |= simgpu_register("write", code_write, write);
	bad |= simgpu_register("busy", code_busy, busy);
	bad |= simgpu_register("add", code_add, add);
	bad |= cuInit(0);
	bad |= cuDevicePrimaryCtxRetain(&gpu.ctx, 0);
	bad |= cuCtxSetCurrent(gpu.ctx);
	bad |= cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING);
	bad |= cuModuleLoadData(&gpu.module, "image");
	bad |= cuModuleGetFunction(&gpu.write, gpu.module, "write");
	bad |= cuModuleGetFunction(&gpu.busy, gpu.module, "busy");
	bad |= cuModuleGetFunction(&gpu.add, gpu.module, "add");
	return bad;
}

static UNUSED CUresult launch_write(CUstream s, CUdeviceptr dst, uint32_t value,
				    uint32_t ns, struct planned *p)
{
	void *params[] = { &dst, &value, &ns, &p };

	return cuLaunchKernel(gpu.write, 1, 2, 3, 32, 1, 1, 0, s, params, NULL);
}

static UNUSED CUresult launch_busy(CUstream s, double bytes, double flop)
{
	void *params[] = { &bytes, &flop };

	return cuLaunchKernel(gpu.busy, 8, 1, 1, 256, 1, 1, 512, s, params,
			      NULL);
}

static UNUSED CUresult launch_add(CUstream s, CUdeviceptr dst, uint32_t n)
{
	struct cu_launch_config c = { .grid = { 1, 1, 1 },
				      .block = { 1, 1, 1 },
				      .stream = s };
	void *params[] = { &dst, &n };

	return cuLaunchKernelEx(&c, gpu.add, params, NULL);
}

/* ---- libcupti ------------------------------------------------------------------- */

static UNUSED struct {
	void *handle;
	int (*Subscribe)(void **, cupti_callback, void *);
	int (*Unsubscribe)(void *);
	int (*EnableCallback)(uint32_t, void *, int, uint32_t);
	int (*EnableDomain)(uint32_t, void *, int);
	int (*ActivityRegisterCallbacks)(cupti_buffer_requested,
					 cupti_buffer_completed);
	int (*ActivityEnable)(uint32_t);
	int (*ActivityDisable)(uint32_t);
	int (*ActivityFlushAll)(uint32_t);
	int (*ActivityGetNextRecord)(uint8_t *, size_t, void **);
	int (*ActivityGetNumDroppedRecords)(void *, uint32_t, size_t *);
	int (*ActivityGetAttribute)(int, size_t *, void *);
	int (*ActivitySetAttribute)(int, size_t *, void *);
	int (*GetVersion)(uint32_t *);
	int (*GetTimestamp)(uint64_t *);
	int (*GetGraphId)(void *, uint32_t *);
	int (*GetGraphExecId)(void *, uint32_t *);
	int (*GetGraphNodeId)(void *, uint64_t *);
	int (*Finalize)(void);
} cupti;

/* A library of the build that this test belongs to. */
static UNUSED void *library(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	for (int up = 0; up < 4; up++)
		*strrchr(path, '/') = '\0'; /* tests/unit/sim/test_x */
	strcat(path, "/sim/lib/");
	strcat(path, name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static UNUSED int cupti_open(void)
{
	static const char *const names[] = {
		"Subscribe",
		"Unsubscribe",
		"EnableCallback",
		"EnableDomain",
		"ActivityRegisterCallbacks",
		"ActivityEnable",
		"ActivityDisable",
		"ActivityFlushAll",
		"ActivityGetNextRecord",
		"ActivityGetNumDroppedRecords",
		"ActivityGetAttribute",
		"ActivitySetAttribute",
		"GetVersion",
		"GetTimestamp",
		"GetGraphId",
		"GetGraphExecId",
		"GetGraphNodeId",
		"Finalize",
	};
	void **slot = (void **)&cupti;

	cupti.handle = library("libcupti.so.13");
	if (!cupti.handle)
		return -1;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "cupti%s", names[i]);
		slot[1 + i] = dlsym(cupti.handle, name);
		if (!slot[1 + i])
			return -1;
	}
	return 0;
}

/* ---- records ---------------------------------------------------------------------- */

#define RECORDS_MAX 20000

static UNUSED struct {
	pthread_mutex_t lock;
	struct cupti_kernel kernel[RECORDS_MAX];
	struct cupti_memcpy copy[256];
	size_t kernels, copies, buffers, requests;
	size_t buffer_bytes; /* of the buffers to hand out */
	bool decline;        /* hand out none */
	pthread_t requested_by, completed_by;
} got = { .lock = PTHREAD_MUTEX_INITIALIZER, .buffer_bytes = 64 * 1024 };

static UNUSED void on_requested(uint8_t **buffer, size_t *bytes, size_t *max)
{
	pthread_mutex_lock(&got.lock);
	got.requests++;
	got.requested_by = pthread_self();
	*bytes = got.buffer_bytes;
	*max = 0;
	*buffer = got.decline ? NULL : aligned_alloc(8, got.buffer_bytes);
	pthread_mutex_unlock(&got.lock);
}

static UNUSED void on_completed(void *ctx, uint32_t stream, uint8_t *buffer,
				size_t bytes, size_t valid)
{
	void *r = NULL;

	(void)ctx;
	(void)stream;
	(void)bytes;
	pthread_mutex_lock(&got.lock);
	got.buffers++;
	got.completed_by = pthread_self();
	while (cupti.ActivityGetNextRecord(buffer, valid, &r) == CUPTI_OK) {
		uint32_t kind = *(uint32_t *)r;

		if (kind == CUPTI_KIND_CONCURRENT_KERNEL &&
		    got.kernels < RECORDS_MAX)
			memcpy(&got.kernel[got.kernels++], r,
			       sizeof(got.kernel[0]));
		if (kind == CUPTI_KIND_MEMCPY && got.copies < 256)
			memcpy(&got.copy[got.copies++], r,
			       offsetof(struct cupti_memcpy, graph) + 4);
	}
	pthread_mutex_unlock(&got.lock);
	free(buffer);
}

static UNUSED size_t kernels_got(void)
{
	size_t n;

	pthread_mutex_lock(&got.lock);
	n = got.kernels;
	pthread_mutex_unlock(&got.lock);
	return n;
}

static UNUSED void records_clear(void)
{
	pthread_mutex_lock(&got.lock);
	got.kernels = got.copies = got.buffers = got.requests = 0;
	pthread_mutex_unlock(&got.lock);
}

/* A graph of n write kernels of ns each, the last storing n - 1 into dst. */
static UNUSED CUgraphExec graph_of(CUdeviceptr dst, uint32_t n, uint32_t ns)
{
	CUgraph g = NULL;
	CUgraphExec x = NULL;

	ok(cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (uint32_t i = 0; i < n; i++)
		ok(launch_write(gpu.stream, dst, i, ns, NULL));
	ok(cuStreamEndCapture(gpu.stream, &g));
	ok(cuGraphInstantiateWithFlags(&x, g, 0));
	ok(cuGraphDestroy(g));
	return x;
}

#endif
