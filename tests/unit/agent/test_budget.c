#include "agent/budget.h"

#include <math.h>

#include "tests/unit/agent/check.h"

#define S 1000000000ull

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct budget));
	return *state == NULL;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* n steps of 10 ms, plus or minus spread, times factor. */
static void steps(struct budget *b, uint32_t graph, int n, double factor,
		  double spread, bool window)
{
	for (int i = 0; i < n; i++) {
		double ns = 1e7 * factor * (1 + (i % 2 ? spread : -spread));

		budget_step(b, graph, (uint64_t)ns, window);
	}
}

static void slowdown_is_the_ratio_of_sums(void **state)
{
	struct budget *b = *state;
	double ratio = -1;

	steps(b, 3, 100, 1.0, 0.01, false);
	steps(b, 3, 100, 1.3, 0.01, true);
	steps(b, 9, 100, 2.0, 0.01, false);
	steps(b, 9, 100, 2.0, 0.01, true);
	assert_true(budget_slowdown(b, &ratio));
	/* 100 x 3 ms more on top of 100 x 10 + 100 x 20 ms. */
	assert_true(fabs(ratio - 0.1) < 1e-3);
}

static void noise_is_no_slowdown(void **state)
{
	struct budget *b = *state;
	double ratio = -1;

	steps(b, 3, 20, 1.0, 0.3, false);
	steps(b, 3, 20, 1.05, 0.3, true);
	assert_true(budget_slowdown(b, &ratio));
	assert_true(ratio == 0);
}

static void faster_windows_are_no_gain(void **state)
{
	struct budget *b = *state;
	double ratio = -1;

	steps(b, 3, 100, 1.0, 0.01, false);
	steps(b, 3, 100, 0.5, 0.01, true);
	assert_true(budget_slowdown(b, &ratio));
	assert_true(ratio == 0);
}

static void few_steps_say_nothing(void **state)
{
	struct budget *b = *state;
	double ratio = 7;

	steps(b, 3, 100, 1.0, 0.01, false);
	steps(b, 3, 7, 1.3, 0.01, true);
	steps(b, 4, 100, 1.3, 0.01, true); /* never outside */
	assert_false(budget_slowdown(b, &ratio));
	assert_true(ratio == 7);
}

static void the_past_fades(void **state)
{
	struct budget *b = *state;
	double ratio;

	steps(b, 3, 64, 1.0, 0.01, false);
	steps(b, 3, 64, 1.5, 0.01, true);
	for (int i = 0; i < 3; i++)
		budget_age(b);
	assert_true(budget_slowdown(b, &ratio));
	assert_true(fabs(ratio - 0.5) < 1e-2);
	for (int i = 0; i < 4; i++)
		budget_age(b);
	assert_false(budget_slowdown(b, &ratio));
}

/* Steps of a quarter of a second: two in each window. */
static void slow_steps_are_known_after_a_few_windows(void **state)
{
	struct budget *b = *state;
	double ratio = -1;

	for (int i = 0; i < 4; i++) {
		assert_false(budget_slowdown(b, &ratio));
		steps(b, 3, 4, 1.0, 0.001, false);
		steps(b, 3, 2, 1.5, 0.001, true);
		if (i < 3)
			budget_age(b);
	}
	assert_true(budget_slowdown(b, &ratio));
	assert_true(fabs(ratio - 0.5) < 1e-2);
	/* And it stays known while such windows come. */
	for (int i = 0; i < 20; i++) {
		budget_age(b);
		assert_true(budget_slowdown(b, &ratio));
		steps(b, 3, 4, 1.0, 0.001, false);
		steps(b, 3, 2, 1.5, 0.001, true);
	}
}

static void overhead_adds_windows_callbacks_and_threads(void **state)
{
	struct budget *b = *state;
	struct budget_mark now = { .time_ns = 20 * S,
				   .window_ns = S,
				   .callback_ns = S / 100,
				   .cpu_ns = S / 10 };

	steps(b, 3, 100, 1.0, 0.001, false);
	steps(b, 3, 100, 1.1, 0.001, true);
	/* (0.1 x 1 s + 10 ms + 100 ms / 4) / 20 s */
	assert_in_range(budget_overhead_ppm(b, &now, 4), 6700, 6800);
}

static void unknown_slowdown_is_said_to_be_unknown(void **state)
{
	struct budget *b = *state;
	struct budget_mark now = { .time_ns = 20 * S, .callback_ns = S / 100 };

	assert_int_equal(budget_overhead_ppm(b, &now, 1), 500);
	now.window_ns = S;
	assert_int_equal(budget_overhead_ppm(b, &now, 1), BUDGET_UNKNOWN);
}

static void start_up_is_not_taken_for_the_rule(void **state)
{
	struct budget *b = *state;
	struct budget_mark now = { .time_ns = S, .callback_ns = S / 100 };

	/* One second after the start: as if 20 s had passed. */
	assert_int_equal(budget_overhead_ppm(b, &now, 1), 500);
}

static void only_a_cost_that_outlasts_two_windows_stops_them(void **state)
{
	struct budget *b = *state;

	assert_false(budget_stop(b, 40001, 10000, 0)); /* no window, no blame */
	assert_false(budget_stop(b, 40001, 10000, 1));
	assert_false(budget_stop(b, 90000, 10000, 2));
	assert_false(budget_stop(b, 40000, 10000, 2)); /* within: all over */
	assert_false(budget_stop(b, 40001, 10000, 5));
	assert_false(budget_stop(b, BUDGET_UNKNOWN, 10000, 6));
	assert_false(budget_stop(b, 40001, 10000, 7));
	assert_false(budget_stop(b, 40001, 10000, 8));
	assert_true(budget_stop(b, 40001, 10000, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(slowdown_is_the_ratio_of_sums),
		T(noise_is_no_slowdown),
		T(faster_windows_are_no_gain),
		T(few_steps_say_nothing),
		T(the_past_fades),
		T(slow_steps_are_known_after_a_few_windows),
		T(overhead_adds_windows_callbacks_and_threads),
		T(unknown_slowdown_is_said_to_be_unknown),
		T(start_up_is_not_taken_for_the_rule),
		T(only_a_cost_that_outlasts_two_windows_stops_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
