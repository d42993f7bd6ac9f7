/* The delimited messages, read back; tests/e2e/exporter_formats.t reads them
 * with libraries of others. */
#include "exporter/exporter.h"
#include "tests/unit/exporter/snapshots.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/metrics.pb-c.h"

#define FAMILIES_MAX 256u

static struct snapshot s;
static struct text t;
static Io__Prometheus__Client__MetricFamily *families[FAMILIES_MAX];
static unsigned n_families;

static size_t read_length(size_t *at)
{
	size_t n = 0;

	for (unsigned shift = 0;; shift += 7) {
		unsigned char c = (unsigned char)t.data[(*at)++];

		n |= (size_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			return n;
	}
}

static void read_all(void)
{
	format_protobuf.write(&t, &s);
	assert_int_equal(t.error, 0);
	n_families = 0;
	for (size_t at = 0; at < t.bytes;) {
		size_t n = read_length(&at);

		assert_true(n <= t.bytes - at);
		assert_true(n_families < FAMILIES_MAX);
		families[n_families] =
			io__prometheus__client__metric_family__unpack(
				NULL, n, (uint8_t *)t.data + at);
		assert_non_null(families[n_families]);
		n_families++;
		at += n;
	}
}

static int forget(void **state)
{
	(void)state;
	for (unsigned i = 0; i < n_families; i++)
		io__prometheus__client__metric_family__free_unpacked(
			families[i], NULL);
	n_families = 0;
	text_free(&t);
	return 0;
}

static const Io__Prometheus__Client__MetricFamily *find(const char *name)
{
	for (unsigned i = 0; i < n_families; i++)
		if (!strcmp(families[i]->name, name))
			return families[i];
	fail_msg("no %s", name);
	return NULL;
}

static void types_units_and_labels(void **state)
{
	const Io__Prometheus__Client__MetricFamily *f;

	(void)state;
	snapshot_full(&s);
	read_all();
	f = find("moetop_requests_started_total");
	assert_int_equal(f->type, IO__PROMETHEUS__CLIENT__METRIC_TYPE__COUNTER);
	assert_true(f->metric[0]->counter->value == 1234567);
	assert_int_equal(f->metric[0]->counter->created_timestamp->seconds,
			 1699999940);
	assert_string_equal(f->metric[0]->label[0]->name, "server");
	assert_string_equal(f->metric[0]->label[0]->value, "vllm:8000");
	f = find("moetop_step_seconds");
	assert_int_equal(f->type, IO__PROMETHEUS__CLIENT__METRIC_TYPE__GAUGE);
	assert_string_equal(f->unit, "seconds");
	assert_true(f->metric[0]->gauge->value == 0.012);
	assert_int_equal(find("moetop_build_info")->type,
			 IO__PROMETHEUS__CLIENT__METRIC_TYPE__GAUGE);
}

/* Sum of the native buckets, and the upper bound of the last. */
static uint64_t walk(const Io__Prometheus__Client__Histogram *h, double *last)
{
	uint64_t sum = h->zero_count;
	int64_t count = 0;
	size_t d = 0;
	int index = 0;

	for (size_t i = 0; i < h->n_positive_span; i++) {
		index += h->positive_span[i]->offset;
		for (unsigned k = 0; k < h->positive_span[i]->length; k++) {
			count += h->positive_delta[d++];
			assert_true(count > 0);
			sum += (uint64_t)count;
			*last = exp2(index++ / ldexp(1, h->schema));
		}
	}
	assert_int_equal(d, h->n_positive_delta);
	return sum;
}

static void a_histogram_in_both_shapes(void **state)
{
	const Io__Prometheus__Client__Histogram *h;
	double last = 0;

	(void)state;
	snapshot_full(&s);
	read_all();
	h = find("moetop_ttft_seconds")->metric[0]->histogram;
	assert_int_equal(h->sample_count, 1000);
	assert_true(h->sample_sum == 57.5);
	assert_int_equal(h->schema, 5);
	assert_int_equal(walk(h, &last), 1000);
	assert_true(last > 0.256 && last < 0.272 * 1.022);
	assert_int_equal(h->n_positive_span, 3);
	assert_int_equal(h->n_bucket, 16);
	assert_true(h->bucket[5]->upper_bound == 0.05);
	assert_int_equal(h->bucket[5]->cumulative_count, 900);
}

static void an_empty_histogram_is_native_too(void **state)
{
	const Io__Prometheus__Client__Histogram *h;
	struct snapshot_hist_total *gap = &s.totals[HISTOGRAM_EVENT_GAP];
	double last = 0;

	(void)state;
	snapshot_full(&s);
	snapshot_total_seconds(gap);
	memset(gap->buckets, 0, sizeof(gap->buckets));
	read_all();
	h = find("moetop_event_gap_seconds")->metric[0]->histogram;
	assert_int_equal(h->sample_count, 0);
	assert_int_equal(walk(h, &last), 0);
	assert_int_equal(h->n_positive_span, 1);
}

/* A message with a string that is no UTF-8 would be refused whole. */
static void names_are_utf8(void **state)
{
	const Io__Prometheus__Client__Metric *m;

	(void)state;
	snapshot_full(&s);
	strcpy(s.target.model, "caf\xe9");
	read_all();
	m = find("moetop_target_up")->metric[0];
	assert_string_equal(m->label[2]->name, "model");
	assert_string_equal(m->label[2]->value, "caf\xef\xbf\xbd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(types_units_and_labels, forget),
		cmocka_unit_test_teardown(a_histogram_in_both_shapes, forget),
		cmocka_unit_test_teardown(an_empty_histogram_is_native_too,
					  forget),
		cmocka_unit_test_teardown(names_are_utf8, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
