/*
 * gpu_home.h - on which GPUs a process works
 *
 * A process may have a context on a GPU that another one works on: libraries
 * open one on the first GPU, or on all of them, and keep some hundred MB there.
 * Its memory tells: a process works where it has most of it, and wherever it
 * has at least an eighth of that.  Pure functions.
 */
#ifndef MOETOP_CORE_GPU_HOME_H
#define MOETOP_CORE_GPU_HOME_H

#include <stdbool.h>

#include "cupti/nvml.h"

/* The processes on one GPU. */
#define GPU_PROCESSES_MAX 256u
struct gpu_processes {
	unsigned n;
	struct nvml_process list[GPU_PROCESSES_MAX];
};

/* Does the process work on GPU i of n?  Where no memory is told, every context
 * counts. */
bool gpu_home_has(const struct gpu_processes *gpus, unsigned n, unsigned i,
		  uint32_t pid);

/* The GPU with most of its memory, the first of equals; -1 none. */
int gpu_home_find(const struct gpu_processes *gpus, unsigned n, uint32_t pid);

#endif
