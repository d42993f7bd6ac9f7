#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>

/* ---- streams -------------------------------------------------------------------- */

uint32_t sim_next_stream_id(void)
{
	return atomic_fetch_add(&sim.last_stream, 1) + 7;
}

/* NULL, legacy (1) and per-thread (2) are the context's null stream here. */
struct sim_stream *sim_stream_of(CUstream s)
{
	struct sim_context *ctx = sim_current();

	if ((uintptr_t)s > 2)
		return s;
	return ctx ? ctx->null_stream : NULL;
}

uint32_t simgpu_stream_id(void *stream)
{
	struct sim_stream *s = sim_stream_of(stream);

	return s ? s->id : 0;
}

static CUresult stream_create(CUstream *out, unsigned flags)
{
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (!e && (!out || flags > CU_STREAM_NON_BLOCKING))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e)
		return e;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->id = sim_next_stream_id();
	s->flags = flags;
	s->context = sim_current();
	pthread_mutex_init(&s->order, NULL);
	pthread_mutex_lock(&sim.lock);
	s->next = sim.streams;
	sim.streams = s;
	pthread_mutex_unlock(&sim.lock);
	*out = s;
	sim_resource(3, s->context, s, NULL);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	const struct {
		CUstream *stream;
		unsigned flags;
	} a = { stream, flags };
	struct sim_call c;

	sim_call_enter(&c, 124, "cuStreamCreate", &a);
	return sim_call_exit(&c, stream_create(stream, flags));
}

static CUresult stream_destroy(CUstream s)
{
	CUresult e = sim_ready();
	struct sim_stream **p = &sim.streams;

	if (e)
		return e;
	if ((uintptr_t)s <= 2)
		return CUDA_ERROR_INVALID_VALUE;
	sim_resource(4, s->context, s, NULL);
	do { /* until nothing of it is left to apply */
		sim_stream_drain(s);
	} while (__atomic_load_n(&s->batches, __ATOMIC_ACQUIRE));
	pthread_mutex_lock(&sim.lock);
	while (*p && *p != s)
		p = &(*p)->next;
	if (*p)
		*p = s->next;
	pthread_mutex_unlock(&sim.lock);
	pthread_mutex_destroy(&s->order);
	free(s);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct sim_call c;

	sim_call_enter(&c, 326, "cuStreamDestroy_v2", &stream);
	return sim_call_exit(&c, stream_destroy(stream));
}

/* The stream, if it may be waited for or asked now. */
static CUresult waitable(CUstream stream, struct sim_stream **out)
{
	CUresult e = sim_ready();

	if (e)
		return e;
	*out = sim_stream_of(stream);
	if (!*out)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capturing(*out)) {
		pthread_mutex_lock(&sim.lock);
		if ((*out)->capture)
			(*out)->capture->invalid = true;
		pthread_mutex_unlock(&sim.lock);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return sim_capture_implicit(*out);
}

static CUresult stream_sync(CUstream stream)
{
	struct sim_stream *s;
	CUresult e = waitable(stream, &s);

	return e ? e : sim_stream_drain(s);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	struct sim_call c;

	sim_call_enter(&c, 126, "cuStreamSynchronize", &stream);
	return sim_call_exit(&c, stream_sync(stream));
}

/* Done means done and visible. */
static CUresult passed(uint64_t at_ns)
{
	if (sim_now() < at_ns)
		return CUDA_ERROR_NOT_READY;
	sim_apply();
	return atomic_load(&sim.error);
}

static CUresult stream_query(CUstream stream)
{
	struct sim_stream *s;
	CUresult e = waitable(stream, &s);
	uint64_t at;

	if (e)
		return e;
	pthread_mutex_lock(&sim.lock);
	at = sim_stream_from(s);
	pthread_mutex_unlock(&sim.lock);
	return passed(at);
}

CUresult cuStreamQuery(CUstream stream)
{
	struct sim_call c;

	sim_call_enter(&c, 125, "cuStreamQuery", &stream);
	return sim_call_exit(&c, stream_query(stream));
}

