#include "model/state.h"
#include "model/valley.h"

#include <math.h>

#define EXIT_SINGLE_RATIO 0.1 /* s1 here: the valley is behind */
/* Attention kernels do more than read the cache, so their share is an upper
 * bound of sigma_KV; it is used only where it dominates the step. */
#define KV_BOUND_MIN 0.5
/* The counters see prompts, too: with more of them the quotient says nothing
 * about decode steps. */
#define PREFILL_NEGLIGIBLE 0.1
/* Tokens that the engine counts over those in its steps: fewer, some were
 * thrown away. */
#define ACCEPTED_MAX 0.95

/* ---- economics -------------------------------------------------------- */

static void find_exit(const struct model *m, const struct arch *arch,
		      struct figures *f)
{
	if (arch->top_k >= arch->experts)
		return;
	if (m->traffic.batch > 0)
		f->exit_tokens = m->edges.exit;
	else
		f->exit_tokens =
			valley_batch_at(arch->experts, arch->top_k,
					VALLEY_SKEW_UNIFORM, EXIT_SINGLE_RATIO);
}

/* The newest window as a point of calibration, unless arithmetic sets its
 * pace. */
static void add_point(struct model *m, const struct evidence *e,
		      const struct figures *f)
{
	unsigned octave;
	unsigned long at;

	if (!e->new_window || !e->classify || !e->have_rows ||
	    e->active_source != SOURCE_MEASURED ||
	    e->step_s.state != VALUE_OK ||
	    e->step_s.source != SOURCE_MEASURED || f->shares.compute > 0)
		return;
	octave = (unsigned)fmin(log2(fmax(e->tokens.v, 1)), OCTAVES - 1);
	at = octave * POINTS_PER_OCTAVE +
	     m->n_points[octave]++ % POINTS_PER_OCTAVE;
	m->points[at] = (struct calibration_point){
		.batch = e->tokens.v,
		.bytes = f->cost.routed_bytes + f->cost.dense_bytes +
			 f->cost.kv_bytes,
		.seconds = e->step_s.v,
	};
}

static void find_machine(const struct model *m, const struct sample *in,
			 const struct arch *arch, const struct gpu *gpu,
			 struct figures *f)
{
	economics_machine(gpu, in->gpus, in->have_peak ? in->peak_bw : 0,
			  arch ? arch->compute : COMPUTE_BF16, &f->machine);
	calibrate(m->points, OCTAVES * POINTS_PER_OCTAVE, f->machine.bw,
		  &f->calibration);
	if (f->calibration.fitted)
		f->machine.bw_achieved = f->calibration.bw;
}

static void settle(struct step_shares *s)
{
	s->gain = fmax(0, 1 - s->expert - s->kv - s->compute);
}

/* KV reads by the engine's count of tokens, at most what attention takes; where
 * there is no such count, attention itself while it rules the step. */
static void find_shares(const struct evidence *e, struct figures *f)
{
	struct step_cost c = f->cost;
	double limit = e->attention * f->step_s * f->machine.bw_achieved;
	double single = e->active > 0 ? e->single_request / e->active : 0;

	f->have_kv = c.kv_bytes > 0 && f->machine.bw_achieved > 0;
	f->kv_source = SOURCE_SCRAPED;
	if (f->have_kv && e->attention > 0)
		c.kv_bytes = fmin(c.kv_bytes, limit);
	f->have_shares = economics_shares(&c, &f->machine, single, f->step_s,
					  e->expert_s, &f->shares);
	if (!f->have_kv && e->attention > KV_BOUND_MIN) {
		f->have_kv = true;
		f->kv_source = f->source;
		f->shares.kv = fmin(e->attention, 1);
		settle(&f->shares);
	}
}

/* Steps that carry prompts have rows of their own, and share the experts with
 * the tokens that ride along: both kinds of steps, by their time. */
static void blend_prompts(const struct model *m, const struct evidence *e,
			  const struct arch *arch, struct figures *f)
{
	const struct sample_window *w = &m->window;
	const struct sample_rows *r = &w->prefill_rows;
	double all = w->step_ns[0] + w->step_ns[1], part;
	struct step_shares mixed;
	struct step_cost cost;

	if (!f->have_shares || !e->classify || !(e->prefill_now > 0) ||
	    !(w->steps[1] > 0) || !(r->cells > 0) || !(r->active > 0))
		return;
	economics_cost(arch, r->rows / (r->cells * arch->top_k),
		       r->active / r->cells, f->cost.kv_bytes, &cost);
	if (!economics_shares(&cost, &f->machine, r->single / r->active,
			      w->step_ns[1] / w->steps[1] / 1e9, NAN, &mixed))
		return;
	part = w->step_ns[1] / all;
	f->shares.expert += part * (mixed.expert - f->shares.expert);
	f->shares.kv += part * (mixed.kv - f->shares.kv);
	f->shares.compute += part * (mixed.compute - f->shares.compute);
	settle(&f->shares);
}

