/*
 * pm_host.h - which DRAM metrics a chip has that fit into one pass
 *
 * A sampler reads its counters in one pass or not at all, and what fits differs
 * from chip to chip.  The sets of metrics are tried in order, best first; the
 * first one that the library takes for this chip and puts into one pass is
 * used.  No GPU is needed: libnvperf_host knows every chip by name.
 *
 *	bytes+tensor	bytes read and written, activity of the tensor pipes
 *	op bytes+tensor	the same by the names of GB20x
 *	bytes, op bytes	without tensor pipes
 *	throughput	share of the peak, read and written apart; + tensor
 *	total		share of the peak, both together
 */
#ifndef MOETOP_CUPTI_PM_HOST_H
#define MOETOP_CUPTI_PM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/pm_abi.h"

#define PM_METRICS_MAX 3u

/* What one metric of a set says. */
enum pm_role {
	PM_READ_BYTES,
	PM_WRITE_BYTES,
	PM_READ_PCT, /* of the peak */
	PM_WRITE_PCT,
	PM_BOTH_PCT,
	PM_TENSOR_PCT, /* of the cycles */
};

struct pm_set {
	const char *name;
	unsigned n;
	const char *metrics[PM_METRICS_MAX];
	enum pm_role roles[PM_METRICS_MAX];
};

/* All calls of PM sampling in one library. */
struct pm_api {
	int (*initialize)(struct pm_plain *);
	int (*deinitialize)(struct pm_plain *);
	int (*chip_name)(struct pm_chip_name *);
	int (*chips)(struct pm_chips *);
	int (*host_init)(struct pm_host_init *);
	int (*host_end)(struct pm_host *);
	int (*host_metrics)(struct pm_host_metrics *);
	int (*host_size)(struct pm_host_size *);
	int (*host_image)(struct pm_host_image *);
	int (*host_passes)(struct pm_host_passes *);
	int (*host_values)(struct pm_host_values *);
	int (*availability)(struct pm_availability *);
	int (*enable)(struct pm_enable *);
	int (*disable)(struct pm_object *);
	int (*start)(struct pm_object *);
	int (*stop)(struct pm_object *);
	int (*set_config)(struct pm_set_config *);
	int (*data_size)(struct pm_data_size *);
	int (*data_init)(struct pm_data_init *);
	int (*decode)(struct pm_decode *);
	int (*data_info)(struct pm_data_info *);
	int (*sample_info)(struct pm_sample_info *);
};

/* Fill *api from an open library.  0, or -ENOSYS: its CUPTI is older than PM
 * sampling (12.6). */
int pm_api_find(struct pm_api *api, void *library);

/* What was chosen for a chip; freed with pm_choice_free. */
struct pm_choice {
	const struct pm_set *set;
	void *host; /* turns counts into values */
	uint8_t *image;
	size_t image_bytes;
};

/*
 * availability: of the device, or NULL.  0; -ENOTSUP the library does not know
 * the chip; -ENOENT it has no set of one pass (no DRAM metric); -ENOMEM.
 */
int pm_choose(const struct pm_api *api, const char *chip,
	      const uint8_t *availability, struct pm_choice *out);
void pm_choice_free(const struct pm_api *api, struct pm_choice *c);

/* Passes that a set takes on a chip; 0: not available there, -ENOTSUP, -ENOMEM. */
int pm_passes(const struct pm_api *api, const char *chip, unsigned set);
#define PM_SETS 8u
extern const struct pm_set pm_sets[PM_SETS];

#endif
