/* Shares, bandwidth and cost against the published vectors, and edges. */
#include "model/economics.h"
#include "model/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "model/valley.h"

#include "tests/unit/model/vectors.h"

static double number(const char *key)
{
	const json_t *v =
		json_object_get(vectors, "ex2_deepseek_v3_8xH200_B32");
	const json_t *x = json_object_get(v, key);

	if (!x)
		x = json_object_get(json_object_get(v, "inputs"), key);
	assert_true(json_is_number(x));
	return json_number_value(x);
}

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fmax(fabs(want), 1e-300))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

/* DeepSeek-V3 on eight H200, 32 tokens of 4096 context. */
static struct arch deepseek(void)
{
	return (struct arch){
		.experts = 256,
		.top_k = 8,
		.layers = 61,
		.moe_layers = 58,
		.expert_params = number("routed_params_per_expert"),
		.expert_bytes = number("routed_params_per_expert"),
		.dense_params = number("dense_params"),
		.dense_bytes = number("dense_params"),
		.kv_bytes_per_token = number("kv_bytes_per_token"),
		.compute = COMPUTE_FP8,
	};
}

static void test_deepseek_vector(void **state)
{
	const struct gpu *h200 = gpu_find("H200");
	struct arch a = deepseek();
	double b = number("B"), step = number("step_s"), all;
	struct step_shares shares;
	struct step_cost c;
	struct machine m;

	(void)state;
	near(h200->bw, number("peak_bw_Bps"), REL);
	economics_machine(h200, number("gpus"), 0, a.compute, &m);
	near(m.flops, 8 * number("peak_fp8_flops"), REL);
	economics_cost(&a, b, valley_active(256, 8, b),
		       b * number("ctx") * a.kv_bytes_per_token, &c);
	near(c.routed_bytes, number("routed_bytes"), REL);
	near(c.dense_bytes, number("dense_bytes"), REL);
	near(c.kv_bytes, number("kv_bytes"), REL);
	all = c.routed_bytes + c.dense_bytes + c.kv_bytes;
	near(all, number("necessary_bytes"), REL);
	near(all / (step * m.bw), number("mbu_model"), REL);
	near(arch_flops_per_token(&a),
	     number("useful_flops_per_token_excl_attention"), REL);
	near(b / step * arch_flops_per_token(&a) / m.flops, number("mfu"), REL);
	near(economics_ridge_rows(&m, number("bytes_per_weight")),
	     number("ridge_rows_fp8"), REL);
	near(economics_usd_per_mtok(number("gpus"), number("usd_per_gpu_hour"),
				    b / step),
	     number("usd_per_Mtok"), REL);
	/* on the basis of bytes: a step that is nothing but its reads */
	assert_true(economics_shares(
		&c, &m, valley_single(256, 8, b) / valley_active(256, 8, b),
		all / m.bw_achieved, NAN, &shares));
	near(shares.expert, number("sigma_expert_bytes_basis"), REL);
	near(shares.kv, number("share_kv"), REL);
	near(shares.gain, number("eta_sys_bytes_basis"), REL);
	assert_true(shares.compute == 0);
}

static void test_measured_expert_time_limits_the_share(void **state)
{
	struct machine m = { .bw = 1e12, .bw_achieved = 1e12 };
	struct step_cost c = { .routed_bytes = 8e9, .dense_bytes = 1e9 };
	struct step_shares s;

	(void)state;
	assert_true(economics_shares(&c, &m, 0.5, 0.010, NAN, &s));
	near(s.expert, 0.4, REL);
	near(s.gain, 0.6, REL);
	assert_true(economics_shares(&c, &m, 0.5, 0.010, 0.006, &s));
	near(s.expert, 0.3, REL);
	assert_true(economics_shares(&c, &m, 0.5, 0.004, NAN, &s));
	near(s.expert, 0.5, REL); /* never more than the step */
}

static void test_compute_bound_experts_share_their_reads(void **state)
{
	struct machine m = { .bw = 1e12,
			     .bw_achieved = 1e12,
			     .flops = 1e14,
			     .flops_achieved = 1e14 };
	struct step_cost c = { .routed_bytes = 1e9,
			       .routed_flop = 5e11,
			       .dense_bytes = 1e9,
			       .dense_flop = 3e11 };
	struct step_shares s;

	(void)state;
	assert_true(economics_shares(&c, &m, 0.5, 0.010, NAN, &s));
	assert_true(s.expert == 0);
	near(s.compute, 0.8, REL);
	near(economics_step_seconds(&c, &m), 0.008, REL);
	near(s.gain, 0.2, REL);
}

