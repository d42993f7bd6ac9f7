#include "sim/server/runner_parts.h"

#include <string.h>

static bool is_triton(enum kernel_id id, const struct runner *r)
{
	switch (id) {
	case KERNEL_EMBED:
	case KERNEL_TOPK_FILL:
	case KERNEL_MOE_W13:
	case KERNEL_MOE_W2:
		return true;
	case KERNEL_TOPK:
		return r->o.flavour == KERNELS_SGLANG;
	default:
		return false;
	}
}

static void launch_params(struct runner *r, const struct runner_call *c,
			  unsigned grid, void **params)
{
	CUfunction f = runner_function(r, c);

	if (is_triton(c->id, r)) {
		struct cu_launch_config config = {
			.grid = { grid, 1, 1 },
			.block = { 128, 1, 1 },
			.shared_bytes = 65536,
			.stream = r->stream,
		};

		RUNNER_CALL(r, cuLaunchKernelEx, &config, f, params, NULL);
		return;
	}
	RUNNER_CALL(r, cuLaunchKernel, f, grid, 1, 1, 256, 1, 1, 0, r->stream,
		    params, NULL);
}

static void launch(struct runner *r, const struct runner_call *c, unsigned grid)
{
	struct kernel_args a;
	void *params[KERNEL_PARAMS_MAX + 1];

	runner_args(r, c, &a);
	for (unsigned i = 0; i < a.n; i++)
		params[i] = &a.value[i];
	params[a.n] = NULL;
	launch_params(r, c, grid ? grid : 1, params);
}

static void launch_attention(struct runner *r, const struct runner_call *c)
{
	uint8_t args[ATTENTION_ARGS_BYTES] = { 0 };
	void *params[] = { args, NULL };

	launch_params(r, c, c->rows, params);
}

/* A GEMM of rows x k times k x n, n such that the weights have these bytes. */
static void launch_gemm(struct runner *r, struct runner_call c,
			enum kernel_id id, double weight_bytes)
{
	const struct arch *a = &r->o.shape->arch;
	double width =
		a->dense_params > 0 ? a->dense_bytes / a->dense_params : 2;
	void *params[] = { &c.gemm, NULL };

	c.id = id;
	c.gemm = (struct gemm_args){
		.m = c.rows,
		.n = (uint32_t)(weight_bytes / width / a->hidden),
		.k = a->hidden,
		.weight_bytes = weight_bytes,
	};
	launch_params(r, &c, c.gemm.n / 64 + 1, params);
}

static void launch_as(struct runner *r, struct runner_call c, enum kernel_id id,
		      unsigned grid)
{
	c.id = id;
	launch(r, &c, grid);
}

static void launch_attention_part(struct runner *r, struct runner_call c)
{
	const struct shape *s = r->o.shape;

	launch_as(r, c, KERNEL_NORM, c.rows);
	launch_gemm(r, c, KERNEL_GEMM_QKV, s->qkv_bytes);
	launch_as(r, c, KERNEL_ROTARY, c.rows);
	launch_as(r, c, KERNEL_KVWRITE, c.rows);
	c.id = KERNEL_ATTENTION;
	launch_attention(r, &c);
	launch_gemm(r, c, KERNEL_GEMM_OUTPUT, s->output_bytes);
	launch_as(r, c, KERNEL_NORM, c.rows);
}

static void launch_mlp(struct runner *r, struct runner_call c, double bytes)
{
	launch_gemm(r, c, KERNEL_GEMM_MLP, bytes * 2 / 3);
	launch_as(r, c, KERNEL_ACT, c.rows);
	launch_gemm(r, c, KERNEL_GEMM_MLP, bytes / 3);
}

static void launch_align(struct runner *r, struct runner_call c)
{
	const struct arch *a = &r->o.shape->arch;

	if (c.rows * a->top_k < 1024 && a->experts <= 64) {
		launch_as(r, c, KERNEL_ALIGN_SMALL, 1);
		return;
	}
	launch_as(r, c, KERNEL_ALIGN, 2);
	launch_as(r, c, KERNEL_ALIGN_SORT, c.rows * a->top_k / 256 + 1);
}

static void launch_expert_gemm(struct runner *r, struct runner_call c,
			       enum kernel_id id)
{
	const struct arch *a = &r->o.shape->arch;
	unsigned blocks = c.naive ? c.rows * a->top_k
				  : c.rows * a->top_k / 16 + a->experts;

	if (a->compute == COMPUTE_FP8)
		launch_as(r, c, KERNEL_QUANT, c.rows);
	launch_as(r, c, id, blocks * (a->expert_inter / 64 + 1));
}

static void launch_moe(struct runner *r, struct runner_call c)
{
	const struct shape *s = r->o.shape;
	const struct arch *a = &s->arch;

	launch_gemm(r, c, KERNEL_GEMM_ROUTER, s->router_bytes);
	launch_as(r, c, KERNEL_TOPK, c.rows / 4 + 1);
	if (r->o.flavour == KERNELS_SGLANG)
		launch_as(r, c, KERNEL_TOPK_FILL, c.rows);
	if (s->shared_bytes > 0)
		launch_mlp(r, c, s->shared_bytes);
	c.naive = r->o.flavour == KERNELS_VLLM &&
		  sched_skips_align(c.rows, a->top_k, a->experts);
	if (!c.naive)
		launch_align(r, c);
	launch_expert_gemm(r, c, KERNEL_MOE_W13);
	launch_as(r, c, KERNEL_ACT, c.rows * a->top_k);
	launch_expert_gemm(r, c, KERNEL_MOE_W2);
	launch_as(r, c, KERNEL_SUM, c.rows);
}

void runner_launch(struct runner *r, unsigned rows)
{
	const struct shape *s = r->o.shape;
	struct runner_call c = { .rows = rows };

	launch_as(r, c, KERNEL_EMBED, rows);
	for (c.layer = 0; c.layer < s->arch.layers; c.layer++) {
		launch_attention_part(r, c);
		if (c.layer < s->dense_layers)
			launch_mlp(r, c, s->mlp_bytes);
		else
			launch_moe(r, c);
	}
	launch_as(r, c, KERNEL_NORM, rows);
	launch_gemm(r, c, KERNEL_GEMM_HEAD, s->head_bytes);
	launch_as(r, c, KERNEL_SOFTMAX, rows);
	launch_as(r, c, KERNEL_ARGMAX, rows);
}
