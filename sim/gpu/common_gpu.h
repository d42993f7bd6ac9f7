/*
 * common_gpu.h - the GPUs that the simulation can be, and its faults
 *
 * Bandwidth and peaks are data-sheet values (dense, not sparse); clock and bus
 * are such that 2 x clock x bus / 8 is that bandwidth.  Static data.
 */
#ifndef MOETOP_SIM_GPU_COMMON_GPU_H
#define MOETOP_SIM_GPU_COMMON_GPU_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

#define SIM_GPU_COUNT 4u

struct sim_gpu_type {
	const char *name;      /* for simgpu_select */
	const char *product;   /* as NVML and CUDA report it */
	double bandwidth;      /* bytes/s */
	double bf16, fp8, fp4; /* FLOP/s; 0: no native unit */
	unsigned mem_clock_mhz, bus_bits, sm_clock_mhz, sms;
	unsigned cc_major, cc_minor;
	uint64_t memory_bytes, l2_bytes;
};

/* By name, NULL when unknown; by position, NULL past the end. */
const struct sim_gpu_type *sim_gpu_find(const char *name);
const struct sim_gpu_type *sim_gpu_at(unsigned i);
unsigned sim_gpu_position(const struct sim_gpu_type *t);

/* The 16 bytes of a device's UUID, and its text "GPU-8-4-4-4-12". */
void sim_gpu_uuid(unsigned index, uint8_t out[16]);
void sim_gpu_uuid_text(unsigned index, char out[41]);

/* As cuDriverGetVersion reports it: that of MOETOP_SIM_DRIVER=13.4, else that of
 * MOETOP_SIM_CUPTI where it is above 13.0, else 13.0. */
int sim_driver_version(void);

/* Whether MOETOP_SIM_FAULT names a fault; *n (if not NULL) is its number. */
int sim_fault(const char *name, uint64_t *n);

#pragma GCC visibility pop

#endif
