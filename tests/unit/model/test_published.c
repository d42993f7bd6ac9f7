/* Published measurements against the model: `make published` prints the tables.
 * Every prediction is made here by the model's own functions, compared to that of
 * the reference arithmetic, and its error bounded by what has been stated. */
#include "tests/unit/model/published.h"

#define SAID(...) printf("# " __VA_ARGS__)

/* ---- kernels: t = t0 + U(B) w / (beta BW), calibrated on two batches ----- */

static const struct kernel {
	const char *source, *gpu;
	double e, k, weights, bytes;
	double above;              /* batches up to here are out of its reach */
	double stated, stated_min; /* mean error in %, uniform and min(Bk, E) */
} kernels[] = {
	{ "vllm#24700 (tuned", "H100-SXM", 8, 2, 3 * 4096.0 * 7168, 2, 0, 2.2,
	  8.0 },
	{ "vllm#24700 (PR", "H100-SXM", 128, 8, 3 * 2048.0 * 768, 1, 0, 2.9,
	  11.8 },
	{ "vllm#24700 (main", "H100-SXM", 128, 8, 3 * 2048.0 * 768, 1, 0, 4.6,
	  12.5 },
	{ "sglang#11730", "H200-SXM", 128, 8, 3 * 4096.0 * 192, 1, 0, 4.4,
	  11.9 },
	{ "vllm#53710", "L40S", 128, 8, 3 * 2048.0 * 768, 1, 3, 2.0, 18.4 },
	{ "vllm#40542", "A100-80GB-SXM", 64, 6, 3 * 2048.0 * 1408, 2, 0, 10.0,
	  20.5 },
	{ "vllm#55511", "A100-80GB-PCIe", 256, 8, 3 * 3072.0 * 512, 2, 0, 2.0,
	  9.2 },
	{ "vllm#44818", "H200-SXM", 128, 8, 3 * 2816.0 * 704, 2, 9, 2.1, 9.4 },
};

#define KERNEL_BATCH_MAX 256

static double touched(const struct kernel *t, double b, bool at_most)
{
	return at_most ? fmin(b * t->k, t->e) : valley_active(t->e, t->k, b);
}

static bool in_reach(const struct kernel *t, const struct published *r)
{
	return strstr(r->source, t->source) && r->b > t->above &&
	       r->b <= KERNEL_BATCH_MAX;
}

/* Time without experts and time of one, through the first batch and 64, or the
 * last where there is no 64. */
static void calibrate(const struct kernel *t, bool at_most, double *t0,
		      double *per_expert, const struct published **lo,
		      const struct published **hi)
{
	*lo = *hi = NULL;
	for (unsigned i = 0; i < n_rows; i++) {
		const struct published *r = &rows[i];

		if (!in_reach(t, r))
			continue;
		if (!*lo)
			*lo = r;
		if (!*hi || (*hi)->b != 64)
			*hi = r;
	}
	assert_non_null(*lo);
	if (touched(t, (*hi)->b, at_most) <= touched(t, (*lo)->b, at_most)) {
		*t0 = 0; /* all experts in both: nothing to tell them apart */
		*per_expert = (*hi)->value / touched(t, (*hi)->b, at_most);
		return;
	}
	*per_expert =
		((*hi)->value - (*lo)->value) /
		(touched(t, (*hi)->b, at_most) - touched(t, (*lo)->b, at_most));
	*t0 = (*lo)->value - *per_expert * touched(t, (*lo)->b, at_most);
}

/* Mean error of what was not calibrated on, in %. */
static double mean_error(const struct kernel *t, bool at_most, double *t0,
			 double *per_expert)
{
	const struct published *lo, *hi;
	double sum = 0, n = 0;

	calibrate(t, at_most, t0, per_expert, &lo, &hi);
	for (unsigned i = 0; i < n_rows; i++) {
		struct published *r = &rows[i];
		double us = *t0 + *per_expert * touched(t, r->b, at_most);

		if (!strstr(r->source, t->source))
			continue;
		if (!at_most)
			r->ours = us;
		if (!in_reach(t, r) || r == lo || r == hi)
			continue;
		sum += fabs(us / r->value - 1);
		n++;
	}
	return 100 * sum / n;
}

