/* Histograms that only grow, whatever their sources do. */
#include "model/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct hist_total total;
static struct sample_hist h;

static int setup(void **state)
{
	(void)state;
	total = (struct hist_total){ 0 };
	h = (struct sample_hist){ .n = 3, .upper = { 1, 2, 4 } };
	return 0;
}

static void fill(uint64_t a, uint64_t b, uint64_t c, double sum)
{
	h.buckets[0] = a;
	h.buckets[1] = b;
	h.buckets[2] = c;
	h.count = a + b + c;
	h.sum = sum;
}

static void nothing_is_known_before_the_first(void **state)
{
	(void)state;
	h.n = 0;
	hist_total_add(&total, &h);
	hist_total_follow(&total, &h);
	assert_false(total.all.known);
}

static void an_empty_one_is_known_and_zero(void **state)
{
	(void)state;
	hist_total_follow(&total, &h);
	assert_true(total.all.known);
	assert_int_equal(total.all.n, 3);
	assert_int_equal(total.all.count, 0);
	assert_true(total.all.upper[2] == 4);
}

static void windows_add_up(void **state)
{
	(void)state;
	fill(1, 2, 3, 10);
	hist_total_add(&total, &h);
	fill(4, 0, 1, 5.5);
	hist_total_add(&total, &h);
	assert_int_equal(total.all.buckets[0], 5);
	assert_int_equal(total.all.buckets[1], 2);
	assert_int_equal(total.all.buckets[2], 4);
	assert_int_equal(total.all.count, 11);
	assert_true(total.all.sum == 15.5);
}

static void a_source_is_followed(void **state)
{
	(void)state;
	fill(1, 2, 3, 10);
	hist_total_follow(&total, &h);
	hist_total_follow(&total, &h);
	fill(1, 2, 5, 17);
	hist_total_follow(&total, &h);
	assert_int_equal(total.all.count, 8);
	assert_int_equal(total.all.buckets[2], 5);
	assert_true(total.all.sum == 17);
}

static void a_source_that_begins_anew_takes_nothing_away(void **state)
{
	(void)state;
	fill(1, 2, 3, 10);
	hist_total_follow(&total, &h);
	fill(0, 4, 0, 7);
	hist_total_follow(&total, &h);
	assert_int_equal(total.all.buckets[0], 1);
	assert_int_equal(total.all.buckets[1], 6);
	assert_int_equal(total.all.buckets[2], 3);
	assert_int_equal(total.all.count, 10);
	assert_true(total.all.sum == 17);
	fill(0, 5, 0, 9);
	hist_total_follow(&total, &h);
	assert_int_equal(total.all.count, 11);
	assert_true(total.all.sum == 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_known_before_the_first,
				       setup),
		cmocka_unit_test_setup(an_empty_one_is_known_and_zero, setup),
		cmocka_unit_test_setup(windows_add_up, setup),
		cmocka_unit_test_setup(a_source_is_followed, setup),
		cmocka_unit_test_setup(
			a_source_that_begins_anew_takes_nothing_away, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