static void test_unknown_inputs(void **state)
{
	struct machine none = { 0 }, m = { .bw = 1e12, .bw_achieved = 1e12 };
	struct step_cost c = { .routed_bytes = 1e9, .dense_bytes = 1e9 };
	struct step_shares s;

	(void)state;
	assert_false(economics_shares(&c, &none, 1, 0.01, NAN, &s));
	assert_false(economics_shares(&c, &m, 1, 0, NAN, &s));
	assert_false(economics_shares(&c, &m, 1, NAN, NAN, &s));
	assert_false(economics_shares(&(struct step_cost){ 0 }, &m, 1, 0.01,
				      NAN, &s));
	/* an unknown GPU, but the expert kernels were timed */
	assert_true(economics_shares(&c, &none, 0.5, 0.01, 0.004, &s));
	near(s.expert, 0.2, REL);
	assert_true(economics_step_seconds(&c, &none) == 0);
	assert_true(economics_usd_per_mtok(8, 3, 0) == 0);
	assert_true(economics_ridge_rows(&none, 2) == 0);
}

static void test_nvml_overrules_the_data_sheet(void **state)
{
	struct machine m;

	(void)state;
	economics_machine(gpu_find("H200"), 2, 4917e9, COMPUTE_BF16, &m);
	near(m.bw, 2 * 4917e9, REL);
	economics_machine(NULL, 2, 4917e9, COMPUTE_BF16, &m);
	near(m.bw, 2 * 4917e9, REL);
	assert_true(m.flops == 0);
	economics_machine(NULL, 0, 0, COMPUTE_BF16, &m);
	assert_true(m.bw == 0);
}

/* ---- quantiles -------------------------------------------------------- */

static struct sample_hist hist;

/* 16 buckets an octave from 1 us, as the request tracker has them. */
static void fill_hist(double (*value)(unsigned i), unsigned n)
{
	hist = (struct sample_hist){ .n = 480 };
	for (unsigned i = 0; i < hist.n; i++)
		hist.upper[i] = 1e-6 * exp2(i / 16) * (1 + (i % 16 + 1) / 16.0);
	for (unsigned i = 0; i < n; i++) {
		unsigned b = 0;

		while (b + 1 < hist.n && hist.upper[b] < value(i))
			b++;
		hist.buckets[b]++;
		hist.count++;
		hist.sum += value(i);
	}
}

static double spread(unsigned i)
{
	return 0.001 + 0.00001 * i; /* 1 ms .. 101 ms */
}

static void test_quantiles_within_five_percent(void **state)
{
	struct snapshot_hist view;

	(void)state;
	fill_hist(spread, 10000);
	near(hist_quantile(&hist, 0.5), spread(5000), 0.05);
	near(hist_quantile(&hist, 0.9), spread(9000), 0.05);
	near(hist_quantile(&hist, 0.99), spread(9900), 0.05);
	hist_view(&hist, SOURCE_MEASURED, &view);
	near(view.count.v, 10000, 0);
	near(view.sum.v, hist.sum, 0);
	near(view.p50.v, spread(5000), 0.05);
}

static void test_no_count_is_lost_where_buckets_are_merged(void **state)
{
	struct snapshot_hist view;
	uint64_t count = 0;
	double upper = 0;

	(void)state;
	hist = (struct sample_hist){ .n = 400 };
	for (unsigned i = 0; i < hist.n; i++) {
		hist.upper[i] = i + 1.0;
		hist.buckets[i] = i % 5;
	}
	hist_view(&hist, SOURCE_MEASURED, &view);
	assert_true(view.n_buckets <= SNAPSHOT_BUCKETS_MAX);
	assert_true(view.n_buckets == 160);
	for (unsigned i = 0; i < view.n_buckets; i++) {
		assert_true(view.buckets[i].upper > upper);
		upper = view.buckets[i].upper;
		count += view.buckets[i].count;
	}
	assert_int_equal(count, 800);
	assert_true(upper == 400);
}

static void test_empty_histogram(void **state)
{
	struct snapshot_hist view;

	(void)state;
	hist = (struct sample_hist){ .n = 3, .upper = { 1, 2, 3 } };
	hist_view(&hist, SOURCE_MEASURED, &view);
	assert_true(value_known(view.count) && view.count.v == 0);
	assert_false(value_known(view.p50));
	hist_view(NULL, SOURCE_MEASURED, &view);
	assert_false(value_known(view.count));
	hist.buckets[1] = 4;
	hist.n = 100000; /* more than there is room for */
	assert_true(hist_quantile(&hist, 1) == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deepseek_vector),
		cmocka_unit_test(test_measured_expert_time_limits_the_share),
		cmocka_unit_test(test_compute_bound_experts_share_their_reads),
		cmocka_unit_test(test_unknown_inputs),
		cmocka_unit_test(test_nvml_overrules_the_data_sheet),
		cmocka_unit_test(test_quantiles_within_five_percent),
		cmocka_unit_test(
			test_no_count_is_lost_where_buckets_are_merged),
		cmocka_unit_test(test_empty_histogram),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
