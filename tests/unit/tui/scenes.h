/*
 * scenes.h - snapshots made by hand: what the screens are tried on
 *
 * Included by the tests of the screens and by the terminal driver.
 */
#ifndef MOETOP_TESTS_SCENES_H
#define MOETOP_TESTS_SCENES_H

#include "tests/unit/tui/scenes_parts.h"

enum scene {
	SCENE_IDLE,
	SCENE_SOLO,
	SCENE_NEAR,
	SCENE_FAR,
	SCENE_SHARED,
	SCENE_KV,
	SCENE_PREFILL,
	SCENE_GONE,
	SCENE_TIERS_MISSING,
	SCENE_RANKS,
	SCENE_LARGE,
	SCENES
};

static const char *const scene_names[SCENES] = {
	"idle",    "solo", "near",          "far",   "shared", "kv",
	"prefill", "gone", "tiers-missing", "ranks", "large",
};

/* gone and tiers-missing are those of near. */
static const struct scene_load scene_loads[SCENES] = {
	[SCENE_IDLE] = { 128, 8, 0, 0, 0, 8, 8, 1 },
	[SCENE_SOLO] = { 128, 8, 1, 2000, 0, 8, 8, 1 },
	[SCENE_NEAR] = { 128, 8, 14, 4000, 0.04, 8, 8, 1 },
	[SCENE_FAR] = { 128, 8, 72, 2000, 0.06, 8, 8, 1 },
	[SCENE_SHARED] = { 128, 8, 1412, 300, 0.11, 8, 8, 1 },
	[SCENE_KV] = { 128, 8, 180, 16000, 0.05, 8, 8, 1 },
	[SCENE_PREFILL] = { 128, 8, 22, 4000, 0.63, 8, 8, 1 },
	[SCENE_GONE] = { 128, 8, 14, 4000, 0.04, 8, 8, 1 },
	[SCENE_TIERS_MISSING] = { 128, 8, 14, 0, 0, 8, 8, 1 },
	[SCENE_RANKS] = { 128, 8, 40, 3000, 0.05, 8, 1, 8 },
	[SCENE_LARGE] = { 512, 10, 64, 3000, 0.05, 8, 8, 1 },
};

/* Ratios that follow from the counts. */
static inline void scene_routing(struct snapshot *s, const struct scene_load *l,
				 double active, double single,
				 enum value_source source)
{
	struct value *m = s->metrics;
	double rows = l->users * l->top_k, e = l->experts;

	m[METRIC_ROWS] = scene_from(rows, source);
	m[METRIC_TOKENS_PER_STEP] = scene_from(l->users, source);
	m[METRIC_ACTIVE_EXPERTS] = scene_from(active, source);
	m[METRIC_SINGLE_ROW_EXPERTS] = scene_from(single, source);
	m[METRIC_COVERAGE] = scene_from(active / e, source);
	m[METRIC_FRAGMENTATION] = scene_from(active / rows, source);
	m[METRIC_ROWS_PER_ACTIVE] = scene_from(rows / active, source);
	m[METRIC_SINGLE_ROW] = scene_from(single / active, source);
	m[METRIC_VALLEY_INDEX] = scene_from(active * active / e / rows, source);
	m[METRIC_ELASTICITY] = scene_from(1 - single / active, source);
}

/* Known of the model and the GPU alone. */
static inline void scene_constants(struct snapshot *s,
				   const struct scene_load *l)
{
	s->metrics[METRIC_VALLEY_FLOOR] =
		scene_modelled(valley_floor(l->experts, l->top_k));
	s->metrics[METRIC_RIDGE_ROWS] = scene_modelled(206);
}

static inline void scene_traffic(struct snapshot *s)
{
	const struct traffic *t = &s->what_if_base.traffic;
	struct value *m = s->metrics;
	double low, high;

	m[METRIC_TRAFFIC_FLOOR] =
		scene_modelled(traffic_batch_at(t, 0.5, NULL, NULL));
	m[METRIC_TRAFFIC_EXIT] =
		scene_modelled(traffic_batch_at(t, 0.1, &low, &high));
	m[METRIC_TRAFFIC_EXIT_LOW] = scene_modelled(low);
	m[METRIC_TRAFFIC_EXIT_HIGH] = scene_modelled(high);
}

