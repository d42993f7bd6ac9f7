#include "model/bytes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * A GPU that decodes: 24 layers of 8 kernels, whose lengths follow a batch that
 * varies, and counters that sum what they read and write about every
 * millisecond.  A quarter of what is written arrives 8 us late (write-back of
 * the cache), and the two clocks differ.
 */
#define LAYERS 24u
#define GROUPS 6u
#define EXPERT 1u
#define KERNELS 8u
#define WINDOW_NS 500000000u
#define SPANS_MAX 80000u
#define SAMPLES_MAX 700u
#define LATE_NS 8000.0
#define LATE_SHARE 0.25

static const struct {
	unsigned group;
	double us, rate, written;
} kernels[KERNELS] = {
	{ 2, 4, 900, 0.2 },   { 2, 14, 2600, 0.02 }, { 3, 9, 3000, 0.03 },
	{ 0, 3.5, 300, 0.3 }, { 1, 28, 3600, 0.03 }, { 1, 17, 3700, 0.05 },
	{ 5, 3, 1200, 0.5 },  { 4, 8, 200, 0.5 },
};

struct gpu {
	double offset_ns, interval_ns, noise;
	double factor[LAYERS + 1][KERNELS];
	struct bytes_span spans[SPANS_MAX];
	double rate[SPANS_MAX], written[SPANS_MAX];
	unsigned n_spans;
	struct bytes_sample samples[SAMPLES_MAX];
	unsigned n_samples;
	double now; /* the next window's start */
	/* truth, over all windows */
	double bytes[LAYERS + 1][GROUPS], busy[LAYERS + 1][GROUPS];
};

static uint64_t seed;
static struct gpu gpu;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform() + 1e-300)) * cos(2 * M_PI * uniform());
}

static void gpu_init(double offset_ns, double interval_ns, double noise)
{
	memset(&gpu, 0, sizeof(gpu));
	seed = 88172645463325252u;
	gpu.offset_ns = offset_ns;
	gpu.interval_ns = interval_ns;
	gpu.noise = noise;
	gpu.now = 1e9;
	for (unsigned l = 0; l <= LAYERS; l++)
		for (unsigned k = 0; k < KERNELS; k++)
			gpu.factor[l][k] =
				1 + (kernels[k].group == EXPERT ? 0.12 : 0.03) *
					    normal();
}

static double run(double t, unsigned layer, unsigned group, double ns,
		  double rate, double written)
{
	unsigned i = gpu.n_spans++;

	assert_true(i < SPANS_MAX);
	gpu.spans[i] = (struct bytes_span){
		.layer = (uint16_t)layer,
		.group = (uint16_t)group,
		.start_ns = (uint64_t)t,
		.end_ns = (uint64_t)(t + ns),
	};
	gpu.rate[i] = rate;
	gpu.written[i] = written;
	gpu.bytes[layer][group] += rate * ns;
	gpu.busy[layer][group] += ns;
	return t + ns;
}

static double step(double t)
{
	double batch = fmax(0.4, 1 + 0.25 * normal());

	for (unsigned l = 0; l < LAYERS; l++)
		for (unsigned k = 0; k < KERNELS; k++) {
			double ns = kernels[k].us * 1e3 * (1 + 0.03 * normal());

			if (kernels[k].group == EXPERT)
				ns *= batch;
			t = run(t, l, kernels[k].group, fmax(ns, 1000),
				kernels[k].rate * gpu.factor[l][k] *
					(1 + gpu.noise * normal()),
				kernels[k].written);
			t += 600 * uniform();
		}
	t = run(t, LAYERS, 3, 60e3, 3300, 0.02);
	return t + 100e3 + 300e3 * uniform();
}

static double shared(double a0, double a1, double b0, double b1)
{
	return fmax(0, fmin(a1, b1) - fmax(a0, b0));
}

static double counted(double s0, double s1, unsigned *from)
{
	double sum = 0;

	for (unsigned i = *from; i < gpu.n_spans; i++) {
		double start = (double)gpu.spans[i].start_ns;
		double end = (double)gpu.spans[i].end_ns;
		double late = LATE_SHARE * gpu.written[i];

		if (start > s1)
			break;
		if (end + LATE_NS < s0)
			*from = i;
		sum += gpu.rate[i] *
		       ((1 - late) * shared(start, end, s0, s1) +
			late * shared(start + LATE_NS, end + LATE_NS, s0, s1));
	}
	return sum;
}

