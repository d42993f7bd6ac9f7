/* The target half: sessions on a device, samples. */
#include "sim/gpu/cupti_pm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LATE_NS 8000u
#define LATE_PART 4        /* of what is written: a quarter */
#define SAMPLE_BYTES 6000u /* of the hardware buffer */
#define SYSCLK_PER_NS 1.4

struct session {
	size_t device;
	int lock; /* descriptor of the marker, locked */
	char path[64];
	uint64_t interval_ns;
	enum pm_append append;
	uint64_t room; /* samples in the hardware buffer */
	bool running, full;
	uint64_t next_ns; /* start of the first sample not decoded */
};

struct device {
	size_t index;
	const struct sim_gpu_type *type;
	/* of the samples being made */
	unsigned n;
	const uint64_t *edge, *late_edge;
	struct sim_counters *out, *late;
};

static void look(void *arg, const struct sim_shm *s)
{
	struct device *d = arg;

	if (s->device != d->index)
		return;
	d->type = sim_gpu_at(s->gpu);
	if (!d->n)
		return;
	sim_shm_between(s, d->edge, d->n, d->out);
	sim_shm_between(s, d->late_edge, d->n, d->late);
}

static const struct sim_gpu_type *find_device(size_t index)
{
	struct device d = { .index = index };

	sim_shm_scan(look, &d);
	return d.type;
}

