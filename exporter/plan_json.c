#include "exporter/plan_text.h"
#include "exporter/text.h"
#include "model/valley.h"

#include <math.h>
#include <string.h>

static bool is_skewed(const struct model_plan *p)
{
	return !p->in.popularity && p->in.skew < VALLEY_SKEW_UNIFORM;
}

/* The arithmetic that this GPU does for the model. */
static enum compute_type compute_of(const struct model_plan *p)
{
	return gpu_compute(p->in.gpu, p->in.arch.compute);
}

static void put_key(struct text *t, const char *key)
{
	if (t->bytes && !strchr("{[", t->data[t->bytes - 1]))
		text_write(t, ",", 1);
	text_printf(t, "\"%s\":", key);
}

static void put_string(struct text *t, const char *key, const char *s)
{
	put_key(t, key);
	if (!*s) {
		text_printf(t, "null");
		return;
	}
	text_write(t, "\"", 1);
	text_json(t, s);
	text_write(t, "\"", 1);
}

static void put_number(struct text *t, const char *key, double v)
{
	put_key(t, key);
	if (isfinite(v))
		text_number(t, v);
	else
		text_printf(t, "null");
}

/* 0 means unknown. */
static void put_known(struct text *t, const char *key, double v)
{
	put_number(t, key, v > 0 ? v : NAN);
}

static void put_model(struct text *t, const struct model_plan *p)
{
	const struct arch *a = &p->in.arch;

	put_key(t, "model");
	text_printf(t, "{");
	put_string(t, "name", a->name);
	put_string(t, "model_type", a->model_type);
	put_string(t, "quant", a->quant);
	put_number(t, "experts", a->experts);
	put_number(t, "top_k", a->top_k);
	put_number(t, "layers", a->layers);
	put_number(t, "moe_layers", a->moe_layers);
	put_number(t, "expert_params", a->expert_params);
	put_number(t, "expert_bytes", a->expert_bytes);
	put_number(t, "dense_params", a->dense_params);
	put_number(t, "dense_bytes", a->dense_bytes);
	put_known(t, "kv_bytes_per_token", a->kv_bytes_per_token);
	put_number(t, "context_tokens", p->in.context_tokens);
	put_known(t, "kv_element_bytes", a->kv_element_bytes);
	put_number(t, "weight_bytes", p->memory.weight_bytes * p->in.gpus);
	put_number(t, "skew", is_skewed(p) ? p->in.skew : NAN);
	put_known(t, "popularity_layers",
		  p->in.popularity ? (double)p->in.popularity->layers : 0);
	text_printf(t, "}");
}

static void put_gpu(struct text *t, const struct model_plan *p)
{
	const struct gpu *g = p->in.gpu;

	put_key(t, "gpu");
	text_printf(t, "{");
	put_string(t, "name", g->name);
	put_number(t, "count", p->in.gpus);
	put_number(t, "tp", p->in.tp);
	put_number(t, "ep", p->in.ep);
	put_string(t, "compute", compute_type_name(compute_of(p)));
	put_number(t, "bandwidth_bytes_per_second", g->bw);
	put_number(t, "flops_per_second", gpu_flops(g, p->in.arch.compute));
	put_number(t, "bandwidth_achieved_ratio", ECONOMICS_BW_ACHIEVED);
	put_number(t, "flops_achieved_ratio", ECONOMICS_FLOPS_ACHIEVED);
	put_known(t, "usd_per_hour", p->in.usd_per_gpu_hour);
	put_number(t, "memory_bytes", g->memory_bytes);
	put_number(t, "weight_bytes", p->memory.weight_bytes);
	put_number(t, "sequences_that_fit",
		   p->memory.sequence_bytes > 0 ? p->memory.room : NAN);
	text_printf(t, "}");
}

static void put_point(struct text *t, const struct plan_point *x)
{
	text_printf(t, "{");
	put_number(t, "batch", x->batch);
	put_number(t, "active_experts", x->active);
	put_number(t, "coverage_ratio", x->coverage_ratio);
	put_number(t, "fragmentation_ratio", x->fragmentation_ratio);
	put_number(t, "single_row_ratio", x->single_row_ratio);
	put_number(t, "valley_index", x->valley_index);
	put_number(t, "marginal_gain_ratio", x->shares.gain);
	put_number(t, "routed_bytes_per_step", x->cost.routed_bytes);
	put_number(t, "bytes_per_token", x->bytes_per_token);
	put_known(t, "step_seconds", x->step_s);
	put_known(t, "tokens_per_second", x->tokens_per_s);
	put_known(t, "cost_usd_per_million_tokens", x->usd_per_mtok);
	text_printf(t, "}");
}

/* The members of one plan, without the braces around them. */
static void put_plan(struct text *t, const struct model_plan *p)
{
	put_model(t, p);
	put_gpu(t, p);
	put_key(t, "points");
	text_printf(t, "[");
	for (unsigned i = 0; i < p->n_points; i++) {
		if (i)
			text_write(t, ",", 1);
		put_point(t, &p->points[i]);
	}
	text_printf(t, "]");
	put_key(t, "valley");
	text_printf(t, "{");
	put_known(t, "floor_batch", p->valley.floor);
	put_known(t, "enter_batch", p->valley.enter);
	put_known(t, "exit_batch", p->valley.exit);
	text_printf(t, "}");
}

void plan_write_json(struct text *out, const struct model_plan *const *plans,
		     unsigned n)
{
	struct c_locale locale;

	c_locale_enter(&locale);
	text_printf(out, "{");
	put_string(out, "source", "modelled");
	put_plan(out, plans[0]);
	if (n > 1) {
		put_key(out, "compare");
		text_printf(out, "[");
	}
	for (unsigned i = 1; i < n; i++) {
		text_printf(out, "%s{", i > 1 ? "," : "");
		put_plan(out, plans[i]);
		text_printf(out, "}");
	}
	text_printf(out, n > 1 ? "]}\n" : "}\n");
	c_locale_leave(&locale);
}
