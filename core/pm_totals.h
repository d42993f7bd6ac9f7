/*
 * pm_totals.h - what PM sampling counted, as part of a sample
 *
 * One GPU is sampled.  Where the server has several and somebody has counted all
 * of them (GPM), that sum stays; else the one stands for all, and the sample
 * says so.
 */
#ifndef MOETOP_CORE_PM_TOTALS_H
#define MOETOP_CORE_PM_TOTALS_H

#include <stdbool.h>

#include "model/sample.h"

struct pm_totals {
	double read_bytes, write_bytes;
	double tensor_ns; /* NAN: not counted */
	double ns;        /* that was sampled; 0 nothing */
	bool split;       /* reads and writes are told apart */
};

/* out has its GPUs, and what other sources counted. */
void pm_totals_give(const struct pm_totals *t, struct sample *out);

#endif
