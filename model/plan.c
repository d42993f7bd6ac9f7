#include "model/plan.h"
#include "model/valley.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define ENTER_SINGLE_RATIO 0.9
#define EXIT_SINGLE_RATIO 0.1
#define VALLEY_BATCH_MAX 1e7
#define SCAN_POINTS 240
#define BISECTIONS 60
#define PEAK_STEPS 60
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

/* ---- routing ----------------------------------------------------------- */

double plan_active(const struct plan_input *in, double b)
{
	if (in->popularity)
		return popularity_active(in->popularity, b);
	return valley_skewed_active(in->arch.experts, in->arch.top_k, in->skew,
				    b);
}

double plan_single(const struct plan_input *in, double b)
{
	if (in->popularity)
		return popularity_single(in->popularity, b);
	return valley_skewed_single(in->arch.experts, in->arch.top_k, in->skew,
				    b);
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

	p.active = plan_active(in, batch);
	p.single = plan_single(in, batch);
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
static double index_at(const struct plan_input *in, double ln_batch)
{
	return 2 * log(plan_active(in, exp(ln_batch))) - ln_batch;
}

/* The peak of V between lo and hi, where it has one: its slope is 2 s1 - 1. */
static double peak_between(const struct plan_input *in, double lo, double hi)
{
	for (int i = 0; i < PEAK_STEPS; i++) {
		double left = hi - GOLDEN * (hi - lo);
		double right = lo + GOLDEN * (hi - lo);

		if (index_at(in, left) < index_at(in, right))
			lo = left;
		else
			hi = right;
	}
	return exp((lo + hi) / 2);
}

static double single_ratio(const struct plan_input *in, double b)
{
	return plan_single(in, b) / plan_active(in, b);
}

static double ln_batch_at(int i)
{
	return log(VALLEY_BATCH_MAX) * i / SCAN_POINTS;
}

/* Where s1 falls below share between two points of the scan. */
static double crossing(const struct plan_input *in, int i, double share)
{
	double lo = ln_batch_at(i - 1), hi = ln_batch_at(i);

	for (int n = 0; n < BISECTIONS; n++) {
		double mid = (lo + hi) / 2;

		if (single_ratio(in, exp(mid)) > share)
			lo = mid;
		else
			hi = mid;
	}
	return exp(hi);
}

/* Of chances of any kind s1 need not fall evenly: look everywhere. */
static void scan_valley(const struct plan_input *in, struct plan_valley *out)
{
	int enter = 0, exit_at = 0, peak = 0;
	double best = -INFINITY;

	for (int i = 1; i <= SCAN_POINTS; i++) {
		double ln_batch = ln_batch_at(i), b = exp(ln_batch);
		double s1 = single_ratio(in, b), v = index_at(in, ln_batch);

		if (!enter && s1 <= ENTER_SINGLE_RATIO)
			enter = i;
		if (s1 > EXIT_SINGLE_RATIO)
			exit_at = i + 1;
		if (v > best) {
			best = v;
			peak = i;
		}
	}
	if (!enter || exit_at > SCAN_POINTS)
		return;
	out->enter = crossing(in, enter, ENTER_SINGLE_RATIO);
	out->exit = exit_at ? crossing(in, exit_at, EXIT_SINGLE_RATIO) : 1;
	out->floor = peak_between(in, ln_batch_at(peak - 1),
				  ln_batch_at(peak + (peak < SCAN_POINTS)));
}

void plan_valley_of(const struct plan_input *in, struct plan_valley *out)
{
	double e = in->arch.experts, k = in->arch.top_k, a = in->skew;

	*out = (struct plan_valley){ 0 };
	if (k >= e)
		return;
	if (in->popularity) {
		scan_valley(in, out);
	} else {
		out->enter = valley_batch_at(e, k, a, ENTER_SINGLE_RATIO);
		out->exit = valley_batch_at(e, k, a, EXIT_SINGLE_RATIO);
		out->floor =
			a >= VALLEY_SKEW_UNIFORM
				? valley_floor(e, k)
				: peak_between(in, 0, log(VALLEY_BATCH_MAX));
	}
	/* with extreme skew V would peak below a whole token */
	out->floor = fmax(out->enter, out->floor);
}

void plan_memory_of(const struct plan_input *in, struct plan_memory *out)
{
	struct arch all = in->arch;
	double copies = in->gpus / in->tp;
	double experts =
		(double)all.moe_layers * all.experts * all.expert_bytes;
	double weights = experts + copies * all.dense_bytes;
	double room =
		PLAN_MEMORY_USABLE * in->gpus * in->gpu->memory_bytes - weights;

	*out = (struct plan_memory){ .weight_bytes = weights / in->gpus,
				     .fits = room >= 0 };
	all.kv_top_tokens = 0; /* what is not read is stored nevertheless */
	if (all.kv_bytes_per_token > 0)
		out->sequence_bytes = arch_kv_bytes(&all, in->context_tokens);
	if (out->fits && out->sequence_bytes > 0)
		out->room = floor(room / out->sequence_bytes);
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
	if (in->popularity && in->popularity->experts != a->experts)
		return -EINVAL;
	if (!(a->expert_bytes > 0) || !(a->dense_bytes > 0) ||
	    (in->context_tokens > 0 && !(a->kv_bytes_per_token > 0)))
		return -ENODATA;
	*out = (struct model_plan){ .in = *in, .n_points = n };
	economics_machine(in->gpu, in->gpus, 0, a->compute, &out->machine);
	plan_valley_of(in, &out->valley);
	plan_memory_of(in, &out->memory);
	for (unsigned i = 0; i < n; i++)
		plan_point_at(in, batches[i], &out->points[i]);
	return 0;
}
