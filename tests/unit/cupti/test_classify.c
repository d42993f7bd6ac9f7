#include "cupti/classify.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cupti/check.h"

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

#define ANSWERS "tests/unit/cupti/kernel_answers.tsv"
#define ANSWERS_LEAST 800u

/* What a person calls a kernel, for every name that we have seen: name, tab,
 * class. */
static void every_name_has_the_class_that_a_person_gives_it(void **state)
{
	struct kernel_names *n = kernel_names_new();
	FILE *f = fopen(ANSWERS, "re");
	char line[4096];
	unsigned names = 0, wrong = 0;

	(void)state;
	assert_non_null(n);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *want = strchr(line, '\t');
		const char *got;

		line[strcspn(line, "\n")] = 0;
		if (*line == '#' || !want)
			continue;
		*want++ = 0;
		names++;
		got = class_names[kernel_names_get(n, line)->klass];
		if (!strcmp(got, want))
			continue;
		wrong++;
		print_error("%s: %s, not %s\n", line, got, want);
	}
	fclose(f);
	kernel_names_free(n);
	assert_int_equal(wrong, 0);
	assert_true(names >= ANSWERS_LEAST);
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
		cmocka_unit_test(
			every_name_has_the_class_that_a_person_gives_it),
		cmocka_unit_test(same_name_behind_two_pointers_is_one_entry),
		cmocka_unit_test(names_beyond_the_table_share_an_entry),
		cmocka_unit_test(only_kernels_that_choose_experts_are_anchors),
		cmocka_unit_test(
			classes_that_run_elsewhere_too_do_not_close_a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
