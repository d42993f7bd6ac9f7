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

static int played;

static void play(void)
{
	played = toolkit_of_environment();
}

static int played_toolkit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, play);
	return played;
}

static int row(void)
{
	int r = ABI_RELEASES - 1;

	while (r > 0 && toolkit[r] > played_toolkit())
		r--;
	return r;
}

bool cupti_plays(int least)
{
	return played_toolkit() >= least;
}

uint32_t cupti_played_version(void)
{
	int t = played_toolkit();

	if (toolkit[row()] == t)
		return (uint32_t)version[row()];
	return (uint32_t)(t / 1000 * 10000 + t % 1000 * 10);
}

/* ---- records ------------------------------------------------------------------ */

static uint32_t longer(int32_t bytes)
{
	bool newer = played_toolkit() > toolkit[ABI_RELEASES - 1];

	return (uint32_t)bytes + (newer ? NEWER_BYTES : 0);
}

uint32_t cupti_played_bytes(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return longer(kernel_sizeof[row()]);
	case CUPTI_KIND_MEMCPY:
		return longer(memcpy_sizeof[row()]);
	case CUPTI_KIND_MEMSET:
		return longer(memset_sizeof[row()]);
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
		return NUMBER_domain_state[row()] >= 0;
	if (domain == CUPTI_DOMAIN_DRIVER &&
	    cbid == CBID_GRAPH_EXEC_SET_PARAMS_V2)
		return NUMBER_exec_set_params_v2[row()] >= 0;
	if (domain == CUPTI_DOMAIN_DRIVER && cbid == CBID_GRAPH_EXEC_UPDATE_V2)
		return NUMBER_exec_update_v2[row()] >= 0;
	if (domain == CUPTI_DOMAIN_RUNTIME && cbid == CBID_RT_LAUNCH_KERNEL_13)
		return NUMBER_rt_launch_kernel_13[row()] >= 0;
	if (domain == CUPTI_DOMAIN_RUNTIME &&
	    cbid == CBID_RT_LAUNCH_KERNEL_13_PTSZ)
		return NUMBER_rt_launch_kernel_13_ptsz[row()] >= 0;
	return true;
}

bool cupti_has_attribute(int attr)
{
	return attr != CUPTI_ATTR_PER_THREAD_BUFFER ||
	       NUMBER_attr_per_thread_buffer[row()] >= 0;
}

bool cupti_has_v2(void)
{
	int driver = 0;

	return cupti_plays(V2_TOOLKIT) && cuDriverGetVersion(&driver) == 0 &&
	       driver >= V2_TOOLKIT;
}