/* The next window: its spans, by a clock that is off, and its samples. */
static void window(void)
{
	double end = gpu.now + WINDOW_NS, s0 = gpu.now;
	unsigned from = 0;

	gpu.n_spans = gpu.n_samples = 0;
	while (gpu.now < end)
		gpu.now = step(gpu.now);
	while (s0 < gpu.now && gpu.n_samples < SAMPLES_MAX) {
		double s1 = s0 + gpu.interval_ns * (0.97 + 0.06 * uniform());

		gpu.samples[gpu.n_samples++] = (struct bytes_sample){
			.start_ns = (uint64_t)s0,
			.end_ns = (uint64_t)s1,
			.dram_bytes = counted(s0, s1, &from),
		};
		s0 = s1;
	}
	for (unsigned i = 0; i < gpu.n_spans; i++) {
		gpu.spans[i].start_ns += (uint64_t)gpu.offset_ns;
		gpu.spans[i].end_ns += (uint64_t)gpu.offset_ns;
	}
}

static struct bytes_estimate watch(struct bytes *b, double seconds)
{
	struct bytes_estimate e;

	for (double t = 0; t < seconds; t += WINDOW_NS / 1e9) {
		window();
		assert_true(bytes_window(b, gpu.spans, gpu.n_spans, gpu.samples,
					 gpu.n_samples) > 0);
	}
	bytes_solve(b, true, &e);
	return e;
}

/* What the layer's kernels of all groups moved, over the truth. */
static double layer_error(const struct bytes *b, unsigned layer)
{
	double told = 0, truth = 0;

	for (unsigned g = 0; g < GROUPS; g++) {
		if (gpu.busy[layer][g] > 0)
			told += bytes_rate(b, layer, g) * gpu.busy[layer][g];
		truth += gpu.bytes[layer][g];
	}
	return told / truth - 1;
}

static double group_error(const struct bytes *b, unsigned group)
{
	double told = 0, truth = 0;

	for (unsigned l = 0; l <= LAYERS; l++) {
		if (gpu.busy[l][group] > 0)
			told += bytes_rate(b, l, group) * gpu.busy[l][group];
		truth += gpu.bytes[l][group];
	}
	return told / truth - 1;
}

static double layers_rms(const struct bytes *b)
{
	double sum = 0;

	for (unsigned l = 0; l < LAYERS; l++)
		sum += layer_error(b, l) * layer_error(b, l);
	return sqrt(sum / LAYERS);
}

static void test_layers_within_three_percent(void **state)
{
	static const double offsets_ns[] = { 0, 20000, -37000 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
		struct bytes_estimate e;

		gpu_init(offsets_ns[i], 1e6, 0.05);
		e = watch(b, 6);
		assert_int_equal(e.method, BYTES_LAYERS);
		assert_true(fabs(e.offset_ns + offsets_ns[i]) < 5000);
		assert_true(layers_rms(b) < 0.03);
		assert_true(fabs(group_error(b, EXPERT)) < 0.015);
		assert_true(e.residual_ratio < 0.02);
		bytes_free(b);
	}
}

/* Rates of layers that ran too little are not made up. */
static void test_few_samples_give_groups_or_less(void **state)
{
	struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
	struct bytes_estimate e;

	(void)state;
	bytes_solve(b, true, &e);
	assert_int_equal(e.method, BYTES_NOTHING);
	assert_true(isnan(bytes_rate(b, 0, EXPERT)));
	gpu_init(0, 1e6, 0.05);
	window();
	bytes_window(b, gpu.spans, gpu.n_spans, gpu.samples, 100);
	bytes_solve(b, true, &e);
	assert_int_equal(e.method, BYTES_TOTAL);
	assert_true(isnan(bytes_rate(b, 0, EXPERT)));
	assert_true(e.bytes > 0 && e.samples > 90);
	bytes_free(b);
}

