#include "agent/activity.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/state.h"
#include "agent/targets.h"

#define EAGER_SLOTS 32768u /* launches remembered, by correlation */
#define FOUND_SLOTS 4096u  /* layers of graphs, a power of two */
#define TRIES_MAX 64u
#define STEP_LONGEST_NS 2000000000ull /* more is a pause, not a step */

/* What a layer of a graph says, for as long as a window is reduced. */
struct found {
	uint64_t node; /* of its anchor; 0: empty */
	int err;
	struct layer_rows_at at;
};

struct eager {
	struct launch launch[EAGER_SLOTS];
	struct found found[FOUND_SLOTS];
	/* Launches since the last layer was opened. */
	struct launch layer[LAYER_LAUNCHES];
	uint32_t n;
};

int activity_init(void)
{
	void *p;

	agent.last_exec = UINT32_MAX;
	if (agent.eager)
		return 0;
	p = mmap(NULL, sizeof(*agent.eager), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	agent.eager = p;
	return 0;
}

void activity_fini(void)
{
	if (agent.eager)
		munmap(agent.eager, sizeof(*agent.eager));
	agent.eager = NULL;
}

void activity_set_layers(uint32_t layers)
{
	if (layers > 1 && layers <= LAYERS_MAX)
		agent.moe_layers = layers;
}

/* ---- graphs ---------------------------------------------------------------- */

static void learn_exec(uint32_t i, struct graph_exec *e, struct exec_info *info)
{
	uint32_t id = atomic_load(&e->id), anchors;
	struct model_hint hint;

	activity_hint(&hint);
	if (info->id != id)
		*info = (struct exec_info){ .id = id };
	if (memcmp(&info->hint, &hint, sizeof(hint)) != 0)
		info->tries = 0;
	info->hint = hint;
	if (info->tries >= TRIES_MAX)
		return;
	info->tries = targets_learn(i) ? TRIES_MAX : info->tries + 1;
	anchors = atomic_load(&e->anchors);
	if (anchors > agent.moe_layers)
		activity_set_layers(anchors);
}

/* The time from one launch to the next is a step, if both are of the same
 * graph and nothing else with layers ran in between. */
static void time_step(const struct launch_entry *l, struct exec_info *info)
{
	uint64_t ns = l->time_ns - info->last_ns;

	if (agent.last_exec == l->exec && info->last_ns &&
	    l->time_ns > info->last_ns && ns < STEP_LONGEST_NS)
		budget_step(&agent.budget, l->exec, ns,
			    agent.window.stage == WINDOW_OPEN);
	info->last_ns = l->time_ns;
	agent.last_exec = l->exec;
}

/* Whole eager steps, as the host launches them. */
static void count_eager(uint64_t time_ns, uint64_t steps, uint64_t rows)
{
	static uint64_t last_ns;
	uint64_t ns = time_ns - last_ns;

	agent.tick.eager_steps += steps;
	agent.totals.steps += steps;
	agent.tick.eager_tokens += rows;
	agent.totals.padded += rows;
	if (steps == 1 && rows && time_ns > last_ns && ns < STEP_LONGEST_NS)
		budget_step(&agent.budget,
			    BUDGET_EAGER + 31 -
				    (uint32_t)__builtin_clz((uint32_t)rows),
			    ns, agent.window.stage == WINDOW_OPEN);
	last_ns = time_ns;
}

/* A step, whole, in pieces or eager: as many anchors as the model has layers. */
static void take_anchors(uint64_t time_ns, uint32_t anchors, uint64_t rows)
{
	uint64_t steps;

	agent.eager_anchors += anchors;
	agent.eager_rows += rows;
	if (!agent.moe_layers || agent.eager_anchors < agent.moe_layers)
		return;
	steps = agent.eager_anchors / agent.moe_layers;
	count_eager(time_ns, steps, agent.eager_rows / agent.moe_layers);
	agent.eager_anchors %= agent.moe_layers;
	agent.eager_rows = 0;
}

static void take_graph(const struct launch_entry *l)
{
	struct graph_exec *e = graph_exec_at(agent.map, l->exec);
	struct exec_info *info = &agent.exec[l->exec];
	uint32_t anchors;

	learn_exec(l->exec, e, info);
	anchors = atomic_load(&e->anchors);
	if (!anchors)
		anchors = reduce_graph_anchors(agent.reduce, info->id);
	if (!anchors)
		return;
	time_step(l, info);
	if (anchors < agent.moe_layers)
		take_anchors(l->time_ns, anchors,
			     (uint64_t)anchors * atomic_load(&e->rows));
	if (anchors != agent.moe_layers)
		return;
	/* What a draft model left over is no part of the next step. */
	agent.eager_anchors = agent.eager_rows = 0;
	agent.graphs_used = true;
	agent.tick.decode_steps++;
	agent.tick.padded_tokens += atomic_load(&e->rows);
	agent.totals.steps++;
	agent.totals.padded += atomic_load(&e->rows);
}

/* ---- eager work ------------------------------------------------------------ */

/* What the launches since the last layer was opened say together. */
static void close_layer(uint64_t time_ns)
{
	struct eager *e = agent.eager;
	struct model_hint hint;
	struct layer_rows_at at;

	activity_hint(&hint);
	if (e->n && !layer_read(agent.functions, e->layer, e->n, &hint, &at)) {
		activity_learn(&at);
		targets_note(&at, time_ns);
	}
	e->n = 0;
}

/* The layer's own number of rows, if its first kernel tells it. */
static void take_opener(const struct launch_entry *l)
{
	struct model_hint hint;
	struct layer_rows_at at;
	uint64_t rows = 0;

	activity_hint(&hint);
	if (!layer_read(agent.functions, &l->launch, 1, &hint, &at))
		rows = at.rows.rows;
	take_anchors(l->time_ns, 1, rows);
}

static void take_launch(const struct launch_entry *l)
{
	struct eager *e = agent.eager;

	agent.last_exec = UINT32_MAX;
	e->launch[l->launch.correlation % EAGER_SLOTS] = l->launch;
	e->layer[e->n] = l->launch;
	if (e->n && layer_length(agent.functions, e->layer, e->n + 1) <= e->n) {
		close_layer(l->time_ns);
		e->layer[0] = l->launch;
	}
	if (e->n + 1 < LAYER_LAUNCHES)
		e->n++;
	if (l->kind == LAUNCH_OPENS)
		take_opener(l);
}

void activity_drain(void)
{
	struct launch_entry l;

	/* Bounded: a host that launches faster than this loses entries. */
	for (uint32_t n = 0;
	     n < 4 * LAUNCH_LOG_SLOTS && launch_log_take(agent.log, &l); n++) {
		if (l.kind == LAUNCH_GRAPH)
			take_graph(&l);
		else
			take_launch(&l);
	}
	agent.tick.launches = atomic_load(&agent.launches);
	agent.totals.launches = agent.tick.launches;
	agent.tick.callback_ns = atomic_load(&agent.callback_ns);
}

/* ---- rows of a layer --------------------------------------------------------- */

void activity_hint(struct model_hint *out)
{
	const struct ring_control *c = &agent.ring.h->control;
	uint32_t experts =
		atomic_load_explicit(&c->experts, memory_order_relaxed);
	uint32_t top_k = atomic_load_explicit(&c->top_k, memory_order_relaxed);

	out->experts = experts <= EXPERTS_MAX ? experts : 0;
	out->top_k = top_k <= ROW_K_MAX ? top_k : 0;
	if (!out->experts)
		out->experts = atomic_load_explicit(&agent.experts,
						    memory_order_relaxed);
	if (!out->top_k)
		out->top_k = atomic_load_explicit(&agent.top_k,
						  memory_order_relaxed);
}

void activity_learn(const struct layer_rows_at *at)
{
	if (at->rows.what != ROWS_IDS)
		return;
	agent.experts = at->rows.experts;
	/* Fused shared experts are among the columns. */
	if (at->rows.wide == at->rows.experts)
		agent.top_k = at->rows.k;
}

void activity_forget_rows(void)
{
	memset(agent.eager->found, 0, sizeof(agent.eager->found));
}

static bool may_tell(unsigned klass)
{
	enum kernel_group g = kernel_class_group(klass);

	return g == GROUP_ROUTE || g == GROUP_EXPERT || g == GROUP_COMM;
}

/* The launches behind a layer's kernels, as far as they are known. */
static size_t gather(const struct reduce_event *ev, uint32_t n,
		     struct launch *out)
{
	size_t found = 0;

	for (uint32_t i = 0; i < n && found < LAYER_LAUNCHES; i++) {
		const struct launch *e;

		if (ev[i].graph != ev[0].graph || !may_tell(ev[i].klass))
			continue;
		e = &agent.eager->launch[ev[i].correlation % EAGER_SLOTS];
		if (ev[i].graph &&
		    !graph_map_find(agent.map, ev[i].graph_node, &out[found]))
			found++;
		else if (!ev[i].graph && e->correlation == ev[i].correlation)
			out[found++] = *e;
	}
	return found;
}

int activity_find_rows(void *arg, const struct reduce_event *ev, uint32_t n,
		       struct layer_rows_at *out)
{
	uint64_t node = ev[0].graph ? ev[0].graph_node : 0;
	struct found *f =
		&agent.eager->found[(node * 0x9fb21c651e98df25ull >> 40) %
				    FOUND_SLOTS];
	struct launch l[LAYER_LAUNCHES];
	struct model_hint hint;
	size_t launches;
	int err;

	(void)arg;
	if (node && f->node == node) {
		*out = f->at;
		return f->err;
	}
	activity_hint(&hint);
	launches = gather(ev, n, l);
	err = launches ? layer_read(agent.functions, l, launches, &hint, out)
		       : -ENOENT;
	if (node)
		*f = (struct found){ .node = node, .err = err };
	if (node && !err)
		f->at = *out;
	return err;
}
