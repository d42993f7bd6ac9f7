#include "agent/targets.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/activity.h"
#include "agent/state.h"

/* Work launched longer ago is over, and its buffers may go back any time: a
 * copy from memory that is no longer mapped could end the host. */
#define WORK_LONGEST_NS 500000000ull
#define GRAPH_LAUNCHES (LAYERS_MAX * LAYER_LAUNCHES)
#define EAGER_PLACES 8u
#define PLACE_TRIES 16u

struct target {
	_Atomic uint32_t version; /* odd while it is written */
	uint32_t graph;           /* id of the graph it was made for */
	uint32_t changes;         /* of that graph then */
	uint32_t n, stages;
	uint64_t from, until; /* of the stages */
	struct moe_launch launch[TARGETS_MAX];
	struct target_stage stage[STAGES_MAX];
};

/* The places of the last eager layers, and when they were launched. */
static struct {
	_Atomic uint32_t version;
	uint32_t next;
	struct {
		struct moe_launch launch;
		uint64_t time_ns;
	} place[EAGER_PLACES];
} eager;

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
	memset(&eager, 0, sizeof(eager));
	return 0;
}

void targets_fini(void)
{
	if (agent.targets)
		munmap(agent.targets, GRAPH_EXECS_MAX * sizeof(*agent.targets));
	agent.targets = NULL;
}

/* ---- written by the agent's thread -------------------------------------------- */

static void add_place(struct target *t, const struct moe_launch *l)
{
	if (!l->what)
		return;
	for (uint32_t i = 0; i < t->n; i++)
		if (moe_launch_same(&t->launch[i], l))
			return;
	if (t->n < TARGETS_MAX)
		t->launch[t->n++] = *l;
}

static void add_stage(struct target *t, const struct layer_rows_at *at)
{
	uint64_t end = at->stage + row_part_offset(&at->rows, ROW_PARTS);

	if (!at->stage || t->stages == STAGES_MAX)
		return;
	if (!t->stages || at->stage < t->from)
		t->from = at->stage;
	if (!t->stages || end > t->until)
		t->until = end;
	t->stage[t->stages++] =
		(struct target_stage){ .launch = at->rows, .stage = at->stage };
}

