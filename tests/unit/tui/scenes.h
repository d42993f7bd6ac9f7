/*
 * scenes.h - snapshots made by hand: what the screens are tried on
 *
 * Included by the golden test, the fuzz test and the terminal driver.
 */
#ifndef MOETOP_TESTS_SCENES_H
#define MOETOP_TESTS_SCENES_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/snapshot.h"

#define SCENE_LAYERS 94u
#define SCENE_START 1786000000.0 /* 2026-08-06 07:06:40 UTC */

enum scene {
	SCENE_IDLE,
	SCENE_SOLO,
	SCENE_NEAR,
	SCENE_SHARED,
	SCENE_GONE,
	SCENE_TIERS_MISSING,
	SCENES
};

static const char *const scene_names[SCENES] = {
	"idle", "solo", "near", "shared", "gone", "tiers-missing",
};

static inline struct value scene_ok(double v)
{
	return value_make(v, SOURCE_MEASURED);
}

static inline struct value scene_from(double v, enum value_source source)
{
	return value_make(v, source);
}

static inline void scene_tier(struct snapshot *s, unsigned i, const char *name,
			      enum tier_state state, const char *what,
			      const char *remedy)
{
	struct snapshot_tier *t = &s->health.tiers[i];

	t->state = state;
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->what, sizeof(t->what), "%s", what);
	snprintf(t->remedy, sizeof(t->remedy), "%s", remedy);
}

static inline void scene_target(struct snapshot *s)
{
	struct snapshot_target *t = &s->target;

	*t = (struct snapshot_target){
		.pid = 41234,
		.engine = "vLLM",
		.engine_version = "0.33",
		.model = "Qwen/Qwen3-235B-A22B-FP8",
		.experts = 128,
		.top_k = 8,
		.moe_layers = SCENE_LAYERS,
		.port = 8000,
		.gpu = "NVIDIA H200",
		.n_gpus = 8,
		.tp = 8,
		.ep = 1,
		.host = "gpu-07",
		.n_ranks = 1,
	};
	t->ranks[0] = (struct snapshot_rank){ .pid = 41300, .agent = "idle" };
}

static inline void scene_health(struct snapshot *s)
{
	scene_tier(s, 0, "T0", TIER_OK, "process, model and GPU facts", "");
	scene_tier(s, 1, "T1", TIER_OK,
		   "requests in flight, from the kernel (K)", "");
	scene_tier(s, 2, "T2", TIER_OK, "kernel times by layer", "");
	scene_tier(s, 3, "T3", TIER_OK, "rows per expert", "");
	scene_tier(s, 4, "C", TIER_OK, "DRAM bytes (PM 1 ms)", "");
	snprintf(s->health.rows_method, sizeof(s->health.rows_method),
		 "sampled");
	snprintf(s->health.rung, sizeof(s->health.rung), "K (tp_btf)");
	s->health.window_age_seconds = scene_ok(2.2);
	s->metrics[METRIC_OVERHEAD] = scene_ok(0.003);
}

static inline void scene_hist(struct snapshot_hist *h, double p50, double p90,
			      double p99)
{
	*h = (struct snapshot_hist){ .count = scene_ok(1000),
				     .sum = scene_ok(1080 * p50),
				     .p50 = scene_ok(p50),
				     .p90 = scene_ok(p90),
				     .p99 = scene_ok(p99) };
}

/* Layers of a step in which users many tokens touch `active` experts. */
static inline void scene_layers(struct snapshot *s, double step, double rows,
				double active, double single)
{
	double each = 0.72 * step / SCENE_LAYERS;

	s->n_layers = SCENE_LAYERS;
	for (unsigned i = 0; i < SCENE_LAYERS; i++) {
		struct snapshot_layer *l = &s->layers[i];
		double f = 1 + 0.12 * sin(i * 1.7);
		double u = fmin(active * f, fmin(rows, 128));
		l->seconds_per_step = scene_ok(each * f);
		l->expert_seconds_per_step = scene_ok(each * f * 0.8);
		l->rows = scene_ok(rows);
		l->active_experts = scene_ok(u);
		l->single_row_experts = scene_ok(fmin(single * f, u));
		l->dram_bytes_per_step = scene_ok(u * 18.9e6);
		l->fragmentation = scene_ok(u / rows);
		l->share = scene_ok(f / SCENE_LAYERS);
		snprintf(l->backend, sizeof(l->backend), "gemm.grouped_tri");
	}
}

