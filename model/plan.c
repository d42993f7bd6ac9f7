#include "model/plan.h"
#include "model/valley.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define ENTER_SINGLE_RATIO 0.9
#define EXIT_SINGLE_RATIO 0.1
#define PEAK_BATCH_MAX 1e7
#define PEAK_STEPS 100
#define GOLDEN 0.6180339887498949

int plan_layout(double *gpus, double *tp, double *ep)
{
	double n = *gpus >= 1 ? *gpus : fmax(1, fmax(*tp, *ep));
	double t = *tp >= 1 ? *tp : n, e = fmax(1, *ep);

	if (fmod(n, t) != 0 || fmod(n, e) != 0)
		return -EINVAL;
	*gpus = n;
	*tp = t;
	*ep = e;
	return 0;
}

void plan_store_as(struct arch *a, enum plan_dtype t)
{
	static const struct {
		const char *name;
		double expert, dense; /* bytes per weight; 0: as it is */
		enum compute_type compute;
	} types[] = {
		[PLAN_DTYPE_BF16] = { "bf16", 2, 2, COMPUTE_BF16 },
		[PLAN_DTYPE_FP8] = { "fp8", 1 + 4.0 / 16384, 1 + 4.0 / 16384,
				     COMPUTE_FP8 },
		[PLAN_DTYPE_FP4] = { "fp4", 0.5 + 1.0 / 16, 0, COMPUTE_FP4 },
		[PLAN_DTYPE_INT4] = { "int4", 0.5 + 2.0 / 128, 0,
				      COMPUTE_BF16 },
	};

	if (t == PLAN_DTYPE_CONFIG)
		return;
	snprintf(a->quant, sizeof(a->quant), "%s", types[t].name);
	a->expert_bytes = a->expert_params * types[t].expert;
	if (types[t].dense > 0)
		a->dense_bytes = a->dense_params * types[t].dense;
	a->compute = types[t].compute;
}

/* ---- one batch --------------------------------------------------------- */

/* The machine is all GPUs, so each copy of the dense weights counts. */
static void step_of(const struct plan_input *in, const struct machine *m,
		    struct plan_point *p)
{
	struct arch all = in->arch;
	double kv = p->batch * arch_kv_bytes(&all, in->context_tokens);

	all.dense_bytes *= in->gpus / in->tp;
	economics_cost(&all, p->batch, p->active, kv, &p->cost);
	p->step_s = economics_step_seconds(&p->cost, m);
	(void)economics_shares(&p->cost, m, p->single_row_ratio, p->step_s, 0,
			       &p->shares);
}

void plan_point_at(const struct plan_input *in, double batch,
		   struct plan_point *out)
{
	double e = in->arch.experts, k = in->arch.top_k;
	struct plan_point p = { .batch = batch };
	struct machine m;

	p.active = valley_skewed_active(e, k, in->skew, batch);
	p.single = valley_skewed_single(e, k, in->skew, batch);
	p.coverage_ratio = p.active / e;
	p.fragmentation_ratio = p.active / (batch * k);
	p.single_row_ratio = p.single / p.active;
	p.valley_index = p.coverage_ratio * p.fragmentation_ratio;
	economics_machine(in->gpu, in->gpus, 0, in->arch.compute, &m);
	step_of(in, &m, &p);
	p.bytes_per_token =
		(p.cost.routed_bytes + p.cost.dense_bytes + p.cost.kv_bytes) /
		batch;
	p.tokens_per_s = p.step_s > 0 ? batch / p.step_s : 0;
	p.usd_per_mtok = economics_usd_per_mtok(in->gpus, in->usd_per_gpu_hour,
						p.tokens_per_s);
	*out = p;
}

/* ---- the valley -------------------------------------------------------- */

/* V up to a constant, over ln B. */
static double index_at(double e, double k, double a, double ln_batch)
{
	double u = valley_skewed_active(e, k, a, exp(ln_batch));

	return 2 * log(u) - ln_batch;
}

/* V has one peak in ln B: its slope is 2 s1 - 1, and s1 only falls. */
static double peak_of(double e, double k, double a)
{
	double lo = 0, hi = log(PEAK_BATCH_MAX);

	if (a >= VALLEY_SKEW_UNIFORM)
		return valley_floor(e, k);
	for (int i = 0; i < PEAK_STEPS; i++) {
		double left = hi - GOLDEN * (hi - lo);
		double right = lo + GOLDEN * (hi - lo);

		if (index_at(e, k, a, left) < index_at(e, k, a, right))
			lo = left;
		else
			hi = right;
	}
	return exp((lo + hi) / 2);
}

void plan_valley_of(const struct arch *a, double skew, struct plan_valley *out)
{
	double e = a->experts, k = a->top_k;

	*out = (struct plan_valley){ 0 };
	if (k >= e)
		return;
	out->enter = valley_batch_at(e, k, skew, ENTER_SINGLE_RATIO);
	/* with extreme skew V would peak below a whole token */
	out->floor = fmax(out->enter, peak_of(e, k, skew));
	out->exit = valley_batch_at(e, k, skew, EXIT_SINGLE_RATIO);
}

int plan_make(const struct plan_input *in, const double *batches, unsigned n,
	      struct model_plan *out)
{
	const struct arch *a = &in->arch;

	if (n == 0 || n > PLAN_POINTS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		if (!(batches[i] >= 1 && batches[i] <= PLAN_BATCH_MAX))
			return -EINVAL;
	if (!arch_is_moe(a))
		return -ENOTSUP;
	if (!(a->expert_bytes > 0) || !(a->dense_bytes > 0) ||
	    (in->context_tokens > 0 && !(a->kv_bytes_per_token > 0)))
		return -ENODATA;
	*out = (struct model_plan){ .in = *in, .n_points = n };
	economics_machine(in->gpu, in->gpus, 0, a->compute, &out->machine);
	plan_valley_of(a, in->skew, &out->valley);
	for (unsigned i = 0; i < n; i++)
		plan_point_at(in, batches[i], &out->points[i]);
	return 0;
}
