/*
 * plan_text.h - a plan as a table for people, and as JSON for scripts
 *
 * The JSON is one object on one line:
 *
 *	{ "source": "modelled",
 *	  "model": { "name", "model_type", "quant", "experts", "top_k",
 *		"layers", "moe_layers", "expert_params", "expert_bytes",
 *		"dense_params", "dense_bytes", "kv_bytes_per_token",
 *		"context_tokens", "skew" },
 *	  "gpu": { "name", "count", "tp", "ep", "compute",
 *		"bandwidth_bytes_per_second", "flops_per_second",
 *		"bandwidth_achieved_ratio", "flops_achieved_ratio",
 *		"usd_per_hour" },
 *	  "points": [ { "batch", "active_experts", "coverage_ratio",
 *		"fragmentation_ratio", "single_row_ratio", "valley_index",
 *		"marginal_gain_ratio", "routed_bytes_per_step",
 *		"bytes_per_token", "step_seconds", "tokens_per_second",
 *		"cost_usd_per_million_tokens" } ],
 *	  "valley": { "floor_batch", "enter_batch", "exit_batch" } }
 *
 * Bandwidth, FLOPS and price are of one GPU, bandwidth and FLOPS of its data
 * sheet; bytes are of all GPUs together.  skew is null for uniform routing; any
 * number that is not known is null; the valley's are null when every token uses
 * every expert.
 */
#ifndef MOETOP_EXPORTER_PLAN_TEXT_H
#define MOETOP_EXPORTER_PLAN_TEXT_H

#include "exporter/exporter.h"
#include "model/plan.h"

/* Both append; out->error tells whether it fitted. */
void plan_write_json(struct text *out, const struct model_plan *p);
void plan_write_table(struct text *out, const struct model_plan *p);

#endif