static inline void scene_counts(struct snapshot *s, double users)
{
	struct value *m = s->metrics;

	m[METRIC_IN_FLIGHT] = scene_ok(users);
	m[METRIC_WAITING] = scene_ok(floor(users / 8));
	m[METRIC_STARTED] = scene_ok(4210);
	m[METRIC_COMPLETED] = scene_ok(4207 - users);
	m[METRIC_ABORTED] = scene_ok(3);
	m[METRIC_ARRIVALS] = scene_ok(users * 0.22);
	m[METRIC_SCRAPED_RUNNING] = scene_from(users, SOURCE_SCRAPED);
	m[METRIC_SCRAPED_WAITING] = scene_from(0, SOURCE_SCRAPED);
	scene_requests(s, users);
	scene_hist(&s->hists[HISTOGRAM_TTFT], 0.21, 0.62, 1000);
	scene_hist(&s->hists[HISTOGRAM_DURATION], 11.4, 0.5, 980);
}

static inline void scene_speed(struct snapshot *s, const struct scene_load *l,
			       double step)
{
	struct value *m = s->metrics;
	double busy = 0.97, rate = l->users / step * busy;

	m[METRIC_EVENTS] = scene_ok(rate);
	m[METRIC_TOKENS] = scene_ok(rate);
	m[METRIC_STEPS] = scene_ok(busy / step);
	m[METRIC_STEP_SECONDS] = scene_ok(step);
	m[METRIC_BUSY] = scene_ok(0.94);
	m[METRIC_COST] =
		scene_from(l->gpus * 3.0 / 3600 / rate * 1e6, SOURCE_INFERRED);
	m[METRIC_PREFILL_SHARE] = scene_ok(l->prompts);
	scene_hist(&s->hists[HISTOGRAM_EVENT_GAP], step * 1.01, 0.2, 18900);
	scene_hist(&s->hists[HISTOGRAM_STEP], step * 0.99, 0.08, 600);
	scene_hist(&s->hists[HISTOGRAM_ROWS_PER_EXPERT], 1.5, 0.7, 4000);
}

/* Bytes and operations of the step over what the machine could do. */
static inline void scene_use(struct snapshot *s, const struct scene_load *l,
			     const struct whatif_point *now)
{
	const struct whatif *w = &s->what_if_base;
	struct value *m = s->metrics;
	double peak = w->gpus * w->gpu_bw, useful;
	struct step_cost cost;

	economics_cost(&w->arch, l->users, now->active, w->kv_bytes, &cost);
	useful = (cost.routed_bytes + cost.dense_bytes + cost.kv_bytes) /
		 w->step_s / peak;
	m[METRIC_USEFUL_MBU] = scene_modelled(useful);
	m[METRIC_MBU] = scene_ok(useful * 1.17);
	m[METRIC_READ_AMPLIFICATION] = scene_modelled(1.17);
	m[METRIC_DRAM_READ] = scene_ok(useful * 1.17 * peak);
	m[METRIC_PEAK_BANDWIDTH] = scene_modelled(peak);
	m[METRIC_COST_RATE] = scene_from(w->gpus * 3, SOURCE_INFERRED);
	m[METRIC_MFU] = scene_from((cost.routed_flop + cost.dense_flop) /
					   w->step_s / (w->gpus * w->gpu_flops),
				   SOURCE_INFERRED);
	m[METRIC_KV_BYTES] = scene_from(w->kv_bytes, SOURCE_SCRAPED);
	m[METRIC_FIXED] = scene_modelled(SCENE_FIXED_S);
	m[METRIC_BANDWIDTH] = scene_modelled(w->calibration.bw);
	m[METRIC_EXPERT_SHARE] =
		scene_from(now->shares.expert, SOURCE_INFERRED);
	m[METRIC_KV_SHARE] = scene_from(now->shares.kv, SOURCE_SCRAPED);
	m[METRIC_COMPUTE_SHARE] = scene_modelled(now->shares.compute);
	m[METRIC_MARGINAL_GAIN] = scene_modelled(now->shares.gain);
}

/* Kernel groups: reads by their bytes, the fixed time by habit. */
static inline void scene_where(struct snapshot *s, const struct scene_load *l,
			       const struct whatif_point *now)
{
	const struct whatif *w = &s->what_if_base;
	double bw = w->calibration.bw, t0, t = w->step_s;
	struct step_cost c;
	double share[7];

	economics_cost(&w->arch, l->users, now->active, w->kv_bytes, &c);
	t0 = t - (c.routed_bytes + c.dense_bytes + c.kv_bytes) / bw;
	t0 = t0 > 0 ? t0 : 0.1 * t;
	share[0] = (c.routed_bytes / bw + 0.35 * t0) / t;
	share[1] = 0.12 * t0 / t;
	share[2] = (c.kv_bytes / bw + 0.12 * t0) / t;
	share[3] = (c.dense_bytes / bw + 0.08 * t0) / t;
	share[4] = 0.2 * t0 / t;
	share[5] = 0.03 * t0 / t;
	share[6] = 1 - share[0] - share[1] - share[2] - share[3] - share[4] -
		   share[5];
	if (share[6] < 0)
		share[0] += share[6], share[6] = 0;
	scene_classes(s, t, share);
	scene_layers(s, t, share[0], l->users * l->top_k, now->active,
		     now->single_row_ratio * now->active);
}

