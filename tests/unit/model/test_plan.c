/* The laws of a plan, its edges, and what is refused. */
#include "tests/unit/model/plan_models.h"

#include <fenv.h>

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fabs(want))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

static void a_step_is_the_sum_of_its_parts(void **state)
{
	struct plan_input in = input_of("DeepSeek-V3");
	const double bw = 0.85 * 8 * 4800e9, flops = 0.6 * 8 * 1978.9e12;
	struct plan_point p;

	(void)state;
	in.gpu = gpu_find("H200");
	in.gpus = in.tp = 8;
	in.context_tokens = 4096;
	in.usd_per_gpu_hour = 3;
	plan_point_at(&in, 32, &p);
	near(p.cost.routed_bytes, 417157641650.9707, 1e-12);
	near(p.cost.kv_bytes, 9210691584, 1e-12);
	near(p.step_s,
	     (417157641650.9707 + in.arch.dense_bytes + 9210691584) / bw,
	     1e-12);
	near(p.tokens_per_s, 32 / p.step_s, 1e-12);
	near(p.usd_per_mtok, 8 * 3 / 3600.0 * p.step_s / 32 * 1e6, 1e-12);

	plan_point_at(&in, 65536, &p); /* both parts at their compute roof */
	near(p.step_s,
	     2 * 65536 * (58 * 8 * 44040192.0 + in.arch.dense_params) / flops +
		     65536.0 * 4096 * 70272 / bw,
	     1e-12);
	near(p.shares.expert, 0, 0);
}

static void every_copy_of_the_dense_weights_is_read(void **state)
{
	struct plan_input in = input_of("DeepSeek-V3");
	struct plan_point shared, copies;

	(void)state;
	in.gpus = in.ep = 8;
	in.tp = 8;
	plan_point_at(&in, 64, &shared);
	in.tp = 1;
	plan_point_at(&in, 64, &copies);
	near(copies.cost.dense_bytes, 8 * shared.cost.dense_bytes, 1e-15);
	near(copies.cost.routed_bytes, shared.cost.routed_bytes, 0);
	near(copies.step_s - shared.step_s,
	     7 * in.arch.dense_bytes / (0.85 * 8 * 3352e9), 1e-9);
}

static void layouts_are_completed(void **state)
{
	static const struct {
		double gpus, tp, ep, want_gpus, want_tp, want_ep;
	} good[] = {
		{ 0, 0, 0, 1, 1, 1 }, { 8, 0, 0, 8, 8, 1 },
		{ 0, 4, 0, 4, 4, 1 }, { 0, 0, 8, 8, 8, 8 },
		{ 0, 1, 8, 8, 1, 8 }, { 16, 8, 4, 16, 8, 4 },
	};
	double gpus = 6, tp = 4, ep = 0;

	(void)state;
	assert_int_equal(plan_layout(&gpus, &tp, &ep), -EINVAL);
	near(gpus + tp + ep, 10, 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		gpus = good[i].gpus, tp = good[i].tp, ep = good[i].ep;
		assert_int_equal(plan_layout(&gpus, &tp, &ep), 0);
		near(gpus, good[i].want_gpus, 0);
		near(tp, good[i].want_tp, 0);
		near(ep, good[i].want_ep, 0);
	}
}

static void weights_follow_their_type(void **state)
{
	const struct arch plain = arch_of("Mixtral-8x7B");
	static const struct {
		enum plan_dtype type;
		double expert, dense;
		enum compute_type compute;
	} want[] = {
		{ PLAN_DTYPE_CONFIG, 2, 2, COMPUTE_BF16 },
		{ PLAN_DTYPE_BF16, 2, 2, COMPUTE_BF16 },
		{ PLAN_DTYPE_FP8, 1.000244140625, 1.000244140625, COMPUTE_FP8 },
		{ PLAN_DTYPE_FP4, 0.5625, 2, COMPUTE_FP4 },
		{ PLAN_DTYPE_INT4, 0.515625, 2, COMPUTE_BF16 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct arch a = plain;

		plan_store_as(&a, want[i].type);
		near(a.expert_bytes, want[i].expert * a.expert_params, 1e-15);
		near(a.dense_bytes, want[i].dense * a.dense_params, 1e-15);
		assert_int_equal(a.compute, want[i].compute);
	}
}

static double skewed_index(const struct arch *a, double skew, double b)
{
	double u = valley_skewed_active(a->experts, a->top_k, skew, b);

	return u * u / b;
}

static void skew_makes_the_valley_longer(void **state)
{
	struct plan_input in = input_of("Qwen3-235B-A22B");
	const struct arch a = in.arch;
	struct plan_valley uniform, skewed, almost;

	(void)state;
	in.skew = VALLEY_SKEW_UNIFORM;
	plan_valley_of(&in, &uniform);
	in.skew = 0.855;
	plan_valley_of(&in, &skewed);
	assert_true(skewed.enter < uniform.enter);
	assert_true(skewed.floor < uniform.floor);
	assert_true(skewed.exit > 2 * uniform.exit);
	for (double off = 0.9; off < 1.15; off += 0.1)
		assert_true(skewed_index(&a, 0.855, skewed.floor) >=
			    skewed_index(&a, 0.855, skewed.floor * off) -
				    1e-12);
	assert_true(skewed_index(&a, 0.855, skewed.floor) >
		    skewed_index(&a, 0.855, skewed.floor * 1.1));
	in.skew = 0.99 * VALLEY_SKEW_UNIFORM;
	plan_valley_of(&in, &almost);
	near(almost.floor, uniform.floor, 1e-3);
	in.skew = VALLEY_SKEW_MIN;
	plan_valley_of(&in, &skewed);
	assert_true(skewed.enter >= 1);
	assert_true(skewed.floor >= skewed.enter);
	assert_true(skewed.exit >= skewed.floor);
}

static void all_experts_for_each_token_is_no_valley(void **state)
{
	struct plan_input in = input_of("Mixtral-8x7B");
	struct plan_valley v;
	struct plan_point p;

	(void)state;
	in.arch.top_k = in.arch.experts;
	plan_valley_of(&in, &v);
	near(v.enter + v.floor + v.exit, 0, 0);
	plan_point_at(&in, 4, &p);
	near(p.active, 8, 1e-15);
	near(p.single_row_ratio, 0, 0);
}

static void what_cannot_be_planned_is_refused(void **state)
{
	const double good[] = { 1, 8 }, bad[] = { 8, 0.5 };
	static struct model_plan p;
	struct plan_input in = input_of("Mixtral-8x7B"), odd = in;

	(void)state;
	p.n_points = 77;
	assert_int_equal(plan_make(&in, good, 0, &p), -EINVAL);
	assert_int_equal(plan_make(&in, good, PLAN_POINTS_MAX + 1, &p),
			 -EINVAL);
	assert_int_equal(plan_make(&in, bad, 2, &p), -EINVAL);
	odd.arch.experts = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENOTSUP);
	odd = in;
	odd.arch.expert_bytes = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENODATA);
	odd = in;
	odd.arch.kv_bytes_per_token = 0;
	odd.context_tokens = 1;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENODATA);
	assert_int_equal(p.n_points, 77);
	odd.context_tokens = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), 0);
	assert_int_equal(p.n_points, 2);
}

