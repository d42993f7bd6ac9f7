#include "exporter/plan_text.h"
#include "exporter/text.h"
#include "model/valley.h"

#include <math.h>
#include <string.h>

static bool is_uniform(const struct model_plan *p)
{
	return p->in.skew >= VALLEY_SKEW_UNIFORM;
}

/* The arithmetic that this GPU does for the model. */
static enum compute_type compute_of(const struct model_plan *p)
{
	return gpu_compute(p->in.gpu, p->in.arch.compute);
}

/* ---- JSON -------------------------------------------------------------- */

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
	put_number(t, "skew", is_uniform(p) ? NAN : p->in.skew);
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

void plan_write_json(struct text *out, const struct model_plan *p)
{
	struct c_locale locale;

	c_locale_enter(&locale);
	text_printf(out, "{");
	put_string(out, "source", "modelled");
	put_model(out, p);
	put_gpu(out, p);
	put_key(out, "points");
	text_printf(out, "[");
	for (unsigned i = 0; i < p->n_points; i++) {
		if (i)
			text_write(out, ",", 1);
		put_point(out, &p->points[i]);
	}
	text_printf(out, "]");
	put_key(out, "valley");
	text_printf(out, "{");
	put_known(out, "floor_batch", p->valley.floor);
	put_known(out, "enter_batch", p->valley.enter);
	put_known(out, "exit_batch", p->valley.exit);
	text_printf(out, "}}\n");
	c_locale_leave(&locale);
}

/* ---- the table, 80 columns --------------------------------------------- */

/* v in `width` columns after a blank, with three digits or more. */
static void cell(struct text *t, int width, double v)
{
	int decimals = v >= 1000 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : 3;

	if (!(v > 0))
		text_printf(t, " %*s", width, "-");
	else if (v < 0.01 || v >= pow(10, width))
		text_printf(t, " %*.1e", width, v);
	else
		text_printf(t, " %*.*f", width, decimals, v);
}

static void write_head(struct text *t, const struct model_plan *p)
{
	const struct arch *a = &p->in.arch;
	const struct gpu *g = p->in.gpu;
	char name[71];

	snprintf(name, sizeof(name), "%.70s",
		 a->name[0] ? a->name : a->model_type);
	text_printf(t, "model    ");
	text_json(t, name);
	text_printf(t,
		    "\n         %u experts, top-%u, in %u of %u layers\n"
		    "weights  %s: experts %.4g, the rest %.4g bytes each\n",
		    a->experts, a->top_k, a->moe_layers, a->layers, a->quant,
		    a->expert_bytes / a->expert_params,
		    a->dense_bytes / a->dense_params);
	text_printf(t, "gpu      %.0f x %s, TP %.0f, EP %.0f", p->in.gpus,
		    g->name, p->in.tp, p->in.ep);
	text_printf(t, "; %.0f GB/s, %.0f %s TFLOPS each\n", g->bw / 1e9,
		    gpu_flops(g, a->compute) / 1e12,
		    compute_type_name(compute_of(p)));
	text_printf(t, "load     decode only, context of %.0f tokens%s\n",
		    p->in.context_tokens,
		    p->in.context_tokens > 0 ? "" : ": no KV cache read");
}

/* Every number below is a formula's: say which assumptions are in it. */
static void write_assumptions(struct text *t, const struct model_plan *p)
{
	text_printf(t, "modelled ");
	if (is_uniform(p))
		text_printf(t, "uniform routing (real routing is skewed: fewer "
			       "experts, a later exit),\n");
	else
		text_printf(t, "skewed routing (beta-binomial, a = %g),\n",
			    p->in.skew);
	text_printf(t,
		    "         ideal balance over the GPUs, %g of the data "
		    "sheet's bandwidth and %g\n"
		    "         of its FLOPS; no communication, no overhead; "
		    "memory size not checked\n",
		    ECONOMICS_BW_ACHIEVED, ECONOMICS_FLOPS_ACHIEVED);
}

static void write_valley(struct text *t, const struct model_plan *p)
{
	const struct plan_valley *v = &p->valley;

	if (v->floor > 0)
		text_printf(
			t,
			"valley   from B = %.1f to %.1f, its floor at %.1f\n",
			v->enter, v->exit, v->floor);
	else
		text_printf(t,
			    "valley   none: every token uses all %u "
			    "experts\n",
			    p->in.arch.experts);
}

static void write_row(struct text *t, const struct model_plan *p,
		      const struct plan_point *x)
{
	bool inside = p->valley.floor > 0 && x->batch >= p->valley.enter &&
		      x->batch <= p->valley.exit;

	text_printf(t, "%c%7.0f %6.1f %5.3f %5.3f %5.3f %5.3f %5.3f",
		    inside ? '>' : ' ', x->batch, x->active, x->coverage_ratio,
		    x->fragmentation_ratio, x->single_row_ratio,
		    x->valley_index, x->shares.gain);
	cell(t, 7, x->bytes_per_token / 1e6);
	cell(t, 7, x->step_s * 1e3);
	cell(t, 8, x->tokens_per_s);
	cell(t, 7, x->usd_per_mtok);
	text_printf(t, "\n");
}

void plan_write_table(struct text *out, const struct model_plan *p)
{
	struct c_locale locale;

	c_locale_enter(&locale);
	write_head(out, p);
	write_assumptions(out, p);
	write_valley(out, p);
	text_printf(out, "\n %7s %6s %5s %5s %5s %5s %5s %7s %7s %8s %7s\n",
		    "B", "active", "cover", "phi", "s1", "V", "eta", "MB/tok",
		    "ms/step", "tok/s", "$/Mtok");
	for (unsigned i = 0; i < p->n_points; i++)
		write_row(out, p, &p->points[i]);
	text_printf(out,
		    "\n"
		    "B tokens per step; active experts per layer; cover = "
		    "active / experts;\n"
		    "phi = active / rows; s1 = share of the active with one "
		    "row; V = cover x phi;\n"
		    "eta = share of one more request that is free; > in the "
		    "valley: s1 0.9 to 0.1%s\n",
		    p->in.usd_per_gpu_hour > 0 ? ""
					       : ";\n$/Mtok needs --gpu-price");
	c_locale_leave(&locale);
}
