/* The hottest, the idle and the effective experts of a matrix of rows. */
#include "model/experts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 3u
#define EXPERTS 12u

static struct snapshot *s;
static struct snapshot_experts *e;

/* Layer 0 even, layer 1 has one hot expert and an idle one, layer 2 nothing. */
static int setup(void **state)
{
	(void)state;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -1;
	e = &s->experts;
	e->n_layers = LAYERS;
	e->n_experts = EXPERTS;
	for (unsigned i = 0; i < 2 * EXPERTS; i++)
		e->rows[i] = 10;
	e->rows[EXPERTS + 7] = 90;
	e->rows[EXPERTS + 4] = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(s);
	return 0;
}

static void near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
		fail_msg("%g is not %g", a, b);
}

static void test_layer(void **state)
{
	struct experts_layer l;

	(void)state;
	experts_layer(e, EXPERTS, 1, &l);
	assert_int_equal(l.rows, 190);
	assert_int_equal(l.unused, 1);
	assert_int_equal(l.fullest, 7);
	near(l.effective, 190. * 189 / (10 * 10 * 9 + 90. * 89));
	experts_layer(e, EXPERTS, 0, &l);
	near(l.effective, EXPERTS);
	experts_layer(e, EXPERTS, 2, &l);
	assert_int_equal(l.rows, 0);
	assert_true(isnan(l.effective));
}

static void test_summary_leaves_out_what_was_not_sampled(void **state)
{
	struct experts_summary x;

	(void)state;
	experts_summary(e, EXPERTS, &x);
	assert_int_equal(x.layers, 2);
	assert_int_equal(x.rows, 120 + 190);
	assert_int_equal(x.cells, 2 * EXPERTS);
	assert_int_equal(x.unused, 1);
	near(x.effective,
	     (EXPERTS + 190. * 189 / (10 * 10 * 9 + 90. * 89)) / 2);
}

/* By share of the layer: 10 of 120 come before 10 of 190. */
static void test_hottest_by_share(void **state)
{
	struct experts_summary x;

	(void)state;
	experts_summary(e, EXPERTS, &x);
	assert_int_equal(x.n_hottest, EXPERTS_HOTTEST);
	assert_int_equal(x.hottest[0].layer, 1);
	assert_int_equal(x.hottest[0].expert, 7);
	assert_int_equal(x.hottest[0].rows, 90);
	near(x.hottest[0].share_ratio, 90. / 190);
	near(x.hottest[0].over_mean_ratio, 90. / 190 * EXPERTS);
	for (unsigned i = 1; i < EXPERTS_HOTTEST; i++) {
		assert_int_equal(x.hottest[i].layer, 0);
		assert_int_equal(x.hottest[i].expert, i - 1);
	}
}

/* A fused shared expert is the last column, and gets every token. */
static void test_shared_expert_is_left_out(void **state)
{
	struct experts_summary x;

	(void)state;
	s->target.experts = EXPERTS - 1;
	e->rows[EXPERTS - 1] = 1000;
	assert_int_equal(experts_routed(s), EXPERTS - 1);
	experts_summary(e, experts_routed(s), &x);
	assert_int_equal(x.hottest[0].expert, 7);
	assert_int_equal(x.cells, 2 * (EXPERTS - 1));
	s->target.experts = 0;
	assert_int_equal(experts_routed(s), EXPERTS);
	s->target.experts = 256; /* of another model */
	assert_int_equal(experts_routed(s), EXPERTS);
	e->n_layers = 0;
	assert_int_equal(experts_routed(s), 0);
}

static void test_ranks(void **state)
{
	uint64_t rows[4];

	(void)state;
	assert_int_equal(experts_rank(EXPERTS, 4, 0), 0);
	assert_int_equal(experts_rank(EXPERTS, 4, 11), 3);
	assert_int_equal(experts_rank(EXPERTS, 4, 12), -1);
	assert_int_equal(experts_rank(EXPERTS, 5, 0), -1);
	assert_int_equal(experts_rank(EXPERTS, 0, 0), -1);
	assert_true(experts_rank_rows(e, EXPERTS, 1, 4, rows, 4));
	assert_int_equal(rows[0], 30);
	assert_int_equal(rows[1], 20);
	assert_int_equal(rows[2], 110);
	assert_int_equal(rows[3], 30);
	assert_true(experts_rank_rows(e, EXPERTS, LAYERS, 4, rows, 4));
	assert_int_equal(rows[2], 140);
	assert_false(experts_rank_rows(e, EXPERTS, 1, 5, rows, 8));
	assert_false(experts_rank_rows(e, EXPERTS, 1, 6, rows, 4));
}

/* Many tokens: nearly even; few: the fullest has several times the mean. */
static void test_chance(void **state)
{
	double few = experts_chance_ratio(e, EXPERTS, 2), many;

	(void)state;
	for (unsigned i = 0; i < 2 * EXPERTS; i++)
		e->rows[i] *= 1000;
	many = experts_chance_ratio(e, EXPERTS, 2);
	assert_true(few > 1.2 && few < 2);
	assert_true(many > 1 && many < 1.03);
	assert_true(isnan(experts_chance_ratio(e, EXPERTS, 0)));
	e->n_layers = 0;
	assert_true(isnan(experts_chance_ratio(e, EXPERTS, 2)));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_layer),
		T(test_summary_leaves_out_what_was_not_sampled),
		T(test_hottest_by_share),
		T(test_shared_expert_is_left_out),
		T(test_ranks),
		T(test_chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
