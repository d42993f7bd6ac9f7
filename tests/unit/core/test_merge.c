/* From an agent's records to the sums of a sample, hostile records too. */
#include "tests/unit/core/merge_records.h"

static void nothing_is_shown_before_the_window_closes(void **state)
{
	(void)state;
	give(layer(1, 0, CLASS_GEMM_GROUPED_TRI, 100));
	give(rows(1, 0));
	assert_true(m.closed.windows == 0 && m.closed.n_layers == 0);
	give(window(1));
	assert_true(m.closed.windows == 1);
	assert_int_equal(m.closed.n_layers, 1);
}

static void a_window_carries_its_own_sums(void **state)
{
	(void)state;
	give(window(9));
	assert_true(m.closed.wall_ns == 2000 && m.closed.end_ns == 3000);
	assert_true(m.closed.busy_ns == 1290);
	assert_true(m.closed.steps[0] == 10 && m.closed.steps[1] == 1);
	assert_true(m.closed.step_ns[0] == 1500 && m.closed.tokens[0] == 50);
	assert_true(m.closed.kernels == 40);
	assert_int_equal(m.totals.cells_rejected, 1);
	assert_int_equal(m.totals.cells_lost, 2);
	assert_int_equal(m.totals.bad_steps, 3);
}

/* An agent's own count begins anew when it has slept. */
static void what_the_agent_dropped_only_grows(void **state)
{
	static const uint64_t told[] = { 5, 9, 9, 2, 4 };
	static const uint64_t sums[] = { 5, 9, 9, 11, 13 };

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		give((struct record){ .type = REC_TICK,
				      .time_ns = i + 1,
				      .tick.records_dropped = told[i] });
		assert_int_equal(m.totals.records_dropped, sums[i]);
	}
}

static void layers_keep_groups_parts_and_backend(void **state)
{
	struct record before = layer(1, 2, CLASS_OTHER, 40);
	const struct sample_layer *l = &m.closed.layers[2];

	(void)state;
	before.layer.part = PART_BEFORE;
	give(layer(1, 2, CLASS_GEMM_GROUPED_TRI, 100));
	give(layer(1, 2, CLASS_TOPK_GATING, 7));
	give(before);
	give(window(1));
	assert_int_equal(m.closed.n_layers, 3);
	assert_true(l->steps == 10);
	assert_true(l->block_ns == 107 && l->before_ns == 40);
	assert_true(l->group_ns[GROUP_EXPERT] == 100);
	assert_true(l->group_ns[GROUP_ROUTE] == 7);
	assert_true(isnan(l->dram_bytes));
	assert_string_equal(l->backend, "gemm.grouped_tri");
	assert_true(m.closed.group_ns[GROUP_EXPERT] == 100);
	assert_true(m.closed.group_ns[GROUP_OTHER] == 40);
	assert_true(m.closed.layers[0].steps == 0);
}

static void time_outside_layers_counts_for_its_group_only(void **state)
{
	(void)state;
	give(layer(1, LAYER_NONE, CLASS_OTHER, 11));
	give(window(1));
	assert_int_equal(m.closed.n_layers, 0);
	assert_true(m.closed.group_ns[GROUP_OTHER] == 11);
	assert_int_equal(m.closed.n_classes, 1);
	assert_string_equal(m.closed.classes[0].name, "other");
	assert_true(m.closed.classes[0].sum_ns == 16);
	assert_true(m.closed.classes[0].calls == 10);
}

static void prefill_has_no_part_in_decode_sums(void **state)
{
	struct record l = layer(1, 0, CLASS_GEMM_GROUPED_TRI, 100);
	struct record r = rows(1, 0);

	(void)state;
	l.layer.phase = PHASE_PREFILL;
	r.rows.phase = PHASE_PREFILL;
	give(l);
	give(r);
	give(window(1));
	assert_int_equal(m.closed.n_layers, 0);
	assert_true(m.closed.rows.cells == 0);
	assert_true(m.closed.prefill_rows.rows == 10);
	assert_true(m.closed.group_ns[GROUP_EXPERT] == 0);
}

