#include "cupti/pm.h"
#include "cupti/abi.h"
#include "cupti/clock.h"
#include "cupti/library.h"
#include "cupti/pm_host.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HARDWARE_BUFFER_BYTES (64u << 20)
/* Where the trigger counts cycles: at about this rate (base clocks differ; the
 * samples carry their own times). */
#define SYSCLK_PER_NS 1.4
#define CLOCK_EVERY 64u /* reads between two looks at the clocks */

struct pm {
	void *cuda, *cupti;
	struct pm_api api;
	struct cupti_api clock; /* its timestamp only */
	struct pm_choice choice;
	struct pm_options options;
	void *object; /* NULL: not enabled */
	bool started, by_time, latest;
	bool first;  /* the first sample after a start is not one interval */
	bool synced; /* offset_ns is known */
	uint8_t *data;
	size_t data_bytes;
	int64_t offset_ns; /* CUPTI's clock to CLOCK_MONOTONIC */
	unsigned reads;
	struct pm_info info;
};

/* ---- what went wrong ------------------------------------------------------ */

struct reason {
	int cupti, error;
	const char *why, *fix;
};

static const struct reason reasons[] = {
	{ CUPTI_E_INSUFFICIENT_PRIVILEGES, -EACCES,
	  "the driver keeps profiling counters for administrators",
	  "run moetop as root or with CAP_PERFMON, or load the nvidia module "
	  "with NVreg_RestrictProfilingToAdminUsers=0" },
	{ CUPTI_E_HARDWARE_BUSY, -EBUSY,
	  "another profiler holds the GPU's counters (DCGM, "
	  "Nsight, another moetop?)",
	  "dcgmi profile --pause, or end the other profiler; or use "
	  "--counters=gpm" },
	{ CUPTI_E_NOT_SUPPORTED, -ENOTSUP,
	  "this GPU or its mode has no PM sampling (MIG, vGPU, MPS?)",
	  "use --counters=gpm" },
	{ CUPTI_E_VIRTUALIZED_DEVICE, -ENOTSUP,
	  "counters are off in this virtual machine",
	  "allow profiling for the vGPU, or use --counters=gpm" },
};

static int explain(int result, const char *call, char *why, size_t why_bytes,
		   char *fix, size_t fix_bytes)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].cupti != result)
			continue;
		snprintf(why, why_bytes, "%s", reasons[i].why);
		snprintf(fix, fix_bytes, "%s", reasons[i].fix);
		return reasons[i].error;
	}
	snprintf(why, why_bytes, "PM sampling: %s failed with CUPTI error %d",
		 call, result);
	snprintf(fix, fix_bytes, "use --counters=gpm");
	return -EIO;
}

/* ---- libraries ------------------------------------------------------------ */

static int start_driver(struct pm *p, char *why, size_t why_bytes)
{
	const char *name =
		p->options.driver ? p->options.driver : "libcuda.so.1";
	int (*init)(unsigned) = NULL;
	void *f;

	p->cuda = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	f = p->cuda ? dlsym(p->cuda, "cuInit") : NULL;
	memcpy(&init, &f, sizeof(f));
	if (init && !init(0))
		return 0;
	snprintf(why, why_bytes,
		 init ? "the CUDA driver has no device here"
		      : "no CUDA driver on this machine");
	return -ENODEV;
}

/* libcupti opens these by their bare names, which finds them on few machines;
 * one that is loaded already is found everywhere. */
static void load_beside(const char *library)
{
	static const char *const names[] = { "libnvperf_host.so",
					     "libnvperf_target.so" };
	const char *slash = strrchr(library, '/');
	char path[PATH_MAX];

	for (size_t i = 0; slash && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - library),
			 library, names[i]);
		(void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
}

