/* Predicting U at larger batches on synthetic traffic: 33 settings of routing
 * by uniform, Zipf and measured popularity, with tastes of sequences and
 * domains. */
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
static double weights[LAYERS][EXPERTS_MAX]; /* of the setting at work */

/* Sums over cells, or their means. */
struct seen {
	double active, squares;
	double frequency[17]; /* F_j: experts with j rows */
};

static void seen_mean(struct seen *s, double cells)
{
	s->active /= cells;
	s->squares /= cells;
	for (unsigned j = 0; j < 17; j++)
		s->frequency[j] /= cells;
}

/* What a layer shows in these steps of b sequences; *total, or NULL, and *seen
 * grow. */
static void run_layer(const struct setting *s, const double *lw, unsigned b,
		      unsigned steps, uint32_t *total, struct seen *seen)
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
			seen->squares += (double)rows[e] * rows[e];
			seen->active += rows[e] > 0;
			if (rows[e] < 17)
				seen->frequency[rows[e]] += 1;
		}
	}
}

/* ---- one setting --------------------------------------------------------- */

struct outcome {
	double truth[FACTORS], got[FACTORS], low[FACTORS], high[FACTORS];
	double uniform[FACTORS];
	double skew_low[FACTORS], skew_high[FACTORS]; /* by U(B) alone */
	double good_toulmin, chao2, equal;            /* at twice the batch */
	double exit, exit_low, exit_high;
	double single_low, single_high; /* true s1 there */
};

/* The three that are for comparison, at twice the batch, from mean counts. */
static void compare(const struct setting *s, unsigned b,
		    const double *frequency, double active, struct outcome *o)
{
	double toulmin = active;

	for (unsigned j = 1; j <= b; j++)
		toulmin += (j % 2 ? 1 : -1) * frequency[j];
	o->good_toulmin = toulmin;
	o->chao2 = extrapolate_chao2(s->e, active, frequency[1], frequency[2],
				     b, 2.0 * b);
	o->equal = valley_active(
		extrapolate_equal_experts(s->e, s->k, b, active), s->k, 2 * b);
}

static void observe(const struct setting *s, unsigned b, struct traffic *t,
		    struct outcome *o)
{
	static uint32_t rows[LAYERS][EXPERTS_MAX];
	double *truth = o->truth;
	struct seen seen = { 0 }, ahead;
	struct traffic_sample sample;

	memset(rows, 0, sizeof(rows));
	for (unsigned l = 0; l < LAYERS; l++) {
		double *lw = weights[l];

		draw_layer(s, lw);
		run_layer(s, lw, b, STEPS, &rows[0][0] + (size_t)l * s->e,
			  &seen);
		for (unsigned f = 0; f < FACTORS; f++) {
			ahead = (struct seen){ 0 };
			run_layer(s, lw, b << (f + 1), STEPS_AHEAD, NULL,
				  &ahead);
			truth[f] += ahead.active;
		}
	}
	seen_mean(&seen, STEPS * LAYERS);
	compare(s, b, seen.frequency, seen.active, o);
	sample = (struct traffic_sample){
		.experts = s->e,
		.top_k = s->k,
		.rows = &rows[0][0],
		.layers = LAYERS,
		.stride = s->e,
		.batch = b,
		.active = seen.active,
		.sum_squares = seen.squares,
	};
	assert_true(traffic_learn(t, &sample));
	assert_int_equal(t->basis, TRAFFIC_POPULARITY);
	for (unsigned f = 0; f < FACTORS; f++)
		truth[f] /= STEPS_AHEAD * LAYERS;
}

static struct outcome outcomes[SETTINGS];
static struct traffic traffics[SETTINGS];

/* s1 of one step of b tokens, each a sequence of its own, in all layers. */
static double true_single(const struct setting *s, unsigned b)
{
	double sums[EXPERTS_MAX], active = 0, single = 0;

	for (unsigned l = 0; l < LAYERS; l++) {
		uint32_t rows[EXPERTS_MAX] = { 0 };

		for (unsigned i = 0; i < b; i++) {
			if (i == 0 || s->taste > 0)
				draw_sequence(s, weights[l], sums);
			route(s, sums, rows);
		}
		for (unsigned e = 0; e < s->e; e++) {
			active += rows[e] > 0;
			single += rows[e] == 1;
		}
	}
	return single / active;
}

static void find_exit(const struct setting *s, const struct traffic *t,
		      struct outcome *o)
{
	o->exit = traffic_batch_at(t, 0.1, &o->exit_low, &o->exit_high);
	o->single_low = true_single(s, (unsigned)o->exit_low);
	o->single_high = true_single(s, (unsigned)ceil(o->exit_high));
}

/* What would have been learnt without the rows. */
static void alone_of(const struct traffic *t, struct traffic *out)
{
	const struct traffic_sample s = { .experts = t->experts,
					  .top_k = t->top_k,
					  .batch = t->batch,
					  .active = t->active };

	assert_true(traffic_learn(out, &s));
	assert_int_equal(out->basis, TRAFFIC_SKEW);
}