/* 0, or -EAGAIN while a kernel is not validated. */
static int read_graph(struct target *t, uint32_t group, uint32_t *rows,
		      uint32_t *anchors)
{
	static struct launch l[GRAPH_LAUNCHES];
	size_t n = graph_map_list(agent.map, group, l, NULL, GRAPH_LAUNCHES);
	struct model_hint hint;
	size_t length;

	activity_hint(&hint);
	t->n = t->stages = 0;
	t->from = t->until = 0;
	*rows = *anchors = 0;
	for (size_t i = 0; i < n; i += length) {
		struct layer_rows_at at;
		int err;

		length = layer_length(agent.functions, l + i, n - i);
		err = layer_read(agent.functions, l + i, length, &hint, &at);
		if (err == -EAGAIN)
			return err;
		*anchors += launch_opens(agent.functions, &l[i]);
		if (err)
			continue;
		activity_learn(&at);
		add_place(t, &at.rows);
		add_place(t, &at.placed);
		add_stage(t, &at);
		if (!*rows)
			*rows = at.rows.rows;
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
	t->changes = atomic_load(&e->changes);
	err = read_graph(t, atomic_load(&e->group), &rows, &anchors);
	atomic_fetch_add_explicit(&t->version, 1, memory_order_release);
	if (err)
		return false;
	atomic_store(&e->rows, rows);
	atomic_store(&e->anchors, anchors);
	return true;
}

static void note_place(const struct moe_launch *l, uint64_t time_ns)
{
	uint32_t i;

	for (i = 0; i < EAGER_PLACES; i++)
		if (moe_launch_same(&eager.place[i].launch, l))
			break;
	if (i == EAGER_PLACES)
		i = eager.next++ % EAGER_PLACES;
	eager.place[i].launch = *l;
	eager.place[i].time_ns = time_ns;
}

void targets_note(const struct layer_rows_at *at, uint64_t time_ns)
{
	atomic_fetch_add_explicit(&eager.version, 1, memory_order_acq_rel);
	note_place(&at->rows, time_ns);
	if (at->placed.what)
		note_place(&at->placed, time_ns);
	atomic_fetch_add_explicit(&eager.version, 1, memory_order_release);
}

/* ---- read by the sampler's ------------------------------------------------------ */

static bool unchanged(_Atomic uint32_t *version, uint32_t before)
{
	atomic_thread_fence(memory_order_acquire);
	return !(before & 1) &&
	       atomic_load_explicit(version, memory_order_relaxed) == before;
}

static bool has_stage(const struct target *t, const struct moe_launch *l)
{
	for (uint32_t i = 0; i < t->stages && i < STAGES_MAX; i++)
		if (moe_launch_same(&t->stage[i].launch, l))
			return true;
	return false;
}

/* Any of n places; mostly one that no stage tells, once stages are believed. */
static const struct moe_launch *choose_place(const struct target *t, uint32_t n,
					     uint64_t random)
{
	uint32_t at = (uint32_t)(random % n);
	bool any = !exact_is_proven() || !(random >> 30 & 3);

	for (uint32_t i = 0; i < n && i < PLACE_TRIES && !any; i++) {
		const struct moe_launch *l = &t->launch[(at + i) % n];

		if (!has_stage(t, l))
			return l;
	}
	return &t->launch[at];
}

static bool choose_graph(uint32_t exec, uint64_t random, bool stages,
			 struct target_pick *out)
{
	struct graph_exec *e = graph_exec_at(agent.map, exec);
	struct target *t = &agent.targets[exec];
	uint32_t version =
		atomic_load_explicit(&t->version, memory_order_acquire);
	uint32_t n = t->n;

	if (t->graph != atomic_load(&e->id) || !atomic_load(&e->alive) ||
	    t->changes != atomic_load(&e->changes))
		return false;
	out->launch.what = ROWS_NONE;
	out->stages = t->stages;
	out->from = t->from;
	out->bytes = t->until - t->from;
	if (stages && out->stages && out->stages <= STAGES_MAX)
		memcpy(out->stage, t->stage,
		       out->stages * sizeof(out->stage[0]));
	else if (n && n <= TARGETS_MAX)
		out->launch = *choose_place(t, n, random);
	else
		return false;
	return unchanged(&t->version, version);
}

static bool choose_eager(const struct launch_entry *last, uint64_t random,
			 struct target_pick *out)
{
	struct model_hint hint;
	struct layer_rows_at at;
	uint32_t version =
		atomic_load_explicit(&eager.version, memory_order_acquire);
	uint32_t i = (uint32_t)(random >> 8) % EAGER_PLACES;

	activity_hint(&hint);
	if (random & 1 && last->kind == LAUNCH_OPENS &&
	    !layer_read(agent.functions, &last->launch, 1, &hint, &at)) {
		out->launch = at.rows;
		return true;
	}
	for (uint32_t n = 0; n < EAGER_PLACES; n++, i++) {
		uint32_t p = i % EAGER_PLACES;

		out->launch = eager.place[p].launch;
		if (out->launch.what &&
		    last->time_ns < eager.place[p].time_ns + WORK_LONGEST_NS)
			return unchanged(&eager.version, version);
	}
	return false;
}

bool targets_choose(uint64_t random, bool stages, struct target_pick *out)
{
	struct launch_entry last;

	if (!launch_log_latest(agent.log, &last) ||
	    agent_now_ns() - last.time_ns > WORK_LONGEST_NS)
		return false;
	out->stages = 0;
	if (last.kind == LAUNCH_GRAPH)
		return choose_graph(last.exec, random, stages, out);
	return choose_eager(&last, random, out);
}
