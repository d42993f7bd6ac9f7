/*
 * plan_text.h - plans as tables and plots for people, and as JSON for scripts
 *
 * The JSON is one object on one line:
 *
 *	{ "source": "modelled",
 *	  "model": { "name", "model_type", "quant", "experts", "top_k",
 *		"layers", "moe_layers", "expert_params", "expert_bytes",
 *		"dense_params", "dense_bytes", "kv_bytes_per_token",
 *		"context_tokens", "kv_element_bytes", "weight_bytes", "skew",
 *		"popularity_layers" },
 *	  "gpu": { "name", "count", "tp", "ep", "compute",
 *		"bandwidth_bytes_per_second", "flops_per_second",
 *		"bandwidth_achieved_ratio", "flops_achieved_ratio",
 *		"usd_per_hour", "memory_bytes", "weight_bytes",
 *		"sequences_that_fit" },
 *	  "points": [ { "batch", "active_experts", "coverage_ratio",
 *		"fragmentation_ratio", "single_row_ratio", "valley_index",
 *		"marginal_gain_ratio", "routed_bytes_per_step",
 *		"bytes_per_token", "step_seconds", "tokens_per_second",
 *		"cost_usd_per_million_tokens" } ],
 *	  "valley": { "floor_batch", "enter_batch", "exit_batch" },
 *	  "compare": [ { "model", "gpu", "points", "valley" } ] }
 *
 * Bandwidth, FLOPS and price are of one GPU, bandwidth and FLOPS of its data
 * sheet; bytes are of all GPUs together.  skew is null for uniform routing; any
 * number that is not known is null; the valley's are null when every token uses
 * every expert.  kv_bytes_per_token counts two bytes per element, whatever
 * kv_element_bytes the checkpoint asks for.  compare is there when more than one
 * plan was made.
 */
#ifndef MOETOP_EXPORTER_PLAN_TEXT_H
#define MOETOP_EXPORTER_PLAN_TEXT_H

#include "exporter/exporter.h"
#include "model/plan.h"

#define PLAN_COMPARE_MAX 8u

/* All append; out->error tells whether it fitted.  1 <= n <= PLAN_COMPARE_MAX
 * plans of the same batches. */
void plan_write_json(struct text *out, const struct model_plan *const *plans,
		     unsigned n);
void plan_write_table(struct text *out, const struct model_plan *p);
void plan_write_comparison(struct text *out,
			   const struct model_plan *const *plans, unsigned n);

/* eta, bytes per token, and cost (tokens/s when nobody has a price) against B in
 * `columns` columns, which are kept within 40 and 200. */
void plan_write_plot(struct text *out, const struct model_plan *const *plans,
		     unsigned n, unsigned columns, bool ascii);

#endif
