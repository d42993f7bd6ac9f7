/* GPU names, peaks, and the tables of words. */
#include "model/hw.h"
#include "model/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "model/economics.h"

static void test_names_that_drivers_report(void **state)
{
	static const struct {
		const char *said, *row;
	} names[] = {
		{ "H200", "H200-SXM" },
		{ "NVIDIA H200", "H200-SXM" },
		{ "NVIDIA H200 NVL", "H200-NVL" },
		{ "h100", "H100-SXM" },
		{ "NVIDIA H100 80GB HBM3", "H100-SXM" },
		{ "NVIDIA H100 PCIe", "H100-PCIe" },
		{ "NVIDIA H100 NVL", "H100-NVL" },
		{ "NVIDIA A100-SXM4-80GB", "A100-80GB-SXM" },
		{ "NVIDIA A100-SXM4-40GB", "A100-40GB" },
		{ "NVIDIA A100 80GB PCIe", "A100-80GB-PCIe" },
		{ "NVIDIA A100-PCIE-40GB", "A100-40GB" },
		{ "NVIDIA A10", "A10" },
		{ "NVIDIA L4", "L4" },
		{ "NVIDIA L40S", "L40S" },
		{ "NVIDIA GeForce RTX 4090", "RTX4090" },
		{ "NVIDIA GeForce RTX 5090", "RTX5090" },
		{ "NVIDIA RTX PRO 6000 Blackwell Server Edition",
		  "RTXPRO6000-SE" },
		{ "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
		  "RTXPRO6000-WS" },
		{ "NVIDIA H20", "H20-96GB" },
		{ "NVIDIA H800", "H800-SXM" },
		{ "NVIDIA H800 PCIe", "H100-PCIe" },
		{ "NVIDIA GH200 480GB", "GH200-96GB" },
		{ "B200", "B200-HGX" },
		{ "NVIDIA B200", "B200-HGX" },
		{ "NVIDIA GB200", "GB200" },
		{ "NVIDIA B300 SXM6 AC", "B300-HGX" },
		{ "AMD Instinct MI300X", "MI300X" },
		{ "AMD Instinct MI325X", "MI325X" },
		{ "AMD Instinct MI355X", "MI355X" },
		{ "Tesla V100-SXM2-32GB", "V100-SXM2" },
		{ "Tesla V100-PCIE-16GB", "V100-PCIe" },
		{ "V100", "V100-SXM2" },
		{ "Tesla T4", "T4" },
		{ "NVIDIA A30", "A30" },
		{ "NVIDIA A40", "A40" },
		{ "NVIDIA A10G", "A10G" },
		{ "NVIDIA L20", "L20" },
		{ "NVIDIA L40", "L40" },
		{ "NVIDIA RTX A6000", "RTXA6000" },
		{ "NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada" },
		{ "NVIDIA GeForce RTX 3090", "RTX3090" },
		{ "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
		  "RTXPRO6000-MaxQ" },
		{ "NVIDIA H20-3e", "H20-141GB" },
		{ "NVIDIA GH200 144G HBM3e", "GH200-144GB" },
		{ "NVIDIA GB300", "GB300" },
		{ "gb200", "GB200" },
		{ "NVIDIA GB10", "GB10-Spark" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct gpu *g = gpu_find(names[i].said);

		assert_non_null(g);
		assert_string_equal(g->name, names[i].row);
	}
}

static void test_unknown_is_unknown(void **state)
{
	static const char *const names[] = {
		"",
		"NVIDIA",
		"GPU",
		"NVIDIA A2",
		"NVIDIA RTX 6000",
		"Tesla V100-SXM2-32GB MIG",
		"NVIDIA GeForce RTX 3090 Ti",
		"NVIDIA H100 SXM5 64GB",
		"NVIDIA GeForce RTX 4090 D",
		"NVIDIA GeForce RTX 4090 Laptop GPU",
		"NVIDIA A100-SXM4-80GB MIG 1g.10gb",
		"NVIDIA H20-3e MIG 1g.18gb",
		"H2000",
		"XH200",
	};

	(void)state;
	assert_null(gpu_find(NULL));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (gpu_find(names[i])) {
			print_error("%s: %s\n", names[i],
				    gpu_find(names[i])->name);
			fail();
		}
}

static void test_every_row_finds_itself(void **state)
{
	unsigned n = 0;

	(void)state;
	for (const struct gpu *g; (g = gpu_at(n)); n++) {
		assert_ptr_equal(gpu_find(g->name), g);
		assert_true(g->bw > 1e11 && g->bw < 1e13);
		assert_true(g->flops[COMPUTE_BF16] > 1e13);
		assert_true(g->memory_bytes >= 16e9 && g->l2_bytes > 1e6);
		assert_true(
			g->flops[COMPUTE_FP8] == 0 ||
			fabs(g->flops[COMPUTE_FP8] / g->flops[COMPUTE_BF16] -
			     2) < 0.03);
		assert_true(g->source && g->source[0]);
	}
	assert_true(n >= 40);
}

static void test_missing_unit_falls_back(void **state)
{
	const struct gpu *a100 = gpu_find("A100"), *h100 = gpu_find("H100");
	const struct gpu *b200 = gpu_find("B200");

	(void)state;
	assert_true(gpu_flops(a100, COMPUTE_FP4) == 312e12);
	assert_true(gpu_flops(h100, COMPUTE_FP8) == 1978.9e12);
	assert_true(gpu_flops(h100, COMPUTE_FP4) == 989.4e12);
	assert_int_equal(gpu_compute(h100, COMPUTE_FP4), COMPUTE_BF16);
	assert_int_equal(gpu_compute(b200, COMPUTE_FP4), COMPUTE_FP4);
	assert_true(gpu_flops(b200, COMPUTE_FP4) == 9000e12);
	assert_true(gpu_flops(b200, COMPUTE_BF16) == 2250e12);
}

/* Rows per active expert at the ridge, BF16: the column of the science notes. */
static void test_ridge_rows(void **state)
{
	static const struct {
		const char *gpu;
		double rows;
	} rows[] = { { "A100-40GB", 201 }, { "H100", 295 }, { "H20", 37 },
		     { "H200", 206 },      { "B200", 281 }, { "L40S", 419 } };
	struct machine m;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		economics_machine(gpu_find(rows[i].gpu), 1, 0, COMPUTE_BF16,
				  &m);
		assert_int_equal(lround(economics_ridge_rows(&m, 2)),
				 lround(rows[i].rows));
	}
}

