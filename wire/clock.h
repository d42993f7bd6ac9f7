/*
 * clock.h - the two clocks
 *
 * Everything that is subtracted uses CLOCK_MONOTONIC in nanoseconds, the clock
 * of the agent's records and of BPF.  Unix time is for people and files only.
 */
#ifndef MOETOP_WIRE_CLOCK_H
#define MOETOP_WIRE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

static inline uint64_t clock_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline double clock_unix_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Processor time of the calling thread: no other work of the machine is in it. */
static inline uint64_t clock_thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
