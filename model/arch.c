#include "model/arch.h"

double arch_flops_per_token(const struct arch *a)
{
	double routed = (double)a->moe_layers * a->top_k * a->expert_params;

	return 2 * (routed + a->dense_params);
}

const char *compute_type_name(enum compute_type c)
{
	static const char *const names[] = {
		[COMPUTE_BF16] = "BF16",
		[COMPUTE_FP8] = "FP8",
		[COMPUTE_FP4] = "FP4",
	};

	return names[c];
}
