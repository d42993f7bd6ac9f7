/*
 * cuda_graph_edit.c - changes to a captured graph before it is instantiated
 *
 * As far as copies between a node and what waits for it go.  A copy runs behind
 * its parent; it comes before what followed the parent only once an edge says
 * so, else it is the last to run, which a real device may do as well.
 */
#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>
#include <string.h>

#define FOLLOWERS_MAX 64u

/* ---- order ------------------------------------------------------------------- */

static uint32_t emit(const struct sim_graph *g, struct sim_node **out,
		     uint32_t n, struct sim_node *node)
{
	out[n++] = node;
	for (uint32_t i = 0; i < g->count; i++) {
		struct sim_node *c = g->nodes[i];

		if (c->inserted && c->ordered && c->parent == (int)node->index)
			n = emit(g, out, n, c);
	}
	return n;
}

/* Copies that others wait for are ordered, and so are those before them. */
static void settle_order(const struct sim_graph *g)
{
	for (uint32_t i = g->count; i-- > 0;) {
		const struct sim_node *n = g->nodes[i];

		if (n->inserted && n->ordered && n->parent >= 0)
			g->nodes[n->parent]->ordered = true;
	}
}

void sim_graph_order(const struct sim_graph *g, struct sim_node **out)
{
	bool late = simgpu_fault("late_graph_copies", NULL);
	uint32_t n = 0, from = g->count;

	for (uint32_t i = 0; i < g->count; i++)
		if (g->nodes[i]->inserted && from == g->count)
			from = i;
	if (!late)
		settle_order(g);
	for (uint32_t i = 0; i < from; i++)
		if (late || from == g->count)
			out[n++] = g->nodes[i];
		else
			n = emit(g, out, n, g->nodes[i]);
	for (uint32_t i = from; i < g->count; i++)
		if (late || !g->nodes[i]->ordered)
			out[n++] = g->nodes[i];
}

/* ---- calls --------------------------------------------------------------------- */

static CUresult add_copy(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
			 size_t n, const struct cuda_memcpy3d *k)
{
	struct sim_node node = { .type = NODE_MEMCPY, .after = { -1, -1 } };
	struct sim_node *made;

	if (simgpu_fault("no_graph_copies", NULL))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !g || !k || n != 1 || !after || after[0]->owner != g ||
	    k->from.type != CUDA_MEMORY_DEVICE ||
	    k->to.type != CUDA_MEMORY_DEVICE || k->height != 1 ||
	    k->depth != 1 ||
	    !sim_device_range(k->from.device, k->width_bytes) ||
	    !sim_device_range(k->to.device, k->width_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	node.inserted = true;
	node.parent = (int32_t)after[0]->index;
	node.lane = after[0]->lane;
	node.copy = (struct sim_copy){ .kind = COPY_DTOD,
				       .dst = k->to.device,
				       .src = k->from.device,
				       .bytes = k->width_bytes };
	made = sim_node_clone(&node);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!sim_graph_append(g, made)) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_resource(CBID_RES_GRAPHNODE_CREATED, sim_current(), NULL,
		     &(struct cupti_graph_data){ .graph = g,
						 .node = made,
						 .node_type = NODE_MEMCPY });
	*out = made;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
			      const CUgraphNode *after, size_t n,
			      const struct cuda_memcpy3d *copy, CUcontext ctx)
{
	struct sim_call c;

	sim_call_enter(&c, 502, "cuGraphAddMemcpyNode", NULL);
	return sim_call_exit(&c, ctx ? add_copy(node, graph, after, n, copy)
				     : CUDA_ERROR_INVALID_CONTEXT);
}

/* What waits for a node by itself: the next of its lane, and others' that were
 * told to. */
static size_t followers(const struct sim_node *n, struct sim_node **out)
{
	const struct sim_graph *g = n->owner;
	bool next = false;
	size_t found = 0;

	for (uint32_t i = n->index + 1; i < g->count && found < FOLLOWERS_MAX;
	     i++) {
		struct sim_node *f = g->nodes[i];
		bool same = f->lane == n->lane && !f->inserted && !next;

		if ((same && !n->inserted) || f->after[0] == (int)n->index ||
		    f->after[1] == (int)n->index ||
		    (f->inserted && f->parent == (int)n->index))
			out[found++] = f;
		next |= same;
	}
	return found;
}

static CUresult dependents(CUgraphNode node, CUgraphNode *out,
			   struct cuda_edge *edges, size_t *n)
{
	struct sim_node *all[FOLLOWERS_MAX];
	size_t found, room;

	if (!node || !node->owner || !n)
		return CUDA_ERROR_INVALID_VALUE;
	found = followers(node, all);
	room = out && *n < found ? *n : found;
	for (size_t i = 0; out && i < room; i++)
		out[i] = all[i];
	if (edges)
		memset(edges, 0, room * sizeof(*edges));
	*n = found;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out,
				      size_t *n)
{
	struct sim_call c;

	sim_call_enter(&c, 509, "cuGraphNodeGetDependentNodes", NULL);
	return sim_call_exit(&c, dependents(node, out, NULL, n));
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out,
					 struct cuda_edge *edges, size_t *n)
{
	struct sim_call c;

	sim_call_enter(&c, 714, "cuGraphNodeGetDependentNodes_v2", NULL);
	return sim_call_exit(&c, dependents(node, out, edges, n));
}

static CUresult add_edge(CUgraphNode from, CUgraphNode to)
{
	struct sim_node *parent;

	if (!from || !to || !from->inserted || from->owner != to->owner)
		return CUDA_ERROR_NOT_SUPPORTED;
	from->ordered = true;
	for (parent = from; parent->inserted;)
		parent = from->owner->nodes[parent->parent];
	for (int k = 0; k < 2; k++)
		if (to->after[k] == (int)parent->index)
			to->after[k] = (int32_t)from->index;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
				const CUgraphNode *to, size_t n)
{
	struct sim_call c;
	CUresult e = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	sim_call_enter(&c, 510, "cuGraphAddDependencies", NULL);
	for (size_t i = 0; i < n && !e; i++)
		e = add_edge(from[i], to[i]);
	return sim_call_exit(&c, e);
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
	struct sim_call c;
	CUresult e = CUDA_ERROR_NOT_SUPPORTED;

	sim_call_enter(&c, 512, "cuGraphDestroyNode", NULL);
	if (node && node->inserted && node->owner &&
	    node->index + 1 == node->owner->count) {
		node->owner->count--;
		free(node);
		e = CUDA_SUCCESS;
	}
	return sim_call_exit(&c, e);
}
