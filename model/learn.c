/*
 * What a window says beyond itself: the traffic's taste in experts.
 */
#include "model/rows.h"
#include "model/state.h"
#include "model/valley.h"

#include <math.h>
#include <stddef.h>

/* Near one row, or near all experts, a histogram says little about skew. */
#define TOKENS_MIN 2.0
#define COVERAGE_MAX 0.97
/* Redundant copies of popular experts: at most this many times the experts. */
#define REDUNDANCY_MAX 1.5
#define WHOLE 0.99
/* A load that has not changed for this long is what the counters see. */
#define STEADY_S 3.0
/* Prompts that the counters see, too, may take this share of the steps. */
#define PREFILL_NEGLIGIBLE 0.1
/* U from counters may miss its bounds by this much: other reads, L2. */
/* What expert kernels read beside weights, and what caches keep from DRAM. */
#define LAYERS_ERROR 0.03
#define INFERRED_SLACK 0.15
/* Standard error of the bytes that counters give to a step: nine of ten within
 * the slack. */
#define COUNTED_ERROR (INFERRED_SLACK / 1.645)
#define SINGLE_RATIO_FLOOR 0.5
#define SINGLE_RATIO_EXIT 0.1

/* ---- the experts of whole layers ----------------------------------------- */

static double slots(const struct sample_rows *r)
{
	return r->cells > 0 ? r->experts / r->cells : 0;
}

/* n experts of every cell get a row of every token: take them out. */
static void drop_fused(struct sample_rows *r, double k, double n)
{
	double tokens = r->cells > 0 ? r->rows / (r->cells * (k + n)) : 0;
	double fused = n * r->cells;

	if (!(tokens > 0))
		return;
	r->rows -= fused * tokens;
	r->active = fmax(r->active - fused, 0);
	r->single = fmax(r->single - fused * fmin(fmax(2 - tokens, 0), 1), 0);
	r->single = fmin(r->single, r->active);
	r->twice = fmax(r->twice - fused * fmax(1 - fabs(tokens - 2), 0), 0);
	r->sum_squares = fmax(r->sum_squares - fused * tokens * tokens, 0);
	r->experts -= fused;
	r->max_rows = 0; /* it was the fused one's */
}

static void pool(struct sample_rows *r, double ranks)
{
	r->rows *= ranks;
	r->active *= ranks;
	r->single *= ranks;
	r->twice *= ranks;
	r->sum_squares *= ranks;
	r->experts *= ranks;
	r->padded_rows *= ranks;
}

static void pool_clusters(struct sample_clusters *c, double ranks)
{
	double square = ranks * ranks;

	c->rows *= ranks;
	c->rows_squared *= square;
	c->active *= ranks;
	c->active_squared *= square;
	c->cell_rows_squared *= square;
	c->uu *= square;
	c->uf *= square;
	c->ff *= square;
}

static void keep_sane(struct sample_rows *r)
{
	if (!rows_sane(r))
		*r = (struct sample_rows){ 0 };
}

/* Ranks that share the experts of a layer; 1 where each has them all. */
static double ranks_of_layer(const struct sample_window *w, double gpus,
			     double experts)
{
	double have = slots(&w->rows), ranks = fmax(w->ranks, 1);

	if (!(have > 0) || have > WHOLE * experts)
		return 1;
	if (ranks > 1 && have * ranks > WHOLE * experts &&
	    have * ranks < REDUNDANCY_MAX * experts)
		return ranks;
	if (gpus > 1 && have * gpus > WHOLE * experts &&
	    have * gpus < REDUNDANCY_MAX * experts)
		return gpus;
	return 1;
}

