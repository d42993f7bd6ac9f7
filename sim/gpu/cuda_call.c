#include "sim/gpu/cuda_engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct simgpu_hooks simgpu_hooks;

static _Thread_local uint32_t current_correlation;

uint32_t sim_correlation(void)
{
	return current_correlation;
}

void sim_call_enter(struct sim_call *c, uint32_t cbid, const char *name,
		    const void *params)
{
	void (*api)(int, uint32_t, const char *, const void *, int *, uint32_t);

	c->cbid = cbid;
	c->name = name;
	c->params = params;
	c->result = CUDA_SUCCESS;
	c->correlation = atomic_fetch_add(&sim.last_correlation, 1) + 1;
	api = __atomic_load_n(&simgpu_hooks.api, __ATOMIC_ACQUIRE);
	if (api)
		api(CUPTI_ENTER, cbid, name, params, &c->result,
		    c->correlation);
	current_correlation = c->correlation;
}

CUresult sim_call_exit(struct sim_call *c, CUresult result)
{
	void (*api)(int, uint32_t, const char *, const void *, int *, uint32_t);

	c->result = result;
	api = __atomic_load_n(&simgpu_hooks.api, __ATOMIC_ACQUIRE);
	if (api)
		api(CUPTI_EXIT, c->cbid, c->name, c->params, &c->result,
		    c->correlation);
	return result;
}

void sim_resource(uint32_t cbid, struct sim_context *ctx, void *handle,
		  const struct cupti_graph_data *graph)
{
	void (*resource)(uint32_t, const void *);
	struct cupti_graph_data copy;
	struct cupti_resource_data data = { .context = ctx, .handle = handle };

	resource = __atomic_load_n(&simgpu_hooks.resource, __ATOMIC_ACQUIRE);
	if (!resource)
		return;
	if (graph) {
		copy = *graph;
		data.descriptor = &copy;
	}
	resource(cbid, &data);
}

void sim_wait_until(uint64_t t)
{
	static _Thread_local bool exact;
	const struct timespec ts = { .tv_sec = (time_t)(t / 1000000000u),
				     .tv_nsec = (long)(t % 1000000000u) };

	if (t <= sim_now())
		return;
	if (!exact) {
		prctl(PR_SET_TIMERSLACK, 1);
		exact = true;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
		;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
	  "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
	  "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
	  "initialization error" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
	  "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
	  "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
	  "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
	  "invalid resource handle" },
	{ CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
	  "the operation cannot be performed in the present state" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND",
	  "named symbol not found" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	  "an illegal memory access was encountered" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
	  "operation not supported" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	  "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	  "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
	  "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	  "capture was not ended in the stream in which it began" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
	  "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	  "capturing stream has unjoined work" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	  "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	  "operation would make the legacy stream depend on a capturing "
	  "blocking stream" },
	{ CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
	  "operation not permitted on an event last recorded in a capturing "
	  "stream" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult error_find(CUresult e, size_t *out)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == e) {
			*out = i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult e, const char **s)
{
	size_t i = 0;
	CUresult r = s ? error_find(e, &i) : CUDA_ERROR_INVALID_VALUE;

	if (s)
		*s = r ? NULL : errors[i].name;
	return r;
}

CUresult cuGetErrorString(CUresult e, const char **s)
{
	size_t i = 0;
	CUresult r = s ? error_find(e, &i) : CUDA_ERROR_INVALID_VALUE;

	if (s)
		*s = r ? NULL : errors[i].text;
	return r;
}
