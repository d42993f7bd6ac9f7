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
	text_printf(t, "load     decode only, context of %.0f tokens%s%s\n",
		    p->in.context_tokens,
		    p->in.context_tokens > 0 ? "" : ": no KV cache read",
		    a->kv_element_bytes > 0 && a->kv_element_bytes < 2
			    ? ", KV cache in 8 bits or less"
			    : "");
}

static void write_memory(struct text *t, const struct model_plan *p)
{
	const struct plan_memory *m = &p->memory;

	text_printf(t, "memory   weights %.1f of %.0f GB per GPU",
		    m->weight_bytes / 1e9, p->in.gpu->memory_bytes / 1e9);
	if (!m->fits)
		text_printf(t, ": they do not fit; take more GPUs\n");
	else if (m->sequence_bytes > 0)
		text_printf(t, "; room for %.4g such sequences\n", m->room);
	else
		text_printf(t, "\n");
}

/* Every number below is a formula's: say which assumptions are in it. */
static void write_assumptions(struct text *t, const struct model_plan *p)
{
	text_printf(t, "modelled ");
	if (p->in.popularity)
		text_printf(t,
			    "tokens pick experts by the given popularity (%u "
			    "layers),\n",
			    p->in.popularity->layers);
	else if (is_uniform(p))
		text_printf(t, "uniform routing (real routing is skewed: fewer "
			       "experts, a later exit),\n");
	else
		text_printf(t, "skewed routing (beta-binomial, a = %g),\n",
			    p->in.skew);
	text_printf(t,
		    "         ideal balance over the GPUs, %g of the data "
		    "sheet's bandwidth and %g\n"
		    "         of its FLOPS; no communication, no overhead\n",
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
	write_memory(out, p);
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

/* ---- several side by side ---------------------------------------------- */

static double eta_of(const struct plan_point *x)
{
	return x->shares.gain;
}

static double megabytes_of(const struct plan_point *x)
{
	return x->bytes_per_token / 1e6;
}

static double speed_of(const struct plan_point *x)
{
	return x->tokens_per_s;
}

static double cost_of(const struct plan_point *x)
{
	return x->usd_per_mtok;
}

static void write_legend(struct text *t, const struct model_plan *p,
			 char letter)
{
	const struct plan_valley *v = &p->valley;
	char line[160];

	snprintf(line, sizeof(line), "%c  %.34s, %.18s, %.0f x %s", letter,
		 p->in.arch.name[0] ? p->in.arch.name : p->in.arch.model_type,
		 p->in.arch.quant, p->in.gpus, p->in.gpu->name);
	text_json(t, line);
	text_printf(t, "%s\n   ", p->memory.fits ? "" : " (too small)");
	if (v->floor > 0)
		text_printf(t,
			    "valley from B = %.1f to %.1f, floor at "
			    "%.1f; ",
			    v->enter, v->exit, v->floor);
	else
		text_printf(t, "no valley; ");
	text_printf(t, "weights %.4g of %.0f GB a GPU\n",
		    p->memory.weight_bytes / 1e9,
		    p->in.gpu->memory_bytes / 1e9);
}

static void write_block(struct text *t, const struct model_plan *const *plans,
			unsigned n, const char *title,
			double (*value)(const struct plan_point *))
{
	text_printf(t, "\n%-8s", title);
	for (unsigned i = 0; i < n; i++)
		text_printf(t, " %7c%c", ' ', 'A' + (int)i);
	text_printf(t, "\n");
	for (unsigned b = 0; b < plans[0]->n_points; b++) {
		text_printf(t, "%8.0f", plans[0]->points[b].batch);
		for (unsigned i = 0; i < n; i++)
			cell(t, 8, value(&plans[i]->points[b]));
		text_printf(t, "\n");
	}
}

void plan_write_comparison(struct text *out,
			   const struct model_plan *const *plans, unsigned n)
{
	struct c_locale locale;
	bool priced = false;

	c_locale_enter(&locale);
	for (unsigned i = 0; i < n; i++) {
		write_legend(out, plans[i], (char)('A' + i));
		priced |= plans[i]->in.usd_per_gpu_hour > 0;
	}
	text_printf(out, "\n");
	write_assumptions(out, plans[0]);
	write_block(out, plans, n, "eta", eta_of);
	write_block(out, plans, n, "MB/tok", megabytes_of);
	write_block(out, plans, n, "tok/s", speed_of);
	if (priced)
		write_block(out, plans, n, "$/Mtok", cost_of);
	text_printf(out, "\nLines: B tokens per step; eta: share of one more "
			 "request that is free\n");
	c_locale_leave(&locale);
}