void figures_find(struct model *m, const struct sample *in,
		  const struct evidence *e, const struct arch *arch,
		  const struct gpu *gpu, struct figures *f)
{
	*f = (struct figures){ .source = SOURCE_INFERRED,
			       .uniform = !(m->traffic.batch > 0),
			       .straggler = NAN,
			       .effective = NAN,
			       .popularity = NAN,
			       .fixed = NAN };
	find_machine(m, in, arch, gpu, f);
	if (!arch || !arch_is_moe(arch) || !e->have_active ||
	    !(arch->expert_bytes > 0))
		return;
	economics_cost(arch, e->tokens.v, e->active,
		       e->kv_bytes > 0 ? e->kv_bytes : 0, &f->cost);
	f->cost.dense_bytes *= fmax(in->gpus, 1) / e->tp;
	f->have_cost = true;
	f->source = source_weaker(f->source, e->active_source);
	f->step_s = e->step_s.state == VALUE_OK ? e->step_s.v : 0;
	if (!(f->step_s > 0)) {
		f->step_s = economics_step_seconds(&f->cost, &f->machine);
		f->source = SOURCE_MODELLED;
	}
	find_shares(e, f);
	add_point(m, e, f);
	blend_prompts(m, e, arch, f);
	find_exit(m, arch, f);
}

/* ---- metrics ---------------------------------------------------------- */

static void put(struct snapshot *out, enum metric_id id, struct value v)
{
	out->metrics[id] = v;
}

static struct value aged(struct value v, bool stale)
{
	if (stale && v.state == VALUE_OK)
		v.state = VALUE_STALE;
	return v;
}

/* What the engine says of itself. */
static void put_claims(const struct sample *in, struct snapshot *out)
{
	static const struct sample_engine none = { NAN, NAN, NAN, NAN, NAN };
	const struct sample_engine *e = in->engine ? in->engine : &none;
	const struct {
		enum metric_id id;
		double v;
	} all[] = {
		{ METRIC_SCRAPED_RUNNING, in->running },
		{ METRIC_SCRAPED_WAITING, in->queued },
		{ METRIC_SCRAPED_TOKENS, e->tokens_per_s },
		{ METRIC_SCRAPED_KV, e->kv_usage },
		{ METRIC_SCRAPED_HITS, e->prefix_hits },
		{ METRIC_SCRAPED_PREEMPTED, e->preempted },
		{ METRIC_SCRAPED_ACCEPTED, e->accepted_per_step },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		put(out, all[i].id,
		    aged(value_make(all[i].v, SOURCE_SCRAPED),
			 in->scrape_age_s > SCRAPE_STALE_S));
}

static void put_requests(const struct sample *in, const struct evidence *e,
			 struct snapshot *out)
{
	const enum value_source s = SOURCE_MEASURED;
	const enum value_source now =
		in->requests_guessed ? SOURCE_INFERRED : s;

	if (in->have_requests) {
		put(out, METRIC_IN_FLIGHT, value_make(e->load.in_flight, now));
		put(out, METRIC_WAITING, value_make(in->waiting, now));
		put(out, METRIC_STARTED, value_make(in->started, s));
		put(out, METRIC_COMPLETED, value_make(in->completed, s));
		put(out, METRIC_ABORTED, value_make(in->aborted, s));
		put(out, METRIC_ARRIVALS,
		    value_ratio(in->d_started, in->interval_s, s));
		put(out, METRIC_EVENTS,
		    value_ratio(in->d_events, in->interval_s, s));
	}
	if (in->have_scrape)
		put_claims(in, out);
	if (in->have_agent)
		put(out, METRIC_OVERHEAD, value_make(in->overhead, s));
}

/* Sums over the cells of the window, or one expected cell. */
static void put_rows(const struct model *m, const struct sample *in,
		     const struct evidence *e, const struct arch *arch,
		     struct snapshot *out)
{
	static const enum metric_id ids[] = {
		METRIC_ROWS,
		METRIC_ACTIVE_EXPERTS,
		METRIC_WEIGHT_BLOCKS,
		METRIC_SINGLE_ROW_EXPERTS,
		METRIC_COVERAGE,
		METRIC_FRAGMENTATION,
		METRIC_ROWS_PER_ACTIVE,
		METRIC_SINGLE_ROW,
		METRIC_VALLEY_INDEX,
		METRIC_ELASTICITY,
	};
	struct sample_rows r = m->window.rows;
	enum value_source s = SOURCE_MEASURED;
	bool stale = !e->agrees || e->idle;
	struct row_ratios q;

	if (!e->have_rows) {
		r = (struct sample_rows){ 0 };
		s = e->active_source;
		stale = false;
	}
	if (!e->have_rows && e->have_active && !e->idle)
		r = (struct sample_rows){ .cells = 1,
					  .rows = e->tokens.v * arch->top_k,
					  .active = e->active,
					  .single = e->single,
					  .experts = arch->experts };
	rows_ratios(&r, s, &q);
	put(out, METRIC_ROWS, rows_mean(&r, r.rows, s));
	put(out, METRIC_ACTIVE_EXPERTS, rows_mean(&r, r.active, s));
	if (r.blocks > 0)
		put(out, METRIC_WEIGHT_BLOCKS, rows_mean(&r, r.blocks, s));
	put(out, METRIC_SINGLE_ROW_EXPERTS, rows_mean(&r, r.single, s));
	put(out, METRIC_COVERAGE, q.coverage);
	put(out, METRIC_FRAGMENTATION, q.fragmentation);
	put(out, METRIC_ROWS_PER_ACTIVE, q.per_active);
	put(out, METRIC_SINGLE_ROW, q.single);
	put(out, METRIC_VALLEY_INDEX, q.valley);
	put(out, METRIC_ELASTICITY, q.elasticity);
	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct value *v = &out->metrics[ids[i]];

		*v = aged(*v, stale);
		if (v->state == VALUE_NO_DATA && in->have_agent &&
		    !m->have_window)
			v->state = VALUE_WARMING;
	}
}