static int simulate(void **state)
{
	if (popularity_load(state))
		return -1;
	random_state = 20261129;
	for (unsigned i = 0; i < SETTINGS; i++) {
		struct outcome *o = &outcomes[i];
		struct traffic *t = &traffics[i];
		unsigned b = batches[i % 3];
		struct traffic alone;

		observe(&settings[i / 3], b, t, o);
		alone_of(t, &alone);
		if (b == 16)
			find_exit(&settings[i / 3], t, o);
		for (unsigned f = 0; f < FACTORS; f++) {
			double at = b << (f + 1);

			o->got[f] = traffic_active(t, at);
			traffic_bounds(t, at, &o->low[f], &o->high[f]);
			traffic_bounds(&alone, at, &o->skew_low[f],
				       &o->skew_high[f]);
			o->uniform[f] = valley_active(t->experts, t->top_k, at);
		}
	}
	return 0;
}

static void test_mean_errors(void **state)
{
	/* What the reference arithmetic reached, per cent, with a seed of its
	 * own.  With other seeds it and this vary alike: 0.9 to 1.3 at x2, 2.0
	 * to 2.7 at x4. */
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
		print_message("# x%u: mean error %.2f %%, largest %.1f %%\n",
			      2u << f, sum, worst);
		assert_true(sum <= most[f]);
	}
}

static void test_uniform_routing_is_far_off(void **state)
{
	double sum = 0;

	(void)state;
	for (unsigned i = 0; i < SETTINGS; i++) {
		const struct outcome *o = &outcomes[i];

		sum += fabs(o->uniform[0] / o->truth[0] - 1) * 100 / SETTINGS;
		/* never less than the truth, but for its noise */
		assert_true(o->uniform[0] > o->truth[0] * 0.985);
	}
	print_message("# uniform routing at x2: mean error %.1f %%\n", sum);
	assert_true(sum > 15 && sum < 30);
}

static void test_nine_of_ten_within_the_bounds(void **state)
{
	unsigned in = 0, of = 0, alone = 0;

	(void)state;
	for (unsigned i = 0; i < SETTINGS; i++) {
		const struct outcome *o = &outcomes[i];

		for (unsigned f = 0; f < FACTORS; f++) {
			/* the truth is a mean of few steps, too */
			double slack = 0.002 * o->truth[f];

			assert_true(o->low[f] < o->high[f]);
			in += o->low[f] - slack <= o->truth[f] &&
			      o->truth[f] <= o->high[f] + slack;
			alone += o->skew_low[f] - slack <= o->truth[f] &&
				 o->truth[f] <= o->skew_high[f] + slack;
			of++;
		}
	}
	print_message("# %u of %u within the bounds; by U(B) alone %u\n", in,
		      of, alone);
	assert_true(in >= of * 9 / 10 && alone >= of * 9 / 10);
}

static double mean_error(size_t at)
{
	double sum = 0;

	for (unsigned i = 0; i < SETTINGS; i++) {
		const char *o = (const char *)&outcomes[i];
		double got = *(const double *)(o + at);

		sum += fabs(got / outcomes[i].truth[0] - 1) * 100 / SETTINGS;
	}
	return sum;
}

/* What is published of them: 1.6, 1.3 and 7.5 % at twice the batch. */
static void test_other_estimators(void **state)
{
	double toulmin = mean_error(offsetof(struct outcome, good_toulmin));
	double chao2 = mean_error(offsetof(struct outcome, chao2));
	double equal = mean_error(offsetof(struct outcome, equal));

	(void)state;
	print_message("# x2: Good-Toulmin %.1f %%, Chao2 %.1f %%, E_eff "
		      "%.1f %%\n",
		      toulmin, chao2, equal);
	assert_true(toulmin < 2.1 && chao2 < 2.0);
	assert_true(equal > 5 && equal < 10);
}

/* ---- the end of the valley -------------------------------------------- */

/* Tokens that pick each expert on its own, as often as Qwen3-235B's do. */
static void draw_independent(unsigned b, unsigned steps, struct traffic *t)
{
	static uint32_t rows[POPULARITY_LAYERS][POPULARITY_EXPERTS];
	struct seen seen = { 0 };
	struct traffic_sample s = { .experts = POPULARITY_EXPERTS,
				    .top_k = 8,
				    .rows = &rows[0][0],
				    .layers = POPULARITY_LAYERS,
				    .stride = POPULARITY_EXPERTS,
				    .batch = b };

	memset(rows, 0, sizeof(rows));
	for (unsigned i = 0; i < steps * POPULARITY_LAYERS; i++) {
		unsigned l = i % POPULARITY_LAYERS;

		for (unsigned e = 0; e < POPULARITY_EXPERTS; e++) {
			uint32_t r = random_binomial(b, popularity[l][e]);

			rows[l][e] += r;
			seen.active += r > 0;
			seen.squares += (double)r * r;
		}
	}
	seen_mean(&seen, steps * POPULARITY_LAYERS);
	s.active = seen.active;
	s.sum_squares = seen.squares;
	assert_true(traffic_learn(t, &s));
}

