/*
 * rng.h - cheap random numbers that depend on a seed alone
 *
 * mix64 is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection
 * of 64-bit words whose outputs pass for independent.
 */
#ifndef MOETOP_SIM_SERVER_RNG_H
#define MOETOP_SIM_SERVER_RNG_H

#include <math.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static inline uint64_t rng_next(struct rng *r)
{
	r->state += 0x9e3779b97f4a7c15ull;
	return mix64(r->state);
}

/* Uniform in 0 .. n - 1, n > 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* Exponential of the given mean. */
static inline double rng_exponential(struct rng *r, double mean)
{
	return -mean * log1p(-rng_unit(r));
}

#endif
