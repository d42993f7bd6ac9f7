/* model_update: what it learns from rows, ranks, counters and the engine. */
#include "tests/unit/model/snapshot_fixture.h"

#include "model/economics.h"
#include "model/traffic.h"
#include "model/valley.h"

#define BW (0.85 * 4.8e12)

static void give_kv(double tokens, double room)
{
	f->in.have_scrape = true;
	f->in.running = 16;
	f->in.queued = 0;
	f->in.kv_tokens = tokens;
	f->in.kv_capacity_tokens = room;
}

/* ---- KV --------------------------------------------------------------- */

static void test_kv_by_the_engines_count(void **state)
{
	double kv = 16 * 1000 * 98304.0, expert;

	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	give_kv(16000, 1e6);
	update();
	is(METRIC_KV_BYTES, kv, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_KV_SHARE, kv / BW / 0.010, VALUE_OK, SOURCE_SCRAPED);
	expert = 0.5 * fmin(48 * 64 * 9437184.0 / BW, 0.006) / 0.010;
	is(METRIC_MARGINAL_GAIN, 1 - expert - kv / BW / 0.010, VALUE_OK,
	   SOURCE_SCRAPED);
	is(METRIC_USEFUL_MBU,
	   (48 * 64 * 9437184.0 + 2.44e9 + kv) / (0.010 * 4.8e12), VALUE_OK,
	   SOURCE_SCRAPED);
	assert_null(strstr(f->snap.verdict[1], "not known"));
}

/* Attention takes a tenth of the step: no more of it can be reads. */
static void test_kv_is_at_most_the_time_of_attention(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	give_kv(16e4, 1e6);
	update();
	is(METRIC_KV_SHARE, 0.1, VALUE_OK, SOURCE_SCRAPED);
}

static void update_of(const struct arch *a)
{
	model_update(f->model, &f->in, a, gpu_find("H200"), &f->snap);
	f->window.windows = 0;
	f->in.time += f->in.interval_s;
	f->in.now_ns += f->in.interval_s * 1e9;
}

/* 16 requests of 1000 tokens: a cache in 8 bits is half as much to read, one
 * layer in two looks back 128 tokens only, sparse attention reads 512. */
static void test_kv_as_it_is_stored_and_read(void **state)
{
	struct arch eight = qwen, sliding = qwen, sparse = qwen;

	(void)state;
	eight.kv_element_bytes = 1;
	sliding.kv_window_bytes_per_token = 98304;
	sliding.kv_window_tokens = 128;
	sparse.kv_top_tokens = 512;
	sparse.kv_index_bytes_per_token = 132;
	load(16, 100);
	give_window(16, 64, 32);
	give_kv(16000, 40000);
	update_of(&eight);
	is(METRIC_KV_BYTES, 16 * 1000 * 98304.0 / 2, VALUE_OK, SOURCE_SCRAPED);
	/* room for 40 requests like these, whatever a step reads of them */
	assert_int_equal(row(WHAT_IF_BATCH, 32)->limit, WHATIF_WITHIN);
	assert_int_equal(row(WHAT_IF_BATCH, 64)->limit, WHATIF_MEMORY);
	update_of(&sliding);
	is(METRIC_KV_BYTES, 16 * (1000 + 128) * 98304.0, VALUE_OK,
	   SOURCE_SCRAPED);
	update_of(&sparse);
	is(METRIC_KV_BYTES, 16 * (512 * 98304.0 + 1000 * 132), VALUE_OK,
	   SOURCE_SCRAPED);
}

static void test_kv_of_an_old_scrape_is_unknown(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	give_kv(16000, 1e6);
	f->in.scrape_age_s = 40;
	update();
	unknown(METRIC_KV_BYTES);
	unknown(METRIC_KV_SHARE);
}

