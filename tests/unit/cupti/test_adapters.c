#include "cupti/adapters.h"

#include <errno.h>
#include <sys/mman.h>

#include "tests/unit/cupti/check.h"
#include "wire/record.h"

#define GATING                                                              \
	"_ZN4vllm3moe10topkGatingILi4ELi128ELi4ELi16ELi32Ei13__nv_bfloat16" \
	"LNS0_11ScoringFuncE0EEEvPKT5_PKbPfiPT4_PiiiibPKfdSA_"
#define ALIGN "_ZN4vllm3moe27moe_align_block_size_kernelIiEEvPKT_PiS5_S5_S5_"

/* The driver's answers: a string of sizes behind each handle. */
static int param_info(void *f, size_t i, size_t *offset, size_t *bytes)
{
	const char *sizes = f;

	if (i >= strlen(sizes))
		return 1;
	*offset = 8 * i;
	*bytes = (size_t)(sizes[i] - '0');
	return 0;
}

static const struct cuda_api cuda = { .func_param_info = param_info };

static char gating_sizes[] = "8884884441888";
static char align_sizes[] = "88888444488444";
static char gemm_sizes[] = "8888884444";
static const struct model_hint unknown;

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct functions));
	return *state == NULL;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* The arguments of a launch of topkGating with 24 rows, k 8, E 128. */
struct gating_args {
	uint64_t pointer[3], ids, rest;
	uint32_t rows, k, first, end;
	void *params[13];
};

static void gating_fill(struct gating_args *a)
{
	*a = (struct gating_args){ .pointer = { 1, 2, 3 },
				   .ids = 0x7f0000001000,
				   .rows = 24,
				   .k = 8,
				   .end = 128 };
	void *params[13] = { &a->pointer[0], &a->pointer[1], &a->pointer[2],
			     &a->rows,       &a->ids,        &a->rest,
			     &a->k,          &a->first,      &a->end,
			     &a->rest,       &a->rest,       &a->rest,
			     &a->rest };

	memcpy(a->params, params, sizeof(params));
}

/* An expert GEMM of so many pairs, whose blocks are named at `ids`. */
static struct launch gemm_of(struct functions *t, uint64_t pairs, uint64_t ids)
{
	struct function *f =
		functions_get(t, gemm_sizes, false, "fused_moe_kernel");
	struct launch l = { .args = 10, .function = (uint32_t)(f - t->slot) };

	functions_validate(t, &cuda);
	l.arg[4] = ids;
	l.arg[9] = pairs;
	return l;
}

/* A launch of topkGating in a layer of 24 x 8 pairs. */
static int read_gating(struct functions *t, const struct launch *l,
		       const struct model_hint *hint, struct moe_launch *m)
{
	struct launch both[2] = { *l, gemm_of(t, 24 * 8, 0x5000) };
	struct layer_rows_at at;
	int err = layer_read(t, both, 2, hint, &at);

	if (!err)
		*m = at.rows;
	return err;
}

static void arguments_read_before_validation_are_understood_after(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct moe_launch m;
	struct launch l;

	gating_fill(&a);
	launch_capture(&l, t, f, a.params, 7);
	assert_int_equal(layer_read(t, &l, 1, &unknown, NULL), -EAGAIN);
	assert_int_equal(functions_validate(t, &cuda), 1);
	assert_int_equal(read_gating(t, &l, &unknown, &m), 0);
	assert_int_equal(m.what, ROWS_IDS);
	assert_int_equal(m.data[0], 0x7f0000001000);
	assert_int_equal(m.rows, 24);
	assert_int_equal(m.k, 8);
	assert_int_equal(m.experts, 128);
	assert_int_equal(m.bytes, 4);
}

static void arguments_read_after_validation_are_the_same(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct moe_launch m;
	struct launch l;

	gating_fill(&a);
	functions_validate(t, &cuda);
	launch_capture(&l, t, f, a.params, 7);
	assert_int_equal(l.args, 9);
	assert_int_equal(read_gating(t, &l, &unknown, &m), 0);
	assert_int_equal(m.rows, 24);
	assert_int_equal(m.experts, 128);
}

