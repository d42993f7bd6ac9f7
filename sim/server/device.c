#include "sim/server/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/gpu/simgpu.h"

#define ACTIVATION_BYTES 2.0 /* of one element: bf16 */
#define BANDWIDTH_REACHED 0.85
#define FLOPS_REACHED 0.6
#define DRAW_ROWS 32u
#define ALIGN_BLOCK 16u /* BLOCK_M that the align kernels pad to */

static struct {
	struct device_config config;
	double flop_peak; /* of the expert GEMMs */
	/* what the embedding kernel took from the input */
	struct device_input in;
	struct device_token *token;
	/* where the stream is */
	int layer;         /* the open MoE layer, -1 before the first */
	uint64_t topk_ids; /* where the open layer's ids are, 0: nowhere */
	int32_t *ids;
	void *place; /* room for any content of places.h */
	uint32_t count[EXPERTS_MAX];
	uint32_t active, rows; /* of the experts that are here */
	/* for the truth log */
	struct truth_kernels kernels;
	struct truth_layer truth[LAYERS_MAX];
} dev;

static unsigned layers(void)
{
	return dev.config.shape->arch.moe_layers + dev.config.draft_layers;
}

int device_init(const struct device_config *c)
{
	const struct arch *a = &c->shape->arch;
	static const char *const types[] = {
		[COMPUTE_BF16] = "bf16",
		[COMPUTE_FP8] = "fp8",
		[COMPUTE_FP4] = "fp4",
	};

	size_t bytes = 0;

	dev.config = *c;
	dev.layer = -1;
	/* A GPU without units for a type computes in the next wider one. */
	for (int t = (int)a->compute; t >= 0 && dev.flop_peak <= 0; t--)
		dev.flop_peak = simgpu_flops(types[t]);
	dev.token = calloc(c->rows_max, sizeof(*dev.token));
	dev.ids = calloc((size_t)c->rows_max * a->top_k, sizeof(*dev.ids));
	for (int p = 0; p < PLACES; p++) {
		size_t n = places_bytes((enum place)p, c->rows_max, a->top_k,
					a->experts);

		bytes = n > bytes ? n : bytes;
	}
	dev.place = malloc(bytes);
	if (!dev.token || !dev.ids || !dev.place) {
		device_fini();
		return -ENOMEM;
	}
	return 0;
}

void device_fini(void)
{
	free(dev.token);
	free(dev.ids);
	free(dev.place);
	memset(&dev, 0, sizeof(dev));
}

const struct truth_layer *device_take(struct truth_step *s)
{
	truth_sum(&dev.kernels, s, dev.truth, layers());
	s->tokens = dev.in.tokens;
	s->padded = dev.in.rows;
	return dev.truth;
}

/* ---- elements ------------------------------------------------------------ */

static double expert_rows(void)
{
	return dev.rows;
}

static double unit(enum seq_unit u)
{
	const struct shape *s = dev.config.shape;
	const struct arch *a = &s->arch;

	switch (u) {
	case UNIT_ROWS:
		return dev.in.rows;
	case UNIT_HIDDEN:
		return (double)dev.in.rows * a->hidden;
	case UNIT_PAIRS:
		return (double)dev.in.rows * a->top_k;
	case UNIT_ROUTED:
		return expert_rows() * a->hidden;
	case UNIT_INTER:
		return expert_rows() * a->expert_inter;
	case UNIT_EXPERTS:
		return (double)dev.in.rows * a->experts;
	case UNIT_VOCAB:
		return (double)dev.in.rows * s->vocab;
	case UNIT_KV:
		return dev.in.tokens * s->kv_bytes / ACTIVATION_BYTES;
	case UNIT_PADDING:
		return (double)(dev.in.rows - dev.in.tokens) * a->top_k;
	default:
		return 1;
	}
}

static void cost_elements(const struct seq_line *k, struct simgpu_cost *cost)
{
	double bytes =
		ACTIVATION_BYTES * k->factor * unit((enum seq_unit)k->what);

	cost->t0_ns = k->t0_ns;
	cost->read_bytes = cost->write_bytes = bytes;
	cost->bw_efficiency = BANDWIDTH_REACHED;
}

/* ---- weights ------------------------------------------------------------- */

static void cost_weights(const struct gemm_args *g, struct simgpu_cost *cost)
{
	cost->t0_ns = 2500;
	cost->read_bytes =
		g->weight_bytes + ACTIVATION_BYTES * g->m * (double)g->k;
	cost->write_bytes = ACTIVATION_BYTES * g->m * (double)g->n;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = 2.0 * g->m * g->n * g->k;
	cost->flop_efficiency = FLOPS_REACHED;
}

static void cost_kv(const struct seq_line *k, struct simgpu_cost *cost)
{
	cost->t0_ns = k->t0_ns;
	cost->read_bytes = dev.in.kv_tokens * dev.config.shape->kv_bytes;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = dev.in.score_flop;
	cost->flop_efficiency = FLOPS_REACHED;
}

