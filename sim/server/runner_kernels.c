#include "sim/server/runner_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

static void args_topk_vllm(const struct runner *r, const struct runner_call *c,
			   struct kernel_args *a)
{
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

static void args_topk_grouped(const struct runner *r,
			      const struct runner_call *c,
			      struct kernel_args *a)
{
	args_pointer(a, scratch(LOGITS));
	args_pointer(a, scratch(WEIGHTS));
	args_pointer(a, r->mem.topk_ids);
	args_pointer(a, weights(c->layer, 2));
	args_u64(a, c->rows);
	args_u64(a, r->o.shape->arch.experts);
	args_u64(a, 8);
	args_u64(a, 4);
	args_u64(a, r->o.shape->arch.top_k);
	args_bool(a, true);
	args_f64(a, 2.5);
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
		     struct kernel_args *a, bool w2, bool naive)
{
	const struct arch *m = &r->o.shape->arch;
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
	if (!naive)
		args_pointer(a, scratch(SORTED));
	args_pointer(a, naive ? r->mem.topk_ids : scratch(EXPERT_IDS));
	args_pointer(a, scratch(POST_PAD));
	args_triton_u32(a, n);
	args_triton_u32(a, k);
	args_triton_u32(a, naive ? numel * BLOCK_M
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

static void args_w13(const struct runner *r, const struct runner_call *c,
		     struct kernel_args *a)
{
	args_moe(r, c, a, false, false);
}

static void args_w2(const struct runner *r, const struct runner_call *c,
		    struct kernel_args *a)
{
	args_moe(r, c, a, true, false);
}

static void args_w13_naive(const struct runner *r, const struct runner_call *c,
			   struct kernel_args *a)
{
	args_moe(r, c, a, false, true);
}

static void args_w2_naive(const struct runner *r, const struct runner_call *c,
			  struct kernel_args *a)
{
	args_moe(r, c, a, true, true);
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

/* Layout by sizes: pointers to scratch memory, and row counts. */
static void args_sizes(const struct runner *r, const struct runner_call *c,
		       struct kernel_args *a)
{
	const char *sizes = r->seq.line[c->line].layout;

	for (unsigned i = 0; sizes[i]; i++) {
		if (sizes[i] == '8')
			args_pointer(a, scratch((enum scratch)(i % KV_CACHE)));
		else if (sizes[i] == '4')
			args_u32(a, c->rows);
		else
			args_bool(a, true);
	}
}

struct spec_call runner_spec(const struct runner *r,
			     const struct runner_call *c)
{
	const struct arch *m = &r->o.shape->arch;
	struct spec_call s = { .rows = c->rows,
			       .k = m->top_k,
			       .experts = m->experts,
			       .hidden = m->hidden };

	memcpy(s.place, r->mem.place, sizeof(s.place));
	return s;
}

static void args_spelled(const struct runner *r, const struct runner_call *c,
			 struct kernel_args *a)
{
	const struct spec_call s = runner_spec(r, c);

	spec_args(&r->seq.line[c->line].spec, &s, a);
}

static const struct {
	const char *name;
	runner_layout fill;
} layouts[] = {
	{ "embed", args_embed },
	{ "norm", args_norm },
	{ "rotary", args_rotary },
	{ "kvwrite", args_kvwrite },
	{ "topk", args_topk_vllm },
	{ "topk_sglang", args_topk_sglang },
	{ "topk_grouped", args_topk_grouped },
	{ "fill", args_topk_fill },
	{ "act", args_act },
	{ "align", args_align },
	{ "align_sort", args_align_sort },
	{ "align_small", args_align_small },
	{ "quant", args_quant },
	{ "w13", args_w13 },
	{ "w2", args_w2 },
	{ "w13_naive", args_w13_naive },
	{ "w2_naive", args_w2_naive },
	{ "sum", args_sum },
	{ "sample", args_sample },
};

static bool is_by_value(const struct seq_line *l)
{
	return !strcmp(l->layout, "gemm") || !strcmp(l->layout, "attention") ||
	       !strncmp(l->layout, "struct:", 7) || l->spec.struct_bytes;
}

/* Bytes of the one struct that is the argument. */
static unsigned value_bytes(const struct seq_line *l)
{
	unsigned long n;

	if (!strcmp(l->layout, "gemm"))
		return sizeof(struct gemm_args);
	if (!strcmp(l->layout, "attention"))
		return ATTENTION_ARGS_BYTES;
	if (l->spec.struct_bytes)
		return l->spec.struct_bytes;
	n = strtoul(l->layout + 7, NULL, 10);
	return n && n <= ATTENTION_ARGS_BYTES ? (unsigned)n : 0;
}

static int find_layout(const struct seq_line *l, runner_layout *out)
{
	size_t n = strlen(l->layout);

	*out = NULL;
	if (is_by_value(l))
		return value_bytes(l) ? 0 : -EINVAL;
	if (l->spec.n) {
		*out = args_spelled;
		return 0;
	}
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (!strcmp(layouts[i].name, l->layout)) {
			*out = layouts[i].fill;
			return 0;
		}
	if (!n || strspn(l->layout, "841") != n)
		return -EINVAL;
	*out = args_sizes;
	return 0;
}

/* What the device code reads of the arguments must be there. */
static bool fits_role(const struct seq_line *l)
{
	if ((l->cost == COST_WEIGHTS) != !strcmp(l->layout, "gemm"))
		return false;
	switch (l->role) {
	case SEQ_EMBED:
		return !strcmp(l->layout, "embed");
	case SEQ_ALIGN:
		return !strcmp(l->layout, "align");
	case SEQ_SORT:
		return !strcmp(l->layout, "align_sort");
	default:
		return true;
	}
}

void runner_args(const struct runner *r, const struct runner_call *c,
		 struct kernel_args *out)
{
	out->n = 0;
	out->bytes[0] = 0;
	if (r->layout[c->line])
		r->layout[c->line](r, c, out);
}

/* ---- functions ----------------------------------------------------------- */

CUfunction runner_function(const struct runner *r, const struct runner_call *c)
{
	return c->rows == 1 ? r->one_row[c->line] : r->fn[c->line];
}

static const char *line_name(const struct runner *r, const struct seq_line *l)
{
	const struct gpu *g = gpu_find(r->o.gpu);

	if (g && strstr(g->name, "A100") && l->cost == COST_WEIGHTS)
		return kernel_ampere_gemm((enum seq_weights)l->what);
	return l->name;
}

static CUfunction load(struct runner *r, const struct runner_call *c)
{
	const struct seq_line *l = &r->seq.line[c->line];
	const char *name = line_name(r, l);
	struct kernel_args a;
	CUfunction f = NULL;

	runner_args(r, c, &a);
	if (is_by_value(l)) {
		a.bytes[0] = (uint8_t)value_bytes(l);
		a.bytes[1] = 0;
	}
	if (device_register(l, name, a.bytes)) {
		runner_check(r, CUDA_ERROR_OUT_OF_MEMORY, "simgpu_register");
		return NULL;
	}
	RUNNER_CALL(r, cuModuleGetFunction, &f, r->module, name);
	return f;
}

int runner_load_kernels(struct runner *r, char *why, size_t why_bytes)
{
	struct runner_call c = { 0 };

	RUNNER_CALL(r, cuModuleLoadData, &r->module, "moetop-sim");
	for (; c.line < r->seq.lines; c.line++) {
		const struct seq_line *l = &r->seq.line[c.line];

		if (l->role >= SEQ_FORK)
			continue;
		if (find_layout(l, &r->layout[c.line]) || !fits_role(l)) {
			snprintf(why, why_bytes,
				 "%.80s: layout %s: unknown, "
				 "or not for this role",
				 l->name, l->layout);
			return -EINVAL;
		}
		c.rows = 1;
		r->one_row[c.line] = load(r, &c);
		c.rows = 2;
		r->fn[c.line] = load(r, &c);
	}
	return 0;
}
