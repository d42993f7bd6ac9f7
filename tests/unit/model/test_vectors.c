/* Every number of the reference's vectors, and of more that it made of random
 * histograms, by the functions of model/. */
#include "model/balance.h"
#include "model/economics.h"
#include "model/extrapolate.h"
#include "model/hw.h"
#include "model/rows.h"
#include "model/traffic.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/model/vectors.h"

#define EXPERTS_MAX 512u

static json_t *more;

static int load_all(void **state)
{
	json_error_t error;

	if (load(state))
		return -1;
	more = json_load_file("tests/data/random_vectors.json", 0, &error);
	return more ? 0 : -1;
}

static int unload_all(void **state)
{
	json_decref(more);
	return unload(state);
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_number(v)) {
		print_error("no %s\n", key);
		fail();
	}
	return json_number_value(v);
}

static void near(const char *key, double got, double want, double rel)
{
	/* a difference of sums is as good as what it is taken of: 1 */
	if (fabs(got - want) <= rel * fmax(fabs(want), 1))
		return;
	print_error("%s: got %.17g, want %.17g\n", key, got, want);
	fail();
}

/* ---- one histogram ------------------------------------------------------- */

struct histogram {
	uint32_t rows[EXPERTS_MAX];
	unsigned n;
	double e, k, b;
	struct sample_rows sums;
	struct row_ratios ratios;
};

static void read_histogram(const json_t *v, struct histogram *h)
{
	const json_t *list = json_object_get(v, "rows_per_expert");

	memset(h, 0, sizeof(*h));
	h->n = (unsigned)json_array_size(list);
	assert_true(h->n > 0 && h->n <= EXPERTS_MAX);
	for (unsigned i = 0; i < h->n; i++)
		h->rows[i] =
			(uint32_t)json_integer_value(json_array_get(list, i));
	h->e = number(v, "E");
	h->k = number(v, "k");
	h->b = number(v, "B");
	rows_add_cell(&h->sums, h->rows, h->n);
	rows_ratios(&h->sums, SOURCE_MEASURED, &h->ratios);
}

struct expected {
	const char *key;
	double (*of)(const struct histogram *h);
	double rel;
};

#define OF(name, expression)                               \
	static double of_##name(const struct histogram *h) \
	{                                                  \
		return expression;                         \
	}

static double skew_of(const struct histogram *h)
{
	return valley_skew(h->e, h->k, h->b, h->sums.active);
}

OF(R, h->sums.rows)
OF(U, h->sums.active)
OF(F1, h->sums.single)
OF(F2, h->sums.twice)
OF(max, h->sums.max_rows)
OF(squares, h->sums.sum_squares)
OF(tiles, h->sums.rows / (16 * (1 - balance_tile_padding(h->rows, h->n, 16))))
OF(coverage, h->ratios.coverage.v)
OF(fragmentation, h->ratios.fragmentation.v)
OF(per_active, h->ratios.per_active.v)
OF(single, h->ratios.single.v)
OF(valley, h->ratios.valley.v)
OF(elasticity, h->ratios.elasticity.v)
OF(padding, balance_tile_padding(h->rows, h->n, 16))
OF(max_over_mean, h->sums.max_rows * h->sums.experts / h->sums.rows)
OF(gini, balance_gini(h->rows, h->n))
OF(entropy, rows_entropy(h->rows, h->n))
OF(n2, rows_effective_experts(h->rows, h->n))
OF(uniform, valley_active(h->e, h->k, h->b))
OF(uniform_s1,
   valley_single(h->e, h->k, h->b) / valley_active(h->e, h->k, h->b))
OF(engine_bound, fmin(h->b * h->k, h->e))
OF(half, valley_rarefied(h->rows, h->n, (uint32_t)h->b, (uint32_t)h->b / 2))
OF(one_less, valley_rarefied(h->rows, h->n, (uint32_t)h->b, (uint32_t)h->b - 1))
OF(chao2, extrapolate_chao2(h->e, h->sums.active, h->sums.single, h->sums.twice,
			    h->b, 2 * h->b))
