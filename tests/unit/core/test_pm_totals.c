/* What PM sampling of one GPU says of all of them. */
#include "core/pm_totals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

static const struct pm_totals counted = {
	.read_bytes = 3e9,
	.write_bytes = 1e9,
	.tensor_ns = 0.25e9,
	.ns = 1e9,
	.split = true,
};

static void the_only_gpu_is_measured(void **state)
{
	/* also over what GPM said of it: this tells reads from writes */
	struct sample s = {
		.gpus = 1, .have_dram = true, .dram_read = 9, .dram_write = NAN
	};

	(void)state;
	pm_totals_give(&counted, &s);
	assert_true(s.have_dram && !s.dram_of_one);
	assert_true(s.dram_read == 3e9 && s.dram_write == 1e9);
	assert_true(s.tensor_active == 0.25);
}

static void one_of_several_is_said_to_be(void **state)
{
	struct sample s = { .gpus = 8 };
	struct pm_totals sum = counted;

	(void)state;
	sum.split = false;
	sum.tensor_ns = NAN;
	s.tensor_active = NAN;
	pm_totals_give(&sum, &s);
	assert_true(s.have_dram && s.dram_of_one);
	assert_true(s.dram_read == 24e9 && isnan(s.dram_write));
	assert_true(isnan(s.tensor_active));
}

static void a_sum_over_all_of_them_stays(void **state)
{
	struct sample s = { .gpus = 8,
			    .have_dram = true,
			    .dram_read = 20e9,
			    .dram_write = NAN,
			    .tensor_active = 0.5 };

	(void)state;
	pm_totals_give(&counted, &s);
	assert_true(s.have_dram && !s.dram_of_one);
	assert_true(s.dram_read == 20e9 && isnan(s.dram_write));
	assert_true(s.tensor_active == 0.5);
}

static void nothing_sampled_says_nothing(void **state)
{
	struct sample s = { .gpus = 1 };

	(void)state;
	pm_totals_give(&(struct pm_totals){ 0 }, &s);
	assert_false(s.have_dram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_only_gpu_is_measured),
		cmocka_unit_test(one_of_several_is_said_to_be),
		cmocka_unit_test(a_sum_over_all_of_them_stays),
		cmocka_unit_test(nothing_sampled_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
