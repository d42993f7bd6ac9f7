#include "cupti/graph_map.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define BUCKETS (1u << 14)

struct node {
	uint64_t id;
	struct launch launch;
	uint32_t chain; /* in the hash bucket, or in the free list */
	uint32_t next;  /* in its graph, in order of creation */
	void *handle;   /* NULL: a copy */
};

struct graph {
	uint32_t id;
	uint32_t chain;
	uint32_t first, last; /* routing nodes */
	uint32_t kernels;
	bool exec;  /* holds copies */
	bool lossy; /* a node found no room */
};

struct graph_map {
	pthread_mutex_t lock;
	size_t bytes;
	uint32_t nodes, graphs;
	uint32_t free_node, free_graph;
	uint32_t held, overflow;
	_Atomic uint32_t execs_lost;
	uint32_t node_bucket[BUCKETS], graph_bucket[BUCKETS];
	struct graph_exec exec[GRAPH_EXECS_MAX];
	struct graph *graph;
	struct node node[];
};

static uint32_t bucket(uint64_t id)
{
	return (uint32_t)((id * 0x9fb21c651e98df25ull) >> 50);
}

struct graph_map *graph_map_new(uint32_t nodes, uint32_t graphs)
{
	size_t node_bytes = nodes * sizeof(struct node);
	size_t bytes = sizeof(struct graph_map) + node_bytes +
		       graphs * sizeof(struct graph);
	struct graph_map *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->bytes = bytes;
	m->graph = (struct graph *)((char *)m->node + node_bytes);
	m->free_node = m->free_graph = NONE;
	memset(m->node_bucket, 0xff, sizeof(m->node_bucket));
	memset(m->graph_bucket, 0xff, sizeof(m->graph_bucket));
	m->nodes = nodes;
	m->graphs = graphs;
	return m;
}

void graph_map_free(struct graph_map *m)
{
	if (!m)
		return;
	pthread_mutex_destroy(&m->lock);
	munmap(m, m->bytes);
}

/* ---- pools: untouched entries first, so that memory is used as needed ---- */

static uint32_t take_node(struct graph_map *m)
{
	uint32_t i = m->free_node;

	if (i != NONE) {
		m->free_node = m->node[i].chain;
	} else if (m->nodes) {
		i = --m->nodes;
	} else {
		m->overflow++;
		return NONE;
	}
	m->held++;
	return i;
}

static uint32_t take_graph(struct graph_map *m)
{
	uint32_t i = m->free_graph;

	if (i != NONE)
		m->free_graph = m->graph[i].chain;
	else if (m->graphs)
		i = --m->graphs;
	else
		m->overflow++;
	return i;
}

static uint32_t find_node(const struct graph_map *m, uint64_t id)
{
	uint32_t i = m->node_bucket[bucket(id)];

	while (i != NONE && m->node[i].id != id)
		i = m->node[i].chain;
	return i;
}

static uint32_t find_graph(const struct graph_map *m, uint32_t id)
{
	uint32_t i = m->graph_bucket[bucket(id)];

	while (i != NONE && m->graph[i].id != id)
		i = m->graph[i].chain;
	return i;
}

static struct graph *get_graph(struct graph_map *m, uint32_t id)
{
	uint32_t i = find_graph(m, id);
	uint32_t *head = &m->graph_bucket[bucket(id)];

	if (i != NONE)
		return &m->graph[i];
	i = take_graph(m);
	if (i == NONE)
		return NULL;
	m->graph[i] = (struct graph){
		.id = id, .chain = *head, .first = NONE, .last = NONE
	};
	*head = i;
	return &m->graph[i];
}

/* ---- nodes --------------------------------------------------------------- */

static void add_node(struct graph_map *m, struct graph *g, uint64_t id,
		     const struct launch *l, void *handle)
{
	uint32_t *head = &m->node_bucket[bucket(id)];
	uint32_t i = take_node(m);

	if (i == NONE) {
		g->lossy = true;
		return;
	}
	m->node[i] = (struct node){ .id = id,
				    .launch = *l,
				    .chain = *head,
				    .next = NONE,
				    .handle = handle };
	*head = i;
	if (g->last == NONE)
		g->first = i;
	else
		m->node[g->last].next = i;
	g->last = i;
}

static uint32_t graph_of(uint64_t node)
{
	return (uint32_t)(node >> 32);
}

void graph_map_created(struct graph_map *m, uint64_t node, void *handle,
		       const struct launch *l)
{
	struct graph *g;

	pthread_mutex_lock(&m->lock);
	g = get_graph(m, graph_of(node));
	if (g) {
		g->kernels++;
		if (l && find_node(m, node) == NONE)
			add_node(m, g, node, l, handle);
	}
	pthread_mutex_unlock(&m->lock);
}