static double true_single_share(double b)
{
	double active, single;

	popularity_expected(b, &active, &single);
	return single / active;
}

/* Uniform routing would end at 57; these tokens need about 140. */
static void test_exit_of_measured_popularity(void **state)
{
	double at = 16, floor, low, high, exit;
	struct traffic t;

	(void)state;
	while (true_single_share(at) > 0.1)
		at *= 1.01;
	draw_independent(16, 40, &t);
	exit = traffic_batch_at(&t, 0.1, &low, &high);
	floor = traffic_batch_at(&t, 0.5, NULL, NULL);
	print_message("# floor %.1f, exit %.0f (%.0f..%.0f), true %.0f\n",
		      floor, exit, low, high, at);
	assert_true(at > 120 && at < 160);
	assert_true(low <= at && at <= high);
	assert_true(fabs(exit / at - 1) < 0.1);
	assert_true(floor > 13 && floor < 19);
	assert_true(high / low < 3);
}

/* Where nothing was measured it is the floor by the formula, of any model. */
static void test_floor_of_uniform_traffic(void **state)
{
	static const double shapes[][2] = {
		{ 128, 8 }, { 256, 8 }, { 512, 10 }, { 128, 1 }
	};
	struct traffic t;

	(void)state;
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		double e = shapes[i][0], k = shapes[i][1], floor;

		traffic_uniform(&t, e, k);
		floor = traffic_batch_at(&t, 0.5, NULL, NULL);
		assert_true(fabs(floor / valley_floor(e, k) - 1) < 0.05);
	}
}

/* The true s1 passes 0.1 between the ends of the interval. */
static void test_nine_of_ten_exits_within_the_interval(void **state)
{
	unsigned in = 0, of = 0;

	(void)state;
	for (unsigned i = 2; i < SETTINGS; i += 3) {
		const struct outcome *o = &outcomes[i];
		const double noise = 0.01; /* of one step's s1 */

		in += o->single_low > 0.1 - noise &&
		      o->single_high < 0.1 + noise;
		of++;
		assert_true(o->exit_low < o->exit && o->exit < o->exit_high);
		assert_true(o->exit_high / o->exit_low < 4);
	}
	print_message("# %u of %u exits within the interval\n", in, of);
	assert_true(in * 10 >= of * 9);
}

/* With U(16) alone the one-parameter curve is the published one. */
static void test_one_parameter_reproduces_the_popularity(void **state)
{
	struct traffic_sample s = { .experts = 128, .top_k = 8, .batch = 16 };
	double single;
	struct traffic t;

	(void)state;
	popularity_expected(16, &s.active, &single);
	assert_true(traffic_learn(&t, &s));
	assert_int_equal(t.basis, TRAFFIC_SKEW);
	assert_true(fabs(t.skew - 0.855) < 0.01);
	for (double b = 1; b <= 1024; b *= 2) {
		double active;

		popularity_expected(b, &active, &single);
		assert_true(fabs(traffic_active(&t, b) / active - 1) < 0.006);
	}
}

static void test_what_cannot_be_learnt(void **state)
{
	struct traffic_sample s = {
		.experts = 128, .top_k = 8, .batch = 4, .active = 20
	};
	struct traffic t, before;

	(void)state;
	traffic_uniform(&t, 128, 8);
	before = t;
	s.batch = 0.5;
	assert_false(traffic_learn(&t, &s));
	s.batch = NAN;
	assert_false(traffic_learn(&t, &s));
	s.batch = 4;
	s.active = 33; /* more than its rows */
	assert_false(traffic_learn(&t, &s));
	s.active = 0;
	assert_false(traffic_learn(&t, &s));
	s.active = 20;
	s.top_k = 129;
	assert_false(traffic_learn(&t, &s));
	assert_memory_equal(&t, &before, sizeof(t));
	s.top_k = 8;
	assert_true(traffic_learn(&t, &s));
	assert_true(traffic_reaches(&t, 64) && !traffic_reaches(&t, 65));
	assert_false(traffic_reaches(&before, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean_errors),
		cmocka_unit_test(test_uniform_routing_is_far_off),
		cmocka_unit_test(test_nine_of_ten_within_the_bounds),
		cmocka_unit_test(test_other_estimators),
		cmocka_unit_test(test_exit_of_measured_popularity),
		cmocka_unit_test(test_floor_of_uniform_traffic),
		cmocka_unit_test(test_nine_of_ten_exits_within_the_interval),
		cmocka_unit_test(test_one_parameter_reproduces_the_popularity),
		cmocka_unit_test(test_what_cannot_be_learnt),
	};

	return cmocka_run_group_tests(tests, simulate, NULL);
}
