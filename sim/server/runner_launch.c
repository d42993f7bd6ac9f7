#include "sim/server/runner_parts.h"

#include <string.h>

/* ---- one kernel ---------------------------------------------------------- */

/* Triton's kernels are not C++: their names are not mangled. */
static bool is_triton(const struct seq_line *l)
{
	return strncmp(l->name, "_Z", 2) && strcmp(l->layout, "gemm") &&
	       strcmp(l->layout, "attention") && !l->spec.struct_bytes;
}

static void launch_params(struct runner *r, const struct runner_call *c,
			  unsigned grid, void **params)
{
	const struct seq_line *l = &r->seq.line[c->line];
	CUstream stream = l->stream ? r->side : r->stream;
	CUfunction f = runner_function(r, c);

	if (is_triton(l)) {
		struct cu_launch_config config = {
			.grid = { grid, 1, 1 },
			.block = { 128, 1, 1 },
			.shared_bytes = 65536,
			.stream = stream,
		};

		RUNNER_CALL(r, cuLaunchKernelEx, &config, f, params, NULL);
		return;
	}
	RUNNER_CALL(r, cuLaunchKernel, f, grid, 1, 1, 256, 1, 1, 0, stream,
		    params, NULL);
}

static double weight_bytes(const struct shape *s, enum seq_weights what)
{
	switch (what) {
	case WEIGHTS_QKV:
		return s->qkv_bytes;
	case WEIGHTS_OUTPUT:
		return s->output_bytes;
	case WEIGHTS_ROUTER:
		return s->router_bytes;
	case WEIGHTS_MLP_UP:
		return s->mlp_bytes * 2 / 3;
	case WEIGHTS_MLP_DOWN:
		return s->mlp_bytes / 3;
	case WEIGHTS_SHARED_UP:
		return s->shared_bytes * 2 / 3;
	case WEIGHTS_SHARED_DOWN:
		return s->shared_bytes / 3;
	default:
		return s->head_bytes;
	}
}

/* A GEMM of rows x k times k x n, n such that the weights have their bytes. */
static void set_gemm(const struct runner *r, struct runner_call *c)
{
	const struct arch *a = &r->o.shape->arch;
	double width =
		a->dense_params > 0 ? a->dense_bytes / a->dense_params : 2;
	double bytes = weight_bytes(
		r->o.shape, (enum seq_weights)r->seq.line[c->line].what);

	c->gemm = (struct gemm_args){
		.m = c->rows,
		.n = (uint32_t)(bytes / width / a->hidden),
		.k = a->hidden,
		.weight_bytes = bytes,
	};
}

static bool is_naive(const struct runner *r, unsigned rows)
{
	const struct arch *a = &r->o.shape->arch;

	return sched_skips_align(rows, a->top_k, a->experts);
}

static unsigned grid_of(const struct runner *r, const struct runner_call *c)
{
	const struct seq_line *l = &r->seq.line[c->line];
	const struct arch *a = &r->o.shape->arch;
	unsigned pairs = c->rows * a->top_k, n;

	switch (l->grid) {
	case UNIT_ROWS:
		n = c->rows;
		break;
	case UNIT_PAIRS:
		n = pairs;
		break;
	case UNIT_BLOCKS:
		n = l->when & WHEN_NAIVE ? pairs : pairs / 16 + a->experts;
		n *= a->expert_inter / 64 + 1;
		break;
	case UNIT_EXPERTS:
		n = a->experts;
		break;
	case UNIT_COLUMNS:
		n = c->gemm.n / 64 + 1;
		break;
	default:
		n = 1;
		break;
	}
	return n / l->grid_div + (l->grid_div > 1);
}

static void launch_kernel(struct runner *r, struct runner_call *c)
{
	const struct seq_line *l = &r->seq.line[c->line];
	uint8_t value[ATTENTION_ARGS_BYTES] = { 0 };
	void *params[KERNEL_PARAMS_MAX + 1];
	struct kernel_args a;

	runner_args(r, c, &a);
	for (unsigned i = 0; i < a.n; i++)
		params[i] = &a.value[i];
	params[a.n] = NULL;
	if (l->cost == COST_WEIGHTS) {
		set_gemm(r, c);
		memcpy(value, &c->gemm, sizeof(c->gemm));
	}
	if (l->spec.struct_bytes) {
		const struct spec_call s = runner_spec(r, c);

		spec_struct(&l->spec, &s, value);
	}
	if (!r->layout[c->line]) {
		params[0] = value;
		params[1] = NULL;
	}
	launch_params(r, c, grid_of(r, c), params);
}