OF(skew, skew_of(h))
OF(skewed, valley_skewed_active(h->e, h->k, skew_of(h), 4 * h->b))
OF(skewed_f1, valley_skewed_single(h->e, h->k, skew_of(h), 4 * h->b))
OF(equal, extrapolate_equal_experts(h->e, h->k, h->b, h->sums.active))
OF(tiles_uniform, balance_uniform_tiles(h->e, h->k, h->b, 16))

static double of_good_toulmin(const struct histogram *h)
{
	double raw;

	extrapolate_good_toulmin(h->rows, h->n, h->b, 2 * h->b, &raw);
	return raw;
}

/* The reference loses digits in lgamma, the more the larger its arguments; and
 * a of a nearly uniform histogram hangs on the last digits of U. */
#define LGAMMA 1e-9
#define BISECTED 1e-6

static const struct expected expected[] = {
	{ "R", of_R, 0 },
	{ "U", of_U, 0 },
	{ "F1", of_F1, 0 },
	{ "F2", of_F2, 0 },
	{ "r_max", of_max, 0 },
	{ "sum_squares", of_squares, 0 },
	{ "tiles_bm16", of_tiles, REL },
	{ "coverage", of_coverage, REL },
	{ "fragmentation", of_fragmentation, REL },
	{ "rows_per_active", of_per_active, REL },
	{ "single_row_share", of_single, REL },
	{ "valley_index", of_valley, REL },
	{ "elasticity_expert", of_elasticity, REL },
	{ "tile_padding_16", of_padding, REL },
	{ "max_over_mean_load", of_max_over_mean, REL },
	{ "gini", of_gini, REL },
	{ "entropy_normalised", of_entropy, REL },
	{ "effective_experts_N2_unbiased", of_n2, REL },
	{ "U_uniform_expected", of_uniform, REL },
	{ "s1_uniform_expected", of_uniform_s1, REL },
	{ "U_vllm_upper_bound", of_engine_bound, 0 },
	{ "rarefied_U_half_B", of_half, REL },
	{ "rarefied_U_B_minus_1", of_one_less, REL },
	{ "good_toulmin_U_2B", of_good_toulmin, REL },
	{ "chao2_U_2B", of_chao2, REL },
	{ "betabinom_a", of_skew, BISECTED },
	{ "betabinom_U_4B", of_skewed, LGAMMA },
	{ "betabinom_F1_4B", of_skewed_f1, BISECTED },
	{ "E_eff", of_equal, LGAMMA },
	{ "tiles_uniform_16", of_tiles_uniform, LGAMMA },
};

/* Rows of another histogram, of another function's test, or inputs. */
static const char *const others[] = { "rows_per_expert",
				      "E",
				      "k",
				      "B",
				      "eb",
				      "inputs",
				      "ep4_rows",
				      "ep4_active",
				      "ep4_imbalance_rows",
				      "ep4_imbalance_active",
				      "moe_bytes",
				      "mbu_moe_model",
				      "moe_flops",
				      "mfu_moe",
				      "floor_us",
				      "headroom" };

static bool is_other(const char *key)
{
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i], key) == 0)
			return true;
	return false;
}

/* clamp: N2 is shown up to E.  1e5 of the reference is not uniform routing to
 * the last digit, here it is. */
static void check_value(const char *key, double want, const struct histogram *h)
{
	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct expected *x = &expected[i];

		if (strcmp(x->key, key) != 0)
			continue;
		if (x->of == of_n2)
			want = fmin(want, h->e);
		if (x->of == of_skewed && skew_of(h) >= VALLEY_SKEW_UNIFORM)
			near(key, x->of(h), want, 1e-5);
		else if (!(x->of == of_n2 && h->sums.rows < 2))
			near(key, x->of(h), want, x->rel);
		return;
	}
	print_error("nothing computes %s\n", key);
	fail();
}