static int load(struct pm *p, char *why, size_t why_bytes)
{
	void *f;

	load_beside(p->options.library);
	p->cupti = dlopen(p->options.library, RTLD_NOW | RTLD_LOCAL);
	if (!p->cupti) {
		snprintf(why, why_bytes, "libcupti does not load: %s",
			 dlerror());
		return -ENOENT;
	}
	f = dlsym(p->cupti, "cuptiGetTimestamp");
	memcpy(&p->clock.timestamp, &f, sizeof(f));
	if (f && !pm_api_find(&p->api, p->cupti))
		return 0;
	snprintf(why, why_bytes, "this libcupti has no PM sampling");
	return -ENOSYS;
}

/* ---- choosing -------------------------------------------------------------- */

/* What the device offers; NULL when it cannot be told, which does no harm. */
static uint8_t *availability(struct pm *p, int *result)
{
	struct pm_availability a = { .bytes = PM_BYTES(pm_availability, image),
				     .device = p->options.device };

	*result = p->api.availability(&a);
	if (*result || !a.image_bytes)
		return NULL;
	a.image = calloc(1, a.image_bytes);
	if (a.image && p->api.availability(&a) != CUPTI_OK) {
		free(a.image);
		return NULL;
	}
	return a.image;
}

static int choose(struct pm *p, char *why, size_t why_bytes, char *fix,
		  size_t fix_bytes)
{
	struct pm_chip_name chip = { .bytes = PM_BYTES(pm_chip_name, name),
				     .device = p->options.device };
	int result = p->api.chip_name(&chip), err;
	uint8_t *image;

	if (result || !chip.name) {
		snprintf(why, why_bytes, "CUPTI knows no device %u",
			 p->options.device);
		return -ENODEV;
	}
	snprintf(p->info.chip, sizeof(p->info.chip), "%s", chip.name);
	image = availability(p, &result);
	if (result == CUPTI_E_INSUFFICIENT_PRIVILEGES)
		return explain(result, "", why, why_bytes, fix, fix_bytes);
	err = pm_choose(&p->api, p->info.chip, image, &p->choice);
	free(image);
	if (!err) {
		snprintf(p->info.metrics, sizeof(p->info.metrics), "%s",
			 p->choice.set->name);
		return 0;
	}
	snprintf(why, why_bytes, "no DRAM metric on this chip (%s)",
		 p->info.chip);
	snprintf(fix, fix_bytes, "use --counters=gpm");
	return err == -ENOMEM ? err : -ENOTSUP;
}

/* ---- running --------------------------------------------------------------- */

static int configure(struct pm *p, bool by_time, bool latest)
{
	struct pm_set_config c = {
		.bytes = PM_BYTES(pm_set_config, append),
		.object = p->object,
		.image_bytes = p->choice.image_bytes,
		.image = p->choice.image,
		.buffer_bytes = HARDWARE_BUFFER_BYTES,
		.interval =
			by_time ? p->options.interval_ns
				: (uint64_t)(SYSCLK_PER_NS *
					     (double)p->options.interval_ns),
		.trigger = by_time ? PM_TRIGGER_TIME : PM_TRIGGER_SYSCLK,
		.append = latest ? PM_KEEP_LATEST : PM_KEEP_OLDEST,
	};
	int result = p->api.set_config(&c);

	if (!result) {
		p->by_time = by_time;
		p->latest = latest;
	}
	return result;
}

/* Turing and GA100 trigger by cycles, Turing keeps the oldest. */
static int configure_somehow(struct pm *p)
{
	int result = configure(p, true, true);

	if (result && result != CUPTI_E_INSUFFICIENT_PRIVILEGES &&
	    result != CUPTI_E_HARDWARE_BUSY)
		result = configure(p, false, true);
	if (result && result != CUPTI_E_INSUFFICIENT_PRIVILEGES &&
	    result != CUPTI_E_HARDWARE_BUSY)
		result = configure(p, false, false);
	return result;
}