static void test_long_contexts_are_kv_bound(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	f->window.group_ns[2] = 7e8;
	give_kv(16 * 25000.0, 1e6);
	for (unsigned i = 0; i < 4; i++)
		update();
	assert_int_equal(f->snap.regime, REGIME_KV);
}

/* ---- counters tell U -------------------------------------------------- */

/* No agent's rows: U = (DRAM bytes - dense - KV) / (L w). */
static void test_active_experts_from_counters(void **state)
{
	double kv = 16000 * 98304.0, u = 60;

	(void)state;
	load(16, 100);
	give_kv(16000, 1e6);
	f->in.have_dram = true;
	f->in.dram_read = 100 * (48 * u * 9437184.0 + 2.44e9 + kv);
	f->in.dram_write = 0;
	f->in.tensor_active = NAN;
	for (unsigned i = 0; i < 5; i++)
		update();
	is(METRIC_ACTIVE_EXPERTS, u, VALUE_OK, SOURCE_INFERRED);
	unknown(METRIC_READ_AMPLIFICATION); /* it would be 1 by itself */
	assert_true(value_known(metric(METRIC_SINGLE_ROW)));
	assert_int_equal(metric(METRIC_SINGLE_ROW).source, SOURCE_INFERRED);
	assert_int_equal(f->snap.regime_source, SOURCE_INFERRED);
	/* a batch that was not seen goes by what the counters showed */
	assert_true(value_known(metric(METRIC_TRAFFIC_EXIT)));
	assert_true(metric(METRIC_TRAFFIC_EXIT).v > 80);
}

/* What differs from second to second is taken together: bytes over steps. */
static void test_counters_are_summed_while_the_load_is_steady(void **state)
{
	double kv = 16000 * 98304.0, u, bytes = 0, weight = 0;

	(void)state;
	load(16, 100);
	give_kv(16000, 1e6);
	f->in.have_dram = true;
	f->in.dram_write = 0;
	f->in.tensor_active = NAN;
	for (unsigned i = 1; i <= 12; i++) {
		u = i % 2 ? 54 : 66;
		f->in.dram_read = 100 * (48 * u * 9437184.0 + 2.44e9 + kv);
		update();
		if (i < 3) /* the load may just have changed */
			continue;
		bytes = exp(-0.1) * bytes + u;
		weight = exp(-0.1) * weight + 1;
	}
	is(METRIC_ACTIVE_EXPERTS, bytes / weight, VALUE_OK, SOURCE_INFERRED);
	assert_true(fabs(metric(METRIC_ACTIVE_EXPERTS).v - 60) < 1.5);
}

/* The counters are right to 15 % of all bytes; U and the exit no better. */
static void test_counters_have_an_error(void **state)
{
	double low, high, at, off, all;
	const struct traffic *t;

	(void)state;
	load(16, 100);
	give_kv(16000, 1e6);
	f->in.have_dram = true;
	all = 48 * 60 * 9437184.0 + 2.44e9 + 16000 * 98304.0;
	f->in.dram_read = 100 * all;
	f->in.dram_write = 0;
	f->in.tensor_active = NAN;
	for (unsigned i = 0; i < 5; i++)
		update();
	t = &f->snap.what_if_base.traffic;
	traffic_bounds(t, 16, &low, &high);
	off = 0.15 * all / (48 * 9437184.0);
	near(low, 60 - off, 1e-6);
	near(high, 60 + off, 1e-6);
	at = metric(METRIC_TRAFFIC_EXIT).v;
	low = metric(METRIC_TRAFFIC_EXIT_LOW).v;
	high = metric(METRIC_TRAFFIC_EXIT_HIGH).v;
	assert_true(low < 0.7 * at && 1.4 * at < high);
}

