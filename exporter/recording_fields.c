#include "exporter/recording_fields.h"

#include "wire/kernel_class.h"

#define FIELD(kind, s, m, name)                                    \
	{                                                          \
		.type = kind, .at = offsetof(s, name),             \
		.bytes = sizeof(((s *)0)->name),                   \
		.message_at = offsetof(m, name), .max = UINT32_MAX \
	}
#define LIMITED(s, m, name, limit)                            \
	{                                                     \
		.type = U32, .at = offsetof(s, name),         \
		.bytes = sizeof(((s *)0)->name),              \
		.message_at = offsetof(m, name), .max = limit \
	}
#define ROWS(s, m, name, n_name, message_name, limit, shape)                \
	{                                                                   \
		.type = LIST, .at = offsetof(s, name),                      \
		.message_at = offsetof(m, message_name), .max = limit,      \
		.n_at = offsetof(s, n_name),                                \
		.message_n_at = offsetof(m, n_##message_name), .row = shape \
	}
#define SHAPE(descriptor, table, s)                                 \
	{                                                           \
		&moetop__##descriptor##__descriptor, table,         \
			sizeof(table) / sizeof(table[0]), sizeof(s) \
	}

#define L(kind, name) FIELD(kind, struct snapshot_layer, Moetop__Layer, name)
static const struct field layer_fields[] = {
	L(VALUE, seconds_per_step),
	L(VALUE, before_seconds_per_step),
	L(VALUE, expert_seconds_per_step),
	L(VALUE, rows),
	L(VALUE, active_experts),
	L(VALUE, single_row_experts),
	L(VALUE, dram_bytes_per_step),
	L(VALUE, fragmentation),
	L(VALUE, share),
	L(TEXT, backend),
};
static const struct shape layer_shape =
	SHAPE(layer, layer_fields, struct snapshot_layer);

#define C(kind, name) \
	FIELD(kind, struct snapshot_class, Moetop__KernelClass, name)
static const struct field class_fields[] = {
	C(TEXT, name),
	LIMITED(struct snapshot_class, Moetop__KernelClass, group, GROUPS - 1),
	C(VALUE, calls_per_step),
	C(VALUE, seconds_per_step),
	C(VALUE, share),
	C(VALUE, sum_seconds_per_step),
};
static const struct shape class_shape =
	SHAPE(kernel_class, class_fields, struct snapshot_class);

#define P(name) FIELD(VALUE, struct snapshot_step, Moetop__Step, name)
static const struct field step_fields[] = {
	P(seconds), P(busy), P(gap), P(between), P(kernels), P(launches),
};
static const struct shape step_shape =
	SHAPE(step, step_fields, struct snapshot_step);

#define R(kind, name) FIELD(kind, struct snapshot_rank, Moetop__Rank, name)
static const struct field rank_fields[] = {
	R(I32, pid),
	R(U32, rank),
	R(TEXT, agent),
	R(TEXT, reason),
	R(TEXT, gpu),
	R(I32, gpu_index),
	R(BOOL, attached),
	R(I32, attach_thread),
	R(I32, attach_call),
	R(U32, attach_stops),
	R(U64, attach_pause_ns),
	R(U64, attach_load_ns),
};
static const struct shape rank_shape =
	SHAPE(rank, rank_fields, struct snapshot_rank);

struct evidence { /* the anonymous rows of struct finding */
	char key[32];
	double v;
};
_Static_assert(sizeof(struct evidence) ==
		       sizeof(((struct finding *)0)->evidence[0]),
	       "model/snapshot.h");
#define E(kind, name) FIELD(kind, struct evidence, Moetop__Evidence, name)
static const struct field evidence_fields[] = { E(TEXT, key), E(DOUBLE, v) };
static const struct shape evidence_shape =
	SHAPE(evidence, evidence_fields, struct evidence);

#define F(kind, name) FIELD(kind, struct finding, Moetop__Finding, name)
static const struct field finding_fields[] = {
	F(TEXT, rule),
	LIMITED(struct finding, Moetop__Finding, severity, SEVERITY_WARNING),
	F(VALUE, gain),
	F(TEXT, text),
	ROWS(struct finding, Moetop__Finding, evidence, n_evidence, evidence, 4,
	     &evidence_shape),
};
static const struct shape finding_shape =
	SHAPE(finding, finding_fields, struct finding);

#define W(name) FIELD(VALUE, struct snapshot_what_if, Moetop__WhatIf, name)
static const struct field what_if_fields[] = {
	LIMITED(struct snapshot_what_if, Moetop__WhatIf, kind,
		WHAT_IF_KINDS - 1),
	LIMITED(struct snapshot_what_if, Moetop__WhatIf, limit, WHATIF_SHAPE),
	FIELD(DOUBLE, struct snapshot_what_if, Moetop__WhatIf, amount),
	FIELD(TEXT, struct snapshot_what_if, Moetop__WhatIf, name),
	W(tokens_per_step),
	W(active_experts),
	W(single_row),
	W(marginal_gain),
	W(step_s),
	W(step_s_low),
	W(step_s_high),
	W(tokens_per_s),
	W(tokens_per_s_low),
	W(tokens_per_s_high),
	W(usd_per_mtok),
	W(usd_per_mtok_low),
	W(usd_per_mtok_high),
	W(cost_ratio),
	W(cost_ratio_low),
	W(cost_ratio_high),
};
static const struct shape what_if_shape =
	SHAPE(what_if, what_if_fields, struct snapshot_what_if);

#define T(kind, name) FIELD(kind, struct snapshot_tier, Moetop__Tier, name)
static const struct field tier_fields[] = {
	T(TEXT, name),
	LIMITED(struct snapshot_tier, Moetop__Tier, state, TIER_OK),
	T(TEXT, what),
	T(TEXT, remedy),
};
const struct shape tier_shape = SHAPE(tier, tier_fields, struct snapshot_tier);

#define H(kind, name) FIELD(kind, struct snapshot_health, Moetop__Health, name)
static const struct field health_fields[] = {
	H(U64, lost_ring),      H(U64, lost_records),
	H(U64, lost_requests),  H(U64, desyncs),
	H(U64, bad_steps),      H(U64, cells_sampled),
	H(U64, cells_rejected), H(U64, cells_lost),
	H(U64, windows),        H(VALUE, window_age_seconds),
	H(TEXT, rows_method),   H(TEXT, rung),
	H(BOOL, target_gone),   H(DOUBLE, target_gone_seconds),
	H(TEXT, message),       H(U32, layers_seen),
};
const struct shape health_shape =
	SHAPE(health, health_fields, struct snapshot_health);

#define G(kind, name) FIELD(kind, struct snapshot_target, Moetop__Target, name)
static const struct field target_fields[] = {
	G(I32, pid),
	G(TEXT, engine),
	G(TEXT, engine_version),
	G(TEXT, model),
	G(TEXT, config_origin),
	G(U32, experts),
	G(U32, top_k),
	G(U32, moe_layers),
	G(TEXT, quant),
	G(U16, port),
	G(TEXT, gpu),
	G(U32, n_gpus),
	G(U32, tp),
	G(U32, ep),
	G(TEXT, host),
	ROWS(struct snapshot_target, Moetop__Target, ranks, n_ranks, ranks,
	     SNAPSHOT_RANKS_MAX, &rank_shape),
};
const struct shape target_shape =
	SHAPE(target, target_fields, struct snapshot_target);

#define S(kind, name) FIELD(kind, struct snapshot, Moetop__Snapshot, name)
static const struct field snapshot_fields[] = {
	S(DOUBLE, time),
	S(DOUBLE, interval_s),
	S(DOUBLE, uptime_s),
	S(U64, sequence),
	LIMITED(struct snapshot, Moetop__Snapshot, regime_source, SOURCES - 1),
	S(TEXT, compute_type),
	ROWS(struct snapshot, Moetop__Snapshot, layers, n_layers, layers,
	     SNAPSHOT_LAYERS_MAX, &layer_shape),
	ROWS(struct snapshot, Moetop__Snapshot, classes, n_classes, classes,
	     SNAPSHOT_CLASSES_MAX, &class_shape),
	ROWS(struct snapshot, Moetop__Snapshot, findings, n_findings, findings,
	     SNAPSHOT_FINDINGS_MAX, &finding_shape),
	LIMITED(struct snapshot, Moetop__Snapshot, flags,
		(1u << REGIME_FLAGS) - 1),
	ROWS(struct snapshot, Moetop__Snapshot, what_if, n_what_if, what_if,
	     SNAPSHOT_WHAT_IF_MAX, &what_if_shape),
	ROWS(struct snapshot, Moetop__Snapshot, draft, n_draft, draft,
	     SNAPSHOT_DRAFT_MAX, &layer_shape),
	ROWS(struct snapshot, Moetop__Snapshot, steps, n_steps, steps,
	     SNAPSHOT_PHASES, &step_shape),
};
const struct shape snapshot_shape =
	SHAPE(snapshot, snapshot_fields, struct snapshot);
