/* U, F1, the floor, skew and rarefaction against published vectors and laws. */
#include "model/rows.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/model/vectors.h"

static const json_t *vector(const char *name)
{
	const json_t *v = json_object_get(vectors, name);

	assert_non_null(v);
	return v;
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_number(v));
	return json_number_value(v);
}

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fmax(fabs(want), 1e-300))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

static unsigned histogram(const json_t *list, uint32_t *rows)
{
	unsigned n = (unsigned)json_array_size(list);

	assert_true(n > 0 && n <= 128);
	for (unsigned i = 0; i < n; i++)
		rows[i] = (uint32_t)json_integer_value(json_array_get(list, i));
	return n;
}

static void test_uniform_routing(void **state)
{
	static const char *const names[] = { "ex1_tiny_8_2_B4",
					     "ex3_128_8_B16_H100" };
	const json_t *v = vector("ex2_deepseek_v3_8xH200_B32");

	(void)state;
	near(valley_active(256, 8, 32), number(v, "U_expected"), REL);
	near(valley_single(256, 8, 32), number(v, "F1_expected"), REL);
	near(valley_floor(256, 8), number(v, "B_floor"), REL);
	near(valley_peak(256, 8), number(v, "V_peak_uniform"), REL);
	for (unsigned i = 0; i < 2; i++) {
		double e, k, b;

		v = vector(names[i]);
		e = number(v, "E"), k = number(v, "k"), b = number(v, "B");
		near(valley_active(e, k, b), number(v, "U_uniform_expected"),
		     REL);
		near(valley_single(e, k, b) / valley_active(e, k, b),
		     number(v, "s1_uniform_expected"), REL);
	}
}

static void test_floor_constants(void **state)
{
	const json_t *v = vector("constants");
	double x = VALLEY_FLOOR_X;

	(void)state;
	near(x, number(v, "x_floor"), REL);
	near(VALLEY_PEAK, number(v, "V_peak"), REL);
	near(x / expm1(x), 0.5, REL);
	near(-expm1(-x), number(v, "coverage_at_floor"), REL);
}

static void test_ratios_of_a_histogram(void **state)
{
	static const char *const names[] = { "ex1_tiny_8_2_B4",
					     "ex3_128_8_B16_H100" };
	uint32_t rows[128];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const json_t *v = vector(names[i]);
		unsigned n =
			histogram(json_object_get(v, "rows_per_expert"), rows);
		struct sample_rows s = { 0 };
		struct row_ratios q;

		rows_add_cell(&s, rows, n);
		near(s.rows, number(v, "R"), 0);
		near(s.active, number(v, "U"), 0);
		near(s.single, number(v, "F1"), 0);
		near(s.twice, number(v, "F2"), 0);
		near(s.max_rows, number(v, "r_max"), 0);
		rows_ratios(&s, SOURCE_MEASURED, &q);
		near(q.coverage.v, number(v, "coverage"), REL);
		near(q.fragmentation.v, number(v, "fragmentation"), REL);
		near(q.per_active.v, number(v, "rows_per_active"), REL);
		near(q.single.v, number(v, "single_row_share"), REL);
		near(q.valley.v, number(v, "valley_index"), REL);
		near(q.elasticity.v, number(v, "elasticity_expert"), REL);
		near(rows_entropy(rows, n), number(v, "entropy_normalised"),
		     REL);
		near(rows_effective_experts(rows, n),
		     fmin(number(v, "effective_experts_N2_unbiased"), n), REL);
	}
}

static void test_sums_of_two_layers(void **state)
{
	const json_t *v = vector("ex1_two_layers_sum_rule");
	const json_t *layers = json_object_get(v, "layers");
	struct sample_rows one = { 0 }, two = { 0 };
	struct row_ratios q;
	uint32_t rows[128];
	unsigned n;

	(void)state;
	n = histogram(json_array_get(layers, 0), rows);
	rows_add_cell(&one, rows, n);
	n = histogram(json_array_get(layers, 1), rows);
	rows_add_cell(&two, rows, n);
	rows_add(&one, &two);
	rows_ratios(&one, SOURCE_MEASURED, &q);
	near(q.fragmentation.v, number(v, "fragmentation"), REL);
	near(q.single.v, number(v, "single_row_share"), REL);
	near(q.valley.v, number(v, "valley_index"), REL);
	near(q.elasticity.v, number(v, "elasticity_expert"), REL);
}

static void test_rarefaction_and_skew(void **state)
{
	static const char *const names[] = { "ex1_tiny_8_2_B4",
					     "ex3_128_8_B16_H100" };
	uint32_t rows[128];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const json_t *v = vector(names[i]);
		unsigned n =
			histogram(json_object_get(v, "rows_per_expert"), rows);
		uint32_t b = (uint32_t)number(v, "B");
		double e = number(v, "E"), k = number(v, "k"), a;

		near(valley_rarefied(rows, n, b, b / 2),
		     number(v, "rarefied_U_half_B"), REL);
		near(valley_rarefied(rows, n, b, b - 1),
		     number(v, "rarefied_U_B_minus_1"), REL);
		a = valley_skew(e, k, b, number(v, "U"));
		near(a, number(v, "betabinom_a"), REL);
		/* The vector's own 1e5 loses digits in lgamma; here 1e5 is
		 * uniform routing, 4e-7 away. */
		near(valley_skewed_active(e, k, a, 4 * b),
		     number(v, "betabinom_U_4B"), i ? 1e-5 : REL);
	}
}

