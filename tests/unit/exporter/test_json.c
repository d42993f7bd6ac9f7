#include "exporter/exporter.h"
#include "tests/unit/exporter/golden.h"
#include "tests/unit/exporter/snapshots.h"
#include "wire/kernel_class.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct snapshot s;

static char *write_json(void)
{
	struct text t = { 0 };

	format_json.write(&t, &s);
	assert_int_equal(t.error, 0);
	return t.data;
}

static json_t *parse(void)
{
	char *text = write_json();
	json_error_t e;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);

	if (!j)
		fail_msg("%s at %d in %s", e.text, e.position, text);
	free(text);
	return j;
}

/* The member at a path of keys like "metrics/rows/value". */
static const json_t *at(const json_t *j, const char *path)
{
	char key[64];

	while (*path && j) {
		size_t n = strcspn(path, "/");

		memcpy(key, path, n);
		key[n] = '\0';
		j = json_object_get(j, key);
		path += n + (path[n] == '/');
	}
	return j;
}

static void a_full_snapshot(void **state)
{
	char *text;

	(void)state;
	snapshot_full(&s);
	s.health.layers_seen = s.target.moe_layers;
	s.layers[0].n_classes = 2;
	s.layers[0].classes[0] = (struct snapshot_layer_class){
		.id = CLASS_GEMM_TRITON,
		.calls_per_step = 2,
		.seconds_per_step = 0.0001f,
		.sum_seconds_per_step = 0.000125f,
	};
	s.layers[0].classes[1] = (struct snapshot_layer_class){ .id = CLASSES };
	text = write_json();
	assert_true(golden_equal("tests/golden/exporter_full.json", text));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	free(text);
}

static void an_empty_snapshot(void **state)
{
	char *text;

	(void)state;
	snapshot_empty(&s);
	text = write_json();
	assert_true(golden_equal("tests/golden/exporter_empty.json", text));
	free(text);
}

static void keys_come_in_the_order_of_the_contract(void **state)
{
	static const char *const keys[] = {
		"\"time\":",   "\"interval_seconds\":", "\"target\":",
		"\"regime\":", "\"metrics\":",          "\"histograms\":",
		"\"layers\":", "\"findings\":",         "\"health\":",
	};
	char *text;
	const char *p;

	(void)state;
	snapshot_full(&s);
	p = text = write_json();
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		p = strstr(p, keys[i]);
		assert_non_null(p);
	}
	free(text);
}

static void every_metric_is_there(void **state)
{
	json_t *j;

	(void)state;
	snapshot_empty(&s);
	j = parse();
	assert_int_equal(json_object_size(at(j, "metrics")), METRICS);
	assert_int_equal(json_object_size(at(j, "histograms")), HISTOGRAMS);
	for (unsigned i = 0; i < METRICS; i++) {
		const json_t *m =
			json_object_get(at(j, "metrics"), metric_info[i].key);

		assert_true(json_is_null(json_object_get(m, "value")));
		assert_string_equal(
			json_string_value(json_object_get(m, "state")),
			"no_data");
	}
	json_decref(j);
}

static void ratios_survive(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	j = parse();
	assert_true(
		json_number_value(at(j, "metrics/fragmentation_ratio/value")) ==
		81 / 128.);
	assert_true(json_number_value(at(
			    j, "metrics/useful_mbu_ratio/value")) == 0.1 + 0.2);
	json_decref(j);
}

static void unknown_is_null_and_stale_is_not(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	s.metrics[METRIC_ROWS] =
		(struct value){ NAN, VALUE_OK, SOURCE_MEASURED };
	s.metrics[METRIC_TOKENS].state = VALUE_WARMING;
	j = parse();
	assert_true(json_is_null(at(j, "metrics/rows/value")));
	assert_true(json_is_null(at(j, "metrics/tokens_per_second/value")));
	assert_true(json_number_value(at(
			    j, "metrics/dram_read_bytes_per_second/value")) ==
		    1e12);
	json_decref(j);
	s.regime = REGIME_UNKNOWN;
	j = parse();
	assert_true(json_is_null(at(j, "regime/value")));
	assert_true(json_is_null(at(j, "regime/side")));
	assert_true(json_is_null(at(j, "regime/source")));
	json_decref(j);
}

