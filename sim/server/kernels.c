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

static const char *const names[KERNELS] = {
	[KERNEL_EMBED] = "triton_poi_fused_embedding_0",
	[KERNEL_NORM] =
		"_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_"
		"lS3_PKS2_fii",
	[KERNEL_GEMM_QKV] = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
	[KERNEL_ROTARY] =
		"_ZN4vllm23rotary_embedding_kernelIN3c108BFloat16ELb1EEEvPKlPT_"
		"S5_PKS4_illiii",
	[KERNEL_KVWRITE] =
		"_ZN4vllm30reshape_and_cache_flash_kernelI13__nv_bfloat16S1_"
		"LNS_18Fp8KVCacheDataTypeE0EEEvPKT_S5_PT0_S7_"
		"PKllllllliiiPKfSB_",
	[KERNEL_ATTENTION] =
		"_ZN5flash24flash_fwd_splitkv_kernelI23Flash_fwd_kernel_traits"
		"ILi128ELi64ELi128ELi4ELb0ELb0EN7cutlass10bfloat16_tEELb0ELb0E"
		"Lb0ELb0ELb1ELb0ELb0ELb1EEEv16Flash_fwd_params",
	[KERNEL_GEMM_OUTPUT] = "nvjet_tst_64x8_64x16_2x1_v_bz_TNN",
	[KERNEL_GEMM_ROUTER] = "nvjet_tst_32x64_64x16_2x1_v_bz_splitK_TNT",
	[KERNEL_TOPK] =
		"_ZN4vllm3moe10topkGatingILi4ELi128ELi4ELi16ELi32Ei13__nv_"
		"bfloat16LNS0_11ScoringFuncE0EEEvPKT5_PKbPfiPT4_PiiiibPKfdSA_",
	[KERNEL_TOPK_FILL] = "_fill_padded_rows_kernel",
	[KERNEL_GEMM_MLP] = "nvjet_tst_128x8_64x12_4x1_v_bz_TNT",
	[KERNEL_ACT] =
		"_ZN4vllm18act_and_mul_kernelIN3c108BFloat16EXadL_ZNS_11silu_"
		"kernelIS2_EET_RKS4_EELb1EEEvPS4_PKS4_i",
	[KERNEL_ALIGN] =
		"_ZN4vllm3moe27moe_align_block_size_kernelIiEEvPKT_PiS5_S5_S5_"
		"iiiimS5_iib",
	[KERNEL_ALIGN_SORT] = "_ZN4vllm3moe35count_and_sort_expert_tokens_"
			      "kernelIiEEvPKT_PiS5_"
			      "S5_mi",
	[KERNEL_ALIGN_SMALL] =
		"_ZN4vllm3moe46moe_align_block_size_small_batch_expert_kernelIi"
		"Li256EEEvPKT_PiS5_S5_S5_iimiib",
	[KERNEL_QUANT] =
		"_Z33per_token_group_quant_8bit_kernelIN3c108BFloat16ENS0_13"
		"Float8_e4m3fnELb0ELb0EfEvPKT_PvPT3_iiifffii",
	[KERNEL_MOE_W13] = "fused_moe_kernel",
	[KERNEL_MOE_W2] = "fused_moe_kernel",
	[KERNEL_SUM] =
		"_ZN4vllm3moe14moe_sum_kernelIN3c108BFloat16ELi8EEEvPT_PKS4_i",
	[KERNEL_GEMM_HEAD] = "nvjet_tst_192x8_64x8_4x1_v_bz_TNT",
	[KERNEL_SOFTMAX] =
		"_ZN2at6native43_GLOBAL__N__cunn_SoftMaxForwardILi4EfffNS1_22"
		"SoftMaxForwardEpilogueEEEvPT2_PKT0_i",
	[KERNEL_ARGMAX] =
		"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_9"
		"ArgMaxOpsIfEEjlLi4ELi4EEEEEvT1_",
};

static const char *ampere_gemm(enum kernel_id id)
{
	switch (id) {
	case KERNEL_GEMM_QKV:
	case KERNEL_GEMM_MLP:
		return "ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_"
		       "tn";
	case KERNEL_GEMM_OUTPUT:
	case KERNEL_GEMM_ROUTER:
		return "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_"
		       "stages_64x5_tn";
	case KERNEL_GEMM_HEAD:
		return "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_"
		       "64x4_tn";
	default:
		return NULL;
	}
}

const char *kernel_name(enum kernel_id id, enum kernel_flavour f, bool ampere)
{
	if (f == KERNELS_SGLANG && id == KERNEL_TOPK)
		return "_router_triton_kernel";
	if (ampere && ampere_gemm(id))
		return ampere_gemm(id);
	return names[id];
}
