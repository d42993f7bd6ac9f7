#include "model/state.h"

#include <math.h>
#include <string.h>

/* The load differs when a signal is off by more than this. */
#define CHANGE_RATIO 1.5
/* Captured sizes are up to 2x apart, but the smallest are exact. */
#define PADDED_CHANGE_RATIO 2.0
#define PADDED_EXACT 2.5
#define STEADY_RATIO 1.2
#define SCALE_MAX 64.0
static double ratio_apart(double a, double b)
{
	return a > 0 && b > 0 ? fmax(a / b, b / a) : NAN;
}

/* ---- the load --------------------------------------------------------- */

static double steps_in(const struct sample *in)
{
	double n = in->d_decode_steps + in->d_eager_steps;

	return in->have_agent && n >= 0 ? n : NAN;
}

static double known_or_nan(double x)
{
	return isfinite(x) ? x : NAN;
}

static void load_read(const struct sample *in, struct load *l)
{
	*l = (struct load){ .now_ns = in->now_ns,
			    .in_flight = NAN,
			    .streaming = NAN,
			    .padded = NAN,
			    .running = NAN,
			    .tokens = NAN,
			    .source = SOURCE_INFERRED };
	if (in->have_requests) {
		l->in_flight =
			known_or_nan(fmax(in->waiting + in->streaming, 0));
		l->streaming = known_or_nan(fmax(in->streaming, 0));
	}
	if (in->have_agent && in->d_decode_steps > 0 && in->d_padded_tokens > 0)
		l->padded =
			known_or_nan(in->d_padded_tokens / in->d_decode_steps);
	if (in->have_scrape && !(in->scrape_age_s > SCRAPE_STALE_S))
		l->running = known_or_nan(in->running);

	if (l->in_flight >= 0.5) {
		l->tokens = l->streaming;
		/* Clients that do not stream count as waiting to the end. */
		if (l->padded > 2 * fmax(l->streaming, 1))
			l->tokens = fmin(l->in_flight, l->padded);
	} else if (l->padded > 0) {
		l->tokens = l->padded;
	}
	if (!(l->tokens >= 0.5) && l->running > 0) {
		l->tokens = l->running;
		l->source = SOURCE_SCRAPED;
	}
	if (l->tokens < 0.5)
		l->tokens = NAN;
}

static bool load_differs(const struct load *a, const struct load *b)
{
	if (a->in_flight > 0 && b->in_flight > 0)
		return ratio_apart(a->in_flight, b->in_flight) > CHANGE_RATIO &&
		       ratio_apart(a->streaming, b->streaming) > CHANGE_RATIO;
	if (a->padded > 0 && b->padded > 0)
		return ratio_apart(a->padded, b->padded) >
		       (fmin(a->padded, b->padded) < PADDED_EXACT
				? CHANGE_RATIO
				: PADDED_CHANGE_RATIO);
	return ratio_apart(a->running, b->running) > CHANGE_RATIO;
}

static void load_remember(struct model *m, const struct load *l)
{
	m->history[m->n_history++ % LOAD_HISTORY] = *l;
}

/*
 * Which load does a window of this length and B belong to?  Of those about its
 * time, the one whose tokens are nearest to B.  spread is how far they lie
 * apart: a window over a change belongs to none of them.
 */
static void load_of_window(const struct model *m, double start_ns,
			   double end_ns, double slack_ns, double tokens,
			   struct load *best, double *spread)
{
	unsigned long n =
		m->n_history < LOAD_HISTORY ? m->n_history : LOAD_HISTORY;
	double low = INFINITY, high = 0, off = INFINITY;

	*best = m->history[(m->n_history - 1) % LOAD_HISTORY];
	for (unsigned long i = 0; i < n; i++) {
		const struct load *l =
			&m->history[(m->n_history - 1 - i) % LOAD_HISTORY];
		double apart = ratio_apart(l->tokens, tokens);

		if (l->now_ns < start_ns - slack_ns ||
		    l->now_ns > end_ns + slack_ns || !(l->tokens > 0))
			continue;
		low = fmin(low, l->tokens);
		high = fmax(high, l->tokens);
		if (apart < off) {
			off = apart;
			*best = *l;
		}
	}
	*spread = high > 0 ? high / low : 1;
}

/* ---- windows ---------------------------------------------------------- */

static double window_tokens(const struct sample_window *w,
			    const struct arch *arch)
{
	double k = arch ? arch->top_k : 0;

	if (w->rows.cells > 0 && k > 0)
		return w->rows.rows / (k * w->rows.cells);
	return NAN;
}