/* ---- laws on random histograms ---------------------------------------- */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

/* Each of b tokens takes k different experts of e, low numbers more often. */
static void route(uint32_t *rows, uint32_t e, uint32_t k, uint32_t b)
{
	memset(rows, 0, e * sizeof(*rows));
	for (uint32_t t = 0; t < b; t++) {
		bool taken[128] = { false };

		for (uint32_t i = 0; i < k;) {
			uint32_t x = random_below(1 + random_below(e));

			if (taken[x])
				continue;
			taken[x] = true;
			rows[x]++;
			i++;
		}
	}
}

static void test_one_token_less_costs_f1_over_b(void **state)
{
	uint32_t rows[128];

	(void)state;
	seed = 11;
	for (unsigned i = 0; i < 200; i++) {
		uint32_t e = 2 + random_below(127), k = 1 + random_below(e / 2);
		uint32_t b = 2 + random_below(300);
		struct sample_rows s = { 0 };

		route(rows, e, k, b);
		rows_add_cell(&s, rows, e);
		assert_true(fabs(s.active - valley_rarefied(rows, e, b, b - 1) -
				 s.single / b) < 1e-10);
		assert_true(valley_rarefied(rows, e, b, b) == s.active);
		assert_true(fabs(valley_rarefied(rows, e, b, 1) - k) < 1e-9);
	}
}

static void test_valley_peaks_where_half_are_single(void **state)
{
	static const double skews[] = { 0.3, 0.855, 3, VALLEY_SKEW_UNIFORM };
	const double e = 256, k = 8;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		double best = 0, top = 0, slope;

		for (double b = 2; b < 500; b += 0.25) {
			double u = valley_skewed_active(e, k, skews[i], b);

			if (u * u / b > best) {
				best = u * u / b;
				top = b;
			}
		}
		/* F1/B is the step from B - 1 to B: take the mean with the
		 * next one for the slope at B. */
		slope = (valley_skewed_single(e, k, skews[i], top) / top +
			 valley_skewed_single(e, k, skews[i], top + 1) /
				 (top + 1)) /
			2;
		near(top * slope / valley_skewed_active(e, k, skews[i], top),
		     0.5, 0.02);
	}
	near(valley_batch_at(e, k, VALLEY_SKEW_UNIFORM, 0.5),
	     valley_floor(e, k), 0.03);
}

static void test_order_of_sums_does_not_matter(void **state)
{
	struct sample_rows cells[16] = { 0 }, up = { 0 }, down = { 0 };
	uint32_t rows[128];

	(void)state;
	seed = 5;
	for (unsigned i = 0; i < 16; i++) {
		route(rows, 64, 4, 1 + random_below(40));
		rows_add_cell(&cells[i], rows, 64);
	}
	for (unsigned i = 0; i < 16; i++) {
		rows_add(&up, &cells[i]);
		rows_add(&down, &cells[15 - i]);
	}
	assert_memory_equal(&up, &down, sizeof(up));
}

static void test_skew_round_trip(void **state)
{
	(void)state;
	for (double a = 0.05; a < 1e4; a *= 3) {
		double u = valley_skewed_active(128, 8, a, 16);

		near(valley_skew(128, 8, 16, u), a, 1e-6);
		near(valley_skewed_active(128, 8, a, 1), 8, 1e-9);
	}
}

static void test_edges_are_numbers(void **state)
{
	static const double e[] = { 0, 1, 8, 128, NAN };
	static const double k[] = { 0, 1, 8, 9, NAN };
	static const double b[] = { -1, 0, 0.5, 1, 1e6, INFINITY, NAN };

	(void)state;
	for (unsigned i = 0; i < 5 * 5 * 7; i++) {
		double ee = e[i % 5], kk = k[i / 5 % 5], bb = b[i / 25];

		assert_true(isfinite(valley_active(ee, kk, bb)));
		assert_true(isfinite(valley_single(ee, kk, bb)));
		assert_true(isfinite(valley_floor(ee, kk)));
		assert_true(isfinite(valley_peak(ee, kk)));
		assert_true(isfinite(valley_skewed_active(ee, kk, 0.9, bb)));
		assert_true(isfinite(valley_skewed_single(ee, kk, 0.9, bb)));
		assert_true(isfinite(valley_skew(ee, kk, bb, 3)));
		assert_true(isfinite(valley_batch_at(ee, kk, 0.9, 0.1)));
	}
	assert_true(valley_active(8, 8, 5) == 8);
	assert_true(valley_single(8, 8, 5) == 0);
	near(valley_single(8, 2, 1), 2, REL);
	near(valley_active(128, 8, 1e6), 128, REL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uniform_routing),
		cmocka_unit_test(test_floor_constants),
		cmocka_unit_test(test_ratios_of_a_histogram),
		cmocka_unit_test(test_sums_of_two_layers),
		cmocka_unit_test(test_rarefaction_and_skew),
		cmocka_unit_test(test_one_token_less_costs_f1_over_b),
		cmocka_unit_test(test_valley_peaks_where_half_are_single),
		cmocka_unit_test(test_order_of_sums_does_not_matter),
		cmocka_unit_test(test_skew_round_trip),
		cmocka_unit_test(test_edges_are_numbers),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