/* ---- words --------------------------------------------------------------- */

static inline void scene_verdict(struct snapshot *s, const char *regime,
				 const struct scene_load *l)
{
	const struct value *m = s->metrics;
	size_t room = sizeof(s->verdict[0]);

	snprintf(s->verdict[0], room,
		 "%s  %.0f user%s %s %.0f of %u experts per layer, %.0f %% of "
		 "them for a single row.",
		 regime, l->users, l->users > 1 ? "s" : "",
		 l->users > 1 ? "read" : "reads", m[METRIC_ACTIVE_EXPERTS].v,
		 l->experts, 100 * m[METRIC_SINGLE_ROW].v);
	if (s->regime != REGIME_VALLEY) {
		snprintf(s->verdict[1], room,
			 "One more request is %.0f %% free.",
			 100 * m[METRIC_MARGINAL_GAIN].v);
		return;
	}
	snprintf(s->verdict[1], room,
		 "One more request is %.0f %% free.  The valley ends near %.0f "
		 "tokens per step (%.0f to %.0f).",
		 100 * m[METRIC_MARGINAL_GAIN].v, m[METRIC_TRAFFIC_EXIT].v,
		 m[METRIC_TRAFFIC_EXIT_LOW].v, m[METRIC_TRAFFIC_EXIT_HIGH].v);
	snprintf(s->verdict[2], room,
		 "Now $%.2f per M tokens; merging 4 replicas like this one "
		 "makes it $%.2f.",
		 m[METRIC_COST].v, s->what_if[13].usd_per_mtok.v);
}

static inline void scene_findings(struct snapshot *s)
{
	scene_finding(s, "valley_near", SEVERITY_WARNING, 0.55,
		      "A little more load mostly reads more experts; they are "
		      "shared from about 140 tokens per step on (now 54 % of "
		      "those read serve a single row).");
	scene_finding(s, "padding", SEVERITY_NOTICE, NAN,
		      "Steps are padded to 1.4 times their tokens: capture a "
		      "CUDA graph nearer to 14 tokens.");
	scene_finding(s, "idle_gaps", SEVERITY_INFO, 0.04,
		      "6 % of the step has no kernel running.");
}

/* ---- scenes -------------------------------------------------------------- */

/* Everything measured, of a server under a load. */
static inline void scene_measured(struct snapshot *s,
				  const struct scene_load *l, const char *words)
{
	struct whatif_point now;
	double step;

	scene_experts(s, l);
	scene_base(s, l);
	step = scene_step(s, l);
	whatif_at(&s->what_if_base, &(struct whatif_change){ 0 }, &now);
	scene_counts(s, l->users);
	scene_routing(s, l, now.active, now.single_row_ratio * now.active,
		      SOURCE_MEASURED);
	scene_speed(s, l, step);
	scene_use(s, l, &now);
	scene_where(s, l, &now);
	scene_traffic(s);
	scene_what_ifs(s);
	s->metrics[METRIC_EFFECTIVE_EXPERTS] = scene_ok(0.49 * l->experts);
	s->metrics[METRIC_EXCESS_IMBALANCE] = scene_ok(2.31);
	scene_check(s, "running", l->users, l->users, "");
	scene_check(s, "tokens_per_second", s->metrics[METRIC_TOKENS].v,
		    0.88 * s->metrics[METRIC_TOKENS].v,
		    "the engine counts without the first token");
	scene_verdict(s, words, l);
}