void graph_map_cloned(struct graph_map *m, uint64_t node, uint64_t original)
{
	struct graph *g;
	uint32_t from;

	pthread_mutex_lock(&m->lock);
	g = get_graph(m, graph_of(node));
	if (g) {
		g->kernels++;
		g->exec = true;
		from = find_node(m, original);
		if (from != NONE && find_node(m, node) == NONE) {
			struct launch l = m->node[from].launch;

			add_node(m, g, node, &l, NULL);
		}
	}
	pthread_mutex_unlock(&m->lock);
}

void graph_map_copied(struct graph_map *m, uint32_t from, uint32_t to)
{
	uint32_t f, i;
	struct graph *g;

	pthread_mutex_lock(&m->lock);
	f = find_graph(m, from);
	g = f == NONE || from == to ? NULL : get_graph(m, to);
	if (g && !g->kernels) {
		g->exec = true;
		g->kernels = m->graph[f].kernels;
		g->lossy = m->graph[f].lossy;
		for (i = m->graph[f].first; i != NONE; i = m->node[i].next) {
			struct node n = m->node[i];

			add_node(m, g, (uint64_t)to << 32 | (uint32_t)n.id,
				 &n.launch, NULL);
		}
	}
	pthread_mutex_unlock(&m->lock);
}

static void drop_node(struct graph_map *m, uint32_t i)
{
	uint32_t *link = &m->node_bucket[bucket(m->node[i].id)];

	while (*link != i)
		link = &m->node[*link].chain;
	*link = m->node[i].chain;
	m->node[i].chain = m->free_node;
	m->free_node = i;
	m->held--;
}

void graph_map_forget(struct graph_map *m, uint32_t graph)
{
	uint32_t *link = &m->graph_bucket[bucket(graph)];
	uint32_t g, i, next;

	pthread_mutex_lock(&m->lock);
	while (*link != NONE && m->graph[*link].id != graph)
		link = &m->graph[*link].chain;
	g = *link;
	if (g != NONE) {
		*link = m->graph[g].chain;
		for (i = m->graph[g].first; i != NONE; i = next) {
			next = m->node[i].next;
			drop_node(m, i);
		}
		m->graph[g].chain = m->free_graph;
		m->graph[g].exec = false;
		m->free_graph = g;
	}
	pthread_mutex_unlock(&m->lock);
}

int graph_map_find(struct graph_map *m, uint64_t node, struct launch *l)
{
	int err = -ENOENT;
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	i = find_node(m, node);
	if (i != NONE) {
		*l = m->node[i].launch;
		err = 0;
	}
	pthread_mutex_unlock(&m->lock);
	return err;
}

size_t graph_map_list(struct graph_map *m, uint32_t graph, struct launch *l,
		      void **handles, size_t max)
{
	size_t n = 0;
	uint32_t g, i;

	pthread_mutex_lock(&m->lock);
	g = find_graph(m, graph);
	i = g == NONE ? NONE : m->graph[g].first;
	for (; i != NONE && n < max; i = m->node[i].next, n++) {
		l[n] = m->node[i].launch;
		if (handles)
			handles[n] = m->node[i].handle;
	}
	pthread_mutex_unlock(&m->lock);
	return n;
}

void graph_map_set_stage(struct graph_map *m, uint64_t node, uint64_t stage)
{
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	i = find_node(m, node);
	if (i != NONE)
		m->node[i].launch.stage = stage;
	pthread_mutex_unlock(&m->lock);
}

uint32_t graph_map_kernels(struct graph_map *m, uint32_t graph)
{
	uint32_t g, kernels;

	pthread_mutex_lock(&m->lock);
	g = find_graph(m, graph);
	kernels = g == NONE ? 0 : m->graph[g].kernels;
	pthread_mutex_unlock(&m->lock);
	return kernels;
}

bool graph_map_knows(struct graph_map *m, uint32_t graph)
{
	uint32_t g;
	bool knows;

	pthread_mutex_lock(&m->lock);
	g = find_graph(m, graph);
	knows = g != NONE && m->graph[g].kernels && !m->graph[g].lossy;
	pthread_mutex_unlock(&m->lock);
	return knows;
}

void graph_map_count(struct graph_map *m, struct graph_map_counts *out)
{
	struct graph_map_counts c = { 0 };

	pthread_mutex_lock(&m->lock);
	for (uint32_t b = 0; b < BUCKETS; b++) {
		uint32_t g = m->graph_bucket[b];

		for (; g != NONE; g = m->graph[g].chain)
			if (m->graph[g].exec)
				c.kernel_nodes += m->graph[g].kernels;
	}
	c.routing_nodes = m->held;
	c.overflow = m->overflow;
	c.execs_lost =
		atomic_load_explicit(&m->execs_lost, memory_order_relaxed);
	pthread_mutex_unlock(&m->lock);
	for (uint32_t i = 0; i < GRAPH_EXECS_MAX; i++)
		c.execs += atomic_load_explicit(&m->exec[i].alive,
						memory_order_relaxed);
	*out = c;
}