/* Eight GPUs, each with its own copy of the dense weights, read all of them. */
static void test_counters_see_every_copy_of_the_dense_weights(void **state)
{
	double kv = 16000 * 98304.0, u = 60;

	(void)state;
	load(16, 100);
	give_kv(16000, 1e6);
	f->in.gpus = 8;
	f->snap.target.tp = 1;
	f->snap.target.ep = 8;
	f->in.have_dram = true;
	f->in.dram_read = 100 * (48 * u * 9437184.0 + 8 * 2.44e9 + kv);
	f->in.dram_write = 0;
	f->in.tensor_active = NAN;
	for (unsigned i = 0; i < 5; i++)
		update();
	is(METRIC_ACTIVE_EXPERTS, u, VALUE_OK, SOURCE_INFERRED);
}

static void test_counters_that_cannot_be_right(void **state)
{
	(void)state;
	load(16, 100);
	give_kv(16000, 1e6);
	f->in.have_dram = true;
	f->in.dram_write = 0;
	f->in.dram_read = 100 * 48 * 128 * 9437184.0; /* more than uniform */
	for (unsigned i = 0; i < 5; i++)
		update();
	assert_int_equal(metric(METRIC_ACTIVE_EXPERTS).source, SOURCE_MODELLED);
	near(metric(METRIC_ACTIVE_EXPERTS).v, valley_active(128, 8, 16), 1e-9);
	f->in.dram_read = 1e9;
	update();
	assert_int_equal(metric(METRIC_ACTIVE_EXPERTS).source, SOURCE_MODELLED);
}

static void test_rows_go_before_counters(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	give_kv(16000, 1e6);
	f->in.have_dram = true;
	f->in.dram_write = 0;
	f->in.dram_read =
		100 * (48 * 50 * 9437184.0 + 2.44e9 + 16000 * 98304.0);
	for (unsigned i = 0; i < 5; i++)
		update();
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
}

/* ---- whole layers ----------------------------------------------------- */

static const struct arch fused = {
	.experts = 128,
	.top_k = 8,
	.moe_layers = 48,
	.shared_experts = 1,
	.expert_params = 4718592,
	.expert_bytes = 9437184,
	.dense_params = 1.22e9,
	.dense_bytes = 2.44e9,
};

/* 129 experts, nine rows a token: the ninth is the shared one. */
static void test_a_fused_shared_expert_is_not_routed(void **state)
{
	struct sample_rows *r = &f->window.rows;

	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	r->rows += 16 * r->cells;
	r->active += r->cells;
	r->experts += r->cells;
	r->sum_squares = r->cells * (300 + 256);
	model_update(f->model, &f->in, &fused, gpu_find("H200"), &f->snap);
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ROWS, 128, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_SINGLE_ROW, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_COVERAGE, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_PAIR_OVERLAP, (300 - 128.0) / (8 * 16 * 15), VALUE_OK,
	   SOURCE_MEASURED);
}

/* One stream: the shared expert's one row is no single-row expert. */
static void test_a_fused_shared_expert_of_one_stream(void **state)
{
	struct sample_rows *r = &f->window.rows;

	(void)state;
	load(1, 100);
	give_window(1, 8, 8);
	r->rows += r->cells;
	r->active += r->cells;
	r->single += r->cells;
	r->experts += r->cells;
	model_update(f->model, &f->in, &fused, gpu_find("H200"), &f->snap);
	is(METRIC_SINGLE_ROW_EXPERTS, 8, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ACTIVE_EXPERTS, 8, VALUE_OK, SOURCE_MEASURED);
}

/* Four ranks of 32 experts: the mean rank has a quarter of all rows. */
static void test_ranks_that_share_the_experts_are_pooled(void **state)
{
	struct sample_window *w = &f->window;

	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	w->ranks = 4;
	w->rank_rows_max = w->rows.rows / 4 * 1.5;
	w->rank_active_max = w->rows.active / 4 * 1.25;
	w->rows.rows /= 4;
	w->rows.active /= 4;
	w->rows.single /= 4;
	w->rows.experts /= 4;
	for (unsigned l = 0; l < 48; l++)
		w->layers[l].slowest_ns = 1.3 * w->layers[l].group_ns[0];
	f->in.gpus = 4;
	update();
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_ACTIVE_EXPERTS, 64, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_COVERAGE, 0.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_RANK_ROWS, 1.5, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_RANK_ACTIVE, 1.25, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_STRAGGLER, 0.3, VALUE_OK, SOURCE_MEASURED);
	assert_true(f->snap.flags & FLAG_IMBALANCE);
}