static inline void scene_class(struct snapshot *s, const char *name,
			       unsigned group, double calls, double share,
			       double step)
{
	struct snapshot_class *c = &s->classes[s->n_classes++];

	snprintf(c->name, sizeof(c->name), "%s", name);
	c->group = group;
	c->calls_per_step = scene_ok(calls);
	c->seconds_per_step = scene_ok(share * step);
	c->share = scene_ok(share);
}

static inline void scene_classes(struct snapshot *s, double step,
				 const double share[7])
{
	s->n_classes = 0;
	scene_class(s, "gemm.grouped_tri", 0, 188, share[0], step);
	scene_class(s, "topk.gating", 1, 94, share[1] * 0.6, step);
	scene_class(s, "align.block", 1, 94, share[1] * 0.4, step);
	scene_class(s, "attn.decode", 2, 94, share[2] * 0.9, step);
	scene_class(s, "attn.kv_write", 2, 94, share[2] * 0.1, step);
	scene_class(s, "gemm.dense", 3, 283, share[3], step);
	scene_class(s, "comm.allreduce", 4, 188, share[4], step);
	scene_class(s, "other", 5, 402, share[5], step);
	for (unsigned i = 0; i < 7; i++)
		s->group_share[i] = scene_ok(share[i]);
}

static inline void scene_finding(struct snapshot *s, const char *rule,
				 enum severity severity, double gain,
				 const char *text)
{
	struct finding *f = &s->findings[s->n_findings++];

	f->severity = severity;
	f->gain = scene_from(gain, SOURCE_MODELLED);
	snprintf(f->rule, sizeof(f->rule), "%s", rule);
	snprintf(f->text, sizeof(f->text), "%s", text);
}

static inline void scene_say(struct snapshot *s, unsigned i, const char *text)
{
	snprintf(s->verdict[i], sizeof(s->verdict[i]), "%s", text);
}

/* Ratios that follow from the counts, so that the pictures agree with
 * themselves. */
static inline void scene_routing(struct snapshot *s, double rows, double active,
				 double single)
{
	struct value *m = s->metrics;

	m[METRIC_ROWS] = scene_ok(rows);
	m[METRIC_TOKENS_PER_STEP] = scene_ok(rows / 8);
	m[METRIC_ACTIVE_EXPERTS] = scene_ok(active);
	m[METRIC_SINGLE_ROW_EXPERTS] = scene_ok(single);
	m[METRIC_COVERAGE] = scene_ok(active / 128);
	m[METRIC_FRAGMENTATION] = scene_ok(active / rows);
	m[METRIC_ROWS_PER_ACTIVE] = scene_ok(rows / active);
	m[METRIC_SINGLE_ROW] = scene_ok(single / active);
	m[METRIC_VALLEY_INDEX] = scene_ok(active * active / 128 / rows);
	m[METRIC_VALLEY_FLOOR] = scene_from(19.5, SOURCE_MODELLED);
	m[METRIC_RIDGE_ROWS] = scene_from(206, SOURCE_MODELLED);
}

static inline void scene_load(struct snapshot *s, double users, double step,
			      double mbu, double useful, double mfu)
{
	struct value *m = s->metrics;

	m[METRIC_IN_FLIGHT] = scene_ok(users);
	m[METRIC_WAITING] = scene_ok(floor(users / 8));
	m[METRIC_STARTED] = scene_ok(4210);
	m[METRIC_COMPLETED] = scene_ok(4207 - users);
	m[METRIC_ABORTED] = scene_ok(3);
	m[METRIC_ARRIVALS] = scene_ok(users * 0.22);
	m[METRIC_EVENTS] = scene_ok(users / step * 0.97);
	m[METRIC_TOKENS] = scene_ok(users / step * 0.97);
	m[METRIC_STEPS] = scene_ok(0.97 / step);
	m[METRIC_STEP_SECONDS] = scene_ok(step);
	m[METRIC_SCRAPED_RUNNING] = scene_from(users, SOURCE_SCRAPED);
	m[METRIC_SCRAPED_WAITING] = scene_from(0, SOURCE_SCRAPED);
	m[METRIC_MBU] = scene_ok(mbu);
	m[METRIC_USEFUL_MBU] = scene_from(useful, SOURCE_MODELLED);
	m[METRIC_READ_AMPLIFICATION] =
		scene_from(mbu / useful, SOURCE_MODELLED);
	m[METRIC_DRAM_READ] = scene_ok(mbu * 8 * 4.8e12);
	m[METRIC_MFU] = scene_from(mfu, SOURCE_INFERRED);
	m[METRIC_BUSY] = scene_ok(0.94);
	m[METRIC_COST] = scene_from(8 * 3.0 / 3600 / (users / step) * 1e6,
				    SOURCE_INFERRED);
	scene_hist(&s->hists[HISTOGRAM_TTFT], 0.21, 0.44, 0.9);
	scene_hist(&s->hists[HISTOGRAM_EVENT_GAP], step * 1.01, step * 1.2,
		   step * 1.85);
	scene_hist(&s->hists[HISTOGRAM_DURATION], 11.4, 21, 38);
	scene_hist(&s->hists[HISTOGRAM_STEP], step * 0.99, step * 1.1,
		   step * 1.3);
}

