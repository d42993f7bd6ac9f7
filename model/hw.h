/*
 * hw.h - peaks of GPUs: data-sheet values, dense (not sparse)
 *
 * The table in gpus.def names a source per row.
 */
#ifndef MOETOP_MODEL_HW_H
#define MOETOP_MODEL_HW_H

#include "model/arch.h"

struct gpu {
	const char *name; /* "H200-SXM" */
	double bw;        /* bytes per second */
	double flops[3];  /* by enum compute_type; 0: no native unit */
	double l2_bytes;
	double memory_bytes; /* of the largest model of its name */
	const char *source;
};

/*
 * By our name, an alias ("H200", "h100"), or what NVML and CUDA report
 * ("NVIDIA H200", "NVIDIA H100 80GB HBM3").  NULL when unknown.  Static data.
 */
const struct gpu *gpu_find(const char *name);

/* The table, for listings; NULL past the end. */
const struct gpu *gpu_at(unsigned i);

/* The arithmetic that a model made for c gets here: BF16 where the GPU has no
 * unit for c, as engines then unpack the weights and multiply in BF16. */
enum compute_type gpu_compute(const struct gpu *g, enum compute_type c);

/* Dense peak of that arithmetic. */
double gpu_flops(const struct gpu *g, enum compute_type c);

#endif
