#include "sim/server/runner_parts.h"

#include <string.h>

#include "model/hw.h"

#define BLOCK_M 16u
#define WEIGHTS_AT 0x7e0000000000ull
#define SCRATCH_AT 0x7d0000000000ull
#define LAYER_STRIDE 0x400000000ull
#define BUFFER_STRIDE 0x40000000ull

/* What a scratch buffer is for. */
enum scratch {
	HIDDEN,
	RESIDUAL,
	QKV,
	LOGITS,
	WEIGHTS,
	SORTED,
	EXPERT_IDS,
	POST_PAD,
	MOE_OUT,
	MOE_IN,
	SCALES,
	POSITIONS,
	KV_CACHE
};

static uint64_t scratch(enum scratch which)
{
	return SCRATCH_AT + which * BUFFER_STRIDE;
}

static uint64_t weights(unsigned layer, unsigned which)
{
	return WEIGHTS_AT + layer * LAYER_STRIDE + which * BUFFER_STRIDE;
}

static bool is_fp8(const struct runner *r)
{
	return r->o.shape->arch.compute == COMPUTE_FP8;
}

/* ---- arguments, in the order of vLLM ------------------------------------ */

static void args_embed(const struct runner *r, const struct runner_call *c,
		       struct kernel_args *a)
{
	args_pointer(a, r->mem.input);
	args_pointer(a, weights(0, 0));
	args_pointer(a, scratch(HIDDEN));
	args_triton_u32(a, c->rows * r->o.shape->arch.hidden);
	args_triton_end(a);
}

static void args_norm(const struct runner *r, const struct runner_call *c,
		      struct kernel_args *a)
{
	args_pointer(a, scratch(HIDDEN));
	args_u64(a, r->o.shape->arch.hidden);
	args_pointer(a, scratch(RESIDUAL));
	args_pointer(a, weights(c->layer, 0));
	args_f32(a, 1e-6f);
	args_u32(a, c->rows);
	args_u32(a, r->o.shape->arch.hidden);
}

static void args_rotary(const struct runner *r, const struct runner_call *c,
			struct kernel_args *a)
{
	(void)r;
	(void)c;
	args_pointer(a, scratch(POSITIONS));
	args_pointer(a, scratch(QKV));
	args_pointer(a, scratch(QKV) + BUFFER_STRIDE / 2);
	args_pointer(a, weights(0, 1));
	args_u32(a, 128);
	args_u64(a, r->o.shape->arch.hidden);
	args_u64(a, r->o.shape->arch.hidden);
	args_u32(a, 1);
	args_u32(a, 1);
	args_u32(a, 128);
}

static void args_kvwrite(const struct runner *r, const struct runner_call *c,
			 struct kernel_args *a)
{
	(void)r;
	for (unsigned i = 0; i < 2; i++)
		args_pointer(a, scratch(QKV) + i * (BUFFER_STRIDE / 2));
	for (unsigned i = 0; i < 2; i++)
		args_pointer(a, weights(c->layer, 14 + i));
	args_pointer(a, scratch(POSITIONS));
	for (unsigned i = 0; i < 6; i++) /* strides */
		args_u64(a, 128);
	for (unsigned i = 0; i < 3; i++) /* heads, head size, block size */
		args_u32(a, 128);
	args_pointer(a, scratch(SCALES));
	args_pointer(a, scratch(SCALES));
}

static void args_topk_sglang(const struct runner *r,
			     const struct runner_call *c, struct kernel_args *a)
{
	args_pointer(a, scratch(LOGITS));
	args_pointer(a, weights(c->layer, 2));
	args_pointer(a, scratch(WEIGHTS));
	args_pointer(a, r->mem.topk_ids);
	args_triton_u32(a, c->rows);
	args_f32(a, 2.5f);
	args_f32(a, 0.5f);
	args_triton_end(a);
}

static void args_topk(const struct runner *r, const struct runner_call *c,
		      struct kernel_args *a)
{
	if (r->o.flavour == KERNELS_SGLANG) {
		args_topk_sglang(r, c, a);
		return;
	}
	args_pointer(a, scratch(LOGITS));
	args_pointer(a, 0); /* finished */
	args_pointer(a, scratch(WEIGHTS));
	args_u32(a, c->rows);
	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, scratch(SORTED));
	args_u32(a, r->o.shape->arch.top_k);
	args_u32(a, 0);
	args_u32(a, r->o.shape->arch.experts);
	args_bool(a, true);
	args_pointer(a, 0); /* bias */
	args_f64(a, 1);
	args_pointer(a, r->mem.padding);
}

