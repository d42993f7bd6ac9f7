#include "core/gpu_home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MB(n) ((n)*1000000ull)

/* Four ranks: each has its GPU, and 107 MB on the first one. */
static void small_contexts_on_the_first_gpu(void **state)
{
	struct gpu_processes gpus[4] = {
		{ 4,
		  { { 669096, MB(55124) },
		    { 669153, MB(107) },
		    { 669137, MB(107) },
		    { 669186, MB(107) } } },
		{ 1, { { 669153, MB(55000) } } },
		{ 1, { { 669137, MB(55000) } } },
		{ 1, { { 669186, MB(55000) } } },
	};

	(void)state;
	assert_int_equal(gpu_home_find(gpus, 4, 669096), 0);
	assert_int_equal(gpu_home_find(gpus, 4, 669153), 1);
	assert_int_equal(gpu_home_find(gpus, 4, 669137), 2);
	assert_int_equal(gpu_home_find(gpus, 4, 669186), 3);
	assert_int_equal(gpu_home_find(gpus, 4, 7), -1);
	assert_true(gpu_home_has(gpus, 4, 0, 669096));
	assert_false(gpu_home_has(gpus, 4, 0, 669153));
	assert_true(gpu_home_has(gpus, 4, 1, 669153));
	assert_false(gpu_home_has(gpus, 4, 1, 669137));
}

static void one_process_on_two_gpus(void **state)
{
	struct gpu_processes gpus[2] = { { 1, { { 10734, MB(160) } } },
					 { 1, { { 10734, MB(160) } } } };

	(void)state;
	assert_int_equal(gpu_home_find(gpus, 2, 10734), 0);
	assert_true(gpu_home_has(gpus, 2, 0, 10734));
	assert_true(gpu_home_has(gpus, 2, 1, 10734));
}

static void memory_that_is_not_told(void **state)
{
	struct gpu_processes gpus[2] = { { 1, { { 5, 0 } } },
					 { 1, { { 5, 0 } } } };

	(void)state;
	assert_int_equal(gpu_home_find(gpus, 2, 5), 0);
	assert_true(gpu_home_has(gpus, 2, 0, 5));
	assert_true(gpu_home_has(gpus, 2, 1, 5));
	assert_int_equal(gpu_home_find(gpus, 0, 5), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_contexts_on_the_first_gpu),
		cmocka_unit_test(one_process_on_two_gpus),
		cmocka_unit_test(memory_that_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
