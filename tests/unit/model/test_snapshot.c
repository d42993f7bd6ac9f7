/* model_update on hand-made samples: each tier, each kind of age. */
#include "tests/unit/model/snapshot_fixture.h"

#include "model/valley.h"

/* ---- tiers ------------------------------------------------------------ */

/* What the model's shape, the GPU and the price alone say. */
static bool needs_no_server(unsigned id)
{
	return id == METRIC_VALLEY_FLOOR || id == METRIC_RIDGE_ROWS ||
	       id == METRIC_COST_RATE || id == METRIC_PEAK_BANDWIDTH;
}

static void test_nothing_known(void **state)
{
	(void)state;
	update();
	for (unsigned i = 0; i < METRICS; i++)
		if (!needs_no_server(i))
			unknown((enum metric_id)i);
	assert_int_equal(f->snap.regime, REGIME_UNKNOWN);
	assert_int_equal(f->snap.n_findings, 0);
	assert_true(f->snap.verdict[0][0] != '\0');
	is(METRIC_VALLEY_FLOOR, valley_floor(128, 8), VALUE_OK,
	   SOURCE_MODELLED);
	is(METRIC_RIDGE_ROWS, 989.4e12 * 2 / (2 * 4.8e12), VALUE_OK,
	   SOURCE_MODELLED);
}

static void test_engine_metrics_only(void **state)
{
	(void)state;
	f->in.have_scrape = true;
	f->in.running = 16;
	f->in.queued = 2;
	f->in.d_generated_tokens = 1600;
	update();
	is(METRIC_SCRAPED_RUNNING, 16, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_TOKENS, 1600, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_ACTIVE_EXPERTS, valley_active(128, 8, 16), VALUE_OK,
	   SOURCE_MODELLED);
	is(METRIC_ROWS, 128, VALUE_OK, SOURCE_MODELLED);
	unknown(METRIC_IN_FLIGHT);
	is(METRIC_STEP_SECONDS, 0.01, VALUE_OK, SOURCE_SCRAPED);
	assert_int_equal(metric(METRIC_MARGINAL_GAIN).source, SOURCE_MODELLED);
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
	assert_int_equal(f->snap.regime_source, SOURCE_MODELLED);
	f->in.running = f->in.queued = 0;
	update();
	assert_int_equal(f->snap.regime, REGIME_IDLE);
	assert_int_equal(f->snap.regime_source, SOURCE_SCRAPED);
}

/* Uniform routing bounds what is not seen: the words say so. */
static void test_words_without_rows(void **state)
{
	(void)state;
	f->in.have_scrape = true;
	f->in.running = 16;
	update();
	assert_non_null(strstr(f->snap.verdict[0], "read at most 82 of 128"));
	assert_non_null(strstr(f->snap.verdict[0], "about 59 %"));
	assert_non_null(strstr(f->snap.verdict[1], "up to "));
	assert_non_null(strstr(f->snap.verdict[1], "at the earliest near 57"));
	assert_non_null(strstr(f->snap.verdict[2], "up to "));
}

/* The engine runs requests that began before the tracker. */
static void test_requests_from_before_the_tracker(void **state)
{
	(void)state;
	give_requests(0, 0);
	f->in.have_scrape = true;
	f->in.running = 16;
	update();
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_SCRAPED);
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
	f->in.running = 0;
	update();
	assert_int_equal(f->snap.regime, REGIME_IDLE);
	assert_int_equal(f->snap.regime_source, SOURCE_MEASURED);
}

static void test_old_engine_metrics_are_stale(void **state)
{
	(void)state;
	f->in.have_scrape = true;
	f->in.running = 16;
	f->in.scrape_age_s = 40;
	update();
	is(METRIC_SCRAPED_RUNNING, 16, VALUE_STALE, SOURCE_SCRAPED);
	unknown(METRIC_ACTIVE_EXPERTS);
	assert_int_equal(f->snap.regime, REGIME_UNKNOWN);
}

static void test_requests_only(void **state)
{
	(void)state;
	give_requests(14, 2);
	f->in.started = 100;
	f->in.completed = 80;
	f->in.aborted = 4;
	f->in.d_started = 3;
	f->in.d_events = 700;
	f->in.interval_s = 0.5;
	update();
	is(METRIC_IN_FLIGHT, 16, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_WAITING, 2, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_STARTED, 100, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ABORTED, 4, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ARRIVALS, 6, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_EVENTS, 1400, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_TOKENS_PER_STEP, 14, VALUE_OK, SOURCE_INFERRED);
	unknown(METRIC_TOKENS);     /* an event is not a token */
	unknown(METRIC_USEFUL_MBU); /* nothing tells how long a step takes */
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
}

