/*
 * pm_abi.h - the part of CUPTI's PM sampling interface that moetop uses
 *
 * By hand, like abi.h, for the same reasons, and because the host header of
 * some releases is not C.  Every struct begins with its own size, by which a
 * library knows which fields there are: a release that has more takes these as
 * they are.  tests/unit/cupti/test_pm_abi.c holds this file to the headers.
 */
#ifndef MOETOP_CUPTI_PM_ABI_H
#define MOETOP_CUPTI_PM_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	CUPTI_E_HARDWARE_BUSY = 26,
	CUPTI_E_OUT_OF_MEMORY = 8,
	CUPTI_E_VIRTUALIZED_DEVICE = 33, /* vGPU, or a virtual machine */
	CUPTI_E_HARDWARE = 9,
};

enum pm_profiler_type { PM_PROFILER_RANGE, PM_PROFILER_SAMPLING };
enum pm_trigger { PM_TRIGGER_SYSCLK = 0, PM_TRIGGER_TIME = 1 };
enum pm_append { PM_KEEP_OLDEST = 0, PM_KEEP_LATEST = 1 };

struct pm_plain { /* initialise and de-initialise */
	size_t bytes;
	void *priv;
};
struct pm_chip_name {
	size_t bytes;
	void *priv;
	size_t device;
	const char *name; /* out */
};
struct pm_chips {
	size_t bytes;
	void *priv;
	size_t n;                 /* out */
	const char *const *names; /* out */
};

/* ---- host: from metric names to a configuration, and from counts to values */

struct pm_host_init {
	size_t bytes;
	void *priv;
	int type; /* enum pm_profiler_type */
	const char *chip;
	const uint8_t *availability;
	void *host; /* out */
};
struct pm_host {
	size_t bytes;
	void *priv;
	void *host;
};
struct pm_host_metrics {
	size_t bytes;
	void *priv;
	void *host;
	const char *const *names;
	size_t n;
};
struct pm_host_size {
	size_t bytes;
	void *priv;
	void *host;
	size_t image_bytes; /* out */
};
struct pm_host_image {
	size_t bytes;
	void *priv;
	void *host;
	size_t image_bytes;
	uint8_t *image;
};
struct pm_host_passes {
	size_t bytes;
	void *priv;
	size_t image_bytes;
	uint8_t *image;
	size_t passes; /* out */
};
struct pm_host_values {
	size_t bytes;
	void *priv;
	void *host;
	const uint8_t *data;
	size_t data_bytes;
	size_t index;
	const char *const *names;
	size_t n;
	double *values;
};

/* ---- target: the counters of one device ---------------------------------- */

struct pm_availability {
	size_t bytes;
	void *priv;
	size_t device;
	size_t image_bytes; /* in and out */
	uint8_t *image;
};
struct pm_enable {
	size_t bytes;
	void *priv;
	size_t device;
	void *object; /* out */
};
struct pm_object { /* disable, start, stop */
	size_t bytes;
	void *priv;
	void *object;
};
struct pm_set_config {
	size_t bytes;
	void *priv;
	void *object;
	size_t image_bytes;
	const uint8_t *image; /* must stay as long as the object */
	size_t buffer_bytes;
	uint64_t interval;
	int trigger, append;
};
struct pm_data_size {
	size_t bytes;
	void *priv;
	void *object;
	const char *const *names;
	size_t n;
	uint32_t samples;
	size_t data_bytes; /* out */
};
struct pm_data_init {
	size_t bytes;
	void *priv;
	void *object;
	size_t data_bytes;
	uint8_t *data;
};
struct pm_decode {
	size_t bytes;
	void *priv;
	void *object;
	uint8_t *data;
	size_t data_bytes;
	int stop_reason; /* out */
	uint8_t overflow;
};
struct pm_data_info {
	size_t bytes;
	void *priv;
	const uint8_t *data;
	size_t data_bytes;
	size_t total, populated, completed; /* out */
};
struct pm_sample_info {
	size_t bytes;
	void *priv;
	void *object;
	const uint8_t *data;
	size_t data_bytes;
	size_t index;
	uint64_t start, end; /* out */
};

/* The size that a library expects: to the end of the last field, not of the
 * padding. */
#define PM_BYTES(type, last) \
	(offsetof(struct type, last) + sizeof(((struct type *)0)->last))

#endif
