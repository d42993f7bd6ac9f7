/* The classifier on simulated windows: routing by measured popularity, Poisson
 * batches, roofline times of an H100. */
#include "model/economics.h"
#include "model/regime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/unit/model/popularity.h"

/* Qwen3-30B-A3B in FP8. */
static const struct arch arch = {
	.experts = 128,
	.top_k = 8,
	.layers = 48,
	.moe_layers = 48,
	.expert_params = 3.0 * 2048 * 768,
	.expert_bytes = 3.0 * 2048 * 768,
	.dense_params = 48 * 18.874e6 + 151936.0 * 2048,
	.dense_bytes = 48 * 18.874e6 + 151936.0 * 2048,
	.kv_bytes_per_token = 98304,
	.compute = COMPUTE_FP8,
};

struct phase {
	enum regime want;
	unsigned seconds;
	double tokens, context, prompt;
};

/* One sampled step: rows of three layers, scaled to all. */
struct draw {
	double tokens, active, single;
};

static struct draw draw_step(double mean, double prompt)
{
	double b = mean > 1 ? fmax(1, random_poisson(mean)) : 1;
	struct draw d = { .tokens = b };

	for (unsigned i = 0; i < 3; i++) {
		unsigned l = (unsigned)(random_unit() * POPULARITY_LAYERS);

		for (unsigned e = 0; e < POPULARITY_EXPERTS; e++) {
			uint32_t r = random_binomial((uint32_t)(b + prompt),
						     popularity[l][e]);

			d.active += r > 0;
			d.single += r == 1;
		}
	}
	d.active /= 3;
	d.single /= 3;
	return d;
}

/* Sums over one second of such steps. */
static struct regime_evidence second_of(const struct draw *pool, unsigned n,
					double context, double prompt)
{
	struct machine m;
	struct step_cost sum = { 0 };
	struct step_shares shares;
	double step_s = 0, active = 0, single = 0, tokens = 0, steps = 0;
	double prompt_s = 0, layers = arch.moe_layers;
	struct sample_clusters clusters = { 0 };

	economics_machine(gpu_find("H100"), 1, 0, arch.compute, &m);
	while (step_s < 1) {
		const struct draw *d = &pool[(unsigned)(random_unit() * n) % n];
		struct step_cost c;
		double all = d->tokens + prompt, ts, times;

		economics_cost(&arch, all, d->active,
			       d->tokens * context * arch.kv_bytes_per_token,
			       &c);
		ts = economics_step_seconds(&c, &m) + 1.2e-3;
		times = fmax(1, floor(0.05 / ts));
		sum.routed_bytes += times * c.routed_bytes;
		sum.dense_bytes += times * c.dense_bytes;
		sum.kv_bytes += times * c.kv_bytes;
		sum.routed_flop += times * c.routed_flop;
		sum.dense_flop += times * c.dense_flop;
		step_s += times * ts;
		prompt_s += times * ts * prompt / all;
		active += times * d->active * arch.moe_layers;
		single += times * d->single * arch.moe_layers;
		tokens += times * all;
		steps += times;
		/* the layers of a step share its tokens: one cluster */
		clusters.steps += times;
		clusters.uu += times * pow(d->active * layers, 2);
		clusters.uf += times * d->active * d->single * layers * layers;
		clusters.ff += times * pow(d->single * layers, 2);
	}
	assert_true(economics_shares(&sum, &m, single / active, step_s, NAN,
				     &shares));
	return (struct regime_evidence){
		.dt_s = 1,
		.busy = 1,
		.weight = step_s,
		.have_shares = true,
		.expert = shares.expert,
		.kv = shares.kv,
		.compute = shares.compute,
		.prefill = prompt_s / step_s,
		.single = single / active,
		.tokens = tokens / steps,
		.sampled_active = active,
		.clusters = clusters,
	};
}

static const struct regime_evidence nothing = { .dt_s = 1,
						.idle = true,
						.busy = 0 };

