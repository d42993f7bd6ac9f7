#include "model/experts.h"
#include "model/balance.h"
#include "model/rows.h"

#include <math.h>
#include <string.h>

unsigned experts_routed(const struct snapshot *s)
{
	unsigned n = s->experts.n_experts;

	if (!s->experts.n_layers)
		return 0;
	return s->target.experts && s->target.experts < n ? s->target.experts
							  : n;
}

static const uint32_t *rows_of(const struct snapshot_experts *e, unsigned layer)
{
	return &e->rows[(size_t)layer * e->n_experts];
}

void experts_layer(const struct snapshot_experts *e, unsigned routed,
		   unsigned layer, struct experts_layer *out)
{
	const uint32_t *r = rows_of(e, layer);

	*out = (struct experts_layer){ .effective = rows_effective_experts(
					       r, routed) };
	for (unsigned i = 0; i < routed; i++) {
		out->rows += r[i];
		out->unused += r[i] == 0;
		if (r[i] > r[out->fullest])
			out->fullest = i;
	}
}

/* Keep the list sorted, the largest share first. */
static void offer(struct experts_summary *s, const struct experts_hot *h)
{
	unsigned at = s->n_hottest;

	while (at > 0 && s->hottest[at - 1].share_ratio < h->share_ratio)
		at--;
	if (at == EXPERTS_HOTTEST)
		return;
	if (s->n_hottest < EXPERTS_HOTTEST)
		s->n_hottest++;
	memmove(&s->hottest[at + 1], &s->hottest[at],
		(s->n_hottest - 1 - at) * sizeof(*h));
	s->hottest[at] = *h;
}

static void offer_layer(const struct snapshot_experts *e, unsigned routed,
			unsigned layer, uint64_t all, struct experts_summary *s)
{
	const uint32_t *r = rows_of(e, layer);

	for (unsigned i = 0; i < routed; i++) {
		double share = (double)r[i] / (double)all;

		if (!r[i])
			continue;
		offer(s, &(struct experts_hot){
				 .layer = layer,
				 .expert = i,
				 .rows = r[i],
				 .share_ratio = share,
				 .over_mean_ratio = share * routed,
			 });
	}
}

void experts_summary(const struct snapshot_experts *e, unsigned routed,
		     struct experts_summary *out)
{
	double effective = 0, known = 0;

	*out = (struct experts_summary){ .effective = NAN };
	for (unsigned l = 0; l < e->n_layers; l++) {
		struct experts_layer layer;

		experts_layer(e, routed, l, &layer);
		if (!layer.rows)
			continue;
		out->layers++;
		out->rows += layer.rows;
		out->cells += routed;
		out->unused += layer.unused;
		if (isfinite(layer.effective)) {
			effective += layer.effective;
			known++;
		}
		offer_layer(e, routed, l, layer.rows, out);
	}
	if (known > 0)
		out->effective = effective / known;
}

/* Beyond that chance is nothing, and dear to compute. */
#define CHANCE_TOKENS_MAX 1e5

double experts_chance_ratio(const struct snapshot_experts *e, unsigned routed,
			    unsigned top_k)
{
	double rows = 0, layers = 0, tokens, most;

	for (unsigned l = 0; l < e->n_layers; l++) {
		double all = 0;

		for (unsigned i = 0; i < routed; i++)
			all += rows_of(e, l)[i];
		rows += all;
		layers += all > 0;
	}
	if (!(rows > 0) || !top_k || top_k > routed)
		return NAN;
	tokens = fmin(round(rows / layers / top_k), CHANCE_TOKENS_MAX);
	most = balance_uniform_max(routed, top_k, tokens);
	return most > 0 ? fmax(most / (tokens * top_k / routed), 1)
			: (double)NAN;
}

int experts_rank(unsigned routed, unsigned ep, unsigned expert)
{
	if (!ep || !routed || routed % ep || expert >= routed)
		return -1;
	return (int)(expert / (routed / ep));
}

bool experts_rank_rows(const struct snapshot_experts *e, unsigned routed,
		       unsigned layer, unsigned ep, uint64_t *rows, unsigned n)
{
	unsigned from = layer < e->n_layers ? layer : 0;
	unsigned to = layer < e->n_layers ? layer + 1 : e->n_layers;

	if (ep > n || experts_rank(routed, ep, 0) < 0)
		return false;
	memset(rows, 0, ep * sizeof(*rows));
	for (unsigned l = from; l < to; l++)
		for (unsigned i = 0; i < routed; i++)
			rows[i / (routed / ep)] += rows_of(e, l)[i];
	return true;
}