/* Ranks that all see the same rows are one. */
static void test_ranks_that_repeat_the_experts_are_not(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	f->window.ranks = 4;
	f->window.rank_rows_max = f->window.rows.rows;
	f->in.gpus = 4;
	update();
	is(METRIC_TOKENS_PER_STEP, 16, VALUE_OK, SOURCE_MEASURED);
	is(METRIC_RANK_ROWS, 1, VALUE_OK, SOURCE_MEASURED);
	unknown(METRIC_STRAGGLER);
}

/* ---- speculation, prompts --------------------------------------------- */

/* 16 requests verify 4 tokens each: another brings 4 tokens, and alone reads
 * more experts than a token does. */
static void test_speculation_is_per_request(void **state)
{
	double plain, each;

	(void)state;
	load(64, 100);
	give_window(64, 100, 20);
	update();
	plain = metric(METRIC_EXPERT_SHARE).v;
	is(METRIC_TOKENS_PER_REQUEST, 1, VALUE_OK, SOURCE_INFERRED);
	load(16, 100);
	f->in.d_padded_tokens = 6400;
	for (unsigned i = 0; i < 4; i++)
		update();
	give_window(64, 100, 20);
	give_kv(16000, 1e6);
	f->in.d_generated_tokens = 100 * 16 * 2.5; /* 2.5 of 4 are kept */
	update();
	each = metric(METRIC_EXPERT_SHARE).v;
	is(METRIC_TOKENS_PER_REQUEST, 4, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_SINGLE_ROW, 0.2, VALUE_OK, SOURCE_MEASURED);
	assert_true(each > plain * 1.02 && each < plain * 4);
	is(METRIC_TOKENS, 4000, VALUE_OK, SOURCE_SCRAPED);
	is(METRIC_COST, 3.0 / 3600 / 4000 * 1e6, VALUE_OK, SOURCE_SCRAPED);
}

/* Half of the time goes to steps that carry a chunk of 512 tokens, where hardly
 * an expert has a single row. */
static void test_chunks_share_the_experts(void **state)
{
	struct sample_window *w = &f->window;
	double decode;

	(void)state;
	give_requests(16, 2);
	give_agent(100);
	give_window(16, 64, 32);
	update();
	decode = metric(METRIC_EXPERT_SHARE).v;
	give_requests(16, 2);
	give_window(16, 64, 32);
	w->steps[1] = 50;
	w->step_ns[1] = 1e9;
	w->tokens[1] = 50 * 528;
	w->prefill_rows = (struct sample_rows){ .cells = 48 * 20,
						.rows = 48 * 20 * 528 * 8.0,
						.active = 48 * 20 * 128,
						.experts = 48 * 20 * 128 };
	update();
	near(metric(METRIC_EXPERT_SHARE).v, decode / 2, 1e-9);
	near(metric(METRIC_MARGINAL_GAIN).v,
	     1 - metric(METRIC_EXPERT_SHARE).v - metric(METRIC_COMPUTE_SHARE).v,
	     1e-9);
}

/* ---- flags, errors ---------------------------------------------------- */

static void test_skew_is_flagged(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	for (unsigned l = 0; l < 48; l++)
		for (unsigned e = 0; e < 128; e++)
			f->expert_rows[l * 128 + e] = e < 30 ? 1000 : 10;
	f->in.expert_rows = f->expert_rows;
	f->in.expert_rows_n = 128;
	update();
	assert_true(metric(METRIC_EFFECTIVE_EXPERTS).v < 0.6 * 128);
	assert_int_equal(f->snap.flags, FLAG_SKEW);
	give_requests(0, 0);
	give_agent(0);
	update();
	assert_int_equal(f->snap.flags, 0);
}

