/*
 * snapshots.h - hand-made snapshots for the tests of the exporter
 *
 * Qwen3-30B-A3B on two H200 with 16 users, round numbers; and nothing at all.
 */
#ifndef MOETOP_TESTS_UNIT_EXPORTER_SNAPSHOTS_H
#define MOETOP_TESTS_UNIT_EXPORTER_SNAPSHOTS_H

#include <stdio.h>
#include <string.h>

#include "model/snapshot.h"

static inline struct value ok(double v, enum value_source source)
{
	return value_make(v, source);
}

static inline struct snapshot_hist snapshot_hist(double n, double scale)
{
	return (struct snapshot_hist){
		.count = ok(n, SOURCE_MEASURED),
		.sum = ok(n * scale, SOURCE_MEASURED),
		.p50 = ok(scale * 0.75, SOURCE_MEASURED),
		.p90 = ok(scale * 2, SOURCE_MEASURED),
		.p99 = ok(scale * 4, SOURCE_MEASURED),
	};
}

/* 16 buckets an octave from 1 ms, of which three hold something. */
static inline void snapshot_total_seconds(struct snapshot_hist_total *t)
{
	*t = (struct snapshot_hist_total){ .known = true, .n = 160 };
	for (unsigned i = 0; i < t->n; i++)
		t->upper[i] = 0.001 * (double)(1u << i / 16) *
			      (1 + (double)(i % 16 + 1) / 16);
	t->buckets[80] = 600; /* (0.032, 0.034] */
	t->buckets[81] = 300;
	t->buckets[128] = 100; /* (0.256, 0.272] */
	t->count = 1000;
	t->sum = 57.5;
}

/* Whole numbers. */
static inline void snapshot_total_rows(struct snapshot_hist_total *t)
{
	*t = (struct snapshot_hist_total){ .known = true,
					   .exact = true,
					   .n = 8 };
	for (unsigned i = 0; i < t->n; i++) {
		t->upper[i] = i + 1;
		t->buckets[i] = 10 - i;
		t->count += 10 - i;
		t->sum += (double)((i + 1) * (10 - i));
	}
}

static inline void snapshot_fill_target(struct snapshot_target *g)
{
	*g = (struct snapshot_target){
		.pid = 4242,
		.engine = "vllm",
		.engine_version = "0.11.0",
		.model = "Qwen/Qwen3-30B-A3B",
		.config_origin = "Hugging Face cache of the server",
		.experts = 128,
		.top_k = 8,
		.moe_layers = 48,
		.quant = "bf16",
		.port = 8000,
		.gpu = "NVIDIA H200",
		.n_gpus = 2,
		.tp = 2,
		.ep = 1,
		.host = "box",
		.server = "vllm:8000",
		.n_ranks = 2,
	};
	for (unsigned i = 0; i < 2; i++) {
		struct snapshot_rank *r = &g->ranks[i];

		r->pid = 4300 + (int)i;
		r->rank = i;
		r->gpu_index = (int)i;
		strcpy(r->gpu, "NVIDIA H200");
		strcpy(r->agent, i ? "disabled" : "idle");
	}
	strcpy(g->ranks[1].reason, "another profiler owns CUPTI");
}

static inline void snapshot_fill_health(struct snapshot_health *h)
{
	static const struct snapshot_tier tiers[SNAPSHOT_TIERS] = {
		{ "T0", TIER_OK, "configuration, NVML, engine metrics", "" },
		{ "T1", TIER_OK, "requests in flight, from the kernel (K)",
		  "" },
		{ "T2", TIER_OK, "kernel time by layer, in windows", "" },
		{ "T3", TIER_MISSING, "rows per expert",
		  "start the server with moetop run" },
		{ "C", TIER_OFF, "DRAM bytes by PM sampling",
		  "--counters=pm as root" },
	};

	memcpy(h->tiers, tiers, sizeof(tiers));
	h->lost_ring = 3;
	h->lost_requests = 1;
	h->bad_steps = 2;
	h->cells_sampled = 4800;
	h->cells_rejected = 7;
	h->cells_lost = 9;
	h->windows = 12;
	h->window_age_seconds = ok(4.5, SOURCE_MEASURED);
	strcpy(h->rows_method, "sampled");
}

