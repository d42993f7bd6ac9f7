/*
 * scenes_parts.h - what scenes.h puts snapshots together from
 *
 * A scene is a load on a server: everything that follows from it (experts that
 * are touched, bytes, step time, shares, what-ifs) is computed by the model, so
 * that the numbers of a picture agree with one another.
 */
#ifndef MOETOP_TESTS_SCENES_PARTS_H
#define MOETOP_TESTS_SCENES_PARTS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/snapshot.h"
#include "model/valley.h"

#define SCENE_START 1786000000.0 /* 2026-08-06 07:06:40 UTC */
#define SCENE_LAYERS 94u
#define SCENE_FIXED_S 4.1e-3
#define SCENE_SAMPLED_STEPS 40.0

/* A server and its load. */
struct scene_load {
	unsigned experts, top_k;
	double users, context; /* tokens that each holds */
	double prompts;        /* share of the time, 0..1 */
	unsigned gpus, tp, ep;
};

static inline struct value scene_from(double v, enum value_source source)
{
	return value_make(v, source);
}

static inline struct value scene_ok(double v)
{
	return value_make(v, SOURCE_MEASURED);
}

static inline struct value scene_modelled(double v)
{
	return value_make(v, SOURCE_MODELLED);
}

/* ---- target and health --------------------------------------------------- */

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

static inline void scene_option(struct snapshot *s, const char *name,
				const char *value)
{
	struct snapshot_option *o = &s->target.options[s->target.n_options++];

	snprintf(o->name, sizeof(o->name), "%s", name);
	snprintf(o->value, sizeof(o->value), "%s", value);
}

