#include "model/whatif.h"
#include "model/balance.h"

#include <math.h>
#include <stddef.h>

#define GPUS_MAX 65536.0
#define BATCH_MIN 0.01
#define BATCH_MAX 1e7

/* Where a step runs. */
struct layout {
	double gpus, tp, ep;
	double gpu_bw, gpu_flops;
	double usd_per_gpu_hour; /* 0 unknown */
};

static struct layout layout_now(const struct whatif *w)
{
	return (struct layout){ .gpus = w->gpus,
				.tp = w->tp,
				.ep = w->ep,
				.gpu_bw = w->gpu_bw,
				.gpu_flops = w->gpu_flops,
				.usd_per_gpu_hour = w->usd_per_gpu_hour };
}

/* False when ranks would not come out even. */
static bool layout_changed(const struct whatif *w,
			   const struct whatif_change *c, struct layout *l)
{
	*l = layout_now(w);
	if (c->tp > 0) {
		l->gpus = w->gpus * c->tp / w->tp;
		l->tp = c->tp;
	}
	if (c->gpus > 0) {
		l->gpus = c->gpus;
		/* the same number of copies, unless told */
		if (!(c->tp > 0))
			l->tp = w->tp * c->gpus / w->gpus;
	}
	if (c->ep > 0)
		l->ep = c->ep;
	else if (l->gpus != w->gpus && w->ep > 1)
		l->ep = w->ep * l->gpus / w->gpus;
	if (c->gpu) {
		l->gpu_bw = c->gpu->bw;
		l->gpu_flops = gpu_flops(c->gpu, w->arch.compute);
		l->usd_per_gpu_hour = c->usd_per_gpu_hour;
	}
	return l->gpus >= 1 && l->gpus <= GPUS_MAX && l->tp >= 1 &&
	       l->ep >= 1 && fmod(l->gpus, 1) == 0 &&
	       fmod(l->gpus, l->tp) == 0 && fmod(l->gpus, l->ep) == 0 &&
	       l->ep <= w->arch.experts;
}

/* bw: what reads reach now, on all GPUs of now. */
static struct machine machine_of(const struct whatif *w, const struct layout *l,
				 double bw)
{
	double reached = bw / (w->gpus * w->gpu_bw);
	struct machine m = { .bw = l->gpus * l->gpu_bw,
			     .flops = l->gpus * l->gpu_flops };

	m.bw_achieved = reached * m.bw;
	m.flops_achieved = ECONOMICS_FLOPS_ACHIEVED * m.flops;
	return m;
}

/* A step somewhere: its layout, and how uneven its ranks are. */
struct place {
	struct layout layout;
	struct balance uneven;
	double batch, active;
};

static void place_at(const struct whatif *w, const struct layout *l, double b,
		     struct place *p)
{
	p->layout = *l;
	p->batch = b;
	p->active = traffic_active(&w->traffic, b);
	balance_expected(&w->traffic, b, l->ep, &p->uneven);
}

static void place_now(const struct whatif *w, struct place *p)
{
	struct layout l = layout_now(w);

	if (!(w->now_active > 0)) {
		place_at(w, &l, w->batch, p);
		return;
	}
	*p = (struct place){ .layout = l,
			     .uneven = { .rows = w->now_rows_uneven,
					 .active = w->now_active_uneven },
			     .batch = w->batch,
			     .active = w->now_active };
}

void whatif_settle(struct whatif *w)
{
	struct place p;

	w->now_active = 0;
	place_now(w, &p);
	w->now_active = p.active;
	w->now_rows_uneven = p.uneven.rows;
	w->now_active_uneven = p.uneven.active;
}

/* The slowest rank's share of the experts stands for all of them. */
static void cost_of(const struct whatif *w, const struct place *p,
		    double active, struct step_cost *cost)
{
	double kv = w->batch > 0 ? w->kv_bytes * p->batch / w->batch : 0;

	economics_cost(&w->arch, p->batch, active, kv, cost);
	cost->dense_bytes *= p->layout.gpus / p->layout.tp;
	cost->routed_bytes *= p->uneven.active;
	cost->routed_flop *= p->uneven.rows;
}

static double model_seconds(const struct whatif *w, const struct place *p,
			    double bw, double active)
{
	struct machine m = machine_of(w, &p->layout, bw);
	struct step_cost cost;

	cost_of(w, p, active, &cost);
	return economics_step_seconds(&cost, &m);
}

/* What prompts of s for each decoded token take there: they are arithmetic. */
static double prompts_at(const struct whatif *w, const struct layout *l,
			 double s)
{
	double now = w->gpus * w->gpu_flops, there = l->gpus * l->gpu_flops;

	if (!(now > 0) || !(there > 0)) {
		now = w->gpus;
		there = l->gpus;
	}
	return s > 0 ? s * now / there : 0;
}

/*
 * The step there without prompts, by way of the step of now: what that takes
 * beyond the model is fixed; where the model is slower than what was measured, it
 * is scaled.
 */
static double step_at(const struct whatif *w, const struct place *now,
		      const struct place *there, double bw, double active)
{
	double there_s = model_seconds(w, there, bw, active), here_s;
	double step_s = w->step_s - w->mixed_s * w->batch;

	if (!(step_s > 0))
		return w->calibration.fixed_s + there_s;
	here_s = model_seconds(w, now, bw, now->active);
	if (here_s > step_s)
		return there_s * step_s / here_s;
	return step_s - here_s + there_s;
}

static double hypot_positive(double a, double b)
{
	return hypot(fmax(a, 0), fmax(b, 0));
}