static void kernel_tables(void **state)
{
	(void)state;
	SAID("Kernel tables, 2 batches calibrated, the others up to 256 "
	     "predicted\n");
	SAID("%-18s %-15s %6s %5s %8s %8s %10s\n", "source", "GPU", "t0 us",
	     "beta", "error %", "stated", "min(Bk,E)");
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		const struct kernel *t = &kernels[i];
		double bw = gpu_find(t->gpu)->bw / 1e6, t0, one, at0, at_one;
		double got = mean_error(t, false, &t0, &one);
		double min = mean_error(t, true, &at0, &at_one);

		SAID("%-18s %-15s %6.1f %5.3f %8.1f %8.1f %10.1f\n", t->source,
		     t->gpu, t0, t->weights * t->bytes / one / bw, got,
		     t->stated, min);
		assert_true(got < t->stated + 0.05);
		assert_true(fabs(min - t->stated_min) < 0.051);
		assert_true(got < min);
	}
}

#define ELASTICITY_BATCH_MAX 96 /* nothing changes above */

/* d ln t / d ln B between neighbours, against F1/U. */
static void elasticity(void **state)
{
	const struct kernel *t = &kernels[1];
	const struct published *lo, *hi, *before = NULL;
	double t0, one, sum = 0, n = 0, least = 1, least_batch = 0;

	(void)state;
	calibrate(t, false, &t0, &one, &lo, &hi);
	for (unsigned i = 0; i < n_rows; i++) {
		const struct published *r = &rows[i];

		if (!in_reach(t, r) || r->b > ELASTICITY_BATCH_MAX)
			continue;
		if (before) {
			double mid = sqrt(before->b * r->b);
			double u = valley_active(t->e, t->k, mid);
			double s1 = valley_single(t->e, t->k, mid) / u;
			double measured = 1 - log(r->value / before->value) /
						      log(r->b / before->b);

			sum += fabs(measured -
				    (1 - s1 * one * u / (t0 + one * u)));
			n++;
			if (measured < least) {
				least = measured;
				least_batch = mid;
			}
		}
		before = r;
	}
	SAID("Marginal gain of a kernel, %s: mean error %.3f (stated 0.045), "
	     "least %.2f at B = %.1f\n",
	     t->source, sum / n, least, least_batch);
	assert_true(sum / n < 0.0455);
	assert_true(least_batch > 4 && least_batch < 8);
}

/* ---- a whole server: llama.cpp and vLLM on DGX Spark ---------------------- */

#define SPARK_BW 273e9

struct spark {
	const char *row, *model;
	double weight, rest; /* bytes per weight; 0: as it is */
	double window;       /* KV bytes of the sliding layers of a sequence */
	double stated16, stated32; /* error in %, stated */
};

static const struct spark sparks[] = {
	{ "gpt-oss-20b", "gpt-oss-20b", 0, 1.0625, 12 * 2 * 8 * 64 * 2 * 128.0,
	  -5.6, 5.8 },
	{ "gpt-oss-120b", "gpt-oss-120b", 0, 1.0625,
	  18 * 2 * 8 * 64 * 2 * 128.0, -13.0, -9.9 },
	{ "Qwen3-30B-A3B (Coder", "Qwen3-30B-A3B", 1.0625, 1.0625, 0, -9.7,
	  -7.4 },
};

static struct arch spark_arch(const struct spark *s)
{
	struct arch a = arch_of(s->model);

	if (s->weight > 0)
		a.expert_bytes = a.expert_params * s->weight;
	a.dense_bytes = a.dense_params * s->rest;
	return a;
}

/* Seconds of a step by bytes alone. */
static double step_of(const struct arch *a, double b, double skew, double kv,
		      double bw)
{
	double u = valley_skewed_active(a->experts, a->top_k, skew, b);
	const struct machine m = { .bw = bw, .bw_achieved = bw };
	struct step_cost c;

	economics_cost(a, b, u, b * kv, &c);
	return economics_step_seconds(&c, &m);
}

static struct published *spark_row(const char *model, double b, int ctx)
{
	char metric[40];
	struct published *r;

	snprintf(metric, sizeof(metric), "throughput_ctx%d", ctx);
	r = find_row("llama.cpp", model, metric, b);
	assert_non_null(r);
	return r;
}