void learn_whole_layers(struct sample_window *w, double gpus,
			const struct arch *arch)
{
	double fused, ranks;

	keep_sane(&w->rows);
	keep_sane(&w->prefill_rows);
	if (!arch || !arch_is_moe(arch))
		return;
	fused = slots(&w->rows) - arch->experts;
	if (fused > 0.5 && fused < arch->shared_experts + 0.5) {
		drop_fused(&w->rows, arch->top_k, fused);
		drop_fused(&w->prefill_rows, arch->top_k, fused);
		for (unsigned l = 0; l < w->n_layers; l++)
			drop_fused(&w->layers[l].rows, arch->top_k, fused);
		w->clusters = (struct sample_clusters){ 0 };
	}
	ranks = ranks_of_layer(w, gpus, arch->experts);
	if (!(ranks > 1))
		return;
	pool(&w->rows, ranks);
	pool(&w->prefill_rows, ranks);
	pool_clusters(&w->clusters, ranks);
	w->rank_rows_max *= ranks;
	w->rank_active_max *= ranks;
	for (unsigned l = 0; l < w->n_layers; l++)
		pool(&w->layers[l].rows, ranks);
}

/* ---- traffic ------------------------------------------------------------- */

static double variance(double n, double sum, double squares)
{
	if (!(n > 1))
		return 0;
	return fmax((squares - sum * sum / n) / (n - 1), 0);
}

double learn_single_error(const struct sample_window *w)
{
	const struct sample_clusters *c = &w->clusters;
	double u = w->rows.active, s1, binomial, squares;

	if (!(u > 0))
		return NAN;
	s1 = w->rows.single / u;
	binomial = sqrt(fmax(s1 * (1 - s1), 0) / u);
	squares = c->ff - 2 * s1 * c->uf + s1 * s1 * c->uu;
	return fmax(binomial, sqrt(fmax(squares, 0)) / u);
}

static void find_edges(struct model *m)
{
	struct valley_edges *v = &m->edges;

	v->floor =
		traffic_batch_at(&m->traffic, SINGLE_RATIO_FLOOR, NULL, NULL);
	v->exit = traffic_batch_at(&m->traffic, SINGLE_RATIO_EXIT, &v->exit_low,
				   &v->exit_high);
}

void learn_traffic(struct model *m, const struct sample *in,
		   const struct arch *arch, double tokens)
{
	const struct sample_window *w = &m->window;
	const struct sample_rows *r = &w->rows;
	const struct sample_clusters *c = &w->clusters;
	double active = r->cells > 0 ? r->active / r->cells : 0;
	double k = arch->top_k;
	struct traffic_sample s = {
		.experts = arch->experts,
		.top_k = k,
		.rows = in->expert_rows_n >= arch->experts ? in->expert_rows
							   : NULL,
		.layers = w->n_layers < SAMPLE_LAYERS_MAX ? w->n_layers
							  : SAMPLE_LAYERS_MAX,
		.stride = in->expert_rows_n,
		.batch = tokens,
		.batch_variance =
			variance(c->steps, c->rows, c->rows_squared) / (k * k),
		.active = fmin(active, arch->experts),
		.sum_squares = r->cells > 0 ? r->sum_squares / r->cells : 0,
	};

	if (!(tokens >= TOKENS_MIN) || active > COVERAGE_MAX * slots(r))
		return;
	if (c->steps > 1)
		s.active_error =
			sqrt(variance(c->steps, c->active, c->active_squared) /
			     c->steps);
	if (!traffic_learn(&m->traffic, &s))
		return;
	m->traffic_inferred = false;
	find_edges(m);
}

void learn_traffic_known(const struct model *m, const struct arch *arch,
			 struct traffic *out)
{
	if (m->traffic.batch > 0 && m->traffic.experts == arch->experts &&
	    m->traffic.top_k == arch->top_k)
		*out = m->traffic;
	else
		traffic_uniform(out, arch->experts, arch->top_k);
}

/* ---- counters ------------------------------------------------------------ */

void learn_counted(struct model *m, const struct sample *in,
		   const struct evidence *e)
{
	double keep = exp(-in->interval_s / COUNTED_TAU_S), steps;
	struct counted *c = &m->counted;

	if (!(m->steady_s >= STEADY_S))
		*c = (struct counted){ 0 };
	if (!(m->steady_s >= STEADY_S) || !in->have_dram ||
	    !(in->dram_read >= 0) || !value_known(e->forward_per_s) ||
	    !value_known(e->tokens) || !(e->kv_bytes >= 0) ||
	    e->prefill_now >= PREFILL_NEGLIGIBLE)
		return;
	steps = e->forward_per_s.v * in->interval_s;
	c->steps = keep * c->steps + steps;
	c->tokens = keep * c->tokens + e->tokens.v * steps;
	c->read_bytes = keep * c->read_bytes + in->dram_read * in->interval_s;
	c->kv_bytes = keep * c->kv_bytes + e->kv_bytes * steps;
}

