/*
 * What-ifs of one snapshot: the deployment as it is, and a table of changes.
 */
#include "model/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH_FIRST 1.0
#define BATCH_POINTS 12u /* 1, 2, 4, ... 2048 */
#define TABLE_AGE_MAX_S 10.0
/* What the table is made from may move by this much before it is made anew. */
#define MOVED 0.05

/* ---- the deployment --------------------------------------------------- */

static double step_now(const struct figures *f)
{
	return f->step_s > 0 && isfinite(f->step_s) ? f->step_s : 0;
}

/* What does not depend on the load. */
static void base_known(const struct model *m, const struct sample *in,
		       const struct evidence *e, const struct arch *arch,
		       const struct gpu *gpu, const struct figures *f,
		       struct whatif *w)
{
	if (!arch || !arch->experts || !(arch->expert_bytes > 0) ||
	    !(f->calibration.bw > 0))
		return;
	w->known = true;
	w->arch = *arch;
	learn_traffic_known(m, arch, &w->traffic);
	w->calibration = f->calibration;
	w->gpus = in->gpus;
	w->gpu_bw = (f->machine.bw > 0 ? f->machine.bw : f->calibration.bw) /
		    w->gpus;
	w->gpu_flops = gpu ? gpu_flops(gpu, arch->compute) : 0;
	w->tp = e->tp;
	w->ep = e->ep;
	w->usd_per_gpu_hour = m->settings.gpu_price;
	w->source = SOURCE_MODELLED;
}

/*
 * What prompts take per token, by the window.  A step by the rate of all steps has
 * them in it; beside steps that were measured without, it is no more than what
 * those leave of the wall time now.
 */
static void find_prompts(const struct evidence *e, struct whatif *w)
{
	double rate = e->forward_per_s.v, share = e->prefill.v, left;
	double step_s = w->step_s / w->batch;

	if (!value_known(e->forward_per_s) || !(rate > 0) ||
	    !value_known(e->prefill) || !(share > 0) || !(share < 1))
		return;
	if (e->step_s.source == SOURCE_INFERRED) {
		w->mixed_s = share * step_s;
		return;
	}
	left = 1 / (w->batch * rate) - step_s;
	w->prompt_s = fmax(fmin(share / (1 - share) * step_s, left), 0);
}

void predict_base(const struct model *m, const struct sample *in,
		  const struct evidence *e, const struct arch *arch,
		  const struct gpu *gpu, struct figures *f,
		  struct snapshot *out)
{
	struct value tokens = figures_tokens(in, e);
	struct whatif *w = &out->what_if_base;
	struct whatif_point exit;

	*w = (struct whatif){ 0 };
	base_known(m, in, e, arch, gpu, f, w);
	if (!w->known || !f->have_cost || e->idle || !(e->tokens.v > 0) ||
	    !(step_now(f) > 0))
		return;
	w->valid = true;
	w->batch = e->tokens.v;
	w->step_s = step_now(f);
	w->kv_bytes = e->kv_bytes > 0 ? e->kv_bytes : 0;
	w->kv_capacity_bytes =
		e->kv_capacity_bytes > 0 ? e->kv_capacity_bytes : 0;
	if (value_known(tokens) && tokens.v > 0) {
		w->tokens_per_s = tokens.v;
		find_prompts(e, w);
	}
	w->source = source_weaker(f->source, SOURCE_MODELLED);
	whatif_settle(w);
	if (f->exit_tokens > w->batch &&
	    whatif_at(w, &(struct whatif_change){ .batch = f->exit_tokens },
		      &exit) &&
	    isfinite(exit.cost_ratio))
		f->exit_cost_ratio = exit.cost_ratio;
}

/* ---- the table -------------------------------------------------------- */

static void fill_row(const struct whatif_point *p, enum value_source s,
		     struct snapshot_what_if *r)
{
	r->limit = p->limit;
	r->tokens_per_step = value_make(p->batch, s);
	r->active_experts = value_make(p->active, s);
	r->single_row = value_make(p->single_row_ratio, s);
	r->marginal_gain = value_make(p->shares.gain, s);
	r->step_s = value_make(p->step_s, s);
	r->step_s_low = value_make(p->step_s_low, s);
	r->step_s_high = value_make(p->step_s_high, s);
	r->tokens_per_s = value_make(p->tokens_per_s, s);
	r->tokens_per_s_low = value_make(p->tokens_per_s_low, s);
	r->tokens_per_s_high = value_make(p->tokens_per_s_high, s);
	r->usd_per_mtok = value_make(p->usd_per_mtok, s);
	r->usd_per_mtok_low = value_make(p->usd_per_mtok_low, s);
	r->usd_per_mtok_high = value_make(p->usd_per_mtok_high, s);
	r->cost_ratio = value_make(p->cost_ratio, s);
	r->cost_ratio_low = value_make(p->cost_ratio_low, s);
	r->cost_ratio_high = value_make(p->cost_ratio_high, s);
}