static int clear_data(struct pm *p)
{
	struct pm_data_init i = { .bytes = PM_BYTES(pm_data_init, data),
				  .object = p->object,
				  .data_bytes = p->data_bytes,
				  .data = p->data };

	return p->api.data_init(&i);
}

static int make_data(struct pm *p)
{
	struct pm_data_size s = { .bytes = PM_BYTES(pm_data_size, data_bytes),
				  .object = p->object,
				  .names = p->choice.set->metrics,
				  .n = p->choice.set->n,
				  .samples = PM_READINGS_MAX };
	int result = p->api.data_size(&s);

	if (result)
		return result;
	free(p->data);
	p->data = calloc(1, s.data_bytes);
	p->data_bytes = p->data ? s.data_bytes : 0;
	return p->data ? clear_data(p) : CUPTI_E_OUT_OF_MEMORY;
}

static void halt(struct pm *p)
{
	struct pm_object o = { .bytes = PM_BYTES(pm_object, object),
			       .object = p->object };

	if (p->started)
		p->api.stop(&o);
	if (p->object)
		p->api.disable(&o);
	p->started = false;
	p->object = NULL;
}

static int run(struct pm *p, const char **call)
{
	struct pm_enable e = { .bytes = PM_BYTES(pm_enable, object),
			       .device = p->options.device };
	struct pm_object o = { .bytes = PM_BYTES(pm_object, object) };
	int result = p->api.enable(&e);

	*call = "cuptiPmSamplingEnable";
	if (result)
		return result;
	p->object = o.object = e.object;
	*call = "cuptiPmSamplingSetConfig";
	result = configure_somehow(p);
	if (!result) {
		*call = "cuptiPmSamplingGetCounterDataSize";
		result = make_data(p);
	}
	if (!result) {
		*call = "cuptiPmSamplingStart";
		result = p->api.start(&o);
	}
	p->started = !result;
	p->first = true;
	if (result)
		halt(p);
	return result;
}

/* ---- reading ---------------------------------------------------------------- */

static bool evaluate(struct pm *p, size_t index, double *values)
{
	struct pm_host_values v = {
		.bytes = PM_BYTES(pm_host_values, values),
		.host = p->choice.host,
		.data = p->data,
		.data_bytes = p->data_bytes,
		.index = index,
		.names = p->choice.set->metrics,
		.n = p->choice.set->n,
		.values = values,
	};

	return p->api.host_values(&v) == CUPTI_OK;
}

static void take(const struct pm *p, const double *values,
		 struct pm_reading *out)
{
	double ns = (double)(out->end_ns - out->start_ns);
	double pct = p->options.peak_bytes_per_second * ns / 1e11;

	out->read_bytes = out->write_bytes = out->tensor_ratio = NAN;
	for (unsigned i = 0; i < p->choice.set->n; i++) {
		switch (p->choice.set->roles[i]) {
		case PM_READ_BYTES:
			out->read_bytes = values[i];
			break;
		case PM_WRITE_BYTES:
			out->write_bytes = values[i];
			break;
		case PM_READ_PCT:
		case PM_BOTH_PCT:
			out->read_bytes = values[i] * pct;
			break;
		case PM_WRITE_PCT:
			out->write_bytes = values[i] * pct;
			break;
		case PM_TENSOR_PCT:
			out->tensor_ratio = values[i] / 100;
			break;
		}
	}
}

/* One sample of the image; false: it makes no sense. */
static bool read_sample(struct pm *p, size_t index, struct pm_reading *out)
{
	struct pm_sample_info s = { .bytes = PM_BYTES(pm_sample_info, end),
				    .object = p->object,
				    .data = p->data,
				    .data_bytes = p->data_bytes,
				    .index = index };
	double values[PM_METRICS_MAX];

	if (!p->synced || p->api.sample_info(&s) != CUPTI_OK ||
	    s.end <= s.start || !evaluate(p, index, values))
		return false;
	out->start_ns = s.start + (uint64_t)p->offset_ns;
	out->end_ns = s.end + (uint64_t)p->offset_ns;
	take(p, values, out);
	return out->read_bytes >= 0 && isfinite(out->read_bytes) &&
	       !(out->write_bytes < 0);
}