static inline void scene_idle(struct snapshot *s, const struct scene_load *l)
{
	static const enum metric_id none[] = {
		METRIC_IN_FLIGHT, METRIC_WAITING, METRIC_STARTED,
		METRIC_COMPLETED, METRIC_ABORTED, METRIC_ARRIVALS,
		METRIC_EVENTS,    METRIC_TOKENS,  METRIC_STEPS,
	};

	s->regime = REGIME_IDLE;
	s->requests = (struct snapshot_requests){ .known = true,
						  .have_queues = true,
						  .oldest_seconds = NAN };
	scene_base(s, l);
	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++)
		s->metrics[none[i]] = scene_ok(0);
	s->metrics[METRIC_BUSY] = scene_ok(0.001);
	s->metrics[METRIC_MBU] = scene_ok(0.0004);
	s->health.window_age_seconds = (struct value){ 0 };
	s->metrics[METRIC_OVERHEAD] = (struct value){ .state = VALUE_WARMING };
	snprintf(s->verdict[0], sizeof(s->verdict[0]), "IDLE.  Nothing runs.");
}

/* An unprivileged user on a server that was started without the agent. */
static inline void scene_tiers_missing(struct snapshot *s,
				       const struct scene_load *l)
{
	struct value *m = s->metrics;
	double u = valley_active(128, 8, l->users);
	double f = valley_single(128, 8, l->users);
	const struct scene_load unseen = { 128, 8, 0, 0, 0, 8, 8, 1 };

	scene_base(s, &unseen);
	s->regime = REGIME_VALLEY;
	s->side = SIDE_NEAR;
	s->regime_source = SOURCE_MODELLED;
	scene_tier(s, 1, "T1", TIER_MISSING, "requests from the kernel",
		   "run as root, or: setcap cap_bpf,cap_perfmon+ep moetop");
	scene_tier(s, 2, "T2", TIER_MISSING, "kernel times by layer",
		   "restart the server with: moetop run -- CMD");
	scene_tier(s, 3, "T3", TIER_MISSING, "rows per expert",
		   "restart the server with: moetop run -- CMD");
	scene_tier(s, 4, "C", TIER_OFF, "DRAM bytes", "");
	s->health.rows_method[0] = s->health.rung[0] = 0;
	s->health.window_age_seconds = (struct value){ 0 };
	s->target.n_options = 0;
	s->target.container[0] = 0;
	m[METRIC_OVERHEAD] = (struct value){ 0 };
	m[METRIC_SCRAPED_RUNNING] = scene_from(14, SOURCE_SCRAPED);
	m[METRIC_SCRAPED_WAITING] = scene_from(2, SOURCE_SCRAPED);
	scene_routing(s, l, u, f, SOURCE_MODELLED);
	m[METRIC_TOKENS] = scene_from(812, SOURCE_SCRAPED);
	m[METRIC_TOKENS_PER_STEP] = scene_from(14, SOURCE_SCRAPED);
	m[METRIC_USEFUL_MBU] = scene_modelled(0.47);
	m[METRIC_USEFUL_MBU].state = VALUE_STALE;
	snprintf(s->verdict[0], sizeof(s->verdict[0]),
		 "IN THE VALLEY, near side.  14 tokens per step read at most "
		 "%.0f of 128 experts per layer, about %.0f %% of them for a "
		 "single row.",
		 u, 100 * f / u);
	snprintf(s->verdict[1], sizeof(s->verdict[1]),
		 "One more request is up to 41 %% free (KV reads not known).  "
		 "The valley ends at the earliest near 57 tokens per step.");
}

/* Eight agents, one of them refused; experts spread over all of them. */
static inline void scene_ranks(struct snapshot *s)
{
	struct snapshot_target *t = &s->target;

	t->n_ranks = 8;
	for (unsigned i = 0; i < 8; i++) {
		struct snapshot_rank *r = &t->ranks[i];

		*r = (struct snapshot_rank){ .pid = 41300 + (int)i,
					     .rank = i,
					     .gpu_index = (int)i,
					     .gpu = "NVIDIA H200",
					     .agent = "idle" };
	}
	snprintf(t->ranks[5].agent, sizeof(t->ranks[5].agent), "disabled");
	snprintf(t->ranks[5].reason, sizeof(t->ranks[5].reason),
		 "another profiler owns CUPTI");
	s->flags = FLAG_IMBALANCE;
	s->metrics[METRIC_STRAGGLER] = scene_ok(0.19);
	s->metrics[METRIC_RANK_ROWS] = scene_ok(1.34);
	s->metrics[METRIC_RANK_ACTIVE] = scene_ok(1.12);
	scene_finding(s, "ep_imbalance", SEVERITY_WARNING, 0.16,
		      "The fullest of 8 expert-parallel ranks has 1.34 times "
		      "the rows of the mean one; the others wait for it.");
}