static void rows_are_summed_per_layer_and_over_all(void **state)
{
	(void)state;
	give(rows(1, 0));
	give(rows(1, 5));
	give(window(1));
	assert_int_equal(m.closed.n_layers, 6);
	assert_true(m.closed.rows.cells == 4 && m.closed.rows.rows == 20);
	assert_true(m.closed.rows.active == 12 && m.closed.rows.single == 8);
	assert_true(m.closed.rows.experts == 32); /* E summed over cells */
	assert_true(m.closed.layers[5].rows.rows == 10);
	assert_true(m.closed.layers[3].rows.cells == 0);
	assert_int_equal(m.experts, 8);
	assert_int_equal(m.totals.cells, 4);
}

static void windows_add_up_until_they_are_taken(void **state)
{
	(void)state;
	give(rows(1, 0));
	give(window(1));
	give(rows(2, 0));
	give(window(2));
	assert_true(m.closed.windows == 2 && m.closed.wall_ns == 4000);
	assert_true(m.closed.rows.rows == 20);
	merge_clear(&m);
	assert_true(m.closed.windows == 0 && m.closed.rows.rows == 0);
	assert_int_equal(m.totals.windows, 2);
}

static void parts_of_a_window_that_never_closed_are_dropped(void **state)
{
	(void)state;
	give(rows(1, 0));
	give(layer(1, 3, CLASS_OTHER, 9));
	give(rows(2, 0));
	give(window(2));
	assert_int_equal(m.totals.windows_torn, 1);
	assert_int_equal(m.closed.n_layers, 1);
	assert_true(m.closed.rows.rows == 10);
}

static void ranks_add_so_that_ratios_stay(void **state)
{
	struct sample_window sum = { 0 };
	double rows_per_cell, ns_per_step;

	(void)state;
	give(rows(1, 0));
	give(layer(1, 0, CLASS_GEMM_GROUPED_TRI, 100));
	give(window(1));
	rows_per_cell = m.closed.rows.rows / m.closed.rows.cells;
	ns_per_step = m.closed.layers[0].block_ns / m.closed.layers[0].steps;
	merge_windows(&sum, &m.closed);
	merge_windows(&sum, &m.closed);
	assert_true(sum.rows.rows == 2 * m.closed.rows.rows);
	assert_true(sum.rows.rows / sum.rows.cells == rows_per_cell);
	assert_true(sum.layers[0].block_ns / sum.layers[0].steps ==
		    ns_per_step);
	assert_int_equal(sum.n_classes, 1);
	assert_true(sum.classes[0].calls == 20);
	assert_string_equal(sum.layers[0].backend, "gemm.grouped_tri");
}

/* The slowest and the fullest rank stand beside the sums. */
static void ranks_show_what_one_has_most_of(void **state)
{
	struct sample_window sum = { 0 };
	struct record more = rows(2, 0);

	(void)state;
	give(rows(1, 0));
	give(layer(1, 0, CLASS_GEMM_GROUPED_TRI, 100));
	give(window(1));
	merge_windows(&sum, &m.closed);
	merge_clear(&m);
	more.rows.rows += 5;
	give(more);
	give(layer(2, 0, CLASS_GEMM_GROUPED_TRI, 300));
	give(window(2));
	merge_windows(&sum, &m.closed);
	merge_mean(&sum, 2);
	assert_true(sum.ranks == 2);
	assert_true(sum.rank_rows_max == (double)more.rows.rows);
	assert_true(sum.layers[0].slowest_ns == 300);
	assert_true(sum.layers[0].group_ns[GROUP_EXPERT] == 200);
}

/* A step is the unit of sampling error, whatever its number of layers. */
static void steps_are_clusters(void **state)
{
	struct record s = { .type = REC_STEP_ROWS,
			    .step_rows = { .window = 1,
					   .cells = 2,
					   .layer_mask = { 3 },
					   .rows = 16,
					   .active = 12,
					   .single = 8 } };
	const struct sample_clusters *c = &m.closed.clusters;

	(void)state;
	give(rows(1, 0));
	give(s);
	s.step_rows.phase = PHASE_PREFILL;
	give(s);
	give(window(1));
	assert_true(c->steps == 1 && c->rows == 8 && c->rows_squared == 64);
	assert_true(c->active == 6 && c->active_squared == 36);
	assert_true(c->cell_rows_squared == 128);
	assert_true(c->uu == 144 && c->uf == 96 && c->ff == 64);
}

