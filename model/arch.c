#include "model/arch.h"

#include <math.h>

double arch_flops_per_token(const struct arch *a)
{
	double routed = (double)a->moe_layers * a->top_k * a->expert_params;

	return 2 * (routed + a->dense_params);
}

double arch_kv_bytes(const struct arch *a, double tokens)
{
	double element = a->kv_element_bytes > 0 ? a->kv_element_bytes : 2;
	double read =
		a->kv_top_tokens ? fmin(tokens, a->kv_top_tokens) : tokens;
	double inside = fmin(tokens, a->kv_window_tokens);

	return (read * a->kv_bytes_per_token +
		inside * a->kv_window_bytes_per_token) *
		       element / 2 +
	       tokens * a->kv_index_bytes_per_token;
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
