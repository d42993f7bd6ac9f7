/* Overlap of concurrent requests; how rows spread over experts and ranks. */
#include "model/balance.h"
#include "model/overlap.h"
#include "model/rows.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/model/popularity.h"

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fmax(fabs(want), 1e-300))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

/* ---- overlap ------------------------------------------------------------- */

/* Three requests, 10 of 512 experts each: the figures behind "5 % overlap". */
static void test_three_requests_under_uniform_routing(void **state)
{
	struct overlap o;
	struct traffic t;

	(void)state;
	traffic_uniform(&t, 512, 10);
	overlap_expected(&t, 3, &o);
	near(o.rows_ratio, 1 - pow(1 - 10 / 512.0, 2), 1e-12);
	near(o.rows_ratio, 0.0387, 0.001);
	near(o.pair_ratio, 10 / 512.0, 1e-12);
	overlap_expected(&t, 1, &o);
	assert_true(isnan(o.rows_ratio) && isnan(o.pair_ratio));
}

/* Tokens {0,3} {0,2} {0,5} {3,6}: five of eight rows share their expert; of six
 * pairs, four have one of two experts in common. */
static void test_by_hand(void **state)
{
	static const uint32_t rows[] = { 3, 0, 1, 2, 0, 1, 1, 0 };
	struct sample_rows s = { 0 };
	struct overlap o;

	(void)state;
	rows_add_cell(&s, rows, 8);
	overlap_measured(&s, NULL, 2, &o);
	near(o.rows_ratio, 5 / 8.0, 1e-12);
	near(o.pair_ratio, 4 / 6.0 / 2, 1e-12);
}

static void test_all_or_nothing_in_common(void **state)
{
	uint32_t same[32] = { 0 }, apart[32];
	struct sample_rows s = { 0 };
	struct overlap o;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		same[i] = 8;
	rows_add_cell(&s, same, 32); /* eight tokens, the same four experts */
	overlap_measured(&s, NULL, 4, &o);
	near(o.rows_ratio, 1, 1e-12);
	near(o.pair_ratio, 1, 1e-12);
	memset(&s, 0, sizeof(s));
	for (unsigned i = 0; i < 32; i++)
		apart[i] = 1;
	rows_add_cell(&s, apart, 32);
	overlap_measured(&s, NULL, 4, &o);
	assert_true(o.rows_ratio == 0 && o.pair_ratio == 0);
	memset(&s, 0, sizeof(s));
	overlap_measured(&s, NULL, 4, &o);
	assert_true(isnan(o.rows_ratio) && isnan(o.pair_ratio));
}

/* Steps of 2 and of 14 tokens: pairs go with the square of B. */
static void test_steps_of_different_size(void **state)
{
	static const uint32_t two[] = { 2, 1, 1, 0 };
	static const uint32_t many[] = { 14, 7, 4, 3 };
	struct sample_clusters c = { .steps = 2,
				     .cell_rows_squared = 16 + 28 * 28 };
	struct sample_rows s = { 0 };
	struct overlap o;
	double pairs = 2 * 1 + 14 * 13 + 7 * 6 + 4 * 3 + 3 * 2;

	(void)state;
	rows_add_cell(&s, two, 4);
	rows_add_cell(&s, many, 4);
	overlap_measured(&s, &c, 2, &o);
	near(o.pair_ratio, pairs / (2 * (2 * 1 + 14 * 13)), 1e-12);
}

/* What is measured of independent tokens is what their popularity predicts. */
static void test_fitted_is_what_independent_tokens_show(void **state)
{
	static uint32_t total[POPULARITY_LAYERS][POPULARITY_EXPERTS];
	struct traffic_sample in = { .experts = 128,
				     .top_k = 8,
				     .rows = &total[0][0],
				     .layers = POPULARITY_LAYERS,
				     .stride = 128,
				     .batch = 16 };
	struct overlap seen, fitted, uniform;
	struct sample_rows s = { 0 };
	struct traffic t;

	(void)state;
	random_state = 21;
	for (unsigned i = 0; i < 40 * POPULARITY_LAYERS; i++) {
		unsigned l = i % POPULARITY_LAYERS;
		uint32_t rows[128];

		for (unsigned e = 0; e < 128; e++) {
			rows[e] = random_binomial(16, popularity[l][e]);
			total[l][e] += rows[e];
		}
		rows_add_cell(&s, rows, 128);
	}
	in.active = s.active / s.cells;
	in.sum_squares = s.sum_squares / s.cells;
	assert_true(traffic_learn(&t, &in));
	overlap_measured(&s, NULL, 8, &seen);
	overlap_expected(&t, 16, &fitted);
	traffic_uniform(&t, 128, 8);
	overlap_expected(&t, 16, &uniform);
	near(fitted.rows_ratio, seen.rows_ratio, 0.02);
	near(fitted.pair_ratio, seen.pair_ratio, 0.04);
	assert_true(seen.rows_ratio > uniform.rows_ratio * 1.1);
	assert_true(seen.pair_ratio > uniform.pair_ratio * 1.5);
}

