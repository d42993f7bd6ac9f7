/* Kernel names fall into the classes that they stand for; argument layouts. */
#include "sim/server/kernels.h"

#include <regex.h>

#include "tests/unit/sim/server_test.h"
#include "wire/kernel_class.h"

static const char *const patterns[CLASSES] = {
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = regex,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static enum kernel_class classify(const char *name)
{
	for (int c = 1; c < CLASSES; c++) {
		regex_t r;
		int match;

		assert_int_equal(
			regcomp(&r, patterns[c], REG_EXTENDED | REG_NOSUB), 0);
		match = !regexec(&r, name, 0, NULL, 0);
		regfree(&r);
		if (match)
			return (enum kernel_class)c;
	}
	return CLASS_OTHER;
}

static const enum kernel_class want[KERNELS] = {
	[KERNEL_EMBED] = CLASS_INDUCTOR,
	[KERNEL_NORM] = CLASS_NORM,
	[KERNEL_GEMM_QKV] = CLASS_GEMM_DENSE,
	[KERNEL_ROTARY] = CLASS_ROPE,
	[KERNEL_KVWRITE] = CLASS_KVWRITE,
	[KERNEL_ATTENTION] = CLASS_ATTN,
	[KERNEL_GEMM_OUTPUT] = CLASS_GEMM_DENSE,
	[KERNEL_GEMM_ROUTER] = CLASS_GEMM_DENSE,
	[KERNEL_TOPK] = CLASS_TOPK_GATING,
	[KERNEL_TOPK_FILL] = CLASS_TOPK_PADFILL,
	[KERNEL_GEMM_MLP] = CLASS_GEMM_DENSE,
	[KERNEL_ACT] = CLASS_ACT_MOE,
	[KERNEL_ALIGN] = CLASS_ALIGN_BLOCK,
	[KERNEL_ALIGN_SORT] = CLASS_ALIGN_SORT,
	[KERNEL_ALIGN_SMALL] = CLASS_ALIGN_SMALL,
	[KERNEL_QUANT] = CLASS_QUANT,
	[KERNEL_MOE_W13] = CLASS_GEMM_TRITON,
	[KERNEL_MOE_W2] = CLASS_GEMM_TRITON,
	[KERNEL_SUM] = CLASS_REDUCE_MOE,
	[KERNEL_GEMM_HEAD] = CLASS_GEMM_DENSE,
	[KERNEL_SOFTMAX] = CLASS_SAMPLE,
	[KERNEL_ARGMAX] = CLASS_SAMPLE,
};

static void names_fall_into_their_classes(void **state)
{
	(void)state;
	for (int k = 0; k < KERNELS; k++)
		for (int ampere = 0; ampere < 2; ampere++) {
			const char *name = kernel_name((enum kernel_id)k,
						       KERNELS_VLLM, ampere);

			if (classify(name) != want[k])
				fail_msg("%s is class %d, not %d", name,
					 classify(name), want[k]);
		}
}

static void sglang_has_a_topk_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(classify(kernel_name(KERNEL_TOPK, KERNELS_SGLANG, 0)),
			 CLASS_TOPK_SGL_ROUTER);
}

/* _ZN...: every length in front of an identifier is that of the identifier. */
static void mangled_names_are_well_formed(void **state)
{
	static const char *const parts[] = {
		"25fused_add_rms_norm_kernel",
		"23rotary_embedding_kernel",
		"30reshape_and_cache_flash_kernel",
		"10topkGating",
		"24flash_fwd_splitkv_kernel",
		"18act_and_mul_kernel",
		"27moe_align_block_size_kernel",
		"35count_and_sort_expert_tokens_kernel",
		"46moe_align_block_size_small_batch_expert_kernel",
		"33per_token_group_quant_8bit_kernel",
		"14moe_sum_kernel",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		char *name;
		unsigned long n = strtoul(parts[i], &name, 10);
		bool used = false;

		assert_int_equal(strlen(name), n);
		for (int k = 0; k < KERNELS; k++)
			used |= strstr(kernel_name((enum kernel_id)k,
						   KERNELS_VLLM, false),
				       parts[i]) != NULL;
		assert_true(used);
	}
}

static void triton_drops_arguments_that_are_one(void **state)
{
	struct kernel_args a = { .n = 0 };

	(void)state;
	args_pointer(&a, 0x1234);
	args_triton_u32(&a, 1);
	args_triton_u32(&a, 0);
	args_triton_u32(&a, 7);
	args_bool(&a, true);
	args_f64(&a, 1.0);
	args_triton_end(&a);
	assert_int_equal(a.n, 7);
	assert_memory_equal(a.bytes, "\x08\x04\x04\x01\x08\x08\x08", 8);
	assert_int_equal(a.value[0], 0x1234);
	assert_int_equal((uint32_t)a.value[2], 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_fall_into_their_classes),
		cmocka_unit_test(sglang_has_a_topk_of_its_own),
		cmocka_unit_test(mangled_names_are_well_formed),
		cmocka_unit_test(triton_drops_arguments_that_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
