/* From one set of snapshots to the next: what must not move, does not. */
#include "exporter/pages.h"
#include "tests/unit/exporter/snapshots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct snapshot s;
static struct pages *p;

static int setup(void **state)
{
	const struct pages_config config = { 0 };

	(void)state;
	snapshot_full(&s);
	return pages_new(&p, &config);
}

static int teardown(void **state)
{
	(void)state;
	pages_free(p);
	return 0;
}

/* Of the histogram of TTFT, as OpenMetrics says it. */
static double created(void)
{
	const struct snapshot *list[] = { &s };
	struct exporter_stats stats = { 0 };
	struct page *page;
	const char *line;
	double v;

	pages_publish(p, list, 1, 0);
	page = pages_get(p, PAGE_METRICS + WIRE_OPENMETRICS, false, &stats);
	assert_non_null(page);
	line = strstr(page->text.data, "\nmoetop_ttft_seconds_created{");
	assert_non_null(line);
	assert_int_equal(sscanf(strstr(line, "} "), "} %lf", &v), 1);
	page_release(page);
	return v;
}

/* One clock is set, and read a moment after the other. */
static void the_start_does_not_wander(void **state)
{
	double first = created();

	(void)state;
	assert_true(first == s.time - s.uptime_s);
	s.uptime_s += 1;
	s.time += 1.004;
	assert_true(created() == first);
	s.uptime_s += 1;
	s.time += 3600;
	assert_true(created() == first);
}

static void who_counts_anew_has_a_new_start(void **state)
{
	double first = created();

	(void)state;
	s.time += 10;
	s.uptime_s = 1;
	assert_true(created() == s.time - 1);
	s.target.pid++;
	s.uptime_s += 5;
	assert_true(created() == s.time - 6);
	assert_true(created() > first);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_start_does_not_wander),
		T(who_counts_anew_has_a_new_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
