#include "cupti/release.h"

#include <stddef.h>

#include "cupti/abi.h"

#define SAME(name, value)
#define EACH(name, ...) \
	static const int32_t name[] __attribute__((unused)) = { __VA_ARGS__ };
#include "cupti/abi_releases.def"

#define FIRST_BY_TOOLKIT 130000u /* versions were counted from 1 before */
#define V2_TOOLKIT 130300u
#define V2_DRIVER 13030u /* r610 */

/* Updates of a toolkit have versions of their own, and its layouts. */
static uint32_t toolkit_of(uint32_t v)
{
	return v < FIRST_BY_TOOLKIT ? v : v / 100;
}

/* The newest release that is not newer than v, or the oldest of all. */
static size_t nearest(uint32_t v)
{
	size_t r = ABI_RELEASES - 1;

	while (r > 0 && toolkit_of((uint32_t)version[r]) > toolkit_of(v))
		r--;
	return r;
}

/* Until 12.9 every number up to the last counted one is an update of the
 * release before it. */
enum cupti_known cupti_release(uint32_t v)
{
	uint32_t near = (uint32_t)version[nearest(v)];

	if (v < CUPTI_VERSION_MIN)
		return CUPTI_TOO_OLD;
	if (toolkit_of(near) == toolkit_of(v))
		return CUPTI_KNOWN;
	for (size_t r = 0; r < ABI_RELEASES; r++)
		if ((uint32_t)version[r] < FIRST_BY_TOOLKIT &&
		    v <= (uint32_t)version[r])
			return CUPTI_KNOWN;
	return CUPTI_NEWER;
}

uint32_t cupti_kernel_bytes(uint32_t v)
{
	return (uint32_t)kernel_sizeof[nearest(v)];
}

bool cupti_is_shareable(uint32_t v, uint32_t driver)
{
	return v >= V2_TOOLKIT && driver >= V2_DRIVER;
}
