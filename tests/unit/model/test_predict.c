/* model_update: the table of what-ifs, and what it is made from. */
#include "tests/unit/model/snapshot_fixture.h"

static void test_table_of_a_window(void **state)
{
	const struct snapshot_what_if *same, *twice, *far;

	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	update();
	same = row(WHAT_IF_BATCH, 16);
	twice = row(WHAT_IF_MERGE, 2);
	far = row(WHAT_IF_BATCH, 512);
	assert_non_null(same);
	assert_non_null(twice);
	assert_non_null(far);
	near(same->step_s.v, 0.010, 1e-9);
	near(same->cost_ratio.v, 1, 1e-9);
	near(same->active_experts.v, 64, 1e-9);
	assert_true(twice->cost_ratio.v > 0.5 && twice->cost_ratio.v < 1);
	assert_true(twice->usd_per_mtok_low.v < twice->usd_per_mtok.v &&
		    twice->usd_per_mtok.v < twice->usd_per_mtok_high.v);
	assert_int_equal(far->limit, WHATIF_BATCH);
	assert_int_equal(row(WHAT_IF_BATCH, 256)->limit, WHATIF_WITHIN);
	assert_true(f->snap.what_if_base.valid);
	give_requests(0, 0);
	give_agent(0);
	update();
	assert_int_equal(f->snap.n_what_if, 0);
	assert_false(f->snap.what_if_base.valid);
}

/* Half of the time goes to prompts, and for some of it nothing runs: the table
 * says of now's batch what the metrics say of now. */
static void test_table_under_prompts(void **state)
{
	const struct snapshot_what_if *same, *twice;
	double rate;

	(void)state;
	load(16, 40);
	f->in.waiting = 4;
	give_window(16, 64, 32);
	f->window.steps[0] = 20;
	f->window.steps[1] = 20;
	f->window.step_ns[0] = 0.2e9;
	f->window.step_ns[1] = 0.6e9;
	f->window.tokens[1] = 20 * 2048;
	update();
	same = row(WHAT_IF_BATCH, 16);
	twice = row(WHAT_IF_MERGE, 2);
	assert_non_null(same);
	assert_non_null(twice);
	rate = metric(METRIC_TOKENS).v;
	near(rate, 16 * 40, 1e-9);
	near(metric(METRIC_PREFILL_SHARE).v, 0.5, 0.01);
	near(same->tokens_per_s.v, rate, 1e-9);
	near(same->usd_per_mtok.v, metric(METRIC_COST).v, 1e-9);
	near(same->cost_ratio.v, 1, 1e-9);
	near(f->snap.what_if_base.prompt_s, 0.010 / 16, 0.01);
	assert_true(twice->tokens_per_s.v > rate &&
		    twice->tokens_per_s.v < 2 * rate);
	near(twice->cost_ratio.v, rate / twice->tokens_per_s.v, 1e-9);
}

/* Every step carries a prompt, and the step is by their rate: a larger batch has
 * more prompts, and gains next to nothing. */
static void test_table_where_every_step_has_prompts(void **state)
{
	const struct snapshot_what_if *same, *more;
	double rate;

	(void)state;
	load(16, 0);
	f->in.waiting = 4;
	f->in.d_eager_steps = 8;
	f->in.d_padded_tokens = 0;
	give_window(16, 64, 32);
	f->window.rows = (struct sample_rows){ 0 };
	f->window.steps[0] = 0;
	f->window.step_ns[0] = 0;
	f->window.steps[1] = 8;
	f->window.step_ns[1] = 1e9;
	f->window.tokens[1] = 8 * 1600;
	update();
	update();
	assert_int_equal(metric(METRIC_STEP_SECONDS).source, SOURCE_INFERRED);
	near(metric(METRIC_PREFILL_SHARE).v, 0.99, 1e-9);
	rate = metric(METRIC_TOKENS).v;
	near(rate, 16 * 8, 1e-9);
	same = row(WHAT_IF_BATCH, 16);
	more = row(WHAT_IF_BATCH, 64);
	assert_non_null(same);
	assert_non_null(more);
	near(same->tokens_per_s.v, rate, 1e-9);
	near(same->step_s.v, metric(METRIC_STEP_SECONDS).v, 1e-9);
	near(same->cost_ratio.v, 1, 1e-9);
	near(more->tokens_per_s.v, rate, 0.02);
	near(more->step_s.v, 4 * same->step_s.v, 0.02);
}

/* Without a load a batch can still be asked for, and nothing else. */
static void test_base_without_load(void **state)
{
	struct whatif_point p;

	(void)state;
	give_requests(0, 0);
	update();
	assert_false(f->snap.what_if_base.valid);
	assert_true(f->snap.what_if_base.known);
	assert_false(whatif_at(&f->snap.what_if_base,
			       &(struct whatif_change){ .replicas = 2 }, &p));
	assert_true(whatif_at(&f->snap.what_if_base,
			      &(struct whatif_change){ .batch = 64 }, &p));
	assert_true(p.shares.gain > 0 && p.shares.gain < 1);
	assert_true(p.step_s_low < p.step_s && isnan(p.cost_ratio));
	assert_int_equal(p.limit, WHATIF_ROUTING);
}

/* Without rows nothing carries a what-if: it is there, and says so. */
static void test_table_without_rows(void **state)
{
	(void)state;
	load(16, 100);
	update();
	assert_true(f->snap.n_what_if > 0);
	for (unsigned i = 0; i < f->snap.n_what_if; i++)
		assert_int_equal(f->snap.what_if[i].limit, WHATIF_ROUTING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_table_of_a_window),
		T(test_table_under_prompts),
		T(test_table_where_every_step_has_prompts),
		T(test_base_without_load),
		T(test_table_without_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
