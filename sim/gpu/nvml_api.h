/*
 * nvml_api.h - NVML as far as the simulated libnvidia-ml.so.1 has it
 *
 * Written from the documented interface of NVML 13.  The devices are those
 * that live processes with the simulated libcuda publish (common_shm.h), or
 * have published since this library was loaded; a position that none of them
 * names is an idle device.
 */
#ifndef MOETOP_SIM_GPU_NVML_API_H
#define MOETOP_SIM_GPU_NVML_API_H

#include <stddef.h>
#include <stdint.h>

enum { /* nvmlReturn_t */
       NVML_SUCCESS = 0,
       NVML_ERROR_UNINITIALIZED = 1,
       NVML_ERROR_INVALID_ARGUMENT = 2,
       NVML_ERROR_NOT_SUPPORTED = 3,
       NVML_ERROR_NOT_FOUND = 6,
       NVML_ERROR_INSUFFICIENT_SIZE = 7,
       NVML_ERROR_MEMORY = 20,
       NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
       NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO };

enum { /* nvmlGpmMetricId_t */
       NVML_GPM_METRIC_GRAPHICS_UTIL = 1,
       NVML_GPM_METRIC_SM_UTIL = 2,
       NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
       NVML_GPM_METRIC_HMMA_TENSOR_UTIL = 7,
       NVML_GPM_METRIC_DRAM_BW_UTIL = 10,
};

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_memory {
	unsigned long long total, free, used; /* bytes */
};

struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

struct nvml_gpm_metric {
	unsigned id;
	int result;
	double value;
	const char *short_name, *long_name, *unit;
};

struct nvml_gpm_get { /* metrics has count entries in what callers allocate */
	unsigned version, count;
	void *sample1, *sample2;
	struct nvml_gpm_metric metrics[];
};

struct nvml_gpm_support {
	unsigned version, supported;
};

int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char *out, unsigned bytes);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *out, unsigned bytes);
int nvmlDeviceGetUUID(void *device, char *out, unsigned bytes);
int nvmlDeviceGetIndex(void *device, unsigned *index);
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out);
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetMemoryBusWidth(void *device, unsigned *bits);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
					    struct nvml_process *infos);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
int nvmlGpmQueryDeviceSupport(void *device, struct nvml_gpm_support *s);
int nvmlGpmSampleAlloc(void **sample);
int nvmlGpmSampleFree(void *sample);
int nvmlGpmSampleGet(void *device, void *sample);
int nvmlGpmMetricsGet(struct nvml_gpm_get *get);

#endif
