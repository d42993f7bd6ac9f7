#include "sim/server/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/gpu/simgpu.h"
#include "wire/record.h"

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
	int layer; /* the open MoE layer, -1 before the first */
	bool in_block;
	uint64_t topk_ids; /* where the open layer's ids are */
	int32_t *ids;
	uint32_t count[EXPERTS_MAX];
	uint32_t active;
	/* for the truth log */
	uint64_t start_ns, end_ns;
	struct truth_layer truth[LAYERS_MAX];
} dev;

int device_init(const struct device_config *c)
{
	const struct arch *a = &c->shape->arch;
	static const char *const types[] = {
		[COMPUTE_BF16] = "bf16",
		[COMPUTE_FP8] = "fp8",
		[COMPUTE_FP4] = "fp4",
	};

	dev.config = *c;
	/* A GPU without units for a type computes in the next wider one. */
	for (int t = (int)a->compute; t >= 0 && dev.flop_peak <= 0; t--)
		dev.flop_peak = simgpu_flops(types[t]);
	dev.token = calloc(c->rows_max, sizeof(*dev.token));
	dev.ids = calloc((size_t)c->rows_max * a->top_k, sizeof(*dev.ids));
	if (!dev.token || !dev.ids) {
		device_fini();
		return -ENOMEM;
	}
	return 0;
}

void device_fini(void)
{
	free(dev.token);
	free(dev.ids);
	memset(&dev, 0, sizeof(dev));
}

const struct truth_layer *device_take(struct truth_step *s)
{
	s->start_ns = dev.start_ns;
	s->end_ns = dev.end_ns;
	s->tokens = dev.in.tokens;
	s->padded = dev.in.rows;
	return dev.truth;
}

/* ---- times --------------------------------------------------------------- */

static void step_spans(uint64_t start_ns, uint64_t end_ns)
{
	if (!dev.start_ns)
		dev.start_ns = start_ns;
	if (end_ns > dev.end_ns)
		dev.end_ns = end_ns;
}

static void add_before(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	struct truth_layer *l = arg;

	l->before_ns += end_ns - start_ns;
	step_spans(start_ns, end_ns);
}

static void add_block(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	struct truth_layer *l = arg;

	l->block_ns += end_ns - start_ns;
	step_spans(start_ns, end_ns);
}

static void add_expert(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	struct truth_layer *l = arg;

	l->expert_ns += end_ns - start_ns;
	add_block(arg, start_ns, end_ns);
}

static void add_outside(void *arg, uint64_t start_ns, uint64_t end_ns)
{
	(void)arg;
	step_spans(start_ns, end_ns);
}

/* Attribute a kernel that is not an expert GEMM to where the stream is.  All of
 * them run on one stream: intervals never overlap, a sum is a union. */
static void attribute(struct simgpu_launch *l)
{
	int next = dev.layer + 1;

	if (dev.in_block)
		simgpu_on_planned(l, add_block, &dev.truth[dev.layer]);
	else if (next < (int)dev.config.shape->arch.moe_layers)
		simgpu_on_planned(l, add_before, &dev.truth[next]);
	else
		simgpu_on_planned(l, add_outside, NULL);
}

static void small(struct simgpu_launch *l, struct simgpu_cost *cost,
		  uint64_t t0_ns, double elements)
{
	cost->t0_ns = t0_ns;
	cost->read_bytes = ACTIVATION_BYTES * elements;
	cost->write_bytes = ACTIVATION_BYTES * elements;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	attribute(l);
}

/* ---- dense kernels ------------------------------------------------------- */

static void code_embed(struct simgpu_launch *l, void **params,
		       struct simgpu_cost *cost)
{
	const void *in = (const void *)(uintptr_t)dev.config.input;
	const struct device_input *head;
	const struct device_token *token;

	(void)params;
	dev.layer = -1;
	dev.in_block = false;
	dev.start_ns = dev.end_ns = 0;
	memset(dev.truth, 0, sizeof(dev.truth));
	memset(&dev.in, 0, sizeof(dev.in));
	head = simgpu_load(l, in, sizeof(*head));
	if (head && head->tokens <= head->rows &&
	    head->rows <= dev.config.rows_max) {
		dev.in = *head;
		token = simgpu_load(l, (const char *)in + sizeof(*head),
				    dev.in.tokens * sizeof(*token));
		if (token)
			memcpy(dev.token, token,
			       dev.in.tokens * sizeof(*token));
	}
	small(l, cost, 2000,
	      (double)dev.in.rows * dev.config.shape->arch.hidden);
}

static void code_norm(struct simgpu_launch *l, void **params,
		      struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1700, 2.0 * dev.in.rows * dev.config.shape->arch.hidden);
}