static const struct {
	enum regime regime;
	enum side side;
	const char *words;
} scene_regimes[SCENES] = {
	[SCENE_SOLO] = { REGIME_SOLO, SIDE_NONE, "SOLO." },
	[SCENE_NEAR] = { REGIME_VALLEY, SIDE_NEAR,
			 "IN THE VALLEY, near side." },
	[SCENE_FAR] = { REGIME_VALLEY, SIDE_FAR, "IN THE VALLEY, far side." },
	[SCENE_SHARED] = { REGIME_SHARED, SIDE_NONE, "SHARED." },
	[SCENE_KV] = { REGIME_KV, SIDE_NONE, "KV-BOUND." },
	[SCENE_PREFILL] = { REGIME_PREFILL, SIDE_NONE, "PREFILL." },
	[SCENE_GONE] = { REGIME_VALLEY, SIDE_NEAR,
			 "IN THE VALLEY, near side." },
	[SCENE_RANKS] = { REGIME_VALLEY, SIDE_FAR, "IN THE VALLEY, far side." },
	[SCENE_LARGE] = { REGIME_VALLEY, SIDE_NEAR,
			  "IN THE VALLEY, near side." },
};

static inline void scene_fill(struct snapshot *s, enum scene which)
{
	const struct scene_load *l = &scene_loads[which];

	memset(s, 0, sizeof(*s));
	s->time = SCENE_START;
	s->interval_s = 1;
	s->uptime_s = 751;
	snprintf(s->compute_type, sizeof(s->compute_type), "FP8");
	scene_target(s, l);
	scene_health(s);
	scene_constants(s, l);
	s->regime = scene_regimes[which].regime;
	s->side = scene_regimes[which].side;
	if (which == SCENE_IDLE)
		scene_idle(s, l);
	else if (which == SCENE_TIERS_MISSING)
		scene_tiers_missing(s, l);
	else
		scene_measured(s, l, scene_regimes[which].words);
	if (which == SCENE_NEAR || which == SCENE_GONE)
		scene_findings(s);
	if (which == SCENE_RANKS)
		scene_ranks(s);
	if (which == SCENE_LARGE)
		snprintf(s->target.model, sizeof(s->target.model),
			 "Example-512x94-A20B-FP8");
	if (which == SCENE_GONE) {
		s->health.target_gone = true;
		s->health.target_gone_seconds = SCENE_START - 61;
		s->health.lost_ring = 12;
	}
}

/* i seconds after its start, 300 being now: the load has moved a little, and eta
 * along the curve. */
static inline void scene_move(struct snapshot *s, const struct value *metrics,
			      unsigned i)
{
	static const enum metric_id moving[] = {
		METRIC_FRAGMENTATION, METRIC_MBU,    METRIC_USEFUL_MBU,
		METRIC_IN_FLIGHT,     METRIC_TOKENS, METRIC_STEP_SECONDS,
		METRIC_ARRIVALS,      METRIC_EVENTS,
	};
	struct value *m = s->metrics, b = metrics[METRIC_TOKENS_PER_STEP];
	struct whatif_point p;

	s->sequence = i;
	s->time = SCENE_START + i;
	for (unsigned k = 0; k < sizeof(moving) / sizeof(*moving); k++)
		m[moving[k]].v =
			metrics[moving[k]].v *
			(1 - 0.4 * fabs(sin(0.02 * (k + 2) * (300.0 - i))));
	m[METRIC_TOKENS_PER_STEP].v =
		b.v * exp2(-1.2 * fabs(sin(0.02 * (300.0 - i))));
	if (metrics[METRIC_COMPLETED].v > 0)
		m[METRIC_COMPLETED].v =
			metrics[METRIC_COMPLETED].v -
			floor(2.9 * (300.0 - i) + 12 * sin(0.05 * (300.0 - i)));
	m[METRIC_MARGINAL_GAIN].v = metrics[METRIC_MARGINAL_GAIN].v;
	if (i != 300 && value_known(m[METRIC_MARGINAL_GAIN]) &&
	    whatif_at(&s->what_if_base,
		      &(struct whatif_change){
			      .batch = m[METRIC_TOKENS_PER_STEP].v },
		      &p))
		m[METRIC_MARGINAL_GAIN].v =
			p.shares.gain + 0.02 * (scene_noise(i) - 0.5);
}

/* The scene as it was i seconds after its start. */
static inline void scene_at(struct snapshot *s, enum scene which, unsigned i)
{
	struct value metrics[METRICS];

	scene_fill(s, which);
	memcpy(metrics, s->metrics, sizeof(metrics));
	scene_move(s, metrics, i);
}

#endif