static void a_longer_rank_brings_its_layers(void **state)
{
	struct sample_window sum = { 0 };

	(void)state;
	give(rows(1, 0));
	give(window(1));
	merge_windows(&sum, &m.closed);
	merge_clear(&m);
	give(rows(2, 7));
	give(window(2));
	merge_windows(&sum, &m.closed);
	assert_int_equal(sum.n_layers, 8);
	assert_true(sum.layers[7].rows.rows == 10);
	assert_true(isnan(sum.layers[6].dram_bytes));
}

static void layers_out_of_range_are_refused(void **state)
{
	struct record r = layer(1, LAYERS_MAX, CLASS_OTHER, 1);

	(void)state;
	refuse(r);
	r = layer(1, 0, CLASSES, 1);
	refuse(r);
	r = layer(1, 0, CLASS_OTHER, 1);
	r.layer.phase = PHASES;
	refuse(r);
	r = layer(1, 0, CLASS_OTHER, 1);
	r.layer.part = PART_BEFORE + 1;
	refuse(r);
	refuse(layer(0, 0, CLASS_OTHER, 1));
	give(window(1));
	assert_int_equal(m.closed.n_layers, 0);
}

static void rows_that_no_histogram_has_are_refused(void **state)
{
	struct record r = rows(1, LAYERS_MAX);

	(void)state;
	refuse(r);
	r = rows(1, 0);
	r.rows.active = 11; /* more than rows */
	refuse(r);
	r = rows(1, 0);
	r.rows.single = 7; /* more than active */
	refuse(r);
	r = rows(1, 0);
	r.rows.twice = 3; /* single + twice more than active */
	refuse(r);
	r = rows(1, 0);
	r.rows.experts = EXPERTS_MAX + 1;
	refuse(r);
	r = rows(1, 0);
	r.rows.experts = 2; /* fewer than active per cell */
	refuse(r);
	r = rows(1, 0);
	r.rows.sum_squares = 9; /* less than rows */
	refuse(r);
	assert_int_equal(m.totals.cells, 0);
}

static void unknown_and_backward_records_are_refused(void **state)
{
	struct record r = { .type = 0 };

	(void)state;
	refuse(r);
	r.type = REC_TYPES;
	refuse(r);
	r.type = UINT32_MAX;
	refuse(r);
	r = window(1);
	r.window.end_ns = 999;
	refuse(r);
	r = (struct record){ .type = REC_STATUS,
			     .status = { .state = AGENT_STATES } };
	refuse(r);
	r = (struct record){ .type = REC_STATUS,
			     .status = { .reason = REASONS } };
	refuse(r);
	assert_false(m.have_status);
}

static void expert_and_step_records_are_checked(void **state)
{
	struct record e = { .type = REC_EXPERTS,
			    .experts = { .window = 1, .count = 24 } };
	struct record s = { .type = REC_STEP_ROWS,
			    .step_rows = { .window = 1,
					   .cells = 2,
					   .layer_mask = { 1, 1 },
					   .rows = 4,
					   .active = 3,
					   .single = 2 } };

	(void)state;
	give(e);
	e.experts.first = EXPERTS_MAX - 23;
	refuse(e);
	e.experts.first = 0;
	e.experts.count = EXPERTS_PER_RECORD + 1;
	refuse(e);
	give(s);
	s.step_rows.cells = 3; /* the mask says two */
	refuse(s);
}

static void spans_are_checked(void **state)
{
	struct record r = { .type = REC_SPANS,
			    .spans = { .window = 1, .count = 2 } };

	(void)state;
	r.spans.span[0].layer = LAYERS_MAX - 1;
	r.spans.span[1].layer = LAYER_NONE;
	r.spans.span[1].group = SPAN_UNKNOWN;
	give(r);
	r.spans.span[0].layer = LAYERS_MAX;
	refuse(r);
	r.spans.span[0].layer = 0;
	r.spans.span[0].group = GROUPS;
	refuse(r);
	r.spans.span[0].group = 0;
	r.spans.count = SPANS_PER_RECORD + 1;
	refuse(r);
	r.spans.count = 0;
	refuse(r);
}

static void foreign_text_cannot_reach_the_terminal(void **state)
{
	struct record r = { .type = REC_TEXT, .text = { .level = 1 } };

	(void)state;
	memset(r.text.text, 'a', TEXT_BYTES); /* no end */
	r.text.text[0] = '\033';
	r.text.text[1] = '\n';
	give(r);
	assert_int_equal(strlen(m.text), TEXT_BYTES);
	assert_memory_equal(m.text, "??aa", 4);
	r = (struct record){ .type = REC_STATUS };
	memset(r.status.device_name, '\033', sizeof(r.status.device_name));
	give(r);
	assert_int_equal(strlen(m.status.device_name), 47);
	assert_int_equal(m.status.device_name[0], '?');
	r = (struct record){ .type = REC_TEXT };
	r.text.level = 0; /* information does not replace a warning */
	r.text.text[0] = 'x';
	give(r);
	assert_int_equal(m.text[0], '?');
}

