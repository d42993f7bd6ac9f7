#include "agent/plan.h"

#include "tests/unit/agent/check.h"

#define MS 1000000ull
#define PERIOD (20000 * MS)

/* A server and a plan; time passes in turns of 20 ms. */
struct world {
	struct plan plan;
	struct plan_totals totals;
	uint64_t now_ns;
	uint32_t wish;
	bool collector;
	double steps_per_turn;
	uint32_t batch;
	double part;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*state = w;
	if (!w)
		return 1;
	plan_init(&w->plan, PERIOD);
	w->now_ns = 5000 * MS;
	w->collector = true;
	w->steps_per_turn = 2;
	w->batch = 16;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static bool turn(struct world *w)
{
	uint64_t steps;

	w->now_ns += 20 * MS;
	w->part += w->steps_per_turn;
	steps = (uint64_t)w->part;
	w->part -= (double)steps;
	w->totals.steps += steps;
	w->totals.launches += steps;
	w->totals.padded += steps * w->batch;
	return plan_due(&w->plan, w->now_ns, w->collector, w->wish, &w->totals);
}

/* Milliseconds until a window is due, at most limit. */
static uint64_t wait_ms(struct world *w, uint64_t limit)
{
	uint64_t start = w->now_ns;

	while (w->now_ns - start < limit * MS)
		if (turn(w))
			return (w->now_ns - start) / MS;
	return limit;
}

/* A window of half a second. */
static void run_window(struct world *w, double slowdown)
{
	uint64_t start = w->now_ns;
	struct plan_totals before = w->totals;

	plan_opened(&w->plan, start);
	for (int i = 0; i < 25; i++)
		turn(w);
	plan_closed(&w->plan, start, w->now_ns, slowdown, 0.01, &before,
		    &w->totals);
}

static void first_window_opens_when_a_collector_comes(void **state)
{
	struct world *w = *state;

	w->collector = false;
	assert_int_equal(wait_ms(w, 5000), 5000);
	w->collector = true;
	assert_int_equal(wait_ms(w, 5000), 20);
}

static void steady_work_is_looked_at_once_a_period(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	assert_in_range(wait_ms(w, 30000), 19400, 19600);
}

static void idle_server_is_left_alone(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	w->steps_per_turn = 0;
	assert_int_equal(wait_ms(w, 60000), 60000);
}

static void steps_that_begin_are_looked_at(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	w->steps_per_turn = 0;
	wait_ms(w, 3000);
	w->steps_per_turn = 2;
	assert_int_equal(wait_ms(w, 5000), 20);
}

static void changed_batch_is_looked_at(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	wait_ms(w, 3000);
	w->batch = 19; /* less than a quarter more */
	assert_int_equal(wait_ms(w, 3000), 3000);
	w->batch = 24;
	assert_in_range(wait_ms(w, 3000), 280, 500);
}

static void changed_step_rate_is_looked_at(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	wait_ms(w, 3000);
	w->steps_per_turn = 3;
	assert_in_range(wait_ms(w, 3000), 280, 500);
}

static void short_change_is_not_looked_at(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	wait_ms(w, 3000);
	w->batch = 64;
	assert_int_equal(wait_ms(w, 180), 180);
	w->batch = 16;
	assert_int_equal(wait_ms(w, 3000), 3000);
}

static void wish_is_served_but_not_at_once_after_a_window(void **state)
{
	struct world *w = *state;
	uint64_t start;

	turn(w);
	start = w->now_ns;
	run_window(w, 0);
	w->wish++;
	wait_ms(w, 5000);
	assert_in_range((w->now_ns - start) / MS, 1500, 1540);
	run_window(w, 0);
	assert_int_equal(wait_ms(w, 5000), 5000);
}

static void slow_windows_are_spread_to_keep_the_budget(void **state)
{
	struct world *w = *state;
	uint64_t start;

	turn(w);
	start = w->now_ns;
	run_window(w, 0.20); /* 0.5 s x 20 % / 1 % = 10 s */
	w->wish++;
	wait_ms(w, 30000);
	assert_in_range((w->now_ns - start) / MS, 9990, 10040);
	start = w->now_ns;
	run_window(w, 1.0); /* 50 s, more than the period */
	wait_ms(w, 90000);
	assert_in_range((w->now_ns - start) / MS, 49990, 50040);
}

static void unknown_cost_keeps_windows_a_period_apart(void **state)
{
	struct world *w = *state;
	uint64_t start;

	turn(w);
	for (int i = 0; i < 3; i++) { /* enough to learn from */
		start = w->now_ns;
		run_window(w, -1);
		w->wish++;
		wait_ms(w, 30000);
		assert_in_range((w->now_ns - start) / MS, 1500, 1540);
	}
	for (int i = 0; i < 3; i++) {
		start = w->now_ns;
		run_window(w, -1);
		w->wish++;
		wait_ms(w, 30000);
		assert_in_range((w->now_ns - start) / MS, 19990, 20040);
	}
	start = w->now_ns;
	run_window(w, 0);
	w->wish++;
	wait_ms(w, 30000);
	assert_in_range((w->now_ns - start) / MS, 1500, 1540);
}

static void no_budget_is_no_licence(void **state)
{
	struct world *w = *state;
	struct plan_totals t = w->totals;

	turn(w);
	plan_opened(&w->plan, w->now_ns);
	plan_closed(&w->plan, w->now_ns, w->now_ns + 500 * MS, 0.01, 0, &t,
		    &w->totals);
	w->wish++;
	assert_int_equal(wait_ms(w, 60000), 60000);
}

static void no_window_without_a_collector(void **state)
{
	struct world *w = *state;

	turn(w);
	run_window(w, 0);
	w->collector = false;
	w->batch = 500;
	w->wish++;
	assert_int_equal(wait_ms(w, 60000), 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(first_window_opens_when_a_collector_comes),
		T(steady_work_is_looked_at_once_a_period),
		T(idle_server_is_left_alone),
		T(steps_that_begin_are_looked_at),
		T(changed_batch_is_looked_at),
		T(changed_step_rate_is_looked_at),
		T(short_change_is_not_looked_at),
		T(wish_is_served_but_not_at_once_after_a_window),
		T(slow_windows_are_spread_to_keep_the_budget),
		T(unknown_cost_keeps_windows_a_period_apart),
		T(no_budget_is_no_licence),
		T(no_window_without_a_collector),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
