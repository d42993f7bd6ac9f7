/*
 * pm.h - DRAM bytes of one GPU, every millisecond, by CUPTI's PM sampling
 *
 * Needs CUPTI 12.6 or later, Turing or later, and the right to read counters:
 * root, CAP_SYS_ADMIN, CAP_PERFMON (driver R565 and later), or a driver that was
 * told to allow everybody.  The samples are of the whole device, whoever runs on
 * it.  One sampler per device: DCGM (before Hopper), Nsight or another moetop
 * may hold the counters.
 *
 * Blocks, and may crash with the library it loads: it belongs into a process of
 * its own (core/counters.h), and into one thread there.
 */
#ifndef MOETOP_CUPTI_PM_H
#define MOETOP_CUPTI_PM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PM_READINGS_MAX 512u /* of one pm_read */

struct pm;

struct pm_options {
	const char *library; /* libcupti to load */
	const char *driver;  /* libcuda; NULL: "libcuda.so.1" */
	unsigned device;     /* CUDA ordinal */
	uint64_t interval_ns;
	/* for chips that tell only shares of the peak; NAN unknown */
	double peak_bytes_per_second;
};

struct pm_reading {
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	double read_bytes;         /* of both directions, if write is NAN */
	double write_bytes;        /* NAN: not told apart */
	double tensor_ratio;       /* of the cycles; NAN unknown */
};

struct pm_info {
	char chip[16];    /* "GH100" */
	char metrics[24]; /* name of the set in pm_host.h */
	uint64_t readings, overflows, restarts, bad;
};

/*
 * Start sampling.  0, or -errno with one line in why and the remedy in fix:
 * -ENOENT no such library, -ENOSYS too old, -ENODEV no driver or device,
 * -ENOTSUP the chip is unknown to it or has no DRAM metric, -EACCES no right to,
 * -EBUSY another profiler has the counters, -EIO any other error.
 */
int pm_open(struct pm **out, const struct pm_options *o, char *why,
	    size_t why_bytes, char *fix, size_t fix_bytes);

/*
 * Take what was sampled since, at least ten times a second.  Returns the number,
 * at most max <= PM_READINGS_MAX, or -EIO: close it.  An overflow is counted and
 * sampling started anew.
 */
int pm_read(struct pm *p, struct pm_reading *out, unsigned max);

const struct pm_info *pm_info(const struct pm *p);

void pm_close(struct pm *p); /* NULL is legal */

#endif