static struct record hist(unsigned what, unsigned first, unsigned count)
{
	struct record r = { .type = REC_HIST };

	r.hist.window = 1;
	r.hist.what = (uint16_t)what;
	r.hist.first = (uint16_t)first;
	r.hist.count = (uint16_t)count;
	r.hist.sum = 6;
	for (unsigned i = 0; i < HIST_PER_RECORD; i++)
		r.hist.buckets[i] = 1;
	return r;
}

static void distributions_come_in_pieces_and_add_up(void **state)
{
	const struct sample_hist *h = &m.closed.rows_per_expert;

	(void)state;
	give(hist(HIST_ROWS, 1, 3));
	give(hist(HIST_ROWS, 40, 2));
	give(window(1));
	give(hist(HIST_ROWS, 1, 1));
	give(window(1));
	assert_int_equal(h->count, 6);
	assert_true(h->sum == 18);
	assert_int_equal(h->buckets[1], 2);
	assert_int_equal(h->buckets[41], 1);
	assert_true(h->exact && h->upper[1] == 1);
	assert_int_equal(m.closed.step_s.count, 0);
}

static void distributions_out_of_range_are_refused(void **state)
{
	(void)state;
	refuse(hist(HIST_WHATS, 0, 1));
	refuse(hist(HIST_ROWS, ROWS_BUCKETS - 1, 2));
	refuse(hist(HIST_STEP_NS, 0, HIST_PER_RECORD + 1));
}

static void buckets_of_rows_hold_what_they_say(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 32768; n++) {
		uint32_t b = rows_bucket(n);

		assert_true(n <= rows_bucket_high(b));
		assert_true(n > rows_bucket_high(b - 1));
		assert_true(rows_bucket_high(b) - n <= n / 16);
	}
}

static void random_records_never_break_the_sums(void **state)
{
	unsigned seed = 1;
	struct record r;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		unsigned char *p = (unsigned char *)&r;

		for (size_t b = 0; b < sizeof(r); b++)
			p[b] = (unsigned char)rand_r(&seed);
		r.type = (uint32_t)(rand_r(&seed) % (REC_TYPES + 1));
		if (rand_r(&seed) % 2) { /* small numbers get further */
			r.layer.window = 1;
			r.layer.phase &= 1;
			r.layer.layer &= 127;
			r.layer.klass &= 31;
			r.layer.part &= 1;
		}
		(void)merge_record(&m, &r);
	}
	assert_true(m.totals.refused > 0);
	assert_true(m.closed.n_layers <= SAMPLE_LAYERS_MAX);
	assert_true(m.closed.n_classes <= SAMPLE_CLASSES_MAX);
	assert_true(isfinite(m.closed.wall_ns));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_shown_before_the_window_closes),
		TEST(a_window_carries_its_own_sums),
		TEST(what_the_agent_dropped_only_grows),
		TEST(layers_keep_groups_parts_and_backend),
		TEST(time_outside_layers_counts_for_its_group_only),
		TEST(prefill_has_no_part_in_decode_sums),
		TEST(rows_are_summed_per_layer_and_over_all),
		TEST(windows_add_up_until_they_are_taken),
		TEST(parts_of_a_window_that_never_closed_are_dropped),
		TEST(ranks_add_so_that_ratios_stay),
		TEST(ranks_show_what_one_has_most_of),
		TEST(steps_are_clusters),
		TEST(a_longer_rank_brings_its_layers),
		TEST(layers_out_of_range_are_refused),
		TEST(rows_that_no_histogram_has_are_refused),
		TEST(unknown_and_backward_records_are_refused),
		TEST(expert_and_step_records_are_checked),
		TEST(spans_are_checked),
		TEST(foreign_text_cannot_reach_the_terminal),
		TEST(distributions_come_in_pieces_and_add_up),
		TEST(distributions_out_of_range_are_refused),
		TEST(buckets_of_rows_hold_what_they_say),
		TEST(random_records_never_break_the_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