static void sizes_that_fit_no_row_are_refused(void **state)
{
	static char other[] = "88848844";
	struct functions *t = *state;
	struct function *f = functions_get(t, other, false, GATING);
	struct gating_args a;
	struct moe_launch m = { .rows = 77 };
	struct launch l;

	gating_fill(&a);
	launch_capture(&l, t, f, a.params, 7);
	functions_validate(t, &cuda);
	assert_int_equal(f->state, FUNCTION_REFUSED);
	assert_int_equal(read_gating(t, &l, &unknown, &m), -EINVAL);
	assert_int_equal(m.rows, 77);
}

static void without_the_drivers_word_nothing_is_believed(void **state)
{
	const struct cuda_api old = { 0 };
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);

	functions_validate(t, &old);
	assert_int_equal(f->state, FUNCTION_REFUSED);
	assert_int_equal(t->refused, 1);
}

static int by_symbol(void **f, const void *stub)
{
	*f = gating_sizes;
	return stub != align_sizes;
}

static void host_stub_is_resolved_before_the_driver_is_asked(void **state)
{
	struct cuda_api runtime = cuda;
	struct functions *t = *state;
	struct function *f = functions_get(t, align_sizes, true, GATING);

	runtime.func_by_symbol = by_symbol;
	functions_validate(t, &runtime);
	assert_int_equal(f->state, FUNCTION_READY);
}

static void host_stub_without_a_runtime_is_refused(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, true, GATING);

	functions_validate(t, &cuda);
	assert_int_equal(f->state, FUNCTION_REFUSED);
}

static void pointers_into_nowhere_fault_nothing(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	long page = 4096;
	char *map = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Three pointers at the end of a page, then nothing. */
	void **params = (void **)(void *)(map + page) - 3;
	uint64_t value = 5;
	struct launch l;

	assert_int_equal(munmap(map + page, (size_t)page), 0);
	params[0] = params[1] = &value;
	params[2] = (void *)8;
	launch_capture(&l, t, f, params, 1);
	assert_int_equal(l.args, 2);
	assert_int_equal(l.arg[1], 5);
	launch_capture(&l, t, f, (void **)16, 1);
	assert_int_equal(l.args, 0);
	launch_capture(&l, t, f, NULL, 1);
	assert_int_equal(l.args, 0);
	munmap(map, (size_t)page);
}

static void alignment_kernel_tells_experts_and_k(void **state)
{
	static char router[] = "888844488";
	struct functions *t = *state;
	struct function *f =
		functions_get(t, router, false, "_router_triton_kernel");
	struct function *g = functions_get(t, align_sizes, false, ALIGN);
	struct launch l[2] = {
		{ .args = 7, .function = (uint32_t)(f - t->slot) },
		{ .args = 13, .function = (uint32_t)(g - t->slot) },
	};
	struct layer_rows_at at;

	functions_validate(t, &cuda);
	l[0].arg[3] = 0x100000;
	l[0].arg[4] = 12;
	l[1].arg[0] = 0x100000;
	l[1].arg[5] = 128;
	l[1].arg[9] = 96;
	l[1].arg[12] = 8;
	assert_int_equal(layer_read(t, l, 1, &unknown, &at), -EINVAL);
	assert_int_equal(layer_read(t, l, 2, &unknown, &at), 0);
	assert_int_equal(at.rows.k, 8);
	assert_int_equal(at.rows.experts, 128);
	assert_false(at.direct);
	l[1].arg[0] = 0x200000; /* of other ids: tells nothing */
	assert_int_equal(layer_read(t, l, 2, &unknown, &at), -EINVAL);
}

static void ids_of_a_kernel_that_is_refused_are_read_by_others(void **state)
{
	static char other[] = "88848844";
	struct functions *t = *state;
	struct function *f = functions_get(t, other, false, GATING);
	struct function *g = functions_get(t, align_sizes, false, ALIGN);
	struct launch l[3] = {
		{ .args = 8, .function = (uint32_t)(f - t->slot) },
		{ .args = 13, .function = (uint32_t)(g - t->slot) },
	};
	struct layer_rows_at at;

	functions_validate(t, &cuda);
	l[1].arg[0] = 0x100000;
	l[1].arg[5] = 128;
	l[1].arg[9] = 96;
	l[1].arg[12] = 8;
	l[2] = gemm_of(t, 96, 0);
	assert_int_equal(layer_read(t, l, 3, &unknown, &at), 0);
	assert_int_equal(at.rows.data[0], 0x100000);
	assert_int_equal(at.rows.rows, 12);
	assert_int_equal(at.settle, 1);
}

