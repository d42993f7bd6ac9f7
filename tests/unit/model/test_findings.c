/* Regimes, findings and the verdict of hand-made samples, and the edges. */
#include "tests/unit/model/snapshot_fixture.h"

#include "model/findings.h"

/* ---- regimes and findings --------------------------------------------- */

static bool found(const char *rule)
{
	for (unsigned i = 0; i < f->snap.n_findings; i++)
		if (!strcmp(f->snap.findings[i].rule, rule))
			return true;
	return false;
}

static void test_prefill_share(void **state)
{
	(void)state;
	give_requests(100, 20);
	give_window(100, 108, 10);
	f->window.steps[1] = 50;
	f->window.step_ns[1] = 3e9;
	f->window.tokens[1] = 50 * 500;
	update();
	/* 100 of the 500 tokens of such a step are decoded ones */
	is(METRIC_PREFILL_SHARE, 3e9 * 0.8 / 4e9, VALUE_OK, SOURCE_MEASURED);
	assert_int_equal(f->snap.regime, REGIME_PREFILL);
	assert_int_equal(f->snap.regime_source, SOURCE_MEASURED);
	assert_string_equal(f->snap.verdict[1], ""); /* of a decode step */
	give_requests(120, 0);                       /* no one waits any more */
	for (unsigned i = 0; i < 4; i++)
		update();
	assert_true(f->snap.regime != REGIME_PREFILL);
}

/* A prompt that rides along costs the time it adds, not its tokens. */
static void test_prefill_share_by_time_added(void **state)
{
	(void)state;
	give_requests(100, 20);
	give_window(100, 108, 10);
	f->window.steps[1] = 50;
	f->window.step_ns[1] = 0.6e9; /* 12 ms each, against 10 */
	f->window.tokens[1] = 50 * 1000;
	update();
	is(METRIC_PREFILL_SHARE, 50 * 2e6 / 1.6e9, VALUE_OK, SOURCE_MEASURED);
	assert_int_equal(f->snap.regime, REGIME_SHARED);
}

/* A window of prompts alone says nothing of rows: the one before stays. */
static void test_window_without_decode_steps(void **state)
{
	(void)state;
	give_requests(16, 4);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	f->window = (struct sample_window){ .windows = 1,
					    .wall_ns = 1e9,
					    .busy_ns = 1e9,
					    .steps = { 0, 20 },
					    .step_ns = { 0, 1e9 },
					    .tokens = { 0, 20 * 2048 },
					    .end_ns = f->in.now_ns };
	update();
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_PREFILL_SHARE, 1 - 16 / 2048.0, VALUE_OK, SOURCE_MEASURED);
}

static void test_kv_bound_by_attention_time(void **state)
{
	(void)state;
	give_requests(64, 0);
	give_agent(100);
	give_window(64, 100, 20);
	f->window.group_ns[0] = 2e8;
	f->window.group_ns[2] = 6e8;
	update();
	is(METRIC_KV_SHARE, 0.6, VALUE_OK, SOURCE_INFERRED);
	assert_int_equal(f->snap.regime, REGIME_KV);
	assert_true(found("kv_bound"));
	assert_non_null(strstr(f->snap.verdict[1], "request is "));
	assert_null(strstr(f->snap.verdict[1], "up to"));
	assert_null(strstr(f->snap.verdict[2], "as low as"));
	assert_true(fabs(metric(METRIC_MARGINAL_GAIN).v +
			 metric(METRIC_EXPERT_SHARE).v +
			 metric(METRIC_KV_SHARE).v +
			 metric(METRIC_COMPUTE_SHARE).v - 1) < 1e-12);
}

/* The window is over with the load; what attention takes now is not known, and
 * that is not 0 %. */
static void test_kv_bound_without_figures(void **state)
{
	(void)state;
	give_requests(64, 0);
	give_agent(100);
	give_window(64, 100, 20);
	f->window.group_ns[0] = 2e8;
	f->window.group_ns[2] = 6e8;
	update();
	give_requests(640, 0);
	update();
	assert_int_equal(f->snap.regime, REGIME_KV); /* it lasts 2 s */
	assert_string_equal(f->snap.verdict[0], "KV-BOUND.");
	assert_false(found("kv_bound"));
}

