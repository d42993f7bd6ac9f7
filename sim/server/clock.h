/*
 * clock.h - the one clock of the simulation
 */
#ifndef MOETOP_SIM_SERVER_CLOCK_H
#define MOETOP_SIM_SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ull

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