/* What a dense 7B model in Q8_0 reaches at B = 1. */
static double spark_bandwidth(void)
{
	double bytes = (7.616e9 - 152064.0 * 3584) * 1.0625;

	return bytes * spark_row("Qwen2.5-7B", 1, 512)->value;
}

static double spark_kv(const struct spark *s, const struct arch *a)
{
	return 528 * a->kv_bytes_per_token + s->window;
}

/* The skew that fits B = 4 and 8 best, of a grid. */
static double fit_skew(const struct spark *s, const struct arch *a, double bw)
{
	double best = INFINITY, best_skew = 0;

	for (int i = -40; i <= 60; i++) {
		double skew = pow(10, i / 20.0), error = 0;

		for (double b = 4; b <= 8; b *= 2) {
			double t = b / spark_row(s->row, b, 512)->value;

			error += pow(
				step_of(a, b, skew, spark_kv(s, a), bw) / t - 1,
				2);
		}
		if (error < best) {
			best = error;
			best_skew = skew;
		}
	}
	return best_skew;
}

static void skew_fitted_to_a_server(void **state)
{
	static const double batches[] = { 1, 2, 4, 8, 16, 32 };
	double bw = spark_bandwidth();

	(void)state;
	SAID("llama.cpp on DGX Spark, context 512: skew fitted on B = 4 and 8, "
	     "%.0f GB/s by a dense model; error in %%\n",
	     bw / 1e9);
	SAID("%-22s %5s  B=1 %6s %6s %6s %6s %6s\n", "model", "skew", "2", "4",
	     "8", "16", "32");
	for (unsigned i = 0; i < 3; i++) {
		const struct spark *s = &sparks[i];
		const struct arch a = spark_arch(s);
		double skew = fit_skew(s, &a, bw), error[6];

		for (unsigned b = 0; b < 6; b++) {
			struct published *r =
				spark_row(s->row, batches[b], 512);

			r->ours = r->b /
				  step_of(&a, r->b, skew, spark_kv(s, &a), bw);
			error[b] = 100 * error_of(r);
		}
		SAID("%-22s %5.2f %+5.0f %+6.0f %+6.0f %+6.0f %+6.1f %+6.1f\n",
		     s->row, skew, error[0], error[1], error[2], error[3],
		     error[4], error[5]);
		assert_true(fabs(error[4]) < fabs(s->stated16) + 0.05);
		assert_true(fabs(error[5]) < fabs(s->stated32) + 0.05);
	}
}

/* From context 512 to 8192 at the same batch: only the cache grows. */
static void cache_term(void **state)
{
	static const struct {
		const char *row, *model;
		double kv;
	} caches[] = { { "gpt-oss-20b", "gpt-oss-20b", 0 },
		       { "gpt-oss-120b", "gpt-oss-120b", 0 },
		       { "Qwen3-30B-A3B (Coder", "Qwen3-30B-A3B", 0 },
		       { "Qwen2.5-7B", NULL, 2 * 4 * 128 * 2 * 28 } };
	double bw = spark_bandwidth(), low = 0, high = -1;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		double kv =
			caches[i].model
				? arch_of(caches[i].model).kv_bytes_per_token
				: caches[i].kv;

		for (double b = 1; b <= 32; b = b == 1 ? 8 : b * 4) {
			double t0 = b / spark_row(caches[i].row, b, 512)->value;
			double t1 =
				b / spark_row(caches[i].row, b, 8192)->value;
			double e = (t0 + b * kv * (8192 - 512) / bw) / t1 - 1;

			low = fmin(low, e);
			high = fmax(high, e);
		}
	}
	SAID("KV cache from context 512 to 8192: errors %+.0f .. %+.0f %% "
	     "(stated -11 .. 0)\n",
	     100 * low, 100 * high);
	assert_true(low > -0.115 && high < 0.005);
}

static double topology(double b)
{
	for (unsigned i = 0; i < n_rows; i++)
		if (!strcmp(rows[i].hardware, "DGX Spark solo") &&
		    rows[i].b == b)
			return rows[i].value;
	fail();
	return 0;
}

