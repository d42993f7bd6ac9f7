#include "model/economics.h"

#include <math.h>
#include <stddef.h>

void economics_machine(const struct gpu *gpu, double gpus, double peak_bw,
		       enum compute_type compute, struct machine *out)
{
	double n = gpus >= 1 ? gpus : 1;

	*out = (struct machine){ .bw = gpu ? n * gpu->bw : 0 };
	if (gpu)
		out->flops = n * gpu_flops(gpu, compute);
	if (peak_bw > 0)
		out->bw = n * peak_bw;
	out->bw_achieved = ECONOMICS_BW_ACHIEVED * out->bw;
	out->flops_achieved = ECONOMICS_FLOPS_ACHIEVED * out->flops;
}

void economics_cost(const struct arch *a, double tokens, double active,
		    double kv_bytes, struct step_cost *out)
{
	double routed = (double)a->moe_layers * a->top_k * a->expert_params;

	*out = (struct step_cost){
		.routed_bytes = a->moe_layers * active * a->expert_bytes,
		.dense_bytes = a->dense_bytes,
		.kv_bytes = kv_bytes,
		.routed_flop = 2 * tokens * routed,
		.dense_flop = 2 * tokens * a->dense_params,
	};
}

static double seconds(double amount, double rate)
{
	return rate > 0 ? amount / rate : 0;
}

bool economics_shares(const struct step_cost *c, const struct machine *m,
		      double single_ratio, double step_s, double expert_s,
		      struct step_shares *out)
{
	double expert_bw = seconds(c->routed_bytes, m->bw_achieved);
	double dense_bw = seconds(c->dense_bytes, m->bw_achieved);
	double expert_fl = seconds(c->routed_flop, m->flops_achieved);
	double dense_fl = seconds(c->dense_flop, m->flops_achieved);
	double kv = seconds(c->kv_bytes, m->bw_achieved);
	double compute = 0;

	*out = (struct step_shares){ 0 };
	if (!(step_s > 0) || !isfinite(step_s) ||
	    !(c->routed_bytes + c->dense_bytes > 0))
		return false;
	if (!(m->bw_achieved > 0)) { /* the kernels' time is the upper bound */
		if (!(expert_s > 0))
			return false;
		expert_bw = expert_s;
	}
	if (expert_fl > 0 && expert_fl >= expert_bw)
		compute += fmin(expert_fl, step_s);
	else if (expert_s > 0)
		expert_bw = fmin(expert_bw, expert_s);
	if (compute == 0)
		out->expert = single_ratio * fmin(expert_bw, step_s) / step_s;
	if (dense_fl > 0 && dense_fl >= dense_bw)
		compute += fmin(dense_fl, step_s);
	out->kv = fmin(kv / step_s, 1);
	out->compute = fmin(compute / step_s, 1);
	out->gain = fmax(0, 1 - out->expert - out->kv - out->compute);
	return true;
}

double economics_step_seconds(const struct step_cost *c,
			      const struct machine *m)
{
	return fmax(seconds(c->routed_bytes, m->bw_achieved),
		    seconds(c->routed_flop, m->flops_achieved)) +
	       fmax(seconds(c->dense_bytes, m->bw_achieved),
		    seconds(c->dense_flop, m->flops_achieved)) +
	       seconds(c->kv_bytes, m->bw_achieved);
}

double economics_ridge_rows(const struct machine *m, double bytes_per_weight)
{
	return seconds(m->flops * bytes_per_weight, 2 * m->bw);
}

double economics_usd_per_mtok(double gpus, double usd_per_gpu_hour,
			      double tokens_per_s)
{
	return seconds(gpus * usd_per_gpu_hour / 3600, tokens_per_s) * 1e6;
}
