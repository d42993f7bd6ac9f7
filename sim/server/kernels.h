/*
 * kernels.h - the kernels of vLLM's and SGLang's Triton path
 *
 * Names are as CUPTI delivers them (mangled) and fall into the classes of
 * wire/kernel_class.def; argument layouts are those of the engines as of
 * 2026-08 (research notes on engines, 4.1 to 4.3).
 */
#ifndef MOETOP_SIM_SERVER_KERNELS_H
#define MOETOP_SIM_SERVER_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

enum kernel_id {
	KERNEL_EMBED,
	KERNEL_NORM,
	KERNEL_GEMM_QKV,
	KERNEL_ROTARY,
	KERNEL_KVWRITE,
	KERNEL_ATTENTION,
	KERNEL_GEMM_OUTPUT,
	KERNEL_GEMM_ROUTER,
	KERNEL_TOPK,
	KERNEL_TOPK_FILL,
	KERNEL_GEMM_MLP,
	KERNEL_ACT,
	KERNEL_ALIGN,
	KERNEL_ALIGN_SORT,
	KERNEL_ALIGN_SMALL,
	KERNEL_QUANT,
	KERNEL_MOE_W13,
	KERNEL_MOE_W2,
	KERNEL_SUM,
	KERNEL_GEMM_HEAD,
	KERNEL_SOFTMAX,
	KERNEL_ARGMAX,
	KERNELS
};

#define KERNEL_PARAMS_MAX 48u

/*
 * Arguments under construction: values of at most 8 bytes, little endian, with
 * their sizes, as the kernel's layout has them.
 */
struct kernel_args {
	uint64_t value[KERNEL_PARAMS_MAX];
	uint8_t bytes[KERNEL_PARAMS_MAX + 1]; /* ended by 0 */
	unsigned n;
};

void args_pointer(struct kernel_args *a, uint64_t v);
void args_u32(struct kernel_args *a, uint32_t v);
void args_u64(struct kernel_args *a, uint64_t v);
void args_f32(struct kernel_args *a, float v);
void args_f64(struct kernel_args *a, double v);
void args_bool(struct kernel_args *a, bool v);
/* An integer argument of a Triton kernel: one that is 1 becomes part of the
 * code and is not passed. */
void args_triton_u32(struct kernel_args *a, uint32_t v);
/* The two scratch pointers that Triton appends. */
void args_triton_end(struct kernel_args *a);

/* One kernel as it is registered and launched. */
struct kernel {
	const char *name;
	enum kernel_id id;
	const uint8_t *param_bytes; /* ended by 0 */
};

enum kernel_flavour { KERNELS_VLLM, KERNELS_SGLANG };

/* The mangled name; ampere: the GEMMs of cuBLAS before Hopper. */
const char *kernel_name(enum kernel_id id, enum kernel_flavour f, bool ampere);

#endif
