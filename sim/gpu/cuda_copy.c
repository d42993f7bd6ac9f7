#include "sim/gpu/cuda_engine.h"

static bool copy_valid(const struct sim_copy *c)
{
	switch (c->kind) {
	case COPY_HTOD:
		return c->src && sim_device_range(c->dst, c->bytes);
	case COPY_DTOH:
		return c->dst && sim_device_range(c->src, c->bytes);
	case COPY_DTOD:
		return sim_device_range(c->dst, c->bytes) &&
		       sim_device_range(c->src, c->bytes);
	default:
		return sim_device_range(c->dst, c->bytes);
	}
}

static CUresult submit(struct sim_stream *s, struct sim_node *n)
{

	if (sim_capturing(s))
		return sim_capture(s, n);
	pthread_mutex_lock(&s->order);
	if (n->copy.kind == COPY_DTOH)
		return sim_plan_dtoh(s, n);
	return sim_plan(s, &n, 1, 0, false);
}

/* Copies to pageable host memory return when they are done, as the driver's. */
static CUresult copy(const struct sim_copy *c, CUstream stream, bool wait)
{
	struct sim_node n = {
		.type = c->kind == COPY_SET ? NODE_MEMSET : NODE_MEMCPY,
		.after = { -1, -1 },
		.copy = *c,
	};
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!c->bytes)
		return CUDA_SUCCESS;
	if (!copy_valid(c))
		return CUDA_ERROR_INVALID_VALUE;
	e = sim_capture_implicit(s);
	if (e)
		return e;
	sim_stream_throttle(s);
	if (c->kind == COPY_DTOH &&
	    !sim_pinned((void *)(uintptr_t)c->dst, c->bytes))
		wait = true;
	e = submit(s, &n);
	return e || !wait || sim_capturing(s) ? e : sim_stream_drain(s);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
			      CUstream stream)
{
	const struct {
		CUdeviceptr dst;
		const void *src;
		size_t bytes;
		CUstream stream;
	} a = { dst, src, bytes, stream };
	const struct sim_copy k = { .kind = COPY_HTOD,
				    .dst = dst,
				    .src = (uint64_t)(uintptr_t)src,
				    .bytes = bytes };
	struct sim_call c;

	sim_call_enter(&c, 277, "cuMemcpyHtoDAsync_v2", &a);
	return sim_call_exit(&c, copy(&k, stream, false));
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes,
			      CUstream stream)
{
	const struct {
		void *dst;
		CUdeviceptr src;
		size_t bytes;
		CUstream stream;
	} a = { dst, src, bytes, stream };
	const struct sim_copy k = { .kind = COPY_DTOH,
				    .dst = (uint64_t)(uintptr_t)dst,
				    .src = src,
				    .bytes = bytes };
	struct sim_call c;

	sim_call_enter(&c, 279, "cuMemcpyDtoHAsync_v2", &a);
	return sim_call_exit(&c, copy(&k, stream, false));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			      CUstream stream)
{
	const struct {
		CUdeviceptr dst, src;
		size_t bytes;
		CUstream stream;
	} a = { dst, src, bytes, stream };
	const struct sim_copy k = {
		.kind = COPY_DTOD, .dst = dst, .src = src, .bytes = bytes
	};
	struct sim_call c;

	sim_call_enter(&c, 281, "cuMemcpyDtoDAsync_v2", &a);
	return sim_call_exit(&c, copy(&k, stream, false));
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes,
			 CUstream stream)
{
	const struct {
		CUdeviceptr dst;
		unsigned char value;
		size_t bytes;
		CUstream stream;
	} a = { dst, value, bytes, stream };
	const struct sim_copy k = {
		.kind = COPY_SET, .dst = dst, .bytes = bytes, .value = value
	};
	struct sim_call c;

	sim_call_enter(&c, 216, "cuMemsetD8Async", &a);
	return sim_call_exit(&c, copy(&k, stream, false));
}

static CUresult copy_and_wait(const struct sim_copy *k)
{
	CUresult e = sim_ready();

	if (!e)
		e = sim_capture_guard();
	return e ? e : copy(k, NULL, true);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	const struct {
		CUdeviceptr dst;
		const void *src;
		size_t bytes;
	} a = { dst, src, bytes };
	const struct sim_copy k = { .kind = COPY_HTOD,
				    .dst = dst,
				    .src = (uint64_t)(uintptr_t)src,
				    .bytes = bytes };
	struct sim_call c;

	sim_call_enter(&c, 276, "cuMemcpyHtoD_v2", &a);
	return sim_call_exit(&c, copy_and_wait(&k));
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	const struct {
		void *dst;
		CUdeviceptr src;
		size_t bytes;
	} a = { dst, src, bytes };
	const struct sim_copy k = { .kind = COPY_DTOH,
				    .dst = (uint64_t)(uintptr_t)dst,
				    .src = src,
				    .bytes = bytes };
	struct sim_call c;

	sim_call_enter(&c, 278, "cuMemcpyDtoH_v2", &a);
	return sim_call_exit(&c, copy_and_wait(&k));
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes)
{
	const struct {
		CUdeviceptr dst;
		unsigned char value;
		size_t bytes;
	} a = { dst, value, bytes };
	const struct sim_copy k = {
		.kind = COPY_SET, .dst = dst, .bytes = bytes, .value = value
	};
	struct sim_call c;

	sim_call_enter(&c, 210, "cuMemsetD8_v2", &a);
	return sim_call_exit(&c, copy_and_wait(&k));
}
