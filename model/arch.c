#include "model/arch.h"

double arch_flops_per_token(const struct arch *a)
{
	double routed = (double)a->moe_layers * a->top_k * a->expert_params;

	return 2 * (routed + a->dense_params);
}
