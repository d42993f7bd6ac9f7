#include "cupti/clock.h"

#include <time.h>

#define TRIES 8

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int clock_offset(const struct cupti_api *cupti, int64_t *offset_ns,
		 uint64_t *error_ns)
{
	uint64_t best = UINT64_MAX;
	int64_t offset = 0;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = monotonic_ns(), then, after;
		int err = cupti->timestamp(&then);

		if (err)
			return err;
		after = monotonic_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		offset = (int64_t)(before + best / 2 - then);
	}
	*offset_ns = offset;
	*error_ns = best / 2;
	return CUPTI_OK;
}
