/*
 * driver.h - what NVIDIA's driver says of itself in /proc/driver/nvidia
 */
#ifndef MOETOP_CORE_DRIVER_H
#define MOETOP_CORE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#define DRIVER_VERSION_FILE "/proc/driver/nvidia/version"
#define DRIVER_PARAMS_FILE "/proc/driver/nvidia/params"

/* From this major version on, CAP_PERFMON opens restricted counters; before,
 * only CAP_SYS_ADMIN does. */
#define DRIVER_PERFMON 565u

/* The content of `version`: 570, and "570.86.10" in out; 0 and "" without. */
unsigned driver_version(const char *text, char *out, size_t bytes);

/* The content of `params`: profiling counters are for administrators only. */
bool driver_restricts(const char *text);

#endif
