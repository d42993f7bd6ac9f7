#include "core/watch.h"
#include "core/collector.h"
#include "core/layer_bytes.h"
#include "core/source.h"
#include "target/inject.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch {
	struct target target;
	struct source_context context;
	const struct source_ops *sources[COLLECTOR_SOURCES_MAX + 1];
	struct collector *collector;
	const struct snapshot *newest; /* once it has ended */
	uint64_t gone_ns;
};

static void choose_sources(struct watch *w, const struct watch_config *config)
{
	const struct settings *set = config->settings;
	unsigned n = 0;

	if (!set->no_bpf)
		w->sources[n++] = &source_requests;
	w->sources[n++] = &source_agent;
	w->sources[n++] = &source_nvml;
	w->sources[n++] = &source_engine;
	if (set->counters == COUNTERS_PM)
		w->sources[n++] = &source_counters;
	w->context = (struct source_context){
		.budget_ppm = (uint32_t)(set->budget * 1e4),
		.rows_mode = (uint32_t)set->rows,
		.counters = set->counters != COUNTERS_OFF,
		.inject = set->no_inject ? NULL : inject,
		.agent_path = set->agent,
		.detach = true,
		.gpu_index = -1,
		.gpu_peak_bw = NAN,
		.sm_clock_hz = NAN,
		.nvml_path = config->nvml_path ? config->nvml_path
					       : getenv("MOETOP_NVML"),
	};
	if (set->counters == COUNTERS_PM)
		w->context.layer_bytes = layer_bytes_new();
}

int watch_new(struct watch **out, const struct watch_config *given, char *why,
	      size_t why_bytes)
{
	struct watch *w = calloc(1, sizeof(*w));
	const struct collector_config config = {
		.sources = w ? w->sources : NULL,
		.target = w ? &w->target : NULL,
		.context = w ? &w->context : NULL,
		.gpu_price = given->settings->gpu_price,
	};
	int err = w ? 0 : -ENOMEM;

	if (!err) {
		choose_sources(w, given);
		err = target_open(&w->target, given->pid, given->model, why,
				  why_bytes);
	}
	if (!err)
		err = collector_new(&w->collector, &config, clock_now_ns());
	if (err) {
		if (!why[0])
			snprintf(why, why_bytes, "%s", strerror(-err));
		if (w)
			layer_bytes_free(w->context.layer_bytes);
		free(w);
		return err;
	}
	*out = w;
	return 0;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	collector_free(w->collector);
	layer_bytes_free(w->context.layer_bytes);
	free(w);
}

bool watch_tick(struct watch *w)
{
	if (w->newest)
		return false;
	if (collector_tick(w->collector, clock_now_ns()))
		return true;
	watch_end(w);
	return false;
}

void watch_end(struct watch *w)
{
	if (w->newest)
		return;
	w->newest = collector_gone(w->collector, clock_unix_s());
	w->gone_ns = clock_now_ns();
}

const struct snapshot *watch_snapshot(struct watch *w)
{
	return w->newest ? w->newest
			 : collector_snapshot(w->collector, clock_now_ns(),
					      clock_unix_s());
}

void watch_distinguish(struct watch *w)
{
	collector_distinguish(w->collector);
}

pid_t watch_pid(const struct watch *w)
{
	return w->target.pid;
}

const struct target *watch_target(const struct watch *w)
{
	return &w->target;
}

struct source_context *watch_context(struct watch *w)
{
	return &w->context;
}

double watch_gone_s(const struct watch *w)
{
	return w->newest ? (double)(clock_now_ns() - w->gone_ns) / 1e9 : -1;
}
