#include "cupti/classify.h"

#include <stdio.h>

#include "tests/unit/cupti/check.h"

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

/* Names as profilers show them, mangled and demangled, with their class. */
static const struct {
	const char *klass, *name;
} samples[] = {
	{ "topk.sgl_router", "_router_triton_kernel" },
	{ "topk.padfill", "_fill_padded_rows_kernel" },
	{ "topk.eplb", "_eplb_map_and_record_i32_kernel" },
	{ "topk.gating",
	  "_ZN4vllm3moe10topkGatingILi8ELi128ELi4ELi16ELi32Ei13__nv_"
	  "bfloat16LNS0_11ScoringFuncE0EEEvPKT5_PKbPfiPT4_Piiiibdb" },
	{ "topk.gating",
	  "void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16, "
	  "(vllm::moe::ScoringFunc)0>(__nv_bfloat16 const*, bool const*)" },
	{ "topk.gating", "_ZN6sglang17topkGatingSoftmaxIfLi4ELi64EEEvv" },
	{ "topk.gating", "_ZN4vllm3moe22topkGatingSoftplusSqrtILi8EEEvv" },
	{ "topk.dsv4hash", "_ZN4vllm3moe24dsv4HashTopkSoftplusSqrtIiiEEvv" },
	{ "topk.moetopk",
	  "_ZN4vllm3moe7moeTopKILi256EiEEvPKfPKbPfPT0_Piiiiib" },
	{ "topk.prep", "_ZN4vllm3moe10moeSoftmaxILi256EfEEvv" },
	{ "topk.grouped_small",
	  "void vllm::moe::grouped_topk_fused_small_expert_count_kernel<float, "
	  "float, int>(float*)" },
	{ "topk.grouped", "_ZN4vllm3moe25grouped_topk_fused_kernelIffiEEvv" },
	{ "topk.single_block",
	  "_ZN4vllm3moe30single_group_topk_block_kernelIffiEEvv" },
	{ "topk.single_warp",
	  "_ZN4vllm3moe29single_group_topk_warp_kernelIffiEEvv" },
	{ "topk.sgl_gate",
	  "_Z21moe_fused_gate_kernelILi1EEv17MoEFusedGateParams" },
	{ "topk.sgl_gate", "route_radix_kernel<(int)896>(RouteRadixParams)" },
	{ "topk.fi_dsv3",
	  "_ZN12tensorrt_llm7kernels23deepseek_v3_topk_kernelIfEEv" },
	{ "topk.tk", "_topk_forward" },
	{ "topk.other", "_dsv4_topk_kernel" },
	{ "topk.append", "_fused_append_shared_experts_kernel" },
	{ "topk.pack", "_pack_topk_ids_triton_kernel" },
	{ "topk.pack", "_pack_topk_ids_weights_kernel" },
	{ "route.tk", "_combined_routing_memset" },
	{ "route.tk", "_combined_routing_compute_pow2" },
	{ "route.tk", "_ragged_tensor_metadata_memset" },
	{ "router.gemm",
	  "_Z31router_gemm_kernel_bf16_outputI13__nv_bfloat16Li128EEvv" },
	{ "align.lora",
	  "_ZN4vllm3moe32moe_lora_align_block_size_kernelIiEEvv" },
	{ "align.batched", "_ZN4vllm3moe32batched_moe_align_block_"
			   "size35batched_moe_align_block_size_kernelEiii" },
	{ "align.small", "_ZN4vllm3moe44moe_align_block_size_small_batch_"
			 "expert_kernelIiLi256EEvPKT_PiS5_" },
	{ "align.small", "_moe_align_small_numel_kernel" },
	{ "align.sort",
	  "_ZN4vllm3moe35count_and_sort_expert_tokens_kernelIiEEvv" },
	{ "align.block", "_ZN4vllm3moe27moe_align_block_size_kernelIiEEvv" },
	{ "align.block",
	  "void moe_align_block_size_kernel_v2<int>(int const*, int*)" },
	{ "gemm.wna16", "fused_moe_kernel_gptq_awq" },
	{ "gemm.triton", "fused_moe_kernel" },
	{ "gemm.batched", "batched_triton_kernel" },
	{ "gemm.grouped_tri", "_mxfp8_grouped_gemm_kernel" },
	{ "gemm.marlin",
	  "_ZN16marlin_moe_"
	  "wna166MarlinILl1125899906909960ELl4503599627436036EEEvv" },
	{ "gemm.marlin", "void marlin_moe_wna16::Marlin<1, 2>(int4 const*)" },
	{ "gemm.ogs", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1" },
	{ "gemm.ogs", "_p_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1" },
	{ "gemm.ogs", "_matmul" },
	{ "gemm.ogs", "_p_matmul" },
	{ "gemm.megamoe",
	  "_ZN9deep_gemm26sm100_fp8_fp4_mega_moe_implILj7168EEvv" },
	{ "gemm.deepgemm",
	  "_ZN9deep_gemm23sm90_fp8_gemm_1d2d_implILN4cute4UMMA5MajorE0EEvv" },
	{ "gemm.deepgemm", "void "
			   "deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<(cute::"
			   "UMMA::Major)0>(int*)" },
	{ "gemm.deepgemm", "void deep_gemm::sm90_bf16_gemm_impl<1>(int*)" },
	{ "gemm.deepgemm",
	  "_ZN9deep_gemm23sm90_fp8_gemm_1d2d_implILj0ELj7168ELNS_8GemmTypeE1E"
	  "EEvPf" },
	{ "gemm.deepgemm_dense",
	  "_ZN9deep_gemm23sm90_fp8_gemm_1d2d_implILj0ELj7168ELNS_8GemmTypeE0E"
	  "EEvPf" },
	{ "gemm.deepgemm_dense", "void "
				 "deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<7168u"
				 ", (deep_gemm::GemmType)0>(float*)" },
	{ "gemm.trtllm",
	  "bmm_E2m1_E2m1E2m1_Fp32_t128x8x512_s6_et128x8_m128x8x64_cga1x1x1_"
	  "16dp256b_rM_TN_transOut_schedS_biasM_bN_tma_swiGlu_dynB_sm100f" },
	{ "gemm.trtllm", "bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_sm100f" },
	{ "gemm.cutlass_group",
	  "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_"
	  "17GroupProblemShapeIN4cute5tupleIJiiiEEEEEEEEvv" },
	{ "gemm.cutlass_group",
	  "void "
	  "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass:"
	  ":gemm::GroupProblemShape<cute::tuple<int, int, int>>>>(void)" },
	{ "route.trtllm", "_ZN3moe3dev7routing13routingCustom25routingIndicesBl"
			  "ockKernelINS2_12KernelParamsEEEvT_" },
	{ "route.trtllm", "void "
			  "moe::dev::routing::routingCustom::"
			  "routingIndicesDynBlockKernel<int>(int)" },
	{ "route.trtllm",
	  "void "
	  "moe::dev::routing::routingDeepSeek::routingMainKernel<int>(int)" },
	{ "route.trtllm",
	  "void "
	  "moe::dev::routing::routingIndicesHistogramScoresKernel<int>(int)" },
	{ "perm.fi_map",
	  "void "
	  "tensorrt_llm::kernels::cutlass_kernels::"
	  "fusedBuildExpertMapsSortFirstTokenKernel<64, 8, 8>(int const*)" },
	{ "perm.fi_prefix",
	  "void "
	  "tensorrt_llm::kernels::cutlass_kernels::"
	  "globalExpertPrefixSumLargeKernel<256>(int const*)" },
	{ "perm.offsets", "_Z35computeExpertFirstTokenOffsetKernelPKiliPl" },
	{ "perm.problem",
	  "void compute_problem_sizes_from_expert_offsets<true>(long const*)" },
	{ "perm.starts", "void __get_group_gemm_starts<int>(int*)" },
	{ "perm.expand",
	  "void expandInputRowsKernel<__nv_bfloat16, false, true>(int)" },
	{ "perm.dg", "_fwd_kernel_ep_scatter_1" },
	{ "perm.dg", "_count_expert_num_tokens" },
	{ "perm.dg", "fused_moe_dispatch_index_triton_kernel" },
	{ "perm.other", "deepep_permute_triton_kernel" },
	{ "shared.gate", "_sigmoid_gate_mul_kernel" },
	{ "act.moe", "void vllm::act_and_mul_kernel<c10::BFloat16, "
		     "&vllm::silu_kernel>(int)" },
	{ "act.moe", "_silu_mul_fp8_quant_deep_gemm" },
	{ "quant",
	  "void per_token_group_quant_8bit_kernel<c10::BFloat16>(int)" },
	{ "quant", "void vllm::cvt_fp16_to_fp4<__nv_bfloat16>(int)" },
	{ "reduce.moe", "void vllm::moe::moe_sum_vec_kernel<c10::BFloat16, "
			"int, 8, true>(int)" },
	{ "reduce.moe", "void finalizeMoeRoutingKernel<__nv_bfloat16>(int)" },
	{ "reduce.moe", "_moe_sum_reduce_kernel" },
	{ "reduce.moe",
	  "void moe::dev::finalize::finalizeKernelVecLoad<int>(int)" },
	{ "a2a.deepep_ll",
	  "_ZN7deep_ep6legacy12internode_ll8dispatchILb1ELb0ELi7168EEEvv" },
	{ "a2a.deepep_ll",
	  "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)" },
	{ "a2a.deepep_ht",
	  "void deep_ep::legacy::intranode::notify_dispatch<8>(int const*)" },
	{ "a2a.deepep_ht",
	  "void deep_ep::legacy::layout::get_dispatch_layout<256, 32, 2>(long "
	  "const*)" },
	{ "a2a.deepep_v2",
	  "void deep_ep::elastic::dispatch_copy_epilogue_impl<true>(int)" },
	{ "a2a.flashinfer", "void moeA2ADispatchKernel<int>(int)" },
	{ "comm.nccl",
	  "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)" },
	{ "comm.custom_ar",
	  "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)" },
	{ "attn", "kernel_unified_attention" },
	{ "attn", "_fwd_grouped_kernel_stage1" },
	{ "attn", "void flash::flash_fwd_splitkv_kernel<int>(int)" },
	{ "attn.linear", "fused_recurrent_gated_delta_rule_fwd_kernel" },
	{ "kvwrite", "void vllm::reshape_and_cache_flash_kernel<int>(int)" },
	{ "norm", "void vllm::rms_norm_kernel<int>(int)" },
	{ "sort.cub", "void cub::DeviceRadixSortSingleTileKernel<int>(int)" },
	{ "gemm.dense", "nvjet_tst_64x8_64x16_4x1_v_bz_TNT" },
	{ "gemm.dense", "void gemv2T_kernel_val<int>(int)" },
	{ "gemm.dense", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n" },
	{ "inductor", "triton_red_fused_add_mean_3" },
	{ "other",
	  "void at::native::vectorized_elementwise_kernel<4, "
	  "at::native::FillFunctor<int>, std::array<char*, 1ul>>(int)" },
};

static void every_sample_name_has_its_class(void **state)
{
	struct kernel_names *n = kernel_names_new();

	(void)state;
	assert_non_null(n);
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		struct kernel_name *e = kernel_names_get(n, samples[i].name);

		assert_true(e->klass < CLASSES);
		assert_string_equal(class_names[e->klass], samples[i].klass);
	}
	kernel_names_free(n);
}

static void same_name_behind_two_pointers_is_one_entry(void **state)
{
	struct kernel_names *n = kernel_names_new();
	char copy[] = "fused_moe_kernel";

	(void)state;
	assert_ptr_equal(kernel_names_get(n, "fused_moe_kernel"),
			 kernel_names_get(n, copy));
	copy[0] = 'g';
	assert_int_equal(kernel_names_get(n, copy)->klass, CLASS_OTHER);
	assert_int_equal(kernel_names_count(n), 2);
	kernel_names_free(n);
}

static void names_beyond_the_table_share_an_entry(void **state)
{
	struct kernel_names *n = kernel_names_new();
	struct kernel_name *first, *last;
	char name[32];

	(void)state;
	first = kernel_names_get(n, "fused_moe_kernel");
	for (int i = 0; i < (int)NAMES_MAX + 10; i++) {
		snprintf(name, sizeof(name), "kernel_%d", i);
		last = kernel_names_get(n, name);
	}
	assert_int_equal(last->id, NAMES_MAX);
	assert_int_equal(last->klass, CLASS_OTHER);
	assert_int_equal(kernel_names_count(n), NAMES_MAX);
	assert_ptr_equal(kernel_names_get(n, "fused_moe_kernel"), first);
	assert_ptr_equal(kernel_names_at(n, first->id), first);
	kernel_names_free(n);
}

static void only_kernels_that_choose_experts_are_anchors(void **state)
{
	(void)state;
	assert_true(kernel_class_is_anchor(CLASS_TOPK_GATING));
	assert_true(kernel_class_is_anchor(CLASS_ROUTE_TRTLLM));
	assert_false(kernel_class_is_anchor(CLASS_TOPK_PADFILL));
	assert_false(kernel_class_is_anchor(CLASS_TOPK_EPLB));
	assert_false(kernel_class_is_anchor(CLASS_TOPK_APPEND));
	assert_false(kernel_class_is_anchor(CLASS_TOPK_PACK));
	assert_false(kernel_class_is_anchor(CLASS_TOPK_PREP));
	assert_false(kernel_class_is_anchor(CLASS_ALIGN_BLOCK));
	assert_false(kernel_class_is_anchor(CLASSES));
}

static void classes_that_run_elsewhere_too_do_not_close_a_block(void **state)
{
	(void)state;
	assert_true(kernel_class_closes(CLASS_GEMM_TRITON));
	assert_true(kernel_class_closes(CLASS_REDUCE_MOE));
	assert_false(kernel_class_closes(CLASS_ROUTER_GEMM));
	assert_false(kernel_class_closes(CLASS_SORT_CUB));
	assert_false(kernel_class_closes(CLASS_ACT_MOE));
	assert_false(kernel_class_closes(CLASS_ATTN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sample_name_has_its_class),
		cmocka_unit_test(same_name_behind_two_pointers_is_one_entry),
		cmocka_unit_test(names_beyond_the_table_share_an_entry),
		cmocka_unit_test(only_kernels_that_choose_experts_are_anchors),
		cmocka_unit_test(
			classes_that_run_elsewhere_too_do_not_close_a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
