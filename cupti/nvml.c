#include "cupti/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of NVML's interface that is used, by its documented layout (NVML API
 * Reference; structures of version 12 and later).
 */
enum {
	NVML_OK = 0,
	NVML_GPU_IS_LOST = 15,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	GPM_ANY_TENSOR_UTIL = 5, /* percent */
	GPM_DRAM_BW_UTIL = 10,   /* percent of the peak, both directions */
};

struct utilization {
	unsigned gpu, memory; /* percent */
};

struct process_info { /* nvmlProcessInfo_v2_t, used by the v3 function */
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

struct gpm_support {
	unsigned version, supported;
};

struct gpm_metric {
	unsigned id;
	int result;
	double value;
	const char *short_name, *long_name, *unit;
};

/* The library writes numMetrics entries; the array is as long as its own. */
#define GPM_METRICS_MAX 512u
struct gpm_get {
	unsigned version, n;
	void *sample1, *sample2;
	struct gpm_metric metrics[GPM_METRICS_MAX];
};

_Static_assert(sizeof(struct process_info) == 24, "abi");
#define NOT_AVAILABLE UINT64_MAX /* its memory, where instances hide it */
_Static_assert(sizeof(struct gpm_metric) == 40, "abi");
_Static_assert(offsetof(struct gpm_get, metrics) == 24, "abi");

struct api {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int result);
	int (*count)(unsigned *n);
	int (*handle)(unsigned index, void **device);
	int (*name)(void *device, char *name, unsigned bytes);
	int (*max_clock)(void *device, int which, unsigned *mhz);
	int (*clock)(void *device, int which, unsigned *mhz);
	int (*bus_width)(void *device, unsigned *bits);
	int (*utilization)(void *device, struct utilization *out);
	int (*processes)(void *device, unsigned *n, struct process_info *out);
	int (*cuda)(int *version);
	int (*mig)(void *device, unsigned *now, unsigned *pending);
	int (*gpm_support)(void *device, struct gpm_support *out);
	int (*gpm_alloc)(void **sample);
	int (*gpm_free)(void *sample);
	int (*gpm_sample)(void *device, void *sample);
	int (*gpm_metrics)(struct gpm_get *get);
};

static const struct {
	const char *name;
	size_t offset;
	bool needed;
} symbols[] = {
#define NEED(member, symbol)                               \
	{                                                  \
		symbol, offsetof(struct api, member), true \
	}
#define MAY(member, symbol)                                 \
	{                                                   \
		symbol, offsetof(struct api, member), false \
	}
	NEED(init, "nvmlInit_v2"),
	NEED(shutdown, "nvmlShutdown"),
	NEED(count, "nvmlDeviceGetCount_v2"),
	NEED(handle, "nvmlDeviceGetHandleByIndex_v2"),
	NEED(name, "nvmlDeviceGetName"),
	MAY(error_string, "nvmlErrorString"),
	MAY(max_clock, "nvmlDeviceGetMaxClockInfo"),
	MAY(clock, "nvmlDeviceGetClockInfo"),
	MAY(bus_width, "nvmlDeviceGetMemoryBusWidth"),
	MAY(utilization, "nvmlDeviceGetUtilizationRates"),
	MAY(processes, "nvmlDeviceGetComputeRunningProcesses_v3"),
	MAY(cuda, "nvmlSystemGetCudaDriverVersion_v2"),
	MAY(mig, "nvmlDeviceGetMigMode"),
	MAY(gpm_support, "nvmlGpmQueryDeviceSupport"),
	MAY(gpm_alloc, "nvmlGpmSampleAlloc"),
	MAY(gpm_free, "nvmlGpmSampleFree"),
	MAY(gpm_sample, "nvmlGpmSampleGet"),
	MAY(gpm_metrics, "nvmlGpmMetricsGet"),
};

struct device {
	void *handle;
	struct nvml_gpu gpu;
	void *samples[2];
	unsigned newest;
	bool sampled; /* samples[newest] holds one */
};

struct nvml {
	void *library;
	struct api api;
	unsigned n;
	struct device devices[NVML_GPUS_MAX];
	struct gpm_get get;
};

static int load(struct nvml *n, const char *library, char *why, size_t bytes)
{
	n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		snprintf(why, bytes, "%s cannot be opened", library);
		return -ENOENT;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *at = dlsym(n->library, symbols[i].name);

		if (!at && symbols[i].needed) {
			snprintf(why, bytes, "%s has no %s", library,
				 symbols[i].name);
			return -ENOENT;
		}
		memcpy((char *)&n->api + symbols[i].offset, &at, sizeof(at));
	}
	return 0;
}

static double peak_bandwidth(const struct api *api, void *handle)
{
	unsigned mhz = 0, bits = 0;

	if (!api->max_clock || !api->bus_width ||
	    api->max_clock(handle, NVML_CLOCK_MEM, &mhz) != NVML_OK ||
	    api->bus_width(handle, &bits) != NVML_OK || !mhz || !bits)
		return NAN;
	return 2.0 * mhz * 1e6 * bits / 8;
}

static bool has_gpm(const struct api *api, void *handle)
{
	struct gpm_support s = { .version = 1 };

	return api->gpm_support && api->gpm_alloc && api->gpm_free &&
	       api->gpm_sample && api->gpm_metrics &&
	       api->gpm_support(handle, &s) == NVML_OK && s.supported;
}

