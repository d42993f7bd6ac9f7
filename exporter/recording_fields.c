#include "exporter/recording_fields.h"

#include "wire/kernel_class.h"

#define L(kind, name) FIELD(kind, struct snapshot_layer, Moetop__Layer, name)
static const struct field layer_fields[] = {
	L(VALUE, seconds_per_step),
	L(VALUE, before_seconds_per_step),
	L(VALUE, expert_seconds_per_step),
	L(VALUE, rows),
	L(VALUE, active_experts),
	L(VALUE, single_row_experts),
	L(VALUE, dram_bytes_per_step),
	L(VALUE, expert_bytes_per_step),
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
	H(U64, lost_ring),        H(U64, lost_records),
	H(U64, lost_requests),    H(U64, desyncs),
	H(U64, bad_steps),        H(U64, cells_sampled),
	H(U64, cells_rejected),   H(U64, cells_lost),
	H(U64, windows),          H(VALUE, window_age_seconds),
	H(TEXT, rows_method),     H(TEXT, rung),
	H(BOOL, target_gone),     H(DOUBLE, target_gone_seconds),
	H(TEXT, message),         H(U32, layers_seen),
	H(U64, lost_connections), H(U64, lost_calls),
	H(U64, lost_paths),       H(U64, lost_listeners),
};
const struct shape health_shape =
	SHAPE(health, health_fields, struct snapshot_health);

#define O(name) FIELD(TEXT, struct snapshot_option, Moetop__Option, name)
static const struct field option_fields[] = { O(name), O(value) };
static const struct shape option_shape =
	SHAPE(option, option_fields, struct snapshot_option);

#define K(kind, name) FIELD(kind, struct snapshot_check, Moetop__Check, name)
static const struct field check_fields[] = {
	K(TEXT, name),
	LIMITED(struct snapshot_check, Moetop__Check, state, CHECK_DIFFERS),
	K(MAYBE, ours),
	K(MAYBE, theirs),
	K(DOUBLE, tolerance_ratio),
	K(TEXT, why),
	LIMITED(struct snapshot_check, Moetop__Check, source, SOURCES - 1),
};
static const struct shape check_shape =
	SHAPE(check, check_fields, struct snapshot_check);

#define Q(kind, name) \
	FIELD(kind, struct snapshot_requests, Moetop__Requests, name)
static const struct field requests_fields[] = {
	Q(BOOL, known),           Q(BOOL, have_queues),
	Q(U64, unread_bytes),     Q(U64, not_accepted),
	Q(MAYBE, oldest_seconds), Q(U64, tls),
	Q(U64, tls_followed),     Q(U64, tls_inferred),
	Q(U64, inferred_waiting), Q(U64, inferred_streaming),
};
const struct shape requests_shape =
	SHAPE(requests, requests_fields, struct snapshot_requests);

#define B(kind, name) FIELD(kind, struct snapshot_bytes, Moetop__Bytes, name)
static const struct field bytes_fields[] = {
	B(TEXT, method),     B(VALUE, residual_ratio),
	B(VALUE, condition), B(VALUE, layer_error_ratio),
	B(DOUBLE, samples),  B(DOUBLE, offset_ns),
};
const struct shape bytes_shape =
	SHAPE(bytes, bytes_fields, struct snapshot_bytes);

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
	G(TEXT, container),
	G(TEXT, server),
	G(TEXT, pod),
	G(TEXT, pod_namespace),
	ROWS(struct snapshot_target, Moetop__Target, ranks, n_ranks, ranks,
	     SNAPSHOT_RANKS_MAX, &rank_shape),
	ROWS(struct snapshot_target, Moetop__Target, options, n_options,
	     options, SNAPSHOT_OPTIONS_MAX, &option_shape),
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
	ROWS(struct snapshot, Moetop__Snapshot, checks, n_checks, checks,
	     SNAPSHOT_CHECKS_MAX, &check_shape),
};
const struct shape snapshot_shape =
	SHAPE(snapshot, snapshot_fields, struct snapshot);
