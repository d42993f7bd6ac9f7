/*
 * clock.h - CUPTI's clock against CLOCK_MONOTONIC
 */
#ifndef MOETOP_CUPTI_CLOCK_H
#define MOETOP_CUPTI_CLOCK_H

#include <stdint.h>

#include "cupti/library.h"

/*
 * CLOCK_MONOTONIC minus CUPTI's time, from the tightest of several readings
 * between two looks at CLOCK_MONOTONIC.  *error_ns: half that width.  0 or a
 * CUptiResult; nothing is written then.
 */
int clock_offset(const struct cupti_api *cupti, int64_t *offset_ns,
		 uint64_t *error_ns);

#endif
