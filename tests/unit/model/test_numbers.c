/* Whatever goes in, a number that comes out is finite or not known. */
#include "tests/unit/model/snapshot_fixture.h"

#include "model/balance.h"
#include "model/calibrate.h"
#include "model/economics.h"
#include "model/extrapolate.h"
#include "model/overlap.h"
#include "model/rows.h"
#include "model/traffic.h"
#include "model/valley.h"
#include "model/whatif.h"

#define ROUNDS 3000u

static uint64_t seed = 99;

static uint32_t below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

static double unit(void)
{
	return (below(1u << 30) + 0.5) / (1u << 30);
}

/* Mostly sane, now and then what nobody expects. */
static double odd(double most)
{
	static const double odds[] = { 0,         1,    -1,  1e300,  -1e300,
				       INFINITY,  NAN,  0.5, 1e-300, 1e6,
				       -INFINITY, 1e-9, 2,   1e18 };

	if (below(4) == 0)
		return odds[below(sizeof(odds) / sizeof(odds[0]))];
	return exp(unit() * log(most + 1)) - 1;
}

static void finite_at_least(const char *what, double x, double least)
{
	if (isfinite(x) && x >= least)
		return;
	print_error("%s is %g\n", what, x);
	fail();
}

static void known_is_finite(const char *what, struct value v)
{
	if (!value_known(v) || isfinite(v.v))
		return;
	print_error("%s is %g\n", what, v.v);
	fail();
}

/* ---- functions -------------------------------------------------------- */

/* E, k and B at their edges, all combinations. */
static void test_edges_of_the_curves(void **state)
{
	static const double e[] = { 0, 1, 2, 8, 128, 1024, 1e6, NAN, INFINITY };
	static const double k[] = { 0, 1, 2, 8, 128, 1024, -1, NAN };
	static const double b[] = { 0,   1e-9, 0.5, 1,   1.5,      2,
				    256, 1e6,  1e7, 1e9, INFINITY, NAN };
	static const double a[] = { 0, 1e-3, 0.3, 1, 31.9, 32, 1e5, 1e9, NAN };

	(void)state;
	for (unsigned i = 0; i < 9 * 8 * 12 * 9; i++) {
		double ee = e[i % 9], kk = k[i / 9 % 8], bb = b[i / 72 % 12];
		double aa = a[i / 864], u, one;

		u = valley_skewed_active(ee, kk, aa, bb);
		one = valley_skewed_single(ee, kk, aa, bb);
		finite_at_least("U", u, 0);
		finite_at_least("F1", one, 0);
		assert_true(one <= u * (1 + 1e-12));
		finite_at_least("U", valley_active(ee, kk, bb), 0);
		finite_at_least("F1", valley_single(ee, kk, bb), 0);
		finite_at_least("floor", valley_floor(ee, kk), 0);
		finite_at_least("peak", valley_peak(ee, kk), 0);
		if (i < 9 * 8 * 12)
			finite_at_least(
				"E_eff",
				extrapolate_equal_experts(ee, kk, bb, u), 0);
	}
}

static void test_edges_of_the_traffic(void **state)
{
	struct traffic t, u = { 0 };

	(void)state;
	assert_true(traffic_active(&u, 8) == 0 && traffic_single(&u, 8) == 0);
	assert_true(traffic_batch_at(&u, 0.1, NULL, NULL) == 0);
	assert_true(traffic_pair_ratio(&u) == 0);
	for (unsigned i = 0; i < ROUNDS / 3; i++) {
		uint32_t rows[64];
		struct traffic_sample s = {
			.experts = 1 + below(64),
			.top_k = 1 + below(8),
			.rows = below(3) ? rows : NULL,
			.layers = 1,
			.stride = 64,
			.batch = odd(1e6),
			.batch_variance = odd(100),
			.active = odd(64),
			.active_error = odd(3),
			.sum_squares = odd(1e6),
		};
		struct overlap o;
		struct balance b;
		double low, high;

		for (unsigned e = 0; e < 64; e++)
			rows[e] = below(4) ? below(1u << below(32)) : 0;
		if (!traffic_learn(&t, &s))
			continue;
		for (unsigned j = 0; j < 6; j++) {
			double at = odd(1e6);

			finite_at_least("U", traffic_active(&t, at), 0);
			finite_at_least("F1", traffic_single(&t, at), 0);
			traffic_bounds(&t, at, &low, &high);
			finite_at_least("low", low, 0);
			finite_at_least("high", high, low);
			overlap_expected(&t, at, &o);
			assert_true(!(o.rows_ratio < 0) && !(o.rows_ratio > 1));
			balance_expected(&t, at, odd(64), &b);
			finite_at_least("I_R", b.rows, 1);
			finite_at_least("I_U", b.active, 1);
		}
		if (i % 8 == 0) {
			double exit = traffic_batch_at(&t, 0.1, &low, &high);

			finite_at_least("exit", exit, 0);
			assert_true(exit == 0 || (low <= exit && exit <= high));
		}
	}
}

