#include "model/nnls.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define N 12u

static uint64_t seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0;
}

/* Rows of three to five unknowns; what they sum to at these rates. */
static void add_rows(struct nnls *s, const double *rate, double noise,
		     unsigned rows)
{
	for (unsigned t = 0; t < rows; t++) {
		unsigned n = 3 + (unsigned)(3 * uniform());
		unsigned first = (unsigned)(N * uniform());
		struct nnls_term terms[N];
		double b = 0;

		for (unsigned i = 0; i < n; i++) {
			terms[i].unknown = (first + i) % N;
			terms[i].a = uniform();
			b += terms[i].a * rate[terms[i].unknown];
		}
		nnls_add(s, terms, n, b + noise * (uniform() - 0.5), 1);
	}
}

static void test_rates_come_back(void **state)
{
	double rate[N], scratch[N * (N + 2)];
	struct nnls *s = nnls_new(N), *jumped = nnls_new(N);

	(void)state;
	seed = 7;
	for (unsigned u = 0; u < N; u++)
		rate[u] = u % 4 ? 1 + u : 0;
	add_rows(s, rate, 0, 500);
	seed = 7;
	add_rows(jumped, rate, 0, 500);
	nnls_solve(s, 2000, 1e-12);
	assert_int_equal(nnls_jump(jumped, 4, scratch), 0);
	for (unsigned u = 0; u < N; u++) {
		assert_true(fabs(nnls_x(s)[u] - rate[u]) < 1e-6);
		assert_true(fabs(nnls_x(jumped)[u] - rate[u]) < 1e-6);
	}
	assert_true(nnls_residual_ratio(s) < 1e-12);
	nnls_free(s);
	nnls_free(jumped);
}

/* At the minimum the slope is 0 where x > 0, and not downhill where x = 0. */
static void test_it_is_the_minimum_with_bounds(void **state)
{
	/* one row: x0 - x1 = -4 ridge-free, so x0 = 0 and x1 = 4 */
	const struct nnls_term row[] = { { 0, 1 }, { 1, -1 } };
	struct nnls *s = nnls_new(2);

	(void)state;
	nnls_add(s, row, 2, -4, 1);
	nnls_pull(s, 0, 1, -1);
	nnls_solve(s, 100, 1e-12);
	assert_true(nnls_x(s)[0] == 0);
	assert_true(fabs(nnls_x(s)[1] - 4) < 1e-9);
	nnls_free(s);
}

static void test_a_jump_never_makes_it_worse(void **state)
{
	double scratch[N * (N + 2)];

	(void)state;
	for (unsigned k = 1; k < 40; k++) {
		struct nnls *s = nnls_new(N);
		double rate[N], before;

		seed = k * 1000003;
		for (unsigned u = 0; u < N; u++)
			rate[u] = uniform() - 0.5;
		add_rows(s, rate, 1, 40);
		nnls_solve(s, 30, 0);
		before = nnls_residual_ratio(s);
		assert_int_equal(nnls_jump(s, 3, scratch), 0);
		assert_true(nnls_residual_ratio(s) <= before + 1e-12);
		nnls_free(s);
	}
}

static void test_a_pull_decides_where_rows_do_not(void **state)
{
	const struct nnls_term row[] = { { 0, 1 }, { 1, 1 } };
	struct nnls *s = nnls_new(3);
	double scratch[3 * 5];

	(void)state;
	nnls_add(s, row, 2, 10, 1);
	nnls_pull(s, 0, 1e-6, 7);
	nnls_pull(s, 1, 1e-6, 3);
	nnls_solve(s, 10, 1e-12);
	assert_int_equal(nnls_jump(s, 1, scratch), -EDOM);
	assert_true(nnls_x(s)[2] == 0);
	nnls_pull(s, 2, 1, 0);
	assert_int_equal(nnls_jump(s, 1, scratch), 0);
	assert_true(fabs(nnls_x(s)[0] - 7) < 1e-3);
	assert_true(fabs(nnls_x(s)[1] - 3) < 1e-3);
	assert_true(nnls_x(s)[2] == 0);
	nnls_free(s);
}