/*
 * What prompts take of a step that carries them.  Either the time that it is
 * longer than a step without, or, as no step was without, their share of its
 * tokens; the smaller where both are known, because tokens that ride along
 * with prompts cost less than their number.
 */
static double prompt_share(const struct sample_window *w,
			   const struct load *load)
{
	double all = w->step_ns[0] + w->step_ns[1];
	double tokens = w->steps[1] > 0 ? w->tokens[1] / w->steps[1] : 0;
	double ns = w->step_ns[1];

	if (!(all > 0))
		return NAN;
	if (load->streaming > 0 && tokens > 0)
		ns *= fmax(0, 1 - load->streaming / tokens);
	if (w->steps[0] > 0)
		ns = fmin(ns, w->step_ns[1] - w->steps[1] * w->step_ns[0] /
						      w->steps[0]);
	return fmax(ns, 0) / all;
}

/* Whether the window has decode steps; the one before is kept if not. */
static bool window_take(struct model *m, const struct sample *in,
			const struct arch *arch)
{
	const struct sample_window *w = in->window;
	struct sample_window whole = *w;
	double tokens, spread;
	double end_ns = w->end_ns > 0 ? w->end_ns : in->now_ns;
	struct load load;

	learn_whole_layers(&whole, in->gpus, arch);
	tokens = window_tokens(&whole, arch);
	load_of_window(m, end_ns - w->wall_ns, end_ns, in->interval_s * 1e9,
		       tokens, &load, &spread);
	m->prompts = (struct prompts){ .end_ns = end_ns,
				       .share = prompt_share(w, &load),
				       .load = load };
	if (m->have_window && !(w->steps[0] > 0 || w->rows.cells > 0))
		return false;
	m->window = whole;
	m->have_window = true;
	m->window_ns = end_ns;
	m->window_load = load;
	m->tokens_scale = 1;
	m->window_mixed = false;
	if (ratio_apart(load.tokens, tokens) > CHANGE_RATIO) {
		if (spread > STEADY_RATIO)
			m->window_mixed = true;
		else
			m->tokens_scale =
				fmin(fmax(tokens / load.tokens, 1 / SCALE_MAX),
				     SCALE_MAX);
	}
	if (tokens > 0 && !m->window_mixed)
		learn_traffic(m, in, arch, tokens);
	return true;
}

static bool window_is_new(const struct model *m, const struct sample *in)
{
	const struct sample_window *w = in->window;

	if (!in->have_window || !w || !(w->windows > 0))
		return false;
	if (w->end_ns > 0 && w->end_ns == m->prompts.end_ns)
		return false;
	return w->steps[0] + w->steps[1] > 0 || w->rows.cells > 0 ||
	       w->wall_ns > 0;
}

/* before: the load of the window that this one replaced, if one did.  Where a
 * window comes with the change itself, only it tells that there was one. */
static void judge_window(struct model *m, const struct sample *in,
			 const struct load *before, struct evidence *e)
{
	bool moved = e->new_window && load_differs(before, &m->window_load);
	double age_s = (in->now_ns - m->window_ns) / 1e9;
	bool differs;

	if (!m->have_window)
		return;
	e->have_rows = m->window.rows.cells > 0;
	e->fresh = age_s <= WINDOW_STALE_S;
	differs = load_differs(&m->window_load, &e->load);
	e->agrees = e->fresh && !differs;
	e->classify = e->agrees && !m->window_mixed;
	e->load_changed = (differs || moved) && !m->was_disagreeing;
	m->was_disagreeing = differs;
}

/* ---- steps ------------------------------------------------------------ */

static void find_steps(const struct model *m, const struct sample *in,
		       struct evidence *e)
{
	const double *w = m->window.steps;
	double decode = in->d_decode_steps, share = 1;

	if (!isfinite(steps_in(in)) || !(in->interval_s > 0))
		return;
	/* All eager: the window knows how many of them are decode steps. */
	if (m->have_window && w[0] + w[1] > 0)
		share = w[0] / (w[0] + w[1]);
	if (decode <= 0)
		decode = in->d_eager_steps * share;
	e->steps_per_s = value_make(decode / in->interval_s, SOURCE_MEASURED);
	e->forward_per_s =
		value_make(steps_in(in) / in->interval_s, SOURCE_MEASURED);
}

static void find_step_time(const struct model *m, const struct sample *in,
			   struct evidence *e)
{
	const struct sample_window *w = &m->window;
	bool measured = m->have_window && w->steps[0] > 0 && w->step_ns[0] > 0;
	double rate = e->forward_per_s.v;

