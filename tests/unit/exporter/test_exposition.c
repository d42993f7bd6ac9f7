/* What a scrape says, before it has a format: limits, ages, several servers. */
#include "exporter/exposition.h"
#include "tests/unit/exporter/snapshots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct snapshot s, other;
static struct exposition x;
static double stale_since[METRICS];

static void build(const struct exposition_options *options)
{
	const struct exposed_server server = { .snapshot = &s,
					       .stale_since = stale_since };

	exposition_build(&x, &server, 1, options);
	assert_int_equal(x.error, 0);
}

static const struct family *find(const char *name)
{
	for (unsigned i = 0; i < x.n_families; i++)
		if (!strcmp(x.families[i].info->name, name))
			return &x.families[i];
	return NULL;
}

static double value_of(const char *name)
{
	const struct family *f = find(name);

	assert_non_null(f);
	return x.series[f->first].value;
}

/* As the limit counts them. */
static unsigned count_series(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x.n_families; i++) {
		const struct family *f = &x.families[i];

		for (unsigned k = f->first; k < f->first + f->n; k++)
			if (x.series[k].base)
				n += x.series[k].hist
					     ? x.series[k].hist->n_bounds + 3
					     : 1;
	}
	return n;
}

static int setup(void **state)
{
	(void)state;
	snapshot_full(&s);
	memset(stale_since, 0, sizeof(stale_since));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	exposition_free(&x);
	return 0;
}

static void every_rank_layer_and_expert_is_bounded(void **state)
{
	(void)state;
	snapshot_large(&s, 61);
	s.experts.n_layers = 61;
	s.experts.n_experts = 256;
	build(&(struct exposition_options){ 0 });
	assert_true(count_series() <= 1500);
	assert_null(find("expert_rows"));
	exposition_free(&x);
	build(&(struct exposition_options){ .experts = true,
					    .series_max = 20000 });
	assert_int_equal(find("expert_rows")->n, 61 * 256);
	assert_true(value_of("series_left_out") == 0);
}

static void beyond_the_limit_is_counted(void **state)
{
	unsigned all;

	(void)state;
	snapshot_large(&s, 61);
	build(&(struct exposition_options){ 0 });
	all = count_series() - 1; /* itself */
	exposition_free(&x);
	build(&(struct exposition_options){ .series_max = 300 });
	assert_true(count_series() <= 301);
	assert_true(value_of("series_left_out") == all - 300);
	/* what comes first is what matters most */
	assert_non_null(find("target_up"));
	assert_non_null(find("ttft_seconds"));
	assert_null(find("layer_rows"));
}

static void two_rows_with_one_name_are_one_series(void **state)
{
	(void)state;
	s.n_findings = 2;
	s.findings[1] = s.findings[0];
	strcpy(s.classes[1].name, s.classes[0].name);
	build(&(struct exposition_options){ 0 });
	assert_int_equal(find("finding")->n, 1);
	assert_int_equal(find("kernel_calls_per_step")->n, 1);
}

static void what_is_stale_goes_after_a_while(void **state)
{
	(void)state;
	stale_since[METRIC_DRAM_READ] = s.time;
	build(&(struct exposition_options){ .now = s.time + 10 });
	assert_non_null(find("dram_read_bytes_per_second"));
	assert_true(value_of("metric_stale_seconds") == 10);
	assert_true(value_of("snapshot_age_seconds") == 10);
	assert_true(value_of("window_age_seconds") == 14.5);
	exposition_free(&x);
	build(&(struct exposition_options){ .now = s.time + 301 });
	assert_null(find("dram_read_bytes_per_second"));
	assert_true(value_of("metric_stale_seconds") == 301);
}

static void stale_tables_go_with_their_window(void **state)
{
	(void)state;
	for (unsigned i = 0; i < s.n_layers; i++)
		s.layers[i].rows.state = VALUE_STALE;
	s.layers[2].rows.state = VALUE_NO_DATA;
	build(&(struct exposition_options){ .now = s.time + 200 });
	assert_int_equal(find("layer_rows")->n, 2);
	exposition_free(&x);
	build(&(struct exposition_options){ .now = s.time + 400 });
	assert_null(find("layer_rows"));
	assert_non_null(find("layer_active_experts"));
}

static void of_one_that_has_ended_only_that_is_told(void **state)
{
	(void)state;
	s.health.target_gone = true;
	s.health.target_gone_seconds = s.time;
	build(&(struct exposition_options){ .now = s.time + 1 });
	assert_true(value_of("target_up") == 0);
	assert_null(find("requests_in_flight"));
	assert_null(find("ttft_seconds"));
	assert_null(find("layer_rows"));
	assert_non_null(find("snapshot_age_seconds"));
}

static void servers_share_families(void **state)
{
	const struct exposed_server servers[] = { { .snapshot = &s },
						  { .snapshot = &other } };
	const struct family *f;

	(void)state;
	snapshot_full(&other);
	strcpy(other.target.server, "sglang:9");
	strcpy(other.target.pod, "llm-0");
	strcpy(other.target.pod_namespace, "prod");
	exposition_build(&x, servers, 2,
			 &(struct exposition_options){ .servers_left_out = 3 });
	f = find("requests_in_flight");
	assert_int_equal(f->n, 2);
	assert_string_equal(x.bases[x.series[f->first].base].labels[0].value,
			    "vllm:8000");
	assert_int_equal(x.bases[x.series[f->first].base].n, 4);
	assert_int_equal(x.bases[x.series[f->first + 1].base].n, 6);
	assert_string_equal(
		x.bases[x.series[f->first + 1].base].labels[5].value, "prod");
	f = find("exporter_servers");
	assert_int_equal(f->n, 2);
	assert_true(x.series[f->first].value == 2);
	assert_true(x.series[f->first + 1].value == 3);
}

/* The gpu of a rank is not doubled by that of its server. */
static void no_label_is_there_twice(void **state)
{
	(void)state;
	snapshot_large(&s, 3);
	build(&(struct exposition_options){ 0 });
	for (unsigned i = 0; i < x.n_series; i++) {
		const struct series *r = &x.series[i];
		const struct label_base *b = &x.bases[r->base];
		const struct series_label *own = x.labels + r->first_label;

		for (unsigned k = 0; k < r->n; k++) {
			for (unsigned m = 0; m < b->n; m++)
				assert_string_not_equal(own[k].name,
							b->labels[m].name);
			for (unsigned m = 0; m < k; m++)
				assert_string_not_equal(own[k].name,
							own[m].name);
		}
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(every_rank_layer_and_expert_is_bounded),
		T(beyond_the_limit_is_counted),
		T(two_rows_with_one_name_are_one_series),
		T(what_is_stale_goes_after_a_while),
		T(stale_tables_go_with_their_window),
		T(of_one_that_has_ended_only_that_is_told),
		T(servers_share_families),
		T(no_label_is_there_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