/* ---- events ------------------------------------------------------------------------ */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	const struct {
		CUevent *event;
		unsigned flags;
	} a = { event, flags };
	struct sim_call c;
	CUresult e;

	sim_call_enter(&c, 118, "cuEventCreate", &a);
	e = sim_ready();
	if (!e && !event)
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e) {
		*event = calloc(1, sizeof(**event));
		if (*event)
			(*event)->flags = flags;
		else
			e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return sim_call_exit(&c, e);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	struct sim_call c;

	sim_call_enter(&c, 325, "cuEventDestroy_v2", &event);
	free(event);
	return sim_call_exit(&c,
			     event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult event_record(CUevent v, CUstream stream)
{
	CUresult e = sim_ready();
	struct sim_stream *s;
	uint64_t now;

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s || !v)
		return CUDA_ERROR_INVALID_HANDLE;
	e = sim_capture_implicit(s);
	if (e)
		return e;
	pthread_mutex_lock(&s->order); /* after a launch being planned */
	pthread_mutex_lock(&sim.lock);
	if (s->capture) {
		sim_capture_record(s, v);
	} else {
		now = sim_now();
		v->capture = NULL;
		v->at_ns = sim_stream_from(s);
		if (v->at_ns < now)
			v->at_ns = now;
	}
	v->recorded = true;
	pthread_mutex_unlock(&sim.lock);
	pthread_mutex_unlock(&s->order);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	const struct {
		CUevent event;
		CUstream stream;
	} a = { event, stream };
	struct sim_call c;

	sim_call_enter(&c, 119, "cuEventRecord", &a);
	return sim_call_exit(&c, event_record(event, stream));
}

/* When the event happens; 0 if it was never recorded, which counts as done. */
static CUresult event_time(CUevent v, uint64_t *at_ns)
{
	CUresult e = sim_ready();

	if (e)
		return e;
	if (!v)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim.lock);
	*at_ns = v->recorded ? v->at_ns : 0;
	if (v->capture)
		e = CUDA_ERROR_CAPTURED_EVENT;
	pthread_mutex_unlock(&sim.lock);
	return e;
}

static CUresult event_query(CUevent v)
{
	uint64_t at;
	CUresult e = event_time(v, &at);

	if (!e)
		e = sim_capture_guard();
	return e ? e : passed(at);
}

CUresult cuEventQuery(CUevent event)
{
	struct sim_call c;

	sim_call_enter(&c, 120, "cuEventQuery", &event);
	return sim_call_exit(&c, event_query(event));
}

static CUresult event_sync(CUevent v)
{
	uint64_t at;
	CUresult e = event_time(v, &at);

	if (e)
		return e;
	sim_wait_until(at);
	sim_apply();
	return atomic_load(&sim.error);
}

CUresult cuEventSynchronize(CUevent event)
{
	struct sim_call c;

	sim_call_enter(&c, 121, "cuEventSynchronize", &event);
	return sim_call_exit(&c, event_sync(event));
}

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
	uint64_t a, b;
	CUresult e = event_time(start, &a);

	if (!e)
		e = event_time(end, &b);
	if (e)
		return e;
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!a || !b || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_now() < a || sim_now() < b)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)(((double)b - (double)a) / 1e6);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	const struct {
		float *ms;
		CUevent start, end;
	} a = { ms, start, end };
	struct sim_call c;

	sim_call_enter(&c, 780, "cuEventElapsedTime_v2", &a);
	return sim_call_exit(&c, elapsed(ms, start, end));
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

static CUresult wait_event(CUstream stream, CUevent v)
{
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s || !v)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim.lock);
	if (v->capture)
		e = sim_capture_wait(s, v);
	else if (s->capture)
		e = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	else if (v->recorded)
		sim_stream_advance(s, v->at_ns);
	pthread_mutex_unlock(&sim.lock);
	return e;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	const struct {
		CUstream stream;
		CUevent event;
		unsigned flags;
	} a = { stream, event, flags };
	struct sim_call c;

	sim_call_enter(&c, 295, "cuStreamWaitEvent", &a);
	return sim_call_exit(&c, wait_event(stream, event));
}
