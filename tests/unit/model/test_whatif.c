/* Calibration, what-ifs: against what is published, by hand, and at edges. */
#include "model/valley.h"
#include "model/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/model/qwen.h"

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fmax(fabs(want), 1e-300))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

/* ---- calibration ------------------------------------------------------ */

static void test_a_line_is_found(void **state)
{
	struct calibration_point p[5];
	struct calibration c;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		p[i] = (struct calibration_point){
			.batch = 4 << i,
			.bytes = 1e10 * (i + 1),
			.seconds = 1.5e-3 + 1e10 * (i + 1) / 4e12,
		};
	calibrate(p, 5, 4.8e12, &c);
	assert_true(c.fitted && c.n == 5);
	near(c.bw, 4e12, 1e-9);
	near(c.fixed_s, 1.5e-3, 1e-9);
	near(c.bw_low, 4e12, 1e-6); /* no scatter, no doubt */
	near(c.batch_low, 4, 0);
	near(c.batch_high, 64, 0);
}

static void test_scatter_widens_the_interval(void **state)
{
	struct calibration_point p[6];
	struct calibration c;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		p[i] = (struct calibration_point){
			.batch = 4 << i,
			.bytes = 1e10 * (i + 1),
			.seconds = 1.5e-3 + 1e10 * (i + 1) / 4e12 +
				   (i % 2 ? 2e-4 : -2e-4),
		};
	calibrate(p, 6, 4.8e12, &c);
	assert_true(c.fitted);
	assert_true(c.bw_low < 0.97 * c.bw && c.bw_high > 1.01 * c.bw);
	assert_true(c.bw_low < 4e12 && c.bw_high > 4e12);
	assert_true(c.bw_high <= 4.8e12);
}

/* Batches too close, or a line that cannot be: the default, and t0 alone. */
static void test_the_stated_default(void **state)
{
	struct calibration_point p[4];
	struct calibration c;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		p[i] = (struct calibration_point){ .batch = 16 + i,
						   .bytes = 1e10 + 1e8 * i,
						   .seconds = 4e-3 };
	calibrate(p, 4, 4e12, &c);
	assert_false(c.fitted);
	near(c.bw, 0.85 * 4e12, 1e-12);
	near(c.fixed_s, 4e-3 - 1.015e10 / (0.85 * 4e12), 1e-9);
	p[3].batch = 64; /* faster than the peak */
	p[3].bytes = 5e10;
	calibrate(p, 4, 4e12, &c);
	assert_false(c.fitted);
	calibrate(p, 0, 4e12, &c);
	assert_true(!c.fitted && c.n == 0 && c.fixed_s == 0);
	calibrate(p, 0, 0, &c);
	assert_true(c.bw == 0);
	calibrate(NULL, 0, NAN, &c);
	assert_true(c.bw == 0);
	p[0].seconds = NAN;
	p[1].bytes = -1;
	p[2].batch = INFINITY;
	calibrate(p, 4, 4e12, &c);
	assert_int_equal(c.n, 1);
}

/* ---- what-if ---------------------------------------------------------- */

/* 16 users on one H200, measured: U by popularity with a = 0.855. */
static struct whatif measured(void)
{
	struct traffic_sample s = { .experts = 128, .top_k = 8, .batch = 16 };
	struct whatif w = { .valid = true,
			    .arch = qwen,
			    .gpu_bw = 4.8e12,
			    .gpu_flops = 989.4e12,
			    .gpus = 1,
			    .tp = 1,
			    .ep = 1,
			    .batch = 16,
			    .step_s = 0.012,
			    .usd_per_gpu_hour = 3 };

	s.active = valley_skewed_active(128, 8, 0.855, 16);
	assert_true(traffic_learn(&w.traffic, &s));
	calibrate(NULL, 0, 4.8e12, &w.calibration);
	return w;
}

static void at(const struct whatif *w, struct whatif_change c,
	       struct whatif_point *p)
{
	assert_true(whatif_at(w, &c, p));
}

static void test_now_is_what_was_measured(void **state)
{
	struct whatif w = measured();
	struct whatif_point p;

	(void)state;
	at(&w, (struct whatif_change){ 0 }, &p);
	near(p.batch, 16, 0);
	near(p.step_s, 0.012, 1e-12);
	near(p.tokens_per_s, 16 / 0.012, 1e-12);
	near(p.usd_per_mtok, 3.0 / 3600 / (16 / 0.012) * 1e6, 1e-12);
	near(p.cost_ratio, 1, 1e-12);
	near(p.step_s_low, p.step_s, 1e-9);
	near(p.step_s_high, p.step_s, 1e-9);
	assert_int_equal(p.limit, WHATIF_WITHIN);
}