/* What cannot be divided by, or overflows, is not: the edges of every input
 * under the checks of the processor. */
static void no_floating_point_traps(void **state)
{
	static const double batches[] = { 1, 2, 1e6 };
	static const double skews[] = { VALLEY_SKEW_MIN, 0.855, 1e4,
					VALLEY_SKEW_UNIFORM };
	static const uint32_t shapes[][2] = {
		{ 2, 1 }, { 8, 8 }, { 16384, 1 }, { 512, 511 }, { 16384, 16384 }
	};
	static struct model_plan p;

	(void)state;
	feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned j = 0; j < 4; j++) {
			struct plan_input in = input_of("DeepSeek-V3");

			in.arch.experts = shapes[i][0];
			in.arch.top_k = shapes[i][1];
			in.skew = skews[j];
			in.gpus = in.tp = j % 2 ? PLAN_GPUS_MAX : 1;
			in.context_tokens = j % 2 ? 16777216 : 0;
			assert_int_equal(plan_make(&in, batches, 3, &p), 0);
			for (unsigned b = 0; b < 3; b++) {
				const struct plan_point *x = &p.points[b];

				assert_true(isfinite(x->step_s) &&
					    x->step_s > 0);
				assert_in_range((int)(x->shares.gain * 1e6), 0,
						1000000);
				assert_true(x->active <=
					    in.arch.experts * (1 + 1e-12));
			}
		}
	}
	fedisableexcept(FE_ALL_EXCEPT);
}

static void memory_decides_how_many_fit(void **state)
{
	struct plan_input in = input_of("Mixtral-8x7B");
	struct plan_memory m;

	(void)state;
	in.context_tokens = 1000;
	plan_memory_of(&in, &m); /* 93 GB of weights on 80 GB */
	assert_false(m.fits);
	near(m.room, 0, 0);
	in.gpus = in.tp = 2;
	plan_memory_of(&in, &m);
	assert_true(m.fits);
	near(m.weight_bytes,
	     (32 * 8 * in.arch.expert_bytes + in.arch.dense_bytes) / 2, 1e-12);
	near(m.sequence_bytes, 1000.0 * 2 * 8 * 128 * 2 * 32, 1e-12);
	near(m.room,
	     floor((0.9 * 160e9 - 2 * m.weight_bytes) / m.sequence_bytes), 0);
	in.arch.kv_top_tokens = 10; /* reads less, keeps all */
	plan_memory_of(&in, &m);
	near(m.sequence_bytes, 1000.0 * 2 * 8 * 128 * 2 * 32, 1e-12);
}

/* Sliding layers stop growing, sparse ones read what their index chose. */
static void caches_of_other_kinds(void **state)
{
	struct plan_input in = input_of("gpt-oss-120b");
	struct plan_point p;

	(void)state;
	in.arch.kv_window_bytes_per_token = 36864;
	in.arch.kv_window_tokens = 128;
	in.context_tokens = 100;
	plan_point_at(&in, 4, &p);
	near(p.cost.kv_bytes, 4 * 100 * (36864.0 + 36864), 1e-12);
	in.context_tokens = 1000;
	plan_point_at(&in, 4, &p);
	near(p.cost.kv_bytes, 4 * 36864.0 * (1000 + 128), 1e-12);
	in.arch.kv_element_bytes = 1;
	in.arch.kv_top_tokens = 200;
	in.arch.kv_index_bytes_per_token = 132;
	plan_point_at(&in, 4, &p);
	near(p.cost.kv_bytes, 4 * (36864 / 2.0 * (200 + 128) + 132 * 1000.0),
	     1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_the_sum_of_its_parts),
		cmocka_unit_test(every_copy_of_the_dense_weights_is_read),
		cmocka_unit_test(layouts_are_completed),
		cmocka_unit_test(weights_follow_their_type),
		cmocka_unit_test(skew_makes_the_valley_longer),
		cmocka_unit_test(all_experts_for_each_token_is_no_valley),
		cmocka_unit_test(what_cannot_be_planned_is_refused),
		cmocka_unit_test(no_floating_point_traps),
		cmocka_unit_test(memory_decides_how_many_fit),
		cmocka_unit_test(caches_of_other_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