static void args_topk_fill(const struct runner *r, const struct runner_call *c,
			   struct kernel_args *a)
{
	(void)c;
	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, r->mem.real_rows);
	args_triton_u32(a, r->o.shape->arch.top_k);
	args_triton_u32(a, (uint32_t)-1);
	args_triton_u32(a, r->o.shape->arch.top_k);
	args_triton_end(a);
}

static void args_act(const struct runner *r, const struct runner_call *c,
		     struct kernel_args *a)
{
	(void)c;
	args_pointer(a, scratch(MOE_IN));
	args_pointer(a, scratch(MOE_OUT));
	args_u32(a, r->o.shape->arch.expert_inter);
}

static void args_align(const struct runner *r, const struct runner_call *c,
		       struct kernel_args *a)
{
	const struct arch *m = &r->o.shape->arch;

	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, scratch(SORTED));
	args_pointer(a, scratch(EXPERT_IDS));
	args_pointer(a, scratch(POST_PAD));
	args_pointer(a, 0); /* expert map */
	args_u32(a, m->experts);
	args_u32(a, (m->experts + 31) / 32 * 32);
	args_u32(a, 32);
	args_u32(a, BLOCK_M);
	args_u64(a, (uint64_t)c->rows * m->top_k);
	args_pointer(a, r->mem.cumsum);
	args_u32(a, c->rows * m->top_k + m->experts * (BLOCK_M - 1));
	args_u32(a, m->top_k);
	args_bool(a, false);
}

static void args_align_sort(const struct runner *r, const struct runner_call *c,
			    struct kernel_args *a)
{
	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, scratch(SORTED));
	args_pointer(a, r->mem.cumsum);
	args_pointer(a, 0); /* expert map */
	args_u64(a, (uint64_t)c->rows * r->o.shape->arch.top_k);
	args_u32(a, r->o.shape->arch.experts);
}

static void args_align_small(const struct runner *r,
			     const struct runner_call *c, struct kernel_args *a)
{
	const struct arch *m = &r->o.shape->arch;

	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, scratch(SORTED));
	args_pointer(a, scratch(EXPERT_IDS));
	args_pointer(a, scratch(POST_PAD));
	args_pointer(a, 0); /* expert map */
	args_u32(a, m->experts);
	args_u32(a, BLOCK_M);
	args_u64(a, (uint64_t)c->rows * m->top_k);
	args_u32(a, c->rows * m->top_k + m->experts * (BLOCK_M - 1));
	args_bool(a, false);
}

static void args_quant(const struct runner *r, const struct runner_call *c,
		       struct kernel_args *a)
{
	args_pointer(a, scratch(HIDDEN));
	args_pointer(a, scratch(MOE_IN));
	args_pointer(a, scratch(SCALES));
	args_u32(a, 128);
	args_u32(a, c->rows * (r->o.shape->arch.hidden / 128));
	args_u32(a, 1);
	args_f32(a, 1e-10f);
	args_f32(a, -448.f);
	args_f32(a, 448.f);
	args_u32(a, (uint32_t)r->o.shape->arch.hidden / 128);
	args_u32(a, c->rows);
}

static void args_moe(const struct runner *r, const struct runner_call *c,
		     struct kernel_args *a)
{
	const struct arch *m = &r->o.shape->arch;
	bool w2 = c->id == KERNEL_MOE_W2;
	uint32_t n =
		w2 ? m->expert_in : (m->expert_matrices - 1) * m->expert_inter;
	uint32_t k = w2 ? m->expert_inter : m->expert_in;
	uint32_t numel = c->rows * m->top_k;

	args_pointer(a, scratch(w2 ? MOE_IN : HIDDEN));
	args_pointer(a, weights(c->layer, w2 ? 9 : 8));
	args_pointer(a, scratch(MOE_OUT));
	if (is_fp8(r)) {
		args_pointer(a, scratch(SCALES));
		args_pointer(a, weights(c->layer, w2 ? 11 : 10));
	}
	if (w2)
		args_pointer(a, scratch(WEIGHTS));
	/* Without alignment the ids themselves name the expert of a block. */
	if (!c->naive)
		args_pointer(a, scratch(SORTED));
	args_pointer(a, c->naive ? r->mem.topk_ids : scratch(EXPERT_IDS));
	args_pointer(a, scratch(POST_PAD));
	args_triton_u32(a, n);
	args_triton_u32(a, k);
	args_triton_u32(a, c->naive ? numel * BLOCK_M
				    : numel + m->experts * (BLOCK_M - 1));
	args_triton_u32(a, numel);
	args_triton_u32(a, k);           /* stride_am */
	args_triton_u32(a, n * k);       /* stride_be */
	args_triton_u32(a, k);           /* stride_bn */
	args_triton_u32(a, n);           /* stride_cm */
	for (unsigned i = 0; i < 7; i++) /* strides of scales and bias */
		args_triton_u32(a, is_fp8(r) && i < 5 ? 128 : 0);
	args_triton_end(a);
}

