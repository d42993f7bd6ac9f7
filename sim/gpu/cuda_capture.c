#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ------------------------------------------------------------------- */

struct sim_node *sim_node_clone(const struct sim_node *n)
{
	const struct sim_function *f = n->function;
	unsigned count = f ? f->param_count : 0;
	size_t data = sizeof(*n) + count * sizeof(void *);
	struct sim_node *copy;

	data = (data + 15) & ~(size_t)15;
	copy = malloc(data + (f ? f->param_offset[count] : 0));
	if (!copy)
		return NULL;
	*copy = *n;
	copy->params = (void **)(copy + 1);
	for (unsigned i = 0; i < count; i++) {
		copy->params[i] = (uint8_t *)copy + data + f->param_offset[i];
		memcpy(copy->params[i], n->params[i], f->param_bytes[i]);
	}
	return copy;
}

void sim_graph_free(struct sim_graph *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		free(g->nodes[i]);
	free(g->nodes);
	free(g);
}

bool sim_graph_append(struct sim_graph *g, struct sim_node *n)
{
	if (g->count == g->room) {
		uint32_t room = g->room ? 2 * g->room : 64;
		void *v = realloc(g->nodes, room * sizeof(*g->nodes));

		if (!v)
			return false;
		g->nodes = v;
		g->room = room;
	}
	n->owner = g;
	n->graph = g->id;
	n->index = g->count;
	g->nodes[g->count++] = n;
	return true;
}

/* ---- what capture forbids ------------------------------------------------------ */

