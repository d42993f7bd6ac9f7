/*
 * kernels.h - arguments of kernels, as a launch passes them
 */
#ifndef MOETOP_SIM_SERVER_KERNELS_H
#define MOETOP_SIM_SERVER_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/server/sequence.h"

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

enum kernel_flavour { KERNELS_VLLM, KERNELS_SGLANG };

/* What cuBLAS calls a dense GEMM before Hopper; NULL: no such weights. */
const char *kernel_ampere_gemm(enum seq_weights what);

#endif