static void code_rotary(struct simgpu_launch *l, void **params,
			struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1500,
	      (double)dev.in.rows * dev.config.shape->arch.hidden);
}

static void code_kvwrite(struct simgpu_launch *l, void **params,
			 struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1500,
	      dev.in.tokens * dev.config.shape->kv_bytes / ACTIVATION_BYTES);
}

static void code_attention(struct simgpu_launch *l, void **params,
			   struct simgpu_cost *cost)
{
	(void)params;
	cost->t0_ns = 4000;
	cost->read_bytes = dev.in.kv_tokens * dev.config.shape->kv_bytes;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = dev.in.score_flop;
	cost->flop_efficiency = FLOPS_REACHED;
	attribute(l);
}

static void code_gemm(struct simgpu_launch *l, void **params,
		      struct simgpu_cost *cost)
{
	const struct gemm_args *g = params[0];

	cost->t0_ns = 2500;
	cost->read_bytes =
		g->weight_bytes + ACTIVATION_BYTES * g->m * (double)g->k;
	cost->write_bytes = ACTIVATION_BYTES * g->m * (double)g->n;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = 2.0 * g->m * g->n * g->k;
	cost->flop_efficiency = FLOPS_REACHED;
	attribute(l);
}

static void code_sample(struct simgpu_launch *l, void **params,
			struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 4000, (double)dev.in.rows * dev.config.shape->vocab);
}

/* ---- routing ------------------------------------------------------------- */

/* The sets of a few rows at a time: they lie far apart in memory, so all are
 * asked for before the first is read. */
static void draw(uint32_t first, uint32_t n)
{
	const uint16_t *set[DRAW_ROWS];
	uint32_t k = dev.config.shape->arch.top_k;
	int32_t *ids = dev.ids + (size_t)first * k;

	for (uint32_t i = 0; i < n; i++) {
		const struct device_token *t = &dev.token[first + i];

		set[i] = routing_pick(dev.config.routing, (unsigned)dev.layer,
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
	uint32_t experts = dev.config.shape->arch.experts;
	uint32_t active = 0, single = 0;

	for (uint32_t e = 0; e < experts; e++) {
		active += dev.count[e] > 0;
		single += dev.count[e] == 1;
	}
	t->rows = dev.in.tokens * dev.config.shape->arch.top_k;
	t->active = dev.active = active;
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
	simgpu_store(l, (void *)(uintptr_t)indices, dev.ids,
		     (size_t)rows * k * sizeof(*dev.ids));
}

static void code_topk(struct simgpu_launch *l, void **params,
		      struct simgpu_cost *cost)
{
	const struct arch *a = &dev.config.shape->arch;
	uint64_t indices;

	if (dev.layer + 1 < (int)a->moe_layers)
		dev.layer++;
	dev.in_block = true;
	/* vLLM's argument 4 and SGLang's argument 3 are the ids. */
	memcpy(&indices, params[dev.config.pads_late ? 3 : 4], sizeof(indices));
	route(l, indices, dev.in.rows);
	small(l, cost, 2200, (double)dev.in.rows * a->experts);
}

static void code_fill(struct simgpu_launch *l, void **params,
		      struct simgpu_cost *cost)
{
	uint32_t k = dev.config.shape->arch.top_k;
	uint32_t from = dev.in.tokens * k, to = dev.in.rows * k;

	(void)params;
	for (uint32_t i = from; i < to; i++)
		dev.ids[i] = -1;
	if (to > from)
		simgpu_store(l,
			     (void *)(uintptr_t)(dev.topk_ids +
						 from * sizeof(*dev.ids)),
			     dev.ids + from, (to - from) * sizeof(*dev.ids));
	small(l, cost, 1500, to - from);
}

/* cumsum[e]: where the rows of expert e begin, in whole blocks; with counts, how
 * far they reach. */
static void store_cumsum(struct simgpu_launch *l, uint64_t cumsum, bool counts)
{
	uint32_t experts = dev.config.shape->arch.experts, at = 0;
	int32_t sum[EXPERTS_MAX + 1];

	for (uint32_t e = 0; e < experts; e++) {
		uint32_t n = dev.count[e];

		sum[e] = (int32_t)(at + (counts ? n : 0));
		at += (n + ALIGN_BLOCK - 1) / ALIGN_BLOCK * ALIGN_BLOCK;
	}
	sum[experts] = (int32_t)at;
	simgpu_store(l, (void *)(uintptr_t)cumsum, sum,
		     (experts + 1) * sizeof(sum[0]));
}

static void code_align(struct simgpu_launch *l, void **params,
		       struct simgpu_cost *cost)
{
	uint64_t cumsum;

	memcpy(&cumsum, params[10], sizeof(cumsum));
	store_cumsum(l, cumsum, false);
	small(l, cost, 6000,
	      (double)dev.in.rows * dev.config.shape->arch.top_k);
}

static void code_align_sort(struct simgpu_launch *l, void **params,
			    struct simgpu_cost *cost)
{
	uint64_t cumsum;

	memcpy(&cumsum, params[2], sizeof(cumsum));
	store_cumsum(l, cumsum, true);
	small(l, cost, 3000,
	      (double)dev.in.rows * dev.config.shape->arch.top_k);
}

static void code_align_small(struct simgpu_launch *l, void **params,
			     struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 5000,
	      (double)dev.in.rows * dev.config.shape->arch.top_k);
}

/* ---- experts ------------------------------------------------------------- */

static double expert_rows(void)
{
	return dev.in.tokens * (double)dev.config.shape->arch.top_k;
}

static void code_act(struct simgpu_launch *l, void **params,
		     struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1600,
	      1.5 * expert_rows() * dev.config.shape->arch.expert_inter);
}