static void test_edges_of_histograms(void **state)
{
	static const uint32_t none[8], full[] = { 5, 5, 5, 5, 5, 5, 5, 5 };
	struct sample_rows s = { 0 };
	struct row_ratios q;

	(void)state;
	rows_add_cell(&s, none, 8); /* zero rows: nothing is known */
	rows_ratios(&s, SOURCE_MEASURED, &q);
	assert_false(value_known(q.coverage) || value_known(q.fragmentation) ||
		     value_known(q.single) || value_known(q.valley) ||
		     value_known(q.elasticity) || value_known(q.per_active));
	assert_true(isnan(rows_effective_experts(none, 8)));
	assert_true(rows_entropy(none, 8) == 0);
	s = (struct sample_rows){ 0 };
	rows_add_cell(&s, full, 8); /* k = E, U = E, F1 = 0 */
	rows_ratios(&s, SOURCE_MEASURED, &q);
	assert_true(q.coverage.v == 1 && q.single.v == 0);
	assert_true(q.elasticity.v == 1);
	assert_true(valley_rarefied(full, 8, 5, 4) == 8);
	s = (struct sample_rows){ 0 };
	rows_add_cell(&s, (uint32_t[]){ 1, 0, 1, 1 }, 4); /* U = R */
	rows_ratios(&s, SOURCE_MEASURED, &q);
	assert_true(q.fragmentation.v == 1 && q.single.v == 1);
	assert_true(q.elasticity.v == 0);
}

static void test_random_what_ifs(void **state)
{
	struct calibration_point p[8];
	struct whatif_point out;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct whatif w = { .valid = true,
				    .arch = qwen,
				    .gpu_bw = 4.8e12,
				    .gpu_flops = below(2) ? 1e15 : 0,
				    .gpus = 1 + below(8),
				    .ep = 1,
				    .batch = 1 + below(500),
				    .step_s = odd(1),
				    .kv_bytes = below(2) ? 1e9 : 0,
				    .kv_capacity_bytes = odd(1e11),
				    .usd_per_gpu_hour = below(2) ? 3 : 0 };
		struct whatif_change c = { .batch = odd(1e5),
					   .replicas = odd(8),
					   .gpus = below(2) ? odd(16) : 0,
					   .tp = below(2) ? odd(8) : 0,
					   .ep = below(2) ? odd(8) : 0 };

		if (!(w.step_s > 0) || w.step_s > 1e3 || w.step_s < 1e-6)
			w.step_s = 0.01;
		w.tp = w.gpus;
		for (unsigned j = 0; j < 8; j++)
			p[j] = (struct calibration_point){ odd(500), odd(1e11),
							   odd(1) };
		calibrate(p, 8, w.gpus * w.gpu_bw, &w.calibration);
		finite_at_least("BW", w.calibration.bw, 1);
		finite_at_least("t0", w.calibration.fixed_s, 0);
		traffic_uniform(&w.traffic, 128, 8);
		if (!whatif_at(&w, &c, &out) || out.limit == WHATIF_SHAPE)
			continue;
		finite_at_least("T", out.step_s, 1e-12);
		finite_at_least("T low", out.step_s_low, 0);
		finite_at_least("T high", out.step_s_high, out.step_s_low);
		finite_at_least("eta", out.shares.gain, 0);
		finite_at_least("tokens/s", out.tokens_per_s, 0);
		finite_at_least("cost", out.cost_ratio, 0);
	}
}

/* ---- the whole model -------------------------------------------------- */

static void random_rows(struct sample_rows *r)
{
	*r = (struct sample_rows){ .cells = odd(5000),
				   .rows = odd(1e6),
				   .active = odd(1e5),
				   .single = odd(1e5),
				   .twice = odd(1e5),
				   .sum_squares = odd(1e8),
				   .max_rows = odd(1e5),
				   .experts = odd(6e5),
				   .padded_rows = odd(1e5) };
}