static bool in_mig_mode(const struct api *api, void *handle)
{
	unsigned now = 0, pending = 0;

	return api->mig && api->mig(handle, &now, &pending) == NVML_OK && now;
}

static int open_device(struct nvml *n, unsigned index)
{
	struct device *d = &n->devices[n->n];

	*d = (struct device){ .gpu.index = index };
	if (n->api.handle(index, &d->handle) != NVML_OK)
		return -EIO;
	if (n->api.name(d->handle, d->gpu.name, sizeof(d->gpu.name)) != NVML_OK)
		snprintf(d->gpu.name, sizeof(d->gpu.name), "unknown");
	d->gpu.peak_bytes_per_second = peak_bandwidth(&n->api, d->handle);
	d->gpu.mig = in_mig_mode(&n->api, d->handle);
	d->gpu.gpm = has_gpm(&n->api, d->handle);
	for (unsigned s = 0; d->gpu.gpm && s < 2; s++)
		if (n->api.gpm_alloc(&d->samples[s]) != NVML_OK)
			d->gpu.gpm = false;
	n->n++;
	return 0;
}

int nvml_open(struct nvml **out, const char *library, char *why,
	      size_t why_bytes)
{
	struct nvml *n = calloc(1, sizeof(*n));
	unsigned count = 0;
	int err, result;

	if (!n) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	err = load(n, library ? library : "libnvidia-ml.so.1", why, why_bytes);
	if (err)
		goto fail;
	result = n->api.init();
	if (result != NVML_OK) {
		snprintf(why, why_bytes, "NVML does not start: %s",
			 n->api.error_string ? n->api.error_string(result)
					     : "unknown error");
		err = -EIO;
		goto fail;
	}
	if (n->api.count(&count) != NVML_OK)
		count = 0;
	for (unsigned i = 0; i < count && n->n < NVML_GPUS_MAX; i++)
		(void)open_device(n, i);
	if (!n->n) {
		snprintf(why, why_bytes, "no GPU that NVML can open");
		n->api.shutdown();
		err = -ENODEV;
		goto fail;
	}
	*out = n;
	return 0;
fail:
	if (n->library)
		dlclose(n->library);
	free(n);
	return err;
}

unsigned nvml_cuda(const struct nvml *n)
{
	int version = 0;

	if (!n->api.cuda || n->api.cuda(&version) != NVML_OK || version < 0)
		return 0;
	return (unsigned)version;
}

unsigned nvml_count(const struct nvml *n)
{
	return n->n;
}

const struct nvml_gpu *nvml_gpu(const struct nvml *n, unsigned i)
{
	return &n->devices[i].gpu;
}

int nvml_processes(struct nvml *n, unsigned i, struct nvml_process *out,
		   unsigned max)
{
	struct process_info info[256];
	unsigned count = sizeof(info) / sizeof(info[0]);

	if (!n->api.processes ||
	    n->api.processes(n->devices[i].handle, &count, info) != NVML_OK ||
	    count > sizeof(info) / sizeof(info[0]))
		return -EIO;
	if (count > max)
		count = max;
	for (unsigned p = 0; p < count; p++) {
		uint64_t bytes = info[p].used_bytes;

		out[p].pid = info[p].pid;
		out[p].bytes = bytes == NOT_AVAILABLE ? 0 : bytes;
	}
	return (int)count;
}

static double percent(const struct gpm_metric *m)
{
	if (m->result != NVML_OK || !isfinite(m->value) || m->value < 0)
		return NAN;
	return m->value / 100;
}

static void read_gpm(struct nvml *n, struct device *d, struct nvml_reading *out)
{
	unsigned next = !d->newest;
	struct gpm_get *get = &n->get;

	if (n->api.gpm_sample(d->handle, d->samples[next]) != NVML_OK)
		return;
	get->version = 1;
	get->n = 2;
	get->sample1 = d->samples[d->newest];
	get->sample2 = d->samples[next];
	get->metrics[0] = (struct gpm_metric){ .id = GPM_DRAM_BW_UTIL };
	get->metrics[1] = (struct gpm_metric){ .id = GPM_ANY_TENSOR_UTIL };
	if (d->sampled && n->api.gpm_metrics(get) == NVML_OK) {
		out->dram = percent(&get->metrics[0]);
		out->tensor = percent(&get->metrics[1]);
	}
	d->newest = next;
	d->sampled = true;
}

int nvml_read(struct nvml *n, unsigned i, struct nvml_reading *out)
{
	struct nvml_reading r = { NAN, NAN, NAN, NAN };
	struct device *d = &n->devices[i];
	struct utilization u;
	unsigned mhz;
	int result;

	if (n->api.utilization) {
		/* refused on a MIG instance: no figure, but no loss either */
		result = n->api.utilization(d->handle, &u);
		if (result == NVML_GPU_IS_LOST)
			return -EIO;
		if (result == NVML_OK)
			r.sm = u.gpu / 100.0;
	}
	if (n->api.clock &&
	    n->api.clock(d->handle, NVML_CLOCK_SM, &mhz) == NVML_OK)
		r.sm_clock_hz = mhz * 1e6;
	if (d->gpu.gpm)
		read_gpm(n, d, &r);
	*out = r;
	return 0;
}

void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->n; i++)
		for (unsigned s = 0; s < 2; s++)
			if (n->devices[i].samples[s])
				n->api.gpm_free(n->devices[i].samples[s]);
	n->api.shutdown();
	dlclose(n->library);
	free(n);
}
