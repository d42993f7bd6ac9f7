#include "cupti/clock.h"
#include "wire/clock.h"

#define TRIES 8

int clock_offset(const struct cupti_api *cupti, int64_t *offset_ns,
		 uint64_t *error_ns)
{
	uint64_t best = UINT64_MAX;
	int64_t offset = 0;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = clock_now_ns(), then, after;
		int err = cupti->timestamp(&then);

		if (err)
			return err;
		after = clock_now_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		offset = (int64_t)(before + best / 2 - then);
	}
	*offset_ns = offset;
	*error_ns = best / 2;
	return CUPTI_OK;
}