static void hostile_names_stay_json(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	strcpy(s.target.model, "a\"},{\\\x01\xff\n");
	strcpy(s.findings[0].evidence[0].key, "\"\xfe");
	strcpy(s.findings[0].text, "caf\xc3\xa9 \xc3");
	j = parse();
	assert_string_equal(json_string_value(at(j, "target/model")),
			    "a\"},{\\\x01\xef\xbf\xbd\n");
	json_decref(j);
}

static void counts_beyond_the_arrays_are_cut(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	s.n_layers = s.n_findings = s.target.n_ranks = 100000;
	s.findings[0].n_evidence = 100000;
	j = parse();
	assert_int_equal(json_array_size(at(j, "layers")), SNAPSHOT_LAYERS_MAX);
	assert_int_equal(json_array_size(at(j, "health/agents")),
			 SNAPSHOT_RANKS_MAX);
	json_decref(j);
}

static void gpus_without_ranks(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	s.target.n_ranks = 0;
	j = parse();
	assert_int_equal(json_array_size(at(j, "target/gpus")), 2);
	assert_true(json_is_null(json_object_get(
		json_array_get(at(j, "target/gpus"), 0), "index")));
	json_decref(j);
}

static void two_ranks_may_share_a_gpu(void **state)
{
	json_t *j;

	(void)state;
	snapshot_full(&s);
	s.target.ranks[1].gpu_index = 0;
	j = parse();
	assert_int_equal(json_array_size(at(j, "target/gpus")), 1);
	json_decref(j);
}

static void requests_are_split_by_what_they_are_for(void **state)
{
	json_t *j;

	(void)state;
	snapshot_empty(&s);
	s.requests.known = true;
	s.requests.counts[1][REQUESTS_WAITING] = 7;
	s.requests.counts[1][REQUESTS_EVENTS] = 9;
	s.requests.counts[3][REQUESTS_FAILED_5XX] = 2;
	s.requests.oldest_seconds = 1.5;
	j = parse();
	assert_int_equal(json_object_size(at(j, "requests")),
			 SNAPSHOT_ENDPOINTS + 4);
	assert_int_equal(json_object_size(at(j, "requests/generation")),
			 REQUEST_COUNTS);
	assert_int_equal(
		json_integer_value(at(j, "requests/generation/waiting")), 7);
	assert_int_equal(
		json_integer_value(at(j, "requests/generation/events")), 9);
	assert_int_equal(
		json_integer_value(at(j, "requests/ignored/failed_5xx")), 2);
	assert_true(json_is_null(at(j, "requests/unread_bytes")));
	assert_true(json_is_null(at(j, "requests/tls/source")));
	assert_true(json_real_value(at(j, "requests/oldest_seconds")) == 1.5);
	json_decref(j);
}

static void encrypted_requests_say_where_they_come_from(void **state)
{
	json_t *j;

	(void)state;
	snapshot_empty(&s);
	s.requests.known = true;
	s.requests.tls = s.requests.tls_followed = 2;
	j = parse();
	assert_string_equal(json_string_value(at(j, "requests/tls/source")),
			    "measured");
	json_decref(j);
	s.requests.tls_inferred = 1;
	s.requests.inferred_streaming = 3;
	j = parse();
	assert_string_equal(json_string_value(at(j, "requests/tls/source")),
			    "inferred from timing (TLS)");
	assert_int_equal(json_integer_value(at(j, "requests/tls/streaming")),
			 3);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_snapshot),
		cmocka_unit_test(an_empty_snapshot),
		cmocka_unit_test(keys_come_in_the_order_of_the_contract),
		cmocka_unit_test(every_metric_is_there),
		cmocka_unit_test(requests_are_split_by_what_they_are_for),
		cmocka_unit_test(encrypted_requests_say_where_they_come_from),
		cmocka_unit_test(ratios_survive),
		cmocka_unit_test(unknown_is_null_and_stale_is_not),
		cmocka_unit_test(hostile_names_stay_json),
		cmocka_unit_test(counts_beyond_the_arrays_are_cut),
		cmocka_unit_test(gpus_without_ranks),
		cmocka_unit_test(two_ranks_may_share_a_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