static void test_rows_are_the_window(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	is(METRIC_ROWS, 128, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_SINGLE_ROW_EXPERTS, 32, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_COVERAGE, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_FRAGMENTATION, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ROWS_PER_ACTIVE, 2, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_SINGLE_ROW, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_VALLEY_INDEX, 0.25, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_STEP_SECONDS, 0.010, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_STEPS, 100, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_TOKENS, 1600, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_BUSY, 0.9, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_PREFILL_SHARE, 0, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_COST, 3.0 / 3600 / 1600 * 1e6, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_COST_RATE, 3, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_PEAK_BANDWIDTH, 4.8e12, VALUE_OK, SOURCE_MODELLED);
}

static void test_shares_follow_the_formulas(void **state)
{
	double bw = 0.85 * 4.8e12, routed = 48 * 64 * 9437184.0;
	double expert = 0.5 * fmin(routed / bw, 0.006) / 0.010;

	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	is(METRIC_EXPERT_SHARE, expert, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_COMPUTE_SHARE, 0, VALUE_OK, SOURCE_INFERRED);
	unknown(METRIC_KV_SHARE);
	is(METRIC_MARGINAL_GAIN, 1 - expert, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_USEFUL_MBU, (routed + 2.44e9) / (0.010 * 4.8e12), VALUE_OK,
	   SOURCE_INFERRED);
	is(METRIC_MFU, 1600 * 2 * (48 * 8 * 4718592.0 + 1.22e9) / 989.4e12,
	   VALUE_OK, SOURCE_INFERRED);
	assert_string_equal(f->snap.compute_type, "BF16");
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
	assert_int_equal(f->snap.regime_source, SOURCE_MEASURED);
	assert_int_equal(f->snap.side, SIDE_FAR); /* s1 = 1/2 exactly */
}

static void test_counters_of_dram(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	f->in.have_dram = true;
	f->in.dram_read = 3.3e12;
	f->in.dram_write = 0.3e12;
	f->in.tensor_active = NAN;
	update();
	is(METRIC_MBU, 0.75, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_READ_AMPLIFICATION,
	   3.6e12 / (100 * (48 * 64 * 9437184.0 + 2.44e9)), VALUE_OK,
	   SOURCE_INFERRED);
	unknown(METRIC_TENSOR_ACTIVE);
	f->in.have_peak = true;
	f->in.peak_bw = 3.6e12;
	update();
	is(METRIC_MBU, 1, VALUE_OK, SOURCE_MEASURED);
	/* one GPU's counters, taken for those of both */
	f->in.gpus = 2;
	f->in.dram_of_one = true;
	f->in.tensor_active = 0.25;
	update();
	is(METRIC_MBU, 0.5, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_DRAM_READ, 3.3e12, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_DRAM_WRITE, 0.3e12, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_TENSOR_ACTIVE, 0.25, VALUE_OK, SOURCE_INFERRED);
}

static void test_tables(void **state)
{
	double sum = 0;

	(void)state;
	give_requests(16, 0);
	give_window(16, 64, 32);
	update();
	assert_int_equal(f->snap.n_layers, 48);
	assert_true(fabs(f->snap.layers[3].seconds_per_step.v - 123e-6) <
		    1e-12);
	assert_true(fabs(f->snap.layers[3].before_seconds_per_step.v - 40e-6) <
		    1e-12);
	assert_true(fabs(f->snap.layers[3].expert_seconds_per_step.v - 1e-4) <
		    1e-12);
	assert_true(f->snap.layers[3].active_experts.v == 64);
	assert_true(f->snap.layers[3].fragmentation.v == 0.5);
	assert_false(value_known(f->snap.layers[3].dram_bytes_per_step));
	assert_string_equal(f->snap.layers[3].backend, "expert.triton");
	for (unsigned l = 0; l < 48; l++)
		sum += f->snap.layers[l].share.v;
	assert_true(fabs(sum - 1) < 1e-9);
	assert_int_equal(f->snap.n_classes, 1);
	assert_true(fabs(f->snap.classes[0].calls_per_step.v - 96) < 1e-9);
	assert_true(fabs(f->snap.classes[0].share.v - 0.6) < 1e-9);
	sum = 0;
	for (unsigned g = 0; g < 7; g++)
		sum += f->snap.group_share[g].v;
	assert_true(fabs(sum - 1) < 1e-9);
	assert_true(fabs(f->snap.group_share[6].v - 0.1) < 1e-9);
}

