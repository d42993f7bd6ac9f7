/*
 * graph_map.h - which routing launch stands behind a node of a CUDA graph
 *
 * While a stream is captured, a launch makes a node in the template graph
 * (GRAPHNODE_CREATED between ENTER and EXIT of the launch); instantiation
 * copies it into the executable graph (GRAPHNODE_CLONED); kernel records name
 * the copy.  Only launches of kernels that the adapters know are kept, other
 * kernel nodes are counted.  The high half of a node id is its graph's id, which for an
 * executable graph is the `graph` of a kernel record; a copy keeps the low half,
 * so that where CUPTI tells of no copies, the template's nodes tell them.
 *
 * All memory is made at the start.  What finds no room is counted.  Any thread:
 * a mutex protects the map, and is never held over a call out of it.  The table
 * of executable graphs is read without a lock, from launch callbacks.
 */
#ifndef MOETOP_CUPTI_GRAPH_MAP_H
#define MOETOP_CUPTI_GRAPH_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/adapters.h"

#define GRAPH_EXECS_MAX 2048u /* executable graphs, a power of two */
#define GRAPH_EXEC_PROBES 64u /* slots that are looked at for one of them */

struct graph_map;

/*
 * One executable graph.  Its index stays good until the graph is destroyed; then
 * another may take the slot over.
 */
struct graph_exec {
	_Atomic uintptr_t handle; /* low bit: it was destroyed */
	_Atomic uint32_t id;      /* as in kernel records; 0 unknown */
	_Atomic uint32_t group;   /* graph id of its nodes; 0 unknown */
	_Atomic uint32_t rows;    /* padded batch of its first anchor; 0: ? */
	_Atomic uint32_t anchors; /* routing launches in it */
	/* Goes up when this becomes another graph or gets other arguments: what
	 * was learnt of it before then holds no longer. */
	_Atomic uint32_t changes;
	_Atomic bool alive;
};

struct graph_map_counts {
	uint32_t execs;         /* alive */
	uint32_t kernel_nodes;  /* seen in executable graphs that are alive */
	uint32_t routing_nodes; /* held, templates included */
	uint32_t overflow;      /* nodes and graphs that found no room */
	uint32_t execs_lost;    /* looks at executable graphs without a slot */
};

/* Room for `nodes` routing nodes (templates and copies) and `graphs` graphs.
 * NULL: no memory. */
struct graph_map *graph_map_new(uint32_t nodes, uint32_t graphs);
void graph_map_free(struct graph_map *m);

/* A kernel node was made; l is its launch or NULL.  handle: the node itself,
 * good while its template is. */
void graph_map_created(struct graph_map *m, uint64_t node, void *handle,
		       const struct launch *l);

/* A node was copied. */
void graph_map_cloned(struct graph_map *m, uint64_t node, uint64_t original);

/* An executable graph was made of a template.  Where no node of it was seen
 * being copied, the template's are taken for it by the low halves of their ids. */
void graph_map_copied(struct graph_map *m, uint32_t from, uint32_t to);

/* A template or executable graph is gone, or has other arguments now. */
void graph_map_forget(struct graph_map *m, uint32_t graph);

/* The launch of a node.  0 or -ENOENT. */
int graph_map_find(struct graph_map *m, uint64_t node, struct launch *l);

/*
 * Copy the launches of a graph in capture order, and the handles of their nodes
 * (may be NULL; NULL in copies).  Returns how many (at most max).
 */
size_t graph_map_list(struct graph_map *m, uint32_t graph, struct launch *l,
		      void **handles, size_t max);

/* The graph of this node, and all graphs made of it from now on, copy its rows
 * to `stage`. */
void graph_map_set_stage(struct graph_map *m, uint64_t node, uint64_t stage);

/* Kernel nodes seen in a graph; 0 unknown. */
uint32_t graph_map_kernels(struct graph_map *m, uint32_t graph);

/* Is every kernel node of the graph known, as made since the agent is there?
 * false for a graph of before, for one whose arguments have changed, and for
 * one of which a node found no room. */
bool graph_map_knows(struct graph_map *m, uint32_t graph);

void graph_map_count(struct graph_map *m, struct graph_map_counts *out);

/* The slot of an executable graph, made if new, with all members 0 then;
 * UINT32_MAX when there is none near its place. */
uint32_t graph_exec_get(struct graph_map *m, void *handle);
/* The same for one that must be there: UINT32_MAX when it is not. */
uint32_t graph_exec_find(struct graph_map *m, void *handle);
/* It was destroyed: its slot may be taken over. */
void graph_exec_end(struct graph_map *m, uint32_t index);
struct graph_exec *graph_exec_at(struct graph_map *m, uint32_t index);
/* The slot of an id; UINT32_MAX when no living graph has it. */
uint32_t graph_exec_of_id(struct graph_map *m, uint32_t id);

#endif
