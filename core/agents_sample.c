#include "core/agents.h"
#include "core/layer_bytes.h"

#include <math.h>

const struct rank *agents_leader(const struct source *s)
{
	if (s->target->dp > 1)
		return NULL;
	for (unsigned i = 0; i < s->n; i++)
		if (s->ranks[i]->merge.totals.cells)
			return s->ranks[i];
	return s->n ? s->ranks[0] : NULL;
}

unsigned agents_expert_shares(const struct source *s)
{
	unsigned all = s->target->have_arch ? s->target->arch.experts : 0;
	const struct rank *k = agents_leader(s);
	unsigned seen;

	if (!k && s->n)
		k = s->ranks[0];
	seen = k ? k->merge.experts : 0;
	return seen && seen < all && all % seen == 0 ? all / seen : 1;
}

static void widen_rows(struct sample_rows *r, double by)
{
	r->rows *= by;
	r->active *= by;
	r->single *= by;
	r->twice *= by;
	r->sum_squares *= by;
	r->experts *= by;
	r->padded_rows *= by;
}

static void widen_clusters(struct sample_clusters *c, double by)
{
	c->rows *= by;
	c->rows_squared *= by * by;
	c->active *= by;
	c->active_squared *= by * by;
	c->cell_rows_squared *= by * by;
	c->uu *= by * by;
	c->uf *= by * by;
	c->ff *= by * by;
}

/* From the experts of the mean rank to those of the layer; what the fullest
 * rank has keeps its proportion. */
static void widen(struct sample_window *w, unsigned shares)
{
	if (shares < 2)
		return;
	widen_clusters(&w->clusters, shares);
	w->rank_rows_max *= shares;
	w->rank_active_max *= shares;
	widen_rows(&w->rows, shares);
	widen_rows(&w->prefill_rows, shares);
	for (unsigned l = 0; l < w->n_layers; l++)
		widen_rows(&w->layers[l].rows, shares);
}

/* The newest windows of the mean rank, or the ones before with windows = 0. */
static void take_windows(struct source *s)
{
	unsigned fresh = 0, shares = agents_expert_shares(s);
	bool all = s->target->dp > 1;

	for (unsigned i = 0; i < s->n; i++)
		fresh += s->ranks[i]->merge.closed.windows > 0;
	if (!fresh) {
		s->window.windows = 0;
		return;
	}
	s->window = (struct sample_window){ 0 };
	s->have_window = true;
	for (unsigned i = 0; i < s->n; i++) {
		struct sample_window *w = &s->ranks[i]->merge.closed;

		if (w->windows <= 0)
			continue;
		if (!all && s->window.windows > 0) {
			/* the same steps and rows, seen once more */
			w->step_s.n = 0;
			if (shares < 2)
				w->rows_per_expert.n = 0;
		}
		merge_windows(&s->window, w);
		merge_clear(&s->ranks[i]->merge);
	}
	merge_mean(&s->window, fresh);
	widen(&s->window, shares);
	if (s->target->have_arch)
		merge_split_draft(&s->window, s->target->arch.moe_layers,
				  s->target->arch.draft_moe_layers);
}

static double larger(double a, double b)
{
	return isnan(a) || b > a ? b : a;
}

static void take_counters(struct source *s, struct sample *out)
{
	double decode = NAN, eager = NAN, padded = NAN, overhead = NAN;
	double ns = out->interval_s * 1e9;

	for (unsigned i = 0; i < s->n; i++) {
		struct rank *k = s->ranks[i];
		uint32_t ppm = k->merge.tick.overhead_ppm;

		rank_rates(k);
		if (!rank_alive(k, s->now_ns) || !rank_counts(k))
			continue;
		decode = larger(decode, k->decode_steps_per_ns);
		eager = larger(eager, k->eager_steps_per_ns);
		padded = larger(padded, k->padded_tokens_per_ns);
		if (k->merge.have_tick && ppm != UINT32_MAX)
			overhead = larger(overhead, ppm / 1e6);
	}
	out->overhead = overhead;
	if (isnan(decode))
		return;
	out->have_agent = true;
	out->d_decode_steps = decode * ns;
	out->d_eager_steps = isnan(eager) ? 0 : eager * ns;
	out->d_padded_tokens = isnan(padded) ? 0 : padded * ns;
}

void agents_sample(struct source *s, struct sample *out)
{
	take_counters(s, out);
	take_windows(s);
	if (s->context->layer_bytes && s->have_window)
		layer_bytes_fill(s->context->layer_bytes,
				 s->n ? (double)s->n : 1, &s->window);
	out->have_window = s->have_window;
	out->window = s->have_window ? &s->window : NULL;
	out->expert_rows =
		s->experts ? expert_rows_total(s->experts, s->now_ns) : NULL;
	out->expert_rows_n = s->n_experts;
	if (out->gpus < s->n + s->n_gone)
		out->gpus = s->n + s->n_gone;
}