static void check_histogram(json_t *v)
{
	struct histogram h;
	const char *key;
	json_t *x;

	read_histogram(v, &h);
	json_object_foreach(v, key, x)
	{
		if (!is_other(key))
			check_value(key, json_number_value(x), &h);
	}
}

static void test_histograms_of_the_reference(void **state)
{
	(void)state;
	check_histogram(json_object_get(vectors, "ex1_tiny_8_2_B4"));
	check_histogram(json_object_get(vectors, "ex3_128_8_B16_H100"));
}

static void test_random_histograms(void **state)
{
	const json_t *list = json_object_get(more, "vectors");

	(void)state;
	assert_true(json_array_size(list) >= 20);
	for (size_t i = 0; i < json_array_size(list); i++)
		check_histogram(json_array_get(list, i));
}

/* ---- empirical Bayes -------------------------------------------------- */

/* Experts with as many rows are one bin. */
static void traffic_of(const struct histogram *h, double a, double tokens,
		       struct traffic *t)
{
	traffic_uniform(t, h->e, h->k);
	t->basis = TRAFFIC_POPULARITY;
	t->skew = a;
	t->tokens = tokens;
	for (unsigned i = 0; i < h->n; i++) {
		double q = h->rows[i] / h->b;
		unsigned b = 0;

		while (b < t->n && t->bins[b].q != q)
			b++;
		assert_true(b < TRAFFIC_BINS);
		t->n = b == t->n ? b + 1 : t->n;
		t->bins[b].q = q;
		t->bins[b].experts += 1;
	}
}

static void test_empirical_bayes(void **state)
{
	const json_t *list = json_object_get(more, "vectors");
	unsigned checked = 0;

	(void)state;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		const json_t *eb = json_object_get(v, "eb"), *at;
		struct histogram h;
		struct traffic t;

		if (!eb)
			continue;
		read_histogram(v, &h);
		traffic_of(&h, number(eb, "a"), number(eb, "tokens"), &t);
		at = json_object_get(eb, "at");
		for (size_t j = 0; j < json_array_size(at); j++) {
			double b = json_number_value(json_array_get(at, j));
			const json_t *u = json_object_get(eb, "U");

			near("eb", traffic_active(&t, b),
			     json_number_value(json_array_get(u, j)), LGAMMA);
			checked++;
		}
		t.unanchored = traffic_active(&t, h.b);
		t.batch = h.b;
		t.active = h.sums.active;
		for (size_t j = 0; j < json_array_size(at); j++) {
			double b = json_number_value(json_array_get(at, j));
			const json_t *u = json_object_get(eb, "anchored");

			near("anchored", traffic_active(&t, b),
			     json_number_value(json_array_get(u, j)), LGAMMA);
		}
	}
	assert_true(checked >= 32);
}

/* ---- ranks, kernels, constants ------------------------------------------- */

static unsigned doubles(const json_t *list, double *out)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		out[i] = json_number_value(json_array_get(list, i));
	return (unsigned)json_array_size(list);
}

static void test_ranks(void **state)
{
	const json_t *v = json_object_get(vectors, "ex1_tiny_8_2_B4");
	double rows[8], active[8];
	unsigned n = doubles(json_object_get(v, "ep4_rows"), rows);
	struct balance b;

	(void)state;
	assert_int_equal(doubles(json_object_get(v, "ep4_active"), active), n);
	balance_ranks(rows, active, n, &b);
	near("I_R", b.rows, number(v, "ep4_imbalance_rows"), REL);
	near("I_U", b.active, number(v, "ep4_imbalance_active"), REL);
}

