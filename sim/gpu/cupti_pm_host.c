/* The host half: chips, metrics, configurations, values. */
#include "sim/gpu/cupti_pm.h"

#include <stdlib.h>
#include <string.h>

enum metric_kind { READ, WRITE, READ_PCT, WRITE_PCT, BOTH_PCT, TENSOR_PCT };

/* By chip, as measured with the real library: op_ is the name on GB20x. */
static const struct {
	const char *name;
	enum metric_kind kind;
} metrics[] = {
	{ "dram__bytes_read.sum", READ },
	{ "dram__bytes_write.sum", WRITE },
	{ "dram__read_throughput.avg.pct_of_peak_sustained_elapsed", READ_PCT },
	{ "dram__write_throughput.avg.pct_of_peak_sustained_elapsed",
	  WRITE_PCT },
	{ "dram__throughput.avg.pct_of_peak_sustained_elapsed", BOTH_PCT },
	{ "sm__pipe_tensor_cycles_active_realtime.avg."
	  "pct_of_peak_sustained_elapsed",
	  TENSOR_PCT },
};
#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

static const char *const chips[] = { "GA100", "GH100", "GB100" };

struct host {
	struct pm_image image;
};

CUptiResult cuptiProfilerInitialize(struct pm_plain *p)
{
	return p ? CUPTI_OK : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiProfilerDeInitialize(struct pm_plain *p)
{
	return p ? CUPTI_OK : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiProfilerHostGetSupportedChips(struct pm_chips *p)
{
	p->n = sizeof(chips) / sizeof(chips[0]);
	p->names = chips;
	return CUPTI_OK;
}

CUptiResult cuptiProfilerHostInitialize(struct pm_host_init *p)
{
	struct host *h;

	if (p->type != PM_PROFILER_SAMPLING || !p->chip)
		return CUPTI_E_INVALID_PARAMETER;
	for (size_t i = 0; i < sizeof(chips) / sizeof(chips[0]); i++) {
		if (strcmp(chips[i], p->chip))
			continue;
		h = calloc(1, sizeof(*h));
		if (!h)
			return CUPTI_E_OUT_OF_MEMORY;
		h->image.magic = PM_MAGIC;
		p->host = h;
		return CUPTI_OK;
	}
	return CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiProfilerHostDeinitialize(struct pm_host *p)
{
	free(p->host);
	return CUPTI_OK;
}

static int find_metric(const char *name)
{
	for (size_t i = 0; i < METRICS; i++)
		if (!strcmp(metrics[i].name, name))
			return (int)i;
	return -1;
}

CUptiResult cuptiProfilerHostConfigAddMetrics(struct pm_host_metrics *p)
{
	struct host *h = p->host;

	for (size_t i = 0; i < p->n; i++) {
		int m = find_metric(p->names[i]);

		if (m < 0 || h->image.n == PM_VALUES_MAX)
			return CUPTI_E_INVALID_PARAMETER;
		h->image.metrics[h->image.n++] = (uint32_t)m;
	}
	return CUPTI_OK;
}

CUptiResult cuptiProfilerHostGetConfigImageSize(struct pm_host_size *p)
{
	p->image_bytes = sizeof(struct pm_image);
	return CUPTI_OK;
}

CUptiResult cuptiProfilerHostGetConfigImage(struct pm_host_image *p)
{
	const struct host *h = p->host;

	if (p->image_bytes < sizeof(h->image))
		return CUPTI_E_INVALID_PARAMETER;
	memcpy(p->image, &h->image, sizeof(h->image));
	return CUPTI_OK;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(struct pm_host_passes *p)
{
	p->passes = 1;
	return CUPTI_OK;
}

static double value(const struct pm_slot *s, enum metric_kind kind)
{
	double read = (double)s->counters.read_bytes;
	double write = (double)s->counters.write_bytes;
	double ns = (double)(s->end - s->start);

	switch (kind) {
	case READ:
		return read;
	case WRITE:
		return write;
	case READ_PCT:
		return 100 * read / s->peak;
	case WRITE_PCT:
		return 100 * write / s->peak;
	case BOTH_PCT:
		return 100 * (read + write) / s->peak;
	default:
		return 100 * (double)s->counters.tensor_ns / ns;
	}
}

CUptiResult cuptiProfilerHostEvaluateToGpuValues(struct pm_host_values *p)
{
	const struct pm_data *d = (const void *)p->data;

	if (d->magic != PM_MAGIC || p->index >= d->used)
		return CUPTI_E_INVALID_PARAMETER;
	for (size_t i = 0; i < p->n; i++) {
		int m = find_metric(p->names[i]);

		if (m < 0)
			return CUPTI_E_INVALID_PARAMETER;
		p->values[i] = value(&d->slot[p->index], metrics[m].kind);
	}
	return CUPTI_OK;
}
