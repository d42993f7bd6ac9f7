/*
 * config.h - the agent's settings, from one table
 *
 * CONFIG(member, "ENVIRONMENT", default, least, most, "help").  All are whole
 * numbers.  A value that is no number or out of range is ignored: the default
 * holds, and config_read names the first such variable.
 */
#ifndef MOETOP_AGENT_CONFIG_H
#define MOETOP_AGENT_CONFIG_H

#include <stdint.h>

#define CONFIG_TABLE                                                      \
	CONFIG(budget_ppm, "MOETOP_BUDGET_PPM", 10000, 100, 1000000,      \
	       "allowed overhead in millionths of step time")             \
	CONFIG(window_ms, "MOETOP_WINDOW_MS", 500, 20, 5000,              \
	       "length of a window of kernel records")                    \
	CONFIG(period_ms, "MOETOP_PERIOD_MS", 20000, 1500, 3600000,       \
	       "time from window to window when nothing changes")         \
	CONFIG(record_cap, "MOETOP_RECORD_CAP", 5000000, 1000, 20000000,  \
	       "kernel records taken from one CUPTI life")                \
	CONFIG(renew_ms, "MOETOP_RENEW_MS", 60000, 1000, 3600000,         \
	       "least time from one CUPTI life to the next")              \
	CONFIG(gone_ms, "MOETOP_GONE_MS", 30000, 2000, 3600000,           \
	       "time without a collector until the agent falls asleep")   \
	CONFIG(ring_records, "MOETOP_RING_RECORDS", 16384, 1024, 1048576, \
	       "records in the ring, rounded up to a power of two")       \
	CONFIG(buffers, "MOETOP_BUFFERS", 32, 2, 256,                     \
	       "record buffers of 1 MB")                                  \
	CONFIG(events, "MOETOP_EVENTS", 524288, 4096, 4194304,            \
	       "kernel records that one window can hold")                 \
	CONFIG(rows, "MOETOP_ROWS", 1, 0, 2,                              \
	       "rows per expert until a collector says otherwise: "       \
	       "0 off, 1 sampled, 2 exact")                               \
	CONFIG(experts, "MOETOP_EXPERTS", 0, 0, 1024,                     \
	       "routed experts of a MoE layer until a collector tells")   \
	CONFIG(top_k, "MOETOP_TOP_K", 0, 0, 64,                           \
	       "experts of a token until a collector tells")

struct config {
#define CONFIG(member, ...) uint32_t member;
	CONFIG_TABLE
#undef CONFIG
};

/* Defaults overlaid by the environment.  *wrong: the first variable that was
 * ignored, a constant string, or NULL. */
void config_read(struct config *c, const char **wrong);

#endif