CUptiResult cuptiDeviceGetChipName(struct pm_chip_name *p)
{
	const struct sim_gpu_type *t = find_device(p->device);

	if (!t)
		return CUPTI_E_INVALID_PARAMETER;
	p->name = t->cc_major == 8   ? "GA100"
		  : t->cc_major == 9 ? "GH100"
				     : "GB100";
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingGetCounterAvailability(struct pm_availability *p)
{
	if (sim_fault("pm_denied", NULL))
		return CUPTI_E_INSUFFICIENT_PRIVILEGES;
	if (p->image)
		memset(p->image, 1, p->image_bytes);
	else
		p->image_bytes = 64;
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingEnable(struct pm_enable *p)
{
	struct session *s;

	if (sim_fault("pm_denied", NULL))
		return CUPTI_E_INSUFFICIENT_PRIVILEGES;
	if (sim_fault("pm_busy", NULL))
		return CUPTI_E_HARDWARE_BUSY;
	if (!find_device(p->device))
		return CUPTI_E_INVALID_PARAMETER;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUPTI_E_OUT_OF_MEMORY;
	s->device = p->device;
	snprintf(s->path, sizeof(s->path), "/dev/shm/moetop-sim-pm%u-%zu",
		 getuid(), p->device);
	s->lock = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB)) {
		if (s->lock >= 0)
			close(s->lock);
		free(s);
		return CUPTI_E_HARDWARE_BUSY;
	}
	p->object = s;
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingDisable(struct pm_object *p)
{
	struct session *s = p->object;

	unlink(s->path);
	close(s->lock);
	free(s);
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingSetConfig(struct pm_set_config *p)
{
	const struct pm_image *i = (const void *)p->image;
	struct session *s = p->object;
	uint64_t room = p->buffer_bytes / SAMPLE_BYTES, fault;

	if (!i || p->image_bytes < sizeof(*i) || i->magic != PM_MAGIC ||
	    !i->n || !p->interval || s->running)
		return CUPTI_E_INVALID_PARAMETER;
	if (p->trigger == PM_TRIGGER_TIME && find_device(s->device) &&
	    find_device(s->device)->cc_major == 8)
		return CUPTI_E_NOT_SUPPORTED;
	s->interval_ns =
		p->trigger == PM_TRIGGER_TIME
			? p->interval
			: (uint64_t)((double)p->interval / SYSCLK_PER_NS);
	s->append = (enum pm_append)p->append;
	if (sim_fault("pm_overflow", &fault) && fault)
		room = fault;
	s->room = room;
	return room ? CUPTI_OK : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiPmSamplingStart(struct pm_object *p)
{
	struct session *s = p->object;

	if (!s->interval_ns || s->running)
		return CUPTI_E_INVALID_PARAMETER;
	/* the counters of a device that runs are locked to its base clocks */
	if (sim_fault("pm_clocks", NULL) && ftruncate(s->lock, 1))
		return CUPTI_E_UNKNOWN;
	s->running = true;
	s->full = false;
	s->next_ns = sim_now();
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingStop(struct pm_object *p)
{
	struct session *s = p->object;

	s->running = false;
	return ftruncate(s->lock, 0) ? CUPTI_E_UNKNOWN : CUPTI_OK;
}

CUptiResult cuptiPmSamplingGetCounterDataSize(struct pm_data_size *p)
{
	p->data_bytes =
		sizeof(struct pm_data) + p->samples * sizeof(struct pm_slot);
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingCounterDataImageInitialize(struct pm_data_init *p)
{
	struct pm_data *d = (void *)p->data;

	if (p->data_bytes < sizeof(*d))
		return CUPTI_E_INVALID_PARAMETER;
	*d = (struct pm_data){
		.magic = PM_MAGIC,
		.room = (uint32_t)((p->data_bytes - sizeof(*d)) /
				   sizeof(struct pm_slot)),
	};
	return CUPTI_OK;
}

/* n samples from s->next_ns on, into the image. */
static void sample(struct session *s, struct pm_data *d, unsigned n)
{
	static uint64_t edge[SIM_SHM_BINS_MAX + 1],
		late_edge[SIM_SHM_BINS_MAX + 1];
	static struct sim_counters now[SIM_SHM_BINS_MAX],
		late[SIM_SHM_BINS_MAX];
	struct device at = { .index = s->device,
			     .n = n,
			     .edge = edge,
			     .late_edge = late_edge,
			     .out = now,
			     .late = late };
	uint64_t offset = 0, cupti_now, mono = sim_now();

	sim_fault("pm_offset", &offset);
	cuptiGetTimestamp(&cupti_now);
	memset(now, 0, n * sizeof(now[0]));
	memset(late, 0, n * sizeof(late[0]));
	for (unsigned i = 0; i <= n; i++) {
		edge[i] = s->next_ns + i * s->interval_ns;
		late_edge[i] = edge[i] - LATE_NS;
	}
	sim_shm_scan(look, &at);
	for (unsigned i = 0; i < n; i++) {
		struct pm_slot *slot = &d->slot[d->used++];

		*slot = (struct pm_slot){
			.start = edge[i] + cupti_now - mono + offset,
			.end = edge[i + 1] + cupti_now - mono + offset,
			.counters = now[i],
			.peak = at.type ? at.type->bandwidth *
						  (double)s->interval_ns / 1e9
					: 1,
		};
		slot->counters.write_bytes -= now[i].write_bytes / LATE_PART;
		slot->counters.write_bytes += late[i].write_bytes / LATE_PART;
	}
	s->next_ns = edge[n];
}

CUptiResult cuptiPmSamplingDecodeData(struct pm_decode *p)
{
	struct session *s = p->object;
	struct pm_data *d = (void *)p->data;
	uint64_t due = (sim_now() - s->next_ns) / s->interval_ns;

	while (sim_fault("pm_stuck", NULL))
		pause();
	p->overflow = 0;
	if (s->full || (due > s->room && s->append == PM_KEEP_OLDEST)) {
		s->full = true;
		p->overflow = 1;
		return CUPTI_E_OUT_OF_MEMORY;
	}
	if (due > s->room) {
		p->overflow = 1;
		s->next_ns += (due - s->room) * s->interval_ns;
		due = s->room;
	}
	if (due > d->room - d->used)
		due = d->room - d->used;
	if (due > SIM_SHM_BINS_MAX)
		due = SIM_SHM_BINS_MAX;
	if (due)
		sample(s, d, (unsigned)due);
	p->stop_reason = 0;
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingGetCounterDataInfo(struct pm_data_info *p)
{
	const struct pm_data *d = (const void *)p->data;

	p->total = d->room;
	p->populated = p->completed = d->used;
	return CUPTI_OK;
}

CUptiResult cuptiPmSamplingCounterDataGetSampleInfo(struct pm_sample_info *p)
{
	const struct pm_data *d = (const void *)p->data;

	if (p->index >= d->used)
		return CUPTI_E_INVALID_PARAMETER;
	p->start = d->slot[p->index].start;
	p->end = d->slot[p->index].end;
	return CUPTI_OK;
}
