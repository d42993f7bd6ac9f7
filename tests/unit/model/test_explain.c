/* Every number that a screen shows can be explained, and the words are whole. */
#include "model/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void check(unsigned id, const char *key)
{
	struct explanation e;

	if (!explain(id, &e))
		fail_msg("%s has no line in model/explain.def", key);
	assert_string_equal(e.key, key);
	assert_true(e.title[0] && e.meaning[0] && e.formula[0]);
	assert_true(e.judgement[0]);
	if (e.judgement[strlen(e.judgement) - 1] != '.')
		fail_msg("%s: the judgement is no sentence", key);
	for (unsigned i = 0; i < e.n_inputs; i++) {
		assert_true(e.inputs[i] < METRICS);
		if (explain_metric(id) == e.inputs[i])
			fail_msg("%s is its own input", key);
	}
}

static void test_every_metric_is_explained(void **state)
{
	(void)state;
	for (unsigned i = 0; i < METRICS; i++)
		check(EXPLAIN_METRIC + i, metric_info[i].key);
}

static void test_every_histogram_is_explained(void **state)
{
	(void)state;
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		check(EXPLAIN_HISTOGRAM + i, histogram_info[i].key);
}

static void test_every_column_is_explained(void **state)
{
	struct explanation e;

	(void)state;
	for (unsigned id = EXPLAIN_COLUMN; id < EXPLAINS; id++) {
		assert_true(explain(id, &e));
		check(id, e.key);
		assert_int_equal(explain_find(e.key), id);
		assert_int_equal(explain_metric(id), METRICS);
	}
}

static void test_what_is_no_number_has_none(void **state)
{
	struct explanation e = { .n_inputs = 77 };

	(void)state;
	assert_false(explain(EXPLAIN_NOTHING, &e));
	assert_false(explain(EXPLAINS, &e));
	assert_false(explain(~0u, &e));
	assert_int_equal(e.n_inputs, 77);
	assert_int_equal(explain_find("no such key"), EXPLAIN_NOTHING);
	assert_int_equal(explain_find(""), EXPLAIN_NOTHING);
}

static void test_a_metric_is_found_by_its_key(void **state)
{
	(void)state;
	assert_int_equal(explain_metric(explain_find("mbu_ratio")), METRIC_MBU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_metric_is_explained),
		cmocka_unit_test(test_every_histogram_is_explained),
		cmocka_unit_test(test_every_column_is_explained),
		cmocka_unit_test(test_what_is_no_number_has_none),
		cmocka_unit_test(test_a_metric_is_found_by_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