static void test_one_kernel(void **state)
{
	const json_t *v = json_object_get(vectors, "ex3_128_8_B16_H100");
	const json_t *in = json_object_get(v, "inputs");
	double w = number(in, "bytes_per_expert");
	const struct arch a = { .moe_layers = 1,
				.top_k = 8,
				.expert_bytes = w,
				.expert_params = w,
				.compute = COMPUTE_FP8 };
	struct step_cost c;
	struct machine m;
	double s = number(in, "kernel_s"), floor_s;

	(void)state;
	economics_machine(gpu_find("H100"), 1, 0, COMPUTE_FP8, &m);
	near("peak", m.bw, number(in, "peak_bw_Bps"), REL);
	near("peak", m.flops, number(in, "peak_fp8_flops"), REL);
	economics_cost(&a, number(v, "B"), number(v, "U"), 0, &c);
	near("moe_bytes", c.routed_bytes, number(v, "moe_bytes"), REL);
	near("moe_flops", c.routed_flop, number(v, "moe_flops"), REL);
	near("mbu", c.routed_bytes / s / m.bw, number(v, "mbu_moe_model"), REL);
	near("mfu", c.routed_flop / s / m.flops, number(v, "mfu_moe"), REL);
	floor_s = c.routed_bytes / m.bw;
	near("floor", floor_s * 1e6, number(v, "floor_us"), REL);
	near("headroom", s / floor_s, number(v, "headroom"), REL);
}

/* What test_economics leaves out of the step of DeepSeek-V3. */
static void test_the_rest_of_the_step(void **state)
{
	const json_t *v =
		json_object_get(vectors, "ex2_deepseek_v3_8xH200_B32");
	const json_t *in = json_object_get(v, "inputs");
	double w = number(in, "routed_params_per_expert"), b = number(in, "B");
	double time_bw = number(in, "step_s") * number(in, "gpus") *
			 number(in, "peak_bw_Bps");
	double dram = number(in, "dram_bytes_counter_all_gpus"), all, kv;
	const struct arch a = { .experts = 256,
				.top_k = 8,
				.moe_layers = 58,
				.expert_bytes = w,
				.expert_params = w,
				.dense_bytes = number(in, "dense_params"),
				.dense_params = number(in, "dense_params") };
	struct step_cost c;

	(void)state;
	kv = number(in, "ctx") * number(in, "kv_bytes_per_token");
	economics_cost(&a, b, valley_active(256, 8, b), b * kv, &c);
	all = c.routed_bytes + c.dense_bytes + c.kv_bytes;
	near("mbu", dram / time_bw, number(v, "mbu_measured"), REL);
	near("amp", dram / all, number(v, "read_amplification"), REL);
	near("share", c.routed_bytes / all, number(v, "share_routed"), REL);
	near("share", c.dense_bytes / all, number(v, "share_dense"), REL);
	near("per token", all / b, number(v, "bytes_per_token"), REL);
	near("tok/s", b / number(in, "step_s"), number(v, "tokens_per_s"), REL);
	near("ridge", number(v, "ridge_rows_fp8") * a.experts / a.top_k,
	     number(v, "B_ridge"), REL);
	/* what it would be if all experts were read: never shown */
	economics_cost(&a, b, 256, b * kv, &c);
	all = c.routed_bytes + c.dense_bytes + c.kv_bytes;
	near("all", all / time_bw, number(v, "mbu_databricks_total_params"),
	     REL);
	near("all", all / time_bw, number(v, "mbu_if_vllm_upper_bound"), REL);
	economics_cost(&a, 1, valley_active(256, 8, 1), kv, &c);
	near("solo", c.routed_bytes + c.dense_bytes + c.kv_bytes,
	     number(v, "bytes_per_token_solo"), REL);
}

static void test_at_the_floor(void **state)
{
	const json_t *v = json_object_get(vectors, "constants");
	double x = VALLEY_FLOOR_X;

	(void)state;
	near("phi", -expm1(-x) / x, number(v, "fragmentation_at_floor"), REL);
	near("V", expm1(-x) * expm1(-x) / x, number(v, "V_peak"), REL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_histograms_of_the_reference),
		cmocka_unit_test(test_random_histograms),
		cmocka_unit_test(test_empirical_bayes),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_one_kernel),
		cmocka_unit_test(test_the_rest_of_the_step),
		cmocka_unit_test(test_at_the_floor),
	};

	return cmocka_run_group_tests(tests, load_all, unload_all);
}
