/*
 * release.h - which CUPTI this is, and what is known of it
 *
 * From cupti/abi_releases.def, which is made from the headers of every release.
 * A version that is newer than the table is not refused: its first records are
 * looked at closely instead (cupti/decode.h).
 */
#ifndef MOETOP_CUPTI_RELEASE_H
#define MOETOP_CUPTI_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

enum cupti_known {
	CUPTI_TOO_OLD, /* before 11.8 */
	CUPTI_KNOWN,   /* a release of the table, or an update of one */
	CUPTI_NEWER,   /* than the table, or between two of its releases */
};

/* `version` as cuptiGetVersion says it.  Pure. */
enum cupti_known cupti_release(uint32_t version);

/* Size of the kernel records of that version; of the nearest release that is
 * older when it is not known, of the oldest when none is. */
uint32_t cupti_kernel_bytes(uint32_t version);

/* Has it subscribers that live beside others (V2), for production use, given
 * the driver as cuDriverGetVersion says it?  Both sides must be of 13.3. */
bool cupti_is_shareable(uint32_t version, uint32_t driver);

#endif
