/*
 * window.h - kernel records on for half a second, then off and reduced
 *
 * The agent's thread only.  A window is open, then draining (records of kernels
 * that were still running), then closed, when its sums go to the ring.
 */
#ifndef MOETOP_AGENT_WINDOW_H
#define MOETOP_AGENT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* Memory that every life needs, as far as it is not there; the buffers come with
 * the first window.  0 or -ENOMEM. */
int window_init(void);
/* Give it back; windows are numbered anew.  No sampler may be there. */
void window_fini(void);

/* Open one.  On failure the agent is disabled. */
void window_open(uint64_t now_ns, bool rows);

/* Flush, decode, close: call every 10 ms while one is not closed. */
void window_poll(uint64_t now_ns);

/* Close at once and throw the window away; what it has cost still counts. */
void window_abort(void);

/* Copy the record counters into the tick. */
void window_count(void);

#endif
