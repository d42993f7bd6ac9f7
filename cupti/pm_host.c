#include "cupti/pm_host.h"
#include "cupti/abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR                                        \
	"sm__pipe_tensor_cycles_active_realtime.avg." \
	"pct_of_peak_sustained_elapsed"
#define READ_PCT "dram__read_throughput.avg.pct_of_peak_sustained_elapsed"
#define WRITE_PCT "dram__write_throughput.avg.pct_of_peak_sustained_elapsed"
#define BOTH_PCT "dram__throughput.avg.pct_of_peak_sustained_elapsed"

const struct pm_set pm_sets[PM_SETS] = {
	{ "bytes+tensor",
	  3,
	  { "dram__bytes_read.sum", "dram__bytes_write.sum", TENSOR },
	  { PM_READ_BYTES, PM_WRITE_BYTES, PM_TENSOR_PCT } },
	{ "op bytes+tensor",
	  3,
	  { "dram__bytes_op_read.sum", "dram__bytes_op_write.sum", TENSOR },
	  { PM_READ_BYTES, PM_WRITE_BYTES, PM_TENSOR_PCT } },
	{ "bytes",
	  2,
	  { "dram__bytes_read.sum", "dram__bytes_write.sum" },
	  { PM_READ_BYTES, PM_WRITE_BYTES } },
	{ "op bytes",
	  2,
	  { "dram__bytes_op_read.sum", "dram__bytes_op_write.sum" },
	  { PM_READ_BYTES, PM_WRITE_BYTES } },
	{ "throughput+tensor",
	  3,
	  { READ_PCT, WRITE_PCT, TENSOR },
	  { PM_READ_PCT, PM_WRITE_PCT, PM_TENSOR_PCT } },
	{ "throughput",
	  2,
	  { READ_PCT, WRITE_PCT },
	  { PM_READ_PCT, PM_WRITE_PCT } },
	{ "total+tensor",
	  2,
	  { BOTH_PCT, TENSOR },
	  { PM_BOTH_PCT, PM_TENSOR_PCT } },
	{ "total", 1, { BOTH_PCT }, { PM_BOTH_PCT } },
};

int pm_api_find(struct pm_api *api, void *library)
{
	static const struct {
		const char *name;
		size_t at;
	} calls[] = {
#define CALL(member, name) { "cupti" name, offsetof(struct pm_api, member) }
		CALL(initialize, "ProfilerInitialize"),
		CALL(deinitialize, "ProfilerDeInitialize"),
		CALL(chip_name, "DeviceGetChipName"),
		CALL(chips, "ProfilerHostGetSupportedChips"),
		CALL(host_init, "ProfilerHostInitialize"),
		CALL(host_end, "ProfilerHostDeinitialize"),
		CALL(host_metrics, "ProfilerHostConfigAddMetrics"),
		CALL(host_size, "ProfilerHostGetConfigImageSize"),
		CALL(host_image, "ProfilerHostGetConfigImage"),
		CALL(host_passes, "ProfilerHostGetNumOfPasses"),
		CALL(host_values, "ProfilerHostEvaluateToGpuValues"),
		CALL(availability, "PmSamplingGetCounterAvailability"),
		CALL(enable, "PmSamplingEnable"),
		CALL(disable, "PmSamplingDisable"),
		CALL(start, "PmSamplingStart"),
		CALL(stop, "PmSamplingStop"),
		CALL(set_config, "PmSamplingSetConfig"),
		CALL(data_size, "PmSamplingGetCounterDataSize"),
		CALL(data_init, "PmSamplingCounterDataImageInitialize"),
		CALL(decode, "PmSamplingDecodeData"),
		CALL(data_info, "PmSamplingGetCounterDataInfo"),
		CALL(sample_info, "PmSamplingCounterDataGetSampleInfo"),
	};
	struct pm_api found;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *f = dlsym(library, calls[i].name);

		if (!f)
			return -ENOSYS;
		memcpy((char *)&found + calls[i].at, &f, sizeof(f));
	}
	*api = found;
	return 0;
}

static void host_end(const struct pm_api *api, void *host)
{
	struct pm_host p = { .bytes = PM_BYTES(pm_host, host), .host = host };

	api->host_end(&p);
}

static int host_init(const struct pm_api *api, const char *chip,
		     const uint8_t *availability, void **host)
{
	struct pm_host_init p = {
		.bytes = PM_BYTES(pm_host_init, host),
		.type = PM_PROFILER_SAMPLING,
		.chip = chip,
		.availability = availability,
	};

	if (api->host_init(&p) != CUPTI_OK || !p.host)
		return -ENOTSUP;
	*host = p.host;
	return 0;
}

/* The image of a set's configuration; -ENOENT when the chip has it not. */
static int make_image(const struct pm_api *api, void *host,
		      const struct pm_set *set, uint8_t **image, size_t *bytes)
{
	struct pm_host_metrics m = {
		.bytes = PM_BYTES(pm_host_metrics, n),
		.host = host,
		.names = set->metrics,
		.n = set->n,
	};
	struct pm_host_size s = { .bytes = PM_BYTES(pm_host_size, image_bytes),
				  .host = host };
	struct pm_host_image p = { .bytes = PM_BYTES(pm_host_image, image),
				   .host = host };

	if (api->host_metrics(&m) != CUPTI_OK ||
	    api->host_size(&s) != CUPTI_OK || !s.image_bytes)
		return -ENOENT;
	p.image_bytes = s.image_bytes;
	p.image = calloc(1, s.image_bytes);
	if (!p.image)
		return -ENOMEM;
	if (api->host_image(&p) != CUPTI_OK) {
		free(p.image);
		return -ENOENT;
	}
	*image = p.image;
	*bytes = p.image_bytes;
	return 0;
}

static size_t count_passes(const struct pm_api *api, uint8_t *image,
			   size_t bytes)
{
	struct pm_host_passes p = {
		.bytes = PM_BYTES(pm_host_passes, passes),
		.image_bytes = bytes,
		.image = image,
	};

	return api->host_passes(&p) == CUPTI_OK ? p.passes : 0;
}

/* One host object holds one configuration: each set has its own.  Passes, or
 * -errno; *out is filled when it is one. */
static int try_set(const struct pm_api *api, const char *chip,
		   const uint8_t *availability, const struct pm_set *set,
		   struct pm_choice *out)
{
	struct pm_choice c = { .set = set };
	size_t passes;
	int err = host_init(api, chip, availability, &c.host);

	if (err)
		return err;
	err = make_image(api, c.host, set, &c.image, &c.image_bytes);
	if (err) {
		host_end(api, c.host);
		return err == -ENOENT ? 0 : err;
	}
	passes = count_passes(api, c.image, c.image_bytes);
	if (passes == 1 && out)
		*out = c;
	else
		pm_choice_free(api, &c);
	return (int)passes;
}

int pm_passes(const struct pm_api *api, const char *chip, unsigned set)
{
	return set < PM_SETS ? try_set(api, chip, NULL, &pm_sets[set], NULL)
			     : 0;
}

int pm_choose(const struct pm_api *api, const char *chip,
	      const uint8_t *availability, struct pm_choice *out)
{
	for (unsigned i = 0; i < PM_SETS; i++) {
		int passes = try_set(api, chip, availability, &pm_sets[i], out);

		if (passes < 0)
			return passes;
		if (passes == 1)
			return 0;
	}
	return -ENOENT;
}

void pm_choice_free(const struct pm_api *api, struct pm_choice *c)
{
	if (c->host)
		host_end(api, c->host);
	free(c->image);
	*c = (struct pm_choice){ 0 };
}