/* Share of the experts' weights, and the widths of its rows. */
static void cost_experts(const struct seq_line *k, struct simgpu_cost *cost)
{
	const struct shape *s = dev.config.shape;
	const struct arch *a = &s->arch;
	double first = s->first_matmul, share, in, out;

	switch ((enum seq_share)k->what) {
	case EXPERTS_FIRST:
		share = first;
		in = a->expert_in;
		out = (a->expert_matrices - 1.0) * a->expert_inter;
		break;
	case EXPERTS_SECOND:
		share = 1 - first;
		in = a->expert_inter;
		out = a->expert_in;
		break;
	default:
		share = 1;
		in = out = a->expert_in;
		break;
	}
	cost->t0_ns = k->t0_ns;
	cost->read_bytes = share * dev.active * a->expert_bytes +
			   ACTIVATION_BYTES * expert_rows() * in;
	cost->write_bytes = ACTIVATION_BYTES * expert_rows() * out;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = 2 * share * expert_rows() * a->expert_params;
	cost->flop_peak = dev.flop_peak;
	cost->flop_efficiency = FLOPS_REACHED;
	if (dev.layer >= 0)
		dev.truth[dev.layer].read_bytes += cost->read_bytes;
}

/* ---- a step -------------------------------------------------------------- */

static void begin_step(struct simgpu_launch *l)
{
	const void *in = (const void *)(uintptr_t)dev.config.input;
	const struct device_input *head;
	const struct device_token *token;

	dev.layer = -1;
	dev.kernels.n = 0;
	memset(dev.truth, 0, sizeof(dev.truth));
	memset(&dev.in, 0, sizeof(dev.in));
	head = simgpu_load(l, in, sizeof(*head));
	if (!head || head->tokens > head->rows ||
	    head->rows > dev.config.rows_max)
		return;
	dev.in = *head;
	dev.rows = head->tokens * dev.config.shape->arch.top_k;
	token = simgpu_load(l, (const char *)in + sizeof(*head),
			    dev.in.tokens * sizeof(*token));
	if (token)
		memcpy(dev.token, token, dev.in.tokens * sizeof(*token));
}

/* ---- routing ------------------------------------------------------------- */

/* The sets of a few rows at a time: they lie far apart in memory, so all are
 * asked for before the first is read. */
