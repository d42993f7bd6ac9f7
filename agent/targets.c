#include "agent/targets.h"

#include <errno.h>
#include <sys/mman.h>

#include "agent/state.h"

/* Work launched longer ago is over, and its buffers may go back any time: a
 * copy from memory that is no longer mapped could end the host. */
#define WORK_LONGEST_NS 500000000ull

struct target {
	_Atomic uint32_t version; /* odd while it is written */
	uint32_t graph;           /* id of the graph it was made for */
	uint32_t n;
	struct moe_launch launch[TARGETS_MAX];
};

int targets_init(void)
{
	void *p;

	if (agent.targets)
		return 0;
	p = mmap(NULL, GRAPH_EXECS_MAX * sizeof(*agent.targets),
		 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	agent.targets = p;
	return 0;
}

void targets_fini(void)
{
	if (agent.targets)
		munmap(agent.targets, GRAPH_EXECS_MAX * sizeof(*agent.targets));
	agent.targets = NULL;
}

static void add_target(struct target *t, const struct moe_launch *l)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->launch[i].ids == l->ids && t->launch[i].rows == l->rows)
			return;
	if (t->n < TARGETS_MAX && l->k && l->experts)
		t->launch[t->n++] = *l;
}

void targets_note(const struct moe_launch *l)
{
	if (l->experts)
		agent.experts = l->experts;
	if (l->k)
		agent.top_k = l->k;
}

/* 0, or -EAGAIN while a kernel is not validated. */
static int read_graph(struct target *t, uint32_t group, uint32_t *rows,
		      uint32_t *anchors)
{
	static struct launch l[LAYERS_MAX], align[LAYERS_MAX];
	size_t n = graph_map_list(agent.map, group, l, align, LAYERS_MAX);

	t->n = 0;
	*rows = 0;
	*anchors = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		struct moe_launch m;
		int err = launch_read(agent.functions, &l[i],
				      align[i].args ? &align[i] : NULL, &m);

		if (err == -EAGAIN)
			return err;
		if (err)
			continue;
		targets_note(&m);
		add_target(t, &m);
		if (!*rows)
			*rows = m.rows;
	}
	return 0;
}

bool targets_learn(uint32_t exec)
{
	struct graph_exec *e = graph_exec_at(agent.map, exec);
	struct target *t = &agent.targets[exec];
	uint32_t rows, anchors;
	int err;

	atomic_fetch_add_explicit(&t->version, 1, memory_order_acq_rel);
	t->graph = atomic_load(&e->id);
	err = read_graph(t, atomic_load(&e->group), &rows, &anchors);
	atomic_fetch_add_explicit(&t->version, 1, memory_order_release);
	if (err)
		return false;
	atomic_store(&e->rows, rows);
	atomic_store(&e->anchors, anchors);
	return true;
}

static bool choose_graph(uint32_t exec, uint64_t random, struct moe_launch *out)
{
	struct graph_exec *e = graph_exec_at(agent.map, exec);
	struct target *t = &agent.targets[exec];
	uint32_t version =
		atomic_load_explicit(&t->version, memory_order_acquire);
	uint32_t n = t->n;

	if (version & 1 || !n || n > TARGETS_MAX ||
	    t->graph != atomic_load(&e->id) || !atomic_load(&e->alive) ||
	    !atomic_load(&e->rows))
		return false;
	*out = t->launch[random % n];
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&t->version, memory_order_relaxed) ==
	       version;
}

bool targets_choose(uint64_t random, struct moe_launch *out)
{
	struct launch_entry last;

	if (!launch_log_latest(agent.log, &last) ||
	    agent_now_ns() - last.time_ns > WORK_LONGEST_NS)
		return false;
	if (last.kind == LAUNCH_GRAPH)
		return choose_graph(last.exec, random, out);
	if (launch_read(agent.functions, &last.launch, NULL, out))
		return false;
	/* Where only the alignment kernel tells them: the model's. */
	if (!out->k)
		out->k = agent.top_k;
	if (!out->experts)
		out->experts = agent.experts;
	return out->k && out->experts;
}
