/*
 * cupti_pm.h - the simulated PM sampling, inside the simulated libcupti
 *
 * The counters are those of all processes that run on a simulated GPU
 * (common_shm.h), as a real sampler's are of the whole device.  One session per
 * device: a second one is told HARDWARE_BUSY.  A quarter of what is written
 * arrives 8 us late, as from a write-back cache.
 *
 * Faults, by MOETOP_SIM_FAULT in the sampling process:
 *   pm_denied		 INSUFFICIENT_PRIVILEGES
 *   pm_busy		 HARDWARE_BUSY, as if DCGM held the counters
 *   pm_offset=ns	 its clock is ahead of that of kernel records
 *   pm_overflow=n	 the hardware buffer holds n samples, whatever was asked
 *   pm_stuck		 decoding never returns
 *   pm_clocks		 SM clocks are at a base of 1200 MHz while it runs
 */
#ifndef MOETOP_SIM_GPU_CUPTI_PM_H
#define MOETOP_SIM_GPU_CUPTI_PM_H

#include "cupti/abi.h"
#include "cupti/pm_abi.h"
#include "sim/gpu/common_gpu.h"
#include "sim/gpu/common_shm.h"
#include "sim/gpu/cupti_state.h"

#define PM_VALUES_MAX 16u

/* What a configuration image is made of. */
struct pm_image {
	uint64_t magic;
	uint32_t n;
	uint32_t metrics[PM_VALUES_MAX]; /* index in the table of metrics */
};

/* A counter data image: the header, then `room` of these. */
struct pm_slot {
	uint64_t start, end; /* CUPTI's clock */
	struct sim_counters counters;
	double peak; /* bytes of the device's bandwidth in this time */
};
struct pm_data {
	uint64_t magic;
	uint32_t room, used;
	struct pm_slot slot[];
};
#define PM_MAGIC UINT64_C(0x6d70746f656f6d)

/* ---- the interface of the real library ------------------------------------- */

CUptiResult cuptiProfilerInitialize(struct pm_plain *p);
CUptiResult cuptiProfilerDeInitialize(struct pm_plain *p);
CUptiResult cuptiDeviceGetChipName(struct pm_chip_name *p);
CUptiResult cuptiProfilerHostGetSupportedChips(struct pm_chips *p);
CUptiResult cuptiProfilerHostInitialize(struct pm_host_init *p);
CUptiResult cuptiProfilerHostDeinitialize(struct pm_host *p);
CUptiResult cuptiProfilerHostConfigAddMetrics(struct pm_host_metrics *p);
CUptiResult cuptiProfilerHostGetConfigImageSize(struct pm_host_size *p);
CUptiResult cuptiProfilerHostGetConfigImage(struct pm_host_image *p);
CUptiResult cuptiProfilerHostGetNumOfPasses(struct pm_host_passes *p);
CUptiResult cuptiProfilerHostEvaluateToGpuValues(struct pm_host_values *p);
CUptiResult cuptiPmSamplingGetCounterAvailability(struct pm_availability *p);
CUptiResult cuptiPmSamplingEnable(struct pm_enable *p);
CUptiResult cuptiPmSamplingDisable(struct pm_object *p);
CUptiResult cuptiPmSamplingSetConfig(struct pm_set_config *p);
CUptiResult cuptiPmSamplingStart(struct pm_object *p);
CUptiResult cuptiPmSamplingStop(struct pm_object *p);
CUptiResult cuptiPmSamplingGetCounterDataSize(struct pm_data_size *p);
CUptiResult cuptiPmSamplingCounterDataImageInitialize(struct pm_data_init *p);
CUptiResult cuptiPmSamplingDecodeData(struct pm_decode *p);
CUptiResult cuptiPmSamplingGetCounterDataInfo(struct pm_data_info *p);
CUptiResult cuptiPmSamplingCounterDataGetSampleInfo(struct pm_sample_info *p);

#endif