static inline void scene_target(struct snapshot *s, const struct scene_load *l)
{
	struct snapshot_target *t = &s->target;

	*t = (struct snapshot_target){
		.pid = 41234,
		.engine = "vLLM",
		.engine_version = "0.33",
		.model = "Qwen/Qwen3-235B-A22B-FP8",
		.experts = l->experts,
		.top_k = l->top_k,
		.moe_layers = SCENE_LAYERS,
		.quant = "fp8 block128",
		.port = 8000,
		.gpu = "NVIDIA H200",
		.n_gpus = l->gpus,
		.tp = l->tp,
		.ep = l->ep,
		.host = "gpu-07",
		.n_ranks = 1,
		.container = "docker 4f1c9a6b2d03",
	};
	t->ranks[0] = (struct snapshot_rank){ .pid = 41300, .agent = "idle" };
	scene_option(s, "quantization", "fp8");
	scene_option(s, "kv_cache_dtype", "auto");
	scene_option(s, "max_num_seqs", "256");
	scene_option(s, "capture_sizes", "1..512 (67)");
	scene_option(s, "gpu_memory_utilization", "0.9");
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

/* ---- routing ------------------------------------------------------------- */

/* A number of 0..1 that is another one for each i. */
static inline double scene_noise(unsigned i)
{
	uint32_t x = i * 2654435761u ^ 0x9e3779b9u;

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	return (x >> 8) / 16777216.0;
}

/* Rows of a minute: log-normal popularity, another order in each layer. */
static inline void scene_experts(struct snapshot *s, const struct scene_load *l)
{
	struct snapshot_experts *e = &s->experts;
	double mean = l->users * l->top_k * SCENE_SAMPLED_STEPS / l->experts;

	e->n_layers = SCENE_LAYERS;
	e->n_experts = l->experts;
	for (unsigned i = 0; i < SCENE_LAYERS * l->experts; i++) {
		double z = scene_noise(3 * i) + scene_noise(3 * i + 1) +
			   scene_noise(3 * i + 2) - 1.5;
		double n = mean * exp(2.0 * z) * 0.6;

		e->rows[i] = n < 0.5 ? 0 : (uint32_t)(n + 0.5);
	}
}

/* What tokens that pick independently of one another, as often as the rows say,
 * would show in a step: experts that they touch and the sum of squared rows,
 * means of the layers. */
static inline void scene_sample(const struct snapshot *s,
				const struct scene_load *l,
				struct traffic_sample *out)
{
	const struct snapshot_experts *e = &s->experts;
	double b = l->users;

	for (unsigned i = 0; i < e->n_layers; i++) {
		const uint32_t *r = &e->rows[i * e->n_experts];
		double all = 0;

		for (unsigned k = 0; k < e->n_experts; k++)
			all += r[k];
		for (unsigned k = 0; k < e->n_experts; k++) {
			double q = fmin(r[k] * l->top_k / all, 1);

			out->active += (1 - pow(1 - q, b)) / e->n_layers;
			out->sum_squares +=
				(b * q * (1 - q) + b * q * b * q) / e->n_layers;
		}
	}
}

/* ---- the step ------------------------------------------------------------ */

static inline void scene_base(struct snapshot *s, const struct scene_load *l)
{
	struct whatif *w = &s->what_if_base;
	double e = l->experts, k = l->top_k;
	const struct gpu *gpu = gpu_find("H200");
	struct traffic_sample sample = {
		.experts = e,
		.top_k = k,
		.rows = s->experts.rows,
		.layers = s->experts.n_layers,
		.stride = s->experts.n_experts,
		.batch = l->users,
		.active_error = 0.4,
	};

	*w = (struct whatif){
		.known = true,
		.arch = { .experts = l->experts,
			  .top_k = l->top_k,
			  .layers = SCENE_LAYERS,
			  .moe_layers = SCENE_LAYERS,
			  .expert_params = 18874368,
			  .expert_bytes = 18874368,
			  .dense_params = 7.8e9,
			  .dense_bytes = 7.8e9,
			  .kv_bytes_per_token = 192512,
			  .compute = COMPUTE_FP8 },
		.gpus = l->gpus,
		.tp = l->tp,
		.ep = l->ep,
		.gpu_bw = gpu->bw,
		.gpu_flops = gpu_flops(gpu, COMPUTE_FP8),
		.usd_per_gpu_hour = 3,
		.source = SOURCE_MODELLED,
	};
	w->calibration = (struct calibration){
		.bw = l->gpus * gpu->bw * 0.85,
		.bw_low = l->gpus * gpu->bw * 0.78,
		.bw_high = l->gpus * gpu->bw * 0.91,
		.fixed_s = SCENE_FIXED_S,
	};
	traffic_uniform(&w->traffic, e, k);
	scene_sample(s, l, &sample);
	if (l->users >= 1)
		traffic_learn(&w->traffic, &sample);
}

/* The step that the base has at so many users. */
static inline double scene_step(struct snapshot *s, const struct scene_load *l)
{
	struct whatif *w = &s->what_if_base;
	struct whatif_point p;
	double kv = l->users * l->context * w->arch.kv_bytes_per_token;

	if (!whatif_at(w, &(struct whatif_change){ .batch = l->users }, &p))
		return NAN;
	w->batch = l->users;
	w->kv_bytes = kv;
	w->kv_capacity_bytes = 600e9;
	w->step_s = p.step_s + kv / w->calibration.bw;
	w->valid = true;
	whatif_settle(w);
	return w->step_s;
}

/* ---- what-ifs ------------------------------------------------------------ */

static inline void scene_what_if(struct snapshot *s, enum what_if_kind kind,
				 double amount, const char *name,
				 struct whatif_change c)
{
	struct snapshot_what_if *r = &s->what_if[s->n_what_if];
	struct whatif_point p;

	if (!whatif_at(&s->what_if_base, &c, &p) || p.limit == WHATIF_SHAPE)
		return;
	*r = (struct snapshot_what_if){
		.kind = kind,
		.amount = amount,
		.limit = p.limit,
		.tokens_per_step = scene_modelled(p.batch),
		.active_experts = scene_modelled(p.active),
		.single_row = scene_modelled(p.single_row_ratio),
		.marginal_gain = scene_modelled(p.shares.gain),
		.step_s = scene_modelled(p.step_s),
		.step_s_low = scene_modelled(p.step_s_low),
		.step_s_high = scene_modelled(p.step_s_high),
		.tokens_per_s = scene_modelled(p.tokens_per_s),
		.tokens_per_s_low = scene_modelled(p.tokens_per_s_low),
		.tokens_per_s_high = scene_modelled(p.tokens_per_s_high),
		.usd_per_mtok = scene_modelled(p.usd_per_mtok),
		.usd_per_mtok_low = scene_modelled(p.usd_per_mtok_low),
		.usd_per_mtok_high = scene_modelled(p.usd_per_mtok_high),
		.cost_ratio = scene_modelled(p.cost_ratio),
		.cost_ratio_low = scene_modelled(p.cost_ratio_low),
		.cost_ratio_high = scene_modelled(p.cost_ratio_high),
	};
	snprintf(r->name, sizeof(r->name), "%s", name);
	s->n_what_if++;
}

static inline void scene_what_ifs(struct snapshot *s)
{
	const struct whatif *w = &s->what_if_base;

	for (double b = 1; b <= 2048; b *= 2)
		scene_what_if(s, WHAT_IF_BATCH, b, "",
			      (struct whatif_change){ .batch = b });
	for (double n = 2; n <= 8; n *= 2)
		scene_what_if(s, WHAT_IF_MERGE, n, "",
			      (struct whatif_change){ .replicas = n });
	for (double f = 0.5; f <= 2; f *= 4) {
		scene_what_if(s, WHAT_IF_TP, w->tp * f, "",
			      (struct whatif_change){ .tp = w->tp * f });
		if (w->ep * f >= 1)
			scene_what_if(
				s, WHAT_IF_EP, w->ep * f, "",
				(struct whatif_change){ .ep = w->ep * f });
	}
	scene_what_if(s, WHAT_IF_GPU, w->gpus, "H100-SXM",
		      (struct whatif_change){ .gpu = gpu_find("H100-SXM") });
	scene_what_if(s, WHAT_IF_GPU, w->gpus, "B200-HGX",
		      (struct whatif_change){ .gpu = gpu_find("B200-HGX") });
}

/* ---- histograms ---------------------------------------------------------- */

/* Log-normal, 16 buckets an octave, out to four deviations. */
static inline void scene_hist(struct snapshot_hist *h, double p50, double sigma,
			      double count)
{
	double sum = 0;

	*h = (struct snapshot_hist){
		.count = scene_ok(count),
		.sum = scene_ok(count * p50 * exp(sigma * sigma / 2)),
		.p50 = scene_ok(p50),
		.p90 = scene_ok(p50 * exp(1.2816 * sigma)),
		.p99 = scene_ok(p50 * exp(2.3263 * sigma)),
	};
	for (double x = -4 * sigma; x <= 4 * sigma; x += M_LN2 / 16) {
		double to = x + M_LN2 / 16, below;

		below = 0.5 * erfc(-to / sigma * M_SQRT1_2) * count;
		if (floor(below) <= sum || h->n_buckets == SNAPSHOT_BUCKETS_MAX)
			continue;
		h->buckets[h->n_buckets++] = (struct snapshot_bucket){
			.upper = p50 * exp(to),
			.count = (uint64_t)(floor(below) - sum),
		};
		sum = floor(below);
	}
}

/* ---- tables -------------------------------------------------------------- */

static inline void scene_layers(struct snapshot *s, double step, double experts,
				double rows, double active, double single)
{
	s->n_layers = SCENE_LAYERS;
	for (unsigned i = 0; i < SCENE_LAYERS; i++) {
		struct snapshot_layer *l = &s->layers[i];
		double f = 1 + 0.12 * sin(i * 1.7);
		double u = fmin(active * f,
				fmin(rows, s->target.experts ? s->target.experts
							     : 128));
		double t = experts * step / SCENE_LAYERS * f;

		*l = (struct snapshot_layer){
			.seconds_per_step = scene_ok(t * 1.25),
			.before_seconds_per_step = scene_ok(t * 0.4),
			.expert_seconds_per_step = scene_ok(t),
			.rows = scene_ok(rows),
			.active_experts = scene_ok(u),
			.single_row_experts = scene_ok(fmin(single * f, u)),
			.dram_bytes_per_step =
				scene_from(u * 18.9e6, SOURCE_INFERRED),
			.expert_bytes_per_step =
				scene_from(u * 18.4e6, SOURCE_INFERRED),
			.fragmentation = scene_ok(u / rows),
			.share = scene_ok(f / SCENE_LAYERS),
		};
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
	c->sum_seconds_per_step = scene_ok(share * step * 1.02);
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
	s->n_steps = SNAPSHOT_PHASES;
	s->steps[0] = (struct snapshot_step){
		.seconds = scene_ok(step),
		.busy = scene_ok(step * (1 - share[6])),
		.gap = scene_ok(step * share[6] * 0.4),
		.between = scene_ok(step * share[6] * 0.6),
		.kernels = scene_ok(1437),
		.launches = scene_ok(5),
	};
	s->steps[1] = (struct snapshot_step){ .seconds = scene_ok(step * 6) };
}

static inline void scene_finding(struct snapshot *s, const char *rule,
				 enum severity severity, double gain,
				 const char *text)
{
	struct finding *f = &s->findings[s->n_findings++];

	f->severity = severity;
	f->gain = scene_modelled(gain);
	snprintf(f->rule, sizeof(f->rule), "%s", rule);
	snprintf(f->text, sizeof(f->text), "%s", text);
}

static inline void scene_check(struct snapshot *s, const char *name,
			       double ours, double theirs, const char *why)
{
	struct snapshot_check *c = &s->checks[s->n_checks++];
	double off = fabs(ours - theirs);
	bool counted = strcmp(name, "running") && strcmp(name, "waiting");

	*c = (struct snapshot_check){ .ours = ours,
				      .theirs = theirs,
				      .source = counted ? SOURCE_MEASURED
							: SOURCE_INFERRED,
				      .tolerance_ratio = 0.05 };
	c->state =
		off > 0.05 * fmax(ours, theirs) ? CHECK_DIFFERS : CHECK_AGREES;
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static inline void scene_requests(struct snapshot *s, double users)
{
	static const uint64_t generation[REQUEST_COUNTS] = {
		0, 0, 0, 4210, 4193, 6, 1, 2, 1, 98417
	};
	struct snapshot_requests *r = &s->requests;

	*r = (struct snapshot_requests){ .known = true,
					 .have_queues = true,
					 .unread_bytes = 0,
					 .not_accepted = 2,
					 .oldest_seconds = 33.4 };
	memcpy(r->counts[1], generation, sizeof(generation));
	r->counts[1][REQUESTS_WAITING] = (uint64_t)(users / 8);
	r->counts[1][REQUESTS_STREAMING] =
		(uint64_t)users - r->counts[1][REQUESTS_WAITING];
	r->counts[2][REQUESTS_STARTED] = r->counts[2][REQUESTS_COMPLETED] = 57;
	r->counts[3][REQUESTS_STARTED] = r->counts[3][REQUESTS_COMPLETED] = 751;
	r->counts[0][REQUESTS_STARTED] = r->counts[0][REQUESTS_COMPLETED] = 9;
	r->counts[0][REQUESTS_FAILED_4XX] = 9;
}

#endif