/* A late attach has no rows; bytes of the layers tell how many experts were
 * read, and come after their window. */
static void test_bytes_of_layers_tell_the_experts_touched(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_window(16, 64, 32);
	f->window.rows = (struct sample_rows){ 0 };
	for (unsigned l = 0; l < 48; l++)
		f->window.layers[l].rows = (struct sample_rows){ 0 };
	update();
	assert_true(metric(METRIC_ACTIVE_EXPERTS).source == SOURCE_MODELLED);
	assert_false(value_known(f->snap.layers[3].active_experts));
	assert_string_equal(f->snap.bytes.method, "");
	f->window.bytes = (struct bytes_estimate){
		.method = BYTES_LAYERS,
		.samples = 3000,
		.residual_ratio = 0.01,
		.layer_error_ratio = 0.02,
		.groups_error_ratio = 0.01,
	};
	for (unsigned l = 0; l < 48; l++) {
		struct sample_layer *a = &f->window.layers[l];

		a->expert_bytes = a->steps * qwen.expert_bytes * (58 + l % 5);
		a->dram_bytes = 1.1 * a->expert_bytes;
	}
	f->window.windows = 0;
	update();
	assert_true(metric(METRIC_ACTIVE_EXPERTS).source == SOURCE_INFERRED);
	assert_true(fabs(metric(METRIC_ACTIVE_EXPERTS).v - 60) < 1.5);
	assert_true(f->snap.layers[3].active_experts.source == SOURCE_INFERRED);
	assert_true(fabs(f->snap.layers[3].active_experts.v - 61) < 1e-9);
	assert_true(fabs(f->snap.layers[3].dram_bytes_per_step.v /
				 f->snap.layers[3].expert_bytes_per_step.v -
			 1.1) < 1e-9);
	assert_string_equal(f->snap.bytes.method, "layers");
}

static void test_overlapping_groups_still_sum_to_one(void **state)
{
	double sum = 0;

	(void)state;
	give_window(16, 64, 32);
	f->window.group_ns[3] = 8e8; /* on a second stream */
	update();
	for (unsigned g = 0; g < 7; g++)
		sum += f->snap.group_share[g].v;
	assert_true(fabs(sum - 1) < 1e-9);
	assert_true(f->snap.group_share[6].v == 0);
}

static void test_distributions_of_the_window(void **state)
{
	struct sample_hist *h = &f->window.rows_per_expert;

	(void)state;
	give_requests(16, 0);
	give_window(16, 64, 32);
	h->n = 4;
	h->exact = true;
	for (unsigned i = 0; i < 4; i++)
		h->upper[i] = i;
	h->buckets[1] = 6;
	h->buckets[3] = 4;
	h->count = 10;
	h->sum = 18;
	update();
	assert_true(f->snap.hists[HISTOGRAM_ROWS_PER_EXPERT].p50.v == 1);
	assert_true(f->snap.hists[HISTOGRAM_ROWS_PER_EXPERT].p90.v == 3);
	assert_true(f->snap.hists[HISTOGRAM_ROWS_PER_EXPERT].sum.v == 18);
	assert_false(value_known(f->snap.hists[HISTOGRAM_STEP].p50));
}

static void test_effective_experts(void **state)
{
	(void)state;
	give_window(16, 64, 32);
	for (unsigned i = 0; i < 128; i++) {
		f->expert_rows[i] = 10;               /* N2 clamps to 128 */
		f->expert_rows[128 + i] = i ? 0 : 50; /* N2 = 1 */
	}
	f->in.expert_rows = f->expert_rows;
	f->in.expert_rows_n = 128;
	update();
	is(METRIC_EFFECTIVE_EXPERTS, (128 + 1) / 2.0, VALUE_OK,
	   SOURCE_MEASURED);
}

/* The rows come with their own number of experts: another config does not
 * make them longer. */
static void test_effective_experts_of_another_shape(void **state)
{
	const unsigned n = 16;
	uint32_t *rows = calloc((size_t)SAMPLE_LAYERS_MAX * n, sizeof(*rows));

	(void)state;
	for (unsigned i = 0; i < n; i++)
		rows[i] = 10;
	give_window(16, 64, 32);
	f->window.n_layers = SAMPLE_LAYERS_MAX;
	f->in.expert_rows = rows;
	f->in.expert_rows_n = n;
	update();
	free(rows);
	is(METRIC_EFFECTIVE_EXPERTS, n, VALUE_OK, SOURCE_MEASURED);
}

/* ---- age -------------------------------------------------------------- */