static unsigned read_image(struct pm *p, struct pm_reading *out, unsigned max)
{
	struct pm_data_info i = { .bytes = PM_BYTES(pm_data_info, completed),
				  .data = p->data,
				  .data_bytes = p->data_bytes };
	unsigned n = 0;

	if (p->api.data_info(&i) != CUPTI_OK)
		return 0;
	for (size_t k = 0; k < i.completed && n < max; k++) {
		if (p->first) {
			p->first = false;
			continue;
		}
		if (read_sample(p, k, &out[n]))
			n++;
		else
			p->info.bad++;
	}
	p->info.readings += n;
	return n;
}

static int restart(struct pm *p)
{
	const char *call;

	halt(p);
	p->info.restarts++;
	return run(p, &call) ? -EIO : 0;
}

int pm_read(struct pm *p, struct pm_reading *out, unsigned max)
{
	struct pm_decode d = { .bytes = PM_BYTES(pm_decode, overflow),
			       .object = p->object,
			       .data = p->data,
			       .data_bytes = p->data_bytes };
	uint64_t error_ns;
	int64_t offset;
	unsigned n;
	int result;

	if ((!p->synced || p->reads % CLOCK_EVERY == 0) &&
	    clock_offset(&p->clock, &offset, &error_ns) == CUPTI_OK) {
		p->offset_ns = offset;
		p->synced = true;
	}
	p->reads++;
	result = p->api.decode(&d);
	p->info.overflows += d.overflow != 0;
	/* Of a buffer that keeps the oldest, this is the end. */
	if (result == CUPTI_E_OUT_OF_MEMORY || (d.overflow && !p->latest))
		return restart(p);
	if (result)
		return -EIO;
	n = read_image(p, out, max < PM_READINGS_MAX ? max : PM_READINGS_MAX);
	return clear_data(p) ? -EIO : (int)n;
}

/* ---- the whole --------------------------------------------------------------- */

static int open_all(struct pm *p, char *why, size_t why_bytes, char *fix,
		    size_t fix_bytes)
{
	struct pm_plain init = { .bytes = PM_BYTES(pm_plain, priv) };
	const char *call = "cuptiProfilerInitialize";
	int err = start_driver(p, why, why_bytes);

	if (!err)
		err = load(p, why, why_bytes);
	if (err)
		return err;
	err = p->api.initialize(&init);
	if (err)
		return explain(err, call, why, why_bytes, fix, fix_bytes);
	err = choose(p, why, why_bytes, fix, fix_bytes);
	if (err)
		return err;
	err = run(p, &call);
	return err ? explain(err, call, why, why_bytes, fix, fix_bytes) : 0;
}

int pm_open(struct pm **out, const struct pm_options *o, char *why,
	    size_t why_bytes, char *fix, size_t fix_bytes)
{
	struct pm *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->options = *o;
	snprintf(fix, fix_bytes, "%s", "");
	err = open_all(p, why, why_bytes, fix, fix_bytes);
	if (err) {
		pm_close(p);
		return err;
	}
	*out = p;
	return 0;
}

const struct pm_info *pm_info(const struct pm *p)
{
	return &p->info;
}

/* The libraries stay loaded: they do not always survive being unloaded, and
 * cuptiProfilerDeInitialize is called at most once. */
void pm_close(struct pm *p)
{
	struct pm_plain end = { .bytes = PM_BYTES(pm_plain, priv) };

	if (!p)
		return;
	halt(p);
	if (p->choice.set) {
		pm_choice_free(&p->api, &p->choice);
		p->api.deinitialize(&end);
	}
	free(p->data);
	free(p);
}
