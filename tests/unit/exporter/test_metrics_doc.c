#include "exporter/metrics_doc.h"
#include "tests/unit/exporter/golden.h"
#include "tests/unit/exporter/snapshots.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct snapshot s;
static struct text doc;

static int write_doc(void **state)
{
	(void)state;
	metrics_doc_write(&doc);
	return doc.error;
}

static int free_doc(void **state)
{
	(void)state;
	text_free(&doc);
	return 0;
}

static void the_document_is_fresh(void **state)
{
	(void)state;
	if (!golden_equal("docs/METRICS.md", doc.data))
		fail_msg("docs/METRICS.md is out of date; run make docs");
}

static void every_family_is_described(void **state)
{
	struct text t = { 0 };
	char name[128], row[160];
	unsigned families = 0;

	(void)state;
	snapshot_large(&s, 2);
	format_prometheus.write(&t, &s);
	for (const char *p = t.data; (p = strstr(p, "# TYPE moetop_")); p++) {
		assert_int_equal(sscanf(p, "# TYPE moetop_%127s", name), 1);
		snprintf(row, sizeof(row), "| `moetop_%s` |", name);
		if (!strstr(doc.data, row)) { /* a metric: by its id */
			snprintf(row, sizeof(row), "| `%s` |", name);
			if (!strstr(doc.data, row))
				fail_msg("%s is not described", name);
		}
		families++;
	}
	assert_true(families > METRICS);
	text_free(&t);
}

/* path of a key in the document's notation: "target.gpus[].index" */
static void find_key(const char *path, const char *key)
{
	char whole[264], quoted[264];

	snprintf(whole, sizeof(whole), "| `%s` |", path);
	if (strstr(doc.data, whole))
		return;
	/* described in the row of what it is in */
	snprintf(quoted, sizeof(quoted), "`%s`", key);
	if (!strstr(doc.data, quoted))
		fail_msg("%s is not described", path);
}

static void walk(const json_t *j, const char *path)
{
	char below[256];
	const char *key;
	json_t *value;

	if (json_is_array(j)) {
		snprintf(below, sizeof(below), "%s[]", path);
		walk(json_array_get(j, 0), below);
	}
	if (!json_is_object(j))
		return;
	json_object_foreach((json_t *)(uintptr_t)j, key, value)
	{
		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "",
			 key);
		if (!json_is_object(value) && !json_is_array(value))
			find_key(below, key);
		if (strcmp(key, "evidence") != 0)
			walk(value, below);
	}
}

static void every_key_is_described(void **state)
{
	struct text t = { 0 };
	json_t *j;

	(void)state;
	snapshot_full(&s);
	format_json.write(&t, &s);
	j = json_loads(t.data, 0, NULL);
	assert_non_null(j);
	walk(j, "");
	json_decref(j);
	text_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_document_is_fresh),
		cmocka_unit_test(every_family_is_described),
		cmocka_unit_test(every_key_is_described),
	};

	return cmocka_run_group_tests(tests, write_doc, free_doc);
}