/* Prompts and pauses that the rate of now has are in every prediction. */
static void test_prompts_and_pauses_are_in_both(void **state)
{
	struct whatif w = measured(), alone;
	struct whatif_point now, p, q;

	(void)state;
	alone = w;
	w.prompt_s = 0.5e-3;      /* 2/5 of what a token takes */
	w.tokens_per_s = 16 * 40; /* of 800: a fifth of the time nothing runs */
	at(&w, (struct whatif_change){ 0 }, &now);
	near(now.tokens_per_s, 640, 1e-12);
	near(now.usd_per_mtok, 3.0 / 3600 / 640 * 1e6, 1e-12);
	near(now.cost_ratio, 1, 1e-12);
	near(now.step_s, 0.012, 1e-12);
	at(&w, (struct whatif_change){ .batch = 64 }, &p);
	near(p.tokens_per_s, 0.8 / (p.step_s / 64 + 0.5e-3), 1e-9);
	near(p.cost_ratio, 640 / p.tokens_per_s, 1e-12);
	assert_true(p.tokens_per_s_low < p.tokens_per_s &&
		    p.tokens_per_s < p.tokens_per_s_high);
	/* and so a larger batch saves less than decoding alone would */
	at(&alone, (struct whatif_change){ .batch = 64 }, &q);
	near(p.step_s, q.step_s, 1e-12);
	assert_true(p.cost_ratio > q.cost_ratio && p.cost_ratio < 1);
	/* prompts are arithmetic: another GPU with twice as much takes half */
	at(&w, (struct whatif_change){ .tp = 2 }, &p);
	near(p.tokens_per_s, 0.8 / (p.step_s / 16 + 0.25e-3), 1e-9);
	near(p.cost_ratio, 2 * 640 / p.tokens_per_s, 1e-12);
}

static void test_another_batch(void **state)
{
	struct whatif w = measured();
	double bw = 0.85 * 4.8e12, more, want;
	struct whatif_point p;

	(void)state;
	at(&w, (struct whatif_change){ .batch = 64 }, &p);
	more = traffic_active(&w.traffic, 64) - traffic_active(&w.traffic, 16);
	want = 0.012 + 48 * more * qwen.expert_bytes / bw;
	near(p.step_s, want, 1e-9);
	assert_true(p.step_s_low < want && want < p.step_s_high);
	near(p.cost_ratio, want / 64 / (0.012 / 16), 1e-9);
	assert_true(p.shares.gain > 0 && p.shares.gain < 1);
}

/* T(2B) / (2 T(B)): what two replicas cost as one. */
static void test_two_replicas_to_one(void **state)
{
	struct whatif w = measured();
	struct whatif_point p, twice;

	(void)state;
	at(&w, (struct whatif_change){ .replicas = 2 }, &p);
	at(&w, (struct whatif_change){ .batch = 32 }, &twice);
	near(p.batch, 32, 0);
	near(p.cost_ratio, twice.step_s / (2 * w.step_s), 1e-12);
	assert_true(p.cost_ratio > 0.5 && p.cost_ratio < 1);
}

static void test_other_layouts(void **state)
{
	struct whatif w = measured();
	struct whatif_point p, q;

	(void)state;
	w.gpus = w.tp = 2;
	calibrate(NULL, 0, 2 * 4.8e12, &w.calibration);
	at(&w, (struct whatif_change){ .tp = 4 }, &p);
	near(p.gpus, 4, 0);
	assert_true(p.step_s < w.step_s && p.step_s > w.step_s / 2);
	assert_true(p.cost_ratio > 1); /* t0 does not divide */
	at(&w, (struct whatif_change){ .tp = 1 }, &p);
	assert_true(p.step_s > w.step_s && p.gpus == 1);
	/* experts over two ranks: the fuller one keeps the other waiting */
	at(&w, (struct whatif_change){ .ep = 2 }, &p);
	assert_true(p.step_s > w.step_s);
	/* and each has its own copy of the rest */
	at(&w, (struct whatif_change){ .ep = 2, .gpus = 2, .tp = 1 }, &q);
	assert_true(q.step_s > p.step_s);
	at(&w, (struct whatif_change){ .ep = 3 }, &p);
	assert_int_equal(p.limit, WHATIF_SHAPE);
	assert_true(isnan(p.step_s));
}