static double kubis_step(const struct arch *a, double c, double skew)
{
	double kv = 1100 * a->kv_bytes_per_token / 2 + sparks[1].window;

	return step_of(a, c, skew, kv, 0.85 * SPARK_BW);
}

/* t0 and the skew by concurrency 2, 4 and 8: the others are predicted. */
static void fixed_time_and_skew_of_vllm(void **state)
{
	struct arch a = arch_of("gpt-oss-120b");
	double best = INFINITY, skew = 0, t0 = 0;

	(void)state;
	a.dense_bytes = a.dense_params * 0.53125;
	for (int i = -40; i <= 80; i++) {
		for (int j = 0; j < 60; j++) {
			double s = pow(10, i / 20.0), fixed = j * 0.25e-3;
			double e = 0;

			for (double c = 2; c <= 8; c *= 2)
				e += pow((fixed + kubis_step(&a, c, s)) /
							 (c / topology(c)) -
						 1,
					 2);
			if (e < best)
				best = e, skew = s, t0 = fixed;
		}
	}
	SAID("vLLM on DGX Spark (kubis.ai), t0 %.2f ms, skew %.2f by c = 2, 4, "
	     "8:",
	     t0 * 1e3, skew);
	for (unsigned i = 0; i < n_rows; i++) {
		struct published *r = &rows[i];
		double c = r->b;

		if (strcmp(r->hardware, "DGX Spark solo") || c > 32)
			continue;
		r->ours = c / (t0 + kubis_step(&a, c, skew));
		printf(" %.0f %+.1f %%", c, 100 * error_of(r));
		if (c == 16)
			assert_true(fabs(error_of(r)) < 0.0045);
		if (c == 1 || c == 32)
			assert_true(fabs(error_of(r)) <
				    (c > 1 ? 0.0505 : 0.0645));
	}
	printf("\n");
}

/* Two replicas made one, cost per token: what was measured, and from the curve of
 * one alone. */
static void consolidation(void **state)
{
	double low = 9, high = 0, said_low = 9, said_high = 0;

	(void)state;
	for (double c = 2; c <= 32; c *= 2) {
		double two = find_row("kubis", "", "throughput", c)->value;
		double got, want;

		for (unsigned i = 0; i < n_rows; i++)
			if (strstr(rows[i].hardware, "shuffle") &&
			    rows[i].b == c)
				two = rows[i].value;
		want = two / 2 / topology(c);
		got = topology(c / 2) / topology(c);
		low = fmin(low, want);
		high = fmax(high, want);
		said_low = fmin(said_low, got);
		said_high = fmax(said_high, got);
	}
	SAID("Two replicas made one: cost x %.2f .. %.2f measured, %.2f .. "
	     "%.2f predicted (on the safe side)\n",
	     low, high, said_low, said_high);
	assert_true(low > 0.575 && high < 0.64);
	assert_true(said_low > 0.68 && said_high < 0.74);
}

static void two_sparks(void **state)
{
	struct arch a = arch_of("Qwen3-235B-A22B");
	double kv = 256 * a.kv_bytes_per_token, bw = 2 * 0.85 * SPARK_BW, t0;

	(void)state;
	a.expert_bytes = a.expert_params * 0.52;
	a.dense_bytes = a.dense_params * 0.52;
	t0 = 1 / find_row("conselara", "", "", 1)->value -
	     step_of(&a, 1, VALLEY_SKEW_UNIFORM, kv, bw);
	for (double b = 1; b <= 4; b *= 2) {
		struct published *r = find_row("conselara", "", "", b);

		r->ours =
			b / (t0 + step_of(&a, b, VALLEY_SKEW_UNIFORM, kv, bw));
		assert_true(fabs(error_of(r)) < 0.125);
	}
	SAID("Qwen3-235B INT4 on two Sparks: %+.1f, %+.1f %% at B = 2, 4 "
	     "(stated +12, +9); t0 %.1f ms\n",
	     100 * error_of(find_row("conselara", "", "", 2)),
	     100 * error_of(find_row("conselara", "", "", 4)), t0 * 1e3);
}

/* ---- facts of routing ----------------------------------------------------- */