/* Kernels run for half of the step: launches and host take the rest. */
static void test_overhead_is_flagged(void **state)
{
	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	f->window.busy_ns = 0.5e9;
	update();
	assert_true(f->snap.flags & FLAG_OVERHEAD);
	give_window(16, 64, 32);
	f->window.busy_ns = 0.65e9;
	update();
	assert_true(f->snap.flags & FLAG_OVERHEAD); /* 0.35 + 0: still */
	give_window(16, 64, 32);
	f->window.busy_ns = 0.9e9;
	update();
	assert_false(f->snap.flags & FLAG_OVERHEAD);
}

/* Ten steps whose s1 is 0.4 or 0.6: ten clusters, not a million experts. */
static void test_error_by_steps(void **state)
{
	struct sample_window *w = &f->window;
	double u;

	(void)state;
	load(16, 100);
	give_window(16, 64, 32);
	u = w->rows.active / 10;
	w->clusters = (struct sample_clusters){ .steps = 10 };
	for (unsigned i = 0; i < 10; i++) {
		double s = i % 2 ? 0.4 * u : 0.6 * u;

		w->clusters.uu += u * u;
		w->clusters.uf += u * s;
		w->clusters.ff += s * s;
	}
	update();
	near(metric(METRIC_SINGLE_ERROR).v, 0.1 / sqrt(10), 1e-6);
	w->clusters = (struct sample_clusters){ 0 };
	give_window(16, 64, 32);
	update();
	near(metric(METRIC_SINGLE_ERROR).v, 0.5 / sqrt(f->window.rows.active),
	     1e-9);
}

/* ---- calibration ------------------------------------------------------- */

/* Windows of three batches on a line: BW and t0 are those of the line. */
static void test_calibration_by_the_windows(void **state)
{
	static const double users[] = { 4, 16, 64 };

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		double b = users[i % 3], u = valley_active(128, 8, b), t;

		t = 2e-3 + (48 * u * 9437184.0 + 2.44e9) / 3.6e12;
		load(b, 1 / t);
		give_window(b, u, valley_single(128, 8, b));
		f->window.step_ns[0] = 100 * t * 1e9;
		f->window.group_ns[0] = 0.6 * f->window.step_ns[0];
		update();
		if (i == 0)
			is(METRIC_BANDWIDTH, BW, VALUE_OK, SOURCE_MODELLED);
	}
	is(METRIC_BANDWIDTH, 3.6e12, VALUE_OK, SOURCE_INFERRED);
	near(metric(METRIC_FIXED).v, 2e-3, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_kv_by_the_engines_count),
		T(test_kv_is_at_most_the_time_of_attention),
		T(test_kv_as_it_is_stored_and_read),
		T(test_kv_of_an_old_scrape_is_unknown),
		T(test_long_contexts_are_kv_bound),
		T(test_active_experts_from_counters),
		T(test_counters_are_summed_while_the_load_is_steady),
		T(test_counters_have_an_error),
		T(test_counters_see_every_copy_of_the_dense_weights),
		T(test_counters_that_cannot_be_right),
		T(test_rows_go_before_counters),
		T(test_a_fused_shared_expert_is_not_routed),
		T(test_a_fused_shared_expert_of_one_stream),
		T(test_ranks_that_share_the_experts_are_pooled),
		T(test_ranks_that_repeat_the_experts_are_not),
		T(test_speculation_is_per_request),
		T(test_chunks_share_the_experts),
		T(test_skew_is_flagged),
		T(test_overhead_is_flagged),
		T(test_error_by_steps),
		T(test_calibration_by_the_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
