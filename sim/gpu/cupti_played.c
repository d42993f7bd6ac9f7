#include "sim/gpu/cupti_played.h"

#include "sim/gpu/cuda_api.h"
#include "sim/gpu/cupti_state.h"

#include <stdio.h>
#include <stdlib.h>

#define SAME(name, value)
#define EACH(name, ...) \
	static const int32_t name[] __attribute__((unused)) = { __VA_ARGS__ };
#include "cupti/abi_releases.def"
#undef SAME
#undef EACH

#define V2_TOOLKIT 13030 /* and its driver: r610 */
#define NEWER_BYTES 32u  /* that a release not yet seen appends */
#define DEFAULT_TOOLKIT 13000

static int toolkit_of_environment(void)
{
	const char *s = getenv("MOETOP_SIM_CUPTI");
	int major, minor, end = 0;

	if (!s || sscanf(s, "%d.%d%n", &major, &minor, &end) != 2 || s[end] ||
	    major < 11 || major > 99 || minor < 0 || minor > 99)
		return DEFAULT_TOOLKIT;
	return 1000 * major + 10 * minor;
}

static struct {
	int toolkit, row;
	uint32_t kernel_bytes, memcpy_bytes, memset_bytes;
} played;

/* When the library is loaded: records are stepped through by these. */
__attribute__((constructor)) static void play(void)
{
	uint32_t more;
	int r = ABI_RELEASES - 1;

	played.toolkit = toolkit_of_environment();
	more = played.toolkit > toolkit[r] ? NEWER_BYTES : 0;
	while (r > 0 && toolkit[r] > played.toolkit)
		r--;
	played.row = r;
	played.kernel_bytes = (uint32_t)kernel_sizeof[r] + more;
	played.memcpy_bytes = (uint32_t)memcpy_sizeof[r] + more;
	played.memset_bytes = (uint32_t)memset_sizeof[r] + more;
}

bool cupti_plays(int least)
{
	return played.toolkit >= least;
}

uint32_t cupti_played_version(void)
{
	int t = played.toolkit;

	if (toolkit[played.row] == t)
		return (uint32_t)version[played.row];
	return (uint32_t)(t / 1000 * 10000 + t % 1000 * 10);
}

/* ---- records ------------------------------------------------------------------ */

uint32_t cupti_played_bytes(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return played.kernel_bytes;
	case CUPTI_KIND_MEMCPY:
		return played.memcpy_bytes;
	case CUPTI_KIND_MEMSET:
		return played.memset_bytes;
	default:
		return 0;
	}
}

CUptiResult cuptiActivityGetStructSize(uint32_t kind, uint32_t of,
				       size_t *bytes)
{
	if (!cupti_plays(13020))
		return CUPTI_E_NOT_SUPPORTED;
	if (!bytes)
		return CUPTI_E_INVALID_PARAMETER;
	if (!cupti_played_bytes(kind))
		return CUPTI_E_INVALID_KIND;
	if (of != 0 && of != cupti_played_version())
		return CUPTI_E_NOT_SUPPORTED;
	*bytes = cupti_played_bytes(kind);
	return CUPTI_OK;
}

/* ---- what it has --------------------------------------------------------------- */

bool cupti_has(int domain, uint32_t cbid)
{
	if (domain == CUPTI_DOMAIN_STATE)
		return NUMBER_domain_state[played.row] >= 0;
	if (domain == CUPTI_DOMAIN_DRIVER &&
	    cbid == CBID_GRAPH_EXEC_SET_PARAMS_V2)
		return NUMBER_exec_set_params_v2[played.row] >= 0;
	if (domain == CUPTI_DOMAIN_DRIVER && cbid == CBID_GRAPH_EXEC_UPDATE_V2)
		return NUMBER_exec_update_v2[played.row] >= 0;
	if (domain == CUPTI_DOMAIN_RUNTIME && cbid == CBID_RT_LAUNCH_KERNEL_13)
		return NUMBER_rt_launch_kernel_13[played.row] >= 0;
	if (domain == CUPTI_DOMAIN_RUNTIME &&
	    cbid == CBID_RT_LAUNCH_KERNEL_13_PTSZ)
		return NUMBER_rt_launch_kernel_13_ptsz[played.row] >= 0;
	return true;
}

bool cupti_has_attribute(int attr)
{
	return attr != CUPTI_ATTR_PER_THREAD_BUFFER ||
	       NUMBER_attr_per_thread_buffer[played.row] >= 0;
}

bool cupti_has_v2(void)
{
	int driver = 0;

	return cupti_plays(V2_TOOLKIT) && cuDriverGetVersion(&driver) == 0 &&
	       driver >= V2_TOOLKIT;
}