static void test_another_gpu(void **state)
{
	struct whatif w = measured();
	const struct gpu *b200 = gpu_find("B200");
	struct whatif_point p;

	(void)state;
	at(&w, (struct whatif_change){ .gpu = b200 }, &p);
	assert_true(p.step_s < w.step_s);
	assert_true(isnan(p.usd_per_mtok)); /* nobody told its price */
	at(&w, (struct whatif_change){ .gpu = b200, .usd_per_gpu_hour = 6 },
	   &p);
	near(p.usd_per_mtok, 6.0 / 3600 / p.tokens_per_s * 1e6, 1e-12);
}

static void test_kv_grows_with_the_batch(void **state)
{
	struct whatif w = measured();
	struct whatif_point with, without;
	double bw = 0.85 * 4.8e12;

	(void)state;
	at(&w, (struct whatif_change){ .batch = 64 }, &without);
	w.kv_bytes = 16 * 2000 * qwen.kv_bytes_per_token;
	w.kv_capacity_bytes = 2.5 * w.kv_bytes;
	at(&w, (struct whatif_change){ .batch = 64 }, &with);
	near(with.step_s - without.step_s, 3 * w.kv_bytes / bw, 1e-9);
	assert_true(with.shares.kv > 0 &&
		    with.shares.gain < without.shares.gain);
	assert_int_equal(with.limit, WHATIF_MEMORY);
	at(&w, (struct whatif_change){ .batch = 32 }, &with);
	assert_int_equal(with.limit, WHATIF_WITHIN);
}

static void test_beyond_the_data_is_said(void **state)
{
	struct whatif w = measured();
	struct whatif_point p;

	(void)state;
	at(&w, (struct whatif_change){ .batch = 256 }, &p);
	assert_int_equal(p.limit, WHATIF_WITHIN);
	at(&w, (struct whatif_change){ .batch = 257 }, &p);
	assert_int_equal(p.limit, WHATIF_BATCH);
	assert_string_equal(whatif_limit_name(p.limit), "batch");
	traffic_uniform(&w.traffic, 128, 8);
	at(&w, (struct whatif_change){ .batch = 32 }, &p);
	assert_int_equal(p.limit, WHATIF_ROUTING);
	assert_true(p.active_low < p.active);
	near(p.active_high, valley_active(128, 8, 32), 1e-12);
}

/* Settled or not, the answers are the same. */
static void test_settling_changes_nothing(void **state)
{
	struct whatif w = measured(), settled;
	struct whatif_point p, q;

	(void)state;
	w.gpus = w.tp = w.ep = 4;
	settled = w;
	whatif_settle(&settled);
	assert_true(settled.now_active > 0);
	for (double b = 1; b < 5000; b *= 3) {
		at(&w, (struct whatif_change){ .batch = b, .ep = 2 }, &p);
		at(&settled, (struct whatif_change){ .batch = b, .ep = 2 }, &q);
		assert_memory_equal(&p, &q, sizeof(p));
	}
}

static void test_arithmetic_sets_the_pace_at_last(void **state)
{
	struct whatif w = measured();
	struct whatif_point p;

	(void)state;
	at(&w, (struct whatif_change){ .batch = 1e5 }, &p);
	assert_true(p.shares.compute > 0.5 && p.shares.expert == 0);
}

static void test_nothing_to_go_by(void **state)
{
	struct whatif w = { 0 };
	struct whatif_point p;

	(void)state;
	assert_false(whatif_at(&w, &(struct whatif_change){ .batch = 8 }, &p));
	assert_true(isnan(p.step_s) && isnan(p.shares.gain));
	w = measured();
	assert_false(
		whatif_at(&w, &(struct whatif_change){ .batch = NAN }, &p) &&
		isnan(p.batch));
	assert_false(
		whatif_at(&w, &(struct whatif_change){ .batch = 1e9 }, &p));
}

/* ---- published -------------------------------------------------------- */

/* gpt-oss-120b with vLLM on a DGX Spark, tokens per second of one server
 * (kubis.ai, March 2026). */
