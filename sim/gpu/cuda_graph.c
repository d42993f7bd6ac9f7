#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>

/* ---- ids, for libcupti --------------------------------------------------------- */

uint32_t simgpu_graph_id(void *graph)
{
	return graph ? *(const uint32_t *)graph : 0;
}

uint32_t simgpu_exec_id(void *exec)
{
	return exec ? ((const struct sim_exec *)exec)->id : 0;
}

uint64_t simgpu_node_id(void *node)
{
	const struct sim_node *n = node;

	return n ? (uint64_t)n->graph << 32 | n->index : 0;
}

/* ---- instantiation ---------------------------------------------------------------- */

static void exec_free(struct sim_exec *x)
{
	for (uint32_t i = 0; i < x->count; i++)
		free(x->nodes[i]);
	free(x->nodes);
	free(x);
}

static struct sim_exec *exec_new(const struct sim_graph *g)
{
	struct sim_exec *x = calloc(1, sizeof(*x));

	if (x)
		x->nodes = calloc(g->count + 1, sizeof(*x->nodes));
	if (!x || !x->nodes) {
		free(x);
		return NULL;
	}
	x->id = atomic_fetch_add(&sim.last_graph, 1) + 1;
	x->lanes = g->lanes > 1;
	sim_graph_order(g, x->nodes);
	for (; x->count < g->count; x->count++) {
		struct sim_node *n = sim_node_clone(x->nodes[x->count]);

		if (!n) {
			exec_free(x);
			return NULL;
		}
		n->graph = x->id;
		x->nodes[x->count] = n;
	}
	return x;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g)
{
	struct sim_context *ctx = sim_current();
	CUresult e = sim_ready();
	struct sim_exec *x;

	if (e)
		return e;
	if (!out || !g)
		return CUDA_ERROR_INVALID_VALUE;
	x = exec_new(g);
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The executable graph's own graph is the exec itself: same id. */
	for (uint32_t i = 0; i < x->count; i++) {
		const struct cupti_graph_data data = {
			.graph = x,
			.original_graph = g,
			.node = x->nodes[i],
			.original_node = g->nodes[x->nodes[i]->index],
			.node_type = x->nodes[i]->type,
			.graph_exec = x,
		};

		sim_resource(CBID_RES_GRAPHNODE_CLONED, ctx, NULL, &data);
	}
	sim_resource(CBID_RES_GRAPHEXEC_CREATED, ctx, NULL,
		     &(struct cupti_graph_data){ .graph = g, .graph_exec = x });
	*out = x;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
				     uint64_t flags)
{
	const struct {
		CUgraphExec *exec;
		CUgraph graph;
		uint64_t flags;
	} a = { exec, graph, flags };
	struct sim_call c;

	sim_call_enter(&c, 643, "cuGraphInstantiateWithFlags", &a);
	return sim_call_exit(&c, instantiate(exec, graph));
}

/* ---- launch ------------------------------------------------------------------------- */

static CUresult launch(CUgraphExec x, CUstream stream)
{
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (e)
		return e;
	s = sim_stream_of(stream);
	if (!x || !s)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(s))
		return CUDA_ERROR_NOT_SUPPORTED;
	e = sim_capture_implicit(s);
	if (e)
		return e;
	sim_stream_throttle(s);
	pthread_mutex_lock(&s->order);
	return sim_plan(s, x->nodes, x->count, x->id, x->lanes);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	const struct cu_graph_launch_params a = { exec, stream };
	struct sim_call c;

	sim_call_enter(&c, CBID_GRAPH_LAUNCH, "cuGraphLaunch", &a);
	return sim_call_exit(&c, launch(exec, stream));
}

/* ---- end -------------------------------------------------------------------------------- */

static CUresult graph_destroy(CUgraph g)
{
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	sim_resource(10, sim_current(), NULL,
		     &(struct cupti_graph_data){ .graph = g });
	sim_graph_free(g);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	struct sim_call c;

	sim_call_enter(&c, 517, "cuGraphDestroy", &graph);
	return sim_call_exit(&c, graph_destroy(graph));
}

static CUresult exec_destroy(CUgraphExec x)
{
	if (!x)
		return CUDA_ERROR_INVALID_VALUE;
	sim_resource(CBID_RES_GRAPHEXEC_DESTROY, sim_current(), NULL,
		     &(struct cupti_graph_data){ .graph = x, .graph_exec = x });
	exec_free(x);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct sim_call c;

	sim_call_enter(&c, 516, "cuGraphExecDestroy", &exec);
	return sim_call_exit(&c, exec_destroy(exec));
}