static void test_every_phase_is_recognised(void **state)
{
	static const struct phase plan[] = {
		{ REGIME_IDLE, 6, 0, 0, 0 },
		{ REGIME_SOLO, 10, 1, 1000, 0 },
		{ REGIME_VALLEY, 10, 3, 1000, 0 },
		{ REGIME_VALLEY, 10, 16, 1000, 0 },
		{ REGIME_VALLEY, 10, 48, 500, 0 },
		{ REGIME_SHARED, 12, 256, 100, 0 },
		{ REGIME_COMPUTE, 12, 4000, 10, 0 },
		{ REGIME_KV, 12, 64, 16000, 0 },
		{ REGIME_PREFILL, 10, 8, 500, 4096 },
		{ REGIME_VALLEY, 10, 12, 500, 0 },
		{ REGIME_IDLE, 6, 0, 0, 0 },
	};
	struct regime_state s = { 0 };
	unsigned right = 0, slowest = 0;

	(void)state;
	for (unsigned p = 0; p < 11; p++) {
		const struct phase *f = &plan[p];
		enum regime got = REGIME_UNKNOWN;
		unsigned seconds_wrong = 0;
		struct draw pool[24];

		for (unsigned i = 0; f->tokens > 0 && i < 24; i++)
			pool[i] = draw_step(f->tokens, f->prompt);
		for (unsigned t = 0; t < f->seconds; t++) {
			struct regime_evidence e = nothing;

			if (f->tokens > 0)
				e = second_of(pool, 24, f->context, f->prompt);
			got = regime_update(&s, &e);
			seconds_wrong += got != f->want;
		}
		if (got != f->want || seconds_wrong > 4)
			print_error("phase %u: %s, %u s wrong\n", p,
				    regime_name(got), seconds_wrong);
		right += got == f->want && seconds_wrong <= 4;
		if (seconds_wrong > slowest)
			slowest = seconds_wrong;
	}
	print_message("# %u of 11 phases right, at most %u s late\n", right,
		      slowest);
	assert_int_equal(right, 11);
}

static void test_no_flip_at_the_boundary(void **state)
{
	static const double tokens[] = { 60, 70, 80, 90, 100, 120 };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct regime_state s = { 0 };
		struct draw pool[400];

		for (unsigned j = 0; j < 400; j++)
			pool[j] = draw_step(tokens[i], 0);
		for (unsigned t = 0; t < 600; t++) {
			struct regime_evidence e = second_of(pool, 400, 200, 0);

			regime_update(&s, &e);
		}
		/* the first is the one from unknown */
		if (s.changes > 1)
			print_error("B = %g: %lu changes\n", tokens[i],
				    s.changes);
		assert_true(s.changes == 1);
		print_message("# %g tokens: %lu flips in 600 s, s1 +- %.4f\n",
			      tokens[i], s.changes - 1,
			      regime_single_error(&s));
	}
}

static struct regime_evidence plain(double tokens, double expert, double s1)
{
	return (struct regime_evidence){ .dt_s = 1,
					 .busy = NAN,
					 .weight = 1,
					 .have_shares = true,
					 .expert = expert,
					 .single = s1,
					 .tokens = tokens,
					 .sampled_active = 1e6 };
}

static void test_side_of_the_valley(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(8, 0.4, 0.7);

	(void)state;
	assert_int_equal(regime_side(&s), SIDE_NONE);
	assert_int_equal(regime_update(&s, &e), REGIME_VALLEY);
	assert_int_equal(regime_side(&s), SIDE_NEAR);
	e = plain(60, 0.2, 0.2);
	for (unsigned i = 0; i < 6; i++)
		regime_update(&s, &e);
	assert_int_equal(regime_side(&s), SIDE_FAR);
}

static void test_hysteresis(void **state)
{
	struct regime_state up = { 0 }, down = { 0 };
	struct regime_evidence between = plain(50, 0.10, 0.2);
	struct regime_evidence high = plain(50, 0.3, 0.3);
	struct regime_evidence low = plain(50, 0.01, 0.01);

	(void)state;
	regime_update(&up, &low);
	regime_update(&down, &high);
	for (unsigned i = 0; i < 30; i++) {
		regime_update(&up, &between);
		regime_update(&down, &between);
	}
	assert_int_equal(up.regime, REGIME_SHARED);
	assert_int_equal(down.regime, REGIME_VALLEY);
}

static void test_idle_at_once_and_forgets(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(500, 0.01, 0.01);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_SHARED);
	assert_int_equal(regime_update(&s, &nothing), REGIME_IDLE);
	e = plain(1, 0.2, 1);
	regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_IDLE); /* it has just begun */
	regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_SOLO);
}

static void test_unknown_until_there_is_evidence(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = { .dt_s = 1, .busy = NAN };

	(void)state;
	assert_int_equal(regime_update(&s, &e), REGIME_UNKNOWN);
	e = plain(30, 0, 0);
	e.have_shares = false;
	assert_int_equal(regime_update(&s, &e), REGIME_UNKNOWN);
	assert_null(regime_name(s.regime));
}