static void random_window(struct sample_window *w)
{
	*w = (struct sample_window){ .windows = below(2),
				     .wall_ns = odd(2e9),
				     .busy_ns = odd(2e9),
				     .steps = { odd(500), odd(50) },
				     .step_ns = { odd(2e9), odd(1e9) },
				     .tokens = { odd(1e5), odd(1e5) },
				     .ranks = odd(8),
				     .rank_rows_max = odd(1e6),
				     .rank_active_max = odd(1e6),
				     .n_layers = below(49),
				     .end_ns = odd(1e13) };
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		w->group_ns[g] = odd(1e9);
	random_rows(&w->rows);
	random_rows(&w->prefill_rows);
	w->clusters = (struct sample_clusters){ odd(100), odd(1e5), odd(1e8),
						odd(1e5), odd(1e8), odd(1e8),
						odd(1e9), odd(1e9), odd(1e9) };
	for (unsigned l = 0; l < w->n_layers; l++) {
		struct sample_layer *a = &w->layers[l];

		a->steps = odd(500);
		a->block_ns = odd(1e8);
		a->group_ns[0] = odd(1e8);
		a->slowest_ns = odd(1e8);
		a->dram_bytes = odd(1e9);
		random_rows(&a->rows);
	}
	w->step_s = (struct sample_hist){ .n = 4,
					  .count = below(9),
					  .sum = odd(10),
					  .buckets = { below(9), below(9) },
					  .upper = { 0.01, 0.02, 0.1, 1 } };
}

static void random_sample(void)
{
	struct sample *in = &f->in;

	*in = (struct sample){
		.time = odd(2e9),
		.now_ns = odd(1e13),
		.interval_s = odd(5),
		.have_requests = below(2),
		.waiting = odd(100),
		.streaming = odd(1000),
		.started = odd(1e6),
		.d_started = odd(100),
		.d_events = odd(1e4),
		.have_agent = below(2),
		.d_decode_steps = odd(500),
		.d_eager_steps = odd(50),
		.d_padded_tokens = odd(1e5),
		.overhead = odd(1),
		.have_window = below(2),
		.window = &f->window,
		.have_dram = below(2),
		.dram_read = odd(1e13),
		.dram_write = odd(1e12),
		.tensor_active = odd(1),
		.have_peak = below(2),
		.peak_bw = odd(1e13),
		.have_scrape = below(2),
		.running = odd(1000),
		.queued = odd(1000),
		.d_generated_tokens = odd(1e5),
		.kv_tokens = odd(1e7),
		.kv_capacity_tokens = odd(1e7),
		.scrape_age_s = odd(30),
		.gpus = odd(16),
		.expert_rows = below(2) ? f->expert_rows : NULL,
		.expert_rows_n = below(2) ? 128 : 0,
	};
	random_window(&f->window);
	for (unsigned i = 0; i < 48 * 128; i += 1 + below(9))
		f->expert_rows[i] = below(1u << below(32));
	f->snap.target.tp = below(9);
	f->snap.target.ep = below(9);
}

static void check_what_ifs(void)
{
	assert_true(f->snap.n_what_if <= SNAPSHOT_WHAT_IF_MAX);
	for (unsigned i = 0; i < f->snap.n_what_if; i++) {
		const struct snapshot_what_if *w = &f->snap.what_if[i];

		known_is_finite("step", w->step_s);
		known_is_finite("cost", w->cost_ratio_high);
		known_is_finite("tokens/s", w->tokens_per_s_high);
		known_is_finite("U", w->active_experts);
	}
}

static void check_snapshot(void)
{
	const struct snapshot *s = &f->snap;

	for (unsigned i = 0; i < METRICS; i++)
		known_is_finite(metric_info[i].key, s->metrics[i]);
	for (unsigned i = 0; i < s->n_layers; i++)
		known_is_finite("layer", s->layers[i].fragmentation);
	for (unsigned i = 0; i < 7; i++)
		known_is_finite("group", s->group_share[i]);
	for (unsigned i = 0; i < s->n_findings; i++)
		known_is_finite("gain", s->findings[i].gain);
	for (unsigned i = 0; i < 3; i++) {
		if (strstr(s->verdict[i], "nan") ||
		    strstr(s->verdict[i], "inf ")) {
			print_error("%s\n", s->verdict[i]);
			fail();
		}
	}
	assert_true(isfinite(s->time) && isfinite(s->interval_s));
	check_what_ifs();
}

static void test_random_samples(void **state)
{
	static const struct arch odd_shapes[] = {
		{ .experts = 1,
		  .top_k = 1,
		  .moe_layers = 1,
		  .expert_bytes = 1 },
		{ .experts = 8,
		  .top_k = 8,
		  .moe_layers = 3,
		  .expert_bytes = 9,
		  .expert_params = 9,
		  .dense_bytes = 1,
		  .dense_params = 1 },
		{ .experts = 128, .top_k = 8, .moe_layers = 48 },
		{ .experts = 0 },
	};

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned shape = below(8);
		const struct arch *a = shape < 4   ? &odd_shapes[shape]
				       : shape < 7 ? &qwen
						   : NULL;

		random_sample();
		model_update(f->model, &f->in, a,
			     below(5) ? gpu_find("H200") : NULL, &f->snap);
		check_snapshot();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_edges_of_the_curves), T(test_edges_of_the_traffic),
		T(test_edges_of_histograms), T(test_random_what_ifs),
		T(test_random_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