static void test_findings_of_the_valley(void **state)
{
	const struct finding *n = &f->snap.findings[0];

	(void)state;
	give_requests(14, 0);
	give_agent(100);
	give_window(14, 61, 36);
	update();
	assert_true(found("valley_near"));
	assert_string_equal(n->rule, "valley_near");
	assert_int_equal(n->severity, SEVERITY_WARNING);
	assert_true(value_known(n->gain) && n->gain.v > 0.2 && n->gain.v < 1);
	assert_int_equal(n->n_evidence, 4);
	assert_string_equal(n->evidence[0].key, "single_row_ratio");
	assert_non_null(strstr(f->snap.verdict[0], "near side"));
	assert_non_null(strstr(f->snap.verdict[0], "14 users read 61 of 128"));
	assert_non_null(strstr(f->snap.verdict[1], "up to "));
	assert_non_null(strstr(f->snap.verdict[1], "ends near "));
	assert_non_null(strstr(f->snap.verdict[2], "as low as $"));
}

static void test_host_bound_padding_and_impossible(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	f->window.busy_ns = 0.6e9;
	f->window.rows.padded_rows = f->window.rows.rows * 0.5;
	update();
	assert_true(found("host_bound"));
	assert_true(found("padding"));
	assert_false(found("smbu_impossible"));
	give_window(16, 64, 32);
	f->window.step_ns[0] = 4e8; /* 4 ms for 31 GB: 1.6 of the peak */
	f->window.busy_ns = 4e8;
	update();
	assert_true(found("smbu_impossible"));
	assert_false(found("host_bound"));
}

/* ---- edges ------------------------------------------------------------ */

static void all_finite(void)
{
	const struct value *v = f->snap.metrics;

	for (unsigned i = 0; i < METRICS; i++)
		if (value_known(v[i]))
			assert_true(isfinite(v[i].v));
	for (unsigned l = 0; l < f->snap.n_layers; l++)
		assert_true(isfinite(f->snap.layers[l].seconds_per_step.v));
	for (unsigned i = 0; i < f->snap.n_findings; i++)
		for (unsigned j = 0; j < f->snap.findings[i].n_evidence; j++)
			assert_true(
				isfinite(f->snap.findings[i].evidence[j].v));
	for (unsigned i = 0; i < 3; i++)
		assert_null(strstr(f->snap.verdict[i], "nan"));
}

static void test_edge_values(void **state)
{
	static const double tokens[] = { 0, 1, 1e6 };
	static const double intervals[] = { 0, -1, NAN, 0.2, 5, INFINITY };
	struct arch all = qwen; /* k = E: dense in all but name */

	(void)state;
	all.top_k = 128;
	for (unsigned i = 0; i < 3 * 6; i++) {
		double b = tokens[i % 3];

		f->in.interval_s = intervals[i / 3];
		give_requests(b, 0);
		give_agent(b > 0 ? 10 : 0);
		give_window(b, fmin(b * 8, 128), 0);
		f->window.end_ns += i;
		model_update(f->model, &f->in, &qwen, gpu_find("H200"),
			     &f->snap);
		all_finite();
		f->window.windows = 1;
		f->window.end_ns += 0.5;
		model_update(f->model, &f->in, &all, gpu_find("H200"),
			     &f->snap);
		all_finite();
		model_update(f->model, &f->in, NULL, NULL, &f->snap);
		all_finite();
	}
	/* U = R: each row an expert of its own; F1 = 0; no rows at all */
	f->in.interval_s = 1;
	f->in.now_ns += 1e12;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 128, 128);
	update();
	is(METRIC_FRAGMENTATION, 1, VALUE_OK, SOURCE_MEASURED);
	all_finite();
	give_window(16, 8, 0);
	f->window.end_ns += 1;
	update();
	all_finite();
	f->window = (struct sample_window){ .windows = 1,
					    .wall_ns = 1e9,
					    .end_ns = f->in.now_ns };
	update();
	all_finite();
}