	if (measured)
		e->step_s = value_make(w->step_ns[0] / w->steps[0] / 1e9,
				       SOURCE_MEASURED);
	if (measured && e->agrees)
		return;
	if (value_known(e->forward_per_s) && rate > 0 &&
	    !(e->load.in_flight < 0.5) && !(in->interval_s * rate < 1))
		e->step_s = value_make(1 / rate, SOURCE_INFERRED);
	else if (measured)
		e->step_s.state = VALUE_STALE;
	else if (in->have_scrape && in->running >= 1 &&
		 !(in->scrape_age_s > SCRAPE_STALE_S) &&
		 in->d_generated_tokens > 0)
		e->step_s = value_make(in->running * in->interval_s /
					       in->d_generated_tokens,
				       SOURCE_SCRAPED);
}

/* ---- prefill ---------------------------------------------------------- */

static void find_prefill(struct model *m, const struct sample *in,
			 struct evidence *e)
{
	const struct prompts *p = &m->prompts;
	bool fresh = (in->now_ns - p->end_ns) / 1e9 <= WINDOW_STALE_S;
	bool agrees = fresh && !load_differs(&p->load, &e->load);
	bool eager = in->have_agent && in->d_eager_steps > 0 &&
		     !(in->d_decode_steps > 0);
	bool only = eager && e->load.in_flight >= 0.5 &&
		    e->load.streaming < 0.5 && !e->classify;

	if (p->end_ns > 0)
		e->prefill = value_make(p->share, SOURCE_MEASURED);
	if (e->prefill.state == VALUE_OK && agrees)
		e->prefill_now = p->share;
	else if (e->prefill.state == VALUE_OK)
		e->prefill.state = VALUE_STALE;
	/* No request waits for its first token: whatever the window saw of
	 * prompts is over. */
	if (in->have_requests && in->waiting < 0.5)
		e->prefill_now = 0;
	/* Steps run, nobody has got a token yet, twice in a row. */
	m->prefill_only_s = only ? m->prefill_only_s + in->interval_s : 0;
	if (only && m->prefill_only_s > in->interval_s)
		e->prefill_now = 1;
}

/* ---- experts ---------------------------------------------------------- */

static void predict_active(struct model *m, const struct sample *in,
			   const struct arch *arch, struct evidence *e)
{
	struct traffic t;

	if (!arch || !arch_is_moe(arch) || !value_known(e->tokens))
		return;
	learn_traffic_known(m, arch, &t);
	/* rows that were sampled tell more than counters do */
	if ((!(t.batch > 0) || m->traffic_inferred) &&
	    (learn_from_layers(m, arch, e) || learn_from_dram(m, in, arch, e)))
		return;
	e->active = traffic_active(&t, e->tokens.v);
	e->single = traffic_single(&t, e->tokens.v);
	e->active_source = SOURCE_MODELLED;
	e->have_active = true;
}

/* More tokens of measured rows than requests that the engine says it runs: each
 * has several, and one more request brings several, too.  The tracker alone may
 * have missed some. */
static void find_requests(const struct model *m, const struct arch *arch,
			  struct evidence *e)
{
	bool told = e->load.running >= 1;
	double requests = told ? e->load.running : e->load.in_flight;
	double b = e->tokens.v, each, alone, one;
	struct traffic t;

	e->tokens_per_request = NAN;
	e->single_request = e->single;
	if (!e->have_active || !(requests >= 1) ||
	    e->tokens.source != SOURCE_MEASURED)
		return;
	each = fmax(b / requests, 1);
	if (!told && each >= SPECULATION_MIN)
		return;
	e->tokens_per_request = each;
	if (each < SPECULATION_MIN || requests < 1.5)
		return;
	learn_traffic_known(m, arch, &t);
	one = traffic_active(&t, b) - traffic_active(&t, b - 1);
	alone = (traffic_active(&t, b) - traffic_active(&t, b - each)) / each;
	if (one > 0 && alone > one)
		e->single_request = fmin(e->single * alone / one, e->active);
}

/* Every running request has a context of the mean length; the room, like what
 * is read, is counted in bytes that a step reads. */
static void find_kv(const struct sample *in, const struct arch *arch,
		    struct evidence *e)
{
	double tokens = in->kv_tokens, room = in->kv_capacity_tokens;
	double requests =
		in->running >= 1 ? in->running : fmax(e->load.in_flight, 1);

