/* What is kept of the last minute: histograms and rows per expert. */
#include "core/expert_rows.h"
#include "core/window_hist.h"
#include "wire/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct window_hist hist;
static struct request_histogram now;

static int setup(void **state)
{
	(void)state;
	window_hist_init(&hist);
	memset(&now, 0, sizeof(now));
	return 0;
}

static void add(uint64_t ns)
{
	now.count++;
	now.sum_ns += ns;
	now.buckets[hist_bucket(ns)]++;
}

static void bounds_ascend_and_hold_their_values(void **state)
{
	(void)state;
	assert_int_equal(hist.out.n, HIST_BUCKETS);
	for (unsigned b = 1; b < hist.out.n; b++)
		assert_true(hist.out.upper[b] > hist.out.upper[b - 1]);
	for (uint64_t ns = 1; ns < 1000000000000ull; ns = ns * 3 + 1) {
		unsigned b = hist_bucket(ns);

		assert_true((double)ns / 1e9 <= hist.out.upper[b]);
		if (b > 0)
			assert_true((double)ns / 1e9 >= hist.out.upper[b - 1]);
	}
}

static void what_was_there_before_is_not_counted(void **state)
{
	(void)state;
	add(5000000);
	window_hist_update(&hist, &now, NS_PER_S);
	assert_int_equal(hist.out.count, 0);
	add(20000000);
	window_hist_update(&hist, &now, 2 * NS_PER_S);
	assert_int_equal(hist.out.count, 1);
	assert_true(hist.out.sum == 0.02);
	assert_int_equal(hist.out.buckets[hist_bucket(20000000)], 1);
}

static void after_a_minute_it_is_forgotten(void **state)
{
	(void)state;
	window_hist_update(&hist, &now, NS_PER_S);
	add(20000000);
	for (uint64_t t = 2; t < 58; t++)
		window_hist_update(&hist, &now, t * NS_PER_S);
	assert_int_equal(hist.out.count, 1);
	for (uint64_t t = 58; t < 75; t++)
		window_hist_update(&hist, &now, t * NS_PER_S);
	assert_int_equal(hist.out.count, 0);
	assert_true(hist.out.sum == 0);
}

static void a_tracker_that_began_anew_is_no_underflow(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		add(1000000);
	window_hist_update(&hist, &now, NS_PER_S);
	memset(&now, 0, sizeof(now));
	add(1000000);
	window_hist_update(&hist, &now, 2 * NS_PER_S);
	assert_int_equal(hist.out.count, 1);
}

static struct rec_experts experts(uint16_t layer, uint16_t first, uint32_t each)
{
	struct rec_experts r = { .window = 1,
				 .layer = layer,
				 .first = first,
				 .count = EXPERTS_PER_RECORD };

	for (unsigned i = 0; i < EXPERTS_PER_RECORD; i++)
		r.rows[i] = each;
	return r;
}

static void rows_of_a_minute_add_up(void **state)
{
	struct expert_rows *e = expert_rows_new(2, 48);
	struct rec_experts r = experts(1, 24, 3);
	const uint32_t *total;

	(void)state;
	assert_null(expert_rows_total(e, NS_PER_S));
	assert_int_equal(expert_rows_add(e, &r, 1 * NS_PER_S), 0);
	assert_int_equal(expert_rows_add(e, &r, 31 * NS_PER_S), 0);
	total = expert_rows_total(e, 40 * NS_PER_S);
	assert_int_equal(total[48 + 24], 6);
	assert_int_equal(total[48 + 47], 6);
	assert_int_equal(total[48 + 23], 0);
	assert_int_equal(total[0], 0);
	total = expert_rows_total(e, 75 * NS_PER_S);
	assert_int_equal(total[48 + 24], 3);
	assert_null(expert_rows_total(e, 200 * NS_PER_S));
	expert_rows_free(e);
}

static void a_bucket_is_emptied_before_it_is_used_again(void **state)
{
	struct expert_rows *e = expert_rows_new(1, 24);
	struct rec_experts r = experts(0, 0, 1);

	(void)state;
	expert_rows_add(e, &r, 0);
	expert_rows_add(e, &r, 70 * NS_PER_S); /* the same bucket */
	assert_int_equal(expert_rows_total(e, 70 * NS_PER_S)[0], 1);
	expert_rows_free(e);
}

static void records_that_do_not_fit_the_shape_are_refused(void **state)
{
	struct expert_rows *e = expert_rows_new(2, 48);
	struct rec_experts r = experts(2, 0, 1);

	(void)state;
	assert_int_equal(expert_rows_add(e, &r, 0), -EBADMSG);
	r = experts(0, 25, 1);
	assert_int_equal(expert_rows_add(e, &r, 0), -EBADMSG);
	r = experts(0, 0, 1);
	r.count = EXPERTS_PER_RECORD + 1;
	assert_int_equal(expert_rows_add(e, &r, 0), -EBADMSG);
	assert_null(expert_rows_total(e, 0));
	expert_rows_free(e);
}

static void a_count_that_is_full_stays_full(void **state)
{
	struct expert_rows *e = expert_rows_new(1, 24);
	struct rec_experts r = experts(0, 0, UINT32_MAX);

	(void)state;
	expert_rows_add(e, &r, 0);
	expert_rows_add(e, &r, 0);
	expert_rows_add(e, &r, 15 * NS_PER_S);
	assert_true(expert_rows_total(e, 16 * NS_PER_S)[0] == UINT32_MAX);
	expert_rows_free(e);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(bounds_ascend_and_hold_their_values),
		TEST(what_was_there_before_is_not_counted),
		TEST(after_a_minute_it_is_forgotten),
		TEST(a_tracker_that_began_anew_is_no_underflow),
		TEST(rows_of_a_minute_add_up),
		TEST(a_bucket_is_emptied_before_it_is_used_again),
		TEST(records_that_do_not_fit_the_shape_are_refused),
		TEST(a_count_that_is_full_stays_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