static void test_dense_model_has_no_valley(void **state)
{
	struct arch dense = { .layers = 32,
			      .hidden = 4096,
			      .dense_params = 8e9,
			      .dense_bytes = 16e9 };

	(void)state;
	give_requests(16, 0);
	model_update(f->model, &f->in, &dense, gpu_find("H200"), &f->snap);
	all_finite();
	unknown(METRIC_FRAGMENTATION);
	assert_int_equal(f->snap.regime, REGIME_UNKNOWN);
	assert_non_null(strstr(f->snap.verdict[0], "no experts"));
}

static void test_what_a_verdict_lacks(void **state)
{
	struct arch odd = qwen;

	(void)state;
	give_requests(16, 0);
	model_update(f->model, &f->in, NULL, NULL, &f->snap);
	assert_non_null(strstr(f->snap.verdict[0], "--model"));
	model_update(f->model, &f->in, &qwen, NULL, &f->snap);
	assert_int_equal(f->snap.regime, REGIME_UNKNOWN);
	assert_non_null(strstr(f->snap.verdict[0], "peak bandwidth"));
	assert_string_equal(f->snap.compute_type, "");
	odd.expert_bytes = 0;
	model_update(f->model, &f->in, &odd, gpu_find("H200"), &f->snap);
	assert_non_null(strstr(f->snap.verdict[0], "how many bytes"));
}

static void test_a_cheap_token_is_not_free(void **state)
{
	(void)state;
	give_requests(1000, 0);
	give_agent(100);
	give_window(1000, 128, 0);
	update();
	is(METRIC_COST, 3.0 / 3600 / 1e5 * 1e6, VALUE_OK, SOURCE_MEASURED);
	assert_string_equal(f->snap.verdict[2], "Now $0.0083 per M tokens.");
}

/* Where the batch is full, what a step would charge is beside the point. */
static void test_one_more_waits_where_others_do(void **state)
{
	(void)state;
	give_requests(16, 900);
	give_agent(100);
	give_window(16, 64, 32);
	f->in.have_scrape = true;
	f->in.running = 16;
	f->in.queued = 1;
	update();
	assert_non_null(strstr(f->snap.verdict[1], "free"));
	f->in.queued = 900;
	update();
	assert_non_null(strstr(f->snap.verdict[1], "would wait: 900 are"));
	assert_null(strstr(f->snap.verdict[1], "free"));
	f->in.scrape_age_s = 60;
	update();
	assert_non_null(strstr(f->snap.verdict[1], "free"));
}

/* Rows that a line takes when it is broken between words. */
static unsigned rows_of(const char *s, unsigned width)
{
	unsigned rows = *s != '\0', used = 0;

	while (*s) {
		unsigned blanks = (unsigned)strspn(s, " ");
		unsigned word = (unsigned)strcspn(s + blanks, " ");

		if (used && used + blanks + word > width) {
			rows++;
			used = word;
		} else {
			used += blanks + word;
		}
		s += blanks + word;
	}
	return rows;
}

static void verdict_fits(void)
{
	for (unsigned i = 0; i < 3; i++) {
		const char *line = f->snap.verdict[i];

		if (rows_of(line, VERDICT_COLUMNS) <= VERDICT_ROWS &&
		    strlen(line) + 1 < sizeof(f->snap.verdict[i]))
			continue;
		print_error("%zu: %s\n", strlen(line), line);
		fail();
	}
}

/* Whatever the load and the price are, the box holds it all. */
static void test_verdicts_keep_their_box(void **state)
{
	static const double tokens[] = { 1, 14, 40, 1e4, 1e6 };
	const struct model_settings dear = { .gpu_price = 99999 };

	(void)state;
	model_free(f->model);
	f->model = model_new(&dear);
	for (unsigned i = 0; i < 5 * 4; i++) {
		double b = tokens[i % 5];
		double active = fmin(fmin(8 * b, 128), 20 + 2 * b);

		if (i < 10)
			give_requests(b * 9999, 0);
		else
			f->in.have_requests = false;
		give_agent(1e-3);
		give_window(b, active, i % 2 ? active * 0.6 : active * 0.2);
		f->window.rows.sum_squares = f->window.rows.rows * b / 4;
		f->in.have_scrape = i % 4 == 3;
		f->in.queued = 1e9;
		f->in.now_ns += 40e9;
		f->window.end_ns = f->in.now_ns;
		for (unsigned n = 0; n < 3; n++)
			update();
		verdict_fits();
		all_finite();
	}
}

