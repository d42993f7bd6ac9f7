#include "sim/gpu/nvml_state.h"

#include <stdlib.h>

#define GPM_VERSION 1u

struct sample {
	bool taken;
	uint64_t at_ns;
	double bandwidth;
	struct sim_counters c;
};

static bool counters(const struct nvml_view *v)
{
	return v->type->cc_major >= 9; /* Hopper and later */
}

static bool refused(const struct nvml_view *v)
{
	return v->no_counters || sim_fault("no_counters", NULL);
}

int nvmlGpmQueryDeviceSupport(void *device, struct nvml_gpm_support *s)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && !s)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e && s->version != GPM_VERSION)
		e = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!e && refused(&v))
		e = NVML_ERROR_NOT_SUPPORTED;
	if (!e)
		s->supported = counters(&v);
	return e;
}

int nvmlGpmSampleAlloc(void **sample)
{
	if (!sample)
		return NVML_ERROR_INVALID_ARGUMENT;
	*sample = calloc(1, sizeof(struct sample));
	return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

int nvmlGpmSampleFree(void *sample)
{
	if (!sample)
		return NVML_ERROR_INVALID_ARGUMENT;
	free(sample);
	return NVML_SUCCESS;
}

int nvmlGpmSampleGet(void *device, void *sample)
{
	struct sample *s = sample;
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && !s)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e && (!counters(&v) || refused(&v)))
		e = NVML_ERROR_NOT_SUPPORTED;
	if (e)
		return e;
	*s = (struct sample){ .taken = true,
			      .at_ns = v.at_ns,
			      .bandwidth = v.type->bandwidth,
			      .c = v.at };
	return NVML_SUCCESS;
}

/* A counter falls when a process ends between the samples: that is no work. */
static double grown(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) : 0;
}

static double share(double part, double whole)
{
	double p = 100 * part / whole;

	return p > 100 ? 100 : p;
}

static void metric(struct nvml_gpm_metric *m, const struct sample *a,
		   const struct sample *b)
{
	double ns = (double)(b->at_ns - a->at_ns);
	double moved = grown(a->c.read_bytes, b->c.read_bytes) +
		       grown(a->c.write_bytes, b->c.write_bytes);

	m->result = NVML_SUCCESS;
	m->unit = "%";
	switch (m->id) {
	case NVML_GPM_METRIC_GRAPHICS_UTIL:
		m->short_name = "Graphics Util";
		m->value = share(grown(a->c.busy_ns, b->c.busy_ns), ns);
		break;
	case NVML_GPM_METRIC_SM_UTIL:
		m->short_name = "SM Util";
		m->value = share(grown(a->c.busy_ns, b->c.busy_ns), ns);
		break;
	case NVML_GPM_METRIC_ANY_TENSOR_UTIL:
	case NVML_GPM_METRIC_HMMA_TENSOR_UTIL:
		m->short_name = "Tensor Util";
		m->value = share(grown(a->c.tensor_ns, b->c.tensor_ns), ns);
		break;
	case NVML_GPM_METRIC_DRAM_BW_UTIL:
		m->short_name = "DRAM BW Util";
		m->value = share(moved, a->bandwidth * ns / 1e9);
		break;
	default:
		m->result = NVML_ERROR_NOT_SUPPORTED;
		m->short_name = NULL;
		m->unit = NULL;
		m->value = 0;
		break;
	}
	m->long_name = m->short_name;
}

int nvmlGpmMetricsGet(struct nvml_gpm_get *get)
{
	const struct sample *a, *b;

	if (!get)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (get->version != GPM_VERSION)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	a = get->sample1;
	b = get->sample2;
	if (!a || !b || !a->taken || !b->taken || b->at_ns <= a->at_ns)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < get->count; i++)
		metric(&get->metrics[i], a, b);
	return NVML_SUCCESS;
}
