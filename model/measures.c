/*
 * Overlap, balance, the valley of this traffic, calibration and KV, as metrics.
 */
#include "model/balance.h"
#include "model/overlap.h"
#include "model/rows.h"
#include "model/state.h"

#include <math.h>
#include <stddef.h>

#define TILE_ROWS 16.0

/* ---- figures that flags need ------------------------------------------ */

static double mean_effective_experts(const struct model *m,
				     const struct sample *in,
				     const struct arch *arch)
{
	unsigned layers = m->window.n_layers < SAMPLE_LAYERS_MAX
				  ? m->window.n_layers
				  : SAMPLE_LAYERS_MAX;
	unsigned experts = in->expert_rows_n;
	double sum = 0, n = 0;

	/* a fused shared expert comes last, and is not routed */
	if (arch && experts > arch->experts &&
	    experts <= arch->experts + arch->shared_experts)
		experts = arch->experts;
	for (unsigned l = 0; in->expert_rows && l < layers; l++) {
		double n2 = rows_effective_experts(
			in->expert_rows + (size_t)l * in->expert_rows_n,
			experts);

		if (isfinite(n2)) {
			sum += n2;
			n += 1;
		}
	}
	return n > 0 ? sum / n : NAN;
}

/* Layers add up: each waits for its own slowest rank. */
static double straggler_share(const struct sample_window *w)
{
	double slowest = 0, mean = 0;

	if (!(w->ranks > 1))
		return NAN;
	for (unsigned l = 0; l < w->n_layers; l++) {
		const struct sample_layer *a = &w->layers[l];

		if (!(a->slowest_ns > 0))
			continue;
		slowest += a->slowest_ns;
		mean += a->group_ns[GROUP_OF_EXPERTS];
	}
	return mean > 0 ? fmax(slowest / mean - 1, 0) : NAN;
}

/*
 * Launches, host and communication over the step.  By the fit, where batches
 * differed enough for one; else what the window saw: no kernel, or one that
 * waits for other ranks.
 */
static double fixed_share(const struct model *m, const struct evidence *e,
			  const struct figures *f)
{
	const struct sample_window *w = &m->window;
	double all = w->step_ns[0] + w->step_ns[1], idle;

	if (f->calibration.fitted && f->step_s > 0)
		return fmin(f->calibration.fixed_s / f->step_s, 1);
	if (!e->classify || !(all > 0) || !(w->step_ns[0] > 0))
		return NAN;
	idle = fmax(1 - w->busy_ns / all, 0);
	return fmin(idle + w->group_ns[GROUP_OF_COMM] / w->step_ns[0], 1);
}

void measures_find(const struct model *m, const struct sample *in,
		   const struct evidence *e, const struct arch *arch,
		   struct figures *f)
{
	f->effective = mean_effective_experts(m, in, arch);
	if (arch && arch_is_moe(arch))
		f->popularity = f->effective / arch->experts;
	if (!m->have_window)
		return;
	if (e->agrees)
		f->straggler = straggler_share(&m->window);
	f->fixed = fixed_share(m, e, f);
}

/* ---- metrics ---------------------------------------------------------- */

static void put(struct snapshot *out, enum metric_id id, double v,
		enum value_source source, bool stale)
{
	struct value x = value_make(v, source);

	if (stale && x.state == VALUE_OK)
		x.state = VALUE_STALE;
	out->metrics[id] = x;
}

static void put_overlap(const struct model *m, const struct evidence *e,
			const struct arch *arch, struct snapshot *out)
{
	const struct sample_window *w = &m->window;
	struct overlap seen, uniform, fitted;
	bool stale = !e->agrees || e->idle;
	struct traffic t;
	double b = e->tokens.v;

	if (e->have_rows) {
		b = w->rows.rows / (w->rows.cells * arch->top_k);
		overlap_measured(&w->rows, &w->clusters, arch->top_k, &seen);
		put(out, METRIC_OVERLAP, seen.rows_ratio, SOURCE_MEASURED,
		    stale);
		put(out, METRIC_PAIR_OVERLAP, seen.pair_ratio, SOURCE_MEASURED,
		    stale);
	} else if (!value_known(e->tokens) || e->idle) {
		return;
	}
	traffic_uniform(&t, arch->experts, arch->top_k);
	overlap_expected(&t, b, &uniform);
	put(out, METRIC_OVERLAP_UNIFORM, uniform.rows_ratio, SOURCE_MODELLED,
	    false);
	put(out, METRIC_PAIR_OVERLAP_UNIFORM, uniform.pair_ratio,
	    SOURCE_MODELLED, false);
	if (!(m->traffic.batch > 0))
		return;
	overlap_expected(&m->traffic, b, &fitted);
	put(out, METRIC_OVERLAP_FITTED, fitted.rows_ratio, SOURCE_MODELLED,
	    false);
	put(out, METRIC_PAIR_OVERLAP_FITTED, fitted.pair_ratio, SOURCE_MODELLED,
	    false);
}