static void find_step(const struct whatif *w, const struct place *there,
		      struct whatif_point *p)
{
	const struct calibration *c = &w->calibration;
	double t, more, less, slow, fast, mixed;
	struct place now;

	place_now(w, &now);
	t = step_at(w, &now, there, c->bw, p->active);
	more = step_at(w, &now, there, c->bw, p->active_high) - t;
	less = step_at(w, &now, there, c->bw, p->active_low) - t;
	slow = step_at(w, &now, there, c->bw_low, p->active) - t;
	fast = step_at(w, &now, there, c->bw_high, p->active) - t;
	mixed = prompts_at(w, &there->layout, w->mixed_s) * there->batch;
	p->step_s = t + mixed;
	p->step_s_high = p->step_s + hypot_positive(more, fmax(slow, fast));
	p->step_s_low = t - hypot_positive(-less, -fmin(slow, fast));
	p->step_s_low = fmax(p->step_s_low, 0.1 * t) + mixed;
}

/* y: what is made of the time that steps take. */
static double yield_now(const struct whatif *w)
{
	if (!(w->tokens_per_s > 0) || !(w->step_s > 0) || !(w->batch > 0))
		return 1;
	return w->tokens_per_s * (w->step_s / w->batch + w->prompt_s);
}

static void find_price(const struct whatif *w, const struct layout *l,
		       struct whatif_point *p)
{
	double yield = yield_now(w), prompts = prompts_at(w, l, w->prompt_s);
	double usd = l->usd_per_gpu_hour, now = w->gpus / w->tokens_per_s;

	if (!(w->tokens_per_s > 0))
		now = w->gpus * w->step_s / w->batch;
	p->tokens_per_s = yield / (p->step_s / p->batch + prompts);
	p->tokens_per_s_low = yield / (p->step_s_high / p->batch + prompts);
	p->tokens_per_s_high = yield / (p->step_s_low / p->batch + prompts);
	if (usd > 0) {
		p->usd_per_mtok =
			economics_usd_per_mtok(l->gpus, usd, p->tokens_per_s);
		p->usd_per_mtok_low = economics_usd_per_mtok(
			l->gpus, usd, p->tokens_per_s_high);
		p->usd_per_mtok_high = economics_usd_per_mtok(
			l->gpus, usd, p->tokens_per_s_low);
	}
	if (now > 0) {
		p->cost_ratio = l->gpus / p->tokens_per_s / now;
		p->cost_ratio_low = l->gpus / p->tokens_per_s_high / now;
		p->cost_ratio_high = l->gpus / p->tokens_per_s_low / now;
	}
}

static enum whatif_limit find_limit(const struct whatif *w,
				    const struct layout *l, double b)
{
	if (!(w->traffic.batch > 0))
		return WHATIF_ROUTING;
	if (!traffic_reaches(&w->traffic, b))
		return WHATIF_BATCH;
	if (w->kv_capacity_bytes > 0 && l->gpus == w->gpus && w->batch > 0 &&
	    w->kv_bytes * b / w->batch > w->kv_capacity_bytes)
		return WHATIF_MEMORY;
	return WHATIF_WITHIN;
}

static const struct whatif_point unknown = {
	.batch = NAN,
	.gpus = NAN,
	.active = NAN,
	.active_low = NAN,
	.active_high = NAN,
	.single_row_ratio = NAN,
	.step_s = NAN,
	.step_s_low = NAN,
	.step_s_high = NAN,
	.tokens_per_s = NAN,
	.tokens_per_s_low = NAN,
	.tokens_per_s_high = NAN,
	.usd_per_mtok = NAN,
	.usd_per_mtok_low = NAN,
	.usd_per_mtok_high = NAN,
	.cost_ratio = NAN,
	.cost_ratio_low = NAN,
	.cost_ratio_high = NAN,
	.shares = { NAN, NAN, NAN, NAN },
};

static void find_point(const struct whatif *w, const struct layout *l,
		       struct whatif_point *p)
{
	struct place there;
	struct step_cost cost;
	struct machine m;

	place_at(w, l, p->batch, &there);
	p->gpus = l->gpus;
	p->active = there.active;
	traffic_bounds(&w->traffic, p->batch, &p->active_low, &p->active_high);
	p->single_row_ratio = traffic_single(&w->traffic, p->batch) / p->active;
	p->limit = find_limit(w, l, p->batch);
	if (!(w->calibration.bw > 0))
		return;
	find_step(w, &there, p);
	find_price(w, l, p);
	cost_of(w, &there, p->active, &cost);
	m = machine_of(w, l, w->calibration.bw);
	if (!economics_shares(&cost, &m, p->single_row_ratio, p->step_s, 0,
			      &p->shares))
		p->shares = unknown.shares;
}

bool whatif_at(const struct whatif *w, const struct whatif_change *c,
	       struct whatif_point *out)
{
	double b = (c->batch > 0 ? c->batch : w->batch) *
		   (c->replicas > 0 ? c->replicas : 1);
	struct layout l;

	*out = unknown;
	if (!(w->valid || (w->known && c->batch > 0)) || !(b >= BATCH_MIN) ||
	    !(b <= BATCH_MAX))
		return false;
	out->batch = b;
	if (layout_changed(w, c, &l))
		find_point(w, &l, out);
	else
		out->limit = WHATIF_SHAPE;
	return true;
}

const char *whatif_limit_name(enum whatif_limit l)
{
	static const char *const names[] = {
		[WHATIF_WITHIN] = "",         [WHATIF_BATCH] = "batch",
		[WHATIF_ROUTING] = "routing", [WHATIF_MEMORY] = "memory",
		[WHATIF_SHAPE] = "shape",
	};

	return (unsigned)l <= WHATIF_SHAPE ? names[l] : "";
}
