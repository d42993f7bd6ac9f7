#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>
#include <string.h>

#define NOTES_MAX 8u

struct note {
	void (*fn)(void *arg, uint64_t start_ns, uint64_t end_ns);
	void *arg;
};

struct simgpu_launch {
	struct sim_batch *batch;
	const struct sim_node *node;
	uint64_t start_ns;
	int index;
	bool failed;
	struct sim_range known; /* the allocation that was used last */
	struct note notes[NOTES_MAX];
	unsigned note_count;
};

/* ---- device code's side ------------------------------------------------------ */

uint64_t simgpu_start_ns(const struct simgpu_launch *l)
{
	return l->start_ns;
}

int simgpu_node(const struct simgpu_launch *l)
{
	return l->index;
}

const unsigned *simgpu_grid(const struct simgpu_launch *l)
{
	return l->node->grid;
}

static bool inside(struct simgpu_launch *l, uint64_t p, size_t bytes)
{
	struct sim_range *k = &l->known;
	bool ok = p - k->base < k->bytes || sim_device_find(p, k);

	ok = ok && bytes <= k->bytes - (p - k->base);
	if (!ok)
		l->failed = true;
	return ok;
}

void *simgpu_arg(const struct simgpu_launch *l)
{
	return l->node->function->arg;
}

void simgpu_store(struct simgpu_launch *l, void *dst, const void *src,
		  size_t bytes)
{
	uint64_t p = (uint64_t)(uintptr_t)dst;
	const struct sim_op op = { .kind = OP_STORE, .dst = p, .bytes = bytes };

	if (!bytes || !inside(l, p, bytes))
		return;
	memmove(sim_planned(p), src, bytes);
	if (!sim_batch_add(l->batch, &op, sim_planned(p)))
		l->failed = true;
}

const void *simgpu_load(struct simgpu_launch *l, const void *src, size_t bytes)
{
	uint64_t p = (uint64_t)(uintptr_t)src;

	return inside(l, p, bytes) ? sim_planned(p) : NULL;
}

void simgpu_on_planned(struct simgpu_launch *l,
		       void (*fn)(void *arg, uint64_t start_ns,
				  uint64_t end_ns),
		       void *arg)
{
	if (l->note_count < NOTES_MAX)
		l->notes[l->note_count++] = (struct note){ fn, arg };
}

/* ---- time --------------------------------------------------------------------- */

static double or_else(double v, double fallback)
{
	return v > 0 ? v : fallback;
}

static double tensor_ns(const struct simgpu_cost *c)
{
	return c->flop / or_else(c->flop_peak, sim.type->bf16) * 1e9;
}

static uint64_t kernel_ns(const struct simgpu_cost *c)
{
	double bytes = c->read_bytes + c->write_bytes, mem, math, t;

	if (c->duration_ns)
		return c->duration_ns;
	mem = bytes * 1e9 /
	      (sim.type->bandwidth * or_else(c->bw_efficiency, 0.85));
	math = tensor_ns(c) / or_else(c->flop_efficiency, 0.6);
	t = (double)c->t0_ns + (mem > math ? mem : math);
	return t > SIM_KERNEL_MIN_NS ? (uint64_t)(t + 0.5) : SIM_KERNEL_MIN_NS;
}

static uint64_t copy_ns(const struct sim_copy *c)
{
	double per_ns = SIM_COPY_BYTES_PER_NS;

	if (c->kind == COPY_DTOD) /* read and written */
		per_ns = sim.type->bandwidth * 0.85 / 2e9;
	else if (c->kind == COPY_SET)
		per_ns = sim.type->bandwidth * 0.85 / 1e9;
	return SIM_COPY_FIXED_NS + (uint64_t)((double)c->bytes / per_ns);
}

/* 600..999 ns, as between the kernels of a replayed graph. */
static uint64_t graph_gap(void)
{
	sim.gap_seed = sim.gap_seed * 1664525u + 1013904223u;
	return 600 + (uint64_t)(sim.gap_seed >> 16) % 400;
}

static void meter(uint64_t start, uint64_t end, const struct simgpu_cost *cost)
{
	uint64_t from = start > sim.busy_until_ns ? start : sim.busy_until_ns;
	struct sim_counters c = {
		.read_bytes = (uint64_t)(cost->read_bytes + 0.5),
		.write_bytes = (uint64_t)(cost->write_bytes + 0.5),
		.busy_ns = end > from ? end - from : 0,
		.tensor_ns = (uint64_t)(tensor_ns(cost) + 0.5),
	};

	if (end > sim.busy_until_ns)
		sim.busy_until_ns = end;
	if (c.tensor_ns > end - start)
		c.tensor_ns = end - start;
	if (sim.shm)
		sim_shm_add(sim.shm, start, end, &c);
}

