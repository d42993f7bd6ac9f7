#include "core/gpu_home.h"

#define SMALL_PART 8u

static const struct nvml_process *find(const struct gpu_processes *g,
				       uint32_t pid)
{
	for (unsigned i = 0; i < g->n; i++)
		if (g->list[i].pid == pid)
			return &g->list[i];
	return NULL;
}

int gpu_home_find(const struct gpu_processes *gpus, unsigned n, uint32_t pid)
{
	uint64_t most = 0;
	int home = -1;

	for (unsigned i = 0; i < n; i++) {
		const struct nvml_process *p = find(&gpus[i], pid);

		if (!p || (home >= 0 && p->bytes <= most))
			continue;
		home = (int)i;
		most = p->bytes;
	}
	return home;
}

bool gpu_home_has(const struct gpu_processes *gpus, unsigned n, unsigned i,
		  uint32_t pid)
{
	const struct nvml_process *here = find(&gpus[i], pid);
	int home = gpu_home_find(gpus, n, pid);

	return here &&
	       (!here->bytes ||
		here->bytes >= find(&gpus[home], pid)->bytes / SMALL_PART);
}