static void fact(const char *source, const char *model, const char *metric,
		 double ours)
{
	struct published *r = find_row(source, model, metric, -1);

	assert_non_null(r);
	r->ours = ours;
	SAID("%-20.20s %-26.26s %-30.30s %8.4g, uniform %8.4g (%+.0f %%)\n",
	     r->source, r->model, r->metric, r->value, ours, 100 * error_of(r));
}

static double share_of_weights(double layers, double e, double k, double expert,
			       double total)
{
	double routed = layers * e * expert;

	return (total - routed + routed * valley_active(e, k, 8) / e) / total;
}

static void facts_of_routing(void **state)
{
	(void)state;
	SAID("Uniform routing against what was observed:\n");
	fact("mlx-lm", "", "overlap", 4 / 64.0);
	fact("mlx-lm", "", "distinct", valley_active(64, 4, 2));
	fact("seed 003", "", "overlap", 1 - pow(1 - 10 / 512.0, 2));
	fact("Soup", "granite", "", valley_active(32, 8, 512) / 32);
	fact("Soup", "OLMoE", "", valley_active(64, 8, 512) / 64);
	fact("colibri", "", "", 0.5);
	fact("OEA", "", "vanilla",
	     valley_active(128, 8, 16) * 9.437184e6 / 3352e3);
	fact("MoE-CAP paper", "V2-Lite", "",
	     share_of_weights(26, 64, 6, 3 * 2048 * 1408.0, 15.7e9));
	fact("MoE-CAP paper", "Qwen1.5", "",
	     share_of_weights(24, 60, 4, 3 * 2048 * 1408.0, 14.3e9));
	fact("MoE-CAP paper", "R1", "",
	     share_of_weights(58, 256, 8, 3 * 7168 * 2048.0, 671e9));
	fact("MoE-CAP figure", "", "", valley_active(128, 8, 16));
}

/* ---- the whole ------------------------------------------------------------ */

static const char *reason(const struct published *r)
{
	if (strstr(r->kind, "uniform"))
		return "routing is not uniform";
	if (strstr(r->source, "llama.cpp") && r->b <= 2)
		return "another kernel (GEMV) below B = 3 or so";
	if (strstr(r->source, "40542"))
		return "t0 changes: another tile configuration";
	if (r->b >= 256)
		return "bound by arithmetic or tiles from here on";
	return "skew of one parameter";
}

static void known_failures(void **state)
{
	unsigned n = 0, predicted = 0;

	(void)state;
	SAID("Known failures, more than 15 %% off:\n");
	for (unsigned i = 0; i < n_rows; i++) {
		const struct published *r = &rows[i];

		if (isnan(r->ours) || strstr(r->kind, "outside"))
			continue;
		predicted++;
		if (fabs(error_of(r)) <= 0.15)
			continue;
		n++;
		SAID("  %-24.24s %-22.22s B=%-3.0f %8.4g, predicted %8.4g "
		     "(%+.0f %%): %s\n",
		     r->source, r->model, r->b, r->value, r->ours,
		     100 * error_of(r), reason(r));
	}
	SAID("%u rows, %u predicted, %u of them more than 15 %% off\n", n_rows,
	     predicted, n);
	assert_int_equal(n_rows, 223);
	assert_true(n <= 13);
}

static void predictions_are_the_references(void **state)
{
	unsigned bad = 0, n = 0;

	(void)state;
	for (unsigned i = 0; i < n_rows; i++) {
		const struct published *r = &rows[i];

		if (!r->prediction[0])
			continue;
		n++;
		if (!isnan(r->ours) && as_reference(r))
			continue;
		print_error("%s, %s, B=%.0f: %g, not %s\n", r->source, r->model,
			    r->b, r->ours, r->prediction);
		bad++;
	}
	assert_true(n > 120);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_tables),
		cmocka_unit_test(elasticity),
		cmocka_unit_test(skew_fitted_to_a_server),
		cmocka_unit_test(cache_term),
		cmocka_unit_test(fixed_time_and_skew_of_vllm),
		cmocka_unit_test(consolidation),
		cmocka_unit_test(two_sparks),
		cmocka_unit_test(facts_of_routing),
		cmocka_unit_test(known_failures),
		cmocka_unit_test(predictions_are_the_references),
	};

	return cmocka_run_group_tests(tests, published_load, NULL);
}