static const struct {
	double users, tokens_per_s;
} spark[] = {
	{ 2, 78.4 }, { 4, 107.9 }, { 8, 153.5 }, { 16, 218.5 }, { 32, 318.7 }
};

/* All weights in MXFP4; half a context of 1100 tokens, and the windows. */
static const struct arch oss = {
	.experts = 128,
	.top_k = 4,
	.moe_layers = 36,
	.expert_params = 3.0 * 2880 * 2880,
	.expert_bytes = 3.0 * 2880 * 2880 * 0.53125,
	.dense_params = 36 * 26.542e6 + 201088.0 * 2880,
	.dense_bytes = 0.53125 * (36 * 26.542e6 + 201088.0 * 2880),
};
#define KV_PER_USER (36864.0 * 550 + 18 * 2 * 8 * 64 * 2 * 128.0)

/* Mean square of relative errors at 2, 4 and 8 users. */
static double misfit(double a, double fixed_s, double bw)
{
	double sum = 0;

	for (unsigned i = 0; i < 3; i++) {
		double b = spark[i].users, t = b / spark[i].tokens_per_s;
		double u = valley_skewed_active(128, 4, a, b), off;

		off = fixed_s + (36 * u * oss.expert_bytes + oss.dense_bytes +
				 b * KV_PER_USER) /
					bw;
		sum += (off / t - 1) * (off / t - 1);
	}
	return sum;
}

static void fit(double bw, double *skew, double *fixed_s)
{
	double best = INFINITY;

	for (double a = 0.01; a < 1e4; a *= 1.1220184543019633) {
		for (double t0 = 0; t0 < 15e-3; t0 += 0.25e-3) {
			double x = misfit(a, t0, bw);

			if (!(x < best))
				continue;
			best = x;
			*skew = a;
			*fixed_s = t0;
		}
	}
}

/* Skew and t0 of the small batches predict the large ones to 6 %; uniform
 * routing would be off by a third. */
static void test_published_server_at_larger_batches(void **state)
{
	struct whatif w = { .valid = true,
			    .arch = oss,
			    .gpu_bw = 273e9,
			    .gpu_flops = 62e12,
			    .gpus = 1,
			    .tp = 1,
			    .ep = 1,
			    .batch = 8 };
	struct traffic_sample s = { .experts = 128, .top_k = 4, .batch = 8 };
	double fixed_s = 0, skew = 0;
	struct whatif_point p;

	(void)state;
	calibrate(NULL, 0, w.gpu_bw, &w.calibration);
	fit(w.calibration.bw, &skew, &fixed_s);
	s.active = valley_skewed_active(128, 4, skew, 8);
	assert_true(traffic_learn(&w.traffic, &s));
	w.calibration.fixed_s = fixed_s;
	w.kv_bytes = 8 * KV_PER_USER;
	for (unsigned i = 3; i < 5; i++) {
		double off;

		at(&w, (struct whatif_change){ .batch = spark[i].users }, &p);
		off = p.tokens_per_s / spark[i].tokens_per_s - 1;
		print_message("# a %.2f, t0 %.1f ms: %.0f users %+.1f %%\n",
			      skew, fixed_s * 1e3, spark[i].users, off * 100);
		assert_true(fabs(off) < 0.06);
		assert_true(p.tokens_per_s_low < spark[i].tokens_per_s &&
			    spark[i].tokens_per_s < p.tokens_per_s_high);
	}
	traffic_uniform(&w.traffic, 128, 4);
	at(&w, (struct whatif_change){ .batch = 16 }, &p);
	assert_true(p.tokens_per_s < 0.7 * 218.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line_is_found),
		cmocka_unit_test(test_scatter_widens_the_interval),
		cmocka_unit_test(test_the_stated_default),
		cmocka_unit_test(test_now_is_what_was_measured),
		cmocka_unit_test(test_prompts_and_pauses_are_in_both),
		cmocka_unit_test(test_another_batch),
		cmocka_unit_test(test_two_replicas_to_one),
		cmocka_unit_test(test_other_layouts),
		cmocka_unit_test(test_another_gpu),
		cmocka_unit_test(test_kv_grows_with_the_batch),
		cmocka_unit_test(test_beyond_the_data_is_said),
		cmocka_unit_test(test_arithmetic_sets_the_pace_at_last),
		cmocka_unit_test(test_settling_changes_nothing),
		cmocka_unit_test(test_nothing_to_go_by),
		cmocka_unit_test(test_published_server_at_larger_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