/* ---- a step -------------------------------------------------------------- */

static bool applies(const struct runner *r, const struct seq_line *l,
		    unsigned rows, unsigned layer)
{
	unsigned moe_layer = layer - r->o.shape->dense_layers;
	const struct arch *a = &r->o.shape->arch;
	bool naive = is_naive(r, rows);
	bool small = rows * a->top_k < 1024 && a->experts <= 64;

	return !(l->variant >= 0 &&
		 moe_layer % r->seq.variants != (unsigned)l->variant) &&
	       !(l->when & WHEN_SHARED && r->o.shape->shared_bytes <= 0) &&
	       !(l->when & WHEN_FP8 && a->compute != COMPUTE_FP8) &&
	       !(l->when & WHEN_NAIVE && !naive) &&
	       !(l->when & WHEN_ALIGNED && naive) &&
	       !(l->when & WHEN_ONE && rows != 1) &&
	       !(l->when & WHEN_MORE && rows == 1) &&
	       !(l->when & WHEN_SMALL && !small) &&
	       !(l->when & WHEN_LARGE && small);
}

struct listing {
	struct runner *r;
	unsigned rows, n;
	int piece;
	bool in_piece;
};

static void list_part(struct listing *w, enum seq_part part, unsigned layer)
{
	struct runner *r = w->r;

	for (unsigned i = 0; i < r->seq.lines; i++) {
		const struct seq_line *l = &r->seq.line[i];
		bool alone = part == SEQ_AFTER || l->when & WHEN_EAGER;

		if (l->part != part || !applies(r, l, w->rows, layer) ||
		    w->n == RUNNER_ITEMS_MAX)
			continue;
		if (!alone && !w->in_piece)
			w->piece++;
		w->in_piece = !alone;
		r->item[w->n++] = (struct runner_item){
			.line = (uint8_t)i,
			.layer = (uint8_t)layer,
			.piece = alone ? -1 : (int16_t)w->piece,
		};
	}
}

static void list_draft(struct listing *w)
{
	unsigned layers = w->r->o.shape->arch.layers;

	if (w->r->seq.draft == DRAFT_OWN)
		w->in_piece = false;
	for (unsigned d = 0; d < w->r->draft_layers; d++) {
		list_part(w, SEQ_DRAFT, layers + d);
		list_part(w, SEQ_ATTENTION, layers + d);
		list_part(w, SEQ_MOE, layers + d);
		list_part(w, SEQ_DRAFT_END, layers + d);
	}
}

unsigned runner_list(struct runner *r, unsigned rows)
{
	const struct shape *s = r->o.shape;
	struct listing w = { .r = r, .rows = rows, .piece = -1 };

	list_part(&w, SEQ_START, 0);
	for (unsigned l = 0; l < s->arch.layers; l++) {
		list_part(&w, SEQ_ATTENTION, l);
		list_part(&w, l < s->dense_layers ? SEQ_DENSE : SEQ_MOE, l);
	}
	list_part(&w, SEQ_END, s->arch.layers - 1);
	if (r->seq.draft == DRAFT_OWN)
		list_part(&w, SEQ_AFTER, s->arch.layers - 1);
	list_draft(&w);
	if (r->seq.draft != DRAFT_OWN)
		list_part(&w, SEQ_AFTER, s->arch.layers - 1);
	return w.n;
}

static void side_stream(struct runner *r, bool fork)
{
	CUevent e = fork ? r->fork : r->join;

	RUNNER_CALL(r, cuEventRecord, e, fork ? r->stream : r->side);
	RUNNER_CALL(r, cuStreamWaitEvent, fork ? r->side : r->stream, e, 0);
}

void runner_launch(struct runner *r, unsigned rows, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		struct runner_call c = { .line = r->item[i].line,
					 .rows = rows,
					 .layer = r->item[i].layer };
		enum seq_role role = r->seq.line[c.line].role;

		if (role >= SEQ_FORK)
			side_stream(r, role == SEQ_FORK);
		else
			launch_kernel(r, &c);
	}
}