static void test_blind_for_long_is_unknown(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(500, 0.01, 0.01);
	struct regime_evidence blind = { .dt_s = 1, .busy = NAN };

	(void)state;
	regime_update(&s, &e);
	for (unsigned i = 0; i < 29; i++)
		regime_update(&s, &blind);
	assert_int_equal(s.regime, REGIME_SHARED);
	for (unsigned i = 0; i < 3; i++)
		regime_update(&s, &blind);
	assert_int_equal(s.regime, REGIME_UNKNOWN);
}

static void test_prompts_without_streams_keep_b(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(500, 0.01, 0.01);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		regime_update(&s, &e);
	e.prefill = 1;
	e.tokens = 0; /* not known */
	for (unsigned i = 0; i < 6; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_PREFILL);
	e = plain(500, 0.01, 0.01);
	for (unsigned i = 0; i < 6; i++) {
		regime_update(&s, &e);
		assert_true(s.regime != REGIME_SOLO);
	}
	assert_int_equal(s.regime, REGIME_SHARED);
}

static void test_uncertain_change_waits(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(50, 0.01, 0.01);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		regime_update(&s, &e);
	e = plain(50, 0.125, 0.2);
	e.sampled_active = 5; /* five experts seen: s1 is good to +-0.2 */
	s.active = 0;
	for (unsigned i = 0; i < 60; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_SHARED);
	e.sampled_active = 1e5;
	for (unsigned i = 0; i < 60; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_VALLEY);
}

/* Twenty steps that differ a lot are few, however many experts they touch. */
static void test_steps_that_differ_are_uncertain(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(50, 0.01, 0.01);
	struct sample_clusters *c = &e.clusters;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		regime_update(&s, &e);
	e = plain(50, 0.125, 0.2);
	for (unsigned i = 0; i < 20; i++) {
		double u = 1e6 / 20, single = i % 2 ? 0.5 * u : 0;

		c->uu += u * u;
		c->uf += u * single;
		c->ff += single * single;
	}
	for (unsigned i = 0; i < 30; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_SHARED);
	assert_true(regime_single_error(&s) > 0.02);
	*c = (struct sample_clusters){ 0 };
	for (unsigned i = 0; i < 60; i++)
		regime_update(&s, &e);
	assert_int_equal(s.regime, REGIME_VALLEY);
	assert_true(regime_single_error(&s) < 0.001);
}

static void test_flags_have_hysteresis(void **state)
{
	struct regime_state s = { 0 };
	struct regime_evidence e = plain(50, 0.01, 0.01);

	(void)state;
	e.fixed = e.straggler = e.popularity = NAN;
	regime_update(&s, &e);
	assert_int_equal(s.flags, 0);
	e.fixed = 0.41;
	e.straggler = 0.16;
	e.popularity = 0.59;
	regime_update(&s, &e);
	assert_int_equal(s.flags, FLAG_OVERHEAD | FLAG_IMBALANCE | FLAG_SKEW);
	e.fixed = 0.31;
	e.straggler = 0.11;
	e.popularity = 0.64;
	regime_update(&s, &e);
	assert_int_equal(s.flags, FLAG_OVERHEAD | FLAG_IMBALANCE | FLAG_SKEW);
	e.fixed = 0.29;
	e.straggler = 0.09;
	e.popularity = 0.66;
	regime_update(&s, &e);
	assert_int_equal(s.flags, 0);
	e.fixed = 0.39;
	e.straggler = 0.14;
	e.popularity = 0.61;
	regime_update(&s, &e);
	assert_int_equal(s.flags, 0);
	e.fixed = 0.9;
	regime_update(&s, &e);
	assert_int_equal(s.flags, FLAG_OVERHEAD);
	regime_update(&s, &nothing);
	assert_int_equal(s.flags, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_phase_is_recognised),
		cmocka_unit_test(test_no_flip_at_the_boundary),
		cmocka_unit_test(test_side_of_the_valley),
		cmocka_unit_test(test_hysteresis),
		cmocka_unit_test(test_idle_at_once_and_forgets),
		cmocka_unit_test(test_unknown_until_there_is_evidence),
		cmocka_unit_test(test_blind_for_long_is_unknown),
		cmocka_unit_test(test_prompts_without_streams_keep_b),
		cmocka_unit_test(test_uncertain_change_waits),
		cmocka_unit_test(test_steps_that_differ_are_uncertain),
		cmocka_unit_test(test_flags_have_hysteresis),
	};

	return cmocka_run_group_tests(tests, popularity_load, NULL);
}
