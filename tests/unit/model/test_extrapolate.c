/* Predicting U at larger batches on synthetic traffic: 33 settings of routing by
 * uniform, Zipf and measured popularity, with tastes of sequences and domains. */
#include "model/extrapolate.h"
#include "model/traffic.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model/popularity.h"

#define EXPERTS_MAX 512u
#define LAYERS 12u
#define STEPS 48u      /* observed */
#define STEPS_AHEAD 6u /* that the truth is the mean of */
#define FACTORS 4u     /* 2, 4, 8, 16 */
#define SETTINGS 33u

enum popularity_kind { UNIFORM, ZIPF, REAL };

struct setting {
	unsigned e, k;
	enum popularity_kind kind;
	double exponent;      /* of Zipf */
	double taste, domain; /* nats: of a sequence, of the window */
};

static const struct setting settings[] = {
	{ 128, 8, UNIFORM, 0, 0, 0 },     { 128, 8, ZIPF, 0.5, 0, 0 },
	{ 128, 8, ZIPF, 1.0, 0, 0 },      { 128, 8, REAL, 0, 0, 0 },
	{ 128, 8, REAL, 0, 1.0, 0 },      { 128, 8, REAL, 0, 1.0, 0.7 },
	{ 128, 8, ZIPF, 1.0, 1.5, 0 },    { 256, 8, ZIPF, 0.5, 0, 0 },
	{ 256, 8, ZIPF, 1.0, 1.0, 0 },    { 512, 10, ZIPF, 0.5, 0, 0 },
	{ 512, 10, ZIPF, 1.0, 1.0, 0.7 },
};

static const unsigned batches[] = { 4, 8, 16 };

/* ---- traffic ------------------------------------------------------------ */

static unsigned random_below(unsigned n)
{
	return (unsigned)(random_unit() * n) % n;
}

/* Log weights of a layer's experts. */
static void draw_layer(const struct setting *s, double *lw)
{
	unsigned row = random_below(POPULARITY_LAYERS);

	for (unsigned e = 0; e < s->e; e++)
		lw[e] = s->kind == UNIFORM ? 0
			: s->kind == ZIPF  ? -s->exponent * log(e + 1.0)
					  : log(fmax(popularity[row][e], 1e-4));
	for (unsigned e = s->e; s->kind == ZIPF && e-- > 1;) {
		unsigned other = random_below(e + 1);
		double w = lw[e];

		lw[e] = lw[other];
		lw[other] = w;
	}
	for (unsigned e = 0; s->domain > 0 && e < s->e; e++)
		lw[e] += s->domain * random_normal();
}

/* Running sums of the weights that one sequence has. */
static void draw_sequence(const struct setting *s, const double *lw,
			  double *sums)
{
	double sum = 0;

	for (unsigned e = 0; e < s->e; e++) {
		double taste = s->taste > 0 ? s->taste * random_normal() : 0;

		sum += exp(lw[e] + taste);
		sums[e] = sum;
	}
}

static unsigned pick(const double *sums, unsigned n)
{
	double at = random_unit() * sums[n - 1];
	unsigned lo = 0, hi = n - 1;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (sums[mid] < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* k different experts, one after the other in proportion to their weights. */
static void route(const struct setting *s, const double *sums, uint32_t *rows)
{
	unsigned taken[16];

	for (unsigned i = 0; i < s->k;) {
		bool again = false;

		taken[i] = pick(sums, s->e);
		for (unsigned j = 0; j < i; j++)
			again |= taken[j] == taken[i];
		if (again)
			continue;
		rows[taken[i]]++;
		i++;
	}
}

static double sequences[256][EXPERTS_MAX];

/* What a layer shows in these steps of b sequences; *total, *squares and
 * *active grow. */
static void run_layer(const struct setting *s, const double *lw, unsigned b,
		      unsigned steps, uint32_t *total, double *squares,
		      double *active)
{
	uint32_t rows[EXPERTS_MAX];
	bool same = !(s->taste > 0);

	for (unsigned i = 0; i < (same ? 1 : b); i++)
		draw_sequence(s, lw, sequences[i]);
	for (unsigned t = 0; t < steps; t++) {
		memset(rows, 0, sizeof(rows));
		for (unsigned i = 0; i < b; i++)
			route(s, sequences[same ? 0 : i], rows);
		for (unsigned e = 0; e < s->e; e++) {
			if (total)
				total[e] += rows[e];
			*squares += (double)rows[e] * rows[e];
			*active += rows[e] > 0;
		}
	}
}

/* ---- one setting --------------------------------------------------------- */

struct outcome {
	double truth[FACTORS], got[FACTORS], low[FACTORS], high[FACTORS];
	double bound[FACTORS]; /* uniform routing */
	double exit_got, exit_low, exit_high;
};

static void observe(const struct setting *s, unsigned b, struct traffic *t,
		    double *truth)
{
	static uint32_t rows[LAYERS][EXPERTS_MAX];
	double lw[EXPERTS_MAX], squares = 0, active = 0, ignored = 0;
	struct traffic_sample sample;

	memset(rows, 0, sizeof(rows));
	for (unsigned l = 0; l < LAYERS; l++) {
		draw_layer(s, lw);
		run_layer(s, lw, b, STEPS, &rows[0][0] + (size_t)l * s->e,
			  &squares, &active);
		for (unsigned f = 0; f < FACTORS; f++)
			run_layer(s, lw, b << (f + 1), STEPS_AHEAD, NULL,
				  &ignored, &truth[f]);
	}
	sample = (struct traffic_sample){
		.experts = s->e,
		.top_k = s->k,
		.rows = &rows[0][0],
		.layers = LAYERS,
		.stride = s->e,
		.batch = b,
		.active = active / (STEPS * LAYERS),
		.sum_squares = squares / (STEPS * LAYERS),
	};
	assert_true(traffic_learn(t, &sample));
	assert_int_equal(t->basis, TRAFFIC_POPULARITY);
	for (unsigned f = 0; f < FACTORS; f++)
		truth[f] /= STEPS_AHEAD * LAYERS;
}

static struct outcome outcomes[SETTINGS];
static struct traffic traffics[SETTINGS];

static int simulate(void **state)
{
	if (popularity_load(state))
		return -1;
	random_state = 20261129;
	for (unsigned i = 0; i < SETTINGS; i++) {
		struct outcome *o = &outcomes[i];
		struct traffic *t = &traffics[i];
		unsigned b = batches[i % 3];

		observe(&settings[i / 3], b, t, o->truth);
		for (unsigned f = 0; f < FACTORS; f++) {
			double at = b << (f + 1);

			o->got[f] = traffic_active(t, at);
			traffic_bounds(t, at, &o->low[f], &o->high[f]);
			o->bound[f] = valley_active(t->experts, t->top_k, at);
		}
	}
	return 0;
}

static void test_mean_errors(void **state)
{
	/* what the reference arithmetic reached, per cent */
	static const double most[FACTORS] = { 1.1, 2.4, 4.0, 4.9 };

	(void)state;
	for (unsigned f = 0; f < FACTORS; f++) {
		double sum = 0, worst = 0;

		for (unsigned i = 0; i < SETTINGS; i++) {
			const struct outcome *o = &outcomes[i];
			double off = fabs(o->got[f] / o->truth[f] - 1) * 100;

			sum += off / SETTINGS;
			worst = fmax(worst, off);
		}
		print_message("x%u: mean error %.2f %%, largest %.1f %%\n",
			      2u << f, sum, worst);
		assert_true(sum <= most[f]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean_errors),
	};

	return cmocka_run_group_tests(tests, simulate, NULL);
}
