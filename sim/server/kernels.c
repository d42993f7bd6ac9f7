#include "sim/server/kernels.h"

#include <assert.h>
#include <string.h>

static void args_add(struct kernel_args *a, const void *v, uint8_t bytes)
{
	assert(a->n < KERNEL_PARAMS_MAX);
	memcpy(&a->value[a->n], v, bytes);
	a->bytes[a->n++] = bytes;
	a->bytes[a->n] = 0;
}

void args_pointer(struct kernel_args *a, uint64_t v)
{
	args_add(a, &v, sizeof(v));
}

void args_u32(struct kernel_args *a, uint32_t v)
{
	args_add(a, &v, sizeof(v));
}

void args_u64(struct kernel_args *a, uint64_t v)
{
	args_add(a, &v, sizeof(v));
}

void args_f32(struct kernel_args *a, float v)
{
	args_add(a, &v, sizeof(v));
}

void args_f64(struct kernel_args *a, double v)
{
	args_add(a, &v, sizeof(v));
}

void args_bool(struct kernel_args *a, bool v)
{
	args_add(a, &v, sizeof(v));
}

void args_triton_u32(struct kernel_args *a, uint32_t v)
{
	if (v != 1)
		args_add(a, &v, sizeof(v));
}

void args_triton_end(struct kernel_args *a)
{
	args_pointer(a, 0);
	args_pointer(a, 0);
}

const char *kernel_ampere_gemm(enum seq_weights what)
{
	switch (what) {
	case WEIGHTS_OUTPUT:
	case WEIGHTS_ROUTER:
		return "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_"
		       "stages_64x5_tn";
	case WEIGHTS_HEAD:
		return "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_"
		       "64x4_tn";
	case WEIGHTS_KINDS:
		return NULL;
	default:
		return "ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_"
		       "tn";
	}
}