static void args_sum(const struct runner *r, const struct runner_call *c,
		     struct kernel_args *a)
{
	(void)c;
	args_pointer(a, scratch(HIDDEN));
	args_pointer(a, scratch(MOE_OUT));
	args_u32(a, r->o.shape->arch.hidden);
}

static void args_sample(const struct runner *r, const struct runner_call *c,
			struct kernel_args *a)
{
	(void)c;
	args_pointer(a, r->mem.tokens);
	args_pointer(a, scratch(LOGITS));
	args_u32(a, r->o.shape->vocab);
}

static void (*const layout[KERNELS])(const struct runner *r,
				     const struct runner_call *c,
				     struct kernel_args *a) = {
	[KERNEL_EMBED] = args_embed,
	[KERNEL_NORM] = args_norm,
	[KERNEL_ROTARY] = args_rotary,
	[KERNEL_KVWRITE] = args_kvwrite,
	[KERNEL_TOPK] = args_topk,
	[KERNEL_TOPK_FILL] = args_topk_fill,
	[KERNEL_ACT] = args_act,
	[KERNEL_ALIGN] = args_align,
	[KERNEL_ALIGN_SORT] = args_align_sort,
	[KERNEL_ALIGN_SMALL] = args_align_small,
	[KERNEL_QUANT] = args_quant,
	[KERNEL_MOE_W13] = args_moe,
	[KERNEL_MOE_W2] = args_moe,
	[KERNEL_SUM] = args_sum,
	[KERNEL_SOFTMAX] = args_sample,
	[KERNEL_ARGMAX] = args_sample,
};

void runner_args(const struct runner *r, const struct runner_call *c,
		 struct kernel_args *out)
{
	out->n = 0;
	out->bytes[0] = 0;
	if (layout[c->id])
		layout[c->id](r, c, out);
}

/* ---- functions ----------------------------------------------------------- */

static unsigned moe_variant(const struct runner *r, const struct runner_call *c)
{
	bool one = c->rows * r->o.shape->arch.top_k == 1;

	return (c->id == KERNEL_MOE_W2) + 2u * c->naive + 4u * one;
}

CUfunction runner_function(const struct runner *r, const struct runner_call *c)
{
	if (c->id == KERNEL_MOE_W13 || c->id == KERNEL_MOE_W2)
		return r->moe[moe_variant(r, c)];
	if (c->id == KERNEL_TOPK && c->rows == 1 &&
	    r->o.flavour == KERNELS_SGLANG)
		return r->topk_one_row;
	return r->fn[c->id];
}

static CUfunction load(struct runner *r, const struct runner_call *c)
{
	const struct gpu *g = gpu_find(r->o.gpu);
	bool ampere = g && strstr(g->name, "A100");
	struct kernel_args a;
	struct kernel k = {
		.name = kernel_name(c->id, r->o.flavour, ampere),
		.id = c->id,
		.param_bytes = a.bytes,
	};
	CUfunction f = NULL;

	runner_args(r, c, &a);
	if (!a.n) {
		a.bytes[0] = c->id == KERNEL_ATTENTION
				     ? ATTENTION_ARGS_BYTES
				     : sizeof(struct gemm_args);
		a.bytes[1] = 0;
	}
	if (device_register(&k)) {
		runner_check(r, CUDA_ERROR_OUT_OF_MEMORY, "simgpu_register");
		return NULL;
	}
	RUNNER_CALL(r, cuModuleGetFunction, &f, r->module, k.name);
	return f;
}

void runner_load_kernels(struct runner *r)
{
	bool top_1 = r->o.shape->arch.top_k == 1;
	struct runner_call c = { .rows = 2 };

	RUNNER_CALL(r, cuModuleLoadData, &r->module, "moetop-sim");
	for (c.id = 0; c.id < KERNELS; c.id++)
		if (c.id != KERNEL_MOE_W13 && c.id != KERNEL_MOE_W2)
			r->fn[c.id] = load(r, &c);
	for (unsigned i = 0; i < MOE_VARIANTS; i++) {
		bool one = i & 4;

		if (one && !top_1)
			continue;
		c.id = i & 1 ? KERNEL_MOE_W2 : KERNEL_MOE_W13;
		c.naive = i & 2;
		c.rows = one ? 1 : 2;
		r->moe[i] = load(r, &c);
	}
	c = (struct runner_call){ .id = KERNEL_TOPK, .rows = 1 };
	if (r->o.flavour == KERNELS_SGLANG)
		r->topk_one_row = load(r, &c);
}
