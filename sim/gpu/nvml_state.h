/*
 * nvml_state.h - inside the simulated NVML: what a device is right now
 */
#ifndef MOETOP_SIM_GPU_NVML_STATE_H
#define MOETOP_SIM_GPU_NVML_STATE_H

#include "sim/gpu/common_gpu.h"
#include "sim/gpu/common_shm.h"
#include "sim/gpu/nvml_api.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define NVML_PROCESSES_MAX 64u

struct nvml_view { /* of one device, summed over the processes on it */
	unsigned index;
	unsigned devices; /* in the machine */
	const struct sim_gpu_type *type;
	bool no_counters;
	uint64_t used_bytes;
	struct nvml_process processes[NVML_PROCESSES_MAX];
	unsigned process_count;
	uint64_t at_ns, before_ns;
	struct sim_counters at, before; /* at those times */
};

/*
 * Look at a device; counters are for now, and for window_ns before (when > 0).
 * NVML_SUCCESS, or UNINITIALIZED, INVALID_ARGUMENT (no such device).
 */
int nvml_look(const void *device, uint64_t window_ns, struct nvml_view *out);

#pragma GCC visibility pop

#endif
