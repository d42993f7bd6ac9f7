/* Laws that hold for whatever routing, on thousands of random histograms. */
#include "model/rows.h"
#include "model/traffic.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model/popularity.h"

#define EXPERTS_MAX 320u
#define HISTOGRAMS 3000u

static uint32_t random_below(uint32_t n)
{
	return (uint32_t)(random_unit() * n) % n;
}

struct layer {
	uint32_t e, k, b;
	double weight[EXPERTS_MAX];
	uint32_t rows[EXPERTS_MAX];
};

static bool is_among(uint32_t x, const uint32_t *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] == x)
			return true;
	return false;
}

/* The heaviest of a few candidates that is not taken yet. */
static uint32_t pick(const struct layer *l, const uint32_t *taken, uint32_t n)
{
	uint32_t best = l->e;

	for (unsigned tries = 0; tries < 6 || best == l->e; tries++) {
		uint32_t x = random_below(l->e);

		if (is_among(x, taken, n))
			continue;
		if (best == l->e || l->weight[x] > l->weight[best])
			best = x;
	}
	return best;
}

/* From uniform to a few experts that take nearly all, and tokens that go where
 * the one before went. */
static void draw_layer(struct layer *l)
{
	double skew = 3 * random_unit(), repeat = 0.7 * random_unit();
	uint32_t picked[16] = { 0 };

	memset(l->rows, 0, sizeof(l->rows));
	for (uint32_t i = 0; i < l->e; i++)
		l->weight[i] = exp(skew * random_normal());
	for (uint32_t t = 0; t < l->b; t++) {
		bool again = t > 0 && random_unit() < repeat;

		for (uint32_t i = 0; i < l->k; i++) {
			if (!again)
				picked[i] = pick(l, picked, i);
			l->rows[picked[i]]++;
		}
	}
}

static void random_layer(struct layer *l)
{
	l->e = 8 + random_below(EXPERTS_MAX - 8);
	l->k = 1 + random_below(l->e < 32 ? l->e / 4 : 12);
	l->b = 2 + random_below(80);
	draw_layer(l);
}

/* ---- the laws --------------------------------------------------------- */

static void test_one_token_less(void **state)
{
	static struct layer l;
	double worst = 0;

	(void)state;
	random_state = 1;
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		struct sample_rows s = { 0 };
		double less;

		random_layer(&l);
		rows_add_cell(&s, l.rows, l.e);
		assert_true(s.rows == l.b * l.k);
		less = valley_rarefied(l.rows, l.e, l.b, l.b - 1);
		worst = fmax(worst, fabs(s.active - less - s.single / l.b));
	}
	print_message("# largest error %.1e over %u histograms\n", worst,
		      HISTOGRAMS);
	assert_true(worst < 1e-11);
}

/* The expected U of ever fewer of these tokens: it falls, and bytes per token
 * rise; it is concave. */
static void test_bytes_per_token_never_increase(void **state)
{
	static struct layer l;

	(void)state;
	random_state = 2;
	for (unsigned i = 0; i < HISTOGRAMS / 10; i++) {
		double before = 0, each = INFINITY, step = INFINITY;

		random_layer(&l);
		for (uint32_t b = 1; b <= l.b; b++) {
			double u = valley_rarefied(l.rows, l.e, l.b, b);

			assert_true(u >= before - 1e-9);
			assert_true(u / b <= each * (1 + 1e-12));
			assert_true(u - before <= step + 1e-9);
			step = u - before;
			before = u;
			each = u / b;
		}
	}
}

/* d ln V / d ln B = 2 s1 - 1 for any popularity, so V peaks at s1 = 1/2. */
static void test_valley_peaks_where_half_are_single(void **state)
{
	static struct layer l;

	(void)state;
	random_state = 3;
	for (unsigned i = 0; i < 300; i++) {
		double q[EXPERTS_MAX], sum = 0, best = 0, top = 0, s1 = 0;

		random_layer(&l);
		for (uint32_t e = 0; e < l.e; e++)
			sum += l.weight[e];
		for (uint32_t e = 0; e < l.e; e++)
			q[e] = fmin(l.k * l.weight[e] / sum, 0.98);
		for (double ln = -1; ln < 9; ln += 0.01) {
			double b = exp(ln), u = 0, slope = 0;

			for (uint32_t e = 0; e < l.e; e++) {
				double miss = exp(b * log1p(-q[e]));

				u += 1 - miss;
				slope -= miss * log1p(-q[e]) * b;
			}
			if (u * u / b > best) {
				best = u * u / b;
				top = b;
				s1 = slope / u;
			}
		}
		assert_true(top > 0);
		if (top > exp(-0.98) && top < exp(8.98))
			assert_true(fabs(s1 - 0.5) < 0.01);
	}
}