/* Kernels of 6 ms for the reads of 29 experts in 48 layers, 2.7 ms. */
static void test_kernel_far_from_its_floor(void **state)
{
	double floor_s = 48 * 29 * 9437184.0 / 4.8e12;

	(void)state;
	give_requests(4, 0);
	give_agent(100);
	give_window(4, 29, 26);
	update();
	assert_true(found("kernel_floor"));
	for (unsigned i = 0; i < f->snap.n_findings; i++)
		if (!strcmp(f->snap.findings[i].rule, "kernel_floor"))
			assert_true(fabs(f->snap.findings[i].evidence[0].v -
					 6e-3 / floor_s) < 1e-6);
	give_window(4, 29, 26);
	f->window.group_ns[0] = 3e8;
	f->window.end_ns += 1;
	update();
	assert_false(found("kernel_floor"));
}

/* 16 tokens of 128 rows on 80 experts, and DRAM moves what 128 reads need. */
static void test_experts_read_once_per_row(void **state)
{
	double rest = 2.44e9, row = 48 * 9437184.0;

	(void)state;
	f->in.gpus = 2;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 80, 50);
	f->in.have_dram = true;
	f->in.dram_write = 0;
	f->in.dram_read = 100 * (rest + 128 * row);
	update();
	assert_true(found("per_row_reads"));
	give_window(16, 80, 50);
	f->window.end_ns += 1;
	f->in.dram_read = 100 * (rest + 80 * row);
	update();
	assert_false(found("per_row_reads"));
	give_window(16, 80, 50); /* more than any kernel: someone else's */
	f->window.end_ns += 2;
	f->in.dram_read = 9.6e12;
	update();
	assert_false(found("per_row_reads"));
}

static void test_slowest_rank(void **state)
{
	(void)state;
	f->in.gpus = 8;
	f->snap.target.ep = 8;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 80, 50);
	f->window.ranks = 8;
	for (unsigned l = 0; l < 48; l++)
		f->window.layers[l].slowest_ns =
			1.3 * f->window.layers[l].group_ns[0];
	update();
	assert_true(found("ep_imbalance"));
	give_window(16, 80, 50);
	f->window.end_ns += 1;
	f->window.ranks = 8;
	for (unsigned l = 0; l < 48; l++)
		f->window.layers[l].slowest_ns =
			1.05 * f->window.layers[l].group_ns[0];
	update();
	assert_false(found("ep_imbalance"));
}

static void test_target_and_health_are_left_alone(void **state)
{
	(void)state;
	f->snap.target.pid = 77;
	f->snap.health.windows = 5;
	update();
	update();
	assert_int_equal(f->snap.target.pid, 77);
	assert_int_equal(f->snap.health.windows, 5);
	assert_int_equal(f->snap.sequence, 2);
	assert_true(f->snap.uptime_s == 1);
	assert_true(f->snap.time == 1001);
	assert_true(f->snap.interval_s == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_prefill_share),
		T(test_prefill_share_by_time_added),
		T(test_window_without_decode_steps),
		T(test_kv_bound_by_attention_time),
		T(test_kv_bound_without_figures),
		T(test_findings_of_the_valley),
		T(test_host_bound_padding_and_impossible),
		T(test_edge_values),
		T(test_dense_model_has_no_valley),
		T(test_what_a_verdict_lacks),
		T(test_a_cheap_token_is_not_free),
		T(test_one_more_waits_where_others_do),
		T(test_verdicts_keep_their_box),
		T(test_kernel_far_from_its_floor),
		T(test_experts_read_once_per_row),
		T(test_slowest_rank),
		T(test_target_and_health_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
