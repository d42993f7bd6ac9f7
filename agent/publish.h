/*
 * publish.h - records into the ring; the agent's thread only
 */
#ifndef MOETOP_AGENT_PUBLISH_H
#define MOETOP_AGENT_PUBLISH_H

#include <stdint.h>

#include "agent/rows.h"
#include "cupti/reduce.h"

enum text_level { TEXT_INFO, TEXT_WARNING, TEXT_ERROR };

/* A new life: what was said before is forgotten. */
void publish_reset(void);

void publish_status(void);
void publish_tick(void);
__attribute__((format(printf, 2, 3))) void
publish_text(enum text_level level, const char *format, ...);

/*
 * Everything about one window, REC_WINDOW last.  rows may be NULL.  *offset_ns
 * turns CUPTI's times into CLOCK_MONOTONIC; NULL: unknown, then no sampled step
 * is sent, since it could not be dated.
 */
void publish_window(uint32_t number, uint64_t start_ns, uint64_t end_ns,
		    const int64_t *offset_ns, uint32_t kernels,
		    const struct reduce_result *w,
		    const struct rows_result *rows);

/* Of a window whose sums are not to be used: that it was there. */
void publish_lost_window(uint32_t number, uint64_t start_ns, uint64_t end_ns,
			 uint32_t kernels, uint32_t steps);

#endif