static void test_warming_until_the_first_window(void **state)
{
	(void)state;
	f->in.have_agent = true;
	f->in.d_decode_steps = 0;
	update();
	assert_int_equal(metric(METRIC_ROWS).state, VALUE_WARMING);
	assert_int_equal(f->snap.regime, REGIME_IDLE);
}

static void test_old_window_goes_stale(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	for (unsigned i = 0; i < 59; i++)
		update();
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
	for (unsigned i = 0; i < 3; i++)
		update();
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_STALE, SOURCE_MEASURED);
	assert_int_equal(f->snap.layers[0].rows.state, VALUE_STALE);
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
}

static void test_other_load_makes_rows_stale(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	give_requests(200, 0);
	f->in.d_decode_steps = 60;
	f->in.d_padded_tokens = 60 * 200;
	update();
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_STALE, SOURCE_MEASURED);
	is(METRIC_TOKENS_PER_STEP, 200, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_STEP_SECONDS, 1.0 / 60, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_TOKENS, 200 * 60, VALUE_OK, SOURCE_INFERRED);
	assert_int_equal(metric(METRIC_MARGINAL_GAIN).source, SOURCE_MODELLED);
}

/* A window may come with the change: what was smoothed before it is of another
 * load. */
static void test_a_window_that_comes_with_the_change(void **state)
{
	(void)state;
	give_requests(1, 0);
	give_agent(100);
	f->in.d_padded_tokens = 100;
	give_window(1, 8, 8);
	for (unsigned i = 0; i < 20; i++)
		update();
	assert_int_equal(f->snap.regime, REGIME_SOLO);
	give_requests(2, 0);
	f->in.d_padded_tokens = 200;
	give_window(2, 15, 14);
	update();
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
}

static void test_idle_at_once(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	give_requests(0, 0);
	give_agent(0);
	update();
	assert_int_equal(f->snap.regime, REGIME_IDLE);
	is(METRIC_TOKENS, 0, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_BUSY, 0, VALUE_OK, SOURCE_INFERRED);
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_STALE, SOURCE_MEASURED);
	assert_int_equal(metric(METRIC_STEP_SECONDS).state, VALUE_STALE);
	unknown(METRIC_COST);
	is(METRIC_COST_RATE, 3, VALUE_OK, SOURCE_MEASURED);
	assert_int_equal(f->snap.n_findings, 0);
}

static void test_the_same_window_counts_once(void **state)
{
	(void)state;
	give_requests(16, 0);
	give_window(16, 64, 32);
	for (unsigned i = 0; i < 70; i++) {
		f->window.windows = 1; /* a caller that never clears it */
		update();
	}
	assert_int_equal(metric(METRIC_ROWS).state, VALUE_STALE);
}

/* Clients that do not stream wait to the end; the graphs show the batch. */
static void test_requests_that_do_not_stream(void **state)
{
	(void)state;
	give_requests(0, 30);
	give_agent(100);
	f->in.d_padded_tokens = 100 * 32;
	update();
	is(METRIC_TOKENS_PER_STEP, 30, VALUE_OK, SOURCE_INFERRED);
	assert_int_equal(f->snap.regime, REGIME_VALLEY);
}

/* One of four replicas is watched by kernels, all four by requests. */
static void test_load_signal_is_scaled_to_the_window(void **state)
{
	(void)state;
	give_requests(64, 0);
	give_agent(100);
	for (unsigned i = 0; i < 3; i++)
		update();
	give_window(16, 64, 32);
	update();
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_MEASURED);
	give_requests(4, 0);
	f->in.d_padded_tokens = 100;
	update();
	is(METRIC_TOKENS_PER_STEP, 1, VALUE_OK, SOURCE_INFERRED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_nothing_known),
		T(test_engine_metrics_only),
		T(test_words_without_rows),
		T(test_requests_from_before_the_tracker),
		T(test_old_engine_metrics_are_stale),
		T(test_requests_only),
		T(test_rows_are_the_window),
		T(test_shares_follow_the_formulas),
		T(test_counters_of_dram),
		T(test_tables),
		T(test_bytes_of_layers_tell_the_experts_touched),
		T(test_overlapping_groups_still_sum_to_one),
		T(test_distributions_of_the_window),
		T(test_effective_experts),
		T(test_effective_experts_of_another_shape),
		T(test_warming_until_the_first_window),
		T(test_old_window_goes_stale),
		T(test_other_load_makes_rows_stale),
		T(test_a_window_that_comes_with_the_change),
		T(test_idle_at_once),
		T(test_the_same_window_counts_once),
		T(test_requests_that_do_not_stream),
		T(test_load_signal_is_scaled_to_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