static inline void scene_gains(struct snapshot *s, double expert, double kv,
			       double compute)
{
	struct value *m = s->metrics;

	m[METRIC_EXPERT_SHARE] = scene_from(expert, SOURCE_INFERRED);
	m[METRIC_KV_SHARE] = scene_ok(kv);
	m[METRIC_COMPUTE_SHARE] = scene_from(compute, SOURCE_MODELLED);
	m[METRIC_MARGINAL_GAIN] =
		scene_from(1 - expert - kv - compute, SOURCE_MODELLED);
	m[METRIC_PREFILL_SHARE] = scene_ok(0.04);
}

static inline void scene_near(struct snapshot *s)
{
	static const double share[7] = {
		0.58, 0.05, 0.14, 0.09, 0.08, 0.0, 0.06
	};

	s->regime = REGIME_VALLEY;
	s->side = SIDE_NEAR;
	scene_load(s, 14, 0.0168, 0.61, 0.52, 0.018);
	scene_routing(s, 112, 71.3, 42.1);
	scene_gains(s, 0.34, 0.05, 0.03);
	scene_layers(s, 0.0168, 112, 71.3, 42.1);
	scene_classes(s, 0.0168, share);
	scene_say(s, 0,
		  "IN THE VALLEY, near side.  14 users read 71 of 128 "
		  "experts per layer, 59 % of them for a single row.");
	scene_say(s, 1,
		  "One more request is 58 % free.  The valley ends near "
		  "140 tokens per step.");
	scene_say(s, 2,
		  "Now $8.00 per M tokens; at 140 tokens per step as low as "
		  "$1.21 (-85 %).");
	scene_finding(s, "valley_near", SEVERITY_WARNING, 0.85,
		      "A little more load mostly reads more experts; they are "
		      "shared from about 140 tokens per step on (now 59 % of "
		      "those read serve a single row).");
	scene_finding(s, "padding", SEVERITY_NOTICE, NAN,
		      "Steps are padded to 1.4 times their tokens: capture a "
		      "CUDA graph nearer to 14 tokens.");
	scene_finding(s, "idle_gaps", SEVERITY_INFO, 0.04,
		      "6 % of the step has no kernel running.");
}

static inline void scene_solo(struct snapshot *s)
{
	static const double share[7] = { 0.31, 0.09, 0.12, 0.17,
					 0.12, 0.02, 0.17 };

	s->regime = REGIME_SOLO;
	scene_load(s, 1, 0.0084, 0.34, 0.31, 0.0024);
	scene_routing(s, 8, 8, 8);
	scene_gains(s, 0.31, 0.01, 0.01);
	scene_layers(s, 0.0084, 8, 8, 8);
	scene_classes(s, 0.0084, share);
	scene_say(s, 0,
		  "SOLO.  1 user reads 8 of 128 experts per layer, 100 % of "
		  "them for a single row.");
	scene_say(s, 1,
		  "One more request is 67 % free.  The valley lies ahead, at "
		  "least up to 57 tokens per step.");
}

static inline void scene_shared(struct snapshot *s)
{
	static const double share[7] = { 0.44, 0.04, 0.28, 0.10,
					 0.09, 0.01, 0.04 };

	s->regime = REGIME_SHARED;
	scene_load(s, 1412, 0.0412, 0.72, 0.69, 0.31);
	scene_routing(s, 11296, 128, 0.0);
	scene_gains(s, 0.0, 0.27, 0.05);
	scene_layers(s, 0.0412, 11296, 128, 0);
	scene_classes(s, 0.0412, share);
	scene_say(s, 0,
		  "SHARED.  1412 users read 128 of 128 experts per layer, "
		  "0 % of them for a single row.");
	scene_say(s, 1, "One more request is 68 % free.");
}