static void put_balance(const struct model *m, const struct evidence *e,
			const struct arch *arch, const struct figures *f,
			struct snapshot *out)
{
	const struct sample_window *w = &m->window;
	const enum value_source s = SOURCE_MEASURED;
	bool stale = !e->agrees || e->idle;
	double k = arch->top_k, tokens;

	put(out, METRIC_STRAGGLER, f->straggler, s, stale);
	if (!e->have_rows)
		return;
	tokens = w->rows.rows / (w->rows.cells * k);
	put(out, METRIC_SINGLE_ERROR, learn_single_error(w), s, stale);
	if (w->rows.max_rows > 0)
		put(out, METRIC_EXCESS_IMBALANCE,
		    balance_excess(&w->rows, k, tokens), s, stale);
	put(out, METRIC_TILE_PADDING,
	    balance_tile_padding_hist(&w->rows_per_expert, TILE_ROWS), s,
	    stale);
	if (!(w->ranks > 1))
		return;
	put(out, METRIC_RANK_ROWS, fmax(w->rank_rows_max / w->rows.rows, 1), s,
	    stale);
	put(out, METRIC_RANK_ACTIVE,
	    fmax(w->rank_active_max / w->rows.active, 1), s, stale);
}

static void put_valley(const struct model *m, struct snapshot *out)
{
	const struct valley_edges *v = &m->edges;
	const enum value_source s = SOURCE_MODELLED;

	if (!(m->traffic.batch > 0))
		return;
	put(out, METRIC_ROUTING_SKEW, m->traffic.skew, SOURCE_INFERRED, false);
	if (!(v->exit > 0))
		return;
	put(out, METRIC_TRAFFIC_FLOOR, v->floor, s, false);
	put(out, METRIC_TRAFFIC_EXIT, v->exit, s, false);
	put(out, METRIC_TRAFFIC_EXIT_LOW, v->exit_low, s, false);
	put(out, METRIC_TRAFFIC_EXIT_HIGH, v->exit_high, s, false);
}

static void put_calibration(const struct evidence *e, const struct figures *f,
			    struct snapshot *out)
{
	const struct calibration *c = &f->calibration;
	enum value_source s = c->fitted ? SOURCE_INFERRED : SOURCE_MODELLED;
	double fixed = NAN;

	if (c->bw > 0 && f->have_cost)
		put(out, METRIC_BANDWIDTH, c->bw, s, false);
	if (c->fitted)
		fixed = c->fixed_s;
	else if (f->have_cost && f->machine.bw_achieved > 0 &&
		 e->step_s.state == VALUE_OK)
		fixed = fmax(f->step_s - economics_step_seconds(&f->cost,
								&f->machine),
			     0);
	put(out, METRIC_FIXED, fixed, source_weaker(s, e->step_s.source),
	    e->idle);
}

void measures_fill(const struct model *m, const struct evidence *e,
		   const struct arch *arch, const struct figures *f,
		   struct snapshot *out)
{
	put(out, METRIC_EFFECTIVE_EXPERTS, f->effective, SOURCE_MEASURED,
	    false);
	put(out, METRIC_KV_BYTES, e->kv_bytes, SOURCE_SCRAPED, e->idle);
	put(out, METRIC_TOKENS_PER_REQUEST, e->tokens_per_request,
	    e->load.running >= 1 ? SOURCE_SCRAPED : SOURCE_INFERRED, e->idle);
	put_calibration(e, f, out);
	if (!arch || !arch_is_moe(arch))
		return;
	put_overlap(m, e, arch, out);
	put_balance(m, e, arch, f, out);
	put_valley(m, out);
}