/* U of the present by a skew that bytes showed at a batch of b; the skew is kept
 * where it tells something. */
static void use_inferred(struct model *m, const struct traffic *seen, double b,
			 double active, const struct arch *arch,
			 struct evidence *e)
{
	if (b >= TOKENS_MIN && active <= COVERAGE_MAX * arch->experts) {
		m->traffic = *seen;
		m->traffic_inferred = true;
		find_edges(m);
	}
	e->active = traffic_active(seen, e->tokens.v);
	e->single = traffic_single(seen, e->tokens.v);
	e->active_source = SOURCE_INFERRED;
	e->have_active = true;
}

/* U by the bytes of a step without its KV reads; 0 when it cannot be. */
static double active_of_bytes(const struct arch *arch, double dense,
			      double bytes, double b)
{
	double most = valley_active(arch->experts, arch->top_k, b);
	double u = (bytes - dense) / (arch->moe_layers * arch->expert_bytes);

	if (!(u > (1 - INFERRED_SLACK) * arch->top_k) ||
	    u > (1 + INFERRED_SLACK) * most)
		return 0;
	return fmin(fmax(u, arch->top_k), most);
}

/* Bytes that expert kernels read, over those of one expert. */
bool learn_from_layers(struct model *m, const struct arch *arch,
		       struct evidence *e)
{
	const struct sample_window *w = &m->window;
	double layers = w->n_layers * arch->expert_bytes, bytes = 0;
	struct traffic_sample s = {
		.experts = arch->experts,
		.top_k = arch->top_k,
		.batch = w->steps[0] > 0 ? w->tokens[0] / w->steps[0] : 0,
	};
	struct traffic seen;

	if (!e->classify || w->bytes.method < BYTES_GROUPS ||
	    !(w->steps[0] > 0) || !(layers > 0) || !(s.batch >= 1))
		return false;
	for (unsigned l = 0; l < w->n_layers; l++)
		bytes += w->layers[l].expert_bytes;
	s.active = active_of_bytes(arch, 0, bytes / w->steps[0], s.batch);
	s.active_error =
		s.active * hypot(LAYERS_ERROR, w->bytes.groups_error_ratio);
	if (!(s.active > 0) || !traffic_learn(&seen, &s))
		return false;
	use_inferred(m, &seen, s.batch, s.active, arch, e);
	return true;
}

bool learn_from_dram(struct model *m, const struct sample *in,
		     const struct arch *arch, struct evidence *e)
{
	const struct counted *c = &m->counted;
	double dense = arch->dense_bytes * fmax(in->gpus, 1) / e->tp;
	double layers = arch->moe_layers * arch->expert_bytes;
	double b = c->steps > 0 ? c->tokens / c->steps : 0, now;
	struct traffic_sample s = { .experts = arch->experts,
				    .top_k = arch->top_k,
				    .batch = b };
	struct traffic seen;

	if (!in->have_dram || !(e->forward_per_s.v > 0) ||
	    !value_known(e->forward_per_s) || !(layers > 0) ||
	    !(e->kv_bytes >= 0) || e->prefill_now >= PREFILL_NEGLIGIBLE ||
	    !(b >= 1))
		return false;
	now = in->dram_read / e->forward_per_s.v - e->kv_bytes;
	s.active = active_of_bytes(arch, dense,
				   (c->read_bytes - c->kv_bytes) / c->steps, b);
	if (!(s.active > 0) ||
	    !(active_of_bytes(arch, dense, now, e->tokens.v) > 0))
		return false;
	s.active_error = COUNTED_ERROR * c->read_bytes / c->steps / layers;
	if (!traffic_learn(&seen, &s))
		return false;
	use_inferred(m, &seen, b, s.active, arch, e);
	return true;
}
