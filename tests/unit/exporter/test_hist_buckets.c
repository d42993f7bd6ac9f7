/* From the source's buckets to Prometheus' two shapes. */
#include "exporter/hist_buckets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/exporter/snapshots.h"
#include "wire/requests.h"

static struct snapshot_hist_total t;
static struct hist_buckets b;

static void as_the_kernel_counts(void)
{
	t = (struct snapshot_hist_total){ .known = true, .n = HIST_BUCKETS };
	for (unsigned i = 0; i < t.n; i++)
		t.upper[i] = (double)hist_bucket_low_ns(i + 1) / 1e9;
}

static uint64_t native_count(void)
{
	uint64_t n = b.zero_count;

	for (unsigned i = 0; i < b.n_native; i++)
		n += b.native[i].count;
	return n;
}

static void nothing_is_lost_or_split(void **state)
{
	(void)state;
	as_the_kernel_counts();
	for (unsigned i = 0; i < t.n; i++)
		t.buckets[i] = i + 1;
	hist_buckets_fill(&t, HISTOGRAM_TTFT, &b);
	assert_int_equal(b.count, t.n * (t.n + 1) / 2);
	assert_int_equal(native_count(), b.count);
	for (unsigned i = 1; i < b.n_bounds; i++)
		assert_true(b.cumulative[i] >= b.cumulative[i - 1]);
	assert_true(b.cumulative[b.n_bounds - 1] <= b.count);
	for (unsigned i = 1; i < b.n_native; i++)
		assert_true(b.native[i].index > b.native[i - 1].index);
}

/* Any value of a source bucket, read back from the middle of its native one, is
 * off by less than the bucket is wide. */
static void the_error_is_within_the_source_bucket(void **state)
{
	double worst = 0;

	(void)state;
	as_the_kernel_counts();
	for (unsigned i = 1; i + 1 < t.n; i++) {
		double low = t.upper[i - 1], high = t.upper[i], lower, upper;

		t.buckets[i] = 1;
		hist_buckets_fill(&t, HISTOGRAM_TTFT, &b);
		t.buckets[i] = 0;
		assert_int_equal(b.n_native, 1);
		upper = exp2(b.native[0].index / 32.);
		lower = exp2((b.native[0].index - 1) / 32.);
		assert_true(upper > low && lower < high);
		worst = fmax(worst,
			     fmax(upper - low, high - lower) / (high - low));
	}
	print_message("# at most %.2f source buckets apart\n", worst);
	assert_true(worst < 2);
}

static void whole_numbers_keep_their_place(void **state)
{
	(void)state;
	snapshot_total_rows(&t);
	hist_buckets_fill(&t, HISTOGRAM_ROWS_PER_EXPERT, &b);
	assert_int_equal(b.cumulative[0], 10);     /* le 1 */
	assert_int_equal(b.cumulative[1], 10 + 9); /* le 2 */
	assert_int_equal(b.n_native, 8);
	assert_int_equal(b.native[0].index, 0);  /* 1 */
	assert_int_equal(b.native[1].index, 32); /* 2 */
	assert_int_equal(b.native[3].index, 64); /* 4 */
	assert_int_equal(b.native[7].index, 96); /* 8 */
	assert_int_equal(b.native[7].count, 3);
	assert_int_equal(b.zero_count, 0);
}

static void the_smallest_are_zero(void **state)
{
	(void)state;
	as_the_kernel_counts();
	t.buckets[0] = 7;
	t.buckets[1] = 5;
	hist_buckets_fill(&t, HISTOGRAM_EVENT_GAP, &b);
	assert_int_equal(b.zero_count, 7);
	assert_int_equal(b.native[0].count, 5);
	assert_true(hist_zero_threshold() <= t.upper[0]);
	assert_true(exp2((b.native[0].index - 1) / 32.) >=
		    hist_zero_threshold() * (1 - 1e-12));
}

/* A count is at a bound as soon as its bucket's middle is. */
static void bounds_are_inclusive(void **state)
{
	(void)state;
	t = (struct snapshot_hist_total){ .known = true,
					  .exact = true,
					  .n = 2,
					  .upper = { 4, 5 },
					  .buckets = { 3, 2 } };
	hist_buckets_fill(&t, HISTOGRAM_ROWS_PER_EXPERT, &b);
	assert_int_equal(b.cumulative[3], 3); /* le 4 */
	assert_int_equal(b.cumulative[4], 5); /* le 6 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost_or_split),
		cmocka_unit_test(the_error_is_within_the_source_bucket),
		cmocka_unit_test(whole_numbers_keep_their_place),
		cmocka_unit_test(the_smallest_are_zero),
		cmocka_unit_test(bounds_are_inclusive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
