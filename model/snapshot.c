#include "model/findings.h"
#include "model/hist.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MIN_S 1e-3

struct model *model_new(const struct model_settings *s)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	if (s)
		m->settings = *s;
	m->tokens_scale = 1;
	return m;
}

void model_free(struct model *m)
{
	free(m);
}

/* Weight: the interval, as far as steps ran in it. */
static void gather(const struct model *m, const struct sample *in,
		   const struct evidence *e, const struct figures *f,
		   struct regime_evidence *r)
{
	*r = (struct regime_evidence){
		.dt_s = in->interval_s,
		.idle = e->idle,
		.busy = NAN,
		/* measured figures do not wait for modelled ones to fade */
		.restart = e->load_changed ||
			   (e->new_window && e->classify && m->regime.modelled),
		.have_shares = f->have_shares,
		.expert = f->shares.expert,
		.kv = f->shares.kv,
		.compute = f->shares.compute,
		.prefill = e->prefill_now,
		.single = e->active > 0 ? e->single / e->active : 0,
		.tokens = e->tokens.v,
		.modelled = e->active_source != SOURCE_MEASURED,
		.fixed = f->fixed,
		.straggler = f->straggler,
		.popularity = f->popularity,
	};
	if (e->idle)
		return;
	if (e->new_window) {
		r->sampled_active = m->window.rows.active;
		r->clusters = m->window.clusters;
		if (m->window.wall_ns > 0 && !(e->load.in_flight >= 0.5))
			r->busy = m->window.busy_ns / m->window.wall_ns;
	}
	if (value_known(e->tokens) && e->tokens.v > 0)
		r->weight = in->interval_s;
	else if (e->prefill_now > 0)
		r->weight = in->interval_s;
}

/* Of the weakest that decided; figures derived from measured ones pass. */
static enum value_source regime_source(const struct snapshot *out,
				       const struct evidence *e,
				       const struct figures *f)
{
	switch (out->regime) {
	case REGIME_IDLE:
		return e->idle_source;
	case REGIME_PREFILL:
		return e->prefill.state == VALUE_OK ? SOURCE_MEASURED
						    : SOURCE_INFERRED;
	case REGIME_SOLO:
		return e->tokens.source;
	default:
		return f->source == SOURCE_INFERRED
			       ? e->active_source
			       : source_weaker(e->active_source, f->source);
	}
}

static void classify(struct model *m, const struct sample *in,
		     const struct evidence *e, const struct figures *f,
		     struct snapshot *out)
{
	struct regime_evidence r;

	gather(m, in, e, f, &r);
	out->regime = regime_update(&m->regime, &r);
	out->side = regime_side(&m->regime);
	out->flags = m->regime.flags;
	out->regime_source = regime_source(out, e, f);
}

static void window_hist(const struct model *m, const struct evidence *e,
			const struct sample_hist *h, struct snapshot_hist *out)
{
	struct value *v[] = { &out->count, &out->sum, &out->p50, &out->p90,
			      &out->p99 };

	hist_view(m->have_window && h->count ? h : NULL, SOURCE_MEASURED, out);
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (!e->agrees && v[i]->state == VALUE_OK)
			v[i]->state = VALUE_STALE;
}

static void fill_hists(const struct model *m, const struct sample *in,
		       const struct evidence *e, struct snapshot *out)
{
	const struct sample_hist *h[HISTOGRAMS] = {
		[HISTOGRAM_TTFT] = in->ttft,
		[HISTOGRAM_EVENT_GAP] = in->gap,
		[HISTOGRAM_DURATION] = in->duration,
	};

	for (unsigned i = 0; i < HISTOGRAMS; i++)
		hist_view(in->have_requests ? h[i] : NULL, SOURCE_MEASURED,
			  &out->hists[i]);
	window_hist(m, e, &m->window.step_s, &out->hists[HISTOGRAM_STEP]);
	window_hist(m, e, &m->window.rows_per_expert,
		    &out->hists[HISTOGRAM_ROWS_PER_EXPERT]);
}

/* Every window once: the same one is handed in until the next. */
static void add_window(struct model *m, const struct sample *in)
{
	const struct sample_window *w = in->window;

	if (!in->have_window || !w || !(w->windows > 0))
		return;
	if (w->end_ns > 0 && w->end_ns == m->totals_end_ns)
		return;
	m->totals_end_ns = w->end_ns;
	hist_total_add(&m->totals[HISTOGRAM_STEP], &w->step_s);
	hist_total_add(&m->totals[HISTOGRAM_ROWS_PER_EXPERT],
		       &w->rows_per_expert);
}

static void fill_totals(struct model *m, const struct sample *in,
			struct snapshot *out)
{
	const struct sample_hist *h[HISTOGRAMS] = {
		[HISTOGRAM_TTFT] = in->ttft_total,
		[HISTOGRAM_EVENT_GAP] = in->gap_total,
		[HISTOGRAM_DURATION] = in->duration_total,
	};

	for (unsigned i = 0; i < HISTOGRAMS; i++)
		if (in->have_requests && h[i])
			hist_total_follow(&m->totals[i], h[i]);
	add_window(m, in);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		out->totals[i] = m->totals[i].all;
}

void model_update(struct model *m, const struct sample *given,
		  const struct arch *arch, const struct gpu *gpu,
		  struct snapshot *out)
{
	struct sample in = *given;
	struct evidence e;
	struct figures f;

	if (!(in.interval_s >= INTERVAL_MIN_S) || !isfinite(in.interval_s))
		in.interval_s = INTERVAL_MIN_S;
	if (!(in.gpus >= 1) || !isfinite(in.gpus))
		in.gpus = 1;
	if (!isfinite(in.time))
		in.time = 0;
	if (!m->started)
		m->start_time = in.time;
	m->started = true;
	out->time = in.time;
	out->interval_s = in.interval_s;
	out->uptime_s = fmax(0, in.time - m->start_time);
	out->sequence = ++m->sequence;
	snprintf(out->compute_type, sizeof(out->compute_type), "%s",
		 arch && gpu
			 ? compute_type_name(gpu_compute(gpu, arch->compute))
			 : "");
	evidence_find(m, &in, arch, &out->target, &e);
	figures_find(m, &in, &e, arch, gpu, &f);
	measures_find(m, &in, &e, arch, &f);
	predict_base(m, &in, &e, arch, gpu, &f, out);
	figures_metrics(m, &in, &e, arch, &f, out);
	predict_table(m, in.interval_s, out);
	tables_fill(m, &in, &e, arch, out);
	fill_hists(m, &in, &e, out);
	fill_totals(m, &in, out);
	classify(m, &in, &e, &f, out);
	findings_fill(m, &e, &f, arch, out);
	verdict_fill(&e, &f, arch, out);
}