static void add(struct model *m, enum what_if_kind kind, double amount,
		const char *name, const struct whatif_change *change)
{
	struct snapshot_what_if *r = &m->what_if[m->n_what_if];
	struct whatif_point p;

	if (m->n_what_if == SNAPSHOT_WHAT_IF_MAX ||
	    !whatif_at(&m->what_if_base, change, &p) || p.limit == WHATIF_SHAPE)
		return;
	*r = (struct snapshot_what_if){ .kind = kind, .amount = amount };
	snprintf(r->name, sizeof(r->name), "%s", name);
	fill_row(&p, m->what_if_base.source, r);
	m->n_what_if++;
}

static void add_batches(struct model *m)
{
	double b = BATCH_FIRST;

	for (unsigned i = 0; i < BATCH_POINTS; i++, b *= 2)
		add(m, WHAT_IF_BATCH, b, "",
		    &(struct whatif_change){ .batch = b });
	for (double n = 2; n <= 8; n *= 2)
		add(m, WHAT_IF_MERGE, n, "",
		    &(struct whatif_change){ .replicas = n });
}

/* Half and twice the degree. */
static void add_layouts(struct model *m)
{
	const struct whatif *w = &m->what_if_base;
	const double tps[] = { w->tp / 2, w->tp * 2 };
	const double eps[] = { w->ep / 2, w->ep * 2, w->gpus };

	for (unsigned i = 0; i < 2; i++)
		if (tps[i] >= 1 && fmod(tps[i], 1) == 0)
			add(m, WHAT_IF_TP, tps[i], "",
			    &(struct whatif_change){ .tp = tps[i] });
	for (unsigned i = 0; i < 3; i++)
		if (eps[i] >= 1 && eps[i] <= w->gpus && eps[i] != w->ep &&
		    (i < 2 || eps[i] > w->ep * 2))
			add(m, WHAT_IF_EP, eps[i], "",
			    &(struct whatif_change){ .ep = eps[i] });
}

/* The same number of another GPU; nothing says what that one costs. */
static void add_gpus(struct model *m)
{
	static const char *const names[] = { "H100-SXM",     "H200-SXM",
					     "B200-HGX",     "H20-96GB",
					     "MI300X",       "L40S",
					     "A100-80GB-SXM" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct gpu *g = gpu_find(names[i]);

		if (g && fabs(g->bw / m->what_if_base.gpu_bw - 1) > 0.03)
			add(m, WHAT_IF_GPU, m->what_if_base.gpus, g->name,
			    &(struct whatif_change){ .gpu = g });
	}
}

static bool moved(double a, double b)
{
	return fabs(a - b) > MOVED * fmax(fabs(a), fabs(b));
}

/* What the table was made from, against what there is now. */
static bool base_moved(const struct whatif *a, const struct whatif *b)
{
	return a->valid != b->valid || moved(a->batch, b->batch) ||
	       moved(a->step_s, b->step_s) || moved(a->kv_bytes, b->kv_bytes) ||
	       moved(a->tokens_per_s, b->tokens_per_s) ||
	       moved(a->prompt_s, b->prompt_s) ||
	       moved(a->mixed_s, b->mixed_s) ||
	       moved(a->calibration.bw, b->calibration.bw) ||
	       a->gpus != b->gpus || a->tp != b->tp || a->ep != b->ep ||
	       a->traffic.batch != b->traffic.batch ||
	       a->traffic.active != b->traffic.active ||
	       a->traffic.tokens != b->traffic.tokens;
}

void predict_table(struct model *m, double interval_s, struct snapshot *out)
{
	const struct whatif *w = &out->what_if_base;

	m->what_if_age_s += interval_s;
	if (base_moved(&m->what_if_base, w) ||
	    m->what_if_age_s > TABLE_AGE_MAX_S) {
		m->what_if_base = *w;
		m->what_if_age_s = 0;
		m->n_what_if = 0;
		if (w->valid) {
			add_batches(m);
			add_layouts(m);
			add_gpus(m);
		}
	}
	out->n_what_if = m->n_what_if;
	memcpy(out->what_if, m->what_if,
	       m->n_what_if * sizeof(out->what_if[0]));
}