/* ---- executable graphs ---------------------------------------------------- */

/* In place of a handle while its slot is being made ready. */
#define BUSY ((uintptr_t)2)
#define GONE ((uintptr_t)1)
#define BUSY_SPINS 1000u

static uint32_t home_of(uintptr_t handle)
{
	return bucket(handle) % GRAPH_EXECS_MAX;
}

/* Once it is ready; BUSY if its maker has been stopped in the middle. */
static uintptr_t handle_of(struct graph_exec *e)
{
	uintptr_t h = atomic_load_explicit(&e->handle, memory_order_acquire);

	for (uint32_t n = 0; h == BUSY && n < BUSY_SPINS; n++)
		h = atomic_load_explicit(&e->handle, memory_order_acquire);
	return h;
}

/* A slot whose graph has come back meanwhile is not taken: its handle has lost
 * the bit that `old` has. */
static bool claim(struct graph_exec *e, uintptr_t old, uintptr_t handle)
{
	if (!atomic_compare_exchange_strong(&e->handle, &old, BUSY))
		return false;
	atomic_store_explicit(&e->alive, false, memory_order_relaxed);
	atomic_store_explicit(&e->id, 0, memory_order_relaxed);
	atomic_store_explicit(&e->group, 0, memory_order_relaxed);
	atomic_store_explicit(&e->rows, 0, memory_order_relaxed);
	atomic_store_explicit(&e->anchors, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->changes, 1, memory_order_relaxed);
	atomic_store_explicit(&e->handle, handle, memory_order_release);
	return true;
}

uint32_t graph_exec_find(struct graph_map *m, void *handle)
{
	uintptr_t h = (uintptr_t)handle;
	uint32_t i = home_of(h);

	for (uint32_t n = 0; h && n < GRAPH_EXEC_PROBES; n++) {
		uintptr_t seen = handle_of(&m->exec[i]);

		if (seen == h)
			return i;
		if (!seen)
			break;
		i = (i + 1) % GRAPH_EXECS_MAX;
	}
	return UINT32_MAX;
}

/* Where a new one may go: the slot that it had before, the first one of a
 * destroyed graph, or the first empty one.  UINT32_MAX none; *old: what is
 * there now. */
static uint32_t room_for(struct graph_map *m, uintptr_t handle, uintptr_t *old)
{
	uint32_t i = home_of(handle), room = UINT32_MAX;

	*old = 0;
	for (uint32_t n = 0; n < GRAPH_EXEC_PROBES; n++) {
		uintptr_t seen = handle_of(&m->exec[i]);
		bool free = !seen || seen & GONE,
		     same = seen == (handle | GONE);

		if (same || (free && room == UINT32_MAX)) {
			room = i;
			*old = seen;
		}
		if (same || !seen)
			break;
		i = (i + 1) % GRAPH_EXECS_MAX;
	}
	return room;
}

uint32_t graph_exec_get(struct graph_map *m, void *handle)
{
	uintptr_t h = (uintptr_t)handle, old;
	uint32_t i;

	if (!h || h == BUSY || h & GONE)
		return UINT32_MAX;
	/* More than one turn only if another thread takes the same slot. */
	for (uint32_t turn = 0; turn < GRAPH_EXEC_PROBES; turn++) {
		i = graph_exec_find(m, handle);
		if (i != UINT32_MAX)
			return i;
		i = room_for(m, h, &old);
		if (i == UINT32_MAX)
			break;
		if (claim(&m->exec[i], old, h))
			return i;
	}
	atomic_fetch_add_explicit(&m->execs_lost, 1, memory_order_relaxed);
	return UINT32_MAX;
}

void graph_exec_end(struct graph_map *m, uint32_t index)
{
	struct graph_exec *e = &m->exec[index];

	atomic_store_explicit(&e->alive, false, memory_order_relaxed);
	atomic_fetch_or_explicit(&e->handle, GONE, memory_order_release);
}

struct graph_exec *graph_exec_at(struct graph_map *m, uint32_t index)
{
	return &m->exec[index];
}

uint32_t graph_exec_of_id(struct graph_map *m, uint32_t id)
{
	for (uint32_t i = 0; id && i < GRAPH_EXECS_MAX; i++)
		if (atomic_load_explicit(&m->exec[i].alive,
					 memory_order_relaxed) &&
		    atomic_load_explicit(&m->exec[i].id,
					 memory_order_relaxed) == id)
			return i;
	return UINT32_MAX;
}