/* ---- balance ---------------------------------------------------------- */

static void test_gini(void **state)
{
	static const uint32_t even[] = { 4, 4, 4, 4 }, one[] = { 0, 0, 9, 0 };

	(void)state;
	assert_true(balance_gini(even, 4) == 0);
	near(balance_gini(one, 4), 0.75, 1e-12);
	assert_true(balance_gini(one, 2) == 0); /* no rows */
	assert_true(balance_gini(one, 0) == 0);
}

static void test_tiles(void **state)
{
	static const uint32_t rows[] = { 1, 16, 17, 0 };
	static struct sample_hist h = { .n = 20, .exact = true };

	(void)state;
	near(balance_tile_padding(rows, 4, 16), 1 - 34 / 64.0, 1e-12);
	assert_true(isnan(balance_tile_padding(rows, 4, 0)));
	assert_true(isnan(balance_tile_padding(rows + 3, 1, 16)));
	for (unsigned i = 0; i < 20; i++)
		h.upper[i] = i;
	assert_true(isnan(balance_tile_padding_hist(&h, 16)));
	h.buckets[1] = h.buckets[16] = h.buckets[17] = 1;
	h.sum = 34;
	near(balance_tile_padding_hist(&h, 16), 1 - 34 / 64.0, 1e-12);
	/* published: at B = 1 a tile of 16 is 94 % empty */
	near(1 - 8 / (16 * balance_uniform_tiles(256, 8, 1, 16)), 0.9375, 1e-9);
}

/* Published: 4.2 for uniform routing at B = 16, 128/8; real 6.8. */
static void test_excess_imbalance(void **state)
{
	struct sample_rows s = { 0 };
	double chance = balance_uniform_max(128, 8, 16);

	(void)state;
	near(chance, 4.2, 0.05);
	assert_true(balance_uniform_max(8, 8, 5) == 5);
	assert_true(balance_uniform_max(0, 0, 5) == 0);
	random_state = 8;
	for (unsigned i = 0; i < 3000; i++) {
		uint32_t rows[128];

		for (unsigned e = 0; e < 128; e++)
			rows[e] = random_binomial(16, 8 / 128.0);
		rows_add_cell(&s, rows, 128);
	}
	near(balance_excess(&s, 8, 16), 1, 0.02);
	memset(&s, 0, sizeof(s));
	assert_true(isnan(balance_excess(&s, 8, 16)));
}

static void test_largest_of_normal_draws(void **state)
{
	(void)state;
	assert_true(balance_normal_max(1) == 0);
	near(balance_normal_max(2), 1 / sqrt(3.14159265358979), 1e-6);
	near(balance_normal_max(8), 1.42360, 1e-4);
	near(balance_normal_max(32), 2.06967, 1e-4);
}

/* Simulated: E = 128, k = 8, experts placed in order, 94 layers. */
static void test_expected_imbalance_of_ranks(void **state)
{
	static const struct {
		double b, ep, rows, active;
		bool real;
	} table[] = {
		{ 16, 8, 1.36, 1.26, false },    { 64, 8, 1.18, 1.02, false },
		{ 256, 8, 1.09, 1.00, false },   { 16, 32, 2.11, 1.56, false },
		{ 8192, 32, 1.04, 1.00, false }, { 16, 8, 1.57, 1.38, true },
		{ 64, 8, 1.48, 1.19, true },     { 256, 8, 1.45, 1.08, true },
		{ 16, 32, 2.86, 1.96, true },
	};
	struct traffic uniform, real;
	struct traffic_sample s = { .experts = 128, .top_k = 8, .batch = 16 };
	double single;

	(void)state;
	traffic_uniform(&uniform, 128, 8);
	popularity_expected(16, &s.active, &single);
	assert_true(traffic_learn(&real, &s));
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct traffic *t = table[i].real ? &real : &uniform;
		struct balance b;

		balance_expected(t, table[i].b, table[i].ep, &b);
		/* active experts: to 0.1; rows, which are skewed: to 20 % */
		assert_true(fabs(b.active - table[i].active) < 0.1);
		assert_true(fabs(b.rows / table[i].rows - 1) < 0.2);
		balance_expected(t, table[i].b, 1, &b);
		assert_true(b.active == 1 && b.rows == 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_requests_under_uniform_routing),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_all_or_nothing_in_common),
		cmocka_unit_test(test_steps_of_different_size),
		cmocka_unit_test(test_fitted_is_what_independent_tokens_show),
		cmocka_unit_test(test_gini),
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_excess_imbalance),
		cmocka_unit_test(test_largest_of_normal_draws),
		cmocka_unit_test(test_expected_imbalance_of_ranks),
	};

	return cmocka_run_group_tests(tests, popularity_load, NULL);
}