static void draw(uint32_t first, uint32_t n)
{
	const uint16_t *set[DRAW_ROWS];
	uint32_t k = dev.config.shape->arch.top_k;
	unsigned moe_layers = dev.config.shape->arch.moe_layers;
	int32_t *ids = dev.ids + (size_t)first * k;

	for (uint32_t i = 0; i < n; i++) {
		const struct device_token *t = &dev.token[first + i];

		set[i] = routing_pick(dev.config.routing,
				      (unsigned)dev.layer % moe_layers,
				      t->token_key, t->seq_key);
		__builtin_prefetch(set[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < k; j++) {
			dev.count[set[i][j]]++;
			*ids++ = set[i][j];
		}
}

static void count_experts(struct truth_layer *t)
{
	const struct shape *s = dev.config.shape;
	uint32_t active = 0, single = 0;

	dev.active = dev.rows = 0;
	for (uint32_t e = 0; e < s->arch.experts; e++) {
		bool here = e >= s->experts_from && e < s->experts_to;

		active += dev.count[e] > 0;
		single += dev.count[e] == 1;
		dev.active += here && dev.count[e] > 0;
		dev.rows += here ? dev.count[e] : 0;
	}
	t->rows = dev.in.tokens * s->arch.top_k;
	t->active = active;
	t->single = single;
}

/* Draw the experts of every real row; padding gets -1, or the experts of row 0
 * where another kernel is to mark it. */
static void route(struct simgpu_launch *l, uint64_t indices, uint32_t rows)
{
	const struct arch *a = &dev.config.shape->arch;
	uint32_t k = a->top_k, real = dev.in.tokens;

	memset(dev.count, 0, a->experts * sizeof(dev.count[0]));
	for (uint32_t i = 0; i < real; i += DRAW_ROWS)
		draw(i, real - i < DRAW_ROWS ? real - i : DRAW_ROWS);
	for (uint32_t i = real * k; i < rows * k; i++)
		dev.ids[i] = dev.config.pads_late && real ? dev.ids[i % k] : -1;
	count_experts(&dev.truth[dev.layer]);
	dev.topk_ids = indices;
	if (!indices)
		return;
	simgpu_store(l, (void *)(uintptr_t)indices, dev.ids,
		     (size_t)rows * k * sizeof(*dev.ids));
}

static void open_layer(struct simgpu_launch *l, const struct seq_line *k,
		       void **params)
{
	uint64_t indices = 0;

	if (dev.layer + 1 < (int)layers())
		dev.layer++;
	if (k->role == SEQ_TOPK && !k->spec.n)
		memcpy(&indices, params[k->ids], sizeof(indices));
	route(l, indices, dev.in.rows);
}

static void mark_padding(struct simgpu_launch *l)
{
	uint32_t k = dev.config.shape->arch.top_k;
	uint32_t from = dev.in.tokens * k, to = dev.in.rows * k;

	for (uint32_t i = from; i < to; i++)
		dev.ids[i] = -1;
	if (to > from && dev.topk_ids)
		simgpu_store(l,
			     (void *)(uintptr_t)(dev.topk_ids +
						 from * sizeof(*dev.ids)),
			     dev.ids + from, (to - from) * sizeof(*dev.ids));
}

/* cumsum[e]: where the rows of expert e begin, in whole blocks; with counts, how
 * far they reach. */
static void store_cumsum(struct simgpu_launch *l, const void *param,
			 bool counts)
{
	uint32_t experts = dev.config.shape->arch.experts, at = 0;
	int32_t sum[EXPERTS_MAX + 1];
	uint64_t cumsum;

	memcpy(&cumsum, param, sizeof(cumsum));
	for (uint32_t e = 0; e < experts; e++) {
		uint32_t n = dev.count[e];

		sum[e] = (int32_t)(at + (counts ? n : 0));
		at += (n + ALIGN_BLOCK - 1) / ALIGN_BLOCK * ALIGN_BLOCK;
	}
	sum[experts] = (int32_t)at;
	simgpu_store(l, (void *)(uintptr_t)cumsum, sum,
		     (experts + 1) * sizeof(sum[0]));
}

/* What a kernel writes to the places that its arguments name. */
static void store_place(void *arg, enum place what, uint64_t address)
{
	const struct arch *a = &dev.config.shape->arch;
	const struct places_input in = { .ids = dev.ids,
					 .counts = dev.count,
					 .rows = dev.in.rows,
					 .k = a->top_k,
					 .experts = a->experts };

	if (what == PLACE_IDS)
		dev.topk_ids = address;
	simgpu_store(arg, (void *)(uintptr_t)address, dev.place,
		     places_fill(what, &in, dev.place));
}

static void store_places(struct simgpu_launch *l, const struct seq_line *k,
			 void **params)
{
	const struct arch *a = &dev.config.shape->arch;
	const struct spec_call c = { .rows = dev.in.rows,
				     .k = a->top_k,
				     .experts = a->experts,
				     .hidden = a->hidden };

	spec_stores(&k->spec, &c, params, store_place, l);
}

static void play_role(struct simgpu_launch *l, const struct seq_line *k,
		      void **params)
{
	switch (k->role) {
	case SEQ_EMBED:
		begin_step(l);
		break;
	case SEQ_TOPK:
	case SEQ_ROUTE:
		open_layer(l, k, params);
		break;
	case SEQ_FILL:
		mark_padding(l);
		break;
	case SEQ_ALIGN:
		store_cumsum(l, params[10], false);
		break;
	case SEQ_SORT:
		store_cumsum(l, params[2], true);
		break;
	default:
		break;
	}
}

/* ---- times --------------------------------------------------------------- */

static void planned(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	struct truth_kernel *k = arg;

	k->start_ns = start_ns;
	k->end_ns = end_ns;
}

static void note_time(struct simgpu_launch *l, const struct seq_line *k)
{
	struct truth_kernels *all = &dev.kernels;
	struct truth_kernel *t = &all->v[all->n];

	if (all->n == TRUTH_KERNELS_MAX)
		return;
	*t = (struct truth_kernel){
		.layer = dev.layer < 0 ? 0 : (uint16_t)dev.layer,
		.klass = (uint8_t)k->klass,
		.opens = k->role == SEQ_TOPK || k->role == SEQ_ROUTE,
		.closes = k->role == SEQ_CLOSE,
		.expert = k->cost == COST_EXPERTS,
	};
	all->n++;
	simgpu_on_planned(l, planned, t);
}

static void run_kernel(struct simgpu_launch *l, void **params,
		       struct simgpu_cost *cost)
{
	const struct seq_line *k = simgpu_arg(l);

	play_role(l, k, params);
	if (k->spec.n)
		store_places(l, k, params);
	switch (k->cost) {
	case COST_WEIGHTS:
		cost_weights(params[0], cost);
		break;
	case COST_EXPERTS:
		cost_experts(k, cost);
		break;
	case COST_KV:
		cost_kv(k, cost);
		break;
	default:
		cost_elements(k, cost);
		break;
	}
	note_time(l, k);
}

int device_register(const struct seq_line *k, const char *name,
		    const uint8_t *param_bytes)
{
	return simgpu_register_with(name, run_kernel, param_bytes,
				    (void *)(uintptr_t)k);
}
