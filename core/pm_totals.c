#include "core/pm_totals.h"

#include <math.h>

void pm_totals_give(const struct pm_totals *t, struct sample *out)
{
	double per_s = out->gpus * 1e9 / t->ns;

	if (!(t->ns > 0) || (out->gpus > 1 && out->have_dram))
		return;
	out->have_dram = true;
	out->dram_of_one = out->gpus > 1;
	out->dram_read = t->read_bytes * per_s;
	out->dram_write = t->split ? t->write_bytes * per_s : NAN;
	if (isfinite(t->tensor_ns))
		out->tensor_active = t->tensor_ns / t->ns;
}