static void rows_that_no_second_kernel_tells_are_refused(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct layer_rows_at at;
	struct launch l[2];

	functions_validate(t, &cuda);
	gating_fill(&a);
	launch_capture(&l[0], t, f, a.params, 7);
	assert_int_equal(layer_read(t, l, 1, &unknown, &at), -EINVAL);
	l[1] = gemm_of(t, 24 * 8, 0);
	assert_int_equal(layer_read(t, l, 2, &unknown, &at), 0);
	l[1] = gemm_of(t, 25 * 8, 0);
	assert_int_equal(layer_read(t, l, 2, &unknown, &at), -EINVAL);
}

static void ids_that_name_blocks_are_direct(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct layer_rows_at at;
	struct launch l[2];

	functions_validate(t, &cuda);
	gating_fill(&a);
	launch_capture(&l[0], t, f, a.params, 7);
	l[1] = gemm_of(t, 24 * 8, a.ids);
	assert_int_equal(layer_read(t, l, 2, &unknown, &at), 0);
	assert_true(at.direct);
}

static void numbers_that_the_model_has_not_are_refused(void **state)
{
	static const struct {
		struct model_hint hint;
		int err;
		uint32_t experts, wide;
	} cases[] = {
		{ { 128, 8 }, 0, 128, 128 },
		{ { 64, 8 }, 0, 64, 128 }, /* experts without weights */
		{ { 63, 8 }, -EINVAL, 0, 0 },
		{ { 256, 8 }, -EINVAL, 0, 0 },
		{ { 128, 9 }, -EINVAL, 0, 0 },
		{ { 127, 7 }, 0, 127, 128 }, /* a shared expert */
	};
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct moe_launch m;
	struct launch l;

	functions_validate(t, &cuda);
	gating_fill(&a);
	launch_capture(&l, t, f, a.params, 7);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_gating(t, &l, &cases[i].hint, &m),
				 cases[i].err);
		if (cases[i].err)
			continue;
		assert_int_equal(m.experts, cases[i].experts);
		assert_int_equal(m.wide, cases[i].wide);
	}
	assert_int_equal(m.fused, 1);
}

static void replicas_are_told_apart_from_experts(void **state)
{
	static char eplb[] = "888888444488";
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct function *g = functions_get(t, eplb, false,
					   "_eplb_map_and_record_i32_kernel");
	struct gating_args a;
	struct layer_rows_at at;
	struct launch l[3];

	functions_validate(t, &cuda);
	gating_fill(&a);
	launch_capture(&l[0], t, f, a.params, 7);
	l[1] = (struct launch){ .args = 10,
				.function = (uint32_t)(g - t->slot) };
	l[1].arg[0] = a.ids;
	l[1].arg[3] = 0x7f0000009000;
	l[1].arg[6] = 128;
	l[1].arg[8] = 160;
	l[1].arg[9] = 24 * 8;
	l[2] = gemm_of(t, 24 * 8, 0x7f0000009000);
	assert_int_equal(layer_read(t, l, 3, &unknown, &at), 0);
	assert_int_equal(at.rows.data[0], a.ids);
	assert_int_equal(at.rows.experts, 128);
	assert_int_equal(at.placed.data[0], 0x7f0000009000);
	assert_int_equal(at.placed.experts, 160);
	assert_true(at.direct);
}

static void layers_begin_where_one_opens_or_experts_end(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct function *g = functions_get(t, align_sizes, false, ALIGN);
	struct launch top = { .function = (uint32_t)(f - t->slot) };
	struct launch align = { .function = (uint32_t)(g - t->slot) };
	struct launch gemm = gemm_of(t, 8, 0);
	const struct launch opened[] = { top, align, gemm, gemm, top };
	const struct launch closed[] = { align, gemm, gemm, align, gemm };
	const struct launch alike[] = { align, align, align };

	assert_int_equal(layer_length(t, opened, 5), 4);
	assert_int_equal(layer_length(t, closed, 5), 3);
	assert_int_equal(layer_length(t, alike, 3), 1);
	assert_int_equal(layer_length(t, opened, 2), 2);
	assert_int_equal(layer_length(t, opened, 0), 0);
}