static inline void scene_idle(struct snapshot *s)
{
	s->regime = REGIME_IDLE;
	s->metrics[METRIC_IN_FLIGHT] = scene_ok(0);
	s->metrics[METRIC_WAITING] = scene_ok(0);
	s->metrics[METRIC_STARTED] = scene_ok(0);
	s->metrics[METRIC_COMPLETED] = scene_ok(0);
	s->metrics[METRIC_ABORTED] = scene_ok(0);
	s->metrics[METRIC_ARRIVALS] = scene_ok(0);
	s->metrics[METRIC_EVENTS] = scene_ok(0);
	s->metrics[METRIC_TOKENS] = scene_ok(0);
	s->metrics[METRIC_STEPS] = scene_ok(0);
	s->metrics[METRIC_BUSY] = scene_ok(0.001);
	s->metrics[METRIC_MBU] = scene_ok(0.0004);
	s->metrics[METRIC_VALLEY_FLOOR] = scene_from(19.5, SOURCE_MODELLED);
	s->metrics[METRIC_RIDGE_ROWS] = scene_from(206, SOURCE_MODELLED);
	s->health.window_age_seconds = (struct value){ 0 };
	s->metrics[METRIC_OVERHEAD] = (struct value){ .state = VALUE_WARMING };
	scene_say(s, 0, "IDLE.  Nothing runs.");
}

/* An unprivileged user on a server that was started without the agent. */
static inline void scene_tiers_missing(struct snapshot *s)
{
	struct value *m = s->metrics;

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
	s->health.rows_method[0] = 0;
	s->health.rung[0] = 0;
	s->health.window_age_seconds = (struct value){ 0 };
	m[METRIC_OVERHEAD] = (struct value){ 0 };
	m[METRIC_SCRAPED_RUNNING] = scene_from(14, SOURCE_SCRAPED);
	m[METRIC_SCRAPED_WAITING] = scene_from(2, SOURCE_SCRAPED);
	m[METRIC_TOKENS] = scene_from(812, SOURCE_SCRAPED);
	m[METRIC_TOKENS_PER_STEP] = scene_from(14, SOURCE_SCRAPED);
	m[METRIC_ACTIVE_EXPERTS] = scene_from(76.2, SOURCE_MODELLED);
	m[METRIC_FRAGMENTATION] = scene_from(76.2 / 112, SOURCE_MODELLED);
	m[METRIC_ROWS_PER_ACTIVE] = scene_from(112 / 76.2, SOURCE_MODELLED);
	m[METRIC_SINGLE_ROW] = scene_from(0.63, SOURCE_MODELLED);
	m[METRIC_USEFUL_MBU] = scene_from(0.47, SOURCE_MODELLED);
	m[METRIC_VALLEY_FLOOR] = scene_from(19.5, SOURCE_MODELLED);
	m[METRIC_USEFUL_MBU].state = VALUE_STALE;
	scene_say(s, 0,
		  "IN THE VALLEY, near side.  14 tokens per step read at "
		  "most 76 of 128 experts per layer, about 63 % of them for "
		  "a single row.");
	scene_say(s, 1,
		  "One more request is up to 41 % free (KV reads not known).  "
		  "The valley ends at the earliest near 57 tokens per step.");
}

static inline void scene_fill(struct snapshot *s, enum scene which)
{
	memset(s, 0, sizeof(*s));
	s->time = SCENE_START;
	s->interval_s = 1;
	s->uptime_s = 751;
	snprintf(s->compute_type, sizeof(s->compute_type), "FP8");
	scene_target(s);
	scene_health(s);
	switch (which) {
	case SCENE_IDLE:
		scene_idle(s);
		break;
	case SCENE_SOLO:
		scene_solo(s);
		break;
	case SCENE_SHARED:
		scene_shared(s);
		break;
	case SCENE_TIERS_MISSING:
		scene_tiers_missing(s);
		break;
	case SCENE_NEAR:
	case SCENE_GONE:
	case SCENES:
		scene_near(s);
		break;
	}
	if (which == SCENE_GONE) {
		s->health.target_gone = true;
		s->health.target_gone_seconds = SCENE_START - 61;
		s->health.lost_ring = 12;
	}
}

/* The scene as it was i seconds after its start: the load moves a little. */
static inline void scene_at(struct snapshot *s, enum scene which, unsigned i)
{
	static const enum metric_id moving[] = {
		METRIC_TOKENS_PER_STEP, METRIC_FRAGMENTATION,
		METRIC_MARGINAL_GAIN,   METRIC_MBU,
		METRIC_USEFUL_MBU,      METRIC_IN_FLIGHT,
		METRIC_TOKENS,          METRIC_STEP_SECONDS,
		METRIC_ARRIVALS,        METRIC_EVENTS,
	};

	scene_fill(s, which);
	s->sequence = i;
	s->time += i;
	for (unsigned k = 0; k < sizeof(moving) / sizeof(*moving); k++)
		s->metrics[moving[k]].v *=
			1 - 0.4 * fabs(sin(0.02 * (k + 2) * (300.0 - i)));
}

#endif
