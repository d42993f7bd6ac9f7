#include "model/snapshot.h"

#include <stddef.h>

const struct metric_info metric_info[METRICS] = {
#define METRIC(id, key_, unit_, kind_, title_, help_) \
	[METRIC_##id] = { .key = key_,                \
			  .title = title_,            \
			  .help = help_,              \
			  .unit = UNIT_##unit_,       \
			  .kind = KIND_##kind_ },
#include "model/metrics.def"
};

const struct metric_info histogram_info[HISTOGRAMS] = {
#define HISTOGRAM(id, key_, unit_, title_, help_)  \
	[HISTOGRAM_##id] = { .key = key_,          \
			     .title = title_,      \
			     .help = help_,        \
			     .unit = UNIT_##unit_, \
			     .kind = KIND_GAUGE },
#include "model/metrics.def"
};

const char *regime_name(enum regime r)
{
	static const char *const names[REGIMES] = {
		[REGIME_IDLE] = "idle",       [REGIME_PREFILL] = "prefill",
		[REGIME_COMPUTE] = "compute", [REGIME_KV] = "kv",
		[REGIME_SOLO] = "solo",       [REGIME_VALLEY] = "valley",
		[REGIME_SHARED] = "shared",
	};

	return (unsigned)r < REGIMES ? names[r] : NULL;
}

const char *side_name(enum side s)
{
	switch (s) {
	case SIDE_NEAR:
		return "near";
	case SIDE_FAR:
		return "far";
	case SIDE_NONE:
		break;
	}
	return NULL;
}

const char *regime_flag_name(unsigned flag)
{
	switch (flag) {
	case FLAG_OVERHEAD:
		return "overhead";
	case FLAG_IMBALANCE:
		return "imbalance";
	case FLAG_SKEW:
		return "skew";
	default:
		return NULL;
	}
}

const char *what_if_kind_name(enum what_if_kind k)
{
	static const char *const names[WHAT_IF_KINDS] = {
		[WHAT_IF_BATCH] = "batch", [WHAT_IF_MERGE] = "merge",
		[WHAT_IF_TP] = "tp",       [WHAT_IF_EP] = "ep",
		[WHAT_IF_GPU] = "gpu",
	};

	return (unsigned)k < WHAT_IF_KINDS ? names[k] : NULL;
}