static void impossible_values_are_refused(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);
	struct gating_args a;
	struct moe_launch m;
	struct launch l;

	functions_validate(t, &cuda);
	gating_fill(&a);
	a.ids = 0;
	launch_capture(&l, t, f, a.params, 1);
	assert_int_equal(read_gating(t, &l, &unknown, &m), -EINVAL);
	gating_fill(&a);
	a.rows = 0x80000000;
	launch_capture(&l, t, f, a.params, 1);
	assert_int_equal(read_gating(t, &l, &unknown, &m), -EINVAL);
	gating_fill(&a);
	a.end = EXPERTS_MAX + 1;
	launch_capture(&l, t, f, a.params, 1);
	assert_int_equal(read_gating(t, &l, &unknown, &m), -EINVAL);
	gating_fill(&a);
	a.ids = 0x7f0000001002; /* no place of an int */
	launch_capture(&l, t, f, a.params, 1);
	assert_int_equal(read_gating(t, &l, &unknown, &m), -EINVAL);
}

static void other_kernels_cost_one_entry_and_no_arguments(void **state)
{
	struct functions *t = *state;
	struct function *f =
		functions_get(t, gating_sizes, false, "rms_norm_kernel");

	assert_int_equal(f->state, FUNCTION_PLAIN);
	assert_ptr_equal(
		functions_get(t, gating_sizes, false, "rms_norm_kernel"), f);
	assert_int_equal(t->count, 1);
	assert_null(functions_get(t, align_sizes, false, NULL));
}

static void handle_that_came_again_is_told_by_its_name(void **state)
{
	struct functions *t = *state;
	struct function *f = functions_get(t, gating_sizes, false, GATING);

	assert_true(function_is_named(f, GATING));
	assert_false(function_is_named(f, "rms_norm_kernel"));
	assert_false(function_is_named(f, ALIGN));
	assert_false(function_is_named(f, NULL));
	functions_validate(t, &cuda);
	assert_true(function_is_named(f, GATING));
	assert_false(function_is_named(f, ALIGN));
}

static void full_table_is_counted(void **state)
{
	struct functions *t = *state;

	for (uintptr_t i = 1; i <= FUNCTIONS_MAX + 100; i++)
		functions_get(t, (void *)(i * 64), false, "kernel");
	assert_true(t->overflow >= 100);
	assert_true(t->count <= FUNCTIONS_MAX);
}

static void index_type_comes_from_the_template_arguments(void **state)
{
	(void)state;
	assert_int_equal(adapter_id_bytes(GATING, "topkGating"), 4);
	assert_int_equal(
		adapter_id_bytes("_ZN4vllm3moe7moeTopKILi256ElEEv", "moeTopK"),
		8);
	assert_int_equal(
		adapter_id_bytes("_ZN4vllm3moe25grouped_topk_fused_kernelI13__"
				 "nv_bfloat16flEEvv",
				 "grouped_topk_fused_kernel"),
		8);
	assert_int_equal(adapter_id_bytes("topkGating", "topkGating"), 4);
	assert_int_equal(adapter_id_bytes("topkGatingI99999x", "topkGating"),
			 4);
	assert_int_equal(adapter_id_bytes("topkGatingIL", "topkGating"), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(arguments_read_before_validation_are_understood_after),
		T(arguments_read_after_validation_are_the_same),
		T(sizes_that_fit_no_row_are_refused),
		T(without_the_drivers_word_nothing_is_believed),
		T(host_stub_is_resolved_before_the_driver_is_asked),
		T(host_stub_without_a_runtime_is_refused),
		T(pointers_into_nowhere_fault_nothing),
		T(alignment_kernel_tells_experts_and_k),
		T(ids_of_a_kernel_that_is_refused_are_read_by_others),
		T(rows_that_no_second_kernel_tells_are_refused),
		T(ids_that_name_blocks_are_direct),
		T(numbers_that_the_model_has_not_are_refused),
		T(replicas_are_told_apart_from_experts),
		T(layers_begin_where_one_opens_or_experts_end),
		T(impossible_values_are_refused),
		T(other_kernels_cost_one_entry_and_no_arguments),
		T(handle_that_came_again_is_told_by_its_name),
		T(full_table_is_counted),
		cmocka_unit_test(index_type_comes_from_the_template_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