	e->kv_bytes = e->kv_capacity_bytes = NAN;
	if (!in->have_scrape || in->scrape_age_s > SCRAPE_STALE_S || !arch ||
	    !(arch->kv_bytes_per_token > 0) || !(tokens > 0) ||
	    !isfinite(tokens) || !isfinite(requests))
		return;
	e->kv_bytes = requests * arch_kv_bytes(arch, tokens / requests);
	if (room > 0 && isfinite(room))
		e->kv_capacity_bytes = e->kv_bytes * room / tokens;
}

/* One copy of what all experts share, unless expert parallelism says otherwise:
 * then tp GPUs have one each. */
static void find_layout(const struct sample *in,
			const struct snapshot_target *t, struct evidence *e)
{
	double n = fmax(in->gpus, 1);

	e->tp = n;
	e->ep = 1;
	if (t->ep > 1 && fmod(n, t->ep) == 0)
		e->ep = t->ep;
	if (e->ep > 1 && t->tp >= 1 && fmod(n, t->tp) == 0)
		e->tp = t->tp;
}

/* For how long the load has been what it is. */
static void find_steadiness(struct model *m, const struct sample *in,
			    const struct evidence *e)
{
	if (load_differs(&m->steady_load, &e->load) || e->idle) {
		m->steady_s = 0;
		m->steady_load = e->load;
	} else {
		m->steady_s += in->interval_s;
	}
}

static void find_tokens(const struct model *m, const struct arch *arch,
			struct evidence *e)
{
	double load = e->load.tokens * (m->have_window ? m->tokens_scale : 1);
	double measured = window_tokens(&m->window, arch);

	if (e->classify && measured > 0)
		e->tokens = value_make(measured, SOURCE_MEASURED);
	else if (load > 0)
		e->tokens = value_make(load, e->load.source);
	else if (e->fresh && measured > 0)
		e->tokens = value_make(measured, SOURCE_MEASURED);
}

static void find_experts(struct model *m, const struct sample *in,
			 const struct arch *arch, struct evidence *e)
{
	const struct sample_window *w = &m->window;

	e->expert_s = NAN;
	e->attention = NAN;
	if (e->classify && w->steps[0] > 0 && w->step_ns[0] > 0) {
		e->attention = w->group_ns[GROUP_OF_ATTENTION] / w->step_ns[0];
		e->expert_s = w->group_ns[GROUP_OF_EXPERTS] / w->steps[0] / 1e9;
	}
	if (e->classify && e->have_rows) {
		e->active = w->rows.active / w->rows.cells;
		e->single = w->rows.single / w->rows.cells;
		e->active_source = SOURCE_MEASURED;
		e->have_active = true;
	} else {
		predict_active(m, in, arch, e);
	}
}

/* An engine that says it runs requests is believed over a tracker that sees
 * none: they may have begun before it, or come by another way. */
static bool is_idle(const struct sample *in, const struct load *l)
{
	double steps = steps_in(in);

	if (l->in_flight >= 0.5)
		return false;
	if (isfinite(steps))
		return steps < 0.5;
	if (in->have_requests)
		return !(l->running > 0);
	return l->running <= 0 && !(in->queued > 0);
}

/* The bytes of a window come after it, and grow more certain. */
static void take_bytes(struct model *m, const struct sample *in)
{
	const struct sample_window *w = in->window;

	if (!in->have_window || !m->have_window ||
	    w->end_ns != m->window.end_ns || w->n_layers != m->window.n_layers)
		return;
	m->window.bytes = w->bytes;
	for (unsigned l = 0; l < w->n_layers && l < SAMPLE_LAYERS_MAX; l++) {
		m->window.layers[l].dram_bytes = w->layers[l].dram_bytes;
		m->window.layers[l].expert_bytes = w->layers[l].expert_bytes;
	}
}

void evidence_find(struct model *m, const struct sample *in,
		   const struct arch *arch,
		   const struct snapshot_target *layout, struct evidence *e)
{
	struct load before = m->window_load;

	*e = (struct evidence){ .active_source = SOURCE_MODELLED };
	load_read(in, &e->load);
	load_remember(m, &e->load);
	e->idle = is_idle(in, &e->load);
	e->idle_source = in->have_agent || in->have_requests ? SOURCE_MEASURED
							     : SOURCE_SCRAPED;
	if (window_is_new(m, in))
		e->new_window = window_take(m, in, arch);
	take_bytes(m, in);
	judge_window(m, in, &before, e);
	find_steps(m, in, e);
	find_step_time(m, in, e);
	find_prefill(m, in, e);
	find_steadiness(m, in, e);
	find_kv(in, arch, e);
	find_layout(in, layout, e);
	find_tokens(m, arch, e);
	learn_counted(m, in, e);
	find_experts(m, in, arch, e);
	find_requests(m, arch, e);
}