/* ---- nodes --------------------------------------------------------------------- */

/* Run the device code; its ops get the time of its end. */
static uint64_t plan_kernel(struct simgpu_launch *l)
{
	struct sim_batch *b = l->batch;
	size_t first = b->op_count;
	struct simgpu_cost cost = { 0 };
	uint64_t end;

	l->note_count = 0;
	if (l->node->function->code)
		l->node->function->code(l, l->node->params, &cost);
	end = l->start_ns + kernel_ns(&cost);
	for (size_t i = first; i < b->op_count; i++)
		b->ops[i].at_ns = end;
	for (unsigned i = 0; i < l->note_count; i++)
		l->notes[i].fn(l->notes[i].arg, l->start_ns, end);
	meter(l->start_ns, end, &cost);
	return end;
}

static uint64_t plan_copy(struct simgpu_launch *l)
{
	const struct sim_copy *c = &l->node->copy;
	const double moved = (double)c->bytes;
	const struct simgpu_cost cost = {
		.read_bytes =
			c->kind == COPY_SET || c->kind == COPY_HTOD ? 0 : moved,
		.write_bytes = c->kind == COPY_DTOH ? 0 : moved,
	};
	uint64_t end = l->start_ns + copy_ns(c);
	struct sim_op op = { .at_ns = end,
			     .dst = c->dst,
			     .src = c->src,
			     .bytes = c->bytes,
			     .value = c->value };
	const void *data = NULL;

	switch (c->kind) {
	case COPY_HTOD:
		op.kind = OP_STORE;
		data = (const void *)(uintptr_t)c->src;
		memcpy(sim_planned(c->dst), data, c->bytes);
		break;
	case COPY_DTOH:
		op.kind = OP_DTOH;
		op.at_ns = l->start_ns;
		break;
	case COPY_DTOD:
		op.kind = OP_DTOD;
		memmove(sim_planned(c->dst), sim_planned(c->src), c->bytes);
		break;
	default:
		op.kind = OP_FILL;
		memset(sim_planned(c->dst), c->value, c->bytes);
		break;
	}
	if (!sim_batch_add(l->batch, &op, data))
		l->failed = true;
	meter(l->start_ns, end, &cost);
	return end;
}

static void record_fill(struct simgpu_record *r, const struct sim_stream *s,
			const struct sim_node *n, uint32_t exec,
			uint64_t start_ns, uint64_t end_ns)
{
	*r = (struct simgpu_record){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.name = n->function ? n->function->name : NULL,
		.graph_node = exec ? (uint64_t)exec << 32 | n->index : 0,
		.graph = exec,
		.stream = s->id + 1000u * n->lane,
		.correlation = sim_correlation(),
		.bytes = n->copy.bytes,
		.copy_kind = n->copy.kind,
		.value = n->copy.value,
		.dynamic_smem = n->shared_bytes,
		.context = s->context->id,
	};
	memcpy(r->grid, n->grid, sizeof(r->grid));
	memcpy(r->block, n->block, sizeof(r->block));
}

/* ---- launches -------------------------------------------------------------------- */

struct records { /* of one thread, kept between launches */
	size_t room;
	struct simgpu_record v[];
};

static pthread_key_t records_key;
static pthread_once_t records_once = PTHREAD_ONCE_INIT;

static void records_init(void)
{
	pthread_key_create(&records_key, free);
}

static struct simgpu_record *records_get(uint32_t count)
{
	struct records *r;