static inline void snapshot_fill_layers(struct snapshot *s)
{
	s->n_layers = 3;
	for (unsigned i = 0; i < 3; i++) {
		struct snapshot_layer *l = &s->layers[i];

		l->seconds_per_step = ok(0.0002 + 1e-5 * i, SOURCE_MEASURED);
		l->before_seconds_per_step = ok(0.00011, SOURCE_MEASURED);
		l->expert_seconds_per_step = ok(0.00015, SOURCE_MEASURED);
		l->rows = ok(128, SOURCE_MEASURED);
		l->active_experts = ok(80 + i, SOURCE_MEASURED);
		l->single_row_experts = ok(48, SOURCE_MEASURED);
		l->fragmentation = ok((80 + i) / 128., SOURCE_MEASURED);
		l->share = ok(1 / 3., SOURCE_INFERRED);
		strcpy(l->backend, "gemm.triton");
	}
	/* the last layer was not read */
	s->layers[2].rows = (struct value){ 0 };
	s->layers[2].backend[0] = '\0';
	s->n_classes = 2;
	s->classes[0] = (struct snapshot_class){
		.name = "gemm.triton",
		.calls_per_step = ok(96, SOURCE_MEASURED),
		.seconds_per_step = ok(0.0072, SOURCE_MEASURED),
		.share = ok(0.6, SOURCE_MEASURED),
		.sum_seconds_per_step = ok(0.0074, SOURCE_MEASURED),
	};
	s->classes[1] = (struct snapshot_class){
		.name = "other",
		.calls_per_step = ok(10, SOURCE_MEASURED),
	};
	s->n_draft = 1;
	s->draft[0].seconds_per_step = ok(0.00019, SOURCE_MEASURED);
	s->n_steps = SNAPSHOT_PHASES;
	s->steps[0] = (struct snapshot_step){
		.seconds = ok(0.012, SOURCE_MEASURED),
		.busy = ok(0.0105, SOURCE_MEASURED),
		.gap = ok(0.0011, SOURCE_MEASURED),
		.between = ok(0.0004, SOURCE_MEASURED),
		.kernels = ok(820, SOURCE_MEASURED),
		.launches = ok(5, SOURCE_MEASURED),
	};
}

static inline void snapshot_fill_metrics(struct snapshot *s)
{
	const struct {
		enum metric_id id;
		double v;
		enum value_source source;
	} metrics[] = {
		{ METRIC_IN_FLIGHT, 16, SOURCE_MEASURED },
		{ METRIC_STARTED, 1234567, SOURCE_MEASURED },
		{ METRIC_COMPLETED, 1234551, SOURCE_MEASURED },
		{ METRIC_TOKENS, 1333.3333333333333, SOURCE_MEASURED },
		{ METRIC_STEP_SECONDS, 0.012, SOURCE_MEASURED },
		{ METRIC_ROWS, 128, SOURCE_MEASURED },
		{ METRIC_ACTIVE_EXPERTS, 81, SOURCE_MEASURED },
		{ METRIC_SINGLE_ROW_EXPERTS, 48, SOURCE_MEASURED },
		{ METRIC_FRAGMENTATION, 81 / 128., SOURCE_MEASURED },
		{ METRIC_SINGLE_ROW, 48 / 81., SOURCE_MEASURED },
		{ METRIC_USEFUL_MBU, 0.1 + 0.2, SOURCE_MODELLED },
		{ METRIC_SCRAPED_RUNNING, 16, SOURCE_SCRAPED },
	};

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		s->metrics[metrics[i].id] = ok(metrics[i].v, metrics[i].source);
	s->metrics[METRIC_MBU].state = VALUE_WARMING;
	s->metrics[METRIC_DRAM_READ] =
		(struct value){ 1e12, VALUE_STALE, SOURCE_MEASURED };
}

static inline struct value modelled(double v)
{
	return ok(v, SOURCE_MODELLED);
}

/* Two replicas in one, and a batch beyond what was measured. */
static inline void snapshot_fill_what_ifs(struct snapshot *s)
{
	s->n_what_if = 2;
	s->what_if[0] = (struct snapshot_what_if){
		.kind = WHAT_IF_MERGE,
		.amount = 2,
		.tokens_per_step = modelled(32),
		.active_experts = modelled(108.5),
		.single_row = modelled(0.3125),
		.marginal_gain = modelled(0.75),
		.step_s = modelled(0.015),
		.step_s_low = modelled(0.014),
		.step_s_high = modelled(0.016),
		.tokens_per_s = modelled(2133.5),
		.tokens_per_s_low = modelled(2000),
		.tokens_per_s_high = modelled(2285.5),
		.usd_per_mtok = modelled(0.78125),
		.usd_per_mtok_low = modelled(0.75),
		.usd_per_mtok_high = modelled(0.8125),
		.cost_ratio = modelled(0.625),
		.cost_ratio_low = modelled(0.59375),
		.cost_ratio_high = modelled(0.65625),
	};
	s->what_if[1] = (struct snapshot_what_if){
		.kind = WHAT_IF_BATCH,
		.amount = 2048,
		.limit = WHATIF_BATCH,
		.tokens_per_step = modelled(2048),
	};
}

