#include "exporter/exporter.h"
#include "tests/unit/exporter/golden.h"
#include "tests/unit/exporter/snapshots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define BASE                                                       \
	"server=\"vllm:8000\",engine=\"vllm\",model=\"Qwen/Qwen3-" \
	"30B-A3B\",gpu=\"NVIDIA H200\""

static struct snapshot s;

static char *write_text(void)
{
	struct text t = { 0 };

	format_prometheus.write(&t, &s);
	assert_int_equal(t.error, 0);
	return t.data;
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p += n)
		if ((p == text || p[-1] == '\n') && p[n] == '\n')
			return true;
	return false;
}

static unsigned count_samples(const char *text)
{
	unsigned n = 0;

	for (; *text; text += strcspn(text, "\n") + 1)
		n += *text != '#';
	return n;
}

static void a_full_snapshot(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	text = write_text();
	assert_true(golden_equal("tests/golden/exporter_full.prom", text));
	free(text);
}

static void an_empty_snapshot(void **state)
{
	char *text;

	(void)state;
	snapshot_empty(&s);
	text = write_text();
	assert_true(golden_equal("tests/golden/exporter_empty.prom", text));
	free(text);
}

static void what_is_unknown_has_no_sample(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	s.metrics[METRIC_ROWS] = (struct value){ INFINITY, VALUE_OK, 0 };
	text = write_text();
	assert_null(strstr(text, "moetop_mbu_ratio"));
	assert_null(strstr(text, "moetop_rows{"));
	assert_null(strstr(text, "moetop_layer_rows{" BASE ",layer=\"2\""));
	assert_true(has_line(text, "moetop_layer_rows{" BASE ",layer=\"1\","
				   "source=\"measured\"} 128"));
	assert_true(has_line(text, "moetop_stale_metrics{" BASE "} 1"));
	free(text);
}

/* Its type never changes, whatever is known beside it. */
static void the_mean_step_is_a_gauge(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	text = write_text();
	assert_true(has_line(text, "# TYPE moetop_step_seconds gauge"));
	assert_true(has_line(text, "moetop_step_seconds{" BASE
				   ",source=\"measured\"} 0.012"));
	assert_null(strstr(text, "# TYPE moetop_step_seconds histogram"));
	free(text);
}

static void histograms_are_cumulative(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	text = write_text();
	assert_true(has_line(text, "# TYPE moetop_ttft_seconds histogram"));
	assert_true(has_line(text, "moetop_ttft_seconds_bucket{" BASE
				   ",le=\"0.025\"} 0"));
	assert_true(has_line(text, "moetop_ttft_seconds_bucket{" BASE
				   ",le=\"0.05\"} 900"));
	assert_true(has_line(text, "moetop_ttft_seconds_bucket{" BASE
				   ",le=\"0.5\"} 1000"));
	assert_true(has_line(text, "moetop_ttft_seconds_bucket{" BASE
				   ",le=\"+Inf\"} 1000"));
	assert_true(has_line(text, "moetop_ttft_seconds_sum{" BASE "} 57.5"));
	assert_true(has_line(text, "moetop_ttft_seconds_count{" BASE "} 1000"));
	/* one that is not known is not there; one that is empty is */
	assert_null(strstr(text, "moetop_event_gap_seconds"));
	free(text);
	snapshot_total_seconds(&s.totals[HISTOGRAM_EVENT_GAP]);
	memset(s.totals[HISTOGRAM_EVENT_GAP].buckets, 0,
	       sizeof(s.totals[HISTOGRAM_EVENT_GAP].buckets));
	text = write_text();
	assert_true(
		has_line(text, "moetop_event_gap_seconds_count{" BASE "} 0"));
	free(text);
}

static void exactly_one_regime_is_on(void **state)
{
	char *text;
	unsigned on = 0;

	(void)state;
	snapshot_full(&s);
	text = write_text();
	for (const char *p = text; (p = strstr(p, "\nmoetop_regime{")); p++)
		on += *(strchr(p + 1, '\n') - 1) == '1';
	assert_int_equal(on, 1);
	assert_true(has_line(text, "moetop_regime{" BASE ",regime=\"valley\""
				   ",source=\"measured\"} 1"));
	free(text);
	s.regime = REGIME_UNKNOWN;
	text = write_text();
	assert_null(strstr(text, "moetop_regime"));
	free(text);
}

static void series_are_few(void **state)
{
	char *text;

	(void)state;
	snapshot_large(&s, 61);
	text = write_text();
	print_message("# %u samples at 61 layers\n", count_samples(text));
	assert_true(count_samples(text) <= 1500);
	free(text);
}

static void hostile_names_stay_labels(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	strcpy(s.target.model, "a\"} 1\nmoetop_evil 2\\\xff");
	text = write_text();
	assert_false(has_line(text, "moetop_evil 2\\"));
	assert_non_null(strstr(text, "model=\"a\\\"} 1\\nmoetop_evil "
				     "2\\\\\xef\xbf\xbd\""));
	free(text);
}

/* promtool knows the format and the rules for names better than we do. */
static void promtool_finds_nothing(void **state)
{
	static void (*const fill[])(struct snapshot *) = { snapshot_full,
							   snapshot_empty };

	(void)state;
	if (system("command -v promtool >/dev/null 2>&1"))
		skip();
	for (unsigned i = 0; i < 2; i++) {
		FILE *p = popen("promtool check metrics >&2", "w");
		char *text;

		assert_non_null(p);
		fill[i](&s);
		text = write_text();
		fputs(text, p);
		free(text);
		assert_int_equal(pclose(p), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_snapshot),
		cmocka_unit_test(an_empty_snapshot),
		cmocka_unit_test(what_is_unknown_has_no_sample),
		cmocka_unit_test(the_mean_step_is_a_gauge),
		cmocka_unit_test(histograms_are_cumulative),
		cmocka_unit_test(exactly_one_regime_is_on),
		cmocka_unit_test(series_are_few),
		cmocka_unit_test(hostile_names_stay_labels),
		cmocka_unit_test(promtool_finds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
