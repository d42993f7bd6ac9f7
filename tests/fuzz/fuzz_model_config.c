/* fuzz_model_config.c - any bytes as config.json, and after a NUL as
 * hf_quant_config.json */
#include "target/model_config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int is_amount(double v)
{
	return isfinite(v) && v >= 0;
}

static void check(const struct arch *a)
{
	if (a->hidden == 0 || a->layers == 0 || a->moe_layers > a->layers ||
	    a->top_k > a->experts)
		abort();
	if (!is_amount(a->expert_bytes) || !is_amount(a->expert_params) ||
	    !is_amount(a->dense_bytes) || !is_amount(a->dense_params) ||
	    !is_amount(a->kv_bytes_per_token) ||
	    !is_amount(arch_kv_bytes(a, 1e6)))
		abort();
	if (arch_is_moe(a) ? a->top_k == 0 || a->moe_layers == 0 ||
				     !(a->expert_params > 0)
			   : a->expert_params > 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct arch a = { .experts = 4711 };
	const uint8_t *nul = bytes ? memchr(data, 0, bytes) : NULL;
	const char *json = (const char *)data;
	size_t n = nul ? (size_t)(nul - data) : bytes;
	char why[160] = "";
	int err = model_config_parse(json, n, nul ? json + n + 1 : NULL,
				     nul ? bytes - n - 1 : 0, &a, why,
				     sizeof(why));

	if (err == 0)
		check(&a);
	else if (a.experts != 4711 || !why[0] || strpbrk(why, "\n\r\033"))
		abort();
	return 0;
}