static void test_layers_add_up_to_the_whole(void **state)
{
	static struct layer l;

	(void)state;
	random_state = 4;
	for (unsigned i = 0; i < HISTOGRAMS / 30; i++) {
		struct sample_rows all = { 0 }, parts[8] = { 0 }, sum = { 0 };
		unsigned layers = 1 + random_below(8);

		l.e = 16 + random_below(200);
		l.k = 1 + random_below(4);
		for (unsigned cell = 0; cell < 30; cell++) {
			l.b = 2 + random_below(40);
			draw_layer(&l);
			rows_add_cell(&all, l.rows, l.e);
			rows_add_cell(&parts[cell % layers], l.rows, l.e);
		}
		for (unsigned p = 0; p < layers; p++)
			rows_add(&sum, &parts[p]);
		assert_memory_equal(&sum, &all, sizeof(all));
	}
}

static void shuffle(unsigned *order, unsigned n)
{
	for (unsigned i = n; i-- > 1;) {
		unsigned j = random_below(i + 1), x = order[i];

		order[i] = order[j];
		order[j] = x;
	}
}

static void test_windows_merge_in_any_order(void **state)
{
	static struct layer l;
	struct sample_rows windows[12] = { 0 }, first = { 0 };
	unsigned order[12];

	(void)state;
	random_state = 5;
	for (unsigned i = 0; i < 12; i++) {
		order[i] = i;
		for (unsigned c = 0; c < 20; c++) {
			random_layer(&l);
			rows_add_cell(&windows[i], l.rows, l.e);
		}
		rows_add(&first, &windows[i]);
	}
	for (unsigned i = 0; i < 1000; i++) {
		struct sample_rows merged = { 0 };

		shuffle(order, 12);
		for (unsigned w = 0; w < 12; w++)
			rows_add(&merged, &windows[order[w]]);
		assert_memory_equal(&merged, &first, sizeof(first));
	}
}

/* ---- what is predicted obeys them, too -------------------------------- */

static void learn(struct layer *l, struct traffic *t)
{
	struct traffic_sample s = { .experts = l->e,
				    .top_k = l->k,
				    .rows = l->rows,
				    .layers = 1,
				    .stride = l->e,
				    .batch = l->b };
	struct sample_rows r = { 0 };
	unsigned steps = 1 + random_below(40);

	/* the same popularity over some steps of fewer tokens */
	rows_add_cell(&r, l->rows, l->e);
	s.batch = fmax(1, (double)l->b / steps);
	s.active = valley_rarefied(l->rows, l->e, l->b, (uint32_t)s.batch);
	s.batch = (uint32_t)s.batch;
	s.sum_squares = random_unit() < 0.2 ? NAN
					    : r.sum_squares / steps / steps *
						      (1 + random_unit());
	assert_true(traffic_learn(t, &s));
}

static void test_predictions_are_lawful(void **state)
{
	static struct layer l;
	struct traffic t;

	(void)state;
	random_state = 6;
	for (unsigned i = 0; i < HISTOGRAMS / 10; i++) {
		double before = 0, each = INFINITY;

		random_layer(&l);
		learn(&l, &t);
		for (double b = 0.25; b < 3000; b *= 1.17) {
			double u = traffic_active(&t, b), low, high;
			double f = traffic_single(&t, b);

			traffic_bounds(&t, b, &low, &high);
			assert_true(isfinite(u) && isfinite(f));
			assert_true(u >= before * (1 - 1e-9));
			assert_true(u / b <= each * (1 + 1e-9));
			assert_true(u <= fmin(l.e, l.k * b) * (1 + 1e-12));
			assert_true(f >= 0 && f <= u);
			assert_true(low <= u && u <= high && high <= l.e);
			before = u;
			each = u / b;
		}
		assert_true(fabs(traffic_active(&t, t.batch) - t.active) <
			    1e-9 * t.active);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_token_less),
		cmocka_unit_test(test_bytes_per_token_never_increase),
		cmocka_unit_test(test_valley_peaks_where_half_are_single),
		cmocka_unit_test(test_layers_add_up_to_the_whole),
		cmocka_unit_test(test_windows_merge_in_any_order),
		cmocka_unit_test(test_predictions_are_lawful),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
