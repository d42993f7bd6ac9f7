/* popularity.h - rows drawn from the measured expert popularity of a model */
#ifndef MOETOP_TESTS_UNIT_MODEL_POPULARITY_H
#define MOETOP_TESTS_UNIT_MODEL_POPULARITY_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define POPULARITY_LAYERS 94u
#define POPULARITY_EXPERTS 128u

/* Chance that a token picks an expert; the rows sum to k = 8. */
static double popularity[POPULARITY_LAYERS][POPULARITY_EXPERTS];
static uint64_t random_state = 7;

static inline int popularity_load(void **state)
{
	FILE *f = fopen("tests/data/expert_popularity.csv", "re");

	(void)state;
	if (!f)
		return -1;
	for (unsigned i = 0; i < POPULARITY_LAYERS * POPULARITY_EXPERTS; i++) {
		double *p = &popularity[i / POPULARITY_EXPERTS]
				       [i % POPULARITY_EXPERTS];

		if (fscanf(f, "%lf%*[,\n]", p) != 1) {
			fclose(f);
			return -1;
		}
		*p /= 1e6;
	}
	fclose(f);
	return 0;
}

/* In (0, 1). */
static inline double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static inline double random_normal(void)
{
	return sqrt(-2 * log(random_unit())) *
	       cos(2 * 3.14159265358979323846 * random_unit());
}

/* Few successes by their gaps, many by the normal law. */
static inline uint32_t random_binomial(uint32_t n, double p)
{
	double mean = n * p;
	uint32_t hits = 0;

	if (mean > 20) {
		double x = mean + sqrt(mean * (1 - p)) * random_normal();

		return x < 0 ? 0 : (uint32_t)(x + 0.5);
	}
	for (double at = 0;; hits++) {
		at += floor(log(random_unit()) / log1p(-p)) + 1;
		if (at > n)
			return hits;
	}
}

static inline uint32_t random_poisson(double mean)
{
	double x;

	if (mean <= 20) {
		double p = exp(-mean), u = random_unit();
		uint32_t n = 0;

		for (; u > p && n < 1000; n++) {
			u -= p;
			p *= mean / (n + 1);
		}
		return n;
	}
	x = mean + sqrt(mean) * random_normal();
	return x < 0 ? 0 : (uint32_t)(x + 0.5);
}

/* Means over the layers for b tokens, each routed on its own. */
static inline void popularity_expected(double b, double *active, double *single)
{
	*active = *single = 0;
	for (unsigned l = 0; l < POPULARITY_LAYERS; l++) {
		for (unsigned e = 0; e < POPULARITY_EXPERTS; e++) {
			double p = popularity[l][e];

			*active += -expm1(b * log1p(-p));
			*single += b * p * exp((b - 1) * log1p(-p));
		}
	}
	*active /= POPULARITY_LAYERS;
	*single /= POPULARITY_LAYERS;
}

#endif
