#include "agent/exact.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/activity.h"
#include "agent/publish.h"
#include "agent/state.h"

#define GRAPH_LAUNCHES (LAYERS_MAX * LAYER_LAUNCHES)
#define DEPENDENTS_MAX 16u
#define POISON 0xa5   /* no id, and no count */
#define PROOFS 24u    /* cells that must agree */
#define BAD_MOST 100u /* one stage in so many may hold nonsense */

/* The host may end captures in several threads at once: who comes second leaves
 * its graph as it is. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct launch launch[GRAPH_LAUNCHES];
	void *node[GRAPH_LAUNCHES];
} work;

static void fail(enum exact_reason reason, int detail)
{
	struct exact *x = &agent.exact;

	atomic_store(&x->reason, (int)reason);
	atomic_store(&x->detail, detail);
	atomic_store(&x->state, EXACT_FAILED);
}

/* ---- a copy in a graph ------------------------------------------------------ */

/* The nodes that wait for this one; false: more than fit, or of a kind that a
 * plain edge would change. */
static bool dependents_of(void *node, void **out, size_t *n)
{
	struct cuda_edge edge[DEPENDENTS_MAX], none = { 0 };
	int err;

	*n = 0;
	if (agent.cuda.graph_dependents_v2) {
		err = agent.cuda.graph_dependents_v2(node, NULL, NULL, n);
		if (err || *n > DEPENDENTS_MAX)
			return false;
		if (*n)
			err = agent.cuda.graph_dependents_v2(node, out, edge,
							     n);
		for (size_t i = 0; i < *n && !err; i++)
			if (memcmp(&edge[i], &none, sizeof(none)) != 0)
				return false;
		return err == 0;
	}
	err = agent.cuda.graph_dependents(node, NULL, n);
	if (err || *n > DEPENDENTS_MAX)
		return false;
	return !*n || !agent.cuda.graph_dependents(node, out, n);
}

static int add_copy(void *graph, void *after, uint64_t from, uint64_t to,
		    size_t bytes, void **node)
{
	const struct cuda_memcpy3d copy = {
		.from = { .type = CUDA_MEMORY_DEVICE,
			  .device = from,
			  .pitch = bytes,
			  .height = 1 },
		.to = { .type = CUDA_MEMORY_DEVICE,
			.device = to,
			.pitch = bytes,
			.height = 1 },
		.width_bytes = bytes,
		.height = 1,
		.depth = 1,
	};

	return agent.cuda.graph_add_copy(node, graph, &after, 1, &copy,
					 atomic_load(&agent.exact.context));
}

/* Copies of all parts, one after the other, between a kernel and what waits for
 * it.  On failure the graph is as it was. */
static int insert(void *graph, void *kernel, const struct moe_launch *m,
		  uint64_t stage)
{
	void *next[DEPENDENTS_MAX], *from[DEPENDENTS_MAX], *made[ROW_PARTS];
	size_t n, copies = 0;
	void *last = kernel;
	int err = 0;

	if (!dependents_of(kernel, next, &n))
		return -ENOTSUP;
	for (unsigned i = 0; i < ROW_PARTS && !err; i++) {
		size_t bytes = row_part_bytes(m, i);

		if (!bytes)
			continue;
		err = add_copy(graph, last, m->data[i],
			       stage + row_part_offset(m, i), bytes,
			       &made[copies]);
		if (!err)
			last = made[copies++];
	}
	for (size_t i = 0; i < n; i++)
		from[i] = last;
	if (!err && n)
		err = agent.cuda.graph_add_edges(graph, from, next, n);
	while (err && copies)
		agent.cuda.graph_destroy_node(made[--copies]);
	return err;
}

/* ---- a graph ------------------------------------------------------------------ */

static size_t stage_bytes(const struct layer_rows_at *at)
{
	return (row_part_offset(&at->rows, ROW_PARTS) + STAGE_ALIGN - 1) &
	       ~(size_t)(STAGE_ALIGN - 1);
}

/* Call fn for each layer that is understood; the sum of what it returns, or its
 * first error. */
static int64_t each_layer(size_t n, void *graph,
			  int64_t (*fn)(void *graph, size_t settle,
					const struct layer_rows_at *at))
{
	struct model_hint hint;
	int64_t sum = 0, got;
	size_t length;

	activity_hint(&hint);
	for (size_t i = 0; i < n; i += length) {
		struct layer_rows_at at;

		length = layer_length(agent.functions, work.launch + i, n - i);
		if (layer_read(agent.functions, work.launch + i, length, &hint,
			       &at))
			continue;
		got = fn(graph, i + at.settle, &at);
		if (got < 0)
			return got;
		sum += got;
	}
	return sum;
}

static int64_t measure(void *graph, size_t settle,
		       const struct layer_rows_at *at)
{
	(void)graph;
	(void)settle;
	return (int64_t)stage_bytes(at);
}

static int64_t place(void *graph, size_t settle, const struct layer_rows_at *at)
{
	struct exact *x = &agent.exact;
	uint64_t stage = x->base + x->used, id;
	int err;

	if (agent.cupti.graph_node_id(work.node[settle], &id) != CUPTI_OK)
		return 0;
	err = insert(graph, work.node[settle], &at->rows, stage);
	if (err == -ENOTSUP) {
		atomic_fetch_add(&x->left, 1);
		return 0;
	}
	if (err)
		return -err;
	graph_map_set_stage(agent.map, id, stage);
	x->used += stage_bytes(at);
	atomic_fetch_add(&x->layers, 1);
	return 1;
}