static inline void snapshot_full(struct snapshot *s)
{
	memset(s, 0, sizeof(*s));
	s->time = 1700000000.25;
	s->interval_s = 1;
	s->uptime_s = 60;
	s->sequence = 60;
	strcpy(s->compute_type, "BF16");
	snapshot_fill_target(&s->target);
	snapshot_fill_health(&s->health);
	snapshot_fill_metrics(s);
	snapshot_fill_layers(s);
	s->regime = REGIME_VALLEY;
	s->side = SIDE_NEAR;
	s->regime_source = SOURCE_MEASURED;
	s->hists[HISTOGRAM_TTFT] = snapshot_hist(1000, 0.125);
	s->hists[HISTOGRAM_STEP] = snapshot_hist(500, 0.012);
	snapshot_total_seconds(&s->totals[HISTOGRAM_TTFT]);
	snapshot_total_rows(&s->totals[HISTOGRAM_ROWS_PER_EXPERT]);
	s->group_share[0] = ok(0.6, SOURCE_MEASURED);
	s->target.n_options = 2;
	s->target.options[0] = (struct snapshot_option){ "tp", "2" };
	s->target.options[1] =
		(struct snapshot_option){ "capture_sizes", "1..512 (67)" };
	s->n_checks = 2;
	s->checks[0] = (struct snapshot_check){ .name = "in_flight",
						.state = CHECK_AGREES,
						.ours = 16,
						.theirs = 17,
						.tolerance_ratio = 0.125 };
	s->checks[1] = (struct snapshot_check){ .name = "mfu_ratio",
						.state = CHECK_UNKNOWN,
						.ours = NAN,
						.theirs = NAN,
						.tolerance_ratio = 0.25,
						.why = "neither is known" };
	s->n_findings = 1;
	s->findings[0] = (struct finding){
		.rule = "valley_near",
		.severity = SEVERITY_WARNING,
		.gain = ok(0.4, SOURCE_MODELLED),
		.text = "Most experts are read for one row; send more users "
			"here.",
		.evidence = { { "single_row_ratio", 48 / 81. },
			      { "requests_in_flight", 16 } },
		.n_evidence = 2,
	};
	strcpy(s->verdict[0], "In the valley, on the near side.");
	strcpy(s->health.message, "window 12 taken");
	s->flags = FLAG_SKEW;
	snapshot_fill_what_ifs(s);
}

/* Nothing is known but the time. */
static inline void snapshot_empty(struct snapshot *s)
{
	memset(s, 0, sizeof(*s));
	s->time = 1700000000;
	s->interval_s = 1;
}

/* As many rows as fit, every value known: the most series there can be. */
static inline void snapshot_large(struct snapshot *s, unsigned layers)
{
	snapshot_full(s);
	for (unsigned i = 0; i < METRICS; i++)
		s->metrics[i] = ok(1, SOURCE_MEASURED);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		snapshot_total_seconds(&s->totals[i]);
	s->layers[0].dram_bytes_per_step = ok(1e9, SOURCE_INFERRED);
	s->n_layers = layers;
	for (unsigned i = 1; i < layers; i++)
		s->layers[i] = s->layers[0];
	s->classes[0].group = 1;
	s->n_classes = SNAPSHOT_CLASSES_MAX;
	for (unsigned i = 1; i < SNAPSHOT_CLASSES_MAX; i++) {
		s->classes[i] = s->classes[0];
		snprintf(s->classes[i].name, sizeof(s->classes[i].name),
			 "class.%u", i);
	}
	s->target.n_ranks = SNAPSHOT_RANKS_MAX;
	for (unsigned i = 2; i < SNAPSHOT_RANKS_MAX; i++) {
		s->target.ranks[i] = s->target.ranks[0];
		s->target.ranks[i].rank = i;
		s->target.ranks[i].gpu_index = (int)i;
	}
}

#endif
