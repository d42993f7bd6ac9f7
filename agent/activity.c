#include "agent/activity.h"

#include <errno.h>
#include <sys/mman.h>

#include "agent/state.h"
#include "agent/targets.h"

#define EAGER_SLOTS 32768u /* routing launches remembered, by correlation */
#define TRIES_MAX 64u
#define STEP_LONGEST_NS 2000000000ull /* more is a pause, not a step */

struct eager {
	struct launch launch, align;
};

static uint32_t last_routing; /* slot of the last routing launch */

int activity_init(void)
{
	void *p;

	agent.last_exec = UINT32_MAX;
	last_routing = 0;
	if (agent.eager)
		return 0;
	p = mmap(NULL, EAGER_SLOTS * sizeof(*agent.eager),
		 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	agent.eager = p;
	return 0;
}

void activity_fini(void)
{
	if (agent.eager)
		munmap(agent.eager, EAGER_SLOTS * sizeof(*agent.eager));
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

	if (info->id != id)
		*info = (struct exec_info){ .id = id };
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

static void take_routing(const struct launch_entry *l)
{
	struct moe_launch m;
	uint64_t rows = 0;

	agent.last_exec = UINT32_MAX;
	last_routing = l->launch.correlation % EAGER_SLOTS;
	agent.eager[last_routing] = (struct eager){ .launch = l->launch };
	if (launch_read(agent.functions, &l->launch, NULL, &m) == 0) {
		rows = m.rows;
		targets_note(&m);
	}
	take_anchors(l->time_ns, 1, rows);
}

static void take_align(const struct launch_entry *l)
{
	struct eager *e = &agent.eager[last_routing];
	struct moe_launch m;

	e->align = l->launch;
	if (launch_read(agent.functions, &e->launch, &e->align, &m) == 0)
		targets_note(&m);
}

void activity_drain(void)
{
	struct launch_entry l;

	/* Bounded: a host that launches faster than this loses entries. */
	for (uint32_t n = 0;
	     n < 4 * LAUNCH_LOG_SLOTS && launch_log_take(agent.log, &l); n++) {
		if (l.kind == LAUNCH_GRAPH)
			take_graph(&l);
		else if (l.kind == LAUNCH_ROUTING)
			take_routing(&l);
		else
			take_align(&l);
	}
	agent.tick.launches = atomic_load(&agent.launches);
	agent.totals.launches = agent.tick.launches;
	agent.tick.callback_ns = atomic_load(&agent.callback_ns);
}

int activity_find_launch(void *arg, const struct reduce_event *anchor,
			 struct moe_launch *out)
{
	struct launch l, align;
	const struct eager *e = &agent.eager[anchor->correlation % EAGER_SLOTS];
	int err;

	(void)arg;
	if (anchor->graph) {
		err = graph_map_find(agent.map, anchor->graph_node, &l, &align);
		if (err)
			return err;
		return launch_read(agent.functions, &l,
				   align.args ? &align : NULL, out);
	}
	if (e->launch.correlation != anchor->correlation)
		return -ENOENT;
	return launch_read(agent.functions, &e->launch,
			   e->align.args ? &e->align : NULL, out);
}
