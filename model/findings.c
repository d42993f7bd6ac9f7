/* From an update to the facts that the rules look at. */
#include "model/findings.h"

#include <math.h>

#define MERGE_MIN 2.0
/* Of the exit: near enough to it. */
#define MERGE_REACHED 0.9
/* No kernels reach this share of the peak for long: the counters see others. */
#define MBU_CREDIBLE_MAX 0.95
/* Fewer tokens per request are requests that came and went. */
#define SPECULATION_TOKENS_MIN 1.5

/* A figure of the present, NAN else. */
static double now(const struct snapshot *out, enum metric_id id)
{
	struct value v = out->metrics[id];

	return v.state == VALUE_OK ? v.v : NAN;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

static void gather_shares(const struct evidence *e, const struct figures *f,
			  struct finding_facts *a)
{
	if (e->active > 0)
		a->single_ratio = e->single / e->active;
	if (!f->have_shares)
		return;
	a->expert_share = f->shares.expert;
	a->kv_share = f->shares.kv;
	a->compute_share = f->shares.compute;
	if (f->exit_tokens > 0)
		a->exit_tokens = f->exit_tokens;
	if (f->exit_cost_ratio > 0 && f->exit_cost_ratio < 1)
		a->exit_cost_ratio = f->exit_cost_ratio;
}

/* The fewest servers that pass the exit together, if they would fit. */
static void gather_merge(const struct snapshot *out, struct finding_facts *a)
{
	for (unsigned i = 0; i < out->n_what_if; i++) {
		const struct snapshot_what_if *w = &out->what_if[i];

		if (w->kind != WHAT_IF_MERGE || w->limit == WHATIF_MEMORY ||
		    !(w->amount >= MERGE_MIN) ||
		    !(w->tokens_per_step.v >= MERGE_REACHED * a->exit_tokens) ||
		    !value_known(w->cost_ratio) || !(w->cost_ratio.v < 1) ||
		    w->amount > fmin(a->merge, INFINITY))
			continue;
		a->merge = w->amount;
		a->merge_cost_ratio = w->cost_ratio.v;
	}
}

/* Of the step time in a window, what no kernel covers. */
static void gather_host(const struct model *m, const struct evidence *e,
			struct finding_facts *a)
{
	const struct sample_window *w = &m->window;
	double steps_ns = w->step_ns[0] + w->step_ns[1];

	if (!e->agrees || e->idle || !m->have_window)
		return;
	if (steps_ns > 0)
		a->idle_ratio = 1 - w->busy_ns / steps_ns;
	if (w->launches[0] > 0)
		a->launches = ratio(w->launches[0], w->steps[0]);
}

/* The kernels run with more rows than there are tokens. */
static void gather_padding(const struct model *m, const struct evidence *e,
			   struct finding_facts *a)
{
	const struct sample_window *w = &m->window;
	const struct sample_rows *r = &w->rows;

	if (!e->classify || e->idle || !(r->rows > 0))
		return;
	a->padded_ratio = (r->rows + r->padded_rows) / r->rows;
	if (w->steps[0] > 0 && e->tokens.v > 0)
		a->padded_ratio =
			fmax(a->padded_ratio,
			     w->tokens[0] / w->steps[0] / e->tokens.v);
}

/* Of the bytes that DRAM moved, what is not dense weights or cache. */
static double reads_per_expert(const struct figures *f,
			       const struct snapshot *out)
{
	const struct step_cost *c = &f->cost;
	double rest = c->dense_bytes + c->kv_bytes;
	double moved =
		now(out, METRIC_READ_AMPLIFICATION) * (c->routed_bytes + rest);

	return ratio(moved - rest, c->routed_bytes);
}

static void gather_kernels(const struct evidence *e, const struct figures *f,
			   const struct snapshot *out, struct finding_facts *a)
{
	bool measured = e->active_source == SOURCE_MEASURED;
	double floor_s = ratio(f->cost.routed_bytes, f->machine.bw);

	if (!f->have_cost || !e->classify || e->idle)
		return;
	if (e->expert_s > 0)
		a->expert_time_ratio = fmin(ratio(e->expert_s, f->step_s), 1);
	/* a single token reads k experts whatever the routing is */
	if (measured || e->tokens.v < 1.5)
		a->floor_ratio = ratio(e->expert_s, floor_s);
	if (!measured)
		return;
	a->rows_per_active = now(out, METRIC_ROWS_PER_ACTIVE);
	if (now(out, METRIC_MBU) < MBU_CREDIBLE_MAX)
		a->reads_per_expert = reads_per_expert(f, out);
}

static void gather_balance(const struct model *m, const struct evidence *e,
			   const struct figures *f, const struct arch *arch,
			   const struct snapshot *out, struct finding_facts *a)
{
	const struct sample_rows *r = &m->window.rows;

	a->effective = f->effective;
	a->experts = arch->experts;
	a->straggler = f->straggler;
	a->rank_active = now(out, METRIC_RANK_ACTIVE);
	a->excess_imbalance = now(out, METRIC_EXCESS_IMBALANCE);
	a->ridge_rows = now(out, METRIC_RIDGE_ROWS);
	if (e->classify && e->have_rows && r->max_rows > 0)
		a->max_rows = ratio(r->max_rows, r->cells);
}

/* Tokens that the engine says it kept, over requests in its decode steps. */
static void gather_speculation(const struct evidence *e,
			       const struct snapshot *out,
			       struct finding_facts *a)
{
	struct value kept = out->metrics[METRIC_TOKENS];
	double steps = e->steps_per_s.v, each = e->tokens_per_request;
	struct whatif_point alone;

	if (!(each >= SPECULATION_TOKENS_MIN) || kept.state != VALUE_OK ||
	    kept.source != SOURCE_SCRAPED || !(steps > 0) ||
	    !whatif_at(&out->what_if_base,
		       &(struct whatif_change){ .batch = e->tokens.v / each },
		       &alone))
		return;
	a->verified = each;
	a->kept = ratio(kept.v, steps * e->tokens.v / each);
	a->draft_step_ratio = ratio(out->what_if_base.step_s, alone.step_s);
}

static void gather_dense(const struct figures *f, const struct arch *arch,
			 struct finding_facts *a)
{
	const struct step_cost *c = &f->cost;

	if (!f->have_cost)
		return;
	a->dense_ratio = ratio(c->dense_bytes,
			       c->routed_bytes + c->dense_bytes + c->kv_bytes);
	a->dense_bytes_per_weight =
		ratio(arch->dense_bytes, arch->dense_params);
}

void findings_fill(const struct model *m, const struct evidence *e,
		   const struct figures *f, const struct arch *arch,
		   struct snapshot *out)
{
	struct finding_facts a;

	finding_facts_clear(&a);
	a.regime = out->regime;
	a.side = out->side;
	a.uniform = f->uniform;
	if (value_known(e->tokens))
		a.tokens = e->tokens.v;
	gather_shares(e, f, &a);
	gather_merge(out, &a);
	gather_host(m, e, &a);
	gather_padding(m, e, &a);
	if (e->active_source == SOURCE_MEASURED)
		a.useful_mbu = now(out, METRIC_USEFUL_MBU);
	if (arch && arch_is_moe(arch)) {
		gather_kernels(e, f, out, &a);
		gather_balance(m, e, f, arch, out, &a);
		gather_speculation(e, out, &a);
		gather_dense(f, arch, &a);
	}
	out->n_findings = finding_rules(&a, out->findings);
	for (unsigned i = 0; i < out->n_findings; i++)
		finding_words(&out->findings[i], out->findings[i].text,
			      sizeof(out->findings[i].text));
}