	if (!__atomic_load_n(&simgpu_hooks.records, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_once(&records_once, records_init);
	r = pthread_getspecific(records_key);
	if (r && r->room >= count)
		return r->v;
	pthread_setspecific(records_key, NULL);
	free(r);
	r = malloc(sizeof(*r) + count * sizeof(r->v[0]));
	if (!r)
		return NULL;
	r->room = count;
	pthread_setspecific(records_key, r);
	return r->v;
}

static bool ends_reserve(uint32_t count)
{
	void *v;

	if (count <= sim.node_end_room)
		return true;
	v = realloc(sim.node_end_ns, count * sizeof(*sim.node_end_ns));
	if (!v)
		return false;
	sim.node_end_ns = v;
	sim.node_end_room = count;
	return true;
}

static uint64_t node_start(const struct sim_node *n, uint64_t lane_end,
			   uint64_t gap)
{
	uint64_t at = lane_end + gap;

	for (int k = 0; k < 2; k++)
		if (n->after[k] >= 0 && sim.node_end_ns[n->after[k]] > at - gap)
			at = sim.node_end_ns[n->after[k]] + gap;
	return at;
}

/* Plan all nodes into b from `from` on; false: illegal access or no memory. */
static bool plan_nodes(struct sim_stream *s, struct sim_batch *b,
		       struct sim_node *const *nodes, uint32_t count,
		       uint32_t exec, uint64_t from, struct simgpu_record *r)
{
	uint64_t lane_end[SIM_LANES_MAX] = { from, from, from, from };
	struct simgpu_launch l = { .batch = b };

	for (uint32_t i = 0; i < count; i++) {
		const struct sim_node *n = nodes[i];
		uint64_t end, gap = i && exec ? graph_gap() : 0;

		l.node = n;
		l.index = exec ? (int)n->index : -1;
		l.start_ns = node_start(n, lane_end[n->lane], gap);
		end = n->function ? plan_kernel(&l) : plan_copy(&l);
		sim.node_end_ns[n->index] = lane_end[n->lane] = end;
		if (end > b->end_ns)
			b->end_ns = end;
		if (r)
			record_fill(&r[i], s, n, exec, l.start_ns, end);
	}
	return !l.failed;
}

static uint64_t first_start(struct sim_stream *s, bool kernel)
{
	uint64_t from, soonest;

	pthread_mutex_lock(&sim.lock);
	from = sim_stream_from(s) + (kernel ? SIM_GAP_EAGER_NS : 0);
	pthread_mutex_unlock(&sim.lock);
	soonest = sim_now() +
		  (kernel ? SIM_LAUNCH_LATENCY_NS : SIM_COPY_LATENCY_NS);
	return from > soonest ? from : soonest;
}

static bool plan_locked(struct sim_stream *s, struct sim_node *const *nodes,
			uint32_t count, uint32_t exec, bool lanes,
			struct simgpu_record *r)
{
	struct sim_batch *b = sim_batch_get();
	bool ok;

	if (!b || !ends_reserve(count)) {
		if (b)
			sim_batch_put(b);
		return false;
	}
	sim_apply_planning();
	ok = plan_nodes(s, b, nodes, count, exec,
			first_start(s, exec || nodes[0]->function), r);
	if (lanes)
		sim_batch_sort(b);
	pthread_mutex_lock(&sim.lock);
	sim_batch_push(s, b);
	pthread_mutex_unlock(&sim.lock);
	return ok;
}

static void deliver(const struct simgpu_record *r, size_t count)
{
	void (*hook)(const struct simgpu_record *, size_t);

	hook = __atomic_load_n(&simgpu_hooks.records, __ATOMIC_ACQUIRE);
	if (hook)
		hook(r, count);
}

/*
 * A copy to the host needs nothing that planning knows, so it does not wait for
 * a planner: its time is ahead of the present when sim.lock is taken, and it is
 * carried out when that time comes.
 */
CUresult sim_plan_dtoh(struct sim_stream *s, const struct sim_node *n)
{
	struct sim_batch *b = sim_batch_get();
	struct sim_op op = { .kind = OP_DTOH,
			     .dst = n->copy.dst,
			     .src = n->copy.src,
			     .bytes = n->copy.bytes };
	struct simgpu_record r;
	uint64_t soonest;

	if (!b || !sim_batch_add(b, &op, NULL)) {
		pthread_mutex_unlock(&s->order);
		if (b)
			sim_batch_put(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&sim.lock);
	op.at_ns = sim_stream_from(s);
	soonest = sim_now() + SIM_COPY_LATENCY_NS;
	if (op.at_ns < soonest)
		op.at_ns = soonest;
	b->ops[0].at_ns = op.at_ns;
	b->end_ns = op.at_ns + copy_ns(&n->copy);
	record_fill(&r, s, n, 0, op.at_ns, b->end_ns);
	sim_batch_push(s, b);
	pthread_mutex_unlock(&sim.lock);
	pthread_mutex_unlock(&s->order);
	deliver(&r, 1);
	return CUDA_SUCCESS;
}

CUresult sim_plan(struct sim_stream *s, struct sim_node *const *nodes,
		  uint32_t count, uint32_t exec, bool lanes)
{
	struct simgpu_record *r = records_get(count);
	bool ok;

	if (!count) {
		pthread_mutex_unlock(&s->order);
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&sim.plan);
	ok = plan_locked(s, nodes, count, exec, lanes, r);
	pthread_mutex_unlock(&sim.plan);
	pthread_mutex_unlock(&s->order);
	if (!ok) {
		atomic_store(&sim.error, CUDA_ERROR_ILLEGAL_ADDRESS);
		return CUDA_SUCCESS; /* the device reports it later */
	}
	if (r)
		deliver(r, count);
	return CUDA_SUCCESS;
}
