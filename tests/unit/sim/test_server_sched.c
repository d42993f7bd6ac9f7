/* The scheduler: chunked prefill, limits, aborts, graph sizes. */
#include "sim/server/sched.h"
#include "tests/unit/sim/server_test.h"

static struct sched sched;
static struct sched_step step;
static unsigned tokens_out, gone_out, last_out;

static void count_token(void *arg, struct seq *q, bool last)
{
	(void)arg;
	(void)q;
	tokens_out++;
	last_out += last;
}

static void count_gone(void *arg, struct seq *q)
{
	(void)arg;
	(void)q;
	gone_out++;
}

static void begin(unsigned max_seqs, unsigned max_tokens)
{
	const struct sched_limits l = { max_seqs, max_tokens };

	tokens_out = gone_out = last_out = 0;
	assert_int_equal(sched_init(&sched, &l), 0);
}

static void run_step(void)
{
	sched_plan(&sched, &step);
	sched_commit(&sched, &step, count_token, NULL);
}

static struct seq make(uint32_t prompt, uint32_t max)
{
	return (struct seq){ .prompt_tokens = prompt, .max_tokens = max };
}

static void nothing_to_do_plans_nothing(void **state)
{
	(void)state;
	begin(4, 16);
	sched_plan(&sched, &step);
	assert_int_equal(step.items_n, 0);
	assert_int_equal(step.tokens, 0);
	sched_fini(&sched);
}

static void long_prompt_is_computed_in_chunks(void **state)
{
	struct seq q = make(25, 2);

	(void)state;
	begin(4, 10);
	sched_add(&sched, &q);
	for (unsigned i = 0; i < 2; i++) {
		run_step();
		assert_int_equal(step.tokens, 10);
		assert_true(step.prefill);
		assert_false(step.items[0].samples);
		assert_int_equal(step.items[0].first, 10 * i);
	}
	assert_int_equal(tokens_out, 0);
	run_step();
	assert_int_equal(step.tokens, 5);
	assert_true(step.items[0].samples);
	assert_int_equal(tokens_out, 1);
	run_step();
	assert_false(step.prefill);
	assert_int_equal(step.tokens, 1);
	assert_int_equal(step.items[0].first, 25);
	assert_int_equal(last_out, 1);
	assert_int_equal(sched.running_n, 0);
	sched_fini(&sched);
}

static void decode_comes_before_waiting_prompts(void **state)
{
	struct seq a = make(4, 9), b = make(30, 9);

	(void)state;
	begin(4, 10);
	sched_add(&sched, &a);
	run_step();
	sched_add(&sched, &b);
	run_step();
	assert_int_equal(step.items_n, 2);
	assert_ptr_equal(step.items[0].seq, &a);
	assert_int_equal(step.items[0].count, 1);
	assert_int_equal(step.items[1].count, 9);
	assert_true(step.prefill);
	assert_int_equal(tokens_out, 2); /* a's first and second */
	sched_fini(&sched);
}

static void running_sequences_are_limited(void **state)
{
	struct seq q[5];

	(void)state;
	begin(3, 100);
	for (unsigned i = 0; i < 5; i++) {
		q[i] = make(2, 1 + i);
		sched_add(&sched, &q[i]);
	}
	run_step();
	assert_int_equal(step.items_n, 3);
	assert_int_equal(sched.waiting_n, 2);
	/* The first wanted one token and made room for the fourth. */
	run_step();
	assert_int_equal(step.items_n, 3);
	assert_ptr_equal(step.items[2].seq, &q[3]);
	assert_int_equal(sched.waiting_n, 1);
	sched_fini(&sched);
}

static void every_token_is_delivered_once(void **state)
{
	struct seq q[40];
	unsigned want = 0, guard = 0;

	(void)state;
	begin(7, 13);
	for (unsigned i = 0; i < 40; i++) {
		q[i] = make(1 + i % 19, 1 + i % 7);
		want += q[i].max_tokens;
		sched_add(&sched, &q[i]);
	}
	while ((sched.running_n || sched.waiting_n) && guard++ < 1000)
		run_step();
	assert_int_equal(tokens_out, want);
	assert_int_equal(last_out, 40);
	sched_fini(&sched);
}

static void aborted_sequences_leave_at_once(void **state)
{
	struct seq q[4];

	(void)state;
	begin(2, 100);
	for (unsigned i = 0; i < 4; i++) {
		q[i] = make(1, 9);
		sched_add(&sched, &q[i]);
	}
	run_step(); /* 0 and 1 run, 2 and 3 wait */
	atomic_store(&q[0].abort, true);
	atomic_store(&q[3].abort, true);
	sched_reap(&sched, count_gone, NULL);
	assert_int_equal(gone_out, 2);
	run_step();
	assert_int_equal(step.items_n, 2);
	assert_ptr_equal(step.items[0].seq, &q[1]);
	assert_ptr_equal(step.items[1].seq, &q[2]);
	assert_int_equal(sched.waiting_n, 0);
	sched_fini(&sched);
}

static void queue_works_after_its_tail_was_aborted(void **state)
{
	struct seq a = make(1, 1), b = make(1, 1);

	(void)state;
	begin(1, 100);
	sched_add(&sched, &a);
	atomic_store(&a.abort, true);
	sched_reap(&sched, count_gone, NULL);
	sched_add(&sched, &b);
	run_step();
	assert_int_equal(step.items_n, 1);
	assert_ptr_equal(step.items[0].seq, &b);
	sched_fini(&sched);
}

static void graph_sizes_are_those_of_vllm(void **state)
{
	static const struct {
		unsigned tokens, size;
	} cases[] = { { 1, 1 },     { 2, 2 },     { 3, 4 },     { 4, 4 },
		      { 5, 8 },     { 9, 16 },    { 248, 248 }, { 249, 256 },
		      { 256, 256 }, { 257, 272 }, { 512, 512 }, { 513, 0 } };
	unsigned n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(sched_graph_pad(cases[i].tokens, 512),
				 cases[i].size);
	assert_int_equal(sched_graph_pad(20, 16), 0);
	while (sched_graph_size(n)) {
		assert_true(!n ||
			    sched_graph_size(n) > sched_graph_size(n - 1));
		n++;
	}
	assert_int_equal(n, 3 + 31 + 17);
	assert_true(n <= GRAPH_SIZES_MAX);
}

static void alignment_is_skipped_at_low_batch(void **state)
{
	(void)state;
	assert_true(sched_skips_align(4, 8, 128));
	assert_false(sched_skips_align(5, 8, 128));
	assert_true(sched_skips_align(8, 8, 256));
	assert_false(sched_skips_align(9, 8, 256));
	assert_true(sched_skips_align(12, 10, 512));
	assert_false(sched_skips_align(13, 10, 512));
	assert_true(sched_skips_align(1, 2, 8));
	assert_false(sched_skips_align(2, 2, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_do_plans_nothing),
		cmocka_unit_test(long_prompt_is_computed_in_chunks),
		cmocka_unit_test(decode_comes_before_waiting_prompts),
		cmocka_unit_test(running_sequences_are_limited),
		cmocka_unit_test(every_token_is_delivered_once),
		cmocka_unit_test(aborted_sequences_leave_at_once),
		cmocka_unit_test(queue_works_after_its_tail_was_aborted),
		cmocka_unit_test(graph_sizes_are_those_of_vllm),
		cmocka_unit_test(alignment_is_skipped_at_low_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
