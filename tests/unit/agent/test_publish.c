#include "agent/publish.h"

#include "agent/state.h"

#include "tests/unit/agent/check.h"

static struct reduce_result window;
static struct rows_result rows;
static struct ring_reader reader;

static int setup(void **state)
{
	(void)state;
	memset(&window, 0, sizeof(window));
	memset(&rows, 0, sizeof(rows));
	agent.log = calloc(1, sizeof(*agent.log));
	agent.functions = calloc(1, sizeof(*agent.functions));
	agent.map = graph_map_new(16, 4);
	if (!agent.log || !agent.functions || !agent.map ||
	    ring_create(&agent.ring, 1024))
		return 1;
	return ring_open(&reader, agent.ring.fd, 0);
}

static int teardown(void **state)
{
	(void)state;
	ring_close(&reader, false);
	ring_destroy(&agent.ring);
	graph_map_free(agent.map);
	free(agent.functions);
	free(agent.log);
	return 0;
}

static struct record got[1024];

/* How many records of a type there are; *last is the last of them. */
static int count(int n, enum record_type type, const struct record **last)
{
	int found = 0;

	for (int i = 0; i < n; i++) {
		if (got[i].type != (uint32_t)type)
			continue;
		*last = &got[i];
		found++;
	}
	return found;
}

static void what_was_lost_is_said_when_it_doubles(void **state)
{
	const struct record *r = NULL;

	(void)state;
	publish_status();
	assert_int_equal(ring_read(&reader, got, 1024), 1);
	agent.log->lost = 5;
	atomic_store(&agent.functions->overflow, 7);
	publish_status();
	assert_int_equal(count(ring_read(&reader, got, 1024), REC_TEXT, &r), 1);
	assert_non_null(strstr(r->text.text, "5 launches, 7 of kernels"));
	agent.log->lost = 9;
	publish_status();
	assert_int_equal(ring_read(&reader, got, 1024), 1);
	agent.log->lost = 10;
	publish_status();
	assert_int_equal(count(ring_read(&reader, got, 1024), REC_TEXT, &r), 1);
}

/* One decode step of one layer with 30 experts, sampled. */
static void fill_window(void)
{
	window.layers = window.steps = 1;
	window.phase_steps[PHASE_DECODE] = 1;
	window.step[0].start = 1000;
	window.bad_steps = 2;
	window.lost = 3;
	window.sum[PHASE_DECODE][0][PART_BLOCK][CLASS_GEMM_TRITON] =
		(struct reduce_sum){ .calls = 2, .sum_ns = 9, .union_ns = 8 };
	window.sum[PHASE_DECODE][LAYERS_MAX][PART_BLOCK][CLASS_GEMM_DENSE] =
		(struct reduce_sum){ .calls = 1, .sum_ns = 4, .union_ns = 4 };
	window.step_hist[3] = window.step_hist[40] = 1;
	window.step_hist_ns = 77;
	rows.step[0] = (struct step_rows){ .cells = 1, .mask = { 1 } };
	rows.layer[PHASE_DECODE][0] =
		(struct layer_rows){ .cells = 1, .experts = 30, .rows = 435 };
	for (uint32_t e = 0; e < 30; e++)
		rows.expert[PHASE_DECODE][0][e] = e;
}

static void window_comes_last_and_its_parts_add_up(void **state)
{
	const int64_t offset = 500;
	const struct record *r = NULL;
	uint64_t experts = 0, hist_ns = 0;
	int n;

	(void)state;
	fill_window();
	publish_window(4, 10, 20, &offset, 99, &window, &rows);
	n = ring_read(&reader, got, 1024);
	for (int i = 0; i < n; i++) {
		for (uint32_t k = 0;
		     got[i].type == REC_EXPERTS && k < got[i].experts.count;
		     k++)
			experts += got[i].experts.rows[k];
		if (got[i].type == REC_HIST && got[i].hist.what == HIST_STEP_NS)
			hist_ns += got[i].hist.sum;
	}
	assert_int_equal(experts, 435);
	assert_int_equal(hist_ns, 77);
	assert_int_equal(count(n, REC_EXPERTS, &r), 2);
	assert_int_equal(count(n, REC_STEP_ROWS, &r), 1);
	assert_int_equal(r->step_rows.start_ns, 1500);
	assert_int_equal(count(n, REC_LAYER, &r), 2);
	assert_int_equal(r->layer.layer, LAYER_NONE);
	assert_int_equal(count(n, REC_WINDOW, &r), 1);
	assert_ptr_equal(r, &got[n - 1]);
	assert_int_equal(r->window.window, 4);
	assert_int_equal(r->window.bad_steps, 5);
	assert_int_equal(r->window.kernels, 99);
}

static void step_without_a_date_is_not_sent(void **state)
{
	const struct record *r = NULL;
	int n;

	(void)state;
	fill_window();
	publish_window(1, 10, 20, NULL, 99, &window, &rows);
	n = ring_read(&reader, got, 1024);
	assert_int_equal(count(n, REC_STEP_ROWS, &r), 0);
	assert_int_equal(count(n, REC_ROWS, &r), 1);
	assert_int_equal(count(n, REC_WINDOW, &r), 1);
}

static void window_without_rows_says_nothing_of_them(void **state)
{
	const int64_t offset = 0;
	const struct record *r = NULL;
	int n;

	(void)state;
	fill_window();
	publish_window(1, 10, 20, &offset, 99, &window, NULL);
	n = ring_read(&reader, got, 1024);
	assert_int_equal(count(n, REC_ROWS, &r), 0);
	assert_int_equal(count(n, REC_EXPERTS, &r), 0);
	assert_int_equal(count(n, REC_WINDOW, &r), 1);
	assert_int_equal(r->window.cells_lost, 0);
}

static void spans_keep_their_times_and_order(void **state)
{
	const int64_t offset = 500;
	uint32_t seen = 0;
	int n;

	(void)state;
	fill_window();
	for (uint32_t i = 0; i < 20; i++)
		window.span[i] = (struct reduce_span){
			.start = 10000 + i * 100ull + (i >= 10) * 5000000000ull,
			.length = 50 + i,
			.layer = (uint16_t)i,
			.group = GROUP_EXPERT,
		};
	window.spans = 20;
	publish_window(4, 10, 20, &offset, 99, &window, NULL);
	window.spans = 0;
	n = ring_read(&reader, got, 1024);
	for (int i = 0; i < n; i++) {
		const struct rec_spans *r = &got[i].spans;

		for (uint32_t k = 0; got[i].type == REC_SPANS && k < r->count;
		     k++, seen++) {
			assert_int_equal(r->window, 4);
			assert_int_equal(r->base_ns + r->span[k].start_ns,
					 window.span[seen].start + 500);
			assert_int_equal(r->span[k].length_ns, 50 + seen);
			assert_int_equal(r->span[k].layer, seen);
		}
	}
	assert_int_equal(seen, 20);
	assert_int_equal(got[n - 1].type, REC_WINDOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(spans_keep_their_times_and_order),
		T(what_was_lost_is_said_when_it_doubles),
		T(window_comes_last_and_its_parts_add_up),
		T(step_without_a_date_is_not_sent),
		T(window_without_rows_says_nothing_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