/* With samples that tell nothing about layers, the groups remain. */
static void test_locked_samples_give_no_layers(void **state)
{
	struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
	struct bytes_part parts[2 * LAYERS];
	struct bytes_estimate e;

	(void)state;
	seed = 5;
	for (unsigned t = 0; t < 2000; t++) {
		double expert = 40e3 * (1 + 0.3 * uniform()), sum = 0;
		double other = 20e3 * (1 + 0.3 * uniform());

		for (unsigned l = 0; l < LAYERS; l++) {
			parts[2 * l] = (struct bytes_part){ l, EXPERT, expert };
			parts[2 * l + 1] = (struct bytes_part){ l, 2, other };
			sum += 3600 * expert + 2600 * other;
		}
		bytes_add(b, sum * (1 + 0.02 * (uniform() - 0.5)), 2e6, parts,
			  2 * LAYERS);
	}
	bytes_solve(b, true, &e);
	assert_int_equal(e.method, BYTES_GROUPS);
	assert_true(fabs(bytes_rate(b, 3, EXPERT) / 3600 - 1) < 0.02);
	assert_true(isnan(bytes_rate(b, 3, 4)));
	assert_true(e.layer_error_ratio > 0.1);
	bytes_free(b);
}

static void test_old_windows_fade(void **state)
{
	struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
	struct bytes_estimate e;

	(void)state;
	gpu_init(0, 1e6, 0.05);
	watch(b, 3);
	for (unsigned l = 0; l < LAYERS; l++)
		for (unsigned k = 0; k < KERNELS; k++)
			if (kernels[k].group == EXPERT)
				gpu.factor[l][k] *= 0.5;
	bytes_fade(b, 1e-3);
	memset(gpu.bytes, 0, sizeof(gpu.bytes));
	memset(gpu.busy, 0, sizeof(gpu.busy));
	e = watch(b, 6);
	assert_int_equal(e.method, BYTES_LAYERS);
	assert_true(layers_rms(b) < 0.04);
	assert_true(fabs(group_error(b, EXPERT)) < 0.02);
	bytes_free(b);
}

/* A prompt, or steps that lost records: what they read belongs to no layer. */
static void test_samples_of_the_unknown_are_left_out(void **state)
{
	struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
	unsigned all, some;

	(void)state;
	gpu_init(0, 1e6, 0.05);
	window();
	all = bytes_window(b, gpu.spans, gpu.n_spans, gpu.samples,
			   gpu.n_samples);
	for (unsigned i = gpu.n_spans / 4; i < gpu.n_spans / 2; i++)
		gpu.spans[i].group = 0xff;
	for (unsigned i = 0; i < gpu.n_samples; i++)
		if (gpu.samples[i].end_ns >
			    gpu.spans[gpu.n_spans / 4].start_ns &&
		    gpu.samples[i].start_ns < gpu.spans[gpu.n_spans / 2].end_ns)
			gpu.samples[i].dram_bytes *= 50;
	some = bytes_window(b, gpu.spans, gpu.n_spans, gpu.samples,
			    gpu.n_samples);
	assert_true(some > all / 2 && some < all * 4 / 5);
	assert_true(watch(b, 5).residual_ratio < 0.03);
	bytes_free(b);
}

static void test_hostile_windows_change_nothing(void **state)
{
	const struct bytes_span back[] = { { 0, 0, 900, 100 },
					   { 60000, 9, 1000, 2000 },
					   { 0, 0, 5000, 4000000000u } };
	const struct bytes_sample bad[] = { { 500000, 400000, 1 },
					    { 600000, 700000, NAN },
					    { 700000, 800000, -4 } };
	struct bytes *b = bytes_new(LAYERS, GROUPS, EXPERT);
	struct bytes_estimate e;

	(void)state;
	assert_int_equal(bytes_window(b, NULL, 0, bad, 3), 0);
	bytes_window(b, back, 3, bad, 3);
	bytes_fade(b, NAN);
	bytes_solve(b, true, &e);
	assert_int_equal(e.method, BYTES_NOTHING);
	assert_true(isnan(bytes_rate(b, 1000, 0)));
	assert_true(isnan(bytes_rate(b, 0, 1000)));
	assert_null(bytes_new(0, 1, 0));
	assert_null(bytes_new(1, 1, 1));
	assert_null(bytes_new(BYTES_LAYERS_MAX + 1, 1, 0));
	bytes_free(b);
	bytes_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layers_within_three_percent),
		cmocka_unit_test(test_few_samples_give_groups_or_less),
		cmocka_unit_test(test_locked_samples_give_no_layers),
		cmocka_unit_test(test_old_windows_fade),
		cmocka_unit_test(test_samples_of_the_unknown_are_left_out),
		cmocka_unit_test(test_hostile_windows_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