static void code_quant(struct simgpu_launch *l, void **params,
		       struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1600,
	      (double)dev.in.rows * dev.config.shape->arch.hidden);
}

static void code_sum(struct simgpu_launch *l, void **params,
		     struct simgpu_cost *cost)
{
	(void)params;
	small(l, cost, 1800, expert_rows() * dev.config.shape->arch.hidden);
	dev.in_block = false;
}

/* One of the two grouped GEMMs: share of the experts' weights, in and out the
 * widths of its rows. */
static void expert_gemm(struct simgpu_launch *l, struct simgpu_cost *cost,
			double share, double in, double out)
{
	const struct arch *a = &dev.config.shape->arch;
	struct truth_layer *t = &dev.truth[dev.layer];

	cost->t0_ns = 6000;
	cost->read_bytes = share * dev.active * a->expert_bytes +
			   ACTIVATION_BYTES * expert_rows() * in;
	cost->write_bytes = ACTIVATION_BYTES * expert_rows() * out;
	cost->bw_efficiency = BANDWIDTH_REACHED;
	cost->flop = 2 * share * expert_rows() * a->expert_params;
	cost->flop_peak = dev.flop_peak;
	cost->flop_efficiency = FLOPS_REACHED;
	t->read_bytes += cost->read_bytes;
	simgpu_on_planned(l, add_expert, t);
}

static void code_w13(struct simgpu_launch *l, void **params,
		     struct simgpu_cost *cost)
{
	const struct shape *s = dev.config.shape;

	(void)params;
	expert_gemm(l, cost, s->first_matmul, s->arch.expert_in,
		    (s->arch.expert_matrices - 1.0) * s->arch.expert_inter);
}

static void code_w2(struct simgpu_launch *l, void **params,
		    struct simgpu_cost *cost)
{
	const struct shape *s = dev.config.shape;

	(void)params;
	expert_gemm(l, cost, 1 - s->first_matmul, s->arch.expert_inter,
		    s->arch.expert_in);
}

static const simgpu_kernel code[KERNELS] = {
	[KERNEL_EMBED] = code_embed,
	[KERNEL_NORM] = code_norm,
	[KERNEL_GEMM_QKV] = code_gemm,
	[KERNEL_ROTARY] = code_rotary,
	[KERNEL_KVWRITE] = code_kvwrite,
	[KERNEL_ATTENTION] = code_attention,
	[KERNEL_GEMM_OUTPUT] = code_gemm,
	[KERNEL_GEMM_ROUTER] = code_gemm,
	[KERNEL_TOPK] = code_topk,
	[KERNEL_TOPK_FILL] = code_fill,
	[KERNEL_GEMM_MLP] = code_gemm,
	[KERNEL_ACT] = code_act,
	[KERNEL_ALIGN] = code_align,
	[KERNEL_ALIGN_SORT] = code_align_sort,
	[KERNEL_ALIGN_SMALL] = code_align_small,
	[KERNEL_QUANT] = code_quant,
	[KERNEL_MOE_W13] = code_w13,
	[KERNEL_MOE_W2] = code_w2,
	[KERNEL_SUM] = code_sum,
	[KERNEL_GEMM_HEAD] = code_gemm,
	[KERNEL_SOFTMAX] = code_sample,
	[KERNEL_ARGMAX] = code_sample,
};

int device_register(const struct kernel *k)
{
	return simgpu_register(k->name, code[k->id], k->param_bytes);
}