static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool forbids(const struct sim_graph *g)
{
	bool mine = pthread_equal(g->owner, pthread_self());

	if (mine && g->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return true;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_guard(void)
{
	CUresult e = CUDA_SUCCESS;

	if (!atomic_load(&sim.captures) ||
	    thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sim.lock);
	for (struct sim_graph *g = sim.capturing; g; g = g->next)
		if (forbids(g)) {
			g->invalid = true;
			e = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&sim.lock);
	return e;
}

CUresult sim_capture_implicit(const struct sim_stream *s)
{
	CUresult e = CUDA_SUCCESS;

	if (!atomic_load(&sim.captures) || s != s->context->null_stream)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sim.lock);
	for (struct sim_graph *g = sim.capturing; g; g = g->next)
		if (!(g->origin->flags & CU_STREAM_NON_BLOCKING)) {
			g->invalid = true;
			e = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	pthread_mutex_unlock(&sim.lock);
	return e;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	int old = thread_mode;

	if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* ---- adding to a capture --------------------------------------------------------- */

bool sim_capturing(struct sim_stream *s)
{
	bool yes;

	if (!atomic_load_explicit(&sim.captures, memory_order_acquire))
		return false;
	pthread_mutex_lock(&sim.lock);
	yes = s->capture != NULL;
	pthread_mutex_unlock(&sim.lock);
	return yes;
}

static CUresult capture_locked(struct sim_stream *s, struct sim_node *n)
{
	struct sim_graph *g = s->capture;

	if (!g)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (g->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	n->lane = (uint8_t)s->lane;
	memcpy(n->after, s->after, sizeof(n->after));
	if (!sim_graph_append(g, n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->after[0] = s->after[1] = -1;
	g->lane_last[s->lane] = (int32_t)n->index;
	if (s->lane)
		g->lane_open[s->lane] = true;
	return CUDA_SUCCESS;
}

CUresult sim_capture(struct sim_stream *s, const struct sim_node *n)
{
	struct sim_node *copy = sim_node_clone(n);
	struct cupti_graph_data data = { .node_type = n->type };
	CUresult e;

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim.lock);
	e = capture_locked(s, copy);
	data.graph = s->capture;
	pthread_mutex_unlock(&sim.lock);
	if (e) {
		free(copy);
		return e;
	}
	data.node = copy;
	sim_resource(CBID_RES_GRAPHNODE_CREATED, s->context, NULL, &data);
	return CUDA_SUCCESS;
}

void sim_capture_record(struct sim_stream *s, struct sim_event *e)
{
	e->capture = s->capture;
	e->lane = s->lane;
	e->node = s->capture->lane_last[s->lane];
	if (e->node < 0) /* nothing of its own yet: what it waits for */
		e->node = s->after[0];
}

static CUresult join(struct sim_stream *s, struct sim_graph *g)
{
	if (g->lanes == SIM_LANES_MAX)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	s->capture = g;
	s->lane = g->lanes++;
	s->after[0] = s->after[1] = -1;
	g->lane_last[s->lane] = -1;
	g->lane_open[s->lane] = true;
	return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *s, const struct sim_event *e)
{
	struct sim_graph *g = sim.capturing;
	CUresult r = CUDA_SUCCESS;

	while (g && g != e->capture)
		g = g->next;
	if (!g) /* its capture has ended */
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture && s->capture != g)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!s->capture)
		r = join(s, g);
	if (r || e->lane == s->lane)
		return r;
	if (e->node == g->lane_last[e->lane] || g->lane_last[e->lane] < 0)
		g->lane_open[e->lane] = false;
	if (s->after[0] < 0)
		s->after[0] = e->node;
	else if (s->after[1] < 0)
		s->after[1] = e->node;
	else
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return CUDA_SUCCESS;
}

/* ---- begin and end ----------------------------------------------------------------- */

static CUresult begin_locked(struct sim_stream *s, struct sim_graph *g)
{
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	g->next = sim.capturing;
	sim.capturing = g;
	atomic_fetch_add(&sim.captures, 1);
	s->capture = g;
	s->lane = 0;
	s->after[0] = s->after[1] = -1;
	return CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, int mode)
{
	struct cupti_graph_data data = { 0 };
	struct sim_graph *g;
	struct sim_stream *s;
	CUresult e = sim_ready();

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s || mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (s == s->context->null_stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	g = calloc(1, sizeof(*g));
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->id = atomic_fetch_add(&sim.last_graph, 1) + 1;
	g->mode = mode;
	g->owner = pthread_self();
	g->origin = s;
	g->lanes = 1;
	for (int i = 0; i < (int)SIM_LANES_MAX; i++)
		g->lane_last[i] = -1;
	pthread_mutex_lock(&sim.lock);
	e = begin_locked(s, g);
	pthread_mutex_unlock(&sim.lock);
	if (e) {
		free(g);
		return e;
	}
	data.graph = g;
	sim_resource(CBID_RES_GRAPH_CREATED, s->context, NULL, &data);
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	const struct {
		CUstream stream;
		int mode;
	} a = { stream, mode };
	struct sim_call c;

	sim_call_enter(&c, CBID_STREAM_BEGIN_CAPTURE, "cuStreamBeginCapture_v2",
		       &a);
	return sim_call_exit(&c, begin(stream, mode));
}

static CUresult verdict(const struct sim_graph *g)
{
	if (g->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (uint32_t i = 1; i < g->lanes; i++)
		if (g->lane_open[i])
			return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	return CUDA_SUCCESS;
}

static void end_locked(struct sim_graph *g)
{
	struct sim_graph **p = &sim.capturing;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	atomic_fetch_sub(&sim.captures, 1);
	for (struct sim_stream *s = sim.streams; s; s = s->next)
		if (s->capture == g)
			s->capture = NULL;
}

static CUresult end(CUstream stream, CUgraph *out)
{
	struct sim_graph *g;
	struct sim_stream *s;
	CUresult e = sim_ready();

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s || !out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim.lock);
	g = s->capture;
	if (!g)
		e = CUDA_ERROR_ILLEGAL_STATE;
	else if (g->origin != s)
		e = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	else if (!pthread_equal(g->owner, pthread_self()) &&
		 g->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		e = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	else
		end_locked(g);
	pthread_mutex_unlock(&sim.lock);
	if (e)
		return e;
	e = verdict(g);
	*out = e ? NULL : g;
	if (e)
		sim_graph_free(g);
	return e;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	const struct {
		CUstream stream;
		CUgraph *graph;
	} a = { stream, graph };
	struct sim_call c;

	sim_call_enter(&c, CBID_STREAM_END_CAPTURE, "cuStreamEndCapture", &a);
	return sim_call_exit(&c, end(stream, graph));
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!s || !status)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim.lock);
	*status = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
		  : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
	pthread_mutex_unlock(&sim.lock);
	return CUDA_SUCCESS;
}
