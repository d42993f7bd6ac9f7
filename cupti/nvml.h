/*
 * nvml.h - facts and counters of the GPUs, from outside the server
 *
 * libnvidia-ml is opened at run time; only functions of its stable interface
 * are used.  GPM (Hopper and later) gives the DRAM and tensor utilisation
 * between two calls of nvml_read, as a mean; it needs no privilege on most
 * systems and runs beside profilers.  Its DRAM figure is reads and writes
 * together.
 *
 * Every call may block for as long as the driver likes: use a thread that
 * nobody waits for.  Not thread-safe.
 */
#ifndef MOETOP_CUPTI_NVML_H
#define MOETOP_CUPTI_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVML_GPUS_MAX 16u

struct nvml;

struct nvml_gpu {
	unsigned index;               /* NVML's */
	char name[64];                /* "NVIDIA H200" */
	double peak_bytes_per_second; /* 2 x max memory clock x bus width / 8;
					 NAN unknown */
	bool gpm;                     /* has the counters */
	bool mig;                     /* is cut into instances */
};

/* Ratios 0..1 over the time since the last nvml_read of this GPU, NAN unknown;
 * sm is NVML's own utilisation: a kernel was running. */
struct nvml_reading {
	double sm, dram, tensor;
	double sm_clock_hz; /* of now; NAN unknown */
};

/*
 * library: a path or soname, NULL for "libnvidia-ml.so.1".  0 and *out (free
 * with nvml_close), -ENOENT when it cannot be opened, -ENODEV without a GPU,
 * -EIO when it refuses to start; why gets one line.
 */
int nvml_open(struct nvml **out, const char *library, char *why,
	      size_t why_bytes);

/* The driver's CUDA, 1000 x major + 10 x minor; 0 unknown. */
unsigned nvml_cuda(const struct nvml *n);

/* GPUs, at most NVML_GPUS_MAX. */
unsigned nvml_count(const struct nvml *n);
const struct nvml_gpu *nvml_gpu(const struct nvml *n, unsigned i);

/* Processes with a compute context on GPU i, by their pids in the host's pid
 * namespace, with their memory there, 0 not told.  The number written, at most
 * max; -EIO. */
struct nvml_process {
	uint32_t pid;
	uint64_t bytes;
};
int nvml_processes(struct nvml *n, unsigned i, struct nvml_process *out,
		   unsigned max);

/* 0, or -EIO when the GPU is lost.  The first reading has no counters yet. */
int nvml_read(struct nvml *n, unsigned i, struct nvml_reading *out);

void nvml_close(struct nvml *n); /* NULL is legal */

#endif