static void test_every_metric_is_described(void **state)
{
	(void)state;
	for (unsigned i = 0; i < METRICS; i++) {
		assert_true(strlen(metric_info[i].key) > 0);
		assert_true(strlen(metric_info[i].title) > 0);
		assert_true(strlen(metric_info[i].help) > 0);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(metric_info[i].key,
						metric_info[j].key);
	}
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		assert_true(strlen(histogram_info[i].key) > 0);
	assert_string_equal(metric_info[METRIC_FRAGMENTATION].key,
			    "fragmentation_ratio");
	assert_int_equal(metric_info[METRIC_STARTED].kind, KIND_COUNTER);
}

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(value_state_name(VALUE_NO_DATA), "no_data");
	assert_string_equal(value_state_name(VALUE_STALE), "stale");
	assert_string_equal(value_source_name(SOURCE_MODELLED), "modelled");
	assert_string_equal(value_source_name(SOURCE_SCRAPED), "scraped");
	assert_null(regime_name(REGIME_UNKNOWN));
	assert_null(regime_name(REGIMES));
	assert_string_equal(regime_name(REGIME_VALLEY), "valley");
	assert_null(side_name(SIDE_NONE));
	assert_string_equal(side_name(SIDE_FAR), "far");
}

static void test_values(void **state)
{
	(void)state;
	assert_false(value_known(value_make(NAN, SOURCE_MEASURED)));
	assert_false(value_known(value_make(INFINITY, SOURCE_MEASURED)));
	assert_false(value_known(value_ratio(1, 0, SOURCE_MEASURED)));
	assert_false(value_known(value_ratio(0, 0, SOURCE_MEASURED)));
	assert_true(value_known(value_make(0, SOURCE_MEASURED)));
	assert_int_equal(source_weaker(SOURCE_MEASURED, SOURCE_MODELLED),
			 SOURCE_MODELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_that_drivers_report),
		cmocka_unit_test(test_unknown_is_unknown),
		cmocka_unit_test(test_every_row_finds_itself),
		cmocka_unit_test(test_missing_unit_falls_back),
		cmocka_unit_test(test_ridge_rows),
		cmocka_unit_test(test_every_metric_is_described),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