/* Old rows said 2, new ones 5; after fading only the new ones count. */
static void test_what_fades_is_forgotten(void **state)
{
	const struct nnls_term row[] = { { 0, 1 } };
	struct nnls *s = nnls_new(1);

	(void)state;
	for (unsigned t = 0; t < 100; t++)
		nnls_add(s, row, 1, 2, 1);
	nnls_fade(s, 1e-6);
	for (unsigned t = 0; t < 100; t++)
		nnls_add(s, row, 1, 5, 1);
	nnls_solve(s, 10, 0);
	assert_true(fabs(nnls_x(s)[0] - 5) < 1e-4);
	assert_true(fabs(nnls_weight(s) - 100) < 0.01);
	nnls_clear(s);
	nnls_solve(s, 10, 0);
	assert_true(nnls_x(s)[0] == 0);
	assert_true(isnan(nnls_residual_ratio(s)));
	nnls_free(s);
}

/* Its own error: over many draws, the spread of x is what it says. */
static void test_variance_is_the_spread_over_draws(void **state)
{
	double rate[N], scratch[N * (N + 2)], variance[N], condition = 0;
	double sum = 0, said = 0;
	unsigned draws = 200;

	(void)state;
	for (unsigned u = 0; u < N; u++)
		rate[u] = 50;
	seed = 99;
	for (unsigned k = 0; k < draws; k++) {
		struct nnls *s = nnls_new(N);

		add_rows(s, rate, 1, 100);
		nnls_solve(s, 3000, 1e-12);
		assert_int_equal(nnls_variance(s, 1 / 12.0, scratch, variance,
					       &condition),
				 0);
		for (unsigned u = 0; u < N; u++) {
			double d = nnls_x(s)[u] - rate[u];

			sum += d * d;
			said += variance[u];
		}
		nnls_free(s);
	}
	assert_true(fabs(sum / said - 1) < 0.15);
	assert_true(condition > 1 && condition < 1e6);
}

static void test_bad_rows_are_left_out(void **state)
{
	const struct nnls_term good = { 0, 1 }, nan = { 0, NAN },
			       far = { 4000000000u, 1 };
	struct nnls *s = nnls_new(1);
	double scratch[3], variance[1] = { 42 }, condition = 43;

	(void)state;
	assert_int_equal(nnls_variance(s, 1, scratch, variance, &condition),
			 -EDOM);
	assert_true(variance[0] == 42 && condition == 43);
	nnls_add(s, &nan, 1, 1, 1);
	nnls_add(s, &good, 1, INFINITY, 1);
	nnls_add(s, &good, 1, 1, 0);
	nnls_add(s, &good, 1, 1, NAN);
	nnls_add(s, &far, 1, 0, 1);
	nnls_pull(s, 7, 1, 1);
	nnls_pull(s, 0, -1, 1);
	nnls_pull(s, 0, NAN, 1);
	nnls_fade(s, NAN);
	nnls_fade(s, -1);
	nnls_fade(s, 2);
	nnls_add(s, &good, 1, 6, 1);
	nnls_solve(s, 10, 0);
	assert_true(fabs(nnls_x(s)[0] - 6) < 1e-12);
	assert_null(nnls_new(0));
	assert_null(nnls_new(NNLS_UNKNOWNS_MAX + 1));
	nnls_free(s);
	nnls_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates_come_back),
		cmocka_unit_test(test_it_is_the_minimum_with_bounds),
		cmocka_unit_test(test_a_jump_never_makes_it_worse),
		cmocka_unit_test(test_a_pull_decides_where_rows_do_not),
		cmocka_unit_test(test_what_fades_is_forgotten),
		cmocka_unit_test(test_variance_is_the_spread_over_draws),
		cmocka_unit_test(test_bad_rows_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