struct value figures_tokens(const struct sample *in, const struct evidence *e)
{
	struct value tokens = value_make(NAN, SOURCE_SCRAPED);

	if (value_known(e->forward_per_s) && e->forward_per_s.v <= 0)
		tokens = value_make(0, SOURCE_MEASURED);
	else if (value_known(e->forward_per_s) && value_known(e->tokens))
		tokens = value_make(e->tokens.v * e->forward_per_s.v,
				    e->tokens.source);
	else if (in->have_scrape)
		tokens = value_ratio(in->d_generated_tokens, in->interval_s,
				     SOURCE_SCRAPED);
	/* of the tokens that a speculating engine verifies, those it keeps */
	if (e->tokens_per_request >= SPECULATION_MIN && in->have_scrape &&
	    !(in->scrape_age_s > SCRAPE_STALE_S) && value_known(tokens) &&
	    in->d_generated_tokens / in->interval_s < ACCEPTED_MAX * tokens.v)
		tokens = value_ratio(in->d_generated_tokens, in->interval_s,
				     SOURCE_SCRAPED);
	return tokens;
}

static void put_steps(const struct model *m, const struct sample *in,
		      const struct evidence *e, struct snapshot *out)
{
	const struct sample_window *w = &m->window;
	struct value busy = value_make(NAN, SOURCE_MEASURED);
	bool stale = !e->agrees || e->idle;

	put(out, METRIC_TOKENS_PER_STEP, aged(e->tokens, e->idle));
	put(out, METRIC_STEPS, e->steps_per_s);
	put(out, METRIC_STEP_SECONDS, aged(e->step_s, e->idle));
	put(out, METRIC_TOKENS, figures_tokens(in, e));

	put(out, METRIC_PREFILL_SHARE, aged(e->prefill, e->idle));
	if (m->have_window)
		busy = aged(
			value_ratio(w->busy_ns, w->wall_ns, SOURCE_MEASURED),
			stale);
	if (e->idle && value_known(e->forward_per_s))
		busy = value_make(0, SOURCE_INFERRED);
	put(out, METRIC_BUSY, busy);
}

static void put_shares(const struct evidence *e, const struct figures *f,
		       struct snapshot *out)
{
	enum value_source gain =
		f->have_kv ? source_weaker(f->source, f->kv_source) : f->source;