static void place_graph(void *graph)
{
	struct exact *x = &agent.exact;
	int64_t bytes, placed;
	uint32_t id;
	size_t n;

	if (agent.cupti.graph_id(graph, &id) != CUPTI_OK)
		return;
	n = graph_map_list(agent.map, id, work.launch, work.node,
			   GRAPH_LAUNCHES);
	bytes = each_layer(n, graph, measure);
	if (!n)
		return;
	if (!bytes || (size_t)bytes > SAMPLER_PINNED_BYTES) {
		atomic_fetch_add(&x->left, 1);
		return;
	}
	if (x->used + (size_t)bytes > STAGE_BYTES)
		x->used = 0;
	placed = each_layer(n, graph, place);
	if (placed < 0)
		fail(EXACT_CUDA_ERROR, (int)-placed);
	else if (placed)
		atomic_fetch_add(&x->graphs, 1);
}

void exact_place(const struct cupti_callback_data *d)
{
	const struct cu_end_capture_params *p = d->function_params;
	const int *result = d->return_value;
	struct exact *x = &agent.exact;
	int state = atomic_load_explicit(&x->state, memory_order_acquire);
	int mode = CUDA_CAPTURE_RELAXED;

	if ((state != EXACT_PLACING && state != EXACT_PROVEN) ||
	    !atomic_load_explicit(&x->wanted, memory_order_relaxed) ||
	    d->site != CUPTI_EXIT || !result || *result || !p || !p->graph ||
	    !*p->graph || d->context != atomic_load(&x->context) ||
	    !agent.cupti.graph_id || !agent.cupti.graph_node_id)
		return;
	if (pthread_mutex_trylock(&lock)) {
		atomic_fetch_add(&x->left, 1);
		return;
	}
	/* Another thread's capture must not be spoilt. */
	agent.cuda.exchange_capture_mode(&mode);
	functions_validate_now(agent.functions, &agent.cuda);
	place_graph(*p->graph);
	agent.cuda.exchange_capture_mode(&mode);
	pthread_mutex_unlock(&lock);
}

/* ---- the agent's thread --------------------------------------------------------- */

static bool has_calls(void)
{
	const struct cuda_api *c = &agent.cuda;

	return c->mem_alloc && c->memset_d8 && c->graph_add_copy &&
	       (c->graph_dependents || c->graph_dependents_v2) &&
	       c->graph_add_edges && c->graph_destroy_node &&
	       c->exchange_capture_mode;
}

static void tell(void)
{
	struct exact *x = &agent.exact;
	int state = atomic_load(&x->state);
	static const char *const why[] = {
		[EXACT_NO_CALLS] = "this driver cannot change graphs",
		[EXACT_NO_MEMORY] = "no device memory for it",
		[EXACT_CUDA_ERROR] = "a graph took no copy",
		[EXACT_DIFFERS] = "a copy in a graph differs from the buffer",
		[EXACT_NO_ROWS] = "a copy in a graph holds no rows",
	};

	if (state == x->told)
		return;
	x->told = state;
	if (state == EXACT_PROVEN)
		publish_text(TEXT_INFO,
			     "rows: exact; %u layers of %u graphs keep them "
			     "(%u left out)",
			     atomic_load(&x->layers), atomic_load(&x->graphs),
			     atomic_load(&x->left));
	else if (state == EXACT_FAILED)
		publish_text(TEXT_WARNING, "rows: sampled, not exact: %s (%d)",
			     why[atomic_load(&x->reason)],
			     atomic_load(&x->detail));
}

void exact_prepare(bool wanted)
{
	struct exact *x = &agent.exact;
	int err;

	atomic_store(&x->wanted, wanted);
	if (wanted)
		tell();
	if (!wanted || atomic_load(&x->state) != EXACT_OFF || !agent.met)
		return;
	if (!has_calls()) {
		fail(EXACT_NO_CALLS, 0);
		return;
	}
	err = agent.cuda.mem_alloc(&x->base, STAGE_BYTES);
	if (err) {
		fail(EXACT_NO_MEMORY, err);
		return;
	}
	agent.cuda.memset_d8(x->base, POISON, STAGE_BYTES);
	atomic_store(&x->context, agent.met);
	atomic_store_explicit(&x->state, EXACT_PLACING, memory_order_release);
}

void exact_judge(const struct rows_result *rows)
{
	struct exact *x = &agent.exact;
	int state = atomic_load(&x->state);

	if (state != EXACT_PLACING && state != EXACT_PROVEN)
		return;
	if (rows->differ)
		fail(EXACT_DIFFERS, (int)rows->differ);
	else if (rows->bad_stages * BAD_MOST > rows->stages)
		fail(EXACT_NO_ROWS, (int)rows->bad_stages);
	x->agree += rows->agree;
	if (state == EXACT_PLACING && x->agree >= PROOFS &&
	    atomic_load(&x->state) == EXACT_PLACING)
		atomic_store(&x->state, EXACT_PROVEN);
	tell();
}

bool exact_is_proven(void)
{
	return atomic_load(&agent.exact.state) == EXACT_PROVEN;
}

/* Mostly the buffers while stages have to be proven; later now and then. */
bool exact_turn(uint64_t random)
{
	int state = atomic_load(&agent.exact.state);

	return (state == EXACT_PROVEN && (random >> 20 & 7) != 0) ||
	       (state == EXACT_PLACING && (random >> 20 & 3) == 0);
}
