#include "exporter/recording_fields.h"

#define A(kind, member, name) \
	FIELD_AS(kind, struct whatif, member, Moetop__WhatIfBase, name)
#define M(kind, name) A(kind, name, name)

struct bin { /* the anonymous rows of struct traffic */
	double q, experts;
};
_Static_assert(sizeof(struct bin) == sizeof(((struct traffic *)0)->bins[0]),
	       "model/traffic.h");
static const struct field bin_fields[] = {
	FIELD(DOUBLE, struct bin, Moetop__Bin, q),
	FIELD(DOUBLE, struct bin, Moetop__Bin, experts),
};
static const struct shape bin_shape = SHAPE(bin, bin_fields, struct bin);

static const struct field whatif_fields[] = {
	M(BOOL, valid),
	M(BOOL, known),
	M(DOUBLE, gpu_bw),
	M(DOUBLE, gpu_flops),
	M(DOUBLE, gpus),
	M(DOUBLE, tp),
	M(DOUBLE, ep),
	M(DOUBLE, batch),
	M(DOUBLE, step_s),
	M(DOUBLE, tokens_per_s),
	M(DOUBLE, prompt_s),
	M(DOUBLE, mixed_s),
	M(DOUBLE, kv_bytes),
	M(DOUBLE, kv_capacity_bytes),
	M(DOUBLE, usd_per_gpu_hour),
	LIMITED(struct whatif, Moetop__WhatIfBase, source, SOURCES - 1),
	M(DOUBLE, now_active),
	M(DOUBLE, now_rows_uneven),
	M(DOUBLE, now_active_uneven),
	A(U32, arch.experts, experts),
	A(U32, arch.top_k, top_k),
	A(U32, arch.layers, layers),
	A(U32, arch.moe_layers, moe_layers),
	A(U32, arch.shared_experts, shared_experts),
	LIMITED_AS(struct whatif, arch.compute, Moetop__WhatIfBase, compute,
		   COMPUTE_FP4),
	A(DOUBLE, arch.expert_params, expert_params),
	A(DOUBLE, arch.expert_bytes, expert_bytes),
	A(DOUBLE, arch.dense_params, dense_params),
	A(DOUBLE, arch.dense_bytes, dense_bytes),
	A(DOUBLE, arch.kv_bytes_per_token, kv_bytes_per_token),
	A(DOUBLE, calibration.bw, bw),
	A(DOUBLE, calibration.bw_low, bw_low),
	A(DOUBLE, calibration.bw_high, bw_high),
	A(DOUBLE, calibration.fixed_s, fixed_s),
	A(BOOL, calibration.fitted, fitted),
	A(DOUBLE, calibration.batch_low, batch_low),
	A(DOUBLE, calibration.batch_high, batch_high),
	A(U32, calibration.n, points),
	A(DOUBLE, traffic.experts, traffic_experts),
	A(DOUBLE, traffic.top_k, traffic_top_k),
	LIMITED_AS(struct whatif, traffic.basis, Moetop__WhatIfBase, basis,
		   TRAFFIC_POPULARITY),
	A(DOUBLE, traffic.skew, skew),
	A(DOUBLE, traffic.tokens, tokens),
	A(DOUBLE, traffic.batch, traffic_batch),
	A(DOUBLE, traffic.active, active),
	A(DOUBLE, traffic.active_error, active_error),
	A(DOUBLE, traffic.unanchored, unanchored),
	A(DOUBLE, traffic.unanchored_more, unanchored_more),
	A(DOUBLE, traffic.unanchored_less, unanchored_less),
	A(DOUBLE, traffic.correlated, correlated),
	ROWS(struct whatif, Moetop__WhatIfBase, traffic.bins, traffic.n, bins,
	     TRAFFIC_BINS, &bin_shape),
};
const struct shape whatif_shape =
	SHAPE(what_if_base, whatif_fields, struct whatif);