	if (!f->have_shares)
		return;
	put(out, METRIC_MARGINAL_GAIN,
	    aged(value_make(f->shares.gain, gain), e->idle));
	put(out, METRIC_EXPERT_SHARE,
	    aged(value_make(f->shares.expert, f->source), e->idle));
	put(out, METRIC_KV_SHARE,
	    aged(value_make(f->have_kv ? f->shares.kv : NAN, f->kv_source),
		 e->idle));
	if (f->machine.flops > 0)
		put(out, METRIC_COMPUTE_SHARE,
		    aged(value_make(f->shares.compute, f->source), e->idle));
}

static void put_bandwidth(const struct sample *in, const struct evidence *e,
			  const struct arch *arch, const struct figures *f,
			  struct snapshot *out)
{
	struct value tokens = out->metrics[METRIC_TOKENS];
	double needed =
		f->cost.routed_bytes + f->cost.dense_bytes + f->cost.kv_bytes;
	bool split = isfinite(in->dram_write);
	double dram = in->dram_read + (split ? in->dram_write : 0);
	/* the engine counts the tokens behind the KV bytes */
	enum value_source source =
		f->cost.kv_bytes > 0 ? source_weaker(f->source, SOURCE_SCRAPED)
				     : f->source;

	if (in->have_dram) {
		const enum value_source s =
			in->dram_of_one ? SOURCE_INFERRED : SOURCE_MEASURED;

		/* decoding hardly writes: the sum stands for the reads */
		put(out, METRIC_DRAM_READ,
		    value_make(in->dram_read, split ? s : SOURCE_INFERRED));
		put(out, METRIC_DRAM_WRITE, value_make(in->dram_write, s));
		put(out, METRIC_TENSOR_ACTIVE,
		    value_make(in->tensor_active, s));
		put(out, METRIC_MBU, value_ratio(dram, f->machine.bw, s));
	}
	/* over a step of the roofline it would be what the roofline assumes */
	if (f->have_cost && e->step_s.state == VALUE_OK)
		put(out, METRIC_USEFUL_MBU,
		    aged(value_ratio(needed, f->step_s * f->machine.bw, source),
			 e->idle));
	/* of U by the same counters it would be 1 */
	if (f->have_cost && in->have_dram && value_known(e->forward_per_s) &&
	    e->active_source != SOURCE_INFERRED &&
	    e->prefill_now < PREFILL_NEGLIGIBLE)
		put(out, METRIC_READ_AMPLIFICATION,
		    value_ratio(dram, needed * e->forward_per_s.v, source));
	if (arch && value_known(tokens))
		put(out, METRIC_MFU,
		    value_ratio(tokens.v * arch_flops_per_token(arch),
				f->machine.flops,
				source_weaker(SOURCE_INFERRED, tokens.source)));
}

static void put_model(const struct model *m, const struct sample *in,
		      const struct arch *arch, const struct figures *f,
		      struct snapshot *out)
{
	struct value tokens = out->metrics[METRIC_TOKENS];
	double usd = fmax(in->gpus, 1) * m->settings.gpu_price;
	double floor;

	if (usd > 0)
		put(out, METRIC_COST_RATE, value_make(usd, SOURCE_MEASURED));
	if (f->machine.bw > 0)
		put(out, METRIC_PEAK_BANDWIDTH,
		    value_make(f->machine.bw, SOURCE_MODELLED));
	if (value_known(tokens) && tokens.v > 0 && m->settings.gpu_price > 0)
		put(out, METRIC_COST,
		    value_make(economics_usd_per_mtok(fmax(in->gpus, 1),
						      m->settings.gpu_price,
						      tokens.v),
			       tokens.source));
	if (!arch || !arch_is_moe(arch))
		return;
	floor = valley_floor(arch->experts, arch->top_k);
	put(out, METRIC_VALLEY_FLOOR,
	    value_make(floor > 0 ? floor : NAN, SOURCE_MODELLED));
	if (f->machine.flops > 0 && arch->expert_params > 0 &&
	    arch->expert_bytes > 0)
		put(out, METRIC_RIDGE_ROWS,
		    value_make(
			    economics_ridge_rows(&f->machine,
						 arch->expert_bytes /
							 arch->expert_params),
			    SOURCE_MODELLED));
}

void figures_metrics(const struct model *m, const struct sample *in,
		     const struct evidence *e, const struct arch *arch,
		     const struct figures *f, struct snapshot *out)
{
	for (unsigned i = 0; i < METRICS; i++)
		out->metrics[i] = (struct value){ 0 };
	put_requests(in, e, out);
	put_rows(m, in, e, arch, out);
	put_steps(m, in, e, out);
	put_shares(e, f, out);
	put_bandwidth(in, e, arch, f, out);
	put_model(m, in, arch, f, out);
	measures_fill(m, e, arch, f, out);
}
